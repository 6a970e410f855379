"""CQL and IQL: the same numbers as d3rlpy's, the toy game, the crash game, and going on after a kill."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lessons import coin_score, coin_steps

from playproof.datasets import Transitions
from playproof.evaluate.rollout import rollout
from playproof.game import load_game
from playproof.games.crash.players.baselines import Hold
from playproof.games.crash.players.optimum import best_policy
from playproof.policies import Uniform
from playproof.policies.checkpoint import load_policy, save_checkpoint
from playproof.policies.network import BatchPlayer
from playproof.testing import coin
from playproof.train.config import CqlConfig, IqlConfig
from playproof.train.cql import Cql, train_cql
from playproof.train.data import Heads, OfflineSetup, Steps, best_of, card_of, to_steps, value_of
from playproof.train.demonstrations import DemonstrationConfig, Mixture, Noisy, demonstrate
from playproof.train.iql import Iql, advantage_weight, expectile_loss, train_iql
from playproof.train.offline_loop import Losses, seeded
from playproof.train.run import Run, Tracking

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "cql.json").read_text(encoding="utf-8"))
QUIET = Tracking(tensorboard=False)
COIN = OfflineSetup.from_game(coin.game())
CRASH = load_game("crash")
STAKE = 5 * 10**8


@pytest.fixture(scope="module")
def flips() -> Transitions:
    """Windows of somebody who chooses at random."""
    return coin_steps("biased", 1, 300, Uniform((3,), np.random.default_rng(0)))


class TestGolden:
    @pytest.fixture
    def learner(self) -> Cql:
        payload = GOLDEN["steps"]
        steps = Steps(
            torch.tensor(payload["observations"]),
            torch.tensor(payload["actions"]),
            torch.tensor(payload["rewards"]).squeeze(1),
            torch.tensor(payload["next_observations"]),
            1 - torch.tensor(payload["terminals"]).squeeze(1),
            None,
        )
        config = CqlConfig(
            alpha=GOLDEN["alpha"],
            gamma=GOLDEN["gamma"],
            learning_rate=GOLDEN["learning_rate"],
            target_interval=GOLDEN["target_interval"],
            hidden=(8, 8),
            huber=1.0,
        )
        cql = Cql(steps, (3,), config)
        start = {name: torch.tensor(value) for name, value in GOLDEN["cql"]["start"].items()}
        ours = {"trunk.0": "_encoder._layers.0", "trunk.1": "_encoder._layers.2", "heads.0": "_fc"}
        state = {f"{own}.{part}": start[f"{its}.{part}"] for own, its in ours.items() for part in ("weight", "bias")}
        cql.q.load_state_dict(state)
        cql.target.load_state_dict(state)
        return cql

    def test_cql_makes_the_updates_of_d3rlpy(self, learner: Cql) -> None:
        everything = torch.arange(len(learner.steps))
        for its in GOLDEN["cql"]["curve"]:
            own = learner.update(everything, 0.0)
            assert own["td"] == pytest.approx(its["td_loss"], rel=1e-5)
            assert own["cql"] == pytest.approx(its["conservative_loss"], rel=1e-5)
        with torch.no_grad():
            values = learner.q(learner.steps.rows)[0].numpy()
        assert np.allclose(values, GOLDEN["cql"]["values"], atol=1e-5)

    def test_iql_weighs_as_d3rlpy_does(self) -> None:
        iql = GOLDEN["iql"]
        differences = torch.tensor(iql["differences"])
        assert float(expectile_loss(differences, iql["expectile"])) == pytest.approx(iql["value_loss"], rel=1e-6)
        assert np.allclose(advantage_weight(differences, iql["beta"]).numpy(), iql["weights"], rtol=1e-5)


class TestHeads:
    def test_sums_over_heads_are_sums_over_all_actions(self) -> None:
        """The slow, obvious twin: every pair of choices on its own."""
        torch.manual_seed(0)
        values = [torch.randn(6, 4), torch.randn(6, 3)]
        joint = (values[0][:, :, None] + values[1][:, None, :]).reshape(6, 12)
        spread = torch.stack([of.logsumexp(dim=1) for of in values]).sum(dim=0)
        assert torch.allclose(spread, joint.logsumexp(dim=1), atol=1e-5)
        best = best_of(values, None)
        assert (best[:, 0] * 3 + best[:, 1]).tolist() == joint.argmax(dim=1).tolist()
        actions = torch.tensor([[k % 4, k % 3] for k in range(6)])
        plain = [values[0][k, k % 4] + values[1][k, k % 3] for k in range(6)]
        assert torch.allclose(value_of(values, actions), torch.stack(plain))

    def test_what_is_impossible_is_never_the_best(self) -> None:
        values = [torch.tensor([[5.0, 1.0, 0.0]]), torch.tensor([[0.0, 9.0]])]
        possible = torch.tensor([[False, True, True, True, False]])
        assert best_of(values, possible).tolist() == [[1, 0]]

    def test_expectile_of_values_is_found(self) -> None:
        """With a fixed critic the value must come to the expectile, which bisection finds too."""
        samples = torch.tensor([0.0, 1.0, 5.0, 2.0])
        value = torch.zeros(1, requires_grad=True)
        optimizer = torch.optim.SGD([value], lr=0.2)
        for _ in range(400):
            optimizer.zero_grad()
            expectile_loss(samples - value, 0.8).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        low, high = 0.0, 5.0
        for _ in range(60):
            middle = (low + high) / 2
            up = float((samples - middle).clamp(min=0).sum() * 0.8 - (middle - samples).clamp(min=0).sum() * 0.2)
            low, high = (middle, high) if up > 0 else (low, middle)
        assert value.item() == pytest.approx(low, abs=1e-3)


LEARNERS: dict[str, Any] = {
    "cql": (train_cql, CqlConfig(alpha=0.02, hidden=(16,), epochs=12, batch=128, learning_rate=5e-3, gamma=0.5)),
    "iql": (train_iql, IqlConfig(hidden=(16,), epochs=12, batch=128, learning_rate=5e-3, gamma=0.5, beta=5.0)),
}
CURVES = {"cql": [0.395284, 0.372716, 0.373724], "iql": [2.446238, 2.088762, 2.134749]}
"""Losses of the first epochs; seeds are fixed."""


@pytest.mark.parametrize("method", LEARNERS)
class TestLearners:
    def test_solves_the_coin_game_from_random_play(self, method: str, flips: Transitions) -> None:
        train, config = LEARNERS[method]
        made = train(COIN, flips, config)
        assert abs(flips.rewards.mean()) < 0.002
        assert coin_score(made.policy).roi > 0.12

    def test_loss_curve_is_pinned(self, method: str, flips: Transitions) -> None:
        train, config = LEARNERS[method]
        made = train(COIN, flips, replace(config, epochs=3))
        assert [losses["loss"] for losses in made.curve] == pytest.approx(CURVES[method], rel=1e-3)

    def test_same_seed_same_weights(self, method: str, flips: Transitions) -> None:
        train, config = LEARNERS[method]
        first, second = (train(COIN, flips, replace(config, epochs=1)).weights for _ in range(2))
        assert all(np.array_equal(first[name], second[name]) for name in first)

    def test_a_broken_run_goes_on_to_the_same_weights(self, method: str, flips: Transitions, tmp_path: Path) -> None:
        train, config = LEARNERS[method]
        config = replace(config, epochs=4)
        whole = train(COIN, flips, config)

        def stop(epoch: int, losses: Losses) -> None:
            if epoch == 2:
                raise KeyboardInterrupt

        run = Run.create(tmp_path / "run", method, {}, QUIET)
        with pytest.raises(KeyboardInterrupt):
            train(COIN, flips, config, run, stop)
        run.close()
        again = Run.resume(tmp_path / "run", method, QUIET)
        resumed = train(COIN, flips, config, again)
        again.close()
        assert all(np.array_equal(whole.weights[name], resumed.weights[name]) for name in whole.weights)

    def test_checkpoint_acts_the_same(self, method: str, flips: Transitions, tmp_path: Path) -> None:
        train, config = LEARNERS[method]
        made = train(COIN, flips, replace(config, epochs=1))
        card = card_of(
            COIN,
            method,
            {"activation": config.activation, "masked": config.masked},
            clock="tick",
            stake=1,
            reward={"name": "profit", "version": "1", "hash": None, "failed_checks": False},
            commit="",
            seed=0,
            data_hash=None,
            world="biased",
            metrics={},
        )
        save_checkpoint(tmp_path / "policy", card, made.weights)
        loaded: Any = load_policy(tmp_path / "policy", coin.game())
        assert np.allclose(loaded.logits(flips.observations), made.policy.logits(flips.observations))

    def test_leaves_the_losses_of_mixed_play_out(self, method: str) -> None:
        """A small crash world: noisy play of the best policy, and somebody who holds too long.

        Not playing at all passes too: that an edge is found in recorded play is not shown by this.
        """
        best = best_policy("drift")
        players = Mixture([Noisy(best, 0.05, (4, 1)), Noisy(best, 0.5, (4, 1)), Hold(bet=0.1, k=40)])
        steps = demonstrate(CRASH, players, "drift", 60, 1, DemonstrationConfig(stake=STAKE))
        train, _ = LEARNERS[method]
        config = (
            CqlConfig(alpha=0.3, gamma=0.9, epochs=3, batch=256, reward_scale=30, learning_rate=2e-3)
            if method == "cql"
            else IqlConfig(beta=5, gamma=0.9, epochs=3, batch=256, reward_scale=30, learning_rate=2e-3)
        )
        made = train(OfflineSetup.from_game(CRASH), steps, config)
        own, its = (
            rollout(CRASH, player, "drift", 128, 3, stake=STAKE).pnl for player in (BatchPlayer(made.policy), players)
        )
        assert own.mean() > its.mean()


@pytest.mark.parametrize(("huber", "chosen"), [(0.0, 0), (1.0, 1)])
def test_rare_large_losses_count_unless_errors_are_cut(huber: float, chosen: int) -> None:
    """Holding gains 1 in 99 of 100 steps and loses 200 in the other: on average it loses, which Huber's loss hides."""
    gains = torch.cat([torch.zeros(100), torch.ones(99), torch.tensor([-200.0])])
    row = torch.ones(200, 1)
    steps = Steps(row, torch.tensor([[0]] * 100 + [[1]] * 100), gains, row, torch.zeros(200), None)
    with seeded(0):
        learner = Cql(steps, (2,), CqlConfig(alpha=0.0, huber=huber, hidden=(), learning_rate=0.05))
        for _ in range(300):
            learner.update(torch.arange(200), 0.0)
    with torch.no_grad():
        assert int(learner.q(row[:1])[0].argmax()) == chosen


class TestStitching:
    """The toy of the paper: the best way is made of pieces of ways that nobody went as a whole.

    From 0 one can leave for 0.3, or go by 1 to 2, where 9 in 10 left for nothing and 1 in 10 for 1. Towards
    expectile 1 values are those of the best that was played, at 0.5 those of the player (Kostrikov et al. 2021,
    section 4); with one action played at a time the expectiles of two values are known.
    """

    WAYS = ((0, 0, 0.0, 1), (0, 1, 0.3, 3), (1, 0, 0.0, 2), *[(2, 0, 0.0, 3)] * 9, (2, 1, 1.0, 3))

    def learned(self, expectile: float) -> Iql:
        index, action, reward, after = (torch.tensor(of) for of in zip(*self.WAYS, strict=True))
        eye = torch.eye(4)
        steps = Steps(eye[index], action[:, None], reward, eye[after], (after < 3).float(), None)
        config = IqlConfig(expectile=expectile, beta=5.0, gamma=0.9, hidden=(), learning_rate=0.02, follow=0.1)
        with seeded(0):
            learner = Iql(steps, (2,), config)
            for _ in range(900):
                learner.update(torch.arange(len(self.WAYS)), 0.0)
        return learner

    @pytest.mark.parametrize(("expectile", "chosen"), [(0.5, 1), (0.98, 0)])
    def test_values_are_the_expectiles_and_the_best_way_is_found(self, expectile: float, chosen: int) -> None:
        learner = self.learned(expectile)
        above, below = 0.1 * expectile, 0.9 * (1 - expectile)
        at_two = above / (above + below)
        with torch.no_grad():
            values = learner.critics[0](torch.eye(4))[0]
            policy = learner.policy(torch.eye(4))[0]
        assert learner.value(torch.eye(4))[0][2].item() == pytest.approx(at_two, abs=0.02)
        assert values[0, 0].item() == pytest.approx(0.81 * at_two, abs=0.02)
        assert values[0, 1].item() == pytest.approx(0.3, abs=0.01)
        assert int(policy[0].argmax()) == chosen


def test_windows_that_are_only_cut_go_on(flips: Transitions) -> None:
    whole = to_steps(COIN, flips, 1.0, masked=False)
    cut = to_steps(COIN, replace(flips, truncated=flips.terminated, terminated=flips.truncated), 1.0, masked=False)
    assert int((whole.goes_on == 0).sum()) == 300
    assert bool((cut.goes_on == 1).all())


def test_iql_learns_with_both_critics(flips: Transitions) -> None:
    steps = to_steps(COIN, flips, 1.0, masked=False)
    with seeded(0):
        learner = Iql(steps, (3,), IqlConfig(hidden=(8,)))
        before = [parameter.clone() for parameter in learner.copies.parameters()]
        learner.update(torch.arange(64), 0.0)
    assert all(not torch.equal(a, b) for a, b in zip(before, learner.copies.parameters(), strict=True))
    assert isinstance(learner.policy, Heads)
