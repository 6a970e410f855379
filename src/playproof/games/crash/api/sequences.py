"""One pair of observation and action for each sequence of presses: the plan's short form.

It keeps the final action and the last adjustment that counted; the lossless form, a step for every press, is
what data sets hold. Leaves out: finding sequences (playproof.record.presses).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof.errors import InputError
from playproof.events import Event
from playproof.games.crash.api.observation import ObservationBuilder
from playproof.games.crash.api.reading import folded
from playproof.games.crash.rules.actions import ADJUSTMENTS, BETS, LABELS, MAIN, ORDERS, adjusted, button_named
from playproof.json_types import Json
from playproof.money import UNIT, from_units

_TRIED = ((UNIT // 250, UNIT), (UNIT // 10, 3 * UNIT))
"""Bets and balances at which presses must change nothing to count as none."""
_UNITS = ("balance", "position_qty", "bet_amount")
"""Fields of a recorded ButtonEvent that are whole units."""


class _Named(IntEnum):
    """A number that also equals its own name."""

    def __eq__(self, other: object) -> bool:
        return self.name == other.upper() if isinstance(other, str) else int(self) == other

    __hash__ = int.__hash__

    def __str__(self) -> str:
        return self.name


class Action(_Named):
    """What was done: the first number of an action."""

    WAIT = 0
    BUY = 1
    SELL = 2
    SIDEBET = 3


class BetAdjustment(_Named):
    """What was done to the bet field: the second number of an action."""

    NONE = 0
    CLEAR = 1
    INC_001 = 2
    INC_01 = 3
    INC_10 = 4
    INC_1 = 5
    HALF = 6
    DOUBLE = 7
    MAX = 8


def extract_bet_adjustment(sequence: Any) -> BetAdjustment:
    """Give the last adjustment of a sequence of presses; NONE if there is none, or if together they change nothing.

    Takes an ActionSequence, a dict with `presses`, or the presses: ButtonEvents, dicts, or button ids.

    Example:
        >>> extract_bet_adjustment(["INC_01", "INC_01", "INC_001", "BUY"])
        <BetAdjustment.INC_001: 2>
        >>> extract_bet_adjustment(["DOUBLE", "HALF", "BUY"])
        <BetAdjustment.NONE: 0>
    """
    buttons = [button for press in _presses(sequence) if (button := _button(press)) in ADJUSTMENTS]
    if all(_after(buttons, bet, cash) == bet for bet, cash in _TRIED):
        return BetAdjustment.NONE
    return BetAdjustment(BETS.index(buttons[-1]))


def _after(buttons: Iterable[str], bet: int, cash: int) -> int:
    for button in buttons:
        bet = adjusted(bet, cash, button)
    return bet


def sequence_to_training_pair(
    sequence: Any, game_state: Any = None, *, observation: str = "recorded"
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Give the observation and the action (main, adjustment) of a sequence of presses.

    `game_state` is what was known before the action: an ObservationBuilder, a message of the feed, or a list of
    messages; without it the last press says what it knew. `observation` names the set of features, such as `recorded`
    or `market`; a builder brings its own. A sequence that ended without an action waits.

    Example:
        >>> presses = [{"button_id": "INC_01", "tick": 7}, {"button_id": "BUY", "tick": 8, "price": 1.5}]
        >>> row, action = sequence_to_training_pair(presses)
        >>> row.shape, action.tolist()
        ((37,), [1, 3])
        >>> state = {"gameId": "g1", "tickCount": 8, "price": 1.5}
        >>> sequence_to_training_pair(presses, state, observation="market")[0].shape
        (40,)
    """
    presses = list(_presses(sequence))
    if not presses:
        raise InputError("expected a sequence of at least one press, found none")
    last = _button(presses[-1])
    action = np.array([MAIN.index(last) if last in ORDERS else 0, extract_bet_adjustment(presses)], np.int64)
    if isinstance(game_state, ObservationBuilder):
        return game_state.to_numpy(), action
    builder = ObservationBuilder(observation)
    record = _record(presses[-1])
    if game_state is None:
        builder.update({name: value for name, value in record.items() if not folded(name).startswith("button")})
    else:
        for message in [game_state] if isinstance(game_state, Mapping) else game_state:
            builder.update(message)
    builder.update(record)
    return builder.to_numpy(), action


def _presses(sequence: Any) -> Iterable[Any]:
    """Give the presses of a sequence in any of its forms."""
    if isinstance(sequence, Mapping):
        names = ("presses", "button_events", "buttons", "events")
        return next((sequence[name] for name in names if name in sequence), ())
    values: Iterable[Any] = sequence.presses if hasattr(sequence, "presses") else sequence
    return values


def _record(press: Any) -> Json:
    """Give a press as a dict, amounts in coins."""
    if isinstance(press, str):
        return {"button_id": press}
    if isinstance(press, Mapping):
        return dict(press)
    if isinstance(press, Event):
        payload = dict(press.columns) | {"game_id": press.window_id, "balance": press.columns.get("cash")}
        payload.pop("cash", None)
    elif is_dataclass(press) and not isinstance(press, type):
        payload = asdict(press)
    else:
        raise InputError(f"expected a press as a ButtonEvent, a dict or a button's id, found {type(press).__name__}")
    return payload | {name: from_units(value) for name in _UNITS if isinstance(value := payload.get(name), int)}


def _button(press: Any) -> str:
    """Give the id of a press's button, by its id or by its label on the page."""
    record = _record(press)
    named = next((value for name, value in record.items() if folded(name) in ("buttonid", "button")), None)
    button = button_named(named)
    if button is None:
        known = ", ".join(LABELS)
        raise InputError(f"expected a button, one of {known}; found {named!r}")
    return button
