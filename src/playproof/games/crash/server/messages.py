"""What the crash server says: payloads in the shape and key order of the real feed.

Pure functions from numbers to JSON-ready records; `live` decides when each is said.
Leaves out: the future. A payload is written from a Scene, which holds only what has been shown.

Whole numbers are written as integers, as JavaScript does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from playproof.games.crash.rules.money import MoneyLedger, Sidebet, average_cost
from playproof.games.crash.rules.windows import Phase
from playproof.games.crash.server.protocol import (
    COIN,
    COIN_ADDRESS,
    LEADERS,
    PRACTICE_ADDRESS,
    Commitment,
    CountdownState,
    Leader,
    PartialPrices,
    PastRound,
    PlayerState,
    PresaleLeader,
    SideBet,
    StartState,
    TickState,
)
from playproof.games.crash.sim.crowd import INSTARUG_TICKS, LEVELS, NAMES, RoundContext
from playproof.json_types import Json
from playproof.money import UNIT

VERSION = "v3"
ENTRY_COST = 0.001
MAX_ENTRIES = 5000


def number(value: float) -> float:
    """Write a whole number as an integer."""
    return int(value) if value == int(value) else value


def coins(units: int) -> float:
    """Write units as coins: the double nearest to them."""
    return units // UNIT if units % UNIT == 0 else units / UNIT


def percent(part: int, whole: int) -> float:
    """Give a share in percent, 0 of nothing."""
    return number(100 * part / whole) if whole else 0


@dataclass(frozen=True)
class LeaderboardRow:
    """Where one player stands in a round, in units; an open sidebet is not lost yet."""

    id: str
    name: str
    level: int
    regular_pnl: int
    sidebet_pnl: int
    qty: int
    cost: int
    invested: int
    sidebet: Sidebet | None = None

    @property
    def pnl(self) -> int:
        """Give the profit that the leaderboard sorts by."""
        return self.regular_pnl + self.sidebet_pnl


def standing(identity: tuple[str, str, int], ledgers: Iterable[MoneyLedger], price: float) -> LeaderboardRow:
    """Add up the ledgers of one player (id, name, level) at a price."""
    regular = settled = qty = cost = invested = 0
    sidebet = None
    for ledger in ledgers:
        regular += ledger.pnl(price) - ledger.sidebet_pnl
        settled += ledger.sidebet_pnl + ledger.open_stake
        qty += ledger.qty
        cost += ledger.cost
        invested += ledger.invested
        sidebet = ledger.sidebet or sidebet
    return LeaderboardRow(*identity, regular, settled, qty, cost, invested, sidebet)


@dataclass(frozen=True)
class Scene:
    """Everything that has been shown of a round so far."""

    game_id: str
    seed_hash: str
    phase: Phase
    tick: int
    timer_ms: int
    prices: Sequence[float]
    """Prices by tick, up to the last one shown."""
    trade_count: int
    payout: float
    context: RoundContext
    leaderboard: Sequence[Leader | PresaleLeader] = ()

    @property
    def price(self) -> float:
        """Give the last price shown."""
        return number(self.prices[-1])


def side_bet(bet: Sidebet, game_id: str, payout: float) -> SideBet:
    """Write an open sidebet."""
    return {
        "startedAtTick": bet.start_tick,
        "gameId": game_id,
        "end": bet.end_tick,
        "betAmount": coins(bet.stake),
        "xPayout": payout,
        "coinAddress": COIN_ADDRESS,
        "bonusPortion": 0,
        "realPortion": coins(bet.stake),
    }


def leader(at: LeaderboardRow, position: int, game_id: str, payout: float) -> Leader:
    """Write a leaderboard entry."""
    return {
        "id": at.id,
        "username": at.name,
        "level": at.level,
        "pnl": coins(at.pnl),
        "regularPnl": coins(at.regular_pnl),
        "sidebetPnl": coins(at.sidebet_pnl),
        "shortPnl": 0,
        "sidebetActive": True if at.sidebet else None,
        "sideBet": side_bet(at.sidebet, game_id, payout) if at.sidebet else None,
        "shortPosition": None,
        "pnlPercent": percent(at.pnl, at.invested),
        "hasActiveTrades": True,
        "positionQty": coins(at.qty),
        "avgCost": coins(average_cost(at.cost, at.qty)),
        "totalInvested": coins(at.invested),
        "selectedCoin": None,
        "position": position,
    }


def presale_leader(entry: Leader) -> PresaleLeader:
    """Write a leaderboard entry as the presale shows it, without the parts of pnl."""
    return {
        "id": entry["id"],
        "username": entry["username"],
        "level": entry["level"],
        "pnl": entry["pnl"],
        "pnlPercent": entry["pnlPercent"],
        "sidebetActive": entry["sidebetActive"],
        "sideBet": entry["sideBet"],
        "shortPosition": None,
        "hasActiveTrades": entry["hasActiveTrades"],
        "positionQty": entry["positionQty"],
        "avgCost": entry["avgCost"],
        "totalInvested": entry["totalInvested"],
        "selectedCoin": None,
        "position": entry["position"],
    }


def ranked(standings: Iterable[LeaderboardRow]) -> list[LeaderboardRow]:
    """Order players by profit, then by what they staked."""
    return sorted(standings, key=lambda at: (-at.pnl, -at.invested, at.id))


def leaderboard(
    standings: Sequence[LeaderboardRow], game_id: str, payout: float, presale: bool
) -> list[Leader | PresaleLeader]:
    """Write the best of the ranked players."""
    entries = [leader(at, 1 + i, game_id, payout) for i, at in enumerate(standings[:LEADERS])]
    return [presale_leader(entry) for entry in entries] if presale else list(entries)


def commitment(scene: Scene) -> Commitment:
    """Write what is published of the seed before the round ends."""
    return {"serverSeedHash": scene.seed_hash, "version": VERSION}


def window(scene: Scene, width: int = 5) -> PartialPrices:
    """Write the last prices."""
    last = len(scene.prices) - 1
    first = max(0, last - width + 1)
    values = {str(tick): number(scene.prices[tick]) for tick in range(first, last + 1)}
    return {"startTick": first, "endTick": last, "values": values}


def countdown_state(scene: Scene) -> CountdownState:
    """Write the minimal gameStateUpdate between rounds."""
    return {
        "gameId": scene.game_id,
        "cooldownTimer": scene.timer_ms,
        "cooldownPaused": False,
        "allowPreRoundBuys": scene.phase is Phase.PRESALE,
        "leaderboard": scene.leaderboard,
        "connectedPlayers": scene.context.connected_players,
        "provablyFair": commitment(scene),
    }


def tick_state(scene: Scene) -> TickState:
    """Write the gameStateUpdate of a tick, of a rug, and of the presale's opening."""
    context = scene.context
    return {
        "active": scene.phase >= Phase.ACTIVE,
        "price": scene.price,
        "partialPrices": window(scene),
        "tradeCount": scene.trade_count,
        "rugged": scene.phase is Phase.RUGGED,
        "tickCount": scene.tick,
        "cooldownTimer": scene.timer_ms,
        "cooldownPaused": False,
        "pauseMessage": "",
        "allowPreRoundBuys": scene.phase is Phase.PRESALE,
        "averageMultiplier": number(context.average_multiplier),
        "count2x": context.count_2x,
        "count10x": context.count_10x,
        "count50x": context.count_50x,
        "count100x": context.count_100x,
        "leaderboard": scene.leaderboard,
        "gameId": scene.game_id,
        "connectedPlayers": context.connected_players,
        "rugpool": {
            "instarugCount": context.instarug_count,
            "threshold": context.rugpool_threshold,
            "rugpoolAmount": number(context.rugpool_amount),
        },
        "rugRoyale": {
            "status": "INACTIVE",
            "activeEventId": None,
            "currentEvent": None,
            "upcomingEvents": [],
            "events": [],
        },
        "provablyFair": commitment(scene),
    }


def start_state(scene: Scene) -> StartState:
    """Write the gameStateUpdate of tick 0, and the middle of every full one."""
    return {
        "active": scene.phase >= Phase.ACTIVE,
        "price": scene.price,
        "rugged": scene.phase is Phase.RUGGED,
        "tickCount": scene.tick,
        "cooldownTimer": scene.timer_ms,
        "cooldownPaused": False,
        "pauseMessage": "",
        "allowPreRoundBuys": scene.phase is Phase.PRESALE,
        "leaderboard": scene.leaderboard,
        "gameId": scene.game_id,
        "connectedPlayers": scene.context.connected_players,
        "gameVersion": VERSION,
        "partialPrices": window(scene),
        "provablyFair": commitment(scene),
    }


@dataclass(frozen=True)
class Highest:
    """The round with the highest peak of the day, as far as it is known."""

    timestamp: int | None = None
    prices: Sequence[float] = ()


_GOD_CANDLES: Mapping[str, Any] = {
    f"godCandle{size}{part}": [] if part == "Prices" else None
    for size in ("2x", "10x", "50x")
    for part in ("", "Timestamp", "Prices", "MassiveJump")
}


def full_state(scene: Scene, history: Sequence[PastRound], highest: Highest, *, all_prices: bool = False) -> Json:
    """Write the gameStateUpdate with history; a client that connects gets all prices instead of the last ones."""
    context = scene.context
    state: Json = {
        "gameHistory": list(history),
        "averageMultiplier": number(context.average_multiplier),
        "count2x": context.count_2x,
        "count10x": context.count_10x,
        "count50x": context.count_50x,
        "count100x": context.count_100x,
        "highestToday": number(context.highest_today),
        "highestTodayTimestamp": highest.timestamp,
        "highestTodayPrices": [number(price) for price in highest.prices],
        **_GOD_CANDLES,
        "availableShitcoins": [
            {
                "address": PRACTICE_ADDRESS,
                "ticker": "FREE",
                "name": "Practice SOL",
                "max_bet": 10000,
                "max_win": 100000,
            }
        ],
        **start_state(scene),
    }
    if all_prices:
        fair = state.pop("provablyFair")
        del state["partialPrices"]
        state |= {"prices": [number(price) for price in scene.prices], "provablyFair": fair}
    return state


@dataclass(frozen=True)
class Deal:
    """The two sides of one fill, in units."""

    side: Literal["buy", "sell"]
    price: float
    qty: int
    amount: int
    tick: int


def trade(identity: tuple[str, str, int], deal: Deal, game_id: str, trade_id: str) -> Json:
    """Write standard/newTrade; buys and sells have their keys in different order on the real feed."""
    player_id, name, level = identity
    head: Json = {"id": trade_id, "gameId": game_id, "playerId": player_id}
    tail = {"bonusPortion": 0, "realPortion": coins(deal.amount), "username": name, "level": level}
    if deal.side == "buy":
        return {
            **head,
            "price": number(deal.price),
            "type": "buy",
            "qty": coins(deal.qty),
            "tickIndex": deal.tick,
            "coin": COIN,
            "amount": coins(deal.amount),
            "leverage": 1,
            **tail,
        }
    return {
        **head,
        "type": "sell",
        "price": number(deal.price),
        "tickIndex": deal.tick,
        "coin": COIN,
        "amount": coins(deal.amount),
        "qty": coins(deal.qty),
        **tail,
    }


@dataclass(frozen=True)
class Stamp:
    """Which round, when (ms) and under which id a sidebet row is written."""

    game_id: str
    timestamp: int
    id: str
    payout: float


def sidebet_placed(identity: tuple[str, str, int], bet: Sidebet, stamp: Stamp) -> Json:
    """Write the history row of a placed sidebet."""
    return {
        "playerId": identity[0],
        "username": identity[1],
        "gameId": stamp.game_id,
        "betAmount": coins(bet.stake),
        "xPayout": stamp.payout,
        "coinAddress": COIN_ADDRESS,
        "bonusPortion": 0,
        "realPortion": coins(bet.stake),
        "timestamp": stamp.timestamp,
        "type": "placed",
        "startedAtTick": bet.start_tick,
        "end": bet.end_tick,
        "id": stamp.id,
    }


def sidebet_lost(identity: tuple[str, str, int], bet: Sidebet, stamp: Stamp) -> Json:
    """Write the history row of a lost sidebet: a payout of 0."""
    return {
        "playerId": identity[0],
        "gameId": stamp.game_id,
        "username": identity[1],
        "betAmount": coins(bet.stake),
        "payout": 0,
        "profit": coins(-bet.stake),
        "xPayout": stamp.payout,
        "coinAddress": COIN_ADDRESS,
        "endTick": bet.end_tick,
        "startTick": bet.start_tick,
        "tickIndex": bet.start_tick,
        "timestamp": stamp.timestamp,
        "type": "payout",
        "id": stamp.id,
    }


def sidebet_won(identity: tuple[str, str, int], bet: Sidebet, stamp: Stamp, paid: int, rug: tuple[int, float]) -> Json:
    """Write the history row of a won sidebet; `rug` is the rug's tick and price."""
    return {
        "playerId": identity[0],
        "gameId": stamp.game_id,
        "username": identity[1],
        "level": identity[2],
        "betAmount": coins(bet.stake),
        "payout": coins(paid),
        "profit": coins(paid - bet.stake),
        "xPayout": stamp.payout,
        "coinAddress": COIN_ADDRESS,
        "endTick": bet.end_tick,
        "startTick": bet.start_tick,
        "tickIndex": rug[0],
        "price": number(rug[1]),
        "timestamp": stamp.timestamp,
        "type": "payout",
        "id": stamp.id,
    }


def current_sidebet(row: Mapping[str, object], bet: Sidebet, tick: int) -> Json:
    """Write currentSidebet or currentSidebetResult from the history row of the bet."""
    keys = ("playerId", "username", "gameId", "betAmount", "xPayout", "coinAddress", "timestamp", "type", "id")
    result = {key: row[key] for key in ("payout", "profit") if key in row}
    return {
        **{key: row[key] for key in keys},
        "startTick": bet.start_tick,
        "endTick": bet.end_tick,
        "tickIndex": tick,
        **result,
    }


def player_state(
    player_id: str,
    ledger: MoneyLedger,
    scene: Scene,
    sidebets: Sequence[Json],
    interacted: bool,
) -> PlayerState:
    """Write playerUpdate; cumulativePnL marks the position at the last price and an open sidebet at 0."""
    pnl = ledger.pnl(scene.prices[-1])
    return {
        "id": player_id,
        "role": None,
        "cash": coins(ledger.cash),
        "bonusBalance": 0,
        "bonusWagerReq": 0,
        "bonusWagered": 0,
        "positionQty": coins(ledger.qty),
        "avgCost": coins(ledger.avg_cost),
        "cumulativePnL": coins(pnl),
        "sidebetPnl": coins(ledger.sidebet_pnl),
        "pnlPercent": percent(pnl, ledger.invested),
        "totalInvested": coins(ledger.invested),
        "hasInteracted": interacted,
        "selectedCoin": None,
        "levelInfo": {"level": 1, "xp": 0, "xpForNextLevel": 500, "totalXP": 0},
        "crateKeys": {"gold": 0, "diamond": 0, "coal": 0, "iron": 0, "tier0": 0},
        "recentCrateRewards": [],
        "shitcoinBalances": {PRACTICE_ADDRESS: 0},
        "authenticated": True,
        "hitMaxWin": False,
        "xpBoost": {"active": False, "activeUntil": 0, "available": 0},
        "sideBet": side_bet(ledger.sidebet, scene.game_id, scene.payout) if ledger.sidebet else None,
        "sidebets": list(sidebets),
        "shortPosition": None,
        "leveragedPositions": [],
        "autobuysEnabled": False,
        "autosellPrice": None,
    }


def bystander_id(player: int) -> str:
    """Give the id of a player of the cast."""
    return f"bystander-{player:03d}"


def rugpool_entries() -> list[Json]:
    """Write the ten bystanders with most entries in the lottery; fixed, for show."""
    best = sorted(range(len(LEVELS)), key=lambda player: -LEVELS[player])[:LEADERS]
    total = 50 * sum(LEVELS)
    return [
        {
            "playerId": bystander_id(player),
            "entries": 50 * LEVELS[player],
            "username": NAMES[player],
            "percentage": 100 * 50 * LEVELS[player] / total,
        }
        for player in best
    ]


_ENTRIES = rugpool_entries()


def player_scene(
    scene: Scene,
    entry: Leader | PresaleLeader | None = None,
    trades: Sequence[Json] | None = None,
) -> Json:
    """Write gameStatePlayerUpdate: with the player's own leaderboard entry if it plays, on login with its trades."""
    context = scene.context
    payload: Json = {
        "gameId": scene.game_id,
        "rugpool": {
            "instarugCount": context.instarug_count,
            "rugpoolAmount": number(context.rugpool_amount),
            "totalEntries": 50 * sum(LEVELS),
            "threshold": context.rugpool_threshold,
            "playersWithEntries": len(LEVELS),
            "solPerEntry": ENTRY_COST,
            "maxEntriesPerPlayer": MAX_ENTRIES,
            "playerEntries": _ENTRIES,
            "lastDrawing": {"timestamp": 0, "winners": [], "rewardPerWinner": 0, "totalPoolAmount": 0},
            "config": {
                "threshold": context.rugpool_threshold,
                "instarugThreshold": INSTARUG_TICKS,
                "rugpoolPercentage": 0.5,
            },
        },
    }
    if trades is not None:
        payload["trades"] = list(trades)
    if entry is not None:
        payload["leaderboardEntry"] = entry
    return payload


def username_status(player_id: str, name: str) -> Json:
    """Write usernameStatus."""
    return {"id": player_id, "hasUsername": True, "username": name}


def leaderboard_position(player_id: str, rank: int | None, total: int) -> Json:
    """Write playerLeaderboardPosition of the round; rank None for one who does not play."""
    return {
        "success": True,
        "playerId": player_id,
        "period": "round",
        "playerFound": rank is not None,
        "rank": rank,
        "total": total,
    }
