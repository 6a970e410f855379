"""One player's seat at recorded rounds: the exact ledger behind the Game record's own protocol.

`see` takes the world's facts (a round begins, a tick, the rug), `act` carries an action of any of the
three sets out at the last tick seen; both give the facts that the game's server would have told.
Leaves out: rounding and limits, which are the ledger's.

Every step is a tick: an action's bet head is applied before its main head, and adjusting takes its
tick like everything else. Of an order that the ledger refuses the press alone is told: the button was pressed,
and nothing changed.
A round of which the rug was not seen is settled, when the next one begins, as if it had come on the
next tick, at the price that the world's rule makes of the prices seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from playproof.errors import RefusedOrder
from playproof.events import Event, Value
from playproof.game import AccountSnapshot, Action, Fact, Terms, lookup
from playproof.games.crash.recording import columns as c
from playproof.games.crash.rules.actions import (
    ACTIONS,
    BETS,
    CATEGORIES,
    FULL_SHARE,
    MAIN,
    PERCENTAGES,
    SHARES,
    SIZES,
    TENTHS,
    TRADER_MAIN,
    adjusted,
)
from playproof.games.crash.rules.money import MIN_BET, SIDEBET_TICKS, LedgerLimits, Lot, MoneyLedger, Sidebet
from playproof.games.crash.rules.windows import Phase
from playproof.games.crash.rules.worlds import WORLDS, get_world, rug_price
from playproof.games.crash.server.protocol import COIN
from playproof.money import UNIT

Facts = tuple[Fact, ...]


@dataclass
class ReportedMoney:
    """What a recording has told of its player's money, until it is clear that all of it is told."""

    bet: int | None = None
    """What stood in the bet field at the choice that is carried out next."""
    share: int | None = None
    cash: int | None = None
    qty: int | None = None
    avg_cost: int = 0
    stake: int | None = None
    end_tick: int = 0
    orders: int = 0
    """Orders that were sent and not answered: what is told meanwhile may be from before them."""
    pressed: bool = False
    """An action button was pressed whose order was not sent yet."""
    reported: bool = False
    """Was money told since the last order was sent?"""
    filled: bool = False
    """Did the ledger carry the last order out?"""
    granted: bool = False
    """Was money asked for?"""

    def note_choice(self, payload: Mapping[str, Value]) -> None:
        """Take what stood in the bet field and as share when a choice was made."""
        bet, share = (
            payload.get("bet_amount", payload.get("order_amount")),
            payload.get("sell_share", payload.get("order_share")),
        )
        self.bet = bet if isinstance(bet, int) else None
        self.share = share if isinstance(share, int) else None

    def note_player(self, payload: Mapping[str, Value]) -> None:
        """Take the player's own money."""
        self.cash, self.qty, self.stake = (
            _int(payload.get(name)) for name in ("cash", "position_qty", "sidebet_stake")
        )
        self.avg_cost, self.end_tick = _int(payload.get("avg_cost")) or 0, _int(payload.get("sidebet_end_tick")) or 0


def _int(value: Value) -> int | None:
    return value if isinstance(value, int) else None


class CrashLedger:
    """Hold one player's money through the rounds of a session (playproof.game.Ledger)."""

    def __init__(self, terms: Terms) -> None:
        lookup(ACTIONS, terms.actions, "action set")
        self.terms, self.trades = terms, terms.actions == "trader"
        self.world = get_world(terms.world or next(iter(WORLDS)))
        cash = UNIT if terms.cash is None else terms.cash
        self.ledger = MoneyLedger(cash, self.world.payout, LedgerLimits(self.world.open_cost, terms.stake))
        self.bet, self.share = MIN_BET, FULL_SHARE
        self.opened = 0
        self.window: str | None = None
        self.phase, self.tick, self.price, self.low, self.peak = Phase.COOLDOWN, 0, 1.0, 1.0, 1.0
        self.skips = False
        self._seated = False
        self.heard = ReportedMoney()
        self.counts = dict.fromkeys(("bought", "sold", "sidebet_staked", "sidebet_paid", "caught"), 0)

    @property
    def total(self) -> int:
        """Give the money of player and house."""
        return self.ledger.cash + self.ledger.house

    def standing(self) -> AccountSnapshot:
        """Give where the player stands: lots at the last price, an open sidebet at 0."""
        book = self.ledger
        facts: dict[str, Value] = {
            "qty": book.qty,
            "cost": book.cost,
            "sidebet_stake": book.open_stake,
            "price": self.price,
            "low": self.low,
            "peak": self.peak,
            "tick": self.tick,
            "phase": int(self.phase),
            **self.counts,
        }
        facts |= {"skips": self.skips} if self.trades else {"bet_amount": self.bet, "sell_share": self.share}
        return AccountSnapshot(book.cash, book.equity(self.price), self.opened, facts)

    def apply_world(self, event: Event) -> Facts:
        """Take what the world did."""
        if event.event_name == c.ROUND and event.window_id is not None:
            return self._begin(event.window_id)
        if event.event_name == c.TICK and event.window_id is not None:
            begun = self._begin(event.window_id) if event.window_id != self.window else ()
            return begun + self._see_tick(event.columns)
        return ()

    def _begin(self, window: str) -> Facts:
        """Begin a round; the first time the player sits down."""
        if self.ledger.lots or self.ledger.sidebet:
            self.counts["caught"] += self.ledger.cost
            paid = self.ledger.rug(self.tick + 1, rug_price(self.world, self.price, self.low))[1]
            self.counts["sidebet_paid"] += paid
        self.ledger.start_round()
        self.window, self.share, self.skips = window, FULL_SHARE, False
        self.heard.orders, self.heard.pressed = 0, False
        self.phase, self.tick, self.price, self.low, self.peak = Phase.COOLDOWN, 0, 1.0, 1.0, 1.0
        seated = () if self._seated else (c.fact(c.SEAT, {}, window),)
        self._seated = True
        return (*seated, self._player())

    def _see_tick(self, payload: Mapping[str, Value]) -> Facts:
        """Take a tick, and settle what it ends."""
        tick, price, phase = payload.get("tick"), payload.get("price"), payload.get("game_phase")
        if not (isinstance(tick, int) and isinstance(price, int | float) and isinstance(phase, int)):
            return ()
        self.tick, self.price = tick, float(price)
        self.heard.pressed = False
        self.phase = Phase(phase) if phase in tuple(Phase) else Phase.COOLDOWN
        if self.phase is Phase.RUGGED:
            return self._settle()
        self.low, self.peak = min(self.low, self.price), max(self.peak, self.price)
        lost = self.ledger.pass_tick(tick) if self.phase is Phase.ACTIVE else None
        return (self._settled(lost.stake, 0), self._player()) if lost else ()

    def _settle(self) -> Facts:
        """Sell everything at the rug price and settle the sidebet."""
        qty, stake = self.ledger.qty, self.ledger.open_stake
        self.counts["caught"] += self.ledger.cost
        sold, paid = self.ledger.rug(self.tick, self.price)
        self.counts["sidebet_paid"] += paid
        lines = [self._fill("sell", qty, sold, forced=True)] if qty else []
        lines += [self._settled(stake, paid)] if stake else []
        return (*lines, self._player()) if lines else ()

    def apply_own(self, event: Event) -> bool:
        """Take an own recorded fact before its choice is carried out; tell whether it is other money than is held.

        What is told while an order is under way may be from before it, and is looked at when the order is answered.
        """
        payload, heard = event.columns, self.heard
        if event.event_name == c.PRESS:
            heard.note_choice(payload)
            heard.pressed = payload.get("button_category") == "action"
        elif event.event_name == c.ORDER:
            if "sequence_id" not in payload:
                heard.note_choice(payload)
            heard.pressed, heard.reported, heard.orders = False, False, heard.orders + 1
            heard.granted = heard.granted or payload.get("order_kind") == "TOP_UP"
        elif event.event_name == c.ACK:
            heard.orders = max(0, heard.orders - 1)
            undone = payload.get("success") is False and heard.filled
            return heard.orders == 0 and (heard.reported or undone) and self._take_reported()
        elif event.event_name == c.PLAYER:
            heard.note_player(payload)
            heard.reported = True
            return heard.orders == 0 and not heard.pressed and self._take_reported()
        return False

    def _take_reported(self) -> bool:
        """Hold what was told; tell whether that is other money, and was not asked for."""
        book, heard = self.ledger, self.heard
        heard.filled = False
        same = True
        if heard.cash is not None and heard.cash != book.cash:
            book.house += book.cash - heard.cash
            book.cash, same = heard.cash, False
        if heard.qty is not None and heard.qty != book.qty:
            book.lots = deque([Lot(heard.qty, heard.qty * heard.avg_cost // UNIT)] if heard.qty else [])
            same = False
        if heard.stake is not None and heard.stake != book.open_stake:
            start = heard.end_tick - SIDEBET_TICKS
            book.sidebet = Sidebet(heard.stake, start, heard.end_tick) if heard.stake else None
            same = False
        granted, heard.granted = heard.granted, False
        return not same and not granted

    def act(self, action: Action) -> Facts:
        """Carry an action out at the last tick seen."""
        assert isinstance(action, tuple)
        bet, share = self.heard.bet, self.heard.share
        self.heard.bet = self.heard.share = None
        if self.trades:
            size, percent = SIZES[action[1]] if bet is None else bet, TENTHS[action[2]] if share is None else share
            return self._act_trader(TRADER_MAIN[action[0]], size, percent)
        adjustments = self._adjust(
            BETS[action[1]], SHARES[action[2]] if self.terms.actions == "buttons-share" else SHARES[0]
        )
        self.bet = self.bet if bet is None else bet
        self.share = self.share if share is None else share
        percent = self.share if self.terms.actions == "buttons-share" or share is not None else FULL_SHARE
        return adjustments + self._order(MAIN[action[0]], self.bet, percent)

    def _act_trader(self, main: str, size: int, percent: int) -> Facts:
        """Carry an action of the set `trader` out."""
        if main == "BUY_BOTH":
            return self._order("BUY", size, percent) + self._order("SIDEBET", size, percent)
        if main == "SKIP" and not self.skips and self.phase in (Phase.PRESALE, Phase.ACTIVE):
            self.skips = True
            return (c.fact(c.PRESS, {"button_id": "SKIP", "button_category": "action"}, self.window),)
        button = {"BUY_MAIN": "BUY", "BUY_SIDE": "SIDEBET", "SELL_MAIN": "SELL", "EMERGENCY_EXIT": "SELL"}.get(main)
        if main == "PARTIAL_SELL":
            return self._order("SELL", size, percent)
        return self._order(button, size, FULL_SHARE) if button else ()

    def _adjust(self, button: str, share: str) -> Facts:
        """Press the buttons of bet field and share; those that change nothing are not told."""
        facts: list[Fact] = []
        if (bet := adjusted(self.bet, self.ledger.cash, button)) != self.bet:
            self.bet = bet
            facts.append(self._press(button))
        if (percent := PERCENTAGES.get(share, self.share)) != self.share:
            self.share = percent
            facts.append(self._press(share))
        return tuple(facts)

    def _order(self, button: str, amount: int, percent: int) -> Facts:
        """Press the button of an order; if it is refused that is all that happens."""
        orders: Mapping[str, Callable[[], Fact]] = {
            "BUY": lambda: self._buy(amount),
            "SELL": lambda: self._sell(percent),
            "SIDEBET": lambda: self._bet(amount),
        }
        allowed = (Phase.ACTIVE,) if button == "SELL" else (Phase.PRESALE, Phase.ACTIVE)
        if button not in orders:
            return ()
        self.heard.filled = False
        if self.skips or self.phase not in allowed:
            return (self._press(button),)
        try:
            filled = orders[button]()
        except RefusedOrder:
            return (self._press(button),)
        self.heard.filled = True
        return (self._press(button), self._player(), filled)

    def _buy(self, amount: int) -> Fact:
        flat = not self.ledger.lots
        qty = self.ledger.buy(amount, self.price)
        self.opened += flat
        self.counts["bought"] += amount
        return self._fill("buy", qty, amount)

    def _sell(self, percent: int) -> Fact:
        qty, amount = self.ledger.sell(percent, self.price)
        self.counts["sold"] += amount
        return self._fill("sell", qty, amount)

    def _bet(self, amount: int) -> Fact:
        placed = self.ledger.bet(amount, self.tick)
        self.opened += 1
        self.counts["sidebet_staked"] += amount
        payload: dict[str, Value] = {
            **self._here(),
            "sidebet_type": "placed",
            "sidebet_stake": amount,
            "sidebet_start_tick": placed.start_tick,
            "sidebet_end_tick": placed.end_tick,
        }
        return c.fact(c.BET, payload, self.window)

    def _here(self) -> dict[str, Value]:
        return {"tick": self.tick, "price": self.price, "game_phase": int(self.phase)}

    def _press(self, button: str) -> Fact:
        payload: dict[str, Value] = {
            **self._here(),
            "button_id": button,
            "button_category": CATEGORIES[button],
            "bet_amount": None if self.trades else self.bet,
            "sell_share": self.share,
        }
        return c.fact(c.PRESS, payload, self.window)

    def _fill(self, side: str, qty: int, amount: int, *, forced: bool = False) -> Fact:
        payload: dict[str, Value] = {
            "tick": self.tick,
            "trade_type": side,
            "trade_price": self.price,
            "trade_qty": qty,
            "trade_amount": amount,
            "coin": COIN,
            "forced": forced,
        }
        return c.fact(c.FILL, payload, self.window)

    def _settled(self, stake: int, paid: int) -> Fact:
        payload: dict[str, Value] = {"sidebet_type": "payout", "sidebet_stake": stake, "sidebet_payout": paid}
        return c.fact(c.BET, {**self._here(), **payload}, self.window)

    def _player(self) -> Fact:
        """Tell the player's own money, as playerUpdate does."""
        book, bet = self.ledger, self.ledger.sidebet
        payload: dict[str, Value] = {
            **self._here(),
            "cash": book.cash,
            "position_qty": book.qty,
            "avg_cost": book.avg_cost,
            "cumulative_pnl": book.pnl(self.price),
            "total_invested": book.invested,
            "sidebet_pnl": book.sidebet_pnl,
            "sidebet_stake": book.open_stake,
            "sidebet_end_tick": bet.end_tick if bet else 0,
            "bet_amount": self.bet,
        }
        return c.fact(c.PLAYER, payload, self.window)
