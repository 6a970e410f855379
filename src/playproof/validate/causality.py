"""Gate D4: does a policy choose the same when only the future differs, and does its profit survive another future?

Three plays of the same windows, from the same seed:

1. As they are. Every choice is noted.
2. With every future replaced while the policy chooses, and put back before the step. What a policy chooses then must be
   equal, choice by choice: it has seen the same past. A policy that reads the environment that it plays in differs.
3. In worlds: forked for good at a few moments, half of the time early. Given the past, the old and the new future are
   equally likely, so a window's profit may as well be the one as the other. A policy that knows the drawn future from
   elsewhere, such as a recording of the same seed, earns less where that future does not come.

The third is a test of symmetry: with differences d, P(sum d > x sqrt(sum d^2)) <= exp(-x^2 / 2), for any number of
windows and any distribution that is symmetric about 0, and the same for ranks of sizes. Recordings are not forked for
good: what continues one recorded window is not drawn from the law that made another.
Leaves out: what features look at (leaks.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from playproof.evaluate.rollout import player_rng, rollout_lanes
from playproof.game.vector_env import (
    Actions,
    BatchPolicy,
    ForkableGame,
    Ints,
    ReplayTape,
    Rng,
    VectorGame,
    chooser,
)
from playproof.validate.gates import RULES, Gate, skipped

if TYPE_CHECKING:
    from playproof.game import Game
    from playproof.validate.examine import Subject

STREAM = int.from_bytes(b"cause")
MOST_CUTS, FEWEST_STEPS, LONGEST = 32_768, 64, 256
"""Choices that are compared, about, one a lane and step; and the fewest and most steps of these plays."""
MONEY_CUTS = (6, 18, 48)
"""Steps after which windows are forked for good; the first come before most positions."""
MOST_STEPS = 1_200
"""Steps after which windows that still go on are left out, with their twins."""
CHANCE = 0.001
"""How often the test of symmetry may accuse a policy that knows no future."""


@dataclass(frozen=True)
class ForkedMoney:
    """Profits of windows as they were drawn, less those of the same windows with another future."""

    differences: NDArray[np.float64]

    @property
    def p(self) -> float:
        """Bound the chance of such differences for a policy that knows no future.

        Sizes and ranks of sizes are tested, each at half: rare large profits hide a small advantage from the sizes.
        """
        sizes = np.abs(self.differences[self.differences != 0])
        signs = np.sign(self.differences[self.differences != 0])
        ranks = np.empty(len(sizes))
        ranks[np.argsort(sizes, kind="stable")] = np.arange(1, len(sizes) + 1)
        return min(1.0, 2.0 * min(_bound(signs, sizes), _bound(signs, ranks)))


def _bound(signs: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """Bound P(sum of weights with random signs >= what it is) by Hoeffding's inequality."""
    root = math.sqrt(float((weights**2).sum()))
    statistic = float((signs * weights).sum()) / root if root > 0 else 0.0
    return math.exp(-(statistic**2) / 2) if statistic > 0 else 1.0


def causality(
    game: Game, subject: Subject, source: str | ReplayTape, windows: int, seed: int, balance: int | None = None
) -> Gate:
    """D4: play the policy on forks of the windows that it is examined on."""
    rule = RULES["D4"]

    def lanes() -> VectorGame:
        return rollout_lanes(game, source, windows, seed, stake=subject.stake, balance=balance, options=subject.options)

    taped = not isinstance(source, str)
    made = lanes()
    if not isinstance(made, ForkableGame):
        return skipped("D4", rule, f"lanes of {game.name} cannot be forked")
    steps = min(max(MOST_CUTS // made.count, FEWEST_STEPS), LONGEST)
    plain, _ = note_choices(made, subject.player, steps, seed, rounds=windows // made.count)
    again, _ = note_choices(lanes(), subject.player, len(plain), seed, follow=plain)
    if not np.array_equal(plain, again):
        return Gate(
            "D4",
            False,
            "the same windows and seed give other choices: draw only from the generator that start() gives",
            rule,
        )
    hidden, cuts = note_choices(lanes(), subject.player, len(plain), seed, follow=plain, hide=True)
    different = int((plain != hidden).any(axis=2).sum())
    text = f"{different:,} of {cuts:,} choices differ when only the future does"
    if different or taped:
        return Gate("D4", not different, text, rule)
    money = forked_money(lanes, subject.player, seed)
    if not len(money.differences):
        return Gate("D4", True, text, rule)
    shown = f"p = {money.p:.2g}" if money.p >= 1e-12 else "p < 1e-12"
    passed = money.p >= CHANCE
    why = "profit does not depend on the drawn future" if passed else "profit depends on the future that was drawn"
    return Gate("D4", passed, f"{text}; {why} ({shown}, {len(money.differences):,} forked windows)", rule)


def note_choices(
    lanes: VectorGame,
    player: BatchPolicy,
    steps: int,
    seed: int,
    *,
    rounds: int | None = None,
    follow: NDArray[np.int64] | None = None,
    hide: bool = False,
) -> tuple[NDArray[np.int64], int]:
    """Note choices (steps, lanes, heads), and how many were made with another future in place.

    The play ends early when every lane has played so many `rounds`. With `follow` those choices are carried out,
    whatever the policy chooses now: both plays see the same rows.
    """
    rows = lanes.start()
    rng, fork_rng = player_rng(seed), np.random.default_rng([STREAM, seed, 2])
    state, choose = player.start(lanes.count, rng), chooser(player, lanes)
    noted: list[Actions] = []
    cuts, played = 0, np.zeros(lanes.count, np.int64)
    for step in range(steps):
        if hide:
            assert isinstance(lanes, ForkableGame)
            saved = lanes.save()
            cuts += int(lanes.fork(fork_rng).sum())
        noted.append(np.array(choose(rows, state), np.int64))
        if hide:
            assert isinstance(lanes, ForkableGame)
            lanes.restore(saved)
        moved = lanes.step(noted[-1] if follow is None else follow[step])
        rows = moved.rows
        played[moved.ended.lanes] += 1
        if rounds is not None and played.min() >= rounds:
            break
        _begin(player, state, lanes.count, moved.ended.lanes)
    return np.stack(noted), cuts


def forked_money(lanes: Callable[[], VectorGame], player: BatchPolicy, seed: int) -> ForkedMoney:
    """Play windows as drawn, and again with another future from a cut on; pair the profits."""
    plain, _ = _play_windows(lanes(), player, seed, MONEY_CUTS, None)
    parts = []
    for number, cut in enumerate(MONEY_CUTS):
        rng = np.random.default_rng([STREAM, seed, 3, number])
        (other,), forked = _play_windows(lanes(), player, seed, (cut,), rng)
        pairs = forked & np.isfinite(plain[number]) & np.isfinite(other)
        parts.append((plain[number] - other)[pairs])
    return ForkedMoney(np.concatenate(parts))


def _play_windows(
    lanes: VectorGame, player: BatchPolicy, seed: int, cuts: Sequence[int], fork: Rng | None
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Give the profits (cuts, lanes) of the windows that are played at each cut, NaN without an end; which were forked.

    With `fork` every lane gets another future at the first cut.
    """
    rows = lanes.start()
    state, choose = player.start(lanes.count, player_rng(seed)), chooser(player, lanes)
    profits = np.full((len(cuts), lanes.count), np.nan)
    forked = np.ones(lanes.count, np.bool_)
    for step in range(MOST_STEPS):
        if step == cuts[0] and fork is not None:
            assert isinstance(lanes, ForkableGame)
            forked = lanes.fork(fork)
        moved = lanes.step(np.array(choose(rows, state), np.int64))
        rows, ended = moved.rows, moved.ended.lanes
        _begin(player, state, lanes.count, ended)
        for number, cut in enumerate(cuts):
            if step >= cut:
                first = np.isnan(profits[number, ended])
                profits[number, ended[first]] = moved.ended.pnl[first]
        if step >= cuts[-1] and not np.isnan(profits).any():
            break
    return profits, forked


def _begin(player: BatchPolicy, state: object, count: int, ended: Ints) -> None:
    if len(ended):
        chosen = np.zeros(count, np.bool_)
        chosen[ended] = True
        player.begin(state, chosen)


def _player_rng(seed: int) -> Rng:
    return np.random.default_rng([STREAM, seed, 1])
