"""What is read from the crash game's feed: the facts, by name, and the columns that they carry.

One table of facts and one of columns; the decoder and the ledger write them, the fold reads them.
Leaves out: reading frames (decode).

Money is whole units of 10^-9 coin. Quantities and average costs have nine decimals too and are
whole units as well, but they are not money: a quantity is worth its price times as much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from playproof.events import DocType, Value
from playproof.game import Column, Fact

MONEY = "10^-9 coin"
_QTY = "10^-9 coin at price 1"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fact."""

    doc_type: DocType
    own: bool
    """Does it happen to the recorded player?"""
    doc: str


ROUND: Final = "round"
TICK: Final = "tick"
COUNTDOWN: Final = "countdown"
LATE_TICK: Final = "late_tick"
CONFLICT: Final = "conflict"
RUG_REPEAT: Final = "rug_repeat"
GAP: Final = "gap"
TRADE: Final = "trade"
SIDEBET: Final = "sidebet"
RUGPOOL: Final = "rugpool"
COMPLETE: Final = "complete_game"
IDENTITY: Final = "identity"
SEAT: Final = "seat"
PLAYER: Final = "player"
PRESS: Final = "press"
ORDER: Final = "order"
ACK: Final = "ack"
FILL: Final = "fill"
BET: Final = "bet"

KINDS: Mapping[str, Kind] = {
    ROUND: Kind("server_state", False, "a gameId was heard of for the first time"),
    TICK: Kind("game_tick", False, "a new (gameId, phase, tickCount); cooldown and presale have one each"),
    COUNTDOWN: Kind("server_state", False, "the timer moved within cooldown or presale"),
    LATE_TICK: Kind("game_tick", False, "a tick that came after a later one, or after the next round's first message"),
    CONFLICT: Kind("system_event", False, "a known tick came again with another price"),
    RUG_REPEAT: Kind("server_state", False, "the rug was broadcast again, with a higher tick that is none"),
    GAP: Kind("gap", False, "ticks of a round were not received"),
    TRADE: Kind("ws_event", False, "somebody else's fill"),
    SIDEBET: Kind("ws_event", False, "somebody else's sidebet, placed or settled"),
    RUGPOOL: Kind("server_state", False, "the side lottery changed between ticks"),
    COMPLETE: Kind("complete_game", False, "a finished round was revealed with its seed"),
    IDENTITY: Kind("system_event", True, "the feed said who the recorded player is"),
    SEAT: Kind("system_event", True, "a player sat down who has done nothing yet"),
    PLAYER: Kind("server_state", True, "the player's own money; it belongs to the last tick received"),
    PRESS: Kind("button_event", True, "the player pressed a button"),
    ORDER: Kind("player_action", True, "an order was sent"),
    ACK: Kind("player_action", True, "an order was answered"),
    FILL: Kind("player_action", True, "the player's own fill"),
    BET: Kind("player_action", True, "the player's own sidebet, placed or settled"),
}
"""Every fact that a recording of this game can hold."""

COLUMNS = (
    Column("tick", "int", "ticks", "tickCount, or the tick that a trade is stamped with; own facts: of the last tick"),
    Column("price", "float", "multiplier", "price said with the tick; own facts: of the last tick received"),
    Column("game_phase", "int", "code", "0 cooldown, 1 presale, 2 active, 3 rugged"),
    Column("cooldown_timer_ms", "int", "ms", "cooldownTimer; while active the countdown of world `drift`"),
    Column("connected_players", "int", "players", "connectedPlayers"),
    Column("trade_count", "int", "trades", "tradeCount of the round"),
    Column("rugpool_amount", "float", "coins", "rugpoolAmount, shown only; more than nine decimals on the real feed"),
    Column("rugpool_threshold", "int", "instarugs", "threshold of the side lottery"),
    Column("instarug_count", "int", "instarugs", "instarugCount of the side lottery"),
    Column("average_multiplier", "float", "multiplier", "averageMultiplier: mean peak of the last 100 rounds"),
    Column("count_2x", "int", "rounds", "count2x: of the last 100 rounds, those that reached 2"),
    Column("count_10x", "int", "rounds", "the same for 10"),
    Column("count_50x", "int", "rounds", "the same for 50"),
    Column("count_100x", "int", "rounds", "the same for 100"),
    Column("highest_today", "float", "multiplier", "highestToday"),
    Column("players_in_game", "int", "players", "entries of the leaderboard, practice tokens left out"),
    Column("players_with_positions", "int", "players", "those of them with positionQty > 0"),
    Column("total_market_capital", "money", MONEY, "what those entries hold, at the price said with them"),
    Column("missing_from", "int", "ticks", "first tick that was not received"),
    Column("missing_to", "int", "ticks", "last tick that was not received"),
    Column("from_history", "bool", "flag", "a price published after the round, of a tick before the recording began"),
    Column("server_seed_hash", "text", "hex", "commitment to the seed, said before the round ends"),
    Column("game_version", "text", "version", "version of the price algorithm"),
    Column("game_id", "text", "id", "the round that is revealed; a trade's, where the recording does not hold it"),
    Column("rug_seen", "bool", "flag", "was its rug received before it was revealed?"),
    Column("rug_tick", "int", "ticks", "tick of the rug", outcome=True),
    Column("rug_price", "float", "multiplier", "price at which open positions were sold", outcome=True),
    Column("peak", "float", "multiplier", "highest price of the round", outcome=True),
    Column("ended_by_rug", "bool", "flag", "did the round rug?", outcome=True),
    Column("server_seed", "text", "hex", "the seed, revealed after the round", outcome=True),
    Column("cash", "money", MONEY, "the player's wallet (`balance` of a ButtonEvent)"),
    Column("position_qty", "int", _QTY, "quantity held"),
    Column("avg_cost", "int", "10^-9 multiplier", "avgCost: volume-weighted entry of the held lots, 0 when flat"),
    Column("cumulative_pnl", "money", MONEY, "cumulativePnL: realised and unrealised, of this round"),
    Column("total_invested", "money", MONEY, "totalInvested of this round, sidebet stakes included"),
    Column("sidebet_pnl", "money", MONEY, "sidebetPnl of this round"),
    Column("sidebet_stake", "money", MONEY, "stake of a sidebet; in `player` of the open one, 0 if none is"),
    Column("sidebet_start_tick", "int", "ticks", "tick from which a sidebet counts"),
    Column("sidebet_end_tick", "int", "ticks", "last tick that a sidebet covers"),
    Column("sidebet_type", "text", "placed or payout", "payout settles a sidebet, also one that pays 0"),
    Column("sidebet_payout", "money", MONEY, "what a settled sidebet paid, stake included"),
    Column("payout_multiple", "float", "multiple", "xPayout: what a winning sidebet pays for each unit staked"),
    Column("trader", "text", "id", "who traded or bet; in `identity` who the player is"),
    Column("trader_level", "int", "level", "his level on the site"),
    Column("trade_id", "text", "id", "id of a trade or sidebet"),
    Column("trade_type", "text", "kind", "buy, sell, short_open or short_close"),
    Column("trade_price", "float", "multiplier", "price of the fill"),
    Column("trade_qty", "int", _QTY, "quantity of the fill"),
    Column("trade_amount", "money", MONEY, "money of the fill"),
    Column("leverage", "float", "multiple", "leverage, where the trade says one"),
    Column("coin", "text", "id", "the coin traded"),
    Column("forced", "bool", "flag", "was it the rug's sale and no order's?"),
    Column("button_id", "text", "button", "which button was pressed; SKIP for sitting a round out"),
    Column("button_category", "text", "category", "action, bet_adjust or percentage"),
    Column("bet_amount", "money", MONEY, "what stands in the bet field after the press"),
    Column("sell_share", "int", "percent", "share of the next SELL after the press"),
    Column("ticks_since_last_action", "int", "ticks", "since the last action button of this round, or its start"),
    Column("sequence_id", "int", "number", "the sequence of presses that this belongs to, from 0 in a recording"),
    Column("sequence_position", "int", "number", "place in the sequence, from 0"),
    Column("time_in_position", "int", "ticks", "ticks since the position was opened from flat, 0 when flat"),
    Column("client_timestamp", "float", "ms", "page time of the press"),
    Column("order_kind", "text", "order", "BUY, SELL, SIDEBET or TOP_UP"),
    Column("order_id", "int", "number", "id by which the answer finds its order"),
    Column("order_amount", "money", MONEY, "money that the order asked to stake"),
    Column("order_share", "int", "percent", "share of the position that the order asked to sell"),
    Column("success", "bool", "flag", "was the order taken?"),
    Column("reason", "text", "text", "why it was not"),
    Column("execution_tick", "int", "ticks", "tick at which the order was carried out"),
    Column("execution_price", "float", "multiplier", "price at which it was"),
    Column("latency_ms", "float", "ms", "from the press, or else from the order, to the answer"),
)


def fact(
    name: str,
    columns: Mapping[str, Value],
    window_id: str | None = None,
    player_id: str | None = None,
    server_ts: datetime | None = None,
) -> Fact:
    """Make a fact of a kind, columns that are None left out; `player_id` is for own ones."""
    known = {column: value for column, value in columns.items() if value is not None}
    return Fact(name, KINDS[name].doc_type, known, window_id, player_id, server_ts)
