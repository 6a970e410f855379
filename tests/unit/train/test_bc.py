"""Clones: what they learn from, the networks and trees they are, and how they are scored."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lessons import Follows, coin_score, coin_steps

from playproof.datasets import Transitions
from playproof.datasets.dataset import first_windows, prior_of, stacked, starts, take
from playproof.errors import ConfigError, DecodeError, InputError
from playproof.evaluate.rollout import RolloutOptions, rollout
from playproof.game import load_game
from playproof.games.crash.players.baselines import Hold
from playproof.games.crash.players.clone_bound import watched_chances
from playproof.games.crash.players.human import Human
from playproof.games.crash.players.optimum import best_policy
from playproof.policies.checkpoint import load_checkpoint, load_policy, save_checkpoint
from playproof.policies.clone_trees import read_habits
from playproof.policies.network import BatchPlayer, NetworkPolicy, draw_one
from playproof.policies.scaling import game_scaling, scale_rows
from playproof.policies.trees import parse_trees
from playproof.testing import coin
from playproof.train.bc import CloningLearner, card_of, clone, lay_pieces, learning_curve, merge, telling
from playproof.train.bc_trees import by_head, clone_habits, find_seldom, save_habits, to_choices
from playproof.train.config import BcConfig, TreesConfig
from playproof.train.demonstrations import DemonstrationConfig, Mixture, Noisy, demonstrate
from playproof.train.imitation_metrics import PriorCorrection, action_mix, find_tilts, head_likeness, likeness
from playproof.train.offline_loop import Losses, seeded
from playproof.train.run import Run, Tracking

QUIET = Tracking(tensorboard=False)
CRASH = load_game("crash")
NAMES = CRASH.observations["policy"].features
HEADS = CRASH.actions["buttons"].heads


@pytest.fixture(scope="module")
def human() -> Transitions:
    return demonstrate(CRASH, Human(), "published", 40, 3, DemonstrationConfig(clock="press"))


@pytest.fixture(scope="module")
def hints() -> Transitions:
    return coin_steps("biased", 1, 60, Follows(np.random.default_rng(0)))


class TestDemonstrations:
    def test_windows_stand_together_from_first_to_last_step(self, human: Transitions) -> None:
        begins = starts(human)
        assert len(begins) == len(set(human.windows)) == 40
        ends = np.r_[begins[1:], len(human.windows)] - 1
        assert human.done[ends].all()
        assert human.done.sum() == 40
        inner = np.setdiff1d(np.arange(len(human.windows)), ends)
        assert np.array_equal(human.next_observations[inner], human.observations[inner + 1])

    def test_rewards_of_a_window_are_its_profit(self) -> None:
        steps = demonstrate(CRASH, Hold(k=5), "published", 30, 1)
        played = [steps.rewards[a:b].sum() for a, b in zip(starts(steps), [*starts(steps)[1:], None], strict=True)]
        assert np.abs(played).max() < 0.01
        assert np.std(played) > 0

    def test_more_windows_than_lanes_continue_the_lanes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("playproof.train.demonstrations.LANES", 4)
        steps = demonstrate(CRASH, Hold(k=3), "published", 10, 1)
        assert [f"published-1-{n:06d}" for n in range(10)] == list(dict.fromkeys(steps.windows))

    def test_frames_are_laid_as_players_lay_them(self, human: Transitions) -> None:
        few = first_windows(human, 2)
        result = stacked(few, 3)
        player = BatchPlayer(_Watching(), sample=False)
        state = player.start(1, np.random.default_rng(0))
        for index in range(len(few.windows)):
            if index in starts(few):
                player.begin(state, np.ones(1, bool))
            player.act(few.observations[index : index + 1], state)
            assert np.array_equal(player.policy.seen, result[index : index + 1])  # type: ignore[attr-defined]

    def test_a_mixture_takes_turns_and_chance_has_its_share(self) -> None:
        rng = np.random.default_rng(0)
        obs = np.zeros((1000, 31), np.float32)
        mixture = Mixture([Noisy(Hold(), 1.0, (4, 1)), Noisy(Hold(), 0.0, (4, 1))])
        chosen = mixture.act(obs, mixture.start(1000, rng))
        assert (chosen[1::2, 0] == 0).all()
        assert 0.15 < (chosen[::2, 0] == 2).mean() < 0.35


class _Watching:
    frames = 3

    def act_batch(self, rows: Any, masks: Any = None, rng: Any = None) -> Any:
        self.seen = rows.copy()
        return np.zeros((len(rows), 2), np.int64)


class TestLikeness:
    def test_equals_the_plain_count(self) -> None:
        rng = np.random.default_rng(4)
        chances = rng.dirichlet([1, 1, 1], 400)
        chosen, shown = rng.integers(3, size=400), rng.choice(3, 900, p=[0.7, 0.2, 0.1])
        result = head_likeness(chances, chosen, shown, ("WAIT", "A", "B"))
        prior = np.bincount(shown) / 900
        named = [max(range(3), key=lambda c: row[c] / prior[c]) for row in chances]
        recalls = [np.mean([n == c for n, y in zip(named, chosen, strict=True) if y == c]) for c in range(3)]
        assert result.balanced == pytest.approx(np.mean(recalls))
        assert result.accuracy == pytest.approx((chances.argmax(1) == chosen).mean())
        assert result.always_wait == result.majority == pytest.approx((chosen == 0).mean())
        assert result.log_loss == pytest.approx(-np.log(chances[np.arange(400), chosen]).mean())
        assert sum(map(sum, result.confusion)) == 400

    def test_dividing_by_priors_is_best_where_chances_are_true(self) -> None:
        rng = np.random.default_rng(5)
        odds = rng.normal(size=(20000, 1)) + np.array([3.0, 0.0, -1.0])
        chances = np.exp(odds * rng.random((20000, 3)))
        chances /= chances.sum(1, keepdims=True)
        chosen = (chances.cumsum(1) < rng.random((20000, 1))).sum(1)
        best = head_likeness(chances, chosen, chosen, ("WAIT", "A", "B")).balanced
        for tilt in (
            PriorCorrection(wait=0.5),
            PriorCorrection(wait=2.0),
            PriorCorrection(stretch=0.5, seldom=(2,)),
            PriorCorrection(stretch=2.0, seldom=(2,)),
        ):
            assert head_likeness(chances, chosen, chosen, ("WAIT", "A", "B"), tilt=tilt).balanced <= best + 0.005

    def test_a_choice_learned_too_timidly_is_stretched_back(self) -> None:
        rng = np.random.default_rng(6)
        due = rng.random(20000) < 0.05
        chances = np.stack([np.full(20000, 0.9), np.full(20000, 0.09), np.where(due, 0.19, 0.001)], axis=1)
        chances /= chances.sum(1, keepdims=True)
        chosen = (chances.cumsum(1) < rng.random((20000, 1))).sum(1)
        prior = np.bincount(chosen) / 20000
        timid = chances.copy()
        timid[:, 1] = np.where(due, 3.0, 1.0) * prior[1]
        timid[:, 2] = prior[2] * (chances[:, 2] / prior[2]) ** 0.3
        actions = chosen[:, None]
        (plain,) = likeness([timid], actions, actions, [("WAIT", "A", "B")])
        (tilt,) = find_tilts([timid], actions, actions, [[2]])
        (result,) = likeness([timid], actions, actions, [("WAIT", "A", "B")], tilts=[tilt])
        (without,) = find_tilts([timid], actions, actions, [[]])
        assert tilt.stretch > 1.0
        assert without.stretch == 1.0
        assert plain.recall[2] == 0.0
        assert result.recall[2] is not None
        assert result.recall[2] > 0.8
        assert result.balanced > plain.balanced + 0.2

    def test_a_choice_shown_too_seldom_is_not_named_however_it_is_stretched(self) -> None:
        chosen = np.array([0] * 50 + [1] * 50 + [2])
        tilt = PriorCorrection(stretch=2.0, seldom=(2,))
        result = head_likeness(np.eye(3)[chosen], chosen, chosen, ("WAIT", "A", "B"), tilt=tilt)
        assert result.scored == ("WAIT", "A")
        assert result.confusion[2][2] == 0

    def test_rare_choices_do_not_count(self) -> None:
        chosen = np.array([0] * 50 + [1] * 50 + [2])
        result = head_likeness(np.eye(3)[chosen], chosen, chosen, ("WAIT", "A", "B"))
        assert result.scored == ("WAIT", "A")
        assert result.balanced == 1.0

    def test_refuses_chances_of_other_shape(self) -> None:
        with pytest.raises(InputError, match="expected chances of 2"):
            head_likeness(np.ones((3, 3)), np.zeros(3, int), np.zeros(3, int), ("WAIT", "A"))

    def test_a_watcher_beats_the_mix_and_his_mind_cannot_be_read(self, human: Transitions) -> None:
        seen = watched_chances(human.observations, human.actions, starts(human))
        for head in likeness(seen, human.actions, human.actions, HEADS):
            assert head.log_loss < 0.75 * head.mix_loss
            assert head.balanced > 2.5 / len(head.scored)
        assert np.allclose(seen[0].sum(1), 1)


@given(st.integers(0, 2**32), st.integers(2, 5), st.integers(2, 6))
@settings(max_examples=25, deadline=None)
def test_one_head_at_a_time_keeps_each_heads_chances(seed: int, first: int, second: int) -> None:
    rng = np.random.default_rng(seed)
    heads = [rng.dirichlet([8.0, *[1.0] * (size - 1)]).astype(np.float32) for size in (first, second)]
    rows = 4000
    drawn = draw_one([np.tile(of, (rows, 1)) for of in heads], rng)
    assert not ((drawn[:, 0] > 0) & (drawn[:, 1] > 0)).any()
    if heads[0][1:].sum() + heads[1][1:].sum() <= 1:
        for index, of in enumerate(heads):
            result = np.bincount(drawn[:, index], minlength=len(of)) / rows
            assert np.abs(result - of).max() < 0.05


class TestNetwork:
    CONFIG = BcConfig(hidden=(16,), epochs=30, batch=64, learning_rate=1e-2)

    def test_solves_the_coin_game(self, hints: Transitions) -> None:
        made = clone(coin.game(), hints, self.CONFIG, observation="table")
        assert coin_score(made.policy).roi > 0.12

    def test_loss_curve_is_pinned(self, hints: Transitions) -> None:
        made = clone(coin.game(), hints, replace(self.CONFIG, epochs=4), observation="table")
        assert [losses["loss"] for losses in made.curve] == pytest.approx(BC_CURVE, rel=1e-3)

    def test_plays_a_small_crash_world_like_its_teacher(self) -> None:
        best = best_policy("drift")
        steps = demonstrate(CRASH, best, "drift", 120, 2, DemonstrationConfig(stake=5 * 10**8))
        config = BcConfig(hidden=(32,), epochs=20, batch=128, learning_rate=5e-3, exclusive=False)
        made = clone(CRASH, steps, config)
        own, his = (
            rollout(CRASH, player, "drift", 200, 5, stake=5 * 10**8) for player in (BatchPlayer(made.policy), best)
        )
        assert own.pnl.mean() > 0.9 * his.pnl.mean() > 0

    def test_same_seed_same_weights_and_another_other(self, hints: Transitions) -> None:
        config = replace(self.CONFIG, epochs=2)
        first, second = (clone(coin.game(), hints, config, observation="table").weights for _ in range(2))
        other = clone(coin.game(), hints, replace(config, seed=1), observation="table").weights
        assert all(np.array_equal(first[name], second[name]) for name in first)
        assert not all(np.array_equal(first[name], other[name]) for name in first)

    @pytest.mark.parametrize("dropout", [0.0, 0.2])
    def test_a_broken_run_goes_on_to_the_same_weights(self, hints: Transitions, tmp_path: Path, dropout: float) -> None:
        config = replace(self.CONFIG, epochs=5, dropout=dropout, members=2)
        whole = clone(coin.game(), hints, config, observation="table")

        def stop(epoch: int, losses: Losses) -> None:
            if epoch == 2:
                raise KeyboardInterrupt

        run = Run.create(tmp_path / "run", "bc", {}, QUIET)
        with pytest.raises(KeyboardInterrupt):
            clone(coin.game(), hints, config, observation="table", run=run, notify=stop)
        run.close()
        again = Run.resume(tmp_path / "run", "bc", QUIET)
        resumed = clone(coin.game(), hints, config, observation="table", run=again)
        again.close()
        assert all(np.array_equal(whole.weights[name], resumed.weights[name]) for name in whole.weights)
        assert resumed.curve == whole.curve

    @given(st.integers(0, 10**6))
    @settings(max_examples=10, deadline=None)
    def test_pieces_fold_into_plain_layers(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        scaled = rng.normal(size=(200, 6)).astype(np.float32)
        config = BcConfig(frames=2, knots=6, activation="relu", watched=("x",))
        pieces = lay_pieces(scaled, 3, config, [0, 2], [1])
        weight, bias = rng.normal(size=(5, len(pieces.plus))).astype(np.float32), rng.normal(size=5).astype(np.float32)
        folded = pieces.fold(6, weight, bias)
        units = np.maximum(scaled @ folded["trunk.0.weight"].T + folded["trunk.0.bias"], 0)
        result = units @ folded["trunk.1.weight"].T + folded["trunk.1.bias"]
        assert np.allclose(result, pieces.encode(scaled) @ weight.T + bias, atol=2e-2)

    def test_members_are_averaged_into_one_network(self) -> None:
        rows = np.random.default_rng(0).normal(size=(32, 5)).astype(np.float32)
        actions = np.zeros((32, 2), np.int16)
        config = BcConfig(hidden=(8, 6), members=3)
        with seeded(1):
            cloning = CloningLearner(rows, actions, (3, 2), config)
        weights = merge(cloning.module, None, 5)
        scaling = game_scaling(coin.game(), [feature.name for feature in coin.FEATURES])
        policy = NetworkPolicy(scaling, (3, 2), weights)
        with torch.no_grad():
            parts = [member(torch.from_numpy(scale_rows(rows, scaling))) for member in cloning.module]
        mean = np.mean([torch.cat(list(part), 1).numpy() for part in parts], axis=0)
        assert np.allclose(policy.logits(rows), mean, atol=1e-5)

    def test_class_weights_are_taken_back_when_it_acts(self, hints: Transitions) -> None:
        plain, weighted = (
            clone(coin.game(), hints, replace(self.CONFIG, class_weights=item), observation="table") for item in (0, 1)
        )
        mixes = [np.mean(made.chances(hints)[0], axis=0) for made in (plain, weighted)]
        assert np.allclose(mixes[0], mixes[1], atol=0.05)
        assert np.allclose(mixes[0], prior_of(hints.actions, (3,))[0], atol=0.03)

    def test_impossible_choices_are_not_learned(self) -> None:
        steps = demonstrate(CRASH, Hold(k=6), "published", 20, 2)
        config = BcConfig(hidden=(8,), epochs=2, masked=True)
        made = clone(CRASH, steps, config)
        flat = steps.observations[:, NAMES.index("position_qty")] == 0
        assert made.chances(steps)[0][flat, 2].max() == 0

    def test_more_rounds_teach_more(self, hints: Transitions) -> None:
        unseen = coin_steps("biased", 2, 60, Follows(np.random.default_rng(1)))
        result = learning_curve(
            coin.game(), hints, unseen, self.CONFIG, observation="table", actions="bets", counts=(3, 60, 500)
        )
        assert list(result) == [3, 60]
        assert result[60][0].log_loss < result[3][0].log_loss

    def test_checkpoint_acts_the_same(self, hints: Transitions, tmp_path: Path) -> None:
        made = clone(coin.game(), hints, replace(self.CONFIG, epochs=2), observation="table")
        card = card_of(
            coin.game(),
            made,
            observation="table",
            actions="bets",
            clock="tick",
            stake=1,
            data_hash=None,
            world="biased",
            commit="",
            metrics={},
        )
        save_checkpoint(tmp_path / "bc", card, made.weights)
        loaded: Any = load_policy(tmp_path / "bc", coin.game())
        assert loaded.exclusive
        assert np.allclose(loaded.logits(hints.observations), made.policy.logits(hints.observations))

    def test_settings_that_do_not_fit_are_refused(self) -> None:
        with pytest.raises(ConfigError, match="relu with knots"):
            BcConfig(knots=4)
        with pytest.raises(ConfigError, match="frames of at least 2"):
            BcConfig(knots=4, activation="relu", watched=("price",))


def test_features_that_only_name_the_window_are_left_out(human: Transitions) -> None:
    kept = {NAMES[index] for index in telling(human, np.random.default_rng(0))}
    assert {"price", "tick", "bet_amount", "position_qty"} <= kept
    noise = np.random.default_rng(1).normal(size=len(starts(human)))
    lengths = np.diff(np.r_[starts(human), len(human.windows)])
    rows = human.observations.copy()
    rows[:, NAMES.index("connected_players")] = np.repeat(noise, lengths)
    assert NAMES.index("connected_players") not in telling(replace(human, observations=rows), np.random.default_rng(0))


HABITS = TreesConfig(watched=("tick", "price", "bet_amount"), members=1, frames=3, rare=0.2, enough=10)


@pytest.fixture(scope="module")
def made(human: Transitions) -> Any:
    return clone_habits(CRASH, human, HABITS)


class TestHabits:
    def test_chances_are_those_of_lightgbm(self, made: Any, human: Transitions) -> None:
        acts, does, *alone = made.text.split("\n##### next model\n")
        rows = stacked(human, 3)[:300]
        seen, close = made.policy.view.look(rows), made.policy.closer.look(rows)
        assert np.allclose(parse_trees(acts).score(seen), _raw(acts, seen), atol=1e-9)
        assert np.allclose(parse_trees(does).scores(close), _raw(does, close), atol=1e-9)
        assert len(alone) == len(made.policy.seldom) > 0
        for text in alone:
            assert np.allclose(parse_trees(text).score(close), _raw(text, close), atol=1e-9)

    def test_changes_are_summed_up_as_a_plain_loop_would(self, made: Any, human: Transitions) -> None:
        view = replace(made.policy.view, frames=8)
        rows, names = stacked(human, 8)[40:120], list(view.names)
        result = view.look(rows)
        scaled = scale_rows(rows.reshape(-1, len(NAMES)), view.scaling).reshape(len(rows), 8, -1)
        for row, position in product(range(len(rows)), view.watched):
            steps = [float(scaled[row, 7 - back, position] - scaled[row, 6 - back, position]) for back in range(7)]
            payload = {f"moved_{back + 1}": steps[back] for back in range(3)}
            payload |= {"lowest_near": min(steps[:4]), "highest_near": max(steps[:4])}
            payload |= {"lowest_all": min(steps), "highest_all": max(steps)}
            payload["still"] = next((back for back, step in enumerate(steps) if step), 7)
            payload["changes"] = sum(step != 0 for step in steps)
            for what, value in payload.items():
                assert result[row, names.index(f"{NAMES[position]}_{what}")] == pytest.approx(value, abs=1e-6)
        assert result.shape == (len(rows), len(names))

    def test_what_he_seldom_does_is_told_alone_and_the_rest_share_what_is_left(
        self, made: Any, human: Transitions
    ) -> None:
        rows = stacked(human, 3)[:40]
        bare, payload = replace(made.policy, seldom=(), rates=()), replace(made.policy, rates=())
        before, after = (
            np.concatenate([of[:, 1:] for of in item.probabilities(rows)], axis=1) for item in (bare, payload)
        )
        close = made.policy.closer.look(rows)
        alone = {position: 1 / (1 + np.exp(-of[0].score(close))) for position, of in made.policy.seldom}
        for row in range(len(rows)):
            left = 1 - sum(chance[row] for chance in alone.values())
            rest = 1 - sum(before[row, position] for position in alone)
            for index in range(before.shape[1]):
                wanted = alone[index][row] if index in alone else before[row, index] * left / rest
                assert after[row, index] == pytest.approx(wanted, rel=1e-12)

    def test_seldom_is_a_small_share_of_what_a_head_does_seen_often_enough(self) -> None:
        kinds = np.array([[0, 0], [1, 0], [2, 0], [3, 0], [0, 1], [0, 2]], np.int16)
        done = np.repeat(kinds, [5000, 911, 19, 50, 50, 900], axis=0)  # a share of the 980, and of the 950
        assert find_seldom(done, (4, 9), replace(HABITS, rare=0.05, enough=20)) == []
        assert find_seldom(done, (4, 9), replace(HABITS, rare=0.052, enough=20)) == [2]
        assert find_seldom(done, (4, 9), replace(HABITS, rare=0.053, enough=20)) == [2, 3]
        assert find_seldom(done, (4, 9), replace(HABITS, rare=0.053, enough=19)) == [1, 2, 3]

    def test_what_is_stretched_is_what_is_seldom(self, made: Any) -> None:
        seldom = [index for index, _ in made.policy.seldom]
        assert seldom
        wanted = by_head(seldom, made.policy.heads)
        assert [list(tilt.seldom) for tilt in made.tilts] == wanted
        assert all(tilt.stretch == 1.0 for tilt, few in zip(made.tilts, wanted, strict=True) if not few)

    def test_places_among_all_that_is_done_are_choices_of_heads(self) -> None:
        assert by_head([2, 3, 10], (4, 9)) == [[3], [1, 8]]
        assert by_head([], (4, 9)) == [[], []]

    def test_every_choice_is_as_likely_as_it_was_shown(self, made: Any, human: Transitions) -> None:
        for head, of in enumerate(made.chances(human)):
            shown = np.bincount(human.actions[:, head], minlength=of.shape[1])
            often = shown >= 10
            assert of.sum(axis=0)[often] == pytest.approx(shown[often], rel=0.05)

    def test_knows_him_far_better_than_his_mix(self, made: Any) -> None:
        unseen = demonstrate(CRASH, Human(), "published", 40, 8, DemonstrationConfig(clock="press"))
        for head in made.likeness(unseen, unseen, HEADS):
            assert head.log_loss < 0.85 * head.mix_loss
            assert head.balanced > 1.8 / len(head.scored)

    def test_plays_on_the_press_clock_with_his_mix(self, made: Any, human: Transitions) -> None:
        played = demonstrate(
            CRASH, BatchPlayer(made.policy, sample=True), "published", 60, 9, DemonstrationConfig(clock="press")
        )
        own, his = action_mix(played.actions, HEADS), action_mix(human.actions, HEADS)
        assert not ((played.actions[:, 0] > 0) & (played.actions[:, 1] > 0)).any()
        for name in ("BUY", "SELL"):
            assert 0.5 < own[name] / his[name] < 2.0

    def test_checkpoint_is_read_as_data_and_checked(self, made: Any, human: Transitions, tmp_path: Path) -> None:
        path = tmp_path / "habits"
        save_habits(
            path,
            CRASH,
            made,
            observation="policy",
            actions="buttons",
            clock="press",
            stake=10**8,
            commit="",
            data_hash=None,
            world="published",
            metrics={},
        )
        rows = stacked(human, 3)[:50]
        read = read_habits(load_checkpoint(path))
        for own, saved in zip(made.policy.probabilities(rows), read.probabilities(rows), strict=True):
            assert np.array_equal(own, saved)
        seat: Any = load_policy(path)
        assert len(seat.act(human.observations[0])) == 2
        text = (path / "model.txt").read_text().replace("threshold=", "threshold=1 ", 1)
        (path / "model.txt").write_text(text)
        with pytest.raises(DecodeError, match="was changed"):
            load_checkpoint(path)

    def test_two_presses_in_one_step_count_as_the_first(self) -> None:
        assert to_choices(np.array([[0, 0], [1, 0], [0, 1], [3, 8]], np.int16), (4, 9)).tolist() == [0, 1, 4, 3]

    def test_same_seed_same_trees(self, made: Any, human: Transitions) -> None:
        assert clone_habits(CRASH, human, HABITS).text == made.text

    def test_needs_some_windows(self, human: Transitions) -> None:
        with pytest.raises(InputError, match="at least 5"):
            clone_habits(CRASH, first_windows(human, 3), HABITS)


def _raw(text: str, rows: Any) -> Any:
    return lightgbm.Booster(model_str=text).predict(rows, raw_score=True)


def test_a_clone_on_the_tick_clock_can_be_rolled_out(human: Transitions) -> None:
    made = clone(CRASH, take(human, np.arange(2000)), BcConfig(hidden=(8,), epochs=1, frames=2))
    options = RolloutOptions(clock="press")
    result = rollout(CRASH, BatchPlayer(made.policy, sample=True), "published", 20, 1, stake=10**8, options=options)
    assert result.steps.sum() > 500


BC_CURVE = [0.9799, 0.666, 0.5046, 0.4557]


def test_there_must_be_something_to_clone() -> None:
    from types import SimpleNamespace

    from playproof.cli.train.bc import check_demonstrations
    from playproof.errors import InputError

    def split(train: int, unseen: int) -> Any:
        parts = [np.zeros((500, 2), np.int64) for _ in range(2)]
        parts[0][:train, 0], parts[1][:unseen, 1] = 1, 2
        train_part, unseen_part = (SimpleNamespace(actions=part, rewards=np.zeros(500)) for part in parts)
        return SimpleNamespace(train=train_part, unseen=unseen_part)

    with pytest.raises(InputError, match="500 steps of waiting"):
        check_demonstrations(split(0, 40))
    assert "3 held out" in str(check_demonstrations(split(40, 3)))
    assert check_demonstrations(split(40, 40)) is None


def test_the_table_and_its_accuracy_are_about_one_prediction() -> None:
    from playproof.train.imitation_metrics import head_likeness

    chances = np.tile([0.9, 0.1], (200, 1))
    chosen = np.repeat([0, 1], [180, 20])
    metrics = head_likeness(chances, chosen, chosen, ("WAIT", "BUY"))
    total = sum(map(sum, metrics.confusion))
    assert metrics.named_right == sum(metrics.confusion[i][i] for i in range(2)) / total
    assert metrics.accuracy == 0.9
