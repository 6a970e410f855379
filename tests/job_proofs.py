"""Jobs under kills: a command that notes what it does, workers that are killed, and what must hold afterwards."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Engine

from playproof.operate.jobs.queue import Job, enqueue, list_jobs

COMMAND = """
import fcntl, os, sys, time
name = sys.argv[sys.argv.index("--name") + 1]
seconds = float(sys.argv[sys.argv.index("--seconds") + 1])
mark = "alive-" + name
held = open(mark, "w")
try:
    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    open("twice.txt", "a").write(name + "\\n")
end = time.monotonic() + seconds
while time.monotonic() < end:
    time.sleep(0.01)
with open("ended.txt", "a") as file:
    file.write(name + "\\n")
"""
WORKER = """
import os, sys
from datetime import timedelta
from pathlib import Path
from playproof.operate.jobs.worker import JobWorker
from playproof.store.db import connect
root, url, command = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
program = [sys.executable, "-I", "-S", command]
worker = JobWorker(connect(url=url), root, slots=3, lease=timedelta(seconds=1), program=program)
parent = os.getppid()
worker.run(lambda: os.getppid() != parent)
"""


class Bench:
    """A home with jobs, and workers in processes of their own."""

    def __init__(self, root: Path, engine: Engine, url: str) -> None:
        self.root, self.engine, self.url = root, engine, url
        root.mkdir(parents=True, exist_ok=True)
        self.command = root / "command.py"
        self.command.write_text(COMMAND)
        self.workers: list[subprocess.Popen[bytes]] = []

    def add(self, name: str, seconds: float = 0.2, words: tuple[str, ...] = ("dataset", "build")) -> Job:
        """Put in a job that takes so long; `words` say what becomes of it when it is lost."""
        arguments = [*words, "--name", name, "--seconds", str(seconds)]
        return enqueue(self.engine, self.root, arguments, "test", datetime.now(UTC))

    def start_worker(self) -> subprocess.Popen[bytes]:
        """Start a worker of this home."""
        process = subprocess.Popen([sys.executable, "-c", WORKER, str(self.root), self.url, str(self.command)])
        self.workers.append(process)
        return process

    def kill_worker(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a worker without a word."""
        process.kill()
        process.wait()
        self.workers.remove(process)

    def kill_jobs(self, random_source: random.Random) -> int:
        """Kill the whole process group of a running job, as a machine that goes down does; give how many."""
        running = [job for job in self.jobs() if job.status == "running"]
        killed = 0
        for job in running:
            path = self.root / "jobs" / job.job_id / f"pid-{job.attempts}"
            if path.exists() and random_source.random() < 0.5:
                try:
                    os.killpg(int(path.read_text() or 0), signal.SIGKILL)
                    killed += 1
                except (ProcessLookupError, ValueError):
                    continue
        return killed

    def jobs(self) -> list[Job]:
        """Give the jobs of this home."""
        return list_jobs(self.engine, self.root, limit=10_000)

    def ended(self) -> Counter[str]:
        """Count how often each job's command came to its end."""
        path = self.root / "ended.txt"
        return Counter(path.read_text().split()) if path.exists() else Counter()

    def twice(self) -> bool:
        """Tell whether a command ever ran beside itself."""
        return (self.root / "twice.txt").exists()

    def wait(self, true: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
        """Wait until something holds."""
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, f"{what}: {[(job.job_id, job.status, job.reason) for job in self.jobs()]}"
            time.sleep(0.02)

    def all_ended(self) -> bool:
        """Tell whether every job has come to an end."""
        return all(job.ended for job in self.jobs())


@contextmanager
def job_bench(root: Path, engine: Engine, url: str) -> Iterator[Bench]:
    """Give a bench, and end its workers."""
    bench = Bench(root, engine, url)
    try:
        yield bench
    finally:
        for process in list(bench.workers):
            bench.kill_worker(process)


def survive_kills(bench: Bench, kills: int, jobs: int, seed: int, seconds: float = 0.3) -> int:
    """Kill workers and jobs at random while jobs run; check that each ended once and none ran beside itself."""
    source = random.Random(seed)
    for number in range(jobs):
        bench.add(f"job{number}", seconds)
    worker = bench.start_worker()
    killed = 0
    while killed < kills:
        bench.wait(lambda: bench.all_ended() or any(j.status == "running" for j in bench.jobs()), "something runs")
        if bench.all_ended():
            bench.add(f"more{killed}", seconds)
            continue
        time.sleep(source.random() * 0.3)
        if source.random() < 0.5:
            killed += bench.kill_jobs(source)
        else:
            bench.kill_worker(worker)
            worker = bench.start_worker()
            killed += 1
    bench.wait(bench.all_ended, "every job ends")
    assert not bench.twice()
    counts = bench.ended()
    for job in bench.jobs():
        name = job.arguments[job.arguments.index("--name") + 1]
        assert counts[name] == 1 if job.status == "done" else counts[name] == 0 and job.reason, (job, counts[name])
    return killed
