"""The validator: gates, the order of verdicts, and the verdicts on policies whose worth is known."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine
from typer.testing import CliRunner

from playproof.cli.proof.validate import app
from playproof.cli.targets import find_policy, game_of
from playproof.errors import ConfigError, UnknownName
from playproof.evaluate.rollout import Score, rollout
from playproof.evaluate.trials import trials
from playproof.game import load_game
from playproof.games.crash.features.state import ACTIVE
from playproof.games.crash.players.baselines import BUY, PHASE, PRICE, QTY, SELL, TICK, WAIT, Hold
from playproof.games.crash.players.controls import EntryExitLog
from playproof.games.crash.players.optimum import best_policy
from playproof.reports.validation import to_json, write_report
from playproof.store.db import connect, ready
from playproof.validate import gates
from playproof.validate.examine import EvalPlan, Examination, Subject, calibrated, examine, load_subject
from playproof.validate.gates import Gate, name_of

GAME = load_game("crash")
STAKE = GAME.defaults.stake
NOW = datetime(2026, 1, 1, tzinfo=UTC)
RNG = np.random.default_rng(1)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = ready(connect(tmp_path))
    yield made
    made.dispose()


def plan(world: str, rounds: int = 64, *, ceiling: float | None = 0.0, seed: int = 3) -> EvalPlan:
    return EvalPlan(world, f"world {world}", f"hash of {world} {seed} {rounds}", "test", rounds, seed, ceiling=ceiling)


def subject(name: str, player: Any) -> Subject:
    return Subject(name, player, f"hash of {name}", "tests", STAKE)


# the gates


def test_activity_wants_positions_and_windows() -> None:
    assert gates.activity(np.full(20, 2)).passed
    assert not gates.activity(np.full(19, 2)).passed, "38 positions in 19 windows"
    assert not gates.activity(np.full(29, 1)).passed, "29 positions"


def test_spam_is_refused_where_it_hides_that_nothing_is_earned() -> None:
    spam = {"WAIT": 19, "BUY": 0, "SELL": 81}
    assert not gates.collapse(spam, 81, 0.0).passed
    assert gates.collapse({"WAIT": 10, "BUY": 50, "SELL": 50}, 10, -0.1).passed
    assert not gates.collapse({"WAIT": 10, "BUY": 50, "SELL": 50}, 11, -0.1).passed
    assert gates.collapse({"WAIT": 10, "BUY": 50, "SELL": 50}, 60, 0.01).passed, "a shown profit hides nothing"
    assert gates.collapse({"WAIT": 10, "SIDEBET": 1000}, 3, -0.1).passed, "one kind of order is a shape, not spam"
    assert gates.collapse({"WAIT": 10}, 0, 0.0).skipped


def test_plausible_is_about_the_lower_bound() -> None:
    rng = np.random.default_rng(4)
    assert not gates.plausible(rng.normal(0.5, 0.1, 500), 0.0, rng).passed, "the e-value sees it without any loss"
    assert not gates.plausible(np.clip(rng.normal(0.02, 0.1, 2000), -1, None), 0.0, rng).passed, "the bootstrap"
    assert gates.plausible(np.clip(rng.normal(0.02, 0.1, 2000), -1, None), 0.05, rng).passed
    assert gates.plausible(rng.normal(0.0, 0.1, 500), 0.0, rng).passed
    assert gates.plausible(rng.normal(0.5, 0.1, 500), None, rng).skipped


@pytest.mark.parametrize("windows", [2, 20, 57, 200])
def test_rare_losses_that_have_not_come_yet_are_not_suspect(windows: int) -> None:
    # Take-profit at 1 %: a small win nearly always, the whole stake lost once in 60 windows; no edge.
    rng = np.random.default_rng(windows)
    runs = [np.where(rng.random(windows) < 1 / 60, -1.0, 0.0169) for _ in range(300)]
    suspect = sum(not gates.plausible(run, 0.0, rng).passed for run in runs)
    assert suspect <= 2, f"{suspect} of 300 at a nominal 0.1 %"


def test_robust_keeps_the_sign_without_the_best_windows() -> None:
    lucky = np.full(1000, -0.01)
    lucky[:10] = 5.0
    terms, _ = gates.robust(RNG.permutation(lucky), {})
    assert not terms.passed, "+4 % on average, all of it from ten windows"
    steady = RNG.normal(0.1, 0.1, 1000)
    assert all(gate.passed for gate in gates.robust(steady, {"late": steady - 0.05}))
    assert not gates.robust(steady, {"late": steady - 0.2})[0].passed
    loss = gates.robust(-steady, {"late": -steady})
    assert all(gate.skipped for gate in loss), "a loss that stays a loss passes nothing"
    falling = np.concatenate([np.full(800, 0.3) + RNG.normal(0, 0.1, 800), RNG.normal(-0.3, 0.1, 200)])
    assert not gates.robust(falling, {})[1].passed


@pytest.mark.parametrize(
    ("low", "skilled", "passed"), [(0.01, True, True), (-0.01, False, False), (0.01, False, False)]
)
def test_a_predictor_is_held_to_its_brier_skill(low: float, skilled: bool, passed: bool) -> None:
    simple_namespace = SimpleNamespace(metrics={"tested": {"skill": 0.02, "interval": [low, 0.03]}, "skilled": skilled})
    gate = calibrated(replace(subject("predicting", None), card=simple_namespace))  # type: ignore[arg-type]
    assert gate.passed == passed
    assert ("switched off" in gate.finding) != skilled
    assert calibrated(subject("other", None)).skipped


def test_divergence_counts_alarms() -> None:
    assert gates.divergence(None).skipped
    assert gates.divergence(2).passed
    assert not gates.divergence(3).passed


@pytest.mark.parametrize(
    ("failed", "upper", "name"),
    [
        ({"D1", "R1-R5, R8", "A1"}, -0.1, "SUSPECT"),
        ({"M4"}, 1.0, "SUSPECT"),
        ({"D4"}, 1.0, "SUSPECT"),
        ({"M4", "A1"}, 1.0, "NOT EVALUABLE"),
        ({"R7", "A1"}, -0.1, "REWARD HACKED"),
        ({"A1", "M2"}, -0.1, "NOT EVALUABLE"),
        ({"M1 interval"}, -0.1, "NEGATIVE"),
        ({"M2"}, 0.1, "NO EDGE SHOWN"),
        (set(), 0.1, "EDGE SHOWN"),
    ],
)
def test_the_order_of_verdicts(failed: set[str], upper: float, name: str) -> None:
    asked = ("D1", "D2", "D4", "R1-R5, R8", "R7", "A1", "M1 interval", "M2", "M4")
    assert name_of([Gate(gate, gate not in failed, "") for gate in asked], upper) == name


# verdicts on policies whose worth is known


def test_the_best_policy_of_a_world_with_an_edge_is_shown(engine: Engine) -> None:
    result = examine(GAME, subject("best", best_policy("drift")), plan("drift", 200, ceiling=None), engine, NOW)
    assert result.verdict.name == "EDGE SHOWN", result.verdict
    assert result.verdict.interval[0] > 0
    assert result.needed.windows is not None


@pytest.mark.parametrize("name", ["sidebet", "human"])
def test_no_baseline_has_an_edge_in_the_published_game(engine: Engine, name: str) -> None:
    result = examine(GAME, load_subject(GAME, name), plan("published"), engine, NOW)
    assert result.verdict.name in ("NO EDGE SHOWN", "NEGATIVE", "NOT EVALUABLE")
    assert result.verdict.ceiling == 0.0


def test_doing_nothing_is_not_evaluable(engine: Engine) -> None:
    result = examine(GAME, load_subject(GAME, "wait"), plan("published", 32), engine, NOW)
    assert result.verdict.name == "NOT EVALUABLE"


@dataclass
class Peeking:
    """Buy whenever the next price, which nobody can know, is higher."""

    tape: dict[int, list[list[float]]]
    bet: float = 0.001
    places: Any = None

    def start(self, lanes: int, rng: Any) -> Any:
        self.places = np.zeros(lanes, np.int64)
        return None

    def begin(self, state: Any, chosen: Any) -> None:
        self.places[chosen] += 1

    def act(self, obs: Any, state: Any) -> Any:
        actions = np.zeros((len(obs), 2), np.int64)
        for lane, row in enumerate(obs):
            windows = self.tape[lane]
            prices = windows[self.places[lane]] if self.places[lane] < len(windows) else []
            tick = int(row[TICK])
            if row[PHASE] == ACTIVE and tick + 1 < len(prices):
                rises = prices[tick + 1] > prices[tick]
                actions[lane, 0] = BUY if rises and row[QTY] == 0 else SELL if not rises and row[QTY] > 0 else WAIT
            elif row[PHASE] == ACTIVE and row[QTY] > 0:
                actions[lane, 0] = SELL
        return actions


class Recording(Peeking):
    """See every price before anybody else does."""

    def start(self, lanes: int, rng: Any) -> Any:
        self.tape = {lane: [[]] for lane in range(lanes)}
        return None

    def begin(self, state: Any, chosen: Any) -> None:
        for lane in np.flatnonzero(chosen).tolist():
            self.tape[lane].append([])

    def act(self, obs: Any, state: Any) -> Any:
        for lane in np.flatnonzero(obs[:, PHASE] == ACTIVE).tolist():
            self.tape[lane][-1].append(float(obs[lane, PRICE]))
        return np.zeros((len(obs), 2), np.int64)


def test_a_policy_that_peeks_at_the_next_price_is_suspect(engine: Engine) -> None:
    watching = Recording({})
    rollout(GAME, watching, "published", 64, 3, stake=STAKE)
    result = examine(GAME, subject("peeking", Peeking(watching.tape)), plan("published", 64), engine, NOW)
    assert result.verdict.name == "SUSPECT", result.verdict
    assert "leak" in result.verdict.sentence


# the report


@pytest.fixture(scope="module")
def examined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Examination, Engine, Path]]:
    home = tmp_path_factory.mktemp("examined")
    engine = ready(connect(home))
    yield examine(GAME, load_subject(GAME, "hold-40"), plan("published", 64), engine, NOW), engine, home
    engine.dispose()


def test_the_same_inputs_give_the_same_report(examined: tuple[Examination, Engine, Path]) -> None:
    result, engine, _ = examined
    again = examine(GAME, load_subject(GAME, "hold-40"), plan("published", 64), engine, datetime.now(UTC))
    assert to_json(again)["report_hash"] == to_json(result)["report_hash"]
    assert len(trials(engine)) == 1, "a repeated look counts once"
    other = examine(GAME, load_subject(GAME, "hold-40"), plan("published", 64, seed=4), engine, NOW)
    assert to_json(other)["report_hash"] != to_json(result)["report_hash"]


def test_the_report_stands_alone_and_shows_theory_and_dummies(examined: tuple[Examination, Engine, Path]) -> None:
    result, _, home = examined
    path, payload = write_report(result, home / "report")
    text = path.read_text()
    assert result.verdict.name in text
    assert text.count("<figure data-chart") == 5
    assert len(text) < 1_000_000
    assert 'src="http' not in text
    assert json.loads((home / "report" / "report.json").read_text()) == payload
    assert next(target["dummy"] for target in payload["targets"]) == "always WAIT"
    assert payload["targets"][0]["dummy_score"] > 0.8, "always-WAIT beats the accuracy that was wanted"
    assert payload["ceiling"] == 0.0
    assert payload["hindsight_roi"] > 1.0


def test_every_figure_can_be_computed_from_the_report(examined: tuple[Examination, Engine, Path]) -> None:
    """A script of anybody's, with numpy alone: ROI, e-value, activity and comparisons from the profits by window."""
    result, _, home = examined
    _, payload = write_report(result, home / "recompute")
    stake, name = payload["policy"]["stake"], payload["policy"]["name"]
    assert len(payload["windows"]) == payload["data"]["windows"] == 64
    returns = np.array(payload["profits"][name]) / stake
    assert payload["roi"] == pytest.approx(returns.mean(), abs=1e-15)
    bets = np.array([0.01, 0.02, 0.05, 0.1, 0.2])
    assert payload["e_value"] == pytest.approx(np.prod(1 + bets[:, None] * returns, axis=1).mean(), rel=1e-12)
    for rival, figures in payload["metrics"].items():
        own = np.array(payload["profits"][rival]) / stake
        assert figures["roi"] == pytest.approx(own.mean(), abs=1e-15)
    for key, figures in payload["stressed"].items():
        assert figures["roi"] == pytest.approx(np.mean(payload["profits"][f"{name}, {key}"]) / stake, abs=1e-15)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 3, 20, 100, 2000]), st.floats(-0.05, 0.05))
def test_no_sentence_contradicts_its_numbers(seed: int, windows: int, mean: float) -> None:
    rng = np.random.default_rng(seed)
    pnl = np.clip(rng.normal(mean, 0.1, windows), -1, None) * STAKE
    score = Score("tested", tuple(map(str, range(windows))), tuple(pnl.astype(int).tolist()), (1,) * windows, STAKE)
    failing = set(rng.choice(["D4", "R6", "A2", "M2", "M3 terms", "M4", "C1"], rng.integers(0, 4), replace=False))
    intervals = gates.money_intervals(score.returns, {"random": np.zeros(windows)}, rng)
    asked = [
        *(Gate(name, name not in failing, "its finding") for name in ("D4", "R6", "A2", "M2", "M3 terms", "M4", "C1")),
        gates.activity(np.ones(windows, np.int64)),
        *gates.money(score.returns, intervals),
    ]
    needed = None if rng.random() < 0.3 else int(rng.integers(1, 5000))
    verdict = gates.conclude(score, asked, 0.0, needed, intervals[gates.OWN])
    said, advised = verdict.sentence, gates.advice(verdict)
    assert "inf" not in said
    assert "None" not in said
    if windows < gates.FEWEST:
        assert verdict.name not in ("EDGE SHOWN", "NEGATIVE")
    if verdict.name == "EDGE SHOWN":
        assert not verdict.failed
        assert verdict.interval[0] > 0
    if verdict.name == "NEGATIVE":
        assert verdict.interval[1] < 0
    if verdict.name == "NO EDGE SHOWN":
        luck = bool({"M1 e-value", "M1 interval"} & set(verdict.failed))
        assert ("luck" in said) == luck
        assert ("on the same windows" in said) == any(name.startswith("M1 against") for name in verdict.failed)
    if "would need about" in advised:
        assert needed is not None
        assert needed > windows
    if windows < gates.FEW_WINDOWS and verdict.name != "EDGE SHOWN":
        assert "too few" in advised
    if "No number of windows" in advised:
        assert windows >= gates.FEW_WINDOWS


def test_both_returns_are_shown_with_their_names(examined: tuple[Examination, Engine, Path]) -> None:
    result, _, home = examined
    path, payload = write_report(result, home / "returns")
    played = result.played
    assert payload["return_on_stakes"]["hold-40"] == pytest.approx(played.pnl.sum() / played.staked.sum())
    assert payload["return_on_stakes"]["do nothing"] is None
    assert abs(payload["return_on_stakes"]["hold-40"]) > 10 * abs(payload["roi"]), (
        "a hundredth of the reserve is staked"
    )
    text = path.read_text()
    for named in ("return on what was staked", "ROI per reserved stake", "ROI of the reserve"):
        assert named in text


def test_stakes_are_coins() -> None:
    from playproof.cli.targets import stake_units

    assert stake_units(0.1) == 100_000_000
    assert stake_units(None) is None
    for wrong in (0.0, -1.0, float("nan"), 100_000_000.0):
        with pytest.raises(ConfigError, match="in coins"):
            stake_units(wrong)


def test_hostile_names_are_text(examined: tuple[Examination, Engine, Path]) -> None:
    result, _, home = examined
    named = replace(result, subject=replace(result.subject, name="<script>alert(1)</script>"))
    path, _ = write_report(named, home / "hostile")
    assert "<script>alert(1)" not in path.read_text()


def test_rivals_play_the_same_windows(examined: tuple[Examination, Engine, Path]) -> None:
    result, _, _ = examined
    assert {rival.windows for _, rival in result.rivals.values()} == {result.played.windows}
    assert next(iter(result.rivals)) == "do nothing"
    assert any(name.startswith("hold-") for name in result.rivals)


def test_targets_count_entries_and_exits() -> None:
    noting = EntryExitLog(Hold(k=20))
    played = rollout(GAME, noting, "published", 100, 5, stake=STAKE)
    assert noting.entries >= int(played.opened.sum()), "lanes that are done play on"
    assert noting.sold + noting.rugged <= noting.entries
    assert 0.75 < noting.sold / noting.entries < 0.97


# finding policies


def test_policies_are_found_or_refused() -> None:
    with pytest.raises(UnknownName, match="hold-40"):
        load_subject(GAME, "nobody")
    with pytest.raises(ConfigError, match="expected a policy at"):
        load_subject(GAME, "playproof.games.crash.players.optimum:Nobody")
    own = load_subject(GAME, "playproof.games.crash.players.optimum:BestDrift")
    assert own.name == "BestDrift"
    assert own.policy_hash == load_subject(GAME, "playproof.games.crash.players.optimum:BestDrift").policy_hash


def test_a_baseline_of_several_games_wants_one_named(home: Path) -> None:
    with pytest.raises(ConfigError, match="say which with --game"):
        game_of(["wait"])
    assert game_of(["wait"], "published").name == "crash"
    assert game_of(["wait", "hold-40"]).name == "crash"
    with pytest.raises(ConfigError, match="policies of one game"):
        game_of(["momentum", "hold-40"])
    with pytest.raises(UnknownName, match="hold-40"):
        game_of(["nobody"])
    assert find_policy("hold-40") == "hold-40"
    assert find_policy("nobody") == "nobody"


def test_a_run_is_found_by_its_name(home: Path) -> None:
    run = home / "runs" / "first"
    for step in ("000000000001", "000000000002"):
        (run / "checkpoints" / step).mkdir(parents=True)
        (run / "checkpoints" / step / "checkpoint.json").write_text("{}")
    (run / "config.json").write_text("{}")
    assert find_policy("first") == find_policy(str(run)) == str(run / "checkpoints" / "000000000002")
    (run / "result.json").write_text('{"best": "checkpoints/000000000001"}')
    assert find_policy("first") == str(run / "checkpoints" / "000000000001")


def test_the_command_ends_with_2_when_a_gate_fails(home: Path) -> None:
    payload = CliRunner().invoke(app, ["hold-40", "--rounds", "60", "--json"])
    assert payload.exit_code == 2, payload.output
    report = json.loads(payload.stdout)
    assert report["verdict"] in ("NO EDGE SHOWN", "NEGATIVE", "NOT EVALUABLE")
    assert Path(report["report"]).exists()


def test_a_score_that_lost_more_than_its_stake_is_refused() -> None:
    with pytest.raises(ConfigError, match="lose more than the stake"):
        Score("x", ("a",), (-11,), (1,), 10)
