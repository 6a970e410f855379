"""Playing many windows at once: what a game's lanes are, and the loop that plays a policy on them.

A lane is one player at a table of their own; a game that can be simulated gives them as
`Game.lanes`. Lane i of n plays windows i, i + n, i + 2 n ... of its terms, whatever is done in them,
so that every policy faces the same windows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Rows: TypeAlias = NDArray[np.float32]
Actions: TypeAlias = NDArray[np.int64]
Ints: TypeAlias = NDArray[np.int64]
Chosen: TypeAlias = NDArray[np.bool_]
Rng: TypeAlias = np.random.Generator
NARROWEST = 16
"""With fewer lanes than these a step costs the same: they are not left."""


@dataclass(frozen=True)
class ReplayTape:
    """Recorded windows that lanes can play again."""

    windows: tuple[str, ...]
    rounds: Any
    """The windows in the game's own form, in the same order."""

    def __len__(self) -> int:
        return len(self.windows)


@dataclass(frozen=True)
class VectorTerms:
    """On which terms lanes are made; None is the game's own default."""

    source: str | ReplayTape
    """A world's name, or recorded windows."""
    seed: tuple[int, ...]
    """Different tuples give different windows. On a tape the windows are given and the seed draws what it lacks."""
    observation: str | None = None
    actions: str | None = None
    reward: Any = None
    """Name of a reward, or the reward itself."""
    clock: str | None = None
    balance: int | None = None
    """Money that a player sits down with in each window, in the smallest unit."""
    stake: int | None = None
    """Reserved for each window: an order by which more could be lost is refused. None: nothing is."""
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """What only this game can be asked for."""


@dataclass(frozen=True, slots=True)
class FinishedEpisodes:
    """The windows that ended in one step; each field has one entry for each, m in all."""

    lanes: Ints
    rows: Rows
    """Last observations, (m, features)."""
    truncated: Chosen
    pnl: Ints
    """Change in equity over the window, in the smallest unit."""
    opened: Ints
    """Positions opened, bets included."""
    staked: Ints
    """Money paid in."""
    no_effect: Ints
    """Decisions other than WAIT that changed nothing."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one step of n lanes gave. A lane whose window ended stands in its next one."""

    rows: Rows
    """Observations, (n, features)."""
    rewards: NDArray[np.float64]
    held: Chosen
    """Was a position held while time passed?"""
    ended: FinishedEpisodes
    components: Mapping[str, NDArray[np.float64]] = field(default_factory=lambda: MappingProxyType({}))
    """The rewards by component, where the lanes tell them."""


class VectorGame(Protocol):
    """Many players at once, each at a table of their own."""

    @property
    def count(self) -> int:
        """Give how many lanes there are."""

    @property
    def heads(self) -> tuple[int, ...]:
        """Give how many choices each head of the action set has."""

    @property
    def features(self) -> tuple[str, ...]:
        """Name the places of a row."""

    def start(self) -> Rows:
        """Seat a player in the first window of every lane; give the observations."""

    def step(self, actions: Actions) -> StepResult:
        """Take an action in every lane, (n, heads)."""

    def masks(self) -> Chosen:
        """Tell which choices can have an effect now, the heads side by side, (n, sum of heads)."""

    def settle(self, actions: Actions) -> Actions:
        """Give actions with a wait in place of every order that would have no effect, (n, heads).

        Masks speak of each head alone; this speaks of the heads together, once all are chosen.
        """

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give the whole state as the arrays it lives in; writing into them restores it."""


class BatchPolicy(Protocol):
    """One way to choose in many lanes at once."""

    def start(self, lanes: int, rng: Rng) -> Any:
        """Give what the policy remembers of so many lanes, before their first row."""

    def begin(self, state: Any, chosen: Chosen) -> None:
        """Forget what is remembered of the chosen lanes: they begin a window."""

    def act(self, obs: Rows, state: Any) -> Actions:
        """Choose for rows (n, features) an action a lane, (n, heads); remembers in `state`."""


@runtime_checkable
class MaskedPolicy(Protocol):
    """A batch policy that also wants to be told which choices can have an effect."""

    def act_masked(self, obs: Rows, masks: Chosen, state: Any) -> Actions:
        """Choose for rows (n, features) and masks (n, sum of heads)."""


@runtime_checkable
class ShrinkablePolicy(Protocol):
    """A batch policy that can leave lanes whose windows have all been played."""

    @property
    def narrows(self) -> bool:
        """Tell whether it can, or whoever plays for it."""

    def keep(self, state: Any, kept: Ints) -> None:
        """Go on with these lanes alone, in their order."""


@runtime_checkable
class ShrinkableGame(Protocol):
    """Lanes that can leave some of themselves."""

    def keep(self, kept: Ints) -> None:
        """Go on with these lanes alone, in their order; each plays the windows that it would have played."""


@runtime_checkable
class ForkableGame(Protocol):
    """Lanes whose future can be drawn anew, as gate D4 asks."""

    def fork(self, rng: Rng) -> Chosen:
        """Give every lane another future from here on, past and present unchanged; tell which lanes have one.

        On a tape the future of another recorded window is put in place; where none is long enough the lane keeps its
        own. In a world the new future follows the same law, given everything the lane has shown or decided so far.
        """

    def save(self) -> object:
        """Give what `restore` needs to undo a fork."""

    def restore(self, saved: Any) -> None:
        """Undo forks since `save`, and steps too."""


MakeVectorGame: TypeAlias = Callable[[VectorTerms, int], VectorGame]
"""Make so many lanes on some terms."""


@dataclass(frozen=True)
class ActivityProfile:
    """How a policy plays, so that others can be made to play alike."""

    mix: Mapping[str, float]
    """Share of each choice of the first head among all steps."""
    bet: int
    """Money paid in for a position, on average, in the smallest unit; 0 where none was opened."""
    held: float
    """Steps over which a position is held, on average."""
    stake: int
    """Reserved for each window."""


@dataclass(frozen=True)
class ControlPolicy:
    """A policy to be shown beside another one."""

    doc: str
    player: BatchPolicy


@dataclass(frozen=True)
class Target:
    """Something that was once wanted of a policy, and what a dummy scores there."""

    name: str
    wanted: str
    policy: float | None
    """None where it cannot be measured."""
    dummy: str
    dummy_score: float | None


class HindsightOracle(BatchPolicy, Protocol):
    """A policy that waits, watches, and tells afterwards what knowing the future would have earned."""

    def best(self, windows: int, stake: int) -> Ints:
        """Give for each window the highest profit that the reserved stake allowed in hindsight."""


@dataclass(frozen=True, kw_only=True)
class RolloutStats:
    """What came of n windows, in their order; money in the smallest unit."""

    pnl: Ints
    opened: Ints
    staked: Ints
    decisions: Ints
    """How often each choice of the first head was taken, (n, choices)."""
    no_effect: Ints
    in_market: Ints
    """Steps in which time passed over an open position."""
    steps: Ints
    reward: NDArray[np.float64]
    components: Mapping[str, NDArray[np.float64]]

    def __len__(self) -> int:
        return len(self.pnl)


def chooser(player: BatchPolicy, lanes: VectorGame) -> Callable[[Rows, Any], Actions]:
    """Give the way to ask the policy, with masks if it wants them."""
    if isinstance(player, MaskedPolicy):
        masked = player
        return lambda rows, state: lanes.settle(masked.act_masked(rows, lanes.masks(), state))
    return player.act


def narrows(player: BatchPolicy) -> bool:
    """Tell whether a policy can leave lanes."""
    return isinstance(player, ShrinkablePolicy) and player.narrows


def leave(player: BatchPolicy, state: Any, kept: Ints) -> None:
    """Let a policy that narrows go on with these lanes alone."""
    assert isinstance(player, ShrinkablePolicy)
    player.keep(state, kept)


def play_lanes(
    lanes: VectorGame,
    player: BatchPolicy,
    windows: int,
    rng: Rng,
    *,
    delay: int = 0,
    wait: tuple[int, ...] = (),
    local: tuple[int, ...] = (),
    progress: Callable[[int], None] | None = None,
) -> RolloutStats:
    """Play a policy over the first windows of some lanes; every lane plays equally many, or one more.

    With a delay an action is carried out so many steps after it was chosen; until the first one, and in place of those
    left over from the window before, `wait` is. The `local` heads act at once: what a player's own page does needs no
    connection, so an order that arrives late meets the bet field as it stands. `progress` is told how many windows
    ended. Lanes whose windows have all been played are left, half of them at a time, where lanes and policy can.
    """
    from playproof.game.tally import WindowTally  # compiled code, which this module's other readers do without

    rows = lanes.start()
    state = player.start(lanes.count, rng)
    tally, choose = WindowTally(lanes, windows), chooser(player, lanes)
    queue = [np.tile(np.asarray(wait, np.int64), (lanes.count, 1)) for _ in range(delay)]
    narrowing = lanes if isinstance(lanes, ShrinkableGame) and narrows(player) else None
    while tally.left:
        queue.append(np.array(choose(rows, state), np.int64))
        actions = queue.pop(0)
        if delay and local:
            newest = queue[-1]
            actions[:, local] = newest[:, local]
        moved = lanes.step(actions)
        before = tally.left
        tally.take(actions, moved)
        rows = moved.rows
        if len(moved.ended.lanes):
            chosen = np.zeros(lanes.count, np.bool_)
            chosen[moved.ended.lanes] = True
            player.begin(state, chosen)
            for late in queue:
                late[chosen] = wait
            if progress is not None:
                progress(before - tally.left)
            if narrowing is not None and NARROWEST <= tally.playing <= lanes.count // 2:
                kept = tally.narrow()
                narrowing.keep(kept)
                leave(player, state, kept)
                rows, queue = rows[kept], [late[kept] for late in queue]
    return RolloutStats(**tally.done)
