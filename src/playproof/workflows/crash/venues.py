"""Where a bot's orders go: nowhere (paper), to a Socket.IO server, or into a page's own buttons in Chromium.

A venue sends one order and says what became of it: filled, refused, or unknown. Unknown is a state, and never a reason
to send again. `feed_money` keeps what the feed says of the player's own money, against which everything is reconciled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from playproof.events import Event
from playproof.games.crash.recording import columns as c
from playproof.games.crash.server.protocol import BET, BUY, COIN_ADDRESS, SELL, event_frame
from playproof.money import from_units

KINDS = {"BUY": BUY, "SELL": SELL, "SIDEBET": BET}
ANSWER_S = 10.0
"""Seconds after which an order that was not answered is unknown."""


@dataclass(frozen=True)
class VenueAnswer:
    """What became of an order."""

    outcome: str
    """filled, refused or unknown."""
    price: float | None = None
    """Of the fill, where the venue says one."""
    reason: str = ""


@dataclass
class VenueMoney:
    """What the feed said last of the player's own money; None before it said anything."""

    cash: int | None = None
    qty: int = 0
    sidebet: int = 0
    updates: int = 0
    event: Event | None = None

    @property
    def open(self) -> int:
        """Give how many positions are open, as the feed told."""
        return (self.qty > 0) + (self.sidebet > 0)

    def take(self, event: Event) -> None:
        """Take an own event."""
        if event.event_name != c.PLAYER:
            return
        columns: Mapping[str, Any] = event.columns
        self.cash, self.qty = columns["cash"], columns.get("position_qty") or 0
        self.sidebet = columns.get("sidebet_stake") or 0
        self.updates += 1
        self.event = event


class Venue(Protocol):
    """Where orders go."""

    feed_money: VenueMoney | None
    """None where nobody tells anything: on paper the ledger is the truth."""

    async def adjust(self, buttons: tuple[str, ...]) -> None:
        """Press buttons that change the bet field or the share."""

    async def order(self, button: str, amount: int, share: int) -> VenueAnswer:
        """Send one order, once."""

    def take(self, event: Event) -> None:
        """Take one of the player's own events."""


class PaperVenue:
    """Fills everything at the last tick, by the bot's own ledger."""

    feed_money: VenueMoney | None = None

    async def adjust(self, buttons: tuple[str, ...]) -> None:
        """Adjust nothing outside."""

    async def order(self, button: str, amount: int, share: int) -> VenueAnswer:  # noqa: ARG002
        """Leave the fill to the ledger."""
        return VenueAnswer("filled")

    def take(self, event: Event) -> None:
        """Take nothing: no order was sent."""


@dataclass
class SocketVenue:
    """Sends frames over the connection that is being recorded."""

    send: Callable[[str], Awaitable[None]]
    timeout: float = ANSWER_S
    feed_money: VenueMoney | None = field(default_factory=VenueMoney)
    _number: int = field(default=0, init=False)
    _answers: dict[int, asyncio.Future[VenueAnswer]] = field(default_factory=dict, init=False)

    async def adjust(self, buttons: tuple[str, ...]) -> None:
        """Keep the bet field in the bot's head: the server knows none."""

    async def order(self, button: str, amount: int, share: int) -> VenueAnswer:
        """Send one order and wait for its answer."""
        number, self._number = self._number, self._number + 1
        payload: Mapping[str, Mapping[str, object]] = {
            "BUY": {"amount": from_units(amount)},
            "SELL": {"percentage": share},
            "SIDEBET": {"amount": from_units(amount), "coinAddress": COIN_ADDRESS, "xPayout": 5},
        }
        future: asyncio.Future[VenueAnswer] = asyncio.get_running_loop().create_future()
        self._answers[number] = future
        try:
            await self.send(event_frame(KINDS[button], [payload[button]], number))
            return await asyncio.wait_for(future, self.timeout)
        except TimeoutError:
            return VenueAnswer("unknown", reason=f"no answer within {self.timeout:g} s")
        except OSError as error:
            return VenueAnswer("unknown", reason=f"the connection was lost while it was sent: {error}")
        finally:
            self._answers.pop(number, None)

    def take(self, event: Event) -> None:
        """Take an own event: money, or an answer."""
        assert self.feed_money is not None
        self.feed_money.take(event)
        if event.event_name == c.ACK:
            self._answer(event)

    def _answer(self, event: Event) -> None:
        number: Any = event.columns.get("order_id")
        future = self._answers.get(number)
        if future is not None and not future.done():
            future.set_result(to_answer(event))


@dataclass
class PageVenue:
    """Presses the buttons of a page, as a person does; the page sends what it sends."""

    page: Any
    selectors: Mapping[str, str]
    """By button, as in the selector map of the recording."""
    timeout: float = ANSWER_S
    feed_money: VenueMoney | None = field(default_factory=VenueMoney)
    _waiting: tuple[str, asyncio.Future[VenueAnswer]] | None = field(default=None, init=False)

    async def adjust(self, buttons: tuple[str, ...]) -> None:
        """Press buttons that send nothing."""
        for button in buttons:
            await self.page.click(self.selectors[button], timeout=self.timeout * 1000)

    async def order(self, button: str, amount: int, share: int) -> VenueAnswer:  # noqa: ARG002
        """Press the button of an order, once, and wait for the answer that the page got."""
        future: asyncio.Future[VenueAnswer] = asyncio.get_running_loop().create_future()
        self._waiting = (button, future)
        try:
            await self.page.click(self.selectors[button], timeout=self.timeout * 1000)
            return await asyncio.wait_for(future, self.timeout)
        except TimeoutError:
            return VenueAnswer("unknown", reason=f"no answer within {self.timeout:g} s")
        except Exception as error:  # noqa: BLE001  # the page may be gone: whether it pressed is not known
            return VenueAnswer("unknown", reason=f"the page did not take the press: {type(error).__name__}")
        finally:
            self._waiting = None

    def take(self, event: Event) -> None:
        """Take an own event: money, or the answer to the press."""
        assert self.feed_money is not None
        self.feed_money.take(event)
        if event.event_name != c.ACK or self._waiting is None:
            return
        button, future = self._waiting
        if event.columns.get("order_kind") == button and not future.done():
            future.set_result(to_answer(event))


def to_answer(event: Event) -> VenueAnswer:
    """Read the answer to an order."""
    columns: Mapping[str, Any] = event.columns
    if columns.get("success") is not True:
        return VenueAnswer("refused", reason=str(columns.get("reason") or "the venue gave no reason"))
    price = columns.get("execution_price")
    return VenueAnswer("filled", float(price) if isinstance(price, int | float) else None)
