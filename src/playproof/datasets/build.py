"""Build a data set from recorded events: a map over pieces of a store, and a pure function of what they hold.

The folder `datasets/<name>@<hash>/` holds, for each session, observations.parquet (one row a step and one after the
last, `final`), actions.parquet, rewards.parquet, labels.parquet if the game has labels, and metadata.json under
`sessions/<id>/`, and manifest.json, written last. It is made beside its final path and renamed: a folder is whole, and
never changes. The observation set that is stored is the widest one that holds all features of the one asked for, so
that a reader may choose a narrower one. Rows come from a game's batch over stored columns, or event by event from
`segment`; both give the same values. Windows are split in time order, with a gap; there is no other split.
Memory follows the largest piece, not their number.
"""

from __future__ import annotations

import contextlib
import ctypes
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof.datasets.dataset import (
    FORMAT,
    MANIFEST,
    METADATA,
    digest_json,
    digest_sessions,
    sync,
    write_json,
)
from playproof.datasets.segment import Segmentation, segment_session
from playproof.datasets.source import Reader, SourcePiece, plan
from playproof.datasets.tables import (
    Column,
    Summary,
    TextColumn,
    check_finite,
    code_tables,
    combine,
    describe_features,
    digest_tables,
    summarize,
    summarize_file,
    write_tables,
)
from playproof.errors import ConfigError
from playproof.events import Event, check_id
from playproof.game import Game, NumericObservation, Outcome, Reward, load_game, lookup
from playproof.game.episode_columns import BuildRequest, EpisodeColumns, EpisodeEntry, SkippedWindow, lay
from playproof.game.rewards import find_reward
from playproof.home import draft_folder, folder, safe_join
from playproof.json_types import Json
from playproof.parallel import Engine
from playproof.provenance import commit
from playproof.store import EventStore

GAP = "gap"
"""The split of the windows that are left out between two others."""


def split_windows(windows: Sequence[str], shares: Mapping[str, float], gap: int) -> dict[str, str]:
    """Give each window its split: consecutive stretches in the order given, `gap` windows apart."""
    if len(set(windows)) != len(windows):
        raise ConfigError("expected each window once, found some twice")
    if not shares or min(shares.values()) <= 0 or gap < 0 or GAP in shares:
        raise ConfigError(
            f"expected positive shares, none called {GAP}, and a gap >= 0, found {dict(shares)} and {gap}"
        )
    usable = len(windows) - gap * (len(shares) - 1)
    split, taken, passed = [GAP] * len(windows), 0, 0.0
    for index, (name, share) in enumerate(shares.items()):
        passed += share
        end = round(usable * passed / sum(shares.values()))
        if end <= taken:
            raise ConfigError(f"expected windows enough for {name!r}, found {len(windows)} in all and a gap of {gap}")
        split[taken + index * gap : end + index * gap] = [name] * (end - taken)
        taken = end
    return dict(zip(windows, split, strict=True))


Array = NDArray[Any]


def stored_set(game: Game, observation: str) -> str:
    """Give the name of the widest observation set that holds all features of this one."""
    asked = lookup(game.observations, observation, "observation set")
    if not isinstance(asked, NumericObservation):
        raise ConfigError(f"expected an observation set of numbers, found {observation!r}, which is messages")
    wider = {
        name: len(kind.features)
        for name, kind in game.observations.items()
        if isinstance(kind, NumericObservation) and set(asked.features) <= set(kind.features)
    }
    return max(wider, key=lambda name: (wider[name], name == observation))


def lay_episodes(game: Game, session_id: str, made: Segmentation, ask: BuildRequest) -> EpisodeColumns:
    """Lay one session's episodes out, event by event as they were cut."""
    return lay(game, session_id, made.episodes, made.left_out, ask)


def to_columns(game: Game, laid: EpisodeColumns, reward: Reward) -> dict[str, dict[str, Column]]:
    """Give a session's tables, each row with its window and its number in it."""
    steps, rows = _keys(laid, 0), _keys(laid, 1)
    tables = {
        "observations": rows | _observations(laid),
        "actions": steps | _actions(game, laid),
        "rewards": {**steps, **_rewards(game, laid, reward)},
    }
    if laid.labels:
        tables["labels"] = steps | dict(laid.labels)
    return tables


def _keys(laid: EpisodeColumns, more: int) -> dict[str, Column]:
    """Name each row's window and its place in the episode; `more` rows stand after the last step."""
    lengths = laid.lengths + more
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    step = (np.arange(len(starts)) - starts).astype(np.int32)
    return {"window_id": TextColumn([entry.window_id for entry in laid.entries], lengths), "step": step}


def _observations(laid: EpisodeColumns) -> dict[str, Column]:
    """Give each feature, whether it was unknown, and whether the row stands after the last step."""
    return (
        {name: laid.observations[index] for index, name in enumerate(laid.features)}
        | {f"{name}__missing": laid.missing[index] for index, name in enumerate(laid.features)}
        | {"final": laid.is_final}
    )


def _actions(game: Game, laid: EpisodeColumns) -> dict[str, Column]:
    """Give an index for each head, what the choice changed, and how old the player's state was."""
    alignment = game.recording().alignment
    shown = alignment.shown if alignment is not None else ()
    return (
        {"substep": laid.substeps}
        | {f"head_{index}": head for index, head in enumerate(laid.actions)}
        | {"effect": laid.effects}
        | {name: laid.after(name) for name in shown if name in laid.standings}
        | {"state_age_ticks": laid.age_ticks, "state_age_us": laid.age_us}
    )


def _rewards(game: Game, laid: EpisodeColumns, reward: Reward) -> dict[str, Array]:
    """Give what each step paid, its components, the money before and after, and how it ended."""
    paid = pay(game, laid, reward)
    last = np.zeros(len(laid.substeps), np.bool_)
    ends = np.cumsum(laid.lengths) - 1
    last[ends] = True
    terminated = last.copy()
    terminated[ends] = [entry.end == "terminated" for entry in laid.entries]
    return (
        {"reward": total(paid, len(last))}
        | {f"reward__{name}": column for name, column in paid.items()}
        | {"cash": laid.before("cash"), "equity": laid.before("equity"), "next_equity": laid.after("equity")}
        | {"terminated": terminated, "truncated": last & ~terminated}
    )


def total(paid: Mapping[str, Array], steps: int) -> Array:
    """Add components up, in their order."""
    summed = np.zeros(steps, np.float64)
    for index, column in enumerate(paid.values()):
        summed = column.copy() if index == 0 else summed + column
    return summed


def pay(game: Game, laid: EpisodeColumns, reward: Reward) -> dict[str, Array]:
    """Give what each component pays: all steps at once where the game can, else episode by episode."""
    columnar = game.recording().columnar
    if columnar is not None:
        result = columnar.pay(laid, reward)
        if result is not None:
            return {name: np.asarray(column, np.float64) for name, column in result.items()}
    paid: dict[str, list[float]] = {}
    for entry, steps in laid.steps():
        outcome = Outcome(entry.window_id, entry.outcome or {})
        for name, column in reward.compute(steps, outcome).items():
            paid.setdefault(name, []).extend(column)
    return {name: np.array(column, np.float64) for name, column in paid.items()}


Progress = Callable[[str, int, int], None]
"""Told after each piece: what is being done, how many are done, and how many there are."""


def _default_shares() -> Mapping[str, float]:
    return {"train": 0.6, "validation": 0.2, "test": 0.2}


@dataclass(frozen=True)
class DatasetConfig:
    """What to make of recorded events."""

    name: str
    observation: str
    """What `transitions` gives unless asked for another; a wider set that holds it is stored."""
    actions: str
    reward: str
    """A reward of the game, a YAML or TOML file, or "module:attribute"."""
    shares: Mapping[str, float] = field(default_factory=_default_shares)
    """Splits and their sizes, in time order."""
    gap: int = 1
    """Windows left out between two splits."""
    include_incomplete: bool = False
    """Keep windows that were not received whole; their episodes say what they lack."""
    min_ticks: int = 0
    """Decision points that an episode must at least have."""
    world: str | None = None
    """Whose rules the ledger keeps; None: the game's first world."""

    def ask(self, game: Game) -> BuildRequest:
        """Give what is asked of each session."""
        lookup(game.actions, self.actions, "action set")
        return BuildRequest(
            stored_set(game, self.observation), self.actions, self.world, self.include_incomplete, self.min_ticks
        )


@dataclass(frozen=True)
class BuildTask:
    """One piece of a build, as it is sent to a worker."""

    game: Game | str
    piece: SourcePiece
    config: DatasetConfig
    draft: str
    """Folder to write sessions into."""

    def load(self) -> Game:
        """Give the game."""
        return load_game(self.game) if isinstance(self.game, str) else self.game


@dataclass(frozen=True)
class SessionResult:
    """What became of one session."""

    session_id: str
    player_id: str | None
    digests: Mapping[str, str]
    windows: tuple[tuple[str, int, int], ...]
    """Window, start in microseconds, steps of each episode."""
    left_out: tuple[SkippedWindow, ...]
    corrected: int
    late: int
    incomplete: int
    summary: Summary | None = None
    """Of all its steps."""
    damaged: int = 0
    """Rows of the log that are not as they were written and were passed over."""


def find(game: Game, name: str) -> Reward:
    """Give the reward of a configuration."""
    rewards = game.rewards()
    return find_reward(rewards.presets, rewards.components, name)


def build(
    game: Game,
    source: EventStore | Iterable[Event],
    config: DatasetConfig,
    home: Path,
    engine: Engine | None = None,
    *,
    sessions: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Build the data set, or find it already there; give its folder.

    A store is read piece by piece, on the engine, by the game's batch if it has one; events are taken one by one.
    """
    check_id(config.name, "a data set's name")
    reward, ask = find(game, config.reward), config.ask(game)
    events = None if isinstance(source, EventStore) else list(source)
    root = folder("datasets", home)
    with kept_memory(), draft_folder(root, config.name) as draft:
        index = draft / "data"
        (index / "sessions").mkdir(parents=True)
        tell = progress or _silent
        if isinstance(source, EventStore):
            built = _build_store(game, source, config, index, engine, sessions, tell)
        else:
            built = list(build_events(game, events or [], ask, reward, index))
        made = [session for session in built if session.windows]
        if not made:
            raise ConfigError(_nothing(built, None if events is None else len(events)))
        manifest = describe(game, config, reward, built)
        summaries = _summarize(index, manifest, built)
        return publish(manifest | summaries | provenance(built, sessions), index, root)


def _silent(what: str, done: int, of: int) -> None:
    """Tell nobody."""


def _nothing(built: Sequence[SessionResult], events: int | None) -> str:
    """Say that there is nothing to build, and why."""
    reasons: dict[str, int] = {}
    for session in built:
        for left in session.left_out:
            reasons[left.reason] = reasons.get(left.reason, 0) + 1
    payload = "; ".join(f"{count} windows: {reason}" for reason, count in sorted(reasons.items()))
    where = f"in {events} events" if events is not None else f"in {len(built)} sessions"
    return (
        f"expected at least one whole window {where}, found none{f' ({payload})' if payload else ''}; "
        f"record or import more"
    )


def _build_store(
    game: Game,
    store: EventStore,
    config: DatasetConfig,
    path: Path,
    engine: Engine | None,
    sessions: Sequence[str] | None,
    tell: Progress,
) -> list[SessionResult]:
    """Build every piece of a store, on an engine if there is one."""
    pieces = plan(store.home.absolute(), sessions)
    sent: Game | str = game.name if engine is not None and engine.is_remote else game
    tasks = [BuildTask(sent, piece, config, str(path)) for piece in pieces]
    built: list[SessionResult] = []
    results = map(build_piece, tasks) if engine is None else engine.map(build_piece, tasks)
    for number, made in enumerate(results, 1):
        built += made
        tell("sessions", number, len(tasks))
    return built


def build_piece(task: BuildTask) -> list[SessionResult]:
    """Build the sessions of one piece."""
    keep_freed()
    game = task.load()
    reward, ask = find(game, task.config.reward), task.config.ask(game)
    reader = Reader(task.piece)
    return [
        write_session(game, laid, reward, Path(task.draft), reader.damaged if number == 0 else 0)
        for number, laid in enumerate(lay_piece(game, reader, ask))
    ]


def lay_piece(game: Game, reader: Reader, ask: BuildRequest) -> Iterator[EpisodeColumns]:
    """Lay the sessions of a piece out, by the game's batch if it has one."""
    batch = game.recording().columnar
    if batch is None:
        for session, events in reader.events():
            yield lay_episodes(game, session, segment_session(game, events, ask), ask)
        return
    for _, tables in reader.tables(batch.doc_types(ask.observation), batch.columns):
        yield batch.lay(tables, ask)


def build_events(
    game: Game, events: Sequence[Event], ask: BuildRequest, reward: Reward, path: Path
) -> Iterator[SessionResult]:
    """Build the sessions of events that are at hand, event by event."""
    sessions: dict[str, list[Event]] = {}
    for event in events:
        sessions.setdefault(event.session_id, []).append(event)
    for session in sorted(sessions):
        laid = lay_episodes(game, session, segment_session(game, sessions[session], ask), ask)
        yield write_session(game, laid, reward, path)


def write_session(game: Game, laid: EpisodeColumns, reward: Reward, path: Path, damaged: int = 0) -> SessionResult:
    """Write one session's tables, and give what the manifest needs of it; nothing is written without an episode."""
    entries, digests, summary = laid.entries, {}, None
    if entries:
        folder_ = safe_join(path, "sessions", laid.session_id)
        folder_.mkdir(parents=True)
        tables = code_tables(to_columns(game, laid, reward))
        check_finite(laid.session_id, tables["observations"], laid.features)
        summary = summarize(tables["observations"], laid.features)
        write_tables(folder_, tables)
        payload = {"episodes": [_told(entry) for entry in entries]}
        digests = digest_tables(tables) | {"episodes": digest_json(payload)}
        write_json(folder_ / METADATA, {"session_id": laid.session_id, "steps": int(laid.lengths.sum()), **payload})
        sync(folder_)
    return SessionResult(
        laid.session_id,
        entries[0].player_id if entries else None,
        digests,
        tuple((entry.window_id, entry.start_us, entry.steps) for entry in entries),
        laid.left_out,
        sum(entry.corrected for entry in entries),
        sum(entry.late for entry in entries),
        sum(entry.lack is not None for entry in entries),
        summary,
        damaged,
    )


def _told(entry: EpisodeEntry) -> Json:
    return {
        "window_id": entry.window_id,
        "player_id": entry.player_id,
        "start_us": entry.start_us,
        "steps": entry.steps,
        "end": entry.end,
        "lack": None if entry.lack is None else {"reason": entry.lack.reason, "ended": entry.lack.ended},
        "corrected": entry.corrected,
        "late": entry.late,
        "outcome": None if entry.outcome is None else dict(entry.outcome),
    }


def describe(game: Game, config: DatasetConfig, reward: Reward, built: Sequence[SessionResult]) -> Json:
    """Write the manifest: what the data set is, and how its windows are split."""
    made = sorted((session for session in built if session.windows), key=lambda session: session.session_id)
    stored = stored_set(game, config.observation)
    kind, wide = game.observations[config.observation], game.observations[stored]
    assert isinstance(kind, NumericObservation)
    assert isinstance(wide, NumericObservation)
    starts: dict[str, int] = {}
    for session in made:
        for window, start, _ in session.windows:
            starts[window] = min(start, starts.get(window, start))
    windows = sorted(starts, key=lambda window: (starts[window], window))
    core: Json = {
        "name": config.name,
        "rows_hash": digest_sessions({session.session_id: session.digests for session in made}),
        "game": {"name": game.name, "version": game.version},
        "world": config.world,
        "observation": config.observation,
        "features": list(kind.features),
        "stored": stored,
        "stored_features": list(wide.features),
        "actions": {"name": config.actions, "heads": [list(head) for head in game.actions[config.actions].heads]},
        "reward": {"name": reward.name, "version": reward.version, "components": list(reward.components)},
        "labels": sorted(game.labels),
        "min_ticks": config.min_ticks,
        "split": split_windows(windows, config.shares, config.gap),
        "episodes": sum(len(session.windows) for session in made),
        "steps": sum(steps for session in made for _, _, steps in session.windows),
        "incomplete": sum(session.incomplete for session in made),
        "corrected": sum(session.corrected for session in made),
        "late": sum(session.late for session in made),
        "sessions": {
            session.session_id: {
                "player_id": session.player_id,
                "episodes": len(session.windows),
                "steps": sum(steps for _, _, steps in session.windows),
                "digests": dict(sorted(session.digests.items())),
            }
            for session in made
        },
        "left_out": sorted(
            (asdict(left) for session in built for left in session.left_out),
            key=lambda left: (left["session_id"], left["window_id"]),
        ),
    }
    return {"format": FORMAT, "core": sorted(core), **core, "hash": digest_json(core)}


def provenance(built: Sequence[SessionResult], sessions: Sequence[str] | None) -> Json:
    """Say what was read and by which code; no part of the hash."""
    return {
        "provenance": {
            "commit": commit(),
            "sources": {"sessions": len(built), "chosen": None if sessions is None else sorted(sessions)},
            "damaged_rows": sum(session.damaged for session in built),
        }
    }


def _summarize(path: Path, manifest: Mapping[str, Any], built: Sequence[SessionResult]) -> Json:
    """Give mean, deviation, range and missing share of each feature over the train split alone.

    Sessions that lie in it whole were summed up when they were written; those that it cuts are read again.
    """
    split, features = manifest["split"], tuple(manifest["stored_features"])
    first = next(iter(dict.fromkeys(split.values())))
    result: Summary | None = None
    for session in sorted(built, key=lambda session: session.session_id):
        inside = frozenset(window for window, *_ in session.windows if split[window] == first)
        summary = session.summary
        if inside and len(inside) < len(session.windows):
            summary = summarize_file(path / "sessions" / session.session_id / "observations.parquet", features, inside)
        if inside and summary is not None:
            result = summary if result is None else combine(result, summary)
    assert result is not None
    return {"statistics": {"split": first, "features": describe_features(features, result)}}


def publish(manifest: Mapping[str, Any], draft: Path, root: Path) -> Path:
    """Give a finished draft its place, the manifest last; what is there already and sound stays."""
    path = safe_join(root, f"{manifest['name']}@{manifest['hash'][:16]}")
    if (path / MANIFEST).exists():
        return path
    sync(draft / "sessions")
    write_json(draft / MANIFEST, manifest)
    sync(draft)
    shutil.rmtree(path, ignore_errors=True)
    draft.rename(path)
    sync(root)
    return path


TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Numbers of the settings in malloc.h."""
KEPT, LARGEST, USUAL = 1 << 30, 32 << 20, 128 << 10
"""Bytes that may be free at the end of the heap; blocks that are larger come from the kernel in any case; what the C
library starts with for both."""


def keep_freed() -> None:
    """Keep what is freed from now on, in this process.

    The C library gives large blocks back to the kernel when they are freed, and the kernel zeroes them page by page
    when they are asked for again: a quarter of the time that it took to build a data set. Only glibc lets us choose.
    """
    _set(KEPT, LARGEST)


@contextlib.contextmanager
def kept_memory() -> Iterator[None]:
    """Keep what is freed within, and give it back at the end."""
    keep_freed()
    try:
        yield
    finally:
        _set(USUAL, USUAL)
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)


def _set(kept: int, largest: int) -> None:
    with contextlib.suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        library.mallopt(TRIM_THRESHOLD, kept)
        library.mallopt(MMAP_THRESHOLD, largest)
