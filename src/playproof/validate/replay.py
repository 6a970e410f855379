"""Gather episodes to be looked at step by step: a policy played again, recorded windows, trajectories.

A policy plays its windows twice: once as every evaluation plays them, and once more watched, with the same seed;
a difference in money of a single unit is an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof.datasets.dataset import Dataset, SessionTables
from playproof.errors import ConfigError, ContractError, InputError
from playproof.evaluate.rollout import Rollout, make_lanes, rollout
from playproof.game import Game, first, lookup
from playproof.game.replay import Arrays, LaneSnapshot, Line, Number, ReplayedEpisode, ReplayRules, Values
from playproof.game.vector_env import (
    Actions,
    BatchPolicy,
    Chosen,
    ReplayTape,
    Rows,
    StepResult,
    VectorGame,
    VectorTerms,
)
from playproof.json_types import Json
from playproof.money import UNIT
from playproof.validate.action_probabilities import PolicyTrace, overhear
from playproof.validate.examine import Subject

SHOWN = 12
"""Episodes that are shown unless asked for more."""
THEORY = "by theory"


@dataclass(frozen=True)
class Replay:
    """Episodes to be looked at, in their order."""

    title: str
    about: str
    """Where they come from, in a sentence."""
    game: str
    money: str
    """What one unit of account is called."""
    episodes: tuple[ReplayedEpisode, ...]
    units: Mapping[str, str]
    """Units of the features."""
    of: int = 0
    """Episodes among which these were chosen."""
    pnl: int | None = None
    """Profit of all of them, in the smallest unit."""

    def __post_init__(self) -> None:
        if not self.episodes:
            raise InputError("expected at least one episode to show, found none")

    @property
    def worst(self) -> int:
        """Give the place of the episode that lost most."""
        return self._extreme(-1)

    @property
    def best(self) -> int:
        """Give the place of the episode that earned most."""
        return self._extreme(1)

    def flag(self, index: int) -> str:
        """Say whether an episode is the worst or the best of several."""
        if len(self.episodes) < 2:
            return ""
        return "worst" if index == self.worst else "best" if index == self.best else ""

    def _extreme(self, sign: int) -> int:
        known = [(sign * episode.pnl, -index) for index, episode in enumerate(self.episodes) if episode.pnl is not None]
        return -max(known)[1] if known else 0

    def summary(self) -> Json:
        """Give what is shown, without the steps."""
        return {
            "title": self.title,
            "about": self.about,
            "game": self.game,
            "episodes": [
                {
                    "window": episode.window,
                    "player": episode.player,
                    "steps": len(episode),
                    "pnl": episode.pnl,
                    "marks": [{"point": mark.point, "kind": mark.kind, "text": mark.text} for mark in episode.marks],
                }
                for episode in self.episodes
            ],
            "worst": self.worst,
            "best": self.best,
            "of": self.of,
            "pnl": self.pnl,
        }


def choose(pnl: Sequence[int | None], show: int) -> list[int]:
    """Choose episodes worth a look, in their order: the worst, the best, and others evenly between."""
    if show < 1:
        raise ConfigError(f"expected at least one episode to show, found {show}")
    if len(pnl) <= show:
        return list(range(len(pnl)))
    order = sorted(range(len(pnl)), key=lambda index: (pnl[index] or 0, index))
    third = max(1, show // 3)
    chosen = [order[0]] if show == 1 else [*order[:third], *order[-third:]]
    rest = [index for index in range(len(pnl)) if index not in chosen]
    left = show - len(chosen)
    chosen += [rest[len(rest) * number // left] for number in range(left)]
    return sorted(chosen)


class _TracedGame:
    """Lanes that play as others do, and note down the steps of wanted windows."""

    def __init__(self, lanes: VectorGame, wanted: Iterable[int], thoughts: PolicyTrace) -> None:
        self.inner, self.thoughts = lanes, thoughts
        self.count, self.heads, self.features = lanes.count, lanes.heads, lanes.features
        self.notes: dict[int, _WindowTrace] = {number: _WindowTrace() for number in wanted}
        self._number = np.arange(self.count)
        self._rows: Rows = np.zeros((0, 0), np.float32)

    def start(self) -> Rows:
        """Seat the players."""
        self._number = np.arange(self.count)
        self._rows = self.inner.start()
        return self._rows

    def step(self, actions: Actions) -> StepResult:
        """Take an action in every lane, and note it."""
        rows = self._rows.copy()
        moved = self.inner.step(actions)
        watched: Any = self.inner if hasattr(self.inner, "before") else None
        indices = {int(lane): index for index, lane in enumerate(moved.ended.lanes)}
        for lane, number in enumerate(self._number.tolist()):
            notes = self.notes.get(number)
            if notes is None:
                continue
            notes.take(lane, rows, actions, moved, self.thoughts, watched.before() if watched else None)
            if lane in indices:
                notes.close(lane, indices[lane], moved, watched.after() if watched else None)
        self._number[moved.ended.lanes] += self.count
        self._rows = moved.rows
        return moved

    def masks(self) -> Chosen:
        """Tell which choices can have an effect now."""
        return self.inner.masks()

    def settle(self, actions: Actions) -> Actions:
        """Put waits in place of orders that would have no effect."""
        return self.inner.settle(actions)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give the whole state."""
        return self.inner.arrays()


class _WindowTrace:
    """One window while it is played."""

    def __init__(self) -> None:
        self.rows: list[NDArray[np.float32]] = []
        self.missing: list[NDArray[np.bool_] | None] = []
        self.actions: list[tuple[int, ...]] = []
        self.rewards: list[float] = []
        self.components: dict[str, list[float]] = {}
        self.values: dict[str, list[Number]] = {}
        self.chances: list[tuple[NDArray[np.floating], ...]] = []
        self.predictions: dict[str, list[Number]] = {}
        self.pnl: int | None = None

    def take(
        self,
        lane: int,
        rows: Rows,
        actions: Actions,
        moved: StepResult,
        thoughts: PolicyTrace,
        stood: LaneSnapshot | None,
    ) -> None:
        """Note one step."""
        self._see(lane, rows[lane], stood)
        self.actions.append(tuple(actions[lane].tolist()))
        self.rewards.append(moved.rewards[lane].item())
        for name, paid in moved.components.items():
            self.components.setdefault(name, []).append(paid[lane].item())
        if thoughts.chances:
            self.chances.append(tuple(head[lane].copy() for head in thoughts.chances))
        for name, chance in thoughts.predictions.items():
            self.predictions.setdefault(name, []).append(chance[lane].item())

    def close(self, lane: int, index: int, moved: StepResult, stood: LaneSnapshot | None) -> None:
        """Note how the window ended."""
        self._see(lane, moved.ended.rows[index], stood)
        self.pnl = int(moved.ended.pnl[index])

    def _see(self, lane: int, row: NDArray[np.float32], stood: LaneSnapshot | None) -> None:
        self.rows.append(row.copy())
        if stood is None:
            return
        self.missing.append(None if stood.missing is None else stood.missing[lane].copy())
        for name, of in stood.values.items():
            self.values.setdefault(name, []).append(_plain(of[lane]))


def _plain(value: Any) -> Number:
    """Give a number of an array as Python's own; NaN is unknown."""
    result: int | float = value.item()
    return None if math.isnan(result) else result


@dataclass(frozen=True)
class ReplayRequest:
    """What is to be played and looked at."""

    source: str | ReplayTape
    """A world, or recorded windows."""
    name: str
    """What the source is called."""
    rounds: int | None
    seed: int = 0
    show: int = SHOWN
    window: str | None = None
    """Only this one of the windows."""


def replay_policy(
    game: Game, subject: Subject, looking: ReplayRequest, payload: Callable[[str], None] = lambda _: None
) -> Replay:
    """Play a policy as evaluations do, choose windows, and play it again watched."""
    payload(f"playing {subject.name}")
    played = _play(game, subject, subject.player, looking)
    chosen = _wanted(played, looking)
    payload(f"watching {len(chosen)} of {len(played)} windows")
    noted = _watch(game, subject, looking, chosen)
    for number, notes in noted.items():
        if notes.pnl != int(played.pnl[number]):
            raise ContractError(
                f"expected window {played.windows[number]} to earn {played.pnl[number]} when watched as it did"
                f" unwatched, found {notes.pnl}"
            )
    return Replay(
        title=subject.name,
        about=f"{looking.name}, seed {looking.seed}; {_of(len(chosen), len(played))}",
        game=game.name,
        money=_unit(game),
        episodes=tuple(
            _episode(game, subject, looking, played.windows[number], noted[number]) for number in sorted(noted)
        ),
        units=_units(game),
        of=len(played),
        pnl=int(played.pnl.sum()),
    )


def _of(shown: int, of: int) -> str:
    return f"{shown} of {of:,} windows: the worst, the best and some between" if shown < of else f"{of:,} windows"


def _wanted(played: Rollout, looking: ReplayRequest) -> list[int]:
    if looking.window is None:
        return choose(played.pnl.tolist(), looking.show)
    if looking.window not in played.windows:
        shown = f"{played.windows[0]} to {played.windows[-1]}"
        raise InputError(f"expected one of the windows {shown}, found {looking.window!r}")
    return [played.windows.index(looking.window)]


def _play(game: Game, subject: Subject, player: BatchPolicy, looking: ReplayRequest) -> Rollout:
    return rollout(
        game,
        player,
        looking.source,
        looking.rounds,
        looking.seed,
        stake=subject.stake,
        name=subject.name,
        options=subject.options,
    )


def _watch(game: Game, subject: Subject, looking: ReplayRequest, chosen: Sequence[int]) -> dict[int, _WindowTrace]:
    """Play the same windows on lanes that note what happens in the chosen ones."""
    thoughts, made = PolicyTrace(), []
    replaying = game.display().replay

    def make(terms: VectorTerms, count: int) -> VectorGame:
        lanes = make_lanes(game, terms, count) if replaying is None else replaying.watch(terms, count)
        made.append(_TracedGame(lanes, chosen, thoughts))
        return made[0]

    traced = replace(game.simulated(), vector=make)
    _play(replace(game, simulation=lambda: traced), subject, overhear(subject.player, thoughts), looking)
    return made[0].notes


def _episode(game: Game, subject: Subject, looking: ReplayRequest, window: str, notes: _WindowTrace) -> ReplayedEpisode:
    options = subject.options
    actions = options.actions or first(game.actions)
    replaying = game.display().replay
    texts = _texts(game, replaying, actions, notes.actions)
    lines = () if replaying is None else tuple(line for line in replaying.lines if line.name in notes.values)
    observation = lookup(game.observations, options.observation or first(game.observations), "observation set")
    rows = np.array(notes.rows, np.float32)
    features = tuple(getattr(observation, "features", ()))
    return ReplayedEpisode(
        window=window,
        player=subject.name,
        pnl=notes.pnl,
        lines=lines,
        values=notes.values,
        marks=() if replaying is None else replaying.marks(notes.values, texts),
        actions=texts,
        rewards=notes.rewards,
        components=notes.components,
        features=features,
        rows=rows,
        missing=_masks(notes.missing),
        thoughts=_thoughts(game, actions, notes),
        predictions=notes.predictions | _theory(game, looking, rows[:-1], features),
        about=_thinking(subject, notes),
    )


def _thinking(subject: Subject, notes: _WindowTrace) -> str:
    if notes.chances or notes.predictions:
        return ""
    return f"{subject.name} follows a rule: it weighs no chances that could be shown."


def _texts(game: Game, replaying: ReplayRules | None, actions: str, taken: Sequence[Sequence[int]]) -> tuple[str, ...]:
    heads = game.actions[actions].heads
    if replaying is not None:
        return tuple(replaying.say(action, actions) for action in taken)
    return tuple(" ".join(head[index] for head, index in zip(heads, action, strict=True)) for action in taken)


def _masks(result: Sequence[NDArray[np.bool_] | None]) -> Chosen | None:
    known = [item for item in result if item is not None]
    return np.array(known, np.bool_) if known and len(known) == len(result) else None


def _thoughts(
    game: Game, actions: str, notes: _WindowTrace
) -> tuple[tuple[tuple[str, ...], NDArray[np.floating]], ...]:
    if not notes.chances:
        return ()
    heads = game.actions[actions].heads
    return tuple((names, np.array([step[index] for step in notes.chances])) for index, names in enumerate(heads))


def _theory(game: Game, looking: ReplayRequest, rows: Rows, features: tuple[str, ...]) -> dict[str, list[Number]]:
    """Give the chance of the game's label by theory at each row, where the world is known and theory knows one."""
    predicting = game.simulated().prediction
    if predicting is None or not isinstance(looking.source, str) or not len(rows):
        return {}
    chances = predicting.chance(looking.source, rows, features)
    return {} if chances is None else {f"{predicting.label} {THEORY}": [_plain(item) for item in np.asarray(chances)]}


def _units(game: Game) -> dict[str, str]:
    return {feature.name: feature.unit for feature in game.features}


def _unit(game: Game) -> str:
    """Give what whole units of the game's money are called."""
    unit = game.money.rpartition(" ")[2]
    return f"{unit}s" if unit.islower() else unit


def replay_dataset(game: Game, dataset: Dataset, split: str | None, window: str | None, show: int = SHOWN) -> Replay:
    """Show recorded episodes of a data set."""
    manifest = dataset.manifest
    windows = [name for name, of in manifest["split"].items() if split in (None, of) and window in (None, name)]
    if not windows:
        raise InputError(
            f"expected windows of data set {manifest['name']}, found none called {window or split!r};"
            f" splits: {', '.join(sorted(set(manifest['split'].values())))}"
        )
    recorded = _recorded(dataset, frozenset(windows))
    chosen = choose([pnl for *_, pnl in recorded], show)
    return Replay(
        title=f"data set {manifest['name']}",
        about=f"recorded play; {_of(len(chosen), len(recorded)).replace('windows', 'episodes')}",
        game=game.name,
        money=_unit(game),
        episodes=tuple(_stored_episode(game, dataset, *recorded[index]) for index in chosen),
        units=_units(game),
        of=len(recorded),
        pnl=sum(pnl for *_, pnl in recorded),
    )


def _recorded(dataset: Dataset, windows: frozenset[str]) -> list[tuple[str, str, int]]:
    """Give the episodes of some windows, each session, window and profit."""
    order = {name: index for index, name in enumerate(dataset.manifest["split"])}
    results = []
    for session, tables in dataset.sessions.items():
        paid = tables["rewards"]
        for (window,), of in paid.group_by(["window_id"], maintain_order=True):
            if window in windows:
                results.append((session, str(window), int(of["next_equity"][-1] - of["equity"][0])))
    return sorted(results, key=lambda item: (order[item[1]], item[0]))


def _stored_episode(game: Game, dataset: Dataset, session: str, window: str, pnl: int) -> ReplayedEpisode:
    columns = _columns(dataset.sessions[session], window)
    seen, done, paid = (columns[name] for name in ("observations", "actions", "rewards"))
    replaying = game.display().replay
    heads = [name for name in done if name.startswith("head_")]
    taken = np.stack([done[name] for name in heads], axis=1).tolist()
    texts = _texts(game, replaying, dataset.manifest["actions"]["name"], taken)
    payload = replaying.stored(columns) if replaying is not None and replaying.stored is not None else _money(columns)
    features = tuple(dataset.manifest["stored_features"])
    parts = {name.removeprefix("reward__"): of.tolist() for name, of in paid.items() if name.startswith("reward__")}
    return ReplayedEpisode(
        window=window,
        player=_player(dataset.sessions[session], window) or session,
        pnl=pnl,
        lines=payload[0],
        values=payload[1],
        marks=replaying.marks(payload[1], texts) if replaying is not None and replaying.stored is not None else (),
        actions=texts,
        rewards=paid["reward"].tolist(),
        components=parts,
        features=features,
        rows=np.stack([seen[name] for name in features], axis=1).astype(np.float32),
        missing=np.stack([seen[f"{name}__missing"] for name in features], axis=1),
        about=f"Recorded in session {session}; what the player thought was not.",
    )


def _columns(tables: SessionTables, window: str) -> dict[str, Arrays]:
    """Give one window's rows of each table as arrays."""
    arrayses: dict[str, Arrays] = {}
    for name in ("observations", "actions", "rewards"):
        own = tables[name].filter(tables[name]["window_id"] == window)
        arrayses[name] = {column: own[column].to_numpy() for column in own.columns if column != "window_id"}
    return arrayses


def _player(tables: SessionTables, window: str) -> str | None:
    known = (episode for episode in tables.episodes if episode.get("window_id") == window)
    player = next(known, {}).get("player_id")
    return None if player is None else str(player)


def _money(columns: Mapping[str, Arrays]) -> tuple[tuple[Line, ...], Values]:
    """Give the money of a recorded episode of any game."""
    paid = columns["rewards"]
    line = Line("equity", "profit so far", "", UNIT, stepped=True, drawn="change")
    return (line,), {"equity": [*paid["equity"].tolist(), *paid["next_equity"][-1:].tolist()]}


def replay_trajectories(game: Game, values: Sequence[Any], title: str, show: int = SHOWN) -> Replay:
    """Show stored trajectories."""
    replaying = game.display().replay
    if replaying is None or replaying.trajectory is None:
        raise ConfigError(f"expected a game whose trajectories can be shown, found {game.name!r}")
    chosen = choose([item.final_pnl for item in values], show)
    pnls = [item.final_pnl for item in values if item.final_pnl is not None]
    return Replay(
        title=title,
        about=f"recorded by agents; {_of(len(chosen), len(values)).replace('windows', 'trajectories')}",
        game=game.name,
        money=_unit(game),
        episodes=tuple(replaying.trajectory(values[index]) for index in chosen),
        units=_units(game),
        of=len(values),
        pnl=sum(pnls) if pnls else None,
    )
