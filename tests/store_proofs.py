"""What the proofs of the store share: numbered events, a writer to be killed, and the check that nothing is missing.

As a program it is the writer. `serve` forks one writer for each line on stdin, so that a thousand kills do not need
a thousand starts of Python; `stopped` forks writers that go on after a failure, for faults that strace injects.
"""

from __future__ import annotations

import atexit
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from playproof.errors import PlayproofError, StoreError
from playproof.events import DOC_TYPES, Event
from playproof.game import Column
from playproof.store import EventLog, EventStore, compact

START = datetime(2026, 3, 1, 23, 59, 50, tzinfo=UTC)
SESSION = "proof"
COLUMNS = (
    Column("tick", "int", "ticks", "the tick"),
    Column("price", "float", "multiplier", "the price"),
    Column("cash", "money", "10^-9", "money"),
    Column("forced", "bool", "flag", "a flag"),
    Column("coin", "text", "id", "a text"),
)


def numbered(seq: int, session: str = SESSION) -> Event:
    """Give the event that a number stands for."""
    columns = {
        "tick": seq % 50,
        "price": 1.0 + seq / 7,
        "cash": 10**15 + seq,
        "forced": seq % 3 == 0,
        "coin": f"c{seq % 5}",
    }
    return Event(
        ts=START + timedelta(milliseconds=37 * seq),
        source="public_ws",
        doc_type=DOC_TYPES[seq % 4],
        session_id=session,
        seq=seq,
        event_name="tick",
        window_id=None if seq % 11 == 0 else f"w{seq // 25}",
        raw=json.dumps({"seq": seq, "filler": "x" * (seq * 37 % 300)}),
        columns=columns,
    )


def stored(home: Path) -> int:
    """Read everything, check that it is events 0 to n - 1, each once and unchanged; give n."""
    store = EventStore(home)
    count = 0
    for event in store.events(session_id=SESSION):
        assert event == numbered(count), f"expected event {count}, found {event}"
        count += 1
    assert store.problems == (), store.problems
    return count


def tell(*words: object) -> None:
    """Acknowledge over the pipe, in one write."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def write(home: Path, start: int, seed: int) -> None:
    """Append numbered events from `start` on, compact now and then, until killed."""
    rng = random.Random(seed)
    with EventLog.open(home, COLUMNS) as log:
        while True:
            size = rng.choice((1, 1, 2, 5, 40))
            events = [numbered(seq) for seq in range(start, start + size)]
            if rng.random() < 0.3:
                futures = [log.submit(events[:1]), log.submit(events[1:])]
                for future in futures:
                    future.result()
            else:
                log.append(events)
            start += size
            tell("ack", start)
            if rng.random() < 0.15:
                log.compact(final=rng.random() < 0.2)


def serve(home_root: Path) -> None:
    """Fork a writer for each line `folder start seed`; tell its process, and its end."""
    for line in sys.stdin:
        folder, start, seed = line.split()
        child = os.fork()
        if child == 0:
            try:
                write(home_root / folder, int(start), int(seed))
            finally:
                os._exit(1)
        tell("pid", child)
        os.waitpid(child, 0)
        tell("end")


class Killer:
    """A server of writers, and the kills."""

    def __init__(self, root: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "serve", str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def kill_one(self, folder: str, start: int, seed: int, after: int, delay: float) -> int:
        """Start a writer, kill -9 it a while after some acknowledgements; give the events it acknowledged last."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{folder} {start} {seed}\n")
        self.process.stdin.flush()
        acknowledged, payload, child = start, -1, 0
        for line in self.process.stdout:
            word, *rest = line.split()
            payload += 1
            if word == "pid":
                child = int(rest[0])
            elif word == "ack":
                acknowledged = int(rest[0])
            elif word == "end":
                return acknowledged
            if payload == after:
                time.sleep(delay)
                os.kill(child, signal.SIGKILL)
        raise AssertionError("the server of writers ended")

    def __enter__(self) -> Killer:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(30)
        assert self.process.stdout
        self.process.stdout.close()


def kills(root: Path, count: int, seed: int, per_home: int = 25) -> Iterator[tuple[int, int]]:
    """Kill writers at random times; check after each that all it acknowledged is there once; give kill and events."""
    rng = random.Random(seed)
    with Killer(root) as killer:
        for number in range(count):
            folder = f"home-{number // per_home}"
            if number % per_home == 0:
                acknowledged = 0
            resumed = rng.randint(max(0, acknowledged - 30), acknowledged)  # events that are sent again change nothing
            its_seed, after = rng.randrange(2**32), rng.choice((0, 0, 1, 5, 20))
            acknowledged = max(acknowledged, killer.kill_one(folder, resumed, its_seed, after, rng.uniform(0, 0.05)))
            there = stored(root / folder)
            assert there >= acknowledged, f"acknowledged {acknowledged} events, found {there}"
            acknowledged = there
            yield number + 1, there


def run(home: Path, total: int) -> None:
    """Append `total` events with a compaction on the way; after a failure be refused, reopen and go on."""
    acknowledged, attempts = 0, 0
    while acknowledged < total and attempts < 5:
        attempts += 1
        try:
            acknowledged = _run_once(home, acknowledged, total)
        except PlayproofError as error:
            tell("failed", str(error).replace("\n", " "))
            acknowledged = max(acknowledged, _run_once.acknowledged)
    tell("done" if acknowledged >= total else "gave up")


def _run_once(home: Path, start: int, total: int) -> int:
    _run_once.acknowledged = start
    with EventLog.open(home, COLUMNS) as log:
        for first in range(start, total, 5):
            try:
                log.append([numbered(seq) for seq in range(first, min(first + 5, total))])
            except StoreError:
                _expect_refusal(log, first)
                raise
            _run_once.acknowledged = min(first + 5, total)
            tell("ack", _run_once.acknowledged)
            if first % 60 == 55:
                log.compact()
    compact(home, final=True, grace=0)
    compact(home, final=True, grace=0)
    return total


_run_once.acknowledged = 0  # type: ignore[attr-defined]


def _expect_refusal(log: EventLog, seq: int) -> None:
    """After a failed commit the log takes nothing more and says so."""
    try:
        log.append([numbered(seq)])
    except StoreError as error:
        tell("refused", "read-only" in str(error))
    else:
        tell("refused", False)


def serve_stopped() -> None:
    """Fork a writer for each line `home total output`; it stops at once and runs when it is told to go on."""
    for line in sys.stdin:
        home, total, output = json.loads(line)
        child = os.fork()
        if child == 0:
            target = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(target, 1)
            os.dup2(target, 2)
            os.kill(os.getpid(), signal.SIGSTOP)
            run(Path(home), total)
            os._exit(0)
        tell("pid", child)
        tell("end", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


class Tracer:
    """A server of writers that strace follows from their first call on, without a start of Python for each."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "stopped"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        atexit.register(self.process.kill)

    def trace(self, home: Path, log: Path, options: Sequence[str], total: int) -> tuple[int, list[str]]:
        """Run one writer under strace; give its exit code and what it told."""
        output = log.with_name(f"{log.name}.told")
        assert self.process.stdin
        self.process.stdin.write(json.dumps([str(home), total, str(output)]) + "\n")
        self.process.stdin.flush()
        pid = self._read("pid")
        _wait_for(pid, "State:\tT")
        tracer = subprocess.Popen(["strace", "-f", "-qq", "-o", str(log), *options, "-p", str(pid)])
        _wait_for(pid, f"TracerPid:\t{tracer.pid}")
        os.kill(pid, signal.SIGCONT)
        code = self._read("end")
        tracer.wait(30)
        text = output.read_text()
        lines = [line for line in text.splitlines() if line.split(" ")[0] in WORDS]
        return code, lines + ([f"stderr {text}"] if "Traceback" in text else [])

    def _read(self, word: str) -> int:
        assert self.process.stdout
        result, number = self.process.stdout.readline().split()
        assert result == word
        return int(number)


def _wait_for(pid: int, text: str) -> None:
    """Wait until the kernel says so of a process."""
    deadline = time.monotonic() + 30
    while text not in Path(f"/proc/{pid}/status").read_text():
        assert time.monotonic() < deadline, text
        time.sleep(0.001)


WORDS = ("ack", "failed", "refused", "done", "gave")


@cache
def _tracer() -> Tracer:
    return Tracer()


def strace(home: Path, log: Path, options: Sequence[str], total: int = 60) -> tuple[int, list[str]]:
    """Run one writer under strace; give its exit code and what it told."""
    return _tracer().trace(home, log, options, total)


def acknowledged(names: Sequence[str]) -> int:
    """Give the last acknowledged number of what a writer told."""
    return max((int(line.split()[1]) for line in names if line.startswith("ack")), default=0)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(Path(sys.argv[2]))
    else:
        serve_stopped()
