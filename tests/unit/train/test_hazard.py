"""The predictor of the rug: labels, inputs, calibration, trees read as data, and bets by it."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playproof.datasets import Transitions
from playproof.datasets.dataset import starts
from playproof.errors import ConfigError, DecodeError, InputError
from playproof.evaluate.rollout import rollout
from playproof.events import Event
from playproof.game import Outcome, load_game
from playproof.games.crash.analysis.predictor import INPUTS, PREDICTION
from playproof.games.crash.features.table import PREDICTOR_INPUTS, TRADER
from playproof.games.crash.players.baselines import Hold, Wait
from playproof.games.crash.players.optimum import best_policy
from playproof.games.crash.sim.env import CrashEnv
from playproof.policies.checkpoint import load_checkpoint, load_policy
from playproof.policies.ensemble import EnsemblePolicy, batch_player, combine, save_ensemble
from playproof.policies.trees import describe_chances, parse_trees, read_predictor
from playproof.train.config import RugPredictorConfig
from playproof.train.demonstrations import DemonstrationConfig, demonstrate
from playproof.train.rug_predictor import cut, grow, lay_ticks, platt, save_predictor, sidebet_policy

CRASH = load_game("crash")
NAMES = CRASH.observations["policy"].features
SMALL = RugPredictorConfig(trees=60, patience=10)


@pytest.fixture(scope="module")
def hot() -> Transitions:
    return demonstrate(CRASH, Wait(), "hazard", 900, 1)


@pytest.fixture(scope="module")
def made(hot: Transitions) -> Any:
    return grow(CRASH, hot, SMALL, names=NAMES, world="hazard")


class TestTicks:
    def test_labels_are_those_of_the_game(self, hot: Transitions) -> None:
        ticks = lay_ticks(CRASH, hot, NAMES)
        label = CRASH.labels["rug_within_40"].value
        moment = datetime(2025, 1, 15, tzinfo=UTC)
        observation = 0
        for number, begin in enumerate(starts(hot)[:20]):
            end = int(ticks.ends[number])
            outcome = Outcome("w", {"rug_tick": end})
            for row in hot.observations[begin : begin + int((ticks.windows == number).sum())]:
                tick = int(row[NAMES.index("tick")])
                event = Event(
                    ts=moment,
                    source="replay",
                    doc_type="game_tick",
                    session_id="s",
                    seq=observation,
                    event_name="tick",
                    columns={"tick": tick},
                )
                assert label(outcome, event) == float(ticks.happened[observation])
                observation += 1

    def test_every_row_of_a_round_is_asked_about(self, hot: Transitions) -> None:
        ticks = lay_ticks(CRASH, hot, NAMES)
        assert len(ticks.inputs) == len(hot.rewards)
        assert ticks.inputs.shape[1] == len(NAMES) + len(INPUTS)
        assert np.isfinite(ticks.inputs).all()

    def test_inputs_are_the_features_of_the_table(self) -> None:
        """What lanes compute beyond a row is what the observation set `trader` shows."""
        env = CrashEnv(observation="trader", world="published")
        block, _ = env.reset(seed=5)
        plain = CrashEnv(observation="policy", world="published")
        row, _ = plain.reset(seed=5)
        memory = PREDICTION.start(1)
        for _ in range(60):
            result = PREDICTION.look(memory, np.asarray(row)[None, :], NAMES)[0]
            whole = np.concatenate([block[part] for part in block])
            shown = whole[[TRADER.index(name) for name in INPUTS]]
            assert np.allclose(result, shown, rtol=1e-3, atol=1e-4)
            block, _, done, _, _ = env.step((0, 0))
            row, *_ = plain.step((0, 0))
            if done:
                break

    def test_all_fourteen_planned_inputs_are_accounted_for(self) -> None:
        assert len(PREDICTOR_INPUTS) == 14
        shown = " ".join(PREDICTION.planned.values())
        assert all(f"`{name}`" in shown for name in INPUTS)
        assert all("`" in text or text.startswith("left out") for text in PREDICTOR_INPUTS.values())

    def test_cut_windows_are_refused(self, hot: Transitions) -> None:
        from playproof.datasets.dataset import take

        with pytest.raises(InputError, match="to their end"):
            lay_ticks(CRASH, take(hot, np.arange(starts(hot)[1] - 3)), NAMES)

    @given(st.integers(20, 500))
    def test_parts_are_apart_and_in_order(self, windows: int) -> None:
        parts = cut(windows)
        assert parts[0][0] == 0
        assert parts[-1][1] == windows
        assert all(before[1] + 1 == after[0] for before, after in pairwise(parts))


class TestPredictor:
    def test_finds_the_hot_rounds(self, made: Any) -> None:
        assert made.predictor.skilled
        assert made.tested.skill > 0.6 * made.by_theory.skill
        assert max(made.importance, key=made.importance.get) in ("rugpool_amount", "rugpool_ratio")

    def test_bets_earn_most_of_what_can_be_earned(self, made: Any) -> None:
        own, best = (
            rollout(CRASH, player, "hazard", 300, 3, stake=10**8).pnl.sum()
            for player in (sidebet_policy(CRASH, made, "hazard"), best_policy("hazard"))
        )
        assert own > 0.7 * best > 0

    def test_is_switched_off_where_nothing_can_be_known(self) -> None:
        steps = demonstrate(CRASH, Wait(), "published", 400, 2)
        result = grow(CRASH, steps, SMALL, names=NAMES, world="published")
        assert not result.predictor.skilled
        assert result.tested.interval[0] < 0 < result.tested.interval[1] or abs(result.tested.skill) < 0.01
        rows = lay_ticks(CRASH, steps, NAMES).inputs[:5]
        assert set(result.predictor.probability(rows)) == {result.predictor.constant}
        assert (
            rollout(CRASH, sidebet_policy(CRASH, result, "published"), "published", 50, 1, stake=10**8).opened.sum()
            == 0
        )

    def test_same_seed_same_model(self, made: Any, hot: Transitions) -> None:
        assert grow(CRASH, hot, SMALL, names=NAMES, world="hazard").model == made.model

    def test_what_is_told_follows_from_the_probability(self) -> None:
        payload = describe_chances(np.array([0.1817, 0.39, 0.4, 0.5, 1.0]), 0.1817, 40, 200.0)
        assert payload.should_exit.tolist() == [False, False, True, True, True]
        assert payload.is_critical.tolist() == [False, False, False, True, True]
        assert payload.confidence[0] == 0
        assert payload.ticks_to_rug_norm[0] == pytest.approx(1.0, rel=1e-3)
        assert np.isfinite(payload.ticks_to_rug_norm).all()

    def test_checkpoint_is_read_as_data_and_bets_the_same(self, made: Any, tmp_path: Path, hot: Transitions) -> None:
        path = tmp_path / "rugs"
        save_predictor(path, CRASH, made, observation="policy", stake=10**8, commit="", world="hazard")
        read = read_predictor(load_checkpoint(path))
        rows = lay_ticks(CRASH, hot, NAMES).inputs[:200]
        assert np.array_equal(read.probability(rows), made.predictor.probability(rows))
        own, saved = (
            rollout(CRASH, player, "hazard", 60, 4, stake=10**8).pnl
            for player in (sidebet_policy(CRASH, made, "hazard"), batch_player(path))
        )
        assert np.array_equal(own, saved)
        seat: Any = load_policy(path)
        assert seat.act(hot.observations[0]) in ((0, 0), (3, 0))

    def test_settings_that_make_no_trees_are_refused(self) -> None:
        with pytest.raises(ConfigError, match="at least 2 leaves"):
            RugPredictorConfig(leaves=1)


class TestTrees:
    def test_reads_what_lightgbm_predicts(self, made: Any, hot: Transitions) -> None:
        import lightgbm

        rows = lay_ticks(CRASH, hot, NAMES).inputs[::97]
        theirs = lightgbm.Booster(model_str=made.model).predict(rows, raw_score=True)
        assert np.allclose(parse_trees(made.model).score(rows), theirs, atol=1e-12)

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("objective=binary sigmoid:1", "objective=regression"),
            ("decision_type=", "decision_type=1 "),
            ("left_child=", "left_child=0 "),
            ("leaf_value=", "leaf_value=nan "),
            ("split_feature=", "split_feature=999 "),
            ("Tree=0", "Twig=0"),
        ],
    )
    def test_refuses_a_doctored_file(self, made: Any, old: str, new: str) -> None:
        assert old in made.model
        with pytest.raises(DecodeError):
            parse_trees(made.model.replace(old, new) if old == "Tree=0" else made.model.replace(old, new, 1))

    def test_a_loop_among_splits_is_refused(self, made: Any) -> None:
        lines = made.model.splitlines()
        index = next(k for k, line in enumerate(lines) if line.startswith("left_child="))
        children = lines[index].removeprefix("left_child=").split()
        lines[index] = "left_child=" + " ".join(["0", *children[1:]])
        with pytest.raises(DecodeError, match="come after them"):
            parse_trees("\n".join(lines))


@given(st.floats(0.2, 3.0), st.floats(-2.0, 2.0), st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_calibration_finds_slope_and_offset(slope: float, offset: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=40000)
    happened = rng.random(40000) < 1 / (1 + np.exp(-(offset + slope * scores)))
    result = platt(scores, happened)
    assert result[0] == pytest.approx(min(slope, 1.0), abs=0.08)
    mean = (1 / (1 + np.exp(-(result[1] + result[0] * scores)))).mean()
    assert mean == pytest.approx(happened.mean(), abs=0.01)


class TestEnsemble:
    @pytest.fixture
    def parts(self, made: Any, tmp_path: Path) -> tuple[Path, Path]:
        from playproof.policies.checkpoint import save_checkpoint
        from playproof.train.bc import card_of, clone
        from playproof.train.config import BcConfig

        steps = demonstrate(CRASH, Hold(k=200), "hazard", 60, 2)
        cloned = clone(CRASH, steps, BcConfig(hidden=(16,), epochs=2, exclusive=False))
        card = card_of(
            CRASH,
            cloned,
            observation="policy",
            actions="buttons",
            clock="tick",
            stake=10**8,
            data_hash=None,
            world="hazard",
            commit="",
            metrics={},
        )
        save_checkpoint(tmp_path / "policy", card, cloned.weights)
        save_predictor(tmp_path / "rugs", CRASH, made, observation="policy", stake=10**8, commit="", world="hazard")
        return tmp_path / "policy", tmp_path / "rugs"

    def test_the_rule_takes_over_in_its_order(self, made: Any) -> None:
        bets = sidebet_policy(CRASH, made, "hazard").foresight
        rule = EnsemblePolicy(Hold(k=500), bets, (0, 0))
        own, alone = (rollout(CRASH, player, "hazard", 300, 6, stake=10**8) for player in (rule, Hold(k=500)))
        critical = own.decisions[:, 2] > 0
        assert critical.sum() > 5
        assert own.decisions[:, 3].sum() > 50
        assert own.pnl.sum() > alone.pnl.sum()

    def test_checkpoint_names_its_parts_and_refuses_others(self, parts: tuple[Path, Path], tmp_path: Path) -> None:
        policy, predictor = parts
        path = tmp_path / "rule"
        save_ensemble(path, policy, predictor, margin=0.1, commit="", metrics={})
        played = [
            rollout(CRASH, player, "hazard", 40, 1, stake=10**8).pnl
            for player in (combine(policy, predictor, 0.1), batch_player(path))
        ]
        assert np.array_equal(*played)
        seat: Any = load_policy(path)
        assert len(seat.act(np.zeros(31, np.float32))) == 2
        (predictor / "checkpoint.json").write_text((predictor / "checkpoint.json").read_text() + " ")
        with pytest.raises(DecodeError, match="found another"):
            load_policy(path)


def test_play_of_others_can_be_learned_from(hot: Transitions) -> None:
    held = demonstrate(CRASH, Hold(k=3), "hazard", 20, 1, DemonstrationConfig(stake=10**8))
    assert lay_ticks(CRASH, held, NAMES).inputs.shape[1] == len(NAMES) + len(INPUTS)
    assert len(hot.rewards) > len(held.rewards)
