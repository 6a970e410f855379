"""Jobs: which command lines may be one, who may take it, and what becomes of it when something is killed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from job_proofs import Bench, job_bench, survive_kills
from sqlalchemy import Engine

from playproof.cli.app import main
from playproof.errors import InputError
from playproof.operate.jobs import queue
from playproof.operate.jobs.commands import find_command, resumed
from playproof.operate.jobs.worker import JobWorker, read_log
from playproof.store.db import connect, upgrade, writing

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'jobs.db'}"
    return str(request.getfixturevalue("postgres").new())


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    engine = connect(url=url)
    upgrade(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def bench(tmp_path: Path, engine: Engine, url: str) -> Iterator[Bench]:
    with job_bench(tmp_path / "a", engine, url) as result:
        yield result


def worker(bench: Bench, **settings: object) -> JobWorker:
    program = [sys.executable, "-I", "-S", str(bench.command)]
    return JobWorker(bench.engine, bench.root, program=program, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "words",
    [
        "rm -rf x",
        "train",
        "train ppo --output x",
        "train bc --name ../x",
        "train bc --name=/etc",
        "train ppo --set base=/etc/passwd",
        "validate os:system",
        "validate evil.py:run",
        "record socket file:///etc/passwd",
        "record socket http://a --auth {}",
        "store export /tmp/x.parquet",
        "train tune my.module:trainer",
        "dashboard",
        "worker",
        "validate ~root/x",
    ],
)
def test_what_may_not_be_a_job_is_refused(words: str) -> None:
    with pytest.raises(InputError, match="expected"):
        find_command(words.split())


def test_what_may_be_a_job() -> None:
    for words in (
        "train bc --game crash --world published --player best:0.2 --name clone --seed -1",
        "validate baseline:wait --rounds 200",
        "record socket http://127.0.0.1:8777 --seconds 5",
        "train tune ppo --axis learning_rate=log:0.001:0.1 --name s",
        "validate runs/a/checkpoints/000 --world published",
    ):
        assert find_command(words.split())
    with pytest.raises(InputError, match="expected a word"):
        find_command(["train", "bc", "--name", "a\nb"])


def test_a_lost_training_goes_on_where_it_has_begun(tmp_path: Path) -> None:
    words = ["train", "ppo", "--name", "a"]
    assert resumed(words, tmp_path) == words
    (tmp_path / "runs" / "a").mkdir(parents=True)
    (tmp_path / "runs" / "a" / "config.json").write_text("{}")
    assert resumed(words, tmp_path) == [*words, "--resume"]
    assert resumed([*words, "--resume"], tmp_path) == [*words, "--resume"]
    assert resumed(["validate", "a"], tmp_path) == ["validate", "a"]


def test_a_job_is_run_with_its_log_and_end(bench: Bench) -> None:
    job = bench.add("one", 0.0)
    assert queue.enqueue(bench.engine, bench.root, ["audit"], "x", NOW, job.job_id) == job, "sent twice is one"
    worker(bench).run(lambda: False, until_idle=True)
    done = queue.read_job(bench.engine, bench.root, job.job_id[:6])
    assert (done.status, done.exit_code, done.attempts) == ("done", 0, 1)
    assert read_log(bench.root, job.job_id).startswith("$ playproof dataset build --name one")
    assert bench.ended() == {"one": 1}


def test_failed_and_refused_jobs_say_why_and_are_retried(bench: Bench) -> None:
    bench.command.write_text("import sys; print('error: no such world', file=sys.stderr); sys.exit(1)")
    job = bench.add("bad")
    worker(bench).run(lambda: False, until_idle=True)
    failed = queue.read_job(bench.engine, bench.root, job.job_id)
    assert (failed.status, failed.exit_code, failed.reason) == ("failed", 1, "error: no such world")
    bench.command.write_text("import sys; sys.exit(2)")
    assert queue.retry(bench.engine, bench.root, job.job_id).status == "waiting"
    worker(bench).run(lambda: False, until_idle=True)
    again = queue.read_job(bench.engine, bench.root, job.job_id)
    assert (again.status, again.reason, again.attempts) == ("done", "a gate or goal said no", 2)
    with pytest.raises(InputError, match="failed or was cancelled"):
        queue.retry(bench.engine, bench.root, job.job_id)


def test_cancel_before_and_in_mid_job(bench: Bench) -> None:
    waiting, running = bench.add("never"), bench.add("long", 300.0)
    assert queue.cancel(bench.engine, bench.root, waiting.job_id, NOW).status == "cancelled"
    working = worker(bench)
    bench.wait(lambda: working.step() or (bench.root / "alive-long").exists(), "it runs")
    bench.wait((bench.root / "alive-long").exists, "it runs")
    queue.cancel(bench.engine, bench.root, running.job_id, NOW)
    working.run(lambda: False, until_idle=True)
    ended = queue.read_job(bench.engine, bench.root, running.job_id)
    assert (ended.status, ended.reason) == ("cancelled", "ended by a person")
    assert not bench.ended()


def test_two_homes_on_one_database_do_not_run_each_others_jobs(bench: Bench, tmp_path: Path) -> None:
    job = bench.add("mine", 0.0)
    other = Bench(tmp_path / "b", bench.engine, bench.url)
    worker(other).run(lambda: False, until_idle=True)
    assert queue.read_job(bench.engine, bench.root, job.job_id).status == "waiting"
    assert other.jobs() == []
    with pytest.raises(InputError, match="expected one job"):
        queue.read_job(other.engine, other.root, job.job_id)
    worker(bench).run(lambda: False, until_idle=True)
    assert bench.ended() == {"mine": 1}
    assert not other.ended()


def test_a_job_outlives_its_worker_and_is_watched_by_the_next(bench: Bench) -> None:
    job = bench.add("long", 2.0)
    first = bench.start_worker()
    bench.wait((bench.root / "alive-long").exists, "it runs")
    bench.kill_worker(first)
    worker(bench, lease=timedelta(seconds=1)).step()  # the lease may still hold, and the lock does
    bench.start_worker()
    bench.wait(bench.all_ended, "it ends")
    done = queue.read_job(bench.engine, bench.root, job.job_id)
    assert (done.status, done.attempts, bench.ended()) == ("done", 1, {"long": 1})


def test_a_killed_job_goes_on_or_says_why_not(bench: Bench) -> None:
    again, never = bench.add("again", 0.5), bench.add("never", 0.5, ("perform", "crash"))
    working = worker(bench, slots=2)
    for name in ("again", "never"):
        bench.wait(lambda name=name: working.step() or (bench.root / f"alive-{name}").exists(), "it runs")  # type: ignore[misc]
        bench.wait(lambda name=name: (bench.root / f"alive-{name}").exists(), "it runs")  # type: ignore[misc]
    for job in (again, never):
        pid = int((bench.root / "jobs" / job.job_id / "pid-1").read_text())
        os.killpg(pid, signal.SIGKILL)
    working.run(lambda: False, until_idle=True)
    bench.wait(lambda: working.step() or bench.all_ended(), "both end")
    working.run(lambda: False, until_idle=True)
    first, second = (queue.read_job(bench.engine, bench.root, job.job_id) for job in (again, never))
    assert (first.status, first.attempts) == ("done", 2)
    assert (second.status, second.attempts) == ("failed", 1)
    assert second.reason == (
        "its process was killed and it does not go on: what was recorded is in the store; begin a new recording"
    )
    assert bench.ended() == {"again": 1}


def test_a_job_that_was_taken_and_not_begun_goes_back(bench: Bench) -> None:
    job = bench.add("never", 0.0, ("perform", "crash"))
    with writing(bench.engine) as connection:
        queue.take(connection, job, "gone", NOW - timedelta(hours=1), timedelta(0), begin=True)
    worker(bench).run(lambda: False, until_idle=True)
    worker(bench).run(lambda: False, until_idle=True)
    assert bench.ended() == {"never": 1}


def test_who_lost_a_job_cannot_write_to_it(bench: Bench) -> None:
    job = bench.add("one", 0.0)
    with writing(bench.engine) as connection:
        queue.take(connection, job, "first", NOW, timedelta(seconds=1), begin=True)
    stored = queue.read_job(bench.engine, bench.root, job.job_id)
    with writing(bench.engine) as connection:
        queue.take(connection, stored, "second", NOW, timedelta(seconds=1), begin=False)
    end = {"status": "done", "exit_code": 0, "reason": None}
    assert not queue.settle(bench.engine, job.job_id, "first", 1, NOW, **end)  # type: ignore[arg-type]
    assert not queue.settle(bench.engine, job.job_id, "second", 2, NOW, **end)  # type: ignore[arg-type]
    assert queue.settle(bench.engine, job.job_id, "second", 1, NOW, **end)  # type: ignore[arg-type]


def test_a_stopped_worker_gives_its_jobs_back(bench: Bench) -> None:
    job = bench.add("long", 300.0)
    working = worker(bench)
    bench.wait(lambda: working.step() or (bench.root / "alive-long").exists(), "it runs")
    bench.wait((bench.root / "alive-long").exists, "it runs")
    working.stop()
    stored = queue.read_job(bench.engine, bench.root, job.job_id)
    assert (stored.status, stored.reason) == ("waiting", "the worker was stopped; it goes on")


def test_kills_at_random(bench: Bench) -> None:
    assert survive_kills(bench, kills=4, jobs=4, seed=7) >= 4


def test_a_database_that_is_killed_in_mid_job(tmp_path: Path) -> None:
    from postgres import running_postgres

    with running_postgres() as server:
        url = server.new()
        engine = connect(url=url)
        upgrade(engine)
        with job_bench(tmp_path / "a", engine, url) as bench:
            job = bench.add("long", 1.0)
            bench.start_worker()
            bench.wait((bench.root / "alive-long").exists, "it runs")
            server.kill()
            end = bench.root / "ended.txt"
            bench_wait_file(end)
            server.start_again()
            engine.dispose()
            bench.wait(bench.all_ended, "its end is written when the database is back")
            done = queue.read_job(engine, bench.root, job.job_id)
            assert (done.status, done.attempts, bench.ended()) == ("done", 1, {"long": 1})
        engine.dispose()


def bench_wait_file(path: Path, seconds: float = 60.0) -> None:
    import time

    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_commands_show_and_change_jobs(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from playproof.store.db import opened, ready

    with opened(home) as engine:
        job = queue.enqueue(ready(engine), home, ["audit", "mine"], "test", NOW)
    assert main(["jobs", "ls", "--json"]) == 0
    assert job.job_id in capsys.readouterr().out
    assert main(["jobs", "cancel", job.job_id[:5]]) == 0
    assert main(["jobs", "show", job.job_id]) == 0
    assert "cancelled before it began" in capsys.readouterr().out
    assert main(["jobs", "retry", job.job_id, "--json"]) == 0
    assert '"waiting"' in capsys.readouterr().out
    assert main(["jobs", "ls", "--status", "odd"]) == 1
