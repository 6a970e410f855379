"""The arena's agents: decisions, prompts, archetypes, language agents, runs that are recorded."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from arena_proofs import busy_prompts
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from playproof.errors import ConfigError, GateFailed
from playproof.game import WAIT, load_game
from playproof.games.arena.agents.archetypes import ARCHETYPES, Order, write_order
from playproof.games.arena.agents.decisions import (
    AMOUNTS,
    HOLD,
    NAMES,
    ORDERS,
    order_choice,
    read_decision,
    shortened,
    write_trade,
)
from playproof.games.arena.agents.llm import LanguageAgent, ModelSettings, language_agent
from playproof.games.arena.agents.prompts import TASK, most_tokens
from playproof.games.arena.agents.runner import (
    AgentView,
    ArenaRun,
    ClosedWindow,
    Reply,
    RunPlan,
    WorldSettings,
    scripted,
)
from playproof.games.arena.learning.observation import values
from playproof.games.arena.market.windows import window_id
from playproof.games.arena.recording.ranking import profits, rank
from playproof.games.arena.recording.run_recorder import differences, run_again
from playproof.money import UNIT
from playproof.stats.ranking import AgentResult, rank_results
from playproof.workflows.arena.collect import free_stretch, read_run
from playproof.workflows.arena.commands import app

RUNNER = CliRunner()


def trade(**parts: Any) -> str:
    return json.dumps({"action": "trade", "trade": {"type": "perp", "market": "KITE", "action": "open_long", **parts}})


# Decisions.


@pytest.mark.parametrize(
    ("text", "kind", "amount"),
    [
        ('{"action":"hold","reasoning":"flat"}', "WAIT", None),
        (trade(amount=100), "OPEN_LONG", 100 * UNIT),
        (trade(amount=0.5, action="open_short"), "OPEN_SHORT", UNIT // 2),
        (trade(action="close"), "CLOSE", None),
        (trade(action="close", amount=None), "CLOSE", None),
        (trade(type="prediction", action="buy_no", amount=1, forecast=0.25), "BUY_NO", UNIT),
        (trade(type="prediction", action="sell"), "SELL", None),
        ('{"trade":{"market":"KITE","action":"open_short","amount":50}}', "OPEN_SHORT", 50 * UNIT),
        ('{"action":"trade","trade":{"market":"Q1","action":"buy_yes","amount":20}}', "BUY_YES", 20 * UNIT),
        ('{"action":"create_post","post":{"text":"hi"}}', "CREATE_POST", None),
        ("Sure! Here it is:\n```json\n" + trade(amount=20) + "\n```\nGood luck.", "OPEN_LONG", 20 * UNIT),
    ],
)
def test_decisions_are_read(text: str, kind: str, amount: int | None) -> None:
    choice = read_decision(text)
    assert (choice.kind, choice.arguments.get("amount"), choice.rejected) == (kind, amount, None)


@pytest.mark.parametrize(
    "text",
    [
        "hold",
        '["action"]',
        '{"action":"all in"}',
        '{"action":"trade"}',
        '{"trade":{"market":"KITE","action":"fly","amount":1}}',
        '{"trade":["KITE"]}',
        '{"action":null,"trade":{"market":"KITE","action":"close"}}',
        trade(amount=1, type=None),
        '{"action":"create_post","post":{"text":""}}',
        trade(),
        trade(amount=0),
        trade(amount=-5),
        trade(amount="100"),
        trade(amount=True),
        trade(amount=float("nan")),
        trade(amount=float("inf")),
        trade(amount=10**30),
        trade(amount=1e-12),
        trade(amount=1, forecast=1.5),
        trade(amount=1, leverage=0),
        trade(amount=1, leverage=101),
        trade(amount=1, leverage=1.5),
        trade(amount=1, market="../etc"),
        trade(amount=1, action="buy_yes"),
        trade(amount=1, type="option"),
        '{"action":"hold","reasoning":"' + "x" * 30_000 + '"}',
    ],
)
def test_what_is_no_decision_is_rejected_and_waits(text: str) -> None:
    choice = read_decision(text)
    assert choice.kind == WAIT
    assert choice.rejected


@given(
    st.text()
    | st.recursive(
        st.none() | st.floats() | st.text(),
        lambda item: st.dictionaries(
            st.sampled_from(["action", "trade", "post", "type", "market", "amount", "text"]), item
        ),
    ).map(json.dumps)
)
def test_reading_a_decision_never_raises(text: str) -> None:
    choice = read_decision(text)
    assert choice.rejected is not None or choice.kind in (*NAMES, "CREATE_POST")


@given(st.integers(0, len(NAMES) - 1), st.integers(0, 3), st.integers(0, 2))
def test_orders_and_decisions_say_the_same(kind: int, index: int, size: int) -> None:
    """An order as numbers, and the same order as JSON that is read again."""
    questions = {0: "Q8", 1: "Q9"}
    perp = NAMES[kind].lower() in ORDERS["perp"]
    order = Order(NAMES[kind], index if perp else index % 2, size, "why", 0.5 if not perp else None)
    read, meant = read_decision(write_order(order, questions)), order_choice(order.action, questions)
    assert (read.kind, read.arguments.get("market")) == (meant.kind, meant.arguments.get("market"))
    assert read.arguments.get("amount") == meant.arguments.get("amount")
    assert read_decision(shortened(write_order(order, questions))) == read


def test_amounts_are_orders_that_markets_take() -> None:
    assert min(AMOUNTS) >= 10
    assert read_decision(write_trade("open_long", "KITE", AMOUNTS[0])).rejected is None


# Archetypes.


@pytest.fixture(scope="module")
def long_run() -> list[ClosedWindow]:
    return list(ArenaRun(RunPlan(WorldSettings(seed=1), 200), scripted(8)).windows())


def paired(closed: list[ClosedWindow], better: str, worse: str) -> tuple[float, float]:
    """Give the mean difference in profit of two archetypes in the same windows, and its standard error."""
    kinds = [tally.archetype for tally in closed[0].tallies]
    pnl = profits(closed)
    difference = pnl[:, kinds.index(better)] - pnl[:, kinds.index(worse)]
    return float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(len(difference)))


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("informed", "momentum"),
        ("informed", "hold"),
        ("momentum", "random"),
        ("hold", "random"),
        ("informed", "random"),
    ],
)
def test_the_informed_earn_more_than_those_who_follow_and_those_more_than_chance(
    long_run: list[ClosedWindow], better: str, worse: str
) -> None:
    mean, error = paired(long_run, better, worse)
    assert mean > 2 * error, f"{mean:.2f} +- {error:.2f}"


def test_random_agents_earn_about_minus_fees_and_impact() -> None:
    """Alone in a market without information: what is lost is fees and roundings, and the luck of what was held."""
    closed = list(ArenaRun(RunPlan(WorldSettings("null", 3), 150), scripted(8)[7:]).windows())
    pnl, fees = profits(closed)[:, 0], np.array([item.tallies[0].fees for item in closed]) / UNIT
    error = pnl.std(ddof=1) / np.sqrt(len(pnl))
    assert abs(pnl.mean() + fees.mean()) < 3 * error + 1.0
    assert fees.mean() > 0.3


def test_archetypes_differ_in_what_they_dare() -> None:
    assert {
        name: archetype.risk
        for name, archetype in ARCHETYPES.items()
        if name in ("conservative", "balanced", "aggressive")
    } == {
        "conservative": 0.2,
        "balanced": 0.5,
        "aggressive": 0.8,
    }
    assert (ARCHETYPES["momentum"].risk, ARCHETYPES["contrarian"].risk) == (0.7, 0.4)
    assert set(load_game("arena").baselines) == {"wait", *ARCHETYPES}


def test_ranking_shows_intervals_and_what_the_others_made(long_run: list[ClosedWindow]) -> None:
    ranked = rank(long_run[:50], 1)
    assert [item.profit for item in ranked] == sorted((item.profit for item in ranked), reverse=True)
    assert all(item.profit_interval[0] <= item.profit <= item.profit_interval[1] for item in ranked)
    assert sum(item.over_others for item in ranked) == pytest.approx(0, abs=1e-6)


def test_recorded_agents_are_ranked_over_all_their_windows(home: Path) -> None:
    run = CliRunner().invoke(app, ["run", "--agents", "8", "--windows", "8", "--seed", "3", "--json"])
    assert run.exit_code == 0, run.output
    payload = {load["agent"]: load for load in json.loads(run.stdout)["agents"]}
    result = CliRunner().invoke(app, ["agents", "--seed", "3", "--json"])
    assert result.exit_code == 0, result.output
    again = {load["agent"]: load for load in json.loads(result.stdout)["agents"]}
    assert again.keys() == payload.keys()
    for agent, item in again.items():
        for name in ("windows", "profit", "alpha", "over_others", "over_interval", "fees", "trades", "valid"):
            assert item[name] == pytest.approx(payload[agent][name]), (agent, name)
    assert again["informed-1"]["forecasts"] > 0
    assert 0 <= again["informed-1"]["brier"] < 0.5
    assert again["hold-1"]["brier"] is None
    shown = CliRunner().invoke(app, ["agents"])
    assert "informed-1" in shown.stdout
    assert "Brier" in shown.stdout
    assert isinstance(CliRunner().invoke(app, ["agents", "--hours", "0.01"]).exception, GateFailed)


def test_an_agents_forks_of_a_window_count_as_one() -> None:
    def result(window: str, agent: str, usd: int) -> AgentResult:
        return AgentResult(window, agent, "", usd * UNIT, 10_000 * UNIT, 0.01, 0, 1, 6, 0)

    some = [result("w1", "a", 10), result("w1", "a", 30), result("w1", "b", 0), result("w2", "b", 50)]
    ranked = {rank_result.agent: rank_result for rank_result in rank_results(some, 1)}
    assert (ranked["a"].windows, ranked["a"].profit, ranked["a"].over_others) == (1, 20.0, 20.0)
    assert ranked["a"].alpha == pytest.approx(0.002 - 0.01)
    assert (ranked["b"].windows, ranked["b"].over_others) == (2, (0 - 20 + 50) / 2)


# Language agents, against a small server of the same interface.


class Upstream(BaseHTTPRequestHandler):
    """Answer chat completions as told by the server's `script`."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((body, self.headers["Authorization"]))  # type: ignore[attr-defined]
        script = self.server.script  # type: ignore[attr-defined]
        status, text = script[min(len(self.server.seen) - 1, len(script) - 1)]  # type: ignore[attr-defined]
        answer: dict[str, Any] = {"error": {"message": text}}
        if status == 200:
            tokens = [{"token": "x", "logprob": -0.5, "bytes": None, "top_logprobs": []}] * 2
            answer = {
                "id": "c",
                "object": "chat.completion",
                "created": 1,
                "model": "tiny-1",
                "choices": [
                    {
                        "index": 0,
                        "finish_reason": "stop",
                        "message": {"role": "assistant", "content": text},
                        "logprobs": {"content": tokens},
                        "token_ids": [7, 8],
                    }
                ],
                "prompt_token_ids": [1, 2, 3],
                "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
            }
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *parts: object) -> None:
        """Stay silent."""


@pytest.fixture
def upstream() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    server.seen, server.script = [], [(200, HOLD)]
    server.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def asked(agent: LanguageAgent) -> Reply:
    """Let an agent decide once, at the first turn of a market."""
    run = ArenaRun(RunPlan(), scripted(1))
    run.world.begin()
    run.world.advance()
    known = run.world.known("informed-1")
    sight = AgentView("llm-1", run.world.window, 0, run.world.now, known, 1)

    async def once() -> Reply:
        return await agent.decide(sight)

    return asyncio.run(once())


def agent_at(server: Any, **options: Any) -> LanguageAgent:
    settings: dict[str, Any] = {"retries": 0, "timeout": 5.0} | options
    return language_agent("llm-1", ModelSettings("tiny", server.url, "sk-secret", **settings))


def test_a_language_agent_asks_and_keeps_what_training_needs(upstream: Any) -> None:
    reply = asked(agent_at(upstream))
    assert reply.text == HOLD
    assert reply.call is not None
    assert reply.call.token_ids == (7, 8)
    assert reply.call.logprobs == (-0.5, -0.5)
    assert reply.call.prompt_token_ids == (1, 2, 3)
    assert (reply.call.prompt_tokens, reply.call.completion_tokens, reply.call.model_version) == (3, 2, "tiny-1")
    body, key = upstream.seen[0]
    assert key == "Bearer sk-secret"
    assert body["messages"][0]["content"].startswith(TASK)
    assert "an agent that weighs news and trend" in body["messages"][0]["content"]
    assert "sk-secret" not in repr(reply)


def test_a_failing_model_is_a_recorded_rejected_action(upstream: Any) -> None:
    upstream.script = [(500, "broken")]
    reply = asked(agent_at(upstream))
    assert reply.call is not None
    assert reply.call.error is not None
    assert "InternalServerError" in reply.call.error
    assert read_decision(reply.text).rejected
    upstream.shutdown()
    gone = asked(language_agent("llm-1", ModelSettings("tiny", "http://127.0.0.1:9/v1", retries=0, timeout=2.0)))
    assert gone.call is not None
    assert gone.call.error is not None


def test_a_model_is_asked_again_after_an_error(upstream: Any) -> None:
    upstream.script = [(500, "busy"), (200, HOLD)]
    assert asked(agent_at(upstream, retries=2)).text == HOLD
    assert len(upstream.seen) == 2


def test_a_server_that_knows_no_token_ids_is_asked_without(upstream: Any) -> None:
    upstream.script = [(400, "unknown parameter return_token_ids"), (200, HOLD)]
    assert asked(agent_at(upstream)).text == HOLD
    assert "return_token_ids" in upstream.seen[0][0]
    assert "return_token_ids" not in upstream.seen[1][0]


def test_a_spent_budget_holds_without_asking(upstream: Any) -> None:
    agent = agent_at(upstream, calls=1)
    asked(agent)
    reply = asked(agent)
    assert reply.text == HOLD
    assert reply.call is not None
    assert reply.call.error == "the budget of this run is spent"
    assert len(upstream.seen) == 1


def test_the_state_takes_at_most_300_tokens() -> None:
    """By the bound that the prompt keeps; a torture holds the bound against a real tokenizer."""
    texts = busy_prompts(windows=3)
    assert 200 < max(most_tokens(text) for text in texts) <= 300
    assert all(len(json.loads(text)["markets"]) == 4 for text in texts)


# Runs that are recorded.


def test_a_run_is_recorded_and_gives_the_same_money_again(home: Path) -> None:
    from playproof.store.db import LlmCall, MarketOutcome, StepRow, Trajectory, opened

    done = RUNNER.invoke(app, ["run", "--agents", "5", "--windows", "3", "--seed", "4", "--json"])
    assert done.exit_code == 0, done.output
    payload = json.loads(done.stdout)
    assert len(payload["agents"]) == 5
    with opened() as engine:
        from sqlalchemy import func, select

        with engine.connect() as connection:
            counts = {
                table.__tablename__: connection.scalar(select(func.count()).select_from(table))
                for table in (Trajectory, StepRow, LlmCall)
            }
            outcomes = connection.execute(select(MarketOutcome)).mappings().all()
        assert counts == {"trajectory": 15, "step": 90, "llm_call": 90}
        recorded = read_run(engine, payload["run"])
        again = run_again(recorded)
        assert differences(recorded, again) == []
        assert any(item.final_pnl for item in recorded)
        begins = free_stretch(engine, again[-1].end, 3, 1)
        assert begins < again[0].start
    assert {item["window_id"] for item in outcomes} == set(payload["windows"])
    assert sum(item["kind"] == "asset" for item in outcomes) == 12
    prices = {(item.window, market): ends for item in again for market, ends in item.prices.items()}
    for outcome in outcomes:
        if outcome["kind"] == "asset":
            assert (outcome["start_price"], outcome["end_price"]) == prices[outcome["window_id"], outcome["subject"]]
    assert RUNNER.invoke(app, ["verify", payload["run"]]).exit_code == 0


def test_a_run_takes_windows_that_are_closed_whatever_the_minute(home: Path) -> None:
    """A survey in the first minutes of an hour once missed the last window of a run made in them."""
    from playproof.record.trajectories.windows import is_closed
    from playproof.store.db import opened, ready

    hour = datetime(2026, 11, 16, 19, tzinfo=UTC)
    with opened() as engine:
        ready(engine)
        for minute, last in ((0, 17), (4, 17), (5, 18), (59, 18)):
            now = hour + timedelta(minutes=minute)
            begins = free_stretch(engine, now, 3, 1)
            names = [window_id(begins + timedelta(hours=index)) for index in range(3)]
            assert all(is_closed(name, 1, load_game("arena").windows, now) for name in names)
            assert begins + timedelta(hours=2) == hour.replace(hour=last)


def test_a_forged_recording_is_found(home: Path) -> None:
    from playproof.store.db import Trajectory, opened, writing

    payload = json.loads(RUNNER.invoke(app, ["run", "--agents", "2", "--windows", "1", "--json"]).stdout)
    with opened() as engine:
        from sqlalchemy import update

        with writing(engine) as connection:
            connection.execute(update(Trajectory).values(final_pnl=Trajectory.final_pnl + 1))
    result = RUNNER.invoke(app, ["verify", payload["run"]])
    assert isinstance(result.exception, GateFailed)


def test_a_language_agent_plays_and_is_recorded(home: Path, upstream: Any) -> None:
    from playproof.store.db import LlmCall, opened

    # The first answer is to the question whether anybody is there.
    upstream.script = [(200, HOLD), (200, "I would buy!"), (200, trade(amount=50)), (200, HOLD)]
    done = RUNNER.invoke(
        app, ["run", "--agents", "2", "--windows", "1", "--llm", upstream.url, "--model", "tiny", "--json"]
    )
    payload = {load["agent"]: load for load in json.loads(done.stdout)["agents"]}
    assert payload["llm-1"]["valid"] == pytest.approx(5 / 6)
    assert payload["llm-1"]["trades"] == 1
    with opened() as engine:
        from sqlalchemy import select

        with engine.connect() as connection:
            calls = connection.execute(select(LlmCall.token_ids, LlmCall.logprobs).where(LlmCall.model == "tiny")).all()
    assert len(calls) == 6
    assert all(tuple(call) == ([7, 8], [-0.5, -0.5]) for call in calls)


def test_plans_that_cannot_be_run_are_refused() -> None:
    with pytest.raises(ConfigError, match="divides 60"):
        RunPlan(decisions=7)
    with pytest.raises(ConfigError, match="different names"):
        ArenaRun(RunPlan(), [*scripted(1), *scripted(1)])


def test_a_run_can_keep_the_markets_pace() -> None:
    waited: list[float] = []
    list(ArenaRun(RunPlan(windows=1, speed=120.0), scripted(1)).windows(waited.append))
    assert waited == [0.5] * 60


def test_the_page_on_adding_an_agent_runs(project: Path, home: Path) -> None:
    text = (project / "docs" / "dev" / "adding-an-agent.md").read_text(encoding="utf-8")
    matches = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert matches
    assert len(matches[0].strip().splitlines()) <= 20
    code = compile("\n\n".join(matches), "docs/dev/adding-an-agent.md", "exec", dont_inherit=True)
    exec(code, {"__name__": "page"})


def test_features_are_the_table() -> None:
    run = ArenaRun(RunPlan(), scripted(1))
    run.world.begin()
    run.world.advance()
    result = values(run.world.known("informed-1"))
    assert len(result) == len(load_game("arena").features)
    assert None not in result
