"""The studio's ring with real processes: its TypeScript agents and market, PostgreSQL, judge, SFT, GRPO, and on again.

Agents ask a model through the official npm client with the recording proxy in between. First the studio's own rule
answers; SFT imitates what was recorded; the taught model is served and plays; GRPO learns from those windows; the new
version is served, and the same agents play on with it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from node_projects import clean_project, compile_strictly, find_node, recorder_package, run
from postgres import Postgres
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from test_trajectory_http import Running

from playproof.store.db import connect
from playproof.store.db.trajectories import StoredTrajectory, read_windows

__all__ = ["recorder_package"]

pytest.importorskip("torch", reason="RING TEST NOT RUN: training needs torch")
SOURCES = Path(__file__).resolve().parents[1] / "data" / "typescript"
OPENAI = "openai@6.49.0"
MARKET = "studio"
AGENTS, STEPS, WINDOWS = 6, 5, 4
CANARY = "canary"
"""In every outcome's news and question, and in nothing else."""


@dataclass
class ScriptedJudge:
    """An OpenAI-compatible judge that scores by the direction in which the market went, and keeps what it was shown."""

    prompts: list[str] = field(default_factory=list)

    async def answer(self, request: Request) -> Response:
        asked = await request.json()
        text = "\n".join(message["content"] for message in asked["messages"])
        self.prompts.append(text)
        nonce = re.findall(r"The nonce is (\w+)\.", text)[0]
        rose = '"change": -' not in text.partition("told to all")[0]
        scores = []
        for name in re.findall(r"The ids are ([\w, ]+)\.", text)[0].split(", "):
            body = text.partition(f"<{nonce} agent {name}>")[2].partition(f"</{nonce}>")[0]
            right = body.count('"BUY"' if rose else '"SELL"')
            score = 0.0 if not re.search(r'"(BUY|SELL|HOLD)"', body) else (1 + right) / (2 + STEPS)
            scores.append({"id": name, "explanation": "by direction", "score": score})
        content = json.dumps({"nonce": nonce, "scores": scores})
        choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
        head = {"id": "j", "object": "chat.completion", "created": 1, "model": asked["model"]}
        return JSONResponse(head | {"choices": [choice], "usage": usage})


@dataclass
class Ring:
    """The studio's processes and the times of the stages."""

    environment: dict[str, str]
    project: Path
    times: list[tuple[str, float, str]] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[list[str]]:
        """Time a stage; the list takes what came of it."""
        result: list[str] = []
        began = time.monotonic()
        yield result
        self.times.append((name, time.monotonic() - began, "; ".join(result)))

    def playproof(self, *words: str) -> Any:
        """Run a command to its end; give its JSON, or None where it prints none."""
        command = [sys.executable, "-m", "playproof", *words]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=280, check=False)
        assert done.returncode == 0, f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout) if "--json" in words else None

    @contextmanager
    def process(self, *command: str | Path, address: str) -> Iterator[str]:
        """Run a server until the block ends; give what the pattern finds in its first words."""
        options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        with subprocess.Popen(command, env=self.environment, cwd=self.project, **options) as server:
            assert server.stdout is not None
            words = ""
            try:
                while not (matched := re.search(address, words)):
                    line = server.stdout.readline()
                    assert line, f"{command} ended: {words}"
                    words += line
                yield matched[1]
            finally:
                server.send_signal(signal.SIGINT)
                try:
                    server.wait(20)
                except subprocess.TimeoutExpired:
                    server.kill()

    @contextmanager
    def served(self, *words: str, address: str = r"(http://[\d.:]+)") -> Iterator[str]:
        """Run one of our servers on a free port; give its address."""
        with self.process(sys.executable, "-m", "playproof", *words, "--port", "0", address=address) as url:
            yield url

    def studio(self, *words: str) -> Any:
        """Run the studio's program to its end; give what it printed."""
        return json.loads(run([find_node(), "out/studio.js", *words], self.project, 240))

    def play(self, recorder: str, upstream: str, model: str, windows: list[str]) -> Any:
        """Let the agents play windows with a model behind the recording proxy."""
        proxy = ("trajectories", "proxy", "--upstream", upstream, "--game", MARKET)
        with self.served(*proxy) as url:
            return self.studio("play", recorder, url, model, ",".join(windows), str(AGENTS), str(STEPS))

    def show(self) -> str:
        """Give the table of the stages."""
        lines = [f"{'stage':<44} {'seconds':>8}  result"]
        lines += [f"{name:<44} {seconds:>8.1f}  {result}" for name, seconds, result in self.times]
        return "\n".join([*lines, f"{'all':<44} {sum(item[1] for item in self.times):>8.1f}"])


def hours_ago(first: int) -> list[str]:
    """Name windows that have closed, the oldest first."""
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    return [f"{hour - timedelta(hours=first - number):%Y-%m-%dT%H:00}" for number in range(WINDOWS)]


@pytest.mark.timeout(600)
def test_the_ring_closes(
    recorder_package: Path, postgres: Postgres, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = postgres.new()
    ring = Ring(os.environ | {"PLAYPROOF_HOME": str(home), "PLAYPROOF_DB": database}, tmp_path / "project")
    first, second, third = hours_ago(15), hours_ago(11), hours_ago(7)
    judge = ScriptedJudge()
    judge_app = Starlette(routes=[Route("/v1/chat/completions", judge.answer, methods=["POST"])])
    with ring.stage("TypeScript: install and compile --strict"):
        clean_project(ring.project, recorder_package, OPENAI)
        compile_strictly(ring.project, SOURCES / "studio.ts", SOURCES / "house_model.ts")
    with ring.stage("declare the market, migrate PostgreSQL"):
        declared = ["--asset", "BTC", "--asset", "ETH", "--action", "BUY", "--action", "SELL", "--action", "HOLD"]
        ring.playproof("market", "add", MARKET, *declared)
        ring.playproof("db", "upgrade")
    with ExitStack() as stack:
        judge_url = stack.enter_context(Running(judge_app)).url
        recorder = stack.enter_context(ring.served("trajectories", "serve", "--game", MARKET))

        with ring.stage("agents play with the studio's rule") as result:
            with ring.process(find_node(), "out/house_model.js", address=r"^(\d+)\n") as port:
                played = ring.play(recorder, f"http://127.0.0.1:{port}/v1", "house-rule", first)
            assert played["trajectories"] == AGENTS * WINDOWS
            result.append(f"{AGENTS * WINDOWS} trajectories, {AGENTS * WINDOWS * STEPS} model calls")
        with ring.stage("outcomes from TypeScript"):
            written = ring.studio("outcomes", recorder, ",".join(first))
            assert (written["first"], written["again"]) == ("written", "again")
            assert written["written"] == first[1:]
            assert written["known"] == first[:1]
        with ring.stage("windows") as result:
            survey = ring.playproof("windows", "--game", MARKET, "--json")
            assert survey["sft"] == "READY FOR TRAINING"
            assert survey["grpo"] == "NO DATA"
            result.append(f"SFT {survey['sft']}, GRPO {survey['grpo']}")
        with ring.stage("judge with the outcomes") as result:
            options = ["--game", MARKET, "--model", "scripted", "--base-url", f"{judge_url}/v1", "--json"]
            judged = ring.playproof("judge", "run", *options)
            assert judged["new"] == AGENTS * WINDOWS
            assert not judged["refusals"]
            result.append(f"{judged['new']} judgements, {judged['calls']} calls")
        with ring.stage("train sft on the recorded windows") as result:
            settings = ["--base", "tiny", "--epochs", "6", "--learning-rate", "2e-3", "--batch", "16"]
            taught = ring.playproof(
                "train",
                "sft",
                "--name",
                "taught",
                "--game",
                MARKET,
                "--recorded",
                *settings,
                "--holdout",
                "0",
                "--json",
            )
            result.append(f"{taught['answers']} answers, loss {taught['loss']:.3f}")

        with ring.stage("the taught model is served and plays"), ring.served("serve", "taught") as model:
            ring.play(recorder, f"{model}/v1", "taught@0", second)
            assert ring.studio("outcomes", recorder, ",".join(second))["unknown"] == []
        with ring.stage("windows") as result:
            survey = ring.playproof("windows", "--game", MARKET, "--json")
            assert survey["grpo"] == "READY FOR TRAINING"
            result.append(f"GRPO {survey['grpo']}, {survey['grpo_groups']} groups")
        with ring.stage("train grpo on their log-probabilities") as result:
            settings = ["--iterations", "1", "--windows-per-iteration", str(2 * WINDOWS), "--learning-rate", "1e-4"]
            better = ring.playproof(
                *("train", "grpo", "--name", "better", "--game", MARKET, "--source", "recorded", "--base", "taught"),
                *(*settings, "--holdout", "0", "--judge", "computed", "--json"),
            )
            assert better["iterations"] == 1
            log = [json.loads(line) for line in (home / "runs" / "better" / "log.jsonl").read_text().splitlines()]
            learned = next(line for line in log if line["kind"] == "grpo")
            assert learned["episodes_own"] == AGENTS * WINDOWS
            assert learned["gradient"] > 0
            result.append(f"{learned['episodes_own']} own episodes, {learned['tokens']} tokens, kl {learned['kl']:.4f}")

        with ring.stage("the new model is served and plays on"), ring.served("serve", "better") as model:
            ring.play(recorder, f"{model}/v1", "better@1", third)
            ring.studio("outcomes", recorder, ",".join(third))
    with capsys.disabled():
        sys.stdout.write(f"\n{ring.show()}\n")

    engine = connect(url=database)
    try:
        phases = [
            list(read_windows(engine, [f"{name}Z" for name in names], MARKET)) for names in (first, second, third)
        ]
    finally:
        engine.dispose()
    for stored, model_name, version in zip(
        phases, ("house-rule", "taught@0", "better@1"), (None, "taught@0", "better@1"), strict=True
    ):
        check_phase(stored, model_name, version)
    shown = [text for text in judge.prompts if CANARY in text]
    assert len(shown) == len(judge.prompts) > 0, "the judge sees the ground truth"
    for trajectory in (item for stored in phases for item in stored):
        for call in trajectory.calls:
            assert CANARY not in json.dumps([call.messages, call.response]), "no policy sees an outcome"
        assert CANARY not in json.dumps([step.state for step in trajectory.steps])
    for path in (home / "runs").rglob("*"):
        if path.is_file():
            assert CANARY.encode() not in path.read_bytes(), f"no outcome in {path}"


def check_phase(stored: list[StoredTrajectory], model: str, version: str | None) -> None:
    """Check that every agent's window is whole, and recorded under the model that answered."""
    assert len(stored) == AGENTS * WINDOWS
    for trajectory in stored:
        assert trajectory.final_status == "completed"
        assert [step.number for step in trajectory.steps] == list(range(STEPS))
        assert [call.step for call in trajectory.calls] == list(range(STEPS))
        assert {call.model for call in trajectory.calls} == {model}
        assert {call.model_version for call in trajectory.calls} == {version}
        assert all(call.trainable for call in trajectory.calls) == (version is not None)
        assert trajectory.final_balance is not None
        assert trajectory.final_pnl is not None
        assert trajectory.final_balance - trajectory.final_pnl == 10_000 * 10**9
        assert trajectory.final_pnl % 10**7 == 0, "money in cents stays exact"
