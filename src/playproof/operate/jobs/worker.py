"""Run the jobs of a home, a few at a time, one thread and no state that a kill could lose.

What a job leaves in `jobs/ID/` of the home: `log.txt` (all it printed), `lock` (held while its process lives),
`pid-N` and `exit-N.json` (process group and exit code of attempt N). The database says who watches a job, the lock says
whether it lives:

| lease | lock | what a worker does |
|---|---|---|
| - | free, waiting | begins it |
| ended | held | watches it from now on: only its worker was killed |
| ended | free, exit code written | writes that it ended |
| ended | free, no exit code | goes on where the command can (--resume, or again), else says why not |
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from playproof.errors import InputError, StoreError
from playproof.operate.jobs import queue, runner
from playproof.operate.jobs.commands import find_command, resumed
from playproof.operate.jobs.queue import Job
from playproof.store.db import writing

MOST_ATTEMPTS = 5
"""Of a job by itself; a command that kills its own process would else begin for ever."""
LEASE = timedelta(seconds=30)
LOOK_SECONDS = 5.0
"""Between two looks for jobs that nobody rang the bell for."""
PAUSE = 0.1
PATIENCE = (0.0, 10.0, 20.0)
"""Seconds after which a job that was cancelled gets SIGINT, SIGTERM, SIGKILL."""
LOG, LOCK = "log.txt", "lock"
PROGRAM = (sys.executable, "-P", "-m", "playproof")
"""-P: no module of the folder that it runs in is imported."""


def utc_now() -> datetime:
    """Give the time."""
    return datetime.now(UTC)


@dataclass
class WatchedJob:
    """An attempt that this worker watches."""

    job_id: str
    attempt: int
    folder: Path
    process: subprocess.Popen[bytes] | None
    """None where another worker started it."""
    cancel_since: float | None = None
    signals: int = 0

    @property
    def alive(self) -> bool:
        """Tell whether its process lives; its own children are collected first."""
        if self.process is not None and self.process.poll() is None:
            return True
        lock = _try_lock(self.folder / LOCK)
        if lock is None:
            return True
        os.close(lock)
        return False


class JobWorker:
    """Take, run and watch the jobs of one home."""

    def __init__(
        self,
        engine: Engine,
        root: Path,
        *,
        slots: int = 2,
        lease: timedelta = LEASE,
        program: Sequence[str] = PROGRAM,
        clock: Callable[[], datetime] = utc_now,
        say: Callable[[str], object] = lambda _: None,
    ) -> None:
        self.engine, self.root, self.slots, self.lease = engine, root, slots, lease
        self._program, self._clock, self._say = tuple(program), clock, say
        self.name = f"{os.uname().nodename}:{os.getpid()}:{os.urandom(4).hex()}"
        self._home_id = queue.home_id(root)
        self.watched: dict[str, WatchedJob] = {}
        self._bell = 0
        self._looked = self._renewed = -LOOK_SECONDS * 1000
        self._complained = False

    def step(self) -> bool:
        """Do what is due; tell whether anything happened. A database that is away is waited for."""
        try:
            happened = self._collect()
            now, bell = time.monotonic(), self._bell_rung()
            if self.watched and (bell or now - self._renewed > self.lease.total_seconds() / 3):
                self._renew()
            self._signal()
            if bell or happened or now - self._looked > LOOK_SECONDS:
                self._looked = now
                while len(self.watched) < self.slots and self._take_one():
                    happened = True
        except (DBAPIError, StoreError) as error:
            if not self._complained:
                self._say(f"the database does not answer, running jobs go on: {error}")
            self._complained, self._bell = True, 0
            time.sleep(PAUSE)
            return False
        self._complained = False
        return happened

    def run(self, stopped: Callable[[], bool], *, until_idle: bool = False) -> None:
        """Work until told to stop, or until nothing is left to do."""
        while not stopped():
            if not self.step():
                if until_idle and not self.watched:
                    return
                time.sleep(PAUSE)
        self.stop()

    def stop(self, seconds: float = 20.0) -> None:
        """Interrupt the jobs as Ctrl-C does and give them back: those that can go on do so with the next worker."""
        ending = time.monotonic() + seconds
        for job in self.watched.values():
            _send(job, signal.SIGINT)
        while self.watched and time.monotonic() < ending:
            for job in [job for job in self.watched.values() if not job.alive]:
                self._settle(job, stopping=True)
            time.sleep(PAUSE)

    def _bell_rung(self) -> bool:
        try:
            rung = (self.root / queue.JOBS / queue.BELL).stat().st_mtime_ns
        except FileNotFoundError:
            rung = 0
        rung, self._bell = self._bell, rung
        return rung != self._bell

    def _take_one(self) -> bool:
        """Take a job that may be taken; tell whether there was one."""
        locks: list[int] = []
        try:
            with writing(self.engine) as connection:
                chosen = self._choose(connection, locks)
        except BaseException:
            for lock in locks:
                os.close(lock)
            raise
        if chosen is None:
            return False
        job, watched = chosen
        self.watched[job.job_id] = watched
        if locks:
            self._begin(job, watched, locks[0])
        else:
            self._say(f"{job.job_id}: watching what another worker began")
        return True

    def _choose(self, connection: Connection, locks: list[int]) -> tuple[Job, WatchedJob] | None:
        """Choose a job and write that it is ours; the lock of one that shall begin is put into `locks`."""
        now = self._clock()
        for job in queue.candidates(connection, self._home_id, now):
            if job.job_id in self.watched:
                continue
            folder = queue.jobs_folder(self.root) / job.job_id
            folder.mkdir(exist_ok=True)
            watched = WatchedJob(job.job_id, job.attempts, folder, None)
            if job.status == "running":
                # Also one whose process is gone: how it ended is written as of any job that this worker watches.
                queue.take(connection, job, self.name, now, self.lease, begin=False)
                return job, watched
            lock = _try_lock(folder / LOCK)
            if lock is None:
                continue  # an earlier attempt is still ending
            locks.append(lock)
            queue.take(connection, job, self.name, now, self.lease, begin=True)
            watched.attempt += 1
            return job, watched
        return None

    def _begin(self, job: Job, watched: WatchedJob, lock: int) -> None:
        """Start the runner, which takes the lock over."""
        try:
            words = resumed(job.arguments, self.root) if job.attempts else job.arguments
            find_command(words)
            with (watched.folder / LOG).open("ab") as log:
                log.write(f"$ {job.command}{' --resume' if len(words) > len(job.arguments) else ''}\n".encode())
            command = [*self._program, *words]
            python = [sys.executable, "-I", "-S", runner.__file__]
            watched.process = subprocess.Popen(  # noqa: S603 - an allow-listed command line
                [*python, str(watched.folder), str(watched.attempt), str(lock), *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=self.root,
                env={**os.environ, "PLAYPROOF_HOME": str(self.root), "PYTHONUNBUFFERED": "1"},
                pass_fds=(lock,),
                start_new_session=True,
            )
        except (InputError, OSError) as error:
            runner.write(str(watched.folder / f"exit-{watched.attempt}.json"), {"exit_code": 1})
            with (watched.folder / LOG).open("ab") as log:
                log.write(f"error: {error}\n".encode())
        finally:
            os.close(lock)
        self._say(f"{job.job_id}: {job.command}")

    def _collect(self) -> bool:
        """Write how jobs ended whose processes are gone."""
        gone = [job for job in self.watched.values() if not job.alive]
        for job in gone:
            self._settle(job)
        return bool(gone)

    def _settle(self, job: WatchedJob, *, stopping: bool = False) -> None:
        """Write how one attempt ended, and what comes next."""
        code = _exit_code(job)
        stored = queue.read_job(self.engine, self.root, job.job_id)
        reason: str | None = None
        if stored.cancel_asked:
            status, reason = ("done" if code == 0 else "cancelled"), "ended by a person"
        elif stopping and code != 0:
            status, reason = self._lost(stored, "the worker was stopped")
        elif code is None:
            status, reason = self._lost(stored, "its process was killed")
        elif code in (0, 2):
            status, reason = "done", "a gate or goal said no" if code else None
        else:
            status, reason = "failed", _last_line(job.folder / LOG)
        if not queue.settle(
            self.engine, job.job_id, self.name, job.attempt, self._clock(), status=status, exit_code=code, reason=reason
        ):
            self._say(f"{job.job_id}: another worker has it")
        del self.watched[job.job_id]
        queue.ring(self.root)
        self._say(f"{job.job_id}: {status}{f', {reason}' if reason else ''}")

    def _lost(self, job: Job, what: str) -> tuple[str, str]:
        """Say what becomes of a job without an end: back into the queue, or not and why."""
        command = find_command(job.arguments)
        if not (queue.jobs_folder(self.root) / job.job_id / f"pid-{job.attempts}").exists():
            return "waiting", f"{what} before it began"
        if command.on_loss == "never":
            return "failed", f"{what} and it does not go on: {command.why}"
        if job.attempts >= MOST_ATTEMPTS:
            return "failed", f"{what} in {job.attempts} attempts; look at its log, then retry it"
        return "waiting", f"{what}; it goes on"

    def _renew(self) -> None:
        """Renew the leases, and note what was cancelled and what another worker has taken."""
        self._renewed = time.monotonic()
        own = {job.job_id: job for job in queue.renew(self.engine, self.name, self._clock(), self.lease)}
        for identity, watched in list(self.watched.items()):
            stored = own.get(identity)
            if stored is None:
                del self.watched[identity]  # another worker watches it since our lease ended; its process is untouched
            elif stored.cancel_asked and watched.cancel_since is None:
                watched.cancel_since = time.monotonic()

    def _signal(self) -> None:
        """Send what is due to jobs that were cancelled."""
        for job in self.watched.values():
            numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
            since = job.cancel_since
            while since is not None and job.signals < 3 and time.monotonic() - since >= PATIENCE[job.signals]:
                _send(job, numbers[job.signals])
                job.signals += 1


def read_log(root: Path, job_id: str, most: int = 20_000) -> str:
    """Give the end of what a job printed."""
    path = queue.jobs_folder(root) / job_id / LOG
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - most))
        return file.read(most).decode("utf-8", "replace")


def _try_lock(path: Path) -> int | None:
    """Take a lock; None where somebody holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _exit_code(job: WatchedJob) -> int | None:
    path = job.folder / f"exit-{job.attempt}.json"
    try:
        code = json.loads(path.read_text(encoding="utf-8"))["exit_code"]
    except FileNotFoundError:
        return None
    return int(code)


def _send(job: WatchedJob, number: signal.Signals) -> None:
    """Send a signal to a job's process group, which lives as long as its lock is held."""
    try:
        group = int((job.folder / f"pid-{job.attempt}").read_text(encoding="utf-8"))
        if job.alive:
            os.killpg(group, number)
    except (FileNotFoundError, ValueError, ProcessLookupError):
        return


def _last_line(path: Path) -> str | None:
    lines = [line for line in path.read_text(encoding="utf-8", errors="replace")[-4_000:].splitlines() if line.strip()]
    return lines[-1][:300] if lines else None
