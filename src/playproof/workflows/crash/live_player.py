"""A policy follows a live crash feed: events in, decisions and settled rounds out.

The player builds each observation with the fold that data sets and the environment use, asks the policy as the
environment's lanes do (one lane, the same masks, the same clock), and settles on paper by the exact plain ledger.
Its decisions are those of the environment on the same feed, bit for bit (`environment_play` is the other side).

    player = LivePlayer(load_subject(game, "hold-40"))
    for event in events:                      # one recording's events, in their order
        for result in player.take(event):     # LiveDecision or SettledRound
            ...

Several players may follow one feed: a shadow experiment gives every event to the champion and to the challenger.
A caller that has to ask somebody before an order leaves (a gate) uses the parts of `take`: `follow`, `choose` and
`carry_out`, which may be given another action than the chosen one.
Leaves out: sockets (live_feed), order gates, real fills.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof.errors import ContractError
from playproof.events import Event
from playproof.game import Fact, Game, Terms, first, load_game
from playproof.game.play import PlayerView
from playproof.game.vector_env import MaskedPolicy
from playproof.games.crash.recording import columns as c
from playproof.games.crash.recording.player_ledger import CrashLedger
from playproof.games.crash.rules.money import MIN_BET
from playproof.games.crash.rules.windows import Phase
from playproof.money import UNIT
from playproof.validate.examine import Subject
from playproof.workflows.crash.choice_masks import MAX_ADJUSTMENTS, choice_masks, settled_choice

Row = NDArray[np.float32]
STREAM = int.from_bytes(b"live")
"""Keeps the random numbers of live play apart from those of worlds with the same seed."""
PLAYER = "bot"


@dataclass(frozen=True)
class LiveDecision:
    """One choice of the policy, and what it was made from."""

    window_id: str
    tick: int
    phase: Phase
    substep: int
    """0, or the number of adjustments made before it at the same tick (clock `press`)."""
    price: float
    observation: Row
    action: tuple[int, ...]
    ts: datetime
    """When the tick could be known."""

    @property
    def observation_hash(self) -> str:
        """Give the sha256 of the observation's bytes."""
        return hashlib.sha256(self.observation.tobytes()).hexdigest()


@dataclass(frozen=True)
class SettledRound:
    """What one round came to; money in units."""

    window_id: str
    pnl: int
    """Change in equity over the round."""
    opened: int
    """Positions opened, sidebets included."""
    staked: int
    """Money paid in."""
    decisions: int
    first_cash: int
    first_bet: int
    """Cash and bet field with which the round began: the environment needs both to play it again."""
    cash: int
    complete: bool
    """Was the round received from its presale to its rug without a lost tick?"""


@dataclass
class OpenRound:
    """A round while it is followed."""

    window_id: str
    ledger: CrashLedger
    memory: Any
    """What the policy remembers."""
    first_cash: int
    first_bet: int
    plays: bool = False
    """Was its presale seen? A round that was joined in the middle is watched and not played."""
    is_bankrupt: bool = False
    is_over: bool = False
    gaps: int = 0
    decisions: int = 0
    adjustments: int = 0
    """Adjustments in a row at this tick."""


@dataclass
class LivePlayer:
    """Follow the events of one recording and decide; one instance a policy and a feed."""

    subject: Subject
    world: str = "published"
    balance: int = UNIT
    """Money at the start of each round, or of the first one where `carries` says so; in units."""
    carries: bool = False
    """Begin a round with the cash and the bet field of the last one, as one account does. False: each round afresh."""
    seed: int = 0
    """Of a policy that chooses by chance; its random numbers depend on seed and round alone."""
    game: Game = field(default_factory=lambda: load_game("crash"))
    round: OpenRound | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        options = self.subject.options
        self.observation = options.observation or first(self.game.observations)
        self.actions = options.actions or first(self.game.actions)
        self.by_press = options.clock == "press"
        self._view = PlayerView(self.game, self.observation)
        self._decides = self.game.recording().decides
        self._cash, self._bet, self._seq = self.balance, MIN_BET, 0
        self._event: Event | None = None
        self._last: Event | None = None

    @property
    def ledger(self) -> CrashLedger:
        """Give the ledger of the round that is followed."""
        if self.round is None:
            raise ContractError("expected a round that is followed, found none yet")
        return self.round.ledger

    def take(self, event: Event) -> Iterator[LiveDecision | SettledRound]:
        """Take one event; decide, carry the choice out on paper, and give what came of it."""
        result = self.follow(event)
        if result is not None:
            yield result
        while self.is_asked:
            decision = self.choose()
            yield decision
            self.carry_out(decision.action)

    def follow(self, event: Event) -> SettledRound | None:
        """Take one event into what is known; give the round that it ended. The player's own events are left out."""
        if event.player_id is not None:
            return None
        result, self._event, self._last = None, None, event
        if event.window_id is not None and event.event_name in (c.ROUND, c.TICK):
            result = self._enter(event.window_id)
        self._view.apply(event)
        now = self.round
        if now is None or event.window_id != now.window_id:
            return result
        if event.event_name == c.GAP:
            now.gaps += 1
        self._apply_own(now.ledger.apply_world(event), event)
        if event.event_name != c.TICK:
            return result
        now.plays = now.plays or event.columns.get("game_phase") == Phase.PRESALE
        now.adjustments = 0
        if now.ledger.phase is Phase.RUGGED and not now.is_over:
            return self._settle(now, complete=now.plays and not now.gaps)
        if self._decides(event) and now.plays and not now.is_over:
            self._event = event
        return result

    @property
    def is_asked(self) -> bool:
        """Tell whether the policy has to choose before time goes on."""
        return self._event is not None and self.round is not None and not self.round.is_bankrupt

    def choose(self) -> LiveDecision:
        """Ask the policy."""
        now, event = self.round, self._event
        if now is None or event is None:
            raise ContractError("expected a tick at which one can act, found none; call follow first")
        row = np.asarray(self._view.look()[0], np.float32)
        action = self._ask(row, now)
        tick = int(now.ledger.tick)
        return LiveDecision(
            now.window_id, tick, now.ledger.phase, now.adjustments, now.ledger.price, row, action, event.ts
        )

    def _ask(self, row: Row, now: OpenRound) -> tuple[int, ...]:
        player: Any = self.subject.player
        rows = row[None, :]
        if not isinstance(player, MaskedPolicy):
            return tuple(np.asarray(player.act(rows, now.memory))[0].tolist())
        mask = choice_masks(now.ledger, now.adjustments if self.by_press else None)
        chosen = player.act_masked(rows, mask[None, :], now.memory)[0]
        return settled_choice(now.ledger, tuple(np.asarray(chosen).tolist()))

    def carry_out(self, action: tuple[int, ...], *, price: float | None = None) -> tuple[Fact, ...]:
        """Carry an action out on paper at the last tick, or at the price of a real fill; give what the player is told.

        On the clock `press` an adjustment leaves the tick where it is and the policy is asked again.
        """
        now, event = self.round, self._event
        if now is None or event is None:
            raise ContractError("expected a tick at which one can act, found none; call follow first")
        facts = self._act(now, event, action, price)
        now.decisions += 1
        adjusts = self.by_press and self.actions != "trader" and action[0] == 0 and any(action)
        if adjusts and now.adjustments < MAX_ADJUSTMENTS:
            now.adjustments += 1
        else:
            self._event = None
        return facts

    @property
    def event(self) -> Event | None:
        """Give the tick at which the policy has to choose, None if there is none."""
        return self._event

    def fill(self, action: tuple[int, ...], price: float | None) -> None:
        """Carry an order out that was answered after its tick, at the price of the answer."""
        if self.round is not None and self._last is not None:
            self._act(self.round, self._last, action, price)

    def close(self, price: float | None) -> None:
        """Sell everything, on nobody's choice."""
        sales = {"buttons": (2, 0), "buttons-share": (2, 0, 4), "trader": (5, 0, 0)}
        self.fill(sales[self.actions], price)

    def adopt(self, event: Event) -> None:
        """Hold the money that the feed told in place of what the ledger has."""
        now = self.round
        if now is not None:
            now.ledger.heard.orders = 0
            now.ledger.apply_own(event)
            if not now.decisions:  # nothing was done yet: the round begins with this
                now.first_cash = now.ledger.ledger.round_cash = now.ledger.ledger.cash
        self._view.apply(event)

    def adopt_cash(self, cash: int) -> None:
        """Begin the next round with this cash."""
        self._cash = cash

    def _act(self, now: OpenRound, event: Event, action: tuple[int, ...], price: float | None) -> tuple[Fact, ...]:
        ledger, mark = now.ledger, now.ledger.price
        ledger.price = mark if price is None else price
        facts = ledger.act(action)
        ledger.price = mark
        self._apply_own(facts, event)
        now.is_bankrupt = ledger.standing().equity + ledger.ledger.open_stake < MIN_BET
        return facts

    def _enter(self, window: str) -> SettledRound | None:
        """Sit down at a new round; give the last one where its rug was not seen."""
        last = self.round
        if last is not None and last.window_id == window:
            return None
        result = None
        if last is not None and not last.is_over:
            last.ledger.apply_world(_next_round(window, last))
            result = self._settle(last, complete=False)
        cash, bet = (self._cash, self._bet) if self.carries else (self.balance, MIN_BET)
        ledger: Any = self.game.recording().ledger(
            Terms(self.actions, world=self.world, cash=cash, stake=self.subject.stake)
        )
        ledger.bet = bet
        rng = np.random.default_rng([STREAM, self.seed, int(hashlib.sha256(window.encode()).hexdigest()[:12], 16)])
        self.round = OpenRound(window, ledger, self.subject.player.start(1, rng), cash, bet)
        return result

    def _settle(self, now: OpenRound, *, complete: bool) -> SettledRound:
        now.is_over, ledger = True, now.ledger
        self._cash, self._bet = ledger.ledger.cash, ledger.bet
        sidebets = ledger.counts["sidebet_staked"]
        return SettledRound(
            window_id=now.window_id,
            pnl=ledger.ledger.cash - now.first_cash,
            opened=ledger.opened,
            staked=ledger.counts["bought"] + sidebets,
            decisions=now.decisions,
            first_cash=now.first_cash,
            first_bet=now.first_bet,
            cash=ledger.ledger.cash,
            complete=complete,
        )

    def _apply_own(self, facts: tuple[Fact, ...], event: Event) -> None:
        """Let the player know what the ledger told, when the event could be known."""
        for fact in facts:
            self._view.apply(fact.event(event.ts, PLAYER, self._seq, player_id=PLAYER))
            self._seq += 1


def _next_round(window: str, last: OpenRound) -> Event:
    """Make the event with which the ledger closes a round whose rug was not seen."""
    return c.fact(c.ROUND, {}, window).event(datetime.min.replace(tzinfo=UTC), PLAYER, last.decisions)
