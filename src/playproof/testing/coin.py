"""CoinGame: the smallest complete Game, to read, to test stages with, and to break.

A window is ten flips of a coin. Before each the table names a side as a hint, and a player may put
a fixed stake on HEADS or TAILS at even money. In the world `fair` the hint says nothing; in
`biased` the coin falls as hinted with probability 0.6, so following the hint earns a fifth of what
is staked and nothing else earns anything.
Leaves out: other players, latency, amounts to choose.

Frames are JSON objects with the keys `event` and `window`:
open, hint (flip, side), flip (flip, side), close (sides) are the world's; order (choice), placed
(choice, stake, cash) and cash (cash) are the player's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof.errors import DecodeError, UnknownName
from playproof.events import Direction, DocType, Event, Value
from playproof.game import (
    WAIT,
    AccountSnapshot,
    Action,
    ActionSet,
    Baseline,
    Column,
    Fact,
    Feature,
    Frame,
    Game,
    Label,
    NumericObservation,
    ObservationFold,
    Outcome,
    Recording,
    Reward,
    Rewards,
    Simulation,
    Step,
    Terms,
    Window,
    WindowRules,
)
from playproof.money import UNIT, from_units
from playproof.policies import Constant, Uniform

HEADS, TAILS = "HEADS", "TAILS"
SIDES = (TAILS, HEADS)
CHOICES = (WAIT, HEADS, TAILS)
FLIPS = 10
STAKE = UNIT // 100
RESERVED = FLIPS * STAKE
"""All that a window can take from a player who bets on every flip."""
WORLDS = {"fair": 0.5, "biased": 0.6}
"""How likely the coin is to fall as hinted."""
PLAYER = "player"
STREAM = int.from_bytes(b"coin")
"""Keeps the table's random numbers apart from those of players with the same seed."""
START = datetime(2025, 1, 15, tzinfo=UTC)
BEAT = timedelta(milliseconds=100)
"""Time between two frames."""

COLUMNS = (
    Column("flip", "int", "flips", "number of the flip in its window, from 0"),
    Column("side", "int", "side", "1 for heads, 0 for tails: the side hinted or fallen"),
    Column("choice", "text", "action", "the side that the player bet on"),
    Column("stake", "money", "10^-9 coin", "what the bet put at risk"),
    Column("cash", "money", "10^-9 coin", "what the player has, open bets apart"),
    Column("sides", "text", "sides", "all sides of the window, H or T, told at its close", outcome=True),
)

FEATURES = (
    Feature("hint", "side", "hint", "+1 if the table hints at heads, -1 at tails", 0.0),
    Feature("last_flip", "side", "flip", "+1 if the last flip of this window was heads, -1 if tails", 0.0),
    Feature("run_length", "flips", "flip", "how many flips in a row fell like the last one", 0.0, "linear:5"),
    Feature(
        "flips_left", "flips", "hint", "flips of this window still to come, the hinted one included", 0.0, "linear:10"
    ),
    Feature("balance", "coins", "cash, placed", "the player's cash", 1.0),
)

_SHAPES: Mapping[str, tuple[str, ...]] = {
    "open": (),
    "hint": ("flip", "side"),
    "flip": ("flip", "side"),
    "close": ("sides",),
    "order": ("choice",),
    "placed": ("choice", "stake", "cash"),
    "cash": ("cash",),
}
_OWN = ("order", "placed", "cash")
_WINDOW = re.compile(r"coin-(\d{6})")


def parse_window(text: str) -> Window:
    """Read an id such as coin-000042."""
    if not _WINDOW.fullmatch(text):
        raise DecodeError(f"expected a window id such as coin-000042, found {text[:80]!r}")
    return Window(text)


def decode(frame: Frame) -> tuple[Fact, ...]:
    """Read one frame; it needs no memory."""
    try:
        fields = json.loads(frame.payload)
        event, window = fields["event"], parse_window(fields["window"]).window_id
        columns = {name: _column(name, fields[name]) for name in _SHAPES[event]}
    except (ValueError, TypeError, KeyError, RecursionError, DecodeError):
        return ()
    own = event in _OWN
    doc_type: DocType = "player_action" if own else "game_tick" if event in ("hint", "flip") else "server_state"
    return (Fact(event, doc_type, columns, window, PLAYER if own else None),)


def _column(name: str, value: object) -> Value:
    """Take a value if it is one that the column may hold."""
    if name in ("flip", "side", "stake", "cash"):
        if type(value) is int and 0 <= value < {"flip": FLIPS, "side": 2}.get(name, 2**63):
            return value
    elif isinstance(value, str) and (value in SIDES if name == "choice" else set(value) <= {"H", "T"}):
        return value
    raise DecodeError(f"expected a value for {name!r}, found {value!r:.80}")


def decides(event: Event) -> bool:
    """Tell whether a bet can be placed now: at each hint."""
    return event.event_name == "hint"


@dataclass
class CoinState:
    """What a player knows; None is unknown."""

    hint: int | None = None
    last: int | None = None
    run: int = 0
    left: int | None = None
    cash: int | None = None


def apply(known: CoinState, event: Event) -> None:
    """Take one event into what is known."""
    payload: Mapping[str, Any] = event.columns
    if event.event_name == "open":
        known.hint = known.last = None
        known.run, known.left = 0, FLIPS
    elif event.event_name == "hint":
        known.hint, known.left = payload["side"], FLIPS - payload["flip"]
    elif event.event_name == "flip":
        known.run = known.run + 1 if payload["side"] == known.last else 1
        known.last, known.hint, known.left = payload["side"], None, FLIPS - 1 - payload["flip"]
    elif "cash" in payload:
        known.cash = payload["cash"]


def observe(known: CoinState, out: NDArray[np.float32]) -> None:
    """Write the features of the set `table`."""
    out[0] = 0.0 if known.hint is None else 2 * known.hint - 1
    out[1] = 0.0 if known.last is None else 2 * known.last - 1
    out[2] = known.run
    out[3] = 0.0 if known.left is None else known.left
    out[4] = 1.0 if known.cash is None else from_units(known.cash)


def missing(known: CoinState, out: NDArray[np.bool_]) -> None:
    """Write what of the set `table` is unknown."""
    out[:] = [known.hint is None, known.last is None, known.last is None, known.left is None, known.cash is None]


class CoinLedger:
    """One player's money at the table; the house holds what is on the table."""

    def __init__(self, terms: Terms) -> None:
        self.cash = UNIT if terms.cash is None else terms.cash
        self.house = 0
        self.stake = terms.stake
        self.opened = 0
        self.open_window: str | None = None
        self.window_cash = self.cash
        self.flip: int | None = None
        self.bet: int | None = None

    @property
    def total(self) -> int:
        """Give all money: the player's and the house's."""
        return self.cash + self.house

    def standing(self) -> AccountSnapshot:
        """Give where the player stands; an open bet counts 0 until it is settled."""
        return AccountSnapshot(self.cash, self.cash, self.opened)

    def apply_world(self, event: Event) -> tuple[Fact, ...]:
        """Take what the table did, and settle the bet at the flip."""
        if event.event_name == "open":
            self.open_window, self.window_cash, self.flip, self.bet = event.window_id, self.cash, None, None
            return (self._cash(),)
        if event.event_name == "hint":
            flip = event.columns["flip"]
            self.flip = flip if isinstance(flip, int) else None
        if event.event_name == "flip":
            bet, self.bet, self.flip = self.bet, None, None
            if bet is not None:
                if bet == event.columns["side"]:
                    self._pay(-2 * STAKE)
                return (self._cash(),)
        return ()

    def act(self, action: Action) -> tuple[Fact, ...]:
        """Place a bet on the hinted flip; refused without one, with one placed, without money or stake left."""
        assert isinstance(action, tuple)
        choice = CHOICES[action[0]]
        lost = max(0, self.window_cash - self.cash)
        reserved = self.stake is None or lost + STAKE <= self.stake
        if choice == WAIT or self.flip is None or self.bet is not None or self.cash < STAKE or not reserved:
            return ()
        self._pay(STAKE)
        self.bet = SIDES.index(choice)
        self.opened += 1
        payload: dict[str, Value] = {"choice": choice, "stake": STAKE, "cash": self.cash}
        return (Fact("placed", "player_action", payload, self.open_window),)

    def _pay(self, amount: int) -> None:
        """Move money from the player to the house, or back if negative."""
        self.cash -= amount
        self.house += amount

    def _cash(self) -> Fact:
        return Fact("cash", "player_action", {"cash": self.cash}, self.open_window)


def recorded_choice(event: Event) -> Action | None:
    """Read the choice that an own order stands for."""
    choice = event.columns.get("choice")
    return (CHOICES.index(choice),) if event.event_name == "order" and isinstance(choice, str) else None


def read_outcome(events: Sequence[Event]) -> Outcome | None:
    """Give all sides of a window; None unless it was seen from its opening to its close, flip by flip."""
    world = [event for event in events if event.player_id is None]
    names = [event.event_name for event in world]
    flips = [event.columns for event in world if event.event_name == "flip"]
    whole = names[:1] == ["open"] and names[-1:] == ["close"] and [flip["flip"] for flip in flips] == list(range(FLIPS))
    if not whole:
        return None
    sides = "".join("H" if flip["side"] else "T" for flip in flips)
    return Outcome(world[0].window_id or "", {"sides": sides, "heads": sides.count("H")})


def profit(steps: Sequence[Step], outcome: Outcome) -> list[float]:  # noqa: ARG001
    """Give the change in equity of each step, in coins."""
    return [from_units(step.after.equity - step.before.equity) for step in steps]


def falls_heads(outcome: Outcome, event: Event) -> float | None:
    """Give 1 if the hinted flip fell heads, else 0."""
    sides, flip = outcome.values["sides"], event.columns["flip"]
    return float(sides[flip] == "H") if isinstance(sides, str) and isinstance(flip, int) else None


def ceiling(world: str) -> float:
    """Give the best expected profit per unit reserved: following the hint on every flip."""
    if world not in WORLDS:
        raise UnknownName("world", world, WORLDS)
    return max(0.0, 2 * WORLDS[world] - 1)


Chooser = Callable[[], str]
"""Gives the player's next choice."""
Said = tuple[dict[str, Value], Direction]


class CoinTable:
    """The server's side of the game for one player, whose money goes on from window to window."""

    def __init__(self, world: str, choose: Chooser) -> None:
        if world not in WORLDS:
            raise UnknownName("world", world, WORLDS)
        self.as_hinted, self.choose = WORLDS[world], choose
        self.ledger = CoinLedger(Terms("bets"))

    def window(self, window: str, rng: np.random.Generator) -> Iterator[Said]:
        """Play one window; give what is said, and by whom."""
        sides: list[int] = []
        yield from self._say(window, {"event": "open"})
        for flip in range(FLIPS):
            hint = int(rng.random() < 0.5)
            sides.append(hint if rng.random() < self.as_hinted else 1 - hint)
            yield from self._say(window, {"event": "hint", "flip": flip, "side": hint})
            yield from self._order(window)
            yield from self._say(window, {"event": "flip", "flip": flip, "side": sides[-1]})
        yield from self._say(window, {"event": "close", "sides": "".join("TH"[side] for side in sides)})

    def _say(self, window: str, payload: dict[str, Value]) -> Iterator[Said]:
        """Say what the world does, and to the player what it means for him."""
        frame = Frame(START, json.dumps(payload | {"window": window}))
        yield payload | {"window": window}, "received"
        for fact in decode(frame):
            yield from map(_told, self.ledger.apply_world(fact.event(START, "table", 0)))

    def _order(self, window: str) -> Iterator[Said]:
        """Let the player order, and answer him."""
        choice = self.choose()
        if choice != WAIT:
            yield {"event": "order", "window": window, "choice": choice}, "sent"
            yield from map(_told, self.ledger.act((CHOICES.index(choice),)))


def _told(fact: Fact) -> Said:
    return {"event": fact.event_name, "window": fact.window_id, **fact.columns}, "received"


def deal(world: str, seed: int, windows: int, choose: Chooser, start: datetime = START) -> Iterator[tuple[Frame, ...]]:
    """Run a table for one player; give the frames of one window after the other, a frame every 100 ms."""
    table = CoinTable(world, choose)
    for number in range(windows):
        said = list(table.window(f"coin-{number:06d}", np.random.default_rng([STREAM, seed, number])))
        yield tuple(Frame(start + BEAT * index, json.dumps(item), way) for index, (item, way) in enumerate(said))
        start += BEAT * len(said)


def random_chooser(rng: np.random.Generator) -> Chooser:
    """Choose each action equally often."""
    return lambda: CHOICES[int(rng.integers(len(CHOICES)))]


def sample() -> tuple[Frame, ...]:
    """Give two windows of a player who chooses at random."""
    frames = deal("biased", 1, 2, random_chooser(np.random.default_rng(1)))
    return tuple(frame for window in frames for frame in window)


def recording() -> Recording:
    """Give how recorded windows are read."""
    return Recording(
        decoder=lambda: decode,
        decides=decides,
        fold=ObservationFold(CoinState, apply, {"table": observe}, {"table": missing}),
        ledger=CoinLedger,
        outcome=read_outcome,
        sample=sample,
    )


def rewards() -> Rewards:
    """Give the one reward."""
    return Rewards(presets={"profit": Reward("profit", "1", "change in equity, in coins", {"profit": profit})})


def simulation() -> Simulation:
    """Give tables that are played side by side."""
    from playproof.testing.coin_lanes import make_vector_game

    return Simulation(
        vector=make_vector_game,
        baselines={
            "wait": Baseline("never bets", "table", "bets", lambda _: Constant((0,))),
            "random": Baseline("chooses each action equally often", "table", "bets", lambda rng: Uniform((3,), rng)),
            "heads": Baseline("always bets on heads", "table", "bets", lambda _: Constant((1,))),
        },
        ceiling=ceiling,
    )


def game() -> Game:
    """Give the CoinGame."""
    return Game(
        name="coin",
        version="1",
        doc="Bet on the fall of a coin, ten times a window.",
        money="10^-9 coin",
        columns=COLUMNS,
        features=FEATURES,
        observations={
            "table": NumericObservation(tuple(feature.name for feature in FEATURES), doc="all that is known")
        },
        actions={"bets": ActionSet((CHOICES,), (0,), recorded_choice)},
        labels={"heads": Label("heads", 1, "the hinted flip falls heads", falls_heads)},
        windows=WindowRules(parse_window, "terminated", ("coin-000000", "coin-999999")),
        outcomes=(
            Column("sides", "text", "sides", "all sides of the window, H or T"),
            Column("heads", "int", "flips", "how many fell heads"),
        ),
        worlds={name: f"the coin falls as hinted with probability {p}" for name, p in WORLDS.items()},
        recording=recording,
        rewards=rewards,
        simulation=simulation,
    )
