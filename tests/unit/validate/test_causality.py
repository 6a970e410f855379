"""Gate D4: policies that know the future are caught where no ceiling is known; honest ones, the best included, pass."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from playproof.evaluate.rollout import RolloutOptions, rollout, rollout_lanes
from playproof.game import load_game
from playproof.game.vector_env import ForkableGame, ReplayTape
from playproof.games.crash.features.state import ACTIVE
from playproof.games.crash.players.baselines import BUY, PHASE, QTY, SELL, SIDEBET, TICK, Hold
from playproof.games.crash.players.optimum import best_policy
from playproof.games.crash.sim.lanes import make_tape
from playproof.games.crash.sim.prices_nb import counter_round
from playproof.games.crash.sim.vector_env import CrashVectorGame
from playproof.validate.causality import ForkedMoney, causality
from playproof.validate.examine import Subject, load_subject

GAME = load_game("crash")
STAKE = GAME.defaults.stake
WORLDS = ("published", "drift", "hazard", "instarug", "fair")


def subject(player: Any, name: str = "tested") -> Subject:
    return Subject(name, player, f"hash of {name}", "tests", STAKE, RolloutOptions())


def tape(rounds: int = 80, world: str = "published") -> ReplayTape:
    """Rounds of a world as if they had been recorded."""
    from playproof.games.crash.rules.worlds import get_world

    prices, laid = np.empty(5001), []
    for number in range(rounds):
        last, _ = counter_round(get_world(world).code, np.uint64(7), number, prices)
        laid.append(prices[: last + 1].tolist() if last > 1 else [1.0, 1.01, 0.02])
    names = tuple(f"recorded-{number}" for number in range(rounds))
    return ReplayTape(names, make_tape(laid, names))


def lanes_in_use() -> CrashVectorGame:
    """Find the environment of whoever asks for an action, as a cheat in the same process can."""
    frame = sys._getframe(1)
    while frame is not None:
        for value in frame.f_locals.values():
            if isinstance(value, CrashVectorGame):
                return value
        frame = frame.f_back  # type: ignore[assignment]
    raise AssertionError("no environment on the stack")


@dataclass
class RugReader:
    """Bet on a rug that the environment's own state says will come within some ticks, in a share of the rounds."""

    ticks: int
    share: float
    stateless: bool = True

    def start(self, lanes: int, rng: Any) -> Any:
        return None

    def begin(self, state: Any, chosen: Any) -> None:
        pass

    def act(self, obs: Any, state: Any) -> Any:
        actions = np.zeros((len(obs), 2), np.int64)
        game = lanes_in_use()
        kernel = game._lanes
        for lane in np.flatnonzero(obs[:, PHASE] == ACTIVE).tolist():
            record, tick = kernel.lanes[lane], int(obs[lane, TICK])
            if (int(record["seed"]) >> 8) * 2654435761 % 1000 >= 1000 * self.share:
                continue
            if kernel.config["taped"][0]:
                left = int(record["last_tick"]) - tick
            else:
                left = ticks_to_rug(kernel, record, tick, self.ticks)
            if 0 < left <= self.ticks:
                actions[lane, 0] = SIDEBET if obs[lane, QTY] == 0 else SELL
            elif obs[lane, QTY] == 0 and tick < 3:
                actions[lane, 0] = BUY
        return actions


def ticks_to_rug(kernel: Any, record: Any, tick: int, most: int) -> int:
    """Play the keyed draws of a lane ahead."""
    from playproof.games.crash.sim.prices_nb import counter_uniform, rug_chance

    world = int(kernel.config["world"][0])
    for ahead in range(1, most + 1):
        chance = rug_chance(world, bool(record["hot"]), int(record["instarug"]), tick + ahead)
        if counter_uniform(record["price_key"], tick + ahead, 0) < chance:
            return ahead
    return 0


@dataclass
class Remembering:
    """Know how long each window lasts from an earlier play of the same seed, and sell just before the rug."""

    lasts: dict[int, list[int]]
    ahead: int
    number: Any = None

    def start(self, lanes: int, rng: Any) -> Any:
        self.number = np.zeros(lanes, np.int64)
        return None

    def begin(self, state: Any, chosen: Any) -> None:
        self.number[chosen] += 1

    def act(self, obs: Any, state: Any) -> Any:
        actions = np.zeros((len(obs), 2), np.int64)
        for lane, row in enumerate(obs):
            lasts = self.lasts.get(lane, [])
            if row[PHASE] != ACTIVE or self.number[lane] >= len(lasts):
                continue
            left = lasts[self.number[lane]] - int(row[TICK])
            if row[QTY] > 0 and left <= self.ahead:
                actions[lane, 0] = SELL
            elif row[QTY] == 0 and left > self.ahead + 20:
                actions[lane, 0] = BUY
        return actions


@dataclass
class Watching:
    """Note how long each window lasts."""

    lasts: Any = None

    def start(self, lanes: int, rng: Any) -> Any:
        self.lasts = {lane: [0] for lane in range(lanes)}
        return None

    def begin(self, state: Any, chosen: Any) -> None:
        for lane in np.flatnonzero(chosen).tolist():
            self.lasts[lane].append(0)

    def act(self, obs: Any, state: Any) -> Any:
        for lane in np.flatnonzero(obs[:, PHASE] == ACTIVE).tolist():
            self.lasts[lane][-1] = int(obs[lane, TICK]) + 1
        return np.zeros((len(obs), 2), np.int64)


CHEATS = [(5, 1.0), (1, 0.2), (40, 0.02), (1, 1.0), (20, 0.1)]
HONEST = ["hold-40", "sidebet", "random", "human", "sweet-spot"]
PAIRS = list(zip(WORLDS, CHEATS, strict=True))


@pytest.mark.parametrize(("world", "cheat"), PAIRS)
def test_a_policy_that_reads_the_simulator_is_caught_in_every_world(world: str, cheat: tuple[int, float]) -> None:
    ticks, share = cheat
    gate = causality(GAME, subject(RugReader(ticks, share)), world, 128, 5)
    assert not gate.passed, gate.finding
    assert "choices differ" in gate.finding


def test_a_policy_that_reads_the_tape_is_caught() -> None:
    gate = causality(GAME, subject(RugReader(5, 1.0)), tape(), 80, 5)
    assert not gate.passed, gate.finding


@pytest.mark.parametrize("world", ["published", "drift", "hazard"])
def test_a_policy_that_remembers_the_seed_is_caught_by_its_money(world: str) -> None:
    watching = Watching()
    rollout(GAME, watching, world, 600, 3, stake=STAKE)
    gate = causality(GAME, subject(Remembering(watching.lasts, 3)), world, 600, 3)
    assert not gate.passed
    assert gate.finding.startswith("0 of"), "its choices up to a cut are those of an honest policy"
    assert "profit depends on the future" in gate.finding


@pytest.mark.torture
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(("ticks", "share"), CHEATS)
def test_every_cheat_is_caught_in_every_world(world: str, ticks: int, share: float) -> None:
    assert not causality(GAME, subject(RugReader(ticks, share)), world, 400, 8).passed


@pytest.mark.torture
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", HONEST)
def test_every_honest_policy_passes_in_every_world(world: str, name: str) -> None:
    assert causality(GAME, load_subject(GAME, name), world, 1000, 9).passed


@pytest.mark.parametrize(("world", "name"), list(zip(WORLDS, HONEST, strict=True)))
def test_honest_policies_pass_in_every_world(world: str, name: str) -> None:
    gate = causality(GAME, load_subject(GAME, name), world, 100, 4)
    assert gate.passed, gate.finding
    assert not gate.skipped


@pytest.mark.parametrize("world", ["drift", "hazard"])
def test_the_best_policy_passes(world: str) -> None:
    assert causality(GAME, subject(best_policy(world)), world, 400, 6).passed


def test_an_honest_policy_passes_on_a_tape() -> None:
    gate = causality(GAME, subject(Hold(k=20)), tape(), 80, 5)
    assert gate.passed
    assert gate.finding.startswith("0 of")


def test_a_policy_with_draws_of_its_own_is_named() -> None:
    class Unseeded(Hold):
        def choose(self, obs: Any, state: Any) -> Any:
            return self.order(obs, np.random.default_rng().integers(0, 2, len(obs)))

    gate = causality(GAME, subject(Unseeded(k=5)), "published", 100, 5)
    assert not gate.passed
    assert "draw only from the generator" in gate.finding


@pytest.mark.parametrize("source", ["instarug", "drift", "tape"])
def test_a_fork_keeps_past_and_present_and_is_undone(source: str) -> None:
    windows: str | ReplayTape = tape() if source == "tape" else source
    game = rollout_lanes(GAME, windows, 80, 1, stake=STAKE)
    assert isinstance(game, ForkableGame)
    wait = np.zeros((game.count, 2), np.int64)
    game.start()
    for _ in range(25):
        game.step(wait)
    saved = game.save()
    rows = [game.step(wait).rows.copy() for _ in range(60)]
    game.restore(saved)
    again = [game.step(wait).rows.copy() for _ in range(60)]
    assert all(np.array_equal(one, other) for one, other in zip(rows, again, strict=True)), "restored to the bit"
    game.restore(saved)
    forked = game.fork(np.random.default_rng(2))
    other = [game.step(wait).rows.copy() for _ in range(60)]
    assert forked.any()
    pairs = zip(rows, other, strict=True)
    differs = np.array([(one != two).any(axis=1) for one, two in pairs])  # (steps, lanes)
    assert differs[:, forked].any(axis=0).mean() > 0.9
    assert not differs[:10][:, ~forked].any() or source == "tape"


@given(st.integers(0, 2**32 - 1), st.integers(3, 400), st.floats(0.5, 3.0))
def test_the_bound_on_symmetric_differences_holds(seed: int, size: int, tail: float) -> None:
    rng = np.random.default_rng(seed)
    heavy = rng.standard_t(tail, size=(50, size))
    accused = sum(ForkedMoney(row).p < 0.05 for row in heavy)
    assert accused <= 12, "at most 5 % of 50 in the mean, whatever the tails"
