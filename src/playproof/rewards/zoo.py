"""The zoo: simple policies by the dozen, played side by side in a game's lanes.

Everything in it is a rule of one form, so that all of them are played at once: do one thing where a
feature is above a cut, or on every n-th step, and another elsewhere. Constant actions, spam,
alternation and thresholds are such rules; a random player is one that draws instead.
Leaves out: networks (exploits), and what a result means (discount, exploits).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from playproof.game import ActionSet, Game, Reward, first, resolve
from playproof.game.lanes import Actions, Lanes, LaneTerms, Moved, Rows
from playproof.rewards.plays import kinds
from playproof.rewards.report import Exploit

Values = NDArray[np.float64]
STREAM = int.from_bytes(b"zoo")
"""Keeps the windows of the zoo apart from those of training with the same seed."""
MOST_CONSTANTS = 64
THRESHOLDS = 40
WORTH = 1e9
"""Units of money in a coin, as reports show it."""


@dataclass(frozen=True)
class Rule:
    """Do `above` where a feature is above the cut, or on every `period`-th step; else `below`."""

    name: str
    does: str
    above: tuple[int, ...]
    below: tuple[int, ...]
    feature: int = -1
    """Place in the row; -1: the step's number decides."""
    cut: float = 0.0
    period: int = 1
    random: bool = False
    """Draw every choice instead."""


@dataclass(frozen=True)
class Limits:
    """How far windows are played, and what is left out of the discounted reward.

    Shaping that telescopes adds up to 0 over a whole window and to something else over one that is cut off;
    whether it telescopes is R4's business.
    """

    steps: int
    shaping: tuple[str, ...] = ()


class Group(Protocol):
    """Some policies, each playing as many lanes; lane i belongs to policy i // (lanes a policy)."""

    def act(self, rows: Rows, step: int, rng: np.random.Generator) -> Actions:
        """Choose for every lane."""


class Zoo:
    """Rules played side by side."""

    def __init__(self, rules: Sequence[Rule], lanes_each: int, heads: tuple[int, ...]) -> None:
        owner = np.repeat(np.arange(len(rules)), lanes_each)
        self._above = np.array([rule.above for rule in rules], np.int64)[owner]
        self._below = np.array([rule.below for rule in rules], np.int64)[owner]
        self._feature = np.array([rule.feature for rule in rules])[owner]
        self._cut = np.array([rule.cut for rule in rules])[owner]
        self._period = np.array([rule.period for rule in rules])[owner]
        self._random = np.flatnonzero(np.array([rule.random for rule in rules])[owner])
        self._heads = np.array(heads)
        self._lanes = np.arange(len(owner))

    def act(self, rows: Rows, step: int, rng: np.random.Generator) -> Actions:
        """Choose for every lane."""
        by_step = self._feature < 0
        fires = np.where(by_step, step % self._period == 0, rows[self._lanes, self._feature] > self._cut)
        actions: Actions = np.where(fires[:, None], self._above, self._below)
        if len(self._random):
            actions[self._random] = rng.integers(self._heads, size=(len(self._random), len(self._heads)))
        return actions


def choice_name(actions: ActionSet, action: tuple[int, ...]) -> str:
    """Name an action: its first head, and the others where they are not at rest."""
    assert isinstance(actions.wait, tuple)
    rest = [
        head[place]
        for head, place, at_rest in zip(actions.heads[1:], action[1:], actions.wait[1:], strict=True)
        if place != at_rest
    ]
    return " + ".join([actions.heads[0][action[0]], *rest])


def rules(actions: ActionSet, features: Sequence[str], rows: Rows, rng: np.random.Generator) -> list[Rule]:
    """Make the zoo of an action set; `rows` (n, features) are rows that occur, from which cuts are drawn."""
    wait = actions.wait
    assert isinstance(wait, tuple)
    mains = [(place, *wait[1:]) for place in range(len(actions.heads[0]))]
    pairs = [
        (*main[:head], place, *main[head + 1 :])
        for head in range(1, len(wait))
        for main in mains
        for place in range(len(actions.heads[head]))
        if place != wait[head]
    ]
    rng.shuffle(pairs)
    made = [_constant(actions, action, wait) for action in (mains + pairs)[:MOST_CONSTANTS]]
    made.append(Rule("random", "chooses anything at random", wait, wait, random=True))
    for one in mains:
        for other in mains:
            if one != other:
                made += _alternating(actions, one, other)
    return made + _thresholds(actions, features, rows, mains, rng)


def _alternating(actions: ActionSet, one: tuple[int, ...], other: tuple[int, ...]) -> list[Rule]:
    """Make rules that do one thing on every second or tenth step and another in between."""
    first_name, second_name = choice_name(actions, one), choice_name(actions, other)
    return [
        Rule(f"{first_name}/{second_name}", f"does {first_name} and {second_name} in turn", one, other, period=2),
        Rule(
            f"{first_name} every 10, else {second_name}",
            f"does {first_name} on every tenth step, else {second_name}",
            one,
            other,
            period=10,
        ),
    ]


def _constant(actions: ActionSet, action: tuple[int, ...], wait: tuple[int, ...]) -> Rule:
    name = choice_name(actions, action)
    does = "does nothing" if action == wait else f"does {name} at every step"
    return Rule(name, does, action, action)


def _thresholds(
    actions: ActionSet, features: Sequence[str], rows: Rows, mains: list[tuple[int, ...]], rng: np.random.Generator
) -> list[Rule]:
    """Draw rules that do one thing above a cut and another below; features that never vary are left out."""
    varied = np.flatnonzero(rows.max(axis=0) > rows.min(axis=0))
    made = []
    for _ in range(THRESHOLDS if len(varied) else 0):
        feature = int(rng.choice(varied))
        cut = float(np.quantile(rows[:, feature], rng.choice([0.0, 0.25, 0.5, 0.75, 0.9])))
        one, other = (mains[int(place)] for place in rng.choice(len(mains), size=2, replace=False))
        high, low = choice_name(actions, one), choice_name(actions, other)
        name = f"{high} if {features[feature]} > {cut:.4g}, else {low}"
        made.append(Rule(name, f"does {name}", one, other, feature, cut))
    return made


@dataclass(frozen=True)
class Tally:
    """What came of each lane's first window, (lanes,) each."""

    reward: Values
    discounted: Values
    """At the training discount, shaping left out."""
    pnl: Values
    staked: Values
    opened: Values
    no_effect: Values
    playing: NDArray[np.bool_]
    """Was the window cut off before its end?"""
    choices: NDArray[np.int64]
    """How often each choice of the first head was taken, (lanes, choices)."""

    @classmethod
    def empty(cls, lanes: int, choices: int) -> Tally:
        """Begin so many windows."""
        zeros = {name: np.zeros(lanes) for name in ("reward", "discounted", "pnl", "staked", "opened", "no_effect")}
        return cls(**zeros, playing=np.ones(lanes, np.bool_), choices=np.zeros((lanes, choices), np.int64))


def play_group(lanes: Lanes, group: Group, rng: np.random.Generator, gamma: float, limits: Limits) -> Tally:
    """Play every lane's first window to its end, or for so many steps."""
    n = lanes.count
    tally = Tally.empty(n, lanes.heads[0])
    rows, places = lanes.start(), np.arange(n)
    for step in range(limits.steps):
        actions = group.act(rows, step, rng)
        moved = lanes.step(actions)
        playing = tally.playing
        tally.reward[playing] += moved.rewards[playing]
        unshaped = moved.rewards - sum(moved.components[name] for name in limits.shaping if name in moved.components)
        tally.discounted[playing] += gamma**step * unshaped[playing]
        tally.choices[places[playing], actions[playing, 0]] += 1
        _close(tally, moved)
        rows = moved.rows
        if not playing.any():
            break
    return tally


def _close(tally: Tally, moved: Moved) -> None:
    """Note the money of the lanes whose first window ended."""
    ended = moved.ended
    new = tally.playing[ended.lanes]
    lanes = ended.lanes[new]
    for name in ("pnl", "staked", "opened", "no_effect"):
        getattr(tally, name)[lanes] = getattr(ended, name)[new]
    tally.playing[lanes] = False


def to_exploits(
    tally: Tally, named: Sequence[tuple[str, str]], origin: str, heads: Sequence[str], weight: float
) -> list[Exploit]:
    """Sum each policy's lanes up; `weight` is what a unit of money is worth in reward."""
    each = len(tally.reward) // len(named)
    return [
        _exploit(_part(tally, slice(place * each, (place + 1) * each)), name, does, origin, heads, weight)
        for place, (name, does) in enumerate(named)
    ]


def _part(tally: Tally, lanes: slice) -> Tally:
    return replace(tally, **{name: value[lanes] for name, value in vars(tally).items()})


def _exploit(tally: Tally, name: str, does: str, origin: str, heads: Sequence[str], weight: float) -> Exploit:
    """Sum the lanes of one policy up; windows that were cut off count for the discounted reward alone."""
    whole = ~tally.playing
    reward, pnl, staked = tally.reward[whole], tally.pnl[whole], tally.staked[whole].sum()
    counts, unearned = tally.choices[whole].sum(axis=0), reward - weight * pnl
    acted = counts.sum() - counts[list(heads).index("WAIT")]
    return Exploit(
        name=name,
        origin=origin,
        does=does,
        windows=int(whole.sum()),
        reward=_mean(reward),
        reward_se=_error(reward),
        unearned=_mean(unearned),
        unearned_se=_error(unearned),
        pnl=_mean(pnl) / WORTH,
        roi=float(pnl.sum() / staked) if staked else 0.0,
        positions=_mean(tally.opened[whole]),
        no_effect=float(tally.no_effect[whole].sum() / acted) if acted else 0.0,
        mix={head: float(count / max(1, counts.sum())) for head, count in zip(heads, counts, strict=True)},
        discounted=_mean(tally.discounted),
        discounted_se=_error(tally.discounted),
    )


def _mean(values: Values) -> float:
    return float(values.mean()) if len(values) else 0.0


def _error(values: Values) -> float:
    """Give the standard error of a mean; unknown is infinite."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("inf")


@dataclass(frozen=True)
class Ground:
    """Where policies are tried: a game's lanes in one world, with one reward."""

    game: Game
    reward: Reward
    world: str
    seed: int
    gamma: float
    weight: float
    """What a unit of money is worth in reward."""

    @property
    def actions(self) -> ActionSet:
        """Give the action set of the lanes, the game's default."""
        return self.game.actions[first(self.game.actions)]

    def lanes(self, count: int, *stream: int) -> Lanes:
        """Make so many lanes; each stream has windows of its own."""
        assert self.game.lanes is not None
        terms = LaneTerms(self.world, (STREAM, self.seed, *stream), reward=self.reward)
        return resolve(self.game.lanes)(terms, count)

    def rng(self, *stream: int) -> np.random.Generator:
        """Give the random numbers of a stream."""
        return np.random.default_rng([STREAM, self.seed, *stream])

    def rows(self) -> tuple[tuple[str, ...], Rows]:
        """Give the features, and rows that occur when anything is done."""
        lanes, rng = self.lanes(64, 0), self.rng(0)
        seen = [lanes.start()]
        for _ in range(60):
            drawn = rng.integers(lanes.heads, size=(lanes.count, len(lanes.heads)))
            seen.append(lanes.step(drawn).rows.copy())
        return lanes.features, np.concatenate(seen)

    def zoo(self) -> list[Rule]:
        """Make the zoo."""
        features, rows = self.rows()
        return rules(self.actions, features, rows, self.rng(1))

    def limits(self, steps: int) -> Limits:
        """Play so many steps a window; leave declared shaping out of the discounted reward."""
        return Limits(steps, tuple(name for name, kind in kinds(self.reward).items() if kind == "shaping"))

    def try_rules(self, chosen: Sequence[Rule], lanes_each: int, steps: int, *stream: int) -> list[Exploit]:
        """Play rules over the same number of windows each."""
        lanes = self.lanes(len(chosen) * lanes_each, *stream)
        group = Zoo(chosen, lanes_each, lanes.heads)
        tally = play_group(lanes, group, self.rng(*stream), self.gamma, self.limits(steps))
        named = [(rule.name, rule.does) for rule in chosen]
        return to_exploits(tally, named, "zoo", self.actions.heads[0], self.weight)
