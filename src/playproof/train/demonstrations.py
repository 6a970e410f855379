"""Record play on a game's lanes as transitions: what a data set of that play would hold.

For experiments that need demonstrations in bulk: a scripted player, a mixture of players, a policy.
Windows come one after the other, each from its first step to its last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof.datasets import Transitions
from playproof.datasets.dataset import take
from playproof.errors import ConfigError, UnknownName
from playproof.evaluate.rollout import make_lanes
from playproof.game import Game
from playproof.game.vector_env import Actions, BatchPolicy, Chosen, Rng, Rows, VectorGame, VectorTerms

STREAM = int.from_bytes(b"demonstr")
"""Keeps demonstrated windows apart from those of rollouts and training with the same seed."""
LANES = 512


@dataclass(frozen=True)
class DemonstrationConfig:
    """How demonstrations are played; None is the game's own default."""

    observation: str | None = None
    actions: str | None = None
    clock: str | None = None
    reward: Any = None
    balance: int | None = None
    stake: int | None = None


@dataclass(frozen=True)
class Mixture:
    """Let each lane be played by one of several players, in turn: play of mixed quality."""

    players: Sequence[BatchPolicy]

    def start(self, lanes: int, rng: Rng) -> list[Any]:
        """Sit every player down at all lanes; each one's choices count in its own."""
        return [player.start(lanes, rng) for player in self.players]

    def begin(self, state: list[Any], chosen: Chosen) -> None:
        """Tell all of them that windows begin."""
        for player, own in zip(self.players, state, strict=True):
            player.begin(own, chosen)

    def act(self, obs: Rows, state: list[Any]) -> Actions:
        """Choose for every lane by its own player."""
        chosen = [player.act(obs, own) for player, own in zip(self.players, state, strict=True)]
        turn = np.arange(len(obs)) % len(self.players)
        return np.stack(chosen)[turn, np.arange(len(obs))]


@dataclass(frozen=True)
class Noisy:
    """Let a player choose at random now and then, every head equally often: quality by the share of chance."""

    player: BatchPolicy
    share: float
    heads: tuple[int, ...]

    def start(self, lanes: int, rng: Rng) -> tuple[Any, Rng]:
        """Sit the player down."""
        return self.player.start(lanes, rng), rng

    def begin(self, state: tuple[Any, Rng], chosen: Chosen) -> None:
        """Tell the player that windows begin."""
        self.player.begin(state[0], chosen)

    def act(self, obs: Rows, state: tuple[Any, Rng]) -> Actions:
        """Choose for every lane."""
        own, rng = state
        drawn = np.stack([rng.integers(size, size=len(obs)) for size in self.heads], axis=1)
        actions: Actions = np.where(rng.random((len(obs), 1)) < self.share, drawn, self.player.act(obs, own))
        return actions


@dataclass
class _StepBuffer:
    """Steps as they come, lane by lane."""

    parts: list[tuple[NDArray[Any], ...]] = field(default_factory=list)

    def columns(self) -> list[NDArray[Any]]:
        return [np.concatenate(column) for column in zip(*self.parts, strict=True)]


def demonstrate(
    game: Game,
    player: BatchPolicy,
    source: str,
    rounds: int,
    seed: int,
    asked: DemonstrationConfig = DemonstrationConfig(),  # noqa: B008  (frozen)
    progress: Callable[[int], None] | None = None,
) -> Transitions:
    """Play so many windows of a world and give every step, window after window."""
    terms = VectorTerms(
        source,
        (STREAM, seed),
        asked.observation,
        asked.actions,
        asked.reward,
        asked.clock,
        asked.balance,
        asked.stake,
    )
    lanes = make_lanes(game, terms, min(LANES, rounds))
    kept = _play(lanes, player, rounds, np.random.default_rng([STREAM, seed, 1]), progress)
    return _laid_out(kept, f"{source}-{seed}")


def _play(
    lanes: VectorGame, player: BatchPolicy, rounds: int, rng: Rng, progress: Callable[[int], None] | None
) -> list[NDArray[Any]]:
    """Play; give window, row, action, reward, next row, terminated and truncated of every step."""
    count = lanes.count
    quota = np.full(count, rounds // count) + (np.arange(count) < rounds % count)
    number, kept = np.zeros(count, np.int64), _StepBuffer()
    rows, state = lanes.start().copy(), player.start(count, rng)
    while (number < quota).any():
        actions = np.array(player.act(rows, state), np.int64)
        moved = lanes.step(actions)
        after, over, cut = moved.rows.copy(), np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        ended = moved.ended
        after[ended.lanes], over[ended.lanes], cut[ended.lanes] = ended.rows, ~ended.truncated, ended.truncated
        live = np.flatnonzero(number < quota)
        window = number * count + np.arange(count)
        steps = (window, rows, actions, moved.rewards, after, over, cut)
        kept.parts.append(tuple(column[live].copy() for column in steps))
        if len(ended.lanes):
            chosen = over | cut
            if progress is not None:
                progress(int((chosen & (number < quota)).sum()))
            number[chosen] += 1
            player.begin(state, chosen)
        rows = moved.rows.copy()
    return kept.columns()


def _laid_out(columns: Sequence[NDArray[Any]], name: str) -> Transitions:
    """Put windows one after the other."""
    order = np.argsort(columns[0], kind="stable")
    window, rows, actions, rewards, after, over, cut = (column[order] for column in columns)
    return Transitions(
        observations=rows,
        actions=actions.astype(np.int16),
        rewards=rewards.astype(np.float64),
        next_observations=after,
        terminated=over,
        truncated=cut,
        windows=tuple(f"{name}-{number:06d}" for number in window.tolist()),
        substep=np.zeros(len(window), np.int16),
        missing=np.zeros(rows.shape, np.bool_),
    )


def on_press_clock(steps: Transitions) -> Transitions:
    """Lay recorded steps out as the clock of presses plays them.

    There a press that only adjusts does not end the tick: waiting does. Recorded ticks end by themselves,
    so that a wait is added after the last adjustment of a tick, at the row that the player then saw: the
    row of the press, with what presses change as the next row shows it. A recorded step that does nothing
    with another in the same tick after it is no wait, and is left out.
    """
    names, actions, count = np.asarray(steps.windows), steps.actions, len(steps.windows)
    if not count:
        return steps
    last = np.r_[names[1:] != names[:-1], True]
    more = np.r_[steps.substep[1:] > 0, False] & ~last
    idle = (actions == 0).all(axis=1)
    adjusts = (actions[:, 0] == 0) & ~idle
    kept = take(steps, ~(idle & more))
    closes = (adjusts & ~more)[~(idle & more)]
    within = np.flatnonzero(adjusts & more)
    pressed = (steps.observations[within] != steps.observations[within + 1]).any(axis=0)
    return _with_waits(kept, np.flatnonzero(closes), pressed)


def _with_waits(steps: Transitions, indices: NDArray[np.int64], pressed: NDArray[np.bool_]) -> Transitions:
    """Add a wait after each of these steps; what follows them then follows the wait."""
    order = np.sort(np.r_[np.arange(len(steps.windows)), indices], kind="stable")
    added = np.r_[False, order[1:] == order[:-1]]
    result = take(steps, order)
    before = np.flatnonzero(added) - 1
    rows = result.observations[before].copy()
    rows[:, pressed] = result.next_observations[before][:, pressed]
    result.observations[added], result.actions[added] = rows, 0
    result.next_observations[before], result.rewards[before] = rows, 0.0
    result.terminated[before] = result.truncated[before] = False
    result.substep[added] += 1
    return result


def find_player(game: Game, text: str, world: str, sizes: tuple[int, ...]) -> BatchPolicy:
    """Give the batch player of a text such as human, best or best:0.2."""
    name, colon, share = text.partition(":")
    best = game.simulated().best
    player = best(world) if name == "best" and best is not None else _baseline(game, name)
    if not colon:
        return player
    try:
        return Noisy(player, float(share), (sizes[0], *(1 for _ in sizes[1:])))
    except ValueError:
        raise ConfigError(f"expected a player as name or name:share, found {text!r}") from None


def _baseline(game: Game, name: str) -> BatchPolicy:
    """Give a baseline that plays many lanes at once."""
    if name not in game.baselines:
        raise UnknownName("player", name, ["best", *game.baselines])
    seated: Any = game.baselines[name].make(np.random.default_rng(0))
    if not hasattr(seated, "policy"):
        raise ConfigError(f"expected a player of many lanes at once, found {name!r}, which plays one")
    player: BatchPolicy = seated.policy
    return player
