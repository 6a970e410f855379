"""The crash game's Socket.IO protocol: names, payload shapes, and how to read a frame.

Server, page tests and recorders share it. Shapes list their keys in the order of the real feed.
Leaves out: what the server says when (messages, live) and the transport (server).

Engine.IO 4 frames: `0` open, `2` ping, `3` pong, `40` connect, `42[...]` event,
`42<id>[...]` event wanting an ack, `43<id>[...]` ack. Many server events have two arguments, a
trace and the payload; gameStateUpdate, playerUpdate and gameStatePlayerUpdate have one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import orjson

from playproof.errors import DecodeError
from playproof.games.crash.rules.windows import Phase
from playproof.json_types import Json

STATE = "gameStateUpdate"
TRADE = "standard/newTrade"
PLAYER = "playerUpdate"
PLAYER_STATE = "gameStatePlayerUpdate"
SIDEBET = "currentSidebet"
SIDEBET_RESULT = "currentSidebetResult"
USERNAME = "usernameStatus"
RANK = "playerLeaderboardPosition"
SESSION = "playproof/session"
"""Only here: tells a player its token, name and world."""

BUY = "buyOrder"
SELL = "sellOrder"
BET = "requestSidebet"
TOP_UP = "playproof/topUp"
"""Only here: asks for a new practice balance."""
ORDERS = (BUY, SELL, BET, TOP_UP)

ONE_ARGUMENT = frozenset({STATE, PLAYER, PLAYER_STATE, "rugRoyaleUpdate", SESSION})
"""Server events without a trace; every other one has two arguments."""

COIN = "solana"
COIN_ADDRESS = "So11111111111111111111111111111111111111112"
PRACTICE_ADDRESS = "0xPractice"

COOLDOWN_MS = 15_000
PRESALE_MS = 10_000
COUNTDOWN_BEAT_MS = 100
WINDOW = 5
"""Prices in partialPrices."""
LEADERS = 10
HISTORY = 10

MAX_FRAME = 16 * 2**20
"""Characters of the largest frame that is parsed."""


class Commitment(TypedDict):
    """What is published of a round's seed before it ends."""

    serverSeedHash: str
    version: str


class Revealed(TypedDict):
    """What is published of a round's seed after it ended."""

    serverSeed: str
    serverSeedHash: str


class SideBet(TypedDict):
    """An open sidebet, inside a leaderboard entry or playerUpdate."""

    startedAtTick: int
    gameId: str
    end: int
    betAmount: float
    xPayout: float
    coinAddress: str
    bonusPortion: float
    realPortion: float


class Leader(TypedDict):
    """One leaderboard entry; presale entries lack the three parts of pnl."""

    id: str
    username: str | None
    level: int
    pnl: float
    regularPnl: float
    sidebetPnl: float
    shortPnl: float
    sidebetActive: bool | None
    sideBet: SideBet | None
    shortPosition: None
    pnlPercent: float
    hasActiveTrades: bool
    positionQty: float
    avgCost: float
    totalInvested: float
    selectedCoin: Json | None
    position: int


class PresaleLeader(TypedDict):
    """One leaderboard entry of the presale."""

    id: str
    username: str | None
    level: int
    pnl: float
    pnlPercent: float
    sidebetActive: bool | None
    sideBet: SideBet | None
    shortPosition: None
    hasActiveTrades: bool
    positionQty: float
    avgCost: float
    totalInvested: float
    selectedCoin: Json | None
    position: int


class PartialPrices(TypedDict):
    """The last few prices, keyed by tick."""

    startTick: int
    endTick: int
    values: dict[str, float]


class Rugpool(TypedDict):
    """The side lottery, shown only."""

    instarugCount: int
    threshold: int
    rugpoolAmount: float


class CountdownState(TypedDict):
    """gameStateUpdate between rounds: everything else keeps its last value within the gameId."""

    gameId: str
    cooldownTimer: int
    cooldownPaused: bool
    allowPreRoundBuys: bool
    leaderboard: Sequence[Leader | PresaleLeader]
    connectedPlayers: int
    provablyFair: Commitment


class TickState(TypedDict):
    """gameStateUpdate of a tick, and of the moment the presale opens."""

    active: bool
    price: float
    partialPrices: PartialPrices
    tradeCount: int
    rugged: bool
    tickCount: int
    cooldownTimer: int
    cooldownPaused: bool
    pauseMessage: str
    allowPreRoundBuys: bool
    averageMultiplier: float
    count2x: int
    count10x: int
    count50x: int
    count100x: int
    leaderboard: Sequence[Leader | PresaleLeader]
    gameId: str
    connectedPlayers: int
    rugpool: Rugpool
    rugRoyale: Json
    provablyFair: Commitment


class StartState(TypedDict):
    """gameStateUpdate of tick 0."""

    active: bool
    price: float
    rugged: bool
    tickCount: int
    cooldownTimer: int
    cooldownPaused: bool
    pauseMessage: str
    allowPreRoundBuys: bool
    leaderboard: Sequence[Leader | PresaleLeader]
    gameId: str
    connectedPlayers: int
    gameVersion: str
    partialPrices: PartialPrices
    provablyFair: Commitment


class PastRound(TypedDict):
    """One gameHistory entry; timestamp in ms at the rug."""

    id: str
    timestamp: int
    prices: list[float]
    peakMultiplier: float
    rugged: bool
    globalTrades: list[Any]
    globalSidebets: list[Json]
    provablyFair: Revealed
    gameVersion: str


class Trade(TypedDict):
    """standard/newTrade; a sell has no leverage."""

    id: str
    gameId: str
    playerId: str
    price: float
    type: Literal["buy", "sell"]
    qty: float
    tickIndex: int
    coin: str
    amount: float
    leverage: int
    bonusPortion: float
    realPortion: float
    username: str | None
    level: int


class PlayerState(TypedDict):
    """playerUpdate: it has no gameId and no tick, and belongs to the last tick seen before it."""

    id: str
    role: None
    cash: float
    bonusBalance: float
    bonusWagerReq: float
    bonusWagered: float
    positionQty: float
    avgCost: float
    cumulativePnL: float
    sidebetPnl: float
    pnlPercent: float
    totalInvested: float
    hasInteracted: bool
    selectedCoin: Json | None
    levelInfo: dict[str, int]
    crateKeys: dict[str, int]
    recentCrateRewards: list[Any]
    shitcoinBalances: dict[str, float]
    authenticated: bool
    hitMaxWin: bool
    xpBoost: Json
    sideBet: SideBet | None
    sidebets: list[Json]
    shortPosition: None
    leveragedPositions: list[Any]
    autobuysEnabled: bool
    autosellPrice: None


def phase_of(state: Mapping[str, object]) -> Phase | None:
    """Tell the phase of a carried state; None when the state does not say.

    The order matters: at the rug `rugged` and `active` are both true, and the timer also runs in the presale.
    """
    if state.get("rugged"):
        return Phase.RUGGED
    if state.get("active"):
        return Phase.ACTIVE
    if state.get("allowPreRoundBuys"):
        return Phase.PRESALE
    timer = state.get("cooldownTimer")
    if isinstance(timer, int | float) and timer > 0:
        return Phase.COOLDOWN
    return None


NEW_ROUND: Mapping[str, Any] = {"active": False, "rugged": False, "tickCount": 0, "price": 1}


def carry(state: Mapping[str, object], payload: Mapping[str, object]) -> Json:
    """Lay a gameStateUpdate over the state before it: a missing field keeps its value within one gameId."""
    same = payload.get("gameId", state.get("gameId")) == state.get("gameId")
    return {**(state if same else NEW_ROUND), **payload}


def tick_identity(state: Mapping[str, object]) -> tuple[str, Phase, int] | None:
    """Give (gameId, phase, tickCount) of a carried state, by which a repeated tick is known."""
    phase, game_id, tick = phase_of(state), state.get("gameId"), state.get("tickCount")
    if phase is None or not isinstance(game_id, str) or not isinstance(tick, int):
        return None
    return game_id, phase, tick


def payload_of(arguments: Sequence[object]) -> Any:
    """Give the payload of an event's arguments: the one after the trace, or the only one."""
    if len(arguments) >= 2 and isinstance(arguments[0], dict) and arguments[0].get("__trace") is True:
        return arguments[1]
    return arguments[0] if arguments else None


FrameKind = Literal["open", "close", "ping", "pong", "connect", "disconnect", "event", "ack", "refused", "other"]

_ENGINE: Mapping[str, FrameKind] = {"0": "open", "1": "close", "2": "ping", "3": "pong"}
_SOCKET: Mapping[str, FrameKind] = {"0": "connect", "1": "disconnect", "2": "event", "3": "ack", "4": "refused"}
_HEAD = re.compile(r"4([0-6])(?:/[^,]{0,200},)?([0-9]{0,18})")


@dataclass(frozen=True, slots=True)
class FeedFrame:
    """One text frame of the feed, read."""

    kind: FrameKind
    event: str = ""
    arguments: tuple[Any, ...] = ()
    """The event's or ack's arguments; for a connect or open frame its one record."""
    ack_id: int | None = None


def read_json(text: str, *, nan: bool = False) -> Any:
    """Read JSON; NaN and Infinity, which Python's clients write, only if told to. DecodeError when it is none."""
    try:
        return json.loads(text) if nan else orjson.loads(text)
    except (ValueError, RecursionError):
        raise DecodeError(f"expected JSON, found {text[:80]!r}") from None


def parse_frame(text: str, *, nan: bool = False) -> FeedFrame:
    """Read one text frame; DecodeError when it is none."""
    if not text or len(text) > MAX_FRAME:
        raise DecodeError(f"expected a frame of 1 to {MAX_FRAME} characters, found {len(text)}")
    if text[0] in _ENGINE:
        return FeedFrame(_ENGINE[text[0]], arguments=(read_json(text[1:], nan=nan),) if text[0] == "0" else ())
    head = _HEAD.match(text)
    if head is None:
        raise DecodeError(f"expected an Engine.IO frame, found {text[:80]!r}")
    kind = _SOCKET.get(head[1], "other")
    ack_id = int(head[2]) if head[2] else None
    rest = text[head.end() :]
    if kind == "other":
        return FeedFrame(kind)
    if kind not in ("event", "ack"):
        return FeedFrame(kind, arguments=(read_json(rest, nan=nan),) if rest else ())
    items = read_json(rest, nan=nan)
    if not isinstance(items, list) or (kind == "event" and not (items and isinstance(items[0], str))):
        raise DecodeError(f"expected an {kind} as a list, found {rest[:80]!r}")
    if kind == "ack":
        return FeedFrame(kind, arguments=tuple(items), ack_id=ack_id)
    return FeedFrame(kind, items[0], tuple(items[1:]), ack_id)


def event_frame(event: str, arguments: Sequence[object], ack_id: int | None = None) -> str:
    """Write an event as a text frame."""
    number = "" if ack_id is None else str(ack_id)
    return f"42{number}{orjson.dumps([event, *arguments]).decode()}"
