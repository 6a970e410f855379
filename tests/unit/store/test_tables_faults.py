"""The relational tables after a failed sync: nothing more is acknowledged until they are opened again."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import text

from playproof.store.db.engine import opened, writing

WRITER = """
import sys
from sqlalchemy import text
from playproof.errors import StoreError
from playproof.store.db.engine import connect, writing
from playproof.store.db.group_commit import GroupWriter
engine = connect(url="sqlite:///" + sys.argv[1])
with writing(engine) as connection:
    connection.execute(text("CREATE TABLE IF NOT EXISTS facts (number INTEGER PRIMARY KEY)"))
with GroupWriter(engine) as writer:
    for number in range(20):
        try:
            writer.write(lambda connection: connection.execute(text(f"INSERT INTO facts VALUES ({number})")) and None)
            print("ack", number, flush=True)
        except StoreError as error:
            print("refused" if "an earlier one failed" in str(error) else "failed", number, flush=True)
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("when", [6, 9, 14])
def test_after_a_failed_sync_the_tables_acknowledge_nothing_more(tmp_path: Path, when: int) -> None:
    path = tmp_path / "tables.db"
    command = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", str(tmp_path / "trace"), "-e", "trace=fdatasync,fsync"]
    inject = ["-e", f"inject=fdatasync:error=EIO:when={when}"]
    done = subprocess.run(
        [*command, *inject, sys.executable, "-c", WRITER, str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    lines = done.stdout.split("\n")[:-1]
    words = [line.split()[0] for line in lines]
    assert words.count("failed") == 1, (done.stdout, done.stderr)
    failed = words.index("failed")
    assert words == ["ack"] * failed + ["failed"] + ["refused"] * (19 - failed), done.stdout
    with opened(url=f"sqlite:///{path}") as engine:  # opened again, it takes writes and has what was acknowledged
        with writing(engine) as connection:
            connection.execute(text("INSERT INTO facts VALUES (100)"))
        with engine.connect() as connection:
            numbers = set(connection.execute(text("SELECT number FROM facts")).scalars())
    assert numbers >= {*range(failed), 100}
    assert numbers <= {*range(failed + 1), 100}  # the one that failed may or may not be there
