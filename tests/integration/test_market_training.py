"""A declared market from records to a trained model: windows, judge, SFT, GRPO on recorded groups, ranking, replay."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from test_judge import scripted, shown, written

from playproof.cli.app import main, run_app
from playproof.cli.data.outcomes import app as outcomes_app
from playproof.cli.data.windows import app as windows_app
from playproof.game.markets import MarketDeclaration, add_market
from playproof.money import UNIT
from playproof.record.trajectories.bulk import BulkRecorder
from playproof.record.trajectories.facts import ActionTaken, Call
from playproof.serve.serving import prepare
from playproof.store.db import connect, ready
from playproof.store.db.trajectories import read_windows
from playproof.train.language.generation import generate
from playproof.train.language.model import load_language_model
from playproof.workflows.market.commands import app as market_app

MARKET = MarketDeclaration(name="mine", assets=("BTC", "ETH"), actions=("BUY", "SELL", "HOLD"))
AGENTS, STEPS = 5, 2


def hours_ago(hours: int) -> datetime:
    return datetime.now(UTC).replace(minute=5, second=0, microsecond=0) - timedelta(hours=hours)


def write_prices(path: Path, hours: list[int]) -> Path:
    lines = ["window_id,asset,start_price,end_price"]
    for hour in hours:
        window = MARKET.window_id(hours_ago(hour))
        lines += [f"{window},BTC,100,{100 + hour}", f"{window},ETH,10,9"]
    path.write_text("\n".join(lines) + "\n")
    return path


def record(home: Path, hour: int, answer: Any, version: str | None = None) -> None:
    """Record one hour of some agents; `answer` gives the text of an agent's step, and its tokens where it has any."""
    engine = ready(connect(home))
    start = hours_ago(hour)
    with BulkRecorder(engine, lambda: start, windows=MARKET.windows, environment={}) as recorder:
        for number in range(AGENTS):
            identity = recorder.start_trajectory(f"agent-{number}")
            for step in range(STEPS):
                recorder.start_step(identity, {"balance": 10_000 * UNIT, "pnl": step * number * UNIT})
                messages = [{"role": "user", "content": f"BTC rose by {step}"}]
                text, more = answer(number, messages)
                call = Call("m", messages=messages, response=text, model_version=version, temperature=1.0, **more)
                recorder.log_llm_call(identity, call)
                recorder.complete_step(identity, ActionTaken(("BUY", "SELL")[number % 2], {"asset": "BTC"}, True))
            recorder.end_trajectory(identity, (10_000 + number) * UNIT, number * UNIT)
    engine.dispose()


def test_a_market_is_judged_trained_ranked_and_replayed(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JUDGE_MODEL", raising=False)
    add_market(MARKET)
    game = ["--game", "mine"]
    least = ["--min-agents", str(AGENTS), "--min-actions", str(STEPS), "--json"]
    for hour in (9, 8, 7):
        record(home, hour, lambda number, _: (("BUY", "SELL")[number % 2], {}))
    assert run_app(windows_app, "windows", [*game, *least]) == 2, "no outcomes yet"
    prices = write_prices(tmp_path / "first.csv", [9, 8, 7])
    assert run_app(outcomes_app, "outcomes", ["import", str(prices), *game]) == 0
    capsys.readouterr()
    assert run_app(windows_app, "windows", [*game, *least]) == 0
    survey = json.loads(capsys.readouterr().out)
    assert (survey["sft"], survey["grpo"], survey["undeclared_actions"]) == ("READY FOR TRAINING", "NO DATA", {})

    asked: list[str] = []

    def judge(question: dict[str, Any]) -> str:
        asked.append(question["messages"][1]["content"])
        nonce, agents = shown(question)
        return written(nonce, [(name, 0.9 if "BUY" in said else 0.1) for name, said in agents.items()])

    with scripted(judge) as url:
        assert main(["judge", "run", "--model", "scripted", "--base-url", url, *game, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["new"] == 3 * AGENTS
    assert all('"subject": "BTC"' in text for text in asked), "the judge sees the outcomes"

    torch.set_num_threads(1)
    command = ["train", "sft", "--name", "taught", "--recorded", "--base", "tiny", "--epochs", "1", "--batch", "8"]
    assert main([*command, "--decisions", str(STEPS), *game, "--json"]) == 0
    taught = json.loads(capsys.readouterr().out)
    assert taught["answers"] == 3 * AGENTS * STEPS
    assert "recorded, not simulated" in taught["holdout"]
    model = load_language_model(taught["checkpoint"])
    generator = torch.Generator().manual_seed(1)

    def sample(_: int, messages: list[dict[str, str]]) -> tuple[str, dict[str, Any]]:
        prompt = model.prompt_ids([(item["role"], item["content"]) for item in messages])
        (drawn,) = generate(model.model, [prompt], model.ends, 8, generator)
        tokens = {"prompt_token_ids": list(prompt), "token_ids": list(drawn.token_ids)}
        return model.text(drawn.token_ids), tokens | {"logprobs": list(drawn.logprobs)}

    for hour in (5, 4):
        record(home, hour, sample, model.version)
    prices = write_prices(tmp_path / "second.csv", [5, 4])
    assert run_app(outcomes_app, "outcomes", ["import", str(prices), *game]) == 0
    command = ["train", "grpo", "--name", "better", "--base", "taught", "--source", "recorded", "--iterations", "1"]
    command += ["--windows-per-iteration", "9", "--holdout", "0", "--embargo", "0", "--decisions", str(STEPS)]
    capsys.readouterr()
    assert main([*command, *game, "--json"]) == 0
    better = json.loads(capsys.readouterr().out)
    assert (better["iterations"], better["stopped"]) == (1, None)
    assert prepare(better["checkpoint"]).kind == "chat"

    assert run_app(market_app, "market", ["agents", "mine", "--json"]) == 0
    ranking = json.loads(capsys.readouterr().out)
    assert [agent["agent"] for agent in ranking["agents"]] == [f"agent-{number}" for number in (4, 3, 2, 1, 0)]
    best = ranking["agents"][0]
    held = sum((hour / 100 - 0.1) / 2 for hour in (9, 8, 7, 5, 4)) / 5
    assert best["alpha"] == pytest.approx(4 / 10_000 - held, abs=1e-12)
    assert best["alpha_interval"][0] <= best["alpha"] <= best["alpha_interval"][1]
    assert (best["windows"], ranking["left_out"]) == (5, {})
    assert ranking["judged"][0]["score"] > ranking["judged"][-1]["score"]
    assert run_app(market_app, "market", ["agents", "mine"]) == 0

    window = MARKET.window_id(hours_ago(4))
    assert main(["replay", window, *game, "--output", str(tmp_path / "replay.html")]) == 0
    assert "agent-3" in (tmp_path / "replay.html").read_text()
    engine = ready(connect(home))
    assert len(read_windows(engine, [window], "mine")) == AGENTS
    engine.dispose()


def test_a_market_for_judges_alone_needs_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JUDGE_MODEL", raising=False)
    add_market(MarketDeclaration(name="words", reward="judge-only"))
    command = ["train", "grpo", "--name", "x", "--base", "tiny", "--source", "recorded", "--game", "words"]
    assert main(command) == 1
    assert "set JUDGE_MODEL" in capsys.readouterr().err
