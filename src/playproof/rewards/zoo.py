"""The zoo: simple policies by the dozen, played side by side in a game's lanes.

Everything in it is a rule of one form, so that all of them are played at once: do one thing where a
feature is above a cut, or on every n-th step, and another elsewhere. Constant actions, spam,
alternation and thresholds are such rules; a random player is one that draws instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from playproof.game import WAIT, ActionSet, Game, Reward, first
from playproof.game.vector_env import Actions, Ints, Rows, StepResult, VectorGame, VectorTerms
from playproof.money import UNIT
from playproof.rewards.report import Exploit

Values = NDArray[np.float64]
STREAM = int.from_bytes(b"zoo")
"""Keeps the windows of the zoo apart from those of training with the same seed."""
MOST_CONSTANTS = 64
THRESHOLDS = 40
WINDOWS_A_LANE = 10


@dataclass(frozen=True)
class ThresholdRule:
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


class PolicyGroup(Protocol):
    """Some policies, each playing as many lanes; lane i belongs to policy i // (lanes a policy)."""

    def act(self, rows: Rows, ages: Ints, rng: np.random.Generator) -> Actions:
        """Choose for every lane; `ages` are the steps since each lane's window began."""


class Zoo:
    """Rules played side by side."""

    def __init__(self, rules: Sequence[ThresholdRule], lanes_each: int, heads: tuple[int, ...]) -> None:
        owner = np.repeat(np.arange(len(rules)), lanes_each)
        self._above = np.array([rule.above for rule in rules], np.int64)[owner]
        self._below = np.array([rule.below for rule in rules], np.int64)[owner]
        self._feature = np.array([rule.feature for rule in rules])[owner]
        self._cut = np.array([rule.cut for rule in rules])[owner]
        self._period = np.array([rule.period for rule in rules])[owner]
        self._random = np.flatnonzero(np.array([rule.random for rule in rules])[owner])
        self._heads = np.array(heads)
        self._lanes = np.arange(len(owner))

    def act(self, rows: Rows, ages: Ints, rng: np.random.Generator) -> Actions:
        """Choose for every lane; `ages` are the steps since each lane's window began."""
        by_step = self._feature < 0
        fires = np.where(by_step, ages % self._period == 0, rows[self._lanes, self._feature] > self._cut)
        actions: Actions = np.where(fires[:, None], self._above, self._below)
        if len(self._random):
            actions[self._random] = rng.integers(self._heads, size=(len(self._random), len(self._heads)))
        return actions


def choice_name(actions: ActionSet, action: tuple[int, ...]) -> str:
    """Name an action: its first head, and the others where they are not at rest."""
    assert isinstance(actions.wait, tuple)
    rest = [
        head[index]
        for head, index, at_rest in zip(actions.heads[1:], action[1:], actions.wait[1:], strict=True)
        if index != at_rest
    ]
    return " + ".join([actions.heads[0][action[0]], *rest])


def rules(actions: ActionSet, features: Sequence[str], rows: Rows, rng: np.random.Generator) -> list[ThresholdRule]:
    """Make the zoo of an action set; `rows` (n, features) are rows that occur, from which cuts are drawn."""
    wait = actions.wait
    assert isinstance(wait, tuple)
    mains = [(index, *wait[1:]) for index in range(len(actions.heads[0]))]
    pairs = [
        (*main[:head], index, *main[head + 1 :])
        for head in range(1, len(wait))
        for main in mains
        for index in range(len(actions.heads[head]))
        if index != wait[head]
    ]
    rng.shuffle(pairs)
    made = [_constant(actions, action, wait) for action in (mains + pairs)[:MOST_CONSTANTS]]
    made.append(ThresholdRule("random", "chooses anything at random", wait, wait, random=True))
    for one in mains:
        for other in mains:
            if one != other:
                made += _alternating(actions, one, other)
    return made + _thresholds(actions, features, rows, mains, rng)


def _alternating(actions: ActionSet, one: tuple[int, ...], other: tuple[int, ...]) -> list[ThresholdRule]:
    """Make rules that do one thing on every second or tenth step and another in between."""
    first_name, second_name = choice_name(actions, one), choice_name(actions, other)
    return [
        ThresholdRule(
            f"{first_name}/{second_name}", f"does {first_name} and {second_name} in turn", one, other, period=2
        ),
        ThresholdRule(
            f"{first_name} every 10, else {second_name}",
            f"does {first_name} on every tenth step, else {second_name}",
            one,
            other,
            period=10,
        ),
    ]


def _constant(actions: ActionSet, action: tuple[int, ...], wait: tuple[int, ...]) -> ThresholdRule:
    name = choice_name(actions, action)
    does = "does nothing" if action == wait else f"does {name} at every step"
    return ThresholdRule(name, does, action, action)


def _thresholds(
    actions: ActionSet, features: Sequence[str], rows: Rows, mains: list[tuple[int, ...]], rng: np.random.Generator
) -> list[ThresholdRule]:
    """Draw rules that do one thing above a cut and another below; features that never vary are left out."""
    varied = np.flatnonzero(rows.max(axis=0) > rows.min(axis=0))
    made = []
    for _ in range(THRESHOLDS if len(varied) else 0):
        feature = int(rng.choice(varied))
        cut = float(np.quantile(rows[:, feature], rng.choice([0.0, 0.25, 0.5, 0.75, 0.9])))
        one, other = (mains[int(index)] for index in rng.choice(len(mains), size=2, replace=False))
        high, low = choice_name(actions, one), choice_name(actions, other)
        name = f"{high} if {features[feature]} > {cut:.4g}, else {low}"
        made.append(ThresholdRule(name, f"does {name}", one, other, feature, cut))
    return made


_MONEY = ("pnl", "staked", "opened", "no_effect")


class ZooTally:
    """What came of the first windows of each lane, (lanes, windows) each."""

    def __init__(self, lanes: int, windows: int, choices: int) -> None:
        self.windows = windows
        self.done = np.zeros(lanes, np.int64)
        self.ages, self._gammas = np.zeros(lanes, np.int64), np.ones(lanes)
        self._running = np.zeros((2, lanes))
        self.choices = np.zeros((lanes, choices), np.int64)
        """How often each choice of the first head was taken, (lanes, choices)."""
        self.of: dict[str, Values] = {name: np.zeros((lanes, windows)) for name in ("reward", "discounted", *_MONEY)}

    def take(self, actions: Actions, moved: StepResult, gamma: float, paid: Values) -> None:
        """Count one step, and note the windows that ended in it."""
        playing = self.done < self.windows
        self._running += [paid, self._gammas * paid]
        self.choices[np.arange(len(actions)), actions[:, 0]] += playing
        self.ages += 1
        self._gammas *= gamma
        ended = moved.ended
        wanted = playing[ended.lanes]
        lanes = ended.lanes[wanted]
        for name, values in zip(("reward", "discounted"), self._running[:, lanes], strict=True):
            self.of[name][lanes, self.done[lanes]] = values
        for name in _MONEY:
            self.of[name][lanes, self.done[lanes]] = getattr(ended, name)[wanted]
        self.done[lanes] += 1
        self._running[:, ended.lanes] = 0.0
        self.ages[ended.lanes], self._gammas[ended.lanes] = 0, 1.0


def play_group(
    lanes: VectorGame,
    group: PolicyGroup,
    rng: np.random.Generator,
    gamma: float,
    windows: int,
    benchmark: str | None = None,
) -> ZooTally:
    """Play so many whole windows in every lane.

    Lanes that are done play on uncounted; many windows in few lanes are cheaper than few in many, as seating a
    player costs more than playing. The benchmark is a component that nobody's play changes, and is not counted.
    """
    tally, rows = ZooTally(lanes.count, windows, lanes.heads[0]), lanes.start()
    while tally.done.min() < windows:
        actions = group.act(rows, tally.ages, rng)
        moved = lanes.step(actions)
        paid = moved.rewards if benchmark is None else moved.rewards - moved.components[benchmark]
        tally.take(actions, moved, gamma, paid)
        rows = moved.rows
    return tally


def to_exploits(
    tally: ZooTally, named: Sequence[tuple[str, str]], origin: str, heads: Sequence[str], weight: float
) -> list[Exploit]:
    """Sum each policy's lanes up; `weight` is what a unit of money is worth in reward."""
    item = len(tally.done) // len(named)
    lines = []
    for index, (name, does) in enumerate(named):
        lanes = slice(index * item, (index + 1) * item)
        of = {key: values[lanes].ravel() for key, values in tally.of.items()}
        mix = tally.choices[lanes].sum(axis=0)
        lines.append(_exploit(of, dict(zip(heads, mix.tolist(), strict=True)), (name, does, origin), weight))
    return lines


def _exploit(of: dict[str, Values], counts: dict[str, int], named: tuple[str, str, str], weight: float) -> Exploit:
    """Sum the windows of one policy up."""
    name, does, origin = named
    unearned, staked = of["reward"] - weight * of["pnl"], of["staked"].sum()
    taken = sum(counts.values())
    acted = taken - counts[WAIT]
    return Exploit(
        name=name,
        origin=origin,
        does=does,
        windows=len(unearned),
        reward=float(of["reward"].mean()),
        reward_se=_error(of["reward"]),
        unearned=float(unearned.mean()),
        unearned_se=_error(unearned),
        pnl=float(of["pnl"].mean() / UNIT),
        roi=float(of["pnl"].sum() / staked) if staked else 0.0,
        positions=float(of["opened"].mean()),
        no_effect=float(of["no_effect"].sum() / acted) if acted else 0.0,
        mix={choice: count / max(1, taken) for choice, count in counts.items()},
        discounted=float(of["discounted"].mean()),
        discounted_se=_error(of["discounted"]),
    )


def _error(values: Values) -> float:
    """Give the standard error of a mean; unknown is infinite."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("inf")


@dataclass(frozen=True)
class ZooSetup:
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

    def lanes(self, count: int, *stream: int) -> VectorGame:
        """Make so many lanes; each stream has windows of its own."""
        assert self.game.simulation is not None
        terms = VectorTerms(self.world, (STREAM, self.seed, *stream), reward=self.reward)
        return self.game.simulated().vector(terms, count)

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

    def zoo(self) -> list[ThresholdRule]:
        """Make the zoo."""
        features, rows = self.rows()
        return rules(self.actions, features, rows, self.rng(1))

    def try_rules(self, chosen: Sequence[ThresholdRule], windows: int, *stream: int) -> list[Exploit]:
        """Play every rule over so many windows, or a few more."""
        in_lane = max(1, min(WINDOWS_A_LANE, windows // 4))
        lanes_each = math.ceil(windows / in_lane)
        lanes = self.lanes(len(chosen) * lanes_each, *stream)
        group = Zoo(chosen, lanes_each, lanes.heads)
        tally = play_group(lanes, group, self.rng(*stream), self.gamma, in_lane, self.reward.benchmark)
        named = [(rule.name, rule.does) for rule in chosen]
        return to_exploits(tally, named, "zoo", self.actions.heads[0], self.weight)
