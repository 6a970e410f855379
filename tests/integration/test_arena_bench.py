"""The arena's benchmark: the same windows for everybody, nothing of the future in a start, honest figures, a page."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from playproof.cli.app import main
from playproof.errors import InputError
from playproof.game.forks import ForkTerms
from playproof.games.arena.agents.decisions import HOLD
from playproof.games.arena.agents.prompts import state_text
from playproof.games.arena.learning.forks import ArenaForks
from playproof.games.arena.learning.vector_env import PLAYER
from playproof.games.arena.market.scenarios import SCENARIOS, STAKE, check_unseen, chosen
from playproof.money import UNIT
from playproof.stats.sequential import MOST, PRIOR, SHARES
from playproof.workflows.arena.benchmark import (
    ALL,
    DUMMY,
    BenchPlan,
    ScriptedContestant,
    WindowResult,
    _read,
    criteria,
    figures,
    play,
    play_windows,
)
from playproof.workflows.arena.leaderboard import page

CANARY = "CANARY-7f3a"
PLAN = BenchPlan(tuple(chosen(["held-out", "bear"])), 6, 6)


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_future_state_is_in_a_scenarios_start(name: str) -> None:
    """Plant a canary in every hidden answer and turn round every move to come: no start changes."""
    for number in range(6):
        terms = SCENARIOS[name].terms(6)
        table = ArenaForks(terms, number, 2)
        planted = ArenaForks(terms, number, 2)
        for lane in planted._lanes:
            nature = lane.world.nature
            nature.questions = {
                market: replace(question, answer=1 - question.answer, text=CANARY)
                for market, question in nature.questions.items()
            }
            for coming in (var for var in vars(nature).values() if isinstance(var, list)):
                coming.clear()
        assert planted.prompts() == table.prompts()
        assert CANARY not in str(planted.prompts())
        assert planted._lanes[0].row == table._lanes[0].row
        payload = json.dumps([asdict(headline) for headline in planted._lanes[0].world.public.headlines], default=str)
        assert CANARY not in payload
        assert state_text(planted._lanes[0].world.known(PLAYER)) == state_text(table._lanes[0].world.known(PLAYER))


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_is_a_world_a_seed_and_a_number(name: str) -> None:
    """A start that is made from these alone cannot hold what comes after it."""
    terms = SCENARIOS[name].terms(6)
    assert (terms.world, terms.seed, set(terms.options)) == (SCENARIOS[name].world, SCENARIOS[name].seed, {"stake"})
    assert len({scenario.seed for scenario in SCENARIOS.values()}) == len(SCENARIOS)
    alone = ArenaForks(ForkTerms(terms.world, terms.seed, 6, "full", {"stake": STAKE}), 3, 1)
    assert alone.prompts()[0] == ArenaForks(terms, 3, 4).prompts()[2]


def test_windows_that_were_trained_on_are_refused() -> None:
    terms = SCENARIOS["held-out"].terms(6)
    check_unseen([ForkTerms("news", 1, 6).window(0)], terms, 10)
    with pytest.raises(InputError, match="found 1, such as news-"):
        check_unseen([terms.window(9)], terms, 10)


def test_everybody_plays_the_same_windows() -> None:
    """What the world does is the same for all, and a player that does nothing neither wins nor loses."""
    scenario = SCENARIOS["held-out"]
    one, other = (play_windows(ScriptedContestant(DUMMY), PLAN, scenario, range(4)) for _ in range(2))
    assert one == other
    assert all(item.pnl == 0 and item.trades == 0 and item.valid == item.decisions == 6 for item in one)
    busy = play_windows(ScriptedContestant("informed"), PLAN, scenario, range(4))
    again = play_windows(ScriptedContestant("informed"), PLAN, scenario, [2])
    assert busy[2] == again[0]
    assert any(item.trades for item in busy)


class Odd:
    """Answer nonsense, nothing, and orders beyond the stake."""

    name, version = "odd", "1"

    def answers(self, tables: Sequence[ArenaForks], indices: Sequence[int]) -> list[str | None]:
        order = '{"action":"trade","trade":{"type":"perp","market":"KITE","action":"open_long","amount":%d}}'
        by_turn: list[str | None] = ["buy!", None, order % 2_400, order % 2_400, HOLD, order % 50]
        return [by_turn[indices[1]] for _ in tables]


def test_errors_timing_and_drawdown_are_counted() -> None:
    played = play_windows(Odd(), PLAN, SCENARIOS["held-out"], range(3))
    for item in played:
        assert (item.decisions, item.valid, item.failed, item.refused) == (6, 4, 1, 1)
        assert (item.trades, item.opened) == (2, 2)
        assert item.drawdown >= 0
        assert 0 <= item.hits <= 2
    result = figures({"odd": {"held-out": played}, DUMMY: {"held-out": _still(3)}})
    odd = next(entry for entry in result if entry.name == "odd" and entry.scenario == ALL)
    assert odd.valid == pytest.approx(4 / 6)
    assert odd.errors == pytest.approx(3 / 6)
    assert odd.timing == sum(entry.hits for entry in played) / 6
    assert odd.versus[DUMMY].difference == pytest.approx(odd.pnl)


def _still(count: int) -> list[WindowResult]:
    return [WindowResult(number, 0, 0.0, 6, 6, 0, 0, 0, 0) for number in range(count)]


def _earning(values: Sequence[float], errors: int = 0) -> list[WindowResult]:
    return [
        WindowResult(at, round(value * UNIT), value / 10_000, 6, 6 - errors, 0, 0, 1, 0)
        for at, value in enumerate(values)
    ]


def test_figures_by_hand() -> None:
    results = {
        "model": {"a": _earning([10, -5, 20, 5])},
        "random": {"a": _earning([-4, -6, 2, 0], errors=1)},
        DUMMY: {"a": _still(4)},
    }
    result = {figure.name: figure for figure in figures(results) if figure.scenario == ALL}
    assert list(result) == ["model", DUMMY, "random"]
    model = result["model"]
    assert (model.pnl, model.win_rate, model.drawdown) == (7.5, 0.75, 5.0)
    assert model.versus["random"].difference == 9.5
    assert model.pnl_interval[0] < 7.5 < model.pnl_interval[1]
    returns = np.array([10, -5, 20, 5]) / (STAKE / UNIT)
    fixed = np.prod(1 + returns[:, None] * MOST * np.array(SHARES), axis=0).mean()
    adaptive = 1.0
    for at, value in enumerate(returns):  # half of the bankroll bets mean over second moment of what came before
        best = returns[:at].sum() / (PRIOR + (returns[:at] ** 2).sum())
        adaptive *= 1 + min(max(best, 0.0), MOST) * value
    assert model.e_value == pytest.approx((fixed + adaptive) / 2)
    payload = {item.name: item for item in criteria(figures(results), "model", "random")}
    assert all(item.met for item in payload.values())
    assert payload["P&L 10 % better"].wanted == pytest.approx(-2 + 0.2)
    assert payload["P&L 10 % better"].dummy_met
    assert payload["fewer errors"].dummy_met
    assert not payload["win rate better"].dummy_met


def test_a_benchmark_goes_on_where_it_was_cut_off(tmp_path: Path) -> None:
    calls: list[int] = []

    class Counting(ScriptedContestant):
        def answers(self, tables: Sequence[ArenaForks], indices: Sequence[int]) -> list[str | None]:
            calls.append(len(tables))
            return super().answers(tables, indices)

    who, scenario = Counting("informed"), SCENARIOS["bull"]
    whole = play(who, replace(PLAN, windows=9), scenario, tmp_path / "one")
    part = tmp_path / "two"
    play(who, replace(PLAN, windows=3), scenario, part)
    file = next(part.glob("*.jsonl"))
    file.write_text(file.read_text() + '{"number": 3, "pnl"')
    assert len(list(_read(file))) == 3
    calls.clear()
    assert play(who, replace(PLAN, windows=9), scenario, part) == whole
    assert sum(calls) == 6 * 6
    calls.clear()
    assert play(who, replace(PLAN, windows=9), scenario, part) == whole
    assert not calls


def test_the_page_shows_hostile_names_as_text() -> None:
    results = {"<script>x</script>": {"held-out": _earning([1, 2])}, DUMMY: {"held-out": _still(2)}}
    payload = figures(results)
    facts = {
        "seed": 1,
        "plan": "p",
        "windows": 2,
        "scenarios": 1,
        "decisions": 6,
        "stake": 3500.0,
        "against": DUMMY,
        "commit": "c",
    }
    written = page(payload, ["<script>x</script>"], {}, facts)
    assert "<script>x" not in written
    assert not re.search(r"https?:|(src|href)=", written)
    assert "&lt;script&gt;x" in written


def test_the_page_sums_up_scenarios_where_there_are_several() -> None:
    both = {"held-out": _earning([1, 2]), "bear": _earning([3, 4])}
    facts = {"seed": 1, "plan": "p", "windows": 2, "scenarios": 2, "decisions": 6, "stake": 3500.0, "commit": "c"}
    written = page(figures({"mine": both, DUMMY: both}), ["mine"], {}, {**facts, "against": DUMMY})
    assert "2 forked windows of each of 2 scenarios, " in written
    for title in ("All scenarios", "Held out", "Bear"):
        assert written.count(f"<h2>{title}</h2>") == 1


def test_the_command_ranks_and_writes_a_page(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["arena", "bench", "balanced", "contrarian", "--windows", "3", "--scenario", "bear", "--json"]
    assert main(command) == 0
    payload = json.loads(capsys.readouterr().out)
    names = {item["name"] for item in payload["figures"]}
    assert names == {"balanced", "contrarian", "random", "hold", "momentum", "informed", "wait"}
    assert payload["against"] == "balanced"
    assert [item["name"] for item in payload["criteria"]["contrarian"]] == [
        "P&L 10 % better",
        "win rate better",
        "fewer errors",
    ]
    written = Path(payload["page"]).read_text()
    assert "contrarian against balanced" in written
    assert "3 forked windows of one scenario, " in written
    assert written.count("<h2>Bear</h2>") == 1
    assert "All scenarios" not in written
    assert Path(payload["page"]).is_relative_to(home)
    assert main([*command, "--against", "nobody"]) == 1
    assert main(["arena", "bench", "--scenario", "sideways"]) == 1
