"""Lay recorded sessions out as the tables of a data set: what was seen, what was done, what it paid.

The observation set that is stored is the widest one that holds all features of the one asked for, so that a reader
may choose a narrower one. Rows come from a game's batch over stored columns, or event by event from `segment`; both
give the same values. Leaves out: files (build), splits (split), reading back (transitions).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof.datasets.runs import Column, TextColumn
from playproof.datasets.segment import Segmentation
from playproof.errors import ConfigError
from playproof.game import Game, NumericObservation, Outcome, Reward, lookup
from playproof.game.episode_columns import BuildRequest, EpisodeColumns, lay

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
