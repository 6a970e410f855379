"""A real PostgreSQL for the tests, from the wheel `pgserver`: started once a test session, stopped at its end."""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


class Postgres:
    """One server with a folder of its own, reached over a socket in that folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._numbers = itertools.count()
        self._server: Any = None
        self._again: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Make and start the server."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pgserver.postgres_server import PostgresServer

            self._server = PostgresServer(self.folder, cleanup_mode="stop")

    def start_again(self, seconds: float = 60.0) -> None:
        """Start it again after it was killed, without the second that pg_ctl waits; give it back when it answers."""
        import psycopg

        command = shlex.split((self.folder / "postmaster.opts").read_text())
        owner = self.folder.stat().st_uid if os.geteuid() == 0 else None
        quick = "recovery_init_sync_method=syncfs"  # or recovery opens and syncs a thousand files by name
        options = () if quick in command else ("-c", quick)
        silent = subprocess.DEVNULL
        self._again = subprocess.Popen([*command, *options], user=owner, stdout=silent, stderr=silent)
        end = time.monotonic() + seconds
        while True:
            try:
                psycopg.connect(self.url()).close()
            except psycopg.OperationalError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)
            else:
                return

    def kill(self) -> None:
        """Stop it as `pg_ctl stop -m immediate` does: at once, without a word to anybody."""
        from psutil import Process

        process = Process(int((self.folder / "postmaster.pid").read_text().split()[0]))
        family = [process, *process.children(recursive=True)]
        process.send_signal(signal.SIGQUIT)
        end = time.monotonic() + 20
        while any(map(_alive, family)) and time.monotonic() < end:
            time.sleep(0.005)
        if self._again is not None:
            self._again.wait()
            self._again = None

    def stop(self) -> None:
        """Stop it for good: nothing of it is kept, so it need not write anything down."""
        import atexit

        atexit.unregister(self._server._cleanup)
        self.kill()

    def url(self, schema: str = "public") -> str:
        """Give the URL of one of its schemas."""
        return f"postgresql://postgres@/postgres?host={self.folder}&options=-csearch_path%3D{schema}"

    def new(self) -> str:
        """Make an empty schema, which is much faster to make than a database, and give its URL."""
        import psycopg

        name = f"test_{next(self._numbers)}_{time.monotonic_ns()}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return self.url(name)


def _alive(process: Any) -> bool:
    """Tell whether a process still runs; a zombie, which nobody may ever collect, does not."""
    from psutil import STATUS_ZOMBIE, NoSuchProcess

    try:
        return bool(process.status() != STATUS_ZOMBIE)
    except NoSuchProcess:
        return False


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Give a server, or skip where the wheel is not installed."""
    pytest.importorskip("pgserver", reason="POSTGRESQL TEST NOT RUN: pgserver is not installed", exc_type=ImportError)
    folder = Path(tempfile.mkdtemp(prefix="pp-pg-", dir="/tmp"))
    server = Postgres(folder)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
