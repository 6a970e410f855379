"""What a player of the crash game can do: the buttons, and the three action sets made of them.

`buttons` has a head for the action and one for the bet field; `buttons-share` adds the percentage
buttons and loses nothing of what a person did; `trader` has orders with a size and a share.
Leaves out: what an action does to money (seat).

From recordings: a press is a choice; an order that no press led to is one too, and says what was
done but not how the bet field came to its amount. `buttons` sells everything, whatever the share.
`trader` reads orders alone, with the nearest of its sizes and shares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from playproof.events import Event, Value
from playproof.game import WAIT, Action, ActionSet
from playproof.games.crash.recording.columns import ORDER, PRESS
from playproof.money import UNIT, show

if TYPE_CHECKING:
    from playproof.games.crash.rules.possible import Mask, Rows

Category = Literal["action", "bet_adjust", "percentage"]

ORDERS = ("BUY", "SELL", "SIDEBET")
ADJUSTMENTS = ("CLEAR", "INC_001", "INC_01", "INC_10", "INC_1", "HALF", "DOUBLE", "MAX")
PERCENTAGES: Mapping[str, int] = {"SELL_10": 10, "SELL_25": 25, "SELL_50": 50, "SELL_100": 100}
CATEGORIES: Mapping[str, Category] = {
    **dict.fromkeys(ORDERS, "action"),
    **dict.fromkeys(ADJUSTMENTS, "bet_adjust"),
    **dict.fromkeys(PERCENTAGES, "percentage"),
}
"""Every button of the page, with its category."""

LABELS: Mapping[str, str] = {
    **{button: button for button in CATEGORIES},
    "X": "CLEAR",
    "+0.001": "INC_001",
    "+0.01": "INC_01",
    "+0.1": "INC_10",
    "+0.10": "INC_10",
    "+1": "INC_1",
    "1/2": "HALF",
    "½": "HALF",
    "X2": "DOUBLE",
    "2X": "DOUBLE",
    **{f"{share}%": button for button, share in PERCENTAGES.items()},
}
"""Buttons by their id and by what stands on the page."""

INCREMENTS: Mapping[str, int] = {
    "INC_001": UNIT // 1000,
    "INC_01": UNIT // 100,
    "INC_10": UNIT // 10,
    "INC_1": UNIT,
}
MAX_BET = 1_000_000 * UNIT
FULL_SHARE = 100

MAIN = (WAIT, *ORDERS)
BETS = ("NONE", *ADJUSTMENTS)
SHARES = ("KEEP", *PERCENTAGES)
TRADER_MAIN = (WAIT, "BUY_MAIN", "SELL_MAIN", "BUY_SIDE", "BUY_BOTH", "EMERGENCY_EXIT", "PARTIAL_SELL", "SKIP")
SIZES = tuple(UNIT // 1000 * size for size in (1, 2, 5, 10, 20, 50, 100, 200, 500))
"""Bet sizes of `trader`, in units."""
TENTHS = tuple(range(0, 101, 10))
"""Sell shares of `trader`, in percent."""


def adjusted(bet: int, cash: int, button: str) -> int:
    """Give the bet field after a press of an adjustment button, in units."""
    bets = {"CLEAR": 0, "HALF": bet // 2, "DOUBLE": 2 * bet, "MAX": cash}
    return min(bets.get(button, bet + INCREMENTS.get(button, 0)), MAX_BET)


def button_named(name: object) -> str | None:
    """Give the id of a button by its id or by its label on the page, in any case; None if there is no such button."""
    return LABELS.get(name.upper().replace(" ", "")) if isinstance(name, str) else None


def pressed_button(event: Event) -> tuple[str, int]:
    """Give the button that an own event stands for and the share of a SELL; an empty text if it is no choice."""
    payload = event.columns
    if event.event_name == PRESS:
        return _text(payload.get("button_id")), _share(payload.get("sell_share"))
    if event.event_name == ORDER and "sequence_id" not in payload:
        return _text(payload.get("order_kind")), _share(payload.get("order_share"))
    return "", FULL_SHARE


def recorded_buttons(event: Event) -> Action | None:
    """Read a choice of the set `buttons`: a percentage press is a step of its own, without effect."""
    button, _ = pressed_button(event)
    if button in ORDERS:
        return (MAIN.index(button), 0)
    if button in ADJUSTMENTS:
        return (0, BETS.index(button))
    return (0, 0) if button in PERCENTAGES else None


def recorded_buttons_share(event: Event) -> Action | None:
    """Read a choice of the set `buttons-share`; an order that no press led to brings its share with it."""
    button, share = pressed_button(event)
    if button in PERCENTAGES:
        return (0, 0, SHARES.index(button))
    if button == "SELL" and event.event_name == ORDER:
        return (MAIN.index(button), 0, 1 + _nearest(tuple(PERCENTAGES.values()), share))
    action = recorded_buttons(event)
    return (*action, 0) if isinstance(action, tuple) else None


def recorded_trader(event: Event) -> Action | None:
    """Read an order of the set `trader`; adjustments of bet field and share are no orders."""
    button, share = pressed_button(event)
    if button == "SELL" and share < FULL_SHARE:
        return (TRADER_MAIN.index("PARTIAL_SELL"), 0, _nearest(TENTHS, share))
    main = {"BUY": "BUY_MAIN", "SELL": "SELL_MAIN", "SIDEBET": "BUY_SIDE"}.get(button)
    if main is None:
        return None
    amount = event.columns.get("bet_amount", event.columns.get("order_amount"))
    return (TRADER_MAIN.index(main), _nearest(SIZES, amount if isinstance(amount, int) else SIZES[0]), 0)


def _nearest(choices: Sequence[int], wanted: int) -> int:
    return min(range(len(choices)), key=lambda index: abs(choices[index] - wanted))


def _text(value: Value) -> str:
    return value if isinstance(value, str) else ""


def _share(value: Value) -> int:
    return value if isinstance(value, int) else FULL_SHARE


def _possible_buttons(rows: Rows, names: tuple[str, ...]) -> Mask:
    from playproof.games.crash.rules import possible

    return possible.buttons(rows, names)


def _possible_buttons_share(rows: Rows, names: tuple[str, ...]) -> Mask:
    from playproof.games.crash.rules import possible

    return possible.buttons_share(rows, names)


def _possible_trader(rows: Rows, names: tuple[str, ...]) -> Mask:
    from playproof.games.crash.rules import possible

    return possible.trader(rows, names)


ACTIONS: Mapping[str, ActionSet] = {
    "buttons": ActionSet((MAIN, BETS), (0, 0), recorded_buttons, local=(1,), possible=_possible_buttons),
    "buttons-share": ActionSet(
        (MAIN, BETS, SHARES), (0, 0, 0), recorded_buttons_share, local=(1, 2), possible=_possible_buttons_share
    ),
    "trader": ActionSet(
        (TRADER_MAIN, tuple(show(size).rstrip("0") for size in SIZES), tuple(f"{share} %" for share in TENTHS)),
        (0, 0, 0),
        recorded_trader,
        possible=_possible_trader,
    ),
}
"""The action sets, the default first."""
