"""One live table of the crash game: rounds, orders and what is said about them, without I/O.

`Table.advance` moves the schedule by one beat and gives the messages to send; `Table.order` takes
a player's order. The caller waits `wait_ms` between beats, or not at all.
Leaves out: the clock that beats (server), sockets, and who may sit at the table.

Schedule of a round: COOLDOWN from 15000 ms and PRESALE from 10000 ms in beats of 100 ms, tick 0 and
then a tick every 250 ms, the rug, a second broadcast of the rug one tick higher, the next round.
A tick is said first and then traded at: an order fills at the last price said, never at a later one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Literal

from playproof.errors import DecodeError, RefusedOrder
from playproof.games.crash.rules.money import MIN_BET, LedgerLimits, MoneyLedger, Sidebet
from playproof.games.crash.rules.windows import Phase
from playproof.games.crash.rules.worlds import TICK_MS, World, WorldRound
from playproof.games.crash.server import messages as say
from playproof.games.crash.server.protocol import (
    BET,
    BUY,
    COIN_ADDRESS,
    COOLDOWN_MS,
    COUNTDOWN_BEAT_MS,
    HISTORY,
    ONE_ARGUMENT,
    PLAYER,
    PLAYER_STATE,
    PRACTICE_ADDRESS,
    PRESALE_MS,
    RANK,
    SELL,
    SIDEBET,
    SIDEBET_RESULT,
    STATE,
    TOP_UP,
    TRADE,
    USERNAME,
    Leader,
    PlayerState,
    PresaleLeader,
)
from playproof.games.crash.server.round_schedule import RoundArchive, bystander_seed, deal, past_round, warm_up_rounds
from playproof.games.crash.server.table_crowd import Act, Identity, Position, TableCrowd
from playproof.games.crash.sim.crowd import STRETCH, RoundContext, crowd, warm_site
from playproof.json_types import Json
from playproof.money import UNIT, show, to_units

Clock = Callable[[], datetime]

RUG_MS = 1000
"""From the rug to its second broadcast."""
REST_MS = 500
"""From the second broadcast to the next round."""
PRESALE_RUSH = 0.95
"""Share of the presale in which the bystanders' presale buys happen."""
MAX_COINS = 1_000_000_000
WARM_UP_SPACING_MS = 60_000
PLAYER_LEVEL = 1


@dataclass(frozen=True, slots=True)
class TableMessage:
    """One event to send: to one player, or to everybody but those who get their own."""

    event: str
    arguments: tuple[Any, ...]
    to: str | None = None
    without: frozenset[str] = frozenset()

    def reaches(self, player_id: str) -> bool:
        """Tell whether a player gets it."""
        return player_id not in self.without and self.to in (None, player_id)


@dataclass(frozen=True, slots=True)
class Ack:
    """The answer to an order, and what has to be said because of it."""

    body: Mapping[str, Any]
    messages: tuple[TableMessage, ...] = ()

    @property
    def success(self) -> bool:
        """Tell whether the order was taken."""
        return bool(self.body["success"])


@dataclass(frozen=True, slots=True)
class OrderEntry:
    """One order as it came and as it was answered, in the table's own log."""

    player: str
    game_id: str
    phase: Phase
    tick: int
    kind: str
    payload: Any
    success: bool
    reason: str


FillKind = Literal["buy", "sell", "rug_sale", "bet", "bet_won", "bet_lost", "top_up"]


@dataclass(frozen=True, slots=True)
class FillEntry:
    """One movement of a player's money, in units, and the balance after it."""

    player: str
    game_id: str
    phase: Phase
    tick: int
    kind: FillKind
    price: float
    qty: int
    amount: int
    cash: int


Entry = OrderEntry | FillEntry


@dataclass
class TablePlayer:
    """One person or program at the table, with a practice balance that outlives rounds."""

    id: str
    name: str
    ledger: MoneyLedger
    interacted: bool = False
    sidebets: list[Json] = field(default_factory=list)
    """Rows of this round's sidebets."""
    trades: list[Json] = field(default_factory=list)
    """This round's own trades."""

    @property
    def identity(self) -> Identity:
        """Give who this is as messages show it."""
        return self.id, self.name, PLAYER_LEVEL


@dataclass(frozen=True)
class Settlement:
    """What the rug did to one position and sidebet."""

    whose: TablePlayer | Position
    sale: say.Deal | None
    bet: Sidebet | None
    paid: int


def read_number(payload: object, name: str, least: int, most: int) -> int | float:
    """Read a number of an order's payload, or refuse it."""
    value = payload.get(name) if isinstance(payload, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RefusedOrder(f"expected an object with a number `{name}`")
    if not least <= value <= most:
        raise RefusedOrder(f"expected {name} of {least} to {most}")
    return value


def read_amount(payload: object) -> int:
    """Read the amount of an order as units."""
    return to_units(read_number(payload, "amount", 0, MAX_COINS))


def read_percentage(payload: object) -> int:
    """Read the share of a sell order."""
    share = read_number(payload, "percentage", 1, 100)
    if share != int(share):
        raise RefusedOrder("expected a whole percentage")
    return int(share)


class GameTable:
    """Run rounds of one world for any number of players.

    Not thread-safe. `clock` gives aware UTC and is used for time stamps and, unless `day` fixes
    them, the dates in game ids. Without a crowd only players trade; the site's figures are the same.
    `log` receives every order and every movement of players' money.
    """

    phase: Phase
    tick: int
    timer_ms: int
    """Left of cooldown and presale; while ACTIVE the countdown that world `drift` shows."""
    _repeated: bool

    def __init__(
        self,
        world: World,
        seed: int,
        clock: Clock,
        *,
        day: date | None = None,
        crowded: bool = True,
        log: list[Entry] | None = None,
    ) -> None:
        self.world, self.seed, self.crowded = world, seed, crowded
        self.payout = say.number(float(world.payout))
        self.players: dict[str, TablePlayer] = {}
        self._clock, self._day, self._log = clock, day, log
        self._bystander_seed = bystander_seed(seed)
        self._serial = 0
        self._out: list[TableMessage] = []
        self._archive = RoundArchive(world)
        self._board: list[Leader | PresaleLeader] = []
        self._trade_count = 0
        self._warm_up()
        self._set_up(0)

    @property
    def round(self) -> WorldRound:
        """Give the round with all its prices, the unseen ones included."""
        return self._dealt.played

    @property
    def number(self) -> int:
        """Give the number of the round, from 0."""
        return self._dealt.number

    @property
    def game_id(self) -> str:
        """Give the public id of the round."""
        return self._dealt.game_id

    @property
    def context(self) -> RoundContext:
        """Give what the site shows all through the round."""
        return self._context

    @property
    def price(self) -> float:
        """Give the last price said."""
        return self.round.prices[self.tick]

    @property
    def wait_ms(self) -> int:
        """Give the time from this beat to the next one."""
        if self.phase is Phase.ACTIVE:
            return TICK_MS
        if self.phase is Phase.RUGGED:
            return REST_MS if self._repeated else RUG_MS
        return COUNTDOWN_BEAT_MS

    def scene(self) -> say.Scene:
        """Give everything that has been shown of the round."""
        return say.Scene(
            game_id=self.game_id,
            seed_hash=self._dealt.seed_hash,
            phase=self.phase,
            tick=self.tick + self._repeated,
            timer_ms=self.timer_ms,
            prices=self.round.prices[: self.tick + 1],
            trade_count=self._trade_count,
            payout=self.payout,
            context=self._context,
            leaderboard=self._board,
        )

    def revealed(self, identity: str) -> Json | None:
        """Give a finished round with its seed, for anybody to verify; None if it is not known or not over."""
        return self._archive.find(identity)

    def join(self, player_id: str, name: str) -> TablePlayer:
        """Seat a player with a new practice balance, or rename the one that has this id."""
        player = self.players.get(player_id)
        if player is None:
            limits = LedgerLimits(open_cost=self.world.open_cost)
            player = TablePlayer(player_id, name, MoneyLedger(UNIT, payout=self.world.payout, limits=limits))
            self.players[player_id] = player
        player.name = name
        return player

    def leave(self, player_id: str) -> None:
        """Forget a player who holds nothing."""
        player = self.players[player_id]
        if player.ledger.lots or player.ledger.sidebet:
            raise RefusedOrder(f"player {player_id} holds an open position")
        del self.players[player_id]

    def greet(self, player_id: str) -> list[TableMessage]:
        """Say the whole state to a player who just connected."""
        player = self.players[player_id]
        archive, rank = self._archive, self._ranks.get(player_id)
        state = say.full_state(self.scene(), archive.history, archive.highest, all_prices=True)
        self._say(STATE, state, to=player_id)
        self._say(PLAYER, self._player_state(player), to=player_id)
        self._say(PLAYER_STATE, say.player_scene(self.scene(), self._own_entry(player), player.trades), to=player_id)
        self._say(USERNAME, say.username_status(player.id, player.name), to=player_id)
        self._say(RANK, say.leaderboard_position(player.id, rank, len(self._ranks)), to=player_id)
        return self._drain()

    def order(self, player_id: str, kind: str, payload: object) -> Ack:
        """Take or refuse an order; a refused order changes nothing."""
        takers = {BUY: self._buy, SELL: self._sell, BET: self._bet, TOP_UP: self._top_up}
        body: Json
        try:
            if player_id not in self.players:
                raise RefusedOrder("expected a player of this table")
            if kind not in takers:
                raise RefusedOrder(f"expected one of {', '.join(takers)}")
            body = {"success": True, **takers[kind](self.players[player_id], payload)}
        except (RefusedOrder, DecodeError) as refusal:
            body = {"success": False, "reason": str(refusal)}
        self._note_order(player_id, kind, payload, body)
        return Ack(body, tuple(self._drain()))

    def _buy(self, player: TablePlayer, payload: object) -> Json:
        price = self._entry_price("buy")
        amount = read_amount(payload)
        qty = player.ledger.buy(amount, price)
        return self._filled(player, say.Deal("buy", price, qty, amount, self.tick))

    def _sell(self, player: TablePlayer, payload: object) -> Json:
        if self.phase is Phase.PRESALE:
            raise RefusedOrder("a presale position cannot be sold before tick 0")
        if self.phase is not Phase.ACTIVE:
            raise RefusedOrder(f"the round is not on ({self.phase.name.lower()}); nothing can be sold")
        qty, amount = player.ledger.sell(read_percentage(payload), self.price)
        return self._filled(player, say.Deal("sell", self.price, qty, amount, self.tick))

    def _filled(self, player: TablePlayer, made: say.Deal) -> Json:
        player.interacted = True
        self._trade_count += 1
        self._note_fill(player, made.side, made)
        self._say_player(player)
        player.trades.append(self._say_trade(player.identity, made))
        return {"executedPrice": say.number(made.price), "timestamp": self._now()}

    def _bet(self, player: TablePlayer, payload: Any) -> Json:
        self._entry_price("bet")
        amount = read_amount(payload)
        if payload.get("xPayout", 5) not in (5, self.payout):
            raise RefusedOrder(f"expected xPayout {self.payout}")
        if payload.get("coinAddress", COIN_ADDRESS) not in (COIN_ADDRESS, PRACTICE_ADDRESS):
            raise RefusedOrder(f"expected coinAddress {COIN_ADDRESS}")
        bet = player.ledger.bet(amount, self.tick)
        player.interacted = True
        row = self._say_bet(player.identity, bet)
        player.sidebets.append(row)
        self._note_money(player, "bet", amount)
        self._say_player(player)
        return {"message": "Sidebet placed", "sidebet": row}

    def _top_up(self, player: TablePlayer, _payload: object) -> Json:
        ledger = player.ledger
        if ledger.cash >= MIN_BET or ledger.lots or ledger.sidebet:
            raise RefusedOrder(f"a new practice balance is given below {show(MIN_BET)} with nothing open")
        granted = UNIT - ledger.cash
        ledger.cash += granted
        ledger.round_cash += granted
        ledger.house -= granted
        self._note_money(player, "top_up", granted)
        self._say_player(player)
        return {"balance": say.coins(ledger.cash)}

    def _entry_price(self, what: str) -> float:
        """Give the price of an entry now: exactly 1 in the presale."""
        if self.phase is Phase.ACTIVE:
            return self.price
        if self.phase is Phase.PRESALE:
            return 1.0
        if self.phase is Phase.RUGGED:
            raise RefusedOrder(f"the round is over; the {what} came after the rug")
        raise RefusedOrder(f"the presale opens in {self.timer_ms - PRESALE_MS} ms; no {what} before it")

    def advance(self) -> list[TableMessage]:
        """Move the schedule by one beat and give what has to be said."""
        if self.phase is Phase.ACTIVE:
            self._next_tick()
        elif self.phase is not Phase.RUGGED:
            self._count_down()
        elif not self._repeated:
            self._repeated = True
            self._say_full_state()
        else:
            self._next_round()
        return self._drain()

    def _count_down(self) -> None:
        self.timer_ms -= COUNTDOWN_BEAT_MS
        if self.timer_ms == 0:
            self._start()
            return
        if self.timer_ms == PRESALE_MS:
            self._open_presale()
        self._rank()
        self._say_state(say.countdown_state(self.scene()))
        if self.phase is Phase.PRESALE:
            self._say_acts(self._crowd.presale((PRESALE_MS - self.timer_ms) / (PRESALE_MS * PRESALE_RUSH)))

    def _open_presale(self) -> None:
        """Say the last round's trade count a last time, and count from 0."""
        self.phase = Phase.PRESALE
        self._board = []
        self._say_state(say.tick_state(self.scene()))
        self._trade_count = 0

    def _start(self) -> None:
        self.phase = Phase.ACTIVE
        self._rank()
        self._say_state(say.start_state(self.scene()))
        self._say_acts(self._crowd.trade(self.tick, self.price))

    def _next_tick(self) -> None:
        self.tick += 1
        if self.tick == self.round.rug_tick:
            self._rug()
            return
        self.timer_ms = TICK_MS * self.round.countdown[self.tick]
        lost = [(whose, bet) for whose in self._everybody() if (bet := whose.ledger.pass_tick(self.tick))]
        self._rank()
        self._say_state(say.tick_state(self.scene()))
        for whose, bet in lost:
            self._say_loss(whose, bet)
        if self.crowded and self.tick % STRETCH == 0:
            self._crowd.add(crowd(self._bystander_seed, self.number, self.tick // STRETCH))
        self._say_acts(self._crowd.trade(self.tick, self.price))

    def _rug(self) -> None:
        self.phase, self.timer_ms = Phase.RUGGED, 0
        settled = [self._settle(whose) for whose in self._everybody() if whose.ledger.lots or whose.ledger.sidebet]
        self._trade_count += sum(1 for settlement in settled if settlement.sale)
        self._rank()
        self._say_state(say.tick_state(self.scene()))
        for settlement in settled:
            self._say_settlement(settlement)
        self._site.finish(self.number, self.round.peak, self.round.rug_tick)
        self._finished = past_round(self._dealt, self._now(), self._sidebets)

    def _settle(self, whose: TablePlayer | Position) -> Settlement:
        ledger, price = whose.ledger, self.price
        qty, bet = ledger.qty, ledger.sidebet
        sold, paid = ledger.rug(self.tick, price)
        return Settlement(whose, say.Deal("sell", price, qty, sold, self.tick) if qty else None, bet, paid)

    def _next_round(self) -> None:
        self._archive.add(self._dealt, self._finished, self._site.highest_today)
        active = self._playing()
        for player in self.players.values():
            player.ledger.start_round()
            player.sidebets, player.trades = [], []
        self._set_up(self.number + 1)
        self._say_full_state()
        for player in active:
            self._say_player(player)

    def _warm_up(self) -> None:
        """Fill statistics and history with the rounds before the first one."""
        rounds, now = warm_up_rounds(self.world, self.seed, self._today()), self._now()
        peaks = [(dealt.played.peak, dealt.played.rug_tick) for dealt in rounds]
        self._site = warm_site(self.world, self._bystander_seed, peaks)
        for dealt in rounds[-HISTORY:]:
            past = past_round(dealt, now + dealt.number * WARM_UP_SPACING_MS, [])
            self._archive.add(dealt, past, self._site.highest_today)

    def _set_up(self, number: int) -> None:
        """Deal a round and put the table at the start of its cooldown; the last leaderboard stays up."""
        self._dealt = deal(self.world, self.seed, number, self._today())
        self._context = self._site.context(number, self._dealt.played.hot)
        self._crowd = TableCrowd(crowd(self._bystander_seed, number) if self.crowded else (), self.world.payout)
        self._sidebets: list[Json] = []
        self._ranks: dict[str, int] = {}
        self._repeated = False
        self.phase, self.tick, self.timer_ms = Phase.COOLDOWN, 0, COOLDOWN_MS

    def _everybody(self) -> list[TablePlayer | Position]:
        return [*self.players.values(), *self._crowd.positions]

    def _playing(self) -> list[TablePlayer]:
        return [player for player in self.players.values() if player.ledger.invested]

    def _rank(self) -> None:
        """Bring the leaderboard up to date, unless the last round's is still up."""
        if self.phase is Phase.COOLDOWN:
            return
        players = [say.standing(player.identity, (player.ledger,), self.price) for player in self._playing()]
        order = say.ranked([*players, *self._crowd.standings(self.price)])
        self._ranks = {at.id: 1 + i for i, at in enumerate(order)}
        self._board = say.leaderboard(order, self.game_id, self.payout, self.phase is Phase.PRESALE)

    def _own_entry(self, player: TablePlayer) -> Leader | PresaleLeader | None:
        """Write a player's own leaderboard entry; its rank is that of the last beat."""
        if not player.ledger.invested:
            return None
        at = say.standing(player.identity, (player.ledger,), self.price)
        entry = say.leader(at, self._ranks.get(player.id, len(self._ranks) + 1), self.game_id, self.payout)
        return say.presale_leader(entry) if self.phase is Phase.PRESALE else entry

    def _say(
        self, event: str, payload: object, *, to: str | None = None, without: frozenset[str] = frozenset()
    ) -> None:
        arguments = (payload,) if event in ONE_ARGUMENT else (self._trace(), payload)
        self._out.append(TableMessage(event, arguments, to, without))

    def _drain(self) -> list[TableMessage]:
        out, self._out = self._out, []
        return out

    def _say_state(self, state: object) -> None:
        """Say a gameStateUpdate, and to every player what it means for it."""
        scene, playing = self.scene(), self._playing()
        self._say(STATE, state)
        self._say(PLAYER_STATE, say.player_scene(scene), without=frozenset(player.id for player in playing))
        for player in playing:
            self._say(PLAYER_STATE, say.player_scene(scene, self._own_entry(player)), to=player.id)

    def _say_full_state(self) -> None:
        self._say_state(say.full_state(self.scene(), self._archive.history, self._archive.highest))

    def _say_player(self, player: TablePlayer) -> None:
        self._say(PLAYER, self._player_state(player), to=player.id)
        self._say(PLAYER_STATE, say.player_scene(self.scene(), self._own_entry(player)), to=player.id)

    def _player_state(self, player: TablePlayer) -> PlayerState:
        return say.player_state(player.id, player.ledger, self.scene(), player.sidebets, player.interacted)

    def _say_acts(self, acts: list[Act]) -> None:
        """Say what bystanders did."""
        for identity, act in acts:
            if isinstance(act, Sidebet):
                self._say_bet(identity, act)
            else:
                self._trade_count += 1
                self._say_trade(identity, act)

    def _say_trade(self, identity: Identity, made: say.Deal) -> Json:
        row = say.trade(identity, made, self.game_id, self._unique())
        self._say(TRADE, row)
        return row

    def _say_bet(self, identity: Identity, bet: Sidebet) -> Json:
        row = say.sidebet_placed(identity, bet, self._stamp())
        self._sidebets.append(row)
        self._say(SIDEBET, say.current_sidebet(row, bet, self.tick))
        return row

    def _say_loss(self, whose: TablePlayer | Position, bet: Sidebet) -> None:
        self._say_result(whose, bet, say.sidebet_lost(whose.identity, bet, self._stamp()))
        if isinstance(whose, TablePlayer):
            self._note_money(whose, "bet_lost", 0)
            self._say_player(whose)

    def _say_settlement(self, settled: Settlement) -> None:
        whose, sale, bet, paid = settled.whose, settled.sale, settled.bet, settled.paid
        player = whose if isinstance(whose, TablePlayer) else None
        if sale is not None:
            row = self._say_trade(whose.identity, sale)
            if player:
                player.trades.append(row)
                self._note_fill(player, "rug_sale", sale, still_to_come=paid)
        if bet is not None:
            row = say.sidebet_won(whose.identity, bet, self._stamp(), paid, (self.tick, self.price))
            self._say_result(whose, bet, row)
            if player:
                self._note_money(player, "bet_won", paid)
        if player:
            self._say_player(player)

    def _say_result(self, whose: TablePlayer | Position, bet: Sidebet, row: Json) -> None:
        self._sidebets.append(row)
        if isinstance(whose, TablePlayer):
            whose.sidebets.append(row)
        self._say(SIDEBET_RESULT, say.current_sidebet(row, bet, self.tick))

    def _now(self) -> int:
        return int(self._clock().timestamp() * 1000)

    def _today(self) -> date:
        return self._day or self._clock().date()

    def _unique(self) -> str:
        """Give an id that is unique at this table, in the shape of a UUID."""
        self._serial += 1
        text = hashlib.sha256(f"{self._bystander_seed}-{self._serial}".encode()).hexdigest()
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:32]}"

    def _trace(self) -> Json:
        text = self._unique().replace("-", "")
        return {"__trace": True, "traceparent": f"00-{text}-{text[15::-1]}-01"}

    def _stamp(self) -> say.Stamp:
        return say.Stamp(self.game_id, self._now(), self._unique(), self.payout)

    def _note_order(self, player_id: str, kind: str, payload: Any, body: Mapping[str, Any]) -> None:
        if self._log is not None:
            at = (player_id, self.game_id, self.phase, self.tick)
            self._log.append(OrderEntry(*at, kind, payload, body["success"], body.get("reason", "")))

    def _note_fill(self, player: TablePlayer, kind: FillKind, made: say.Deal, still_to_come: int = 0) -> None:
        if self._log is not None:
            at = (player.id, self.game_id, self.phase, self.tick)
            cash = player.ledger.cash - still_to_come
            self._log.append(FillEntry(*at, kind, made.price, made.qty, made.amount, cash))

    def _note_money(self, player: TablePlayer, kind: FillKind, amount: int) -> None:
        self._note_fill(player, kind, say.Deal("buy", self.price, 0, amount, self.tick))
