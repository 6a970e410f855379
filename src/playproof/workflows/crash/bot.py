"""A bot: a policy on a live feed whose orders pass a gate before they reach a venue.

One event after the other, as a person would: follow it, and where one can act ask the policy, ask the gate, send, wait
for the answer, enter it with its money. While an answer is waited for the feed goes on; a tick that a newer one has
followed is decided (the policy remembers) and not ordered on. After the process stood still nothing counts as now until
the feed has been caught up with.
Leaves out: connecting and recording (bot_run), what is allowed (operate).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from playproof.events import Event
from playproof.games.crash.recording import columns as c
from playproof.games.crash.rules.actions import BETS, FULL_SHARE, MAIN, PERCENTAGES, SHARES, SIZES, TENTHS, TRADER_MAIN
from playproof.games.crash.rules.actions import adjusted as adjusted_bet
from playproof.games.crash.rules.windows import Phase
from playproof.operate.gate_process import GateClient
from playproof.operate.limits import OrderOutcome, OrderProposal
from playproof.operate.state import TAKE_OVER
from playproof.workflows.crash.drift_watch import DriftAlarm, DriftWatch
from playproof.workflows.crash.live_player import LiveDecision, LivePlayer, SettledRound
from playproof.workflows.crash.venues import Venue, VenueAnswer, to_answer

READS = 50
"""Passes of the loop in which bytes that lie ready are read before a tick is called now."""


@dataclass(frozen=True)
class BotTiming:
    """When a tick is too old; seconds by the steady clock."""

    oldest: float = 0.5
    """Age of a tick above which no order on it leaves."""
    pause: float = 1.0
    """A stretch in which the process did nothing, after which it has to catch up."""
    quiet: float = 0.01
    """Silence before a frame that shows that no backlog is being read."""


@dataclass(frozen=True)
class OrderRecord:
    """What was done at one decision that proposed an order."""

    order_id: str
    button: str
    stake: int
    answer: str
    """allowed, or why the gate refused."""
    outcome: str = ""
    price: float | None = None
    tick_filled: int | None = None
    detail: str = ""


@dataclass
class BotRound:
    """One round as the bot played it."""

    decisions: list[LiveDecision] = field(default_factory=list)
    executed: list[tuple[int, ...]] = field(default_factory=list)
    """What was carried out in place of each decision: the same, or a wait."""
    orders: dict[int, OrderRecord] = field(default_factory=dict)
    """By the number of the decision."""
    settled: SettledRound | None = None
    told_cash: int | None = None
    """What the venue said that the player has after the round."""
    taken_over: bool = False
    failures: int = 0
    """Choices that the policy could not make."""


def split_action(actions: str, action: tuple[int, ...], bet: int, share: int, cash: int) -> tuple[Any, ...]:
    """Give the buttons to adjust with, and the orders (button, amount, share) that an action stands for."""
    if actions == "trader":
        main, size, percent = TRADER_MAIN[action[0]], SIZES[action[1]], TENTHS[action[2]]
        orders = {
            "BUY_MAIN": (("BUY", size, FULL_SHARE),),
            "BUY_SIDE": (("SIDEBET", size, FULL_SHARE),),
            "BUY_BOTH": (("BUY", size, FULL_SHARE), ("SIDEBET", size, FULL_SHARE)),
            "SELL_MAIN": (("SELL", 0, FULL_SHARE),),
            "EMERGENCY_EXIT": (("SELL", 0, FULL_SHARE),),
            "PARTIAL_SELL": (("SELL", 0, percent),),
        }
        return (), orders.get(main, ())
    presses = [BETS[action[1]]] if action[1] else []
    if actions == "buttons-share" and action[2]:
        presses.append(SHARES[action[2]])
        share = PERCENTAGES[SHARES[action[2]]]
    button = MAIN[action[0]]
    amount = adjusted_bet(bet, cash, BETS[action[1]])
    percent = share if actions == "buttons-share" else FULL_SHARE
    return tuple(presses), () if button == "WAIT" else ((button, 0 if button == "SELL" else amount, percent),)


class CrashBot:
    """Play a live feed through a gate; `put` takes events, `run` plays them."""

    def __init__(
        self,
        player: LivePlayer,
        gate: GateClient,
        venue: Venue,
        folder: Path,
        *,
        timing: BotTiming | None = None,
        unread: Callable[[], int] = lambda: 0,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.player, self.gate, self.venue, self.folder = player, gate, venue, folder
        self.timing, self.unread, self.steady = timing or BotTiming(), unread, steady
        self.rounds: dict[str, BotRound] = {}
        self.watch = DriftWatch(player.observation)
        self.alarms: list[DriftAlarm] = []
        self.events: deque[tuple[Event, float]] = deque()
        self.handled = 0
        """Events that were played to their end."""
        self.came = 0
        self.newest: tuple[Any, ...] = ()
        """Window, phase and number of the newest tick that arrived."""
        self.settled = asyncio.Event()
        self.verdicts: list[str] = []
        self._arrived = asyncio.Event()
        self._last_arrival = self._last_beat = steady()
        self._caught_up = True
        self._opened = False
        self._serial = 0
        self._unknown: tuple[OrderRecord, tuple[int, ...]] | None = None
        """The order of which nobody knows what became of it, and the action that it belongs to."""
        self._taken_over = ""
        """The round in which a person plays."""
        self.stopping = False
        self.person: deque[str] = deque()
        """Buttons that a person pressed at the terminal; they pass the gate like the policy's orders."""
        self.on_intervention: Callable[[str, int], None] = lambda window, tick: None  # noqa: ARG005

    def put(self, event: Event) -> None:
        """Take an event as it arrives; must be called on the bot's loop."""
        now = self.steady()
        if now - self._last_beat > self.timing.pause:
            self._caught_up = False
        elif not self._caught_up and now - self._last_arrival >= self.timing.quiet:
            self._caught_up = True  # it was waited for, so nothing older lies before it
        self._last_arrival = now
        self.came += 1
        if event.event_name == c.TICK:
            self.newest = (event.window_id, event.columns.get("game_phase"), event.columns.get("tick"))
        if event.player_id is not None:
            self.venue.take(event)
        self.events.append((event, now))
        self._arrived.set()

    def beat(self) -> None:
        """Note that the process runs, and tell the gate."""
        now = self.steady()
        if now - self._last_beat > self.timing.pause:
            self._caught_up = False
        self._last_beat = now
        self.gate.say("feed" if now - self._last_arrival < self.timing.pause else "alive")

    async def run(self) -> None:
        """Play events as they come, until `stopping`."""
        while not self.stopping:
            if not self.events:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            event, arrival = self.events.popleft()
            await self._play(event, arrival)
            self.handled += 1

    async def _play(self, event: Event, arrival: float) -> None:
        if self.gate.status.flatten:
            await self.flatten()
        if event.player_id is not None:
            if self._unknown is not None:
                self._resolve(event, self._unknown)
            if not self._opened and event.event_name == c.PLAYER:
                await self._try_to_open()  # a greeting tells the tick first and the money after it
            return
        self._alarm(self.watch.take(event))
        result = self.player.follow(event)
        if result is not None:
            self._alarm(self.watch.end_round(result.window_id))
            await self._settle(result)
        if event.event_name == c.TICK and event.window_id is not None:
            self.gate.say("tick", window=event.window_id, tick=self._tick_of(event))
            self._compare_money(event)
            if not self._opened or self.gate.status.state == "HALTED":
                await self._try_to_open()
        while self.player.is_asked:
            await self._decide(arrival)

    def _alarm(self, alarms: list[DriftAlarm]) -> None:
        """Say that the game has changed; what follows is a person's decision."""
        self.alarms += alarms
        for alarm in alarms:
            self.gate.say("drift", alarm=asdict(alarm))

    def _compare_money(self, event: Event) -> None:
        """Close the gate where a round begins with other money than the ledger's."""
        feed_money = self.venue.feed_money
        if feed_money is None or event.columns.get("game_phase") != Phase.PRESALE or not self._opened:
            return
        if feed_money.cash != self.player.ledger.ledger.cash:
            self._opened = False
            self.gate.say("lost", why="the money that the feed tells is not the ledger's")

    @staticmethod
    def _tick_of(event: Event) -> int:
        tick: Any = event.columns.get("tick")
        return int(tick)

    async def _try_to_open(self) -> None:
        """Reconcile, where nothing is latched: what is told must be what is held, and flat."""
        if self.gate.status.latched or self.player.round is None or self.player.ledger.ledger.cost:
            return
        if self.player.ledger.phase not in (Phase.COOLDOWN, Phase.PRESALE):
            return
        feed_money = self.venue.feed_money
        if feed_money is None:
            cash, count = self.player.ledger.ledger.cash, 0
        elif feed_money.cash is None:
            return  # the feed has not said yet what we have
        else:
            cash, count = feed_money.cash, feed_money.open
        answer = await self.gate.ask("open", cash=cash, open=count)
        self._opened = bool(answer and answer["allowed"])
        if self._opened and feed_money is not None and cash != self.player.ledger.ledger.cash:
            assert feed_money.event is not None
            self.player.adopt(feed_money.event)  # an order of before a crash was settled by what the feed tells

    async def _decide(self, arrival: float) -> None:
        """Ask the policy, the gate and the venue; note all of it."""
        now = self.player.round
        assert now is not None
        try:
            decision = self.player.choose()
            is_valid = self.player.game.actions[self.player.actions].holds(decision.action)
            problem = "" if is_valid else f"the policy gave {decision.action!r}, which is no action"
        except Exception as error:  # noqa: BLE001  # a policy's failure is a wait and a count
            decision, problem = self._waiting_decision(), f"{type(error).__name__}: {error}"
        notes = self.rounds.setdefault(now.window_id, BotRound())
        notes.decisions.append(decision)
        self.watch.observe(decision.observation)
        number = len(notes.decisions) - 1
        if problem:
            self.gate.say("error", what=problem[:500])
            decision = replace(decision, action=tuple(0 for _ in self._heads()))
            notes.decisions[-1] = decision
            notes.failures += 1
        executed = await self._execute(decision, notes, number, arrival, failed=bool(problem))
        notes.executed.append(executed)

    def _heads(self) -> tuple[tuple[str, ...], ...]:
        return self.player.game.actions[self.player.actions].heads

    def _waiting_decision(self) -> LiveDecision:
        """Give a wait in place of a choice that could not be made."""
        now, ledger = self.player.round, self.player.ledger
        assert now is not None
        assert self.player.event is not None
        row = np.zeros(0, np.float32)  # nothing was observed
        action = tuple(0 for _ in self._heads())
        return LiveDecision(
            now.window_id, ledger.tick, ledger.phase, now.adjustments, ledger.price, row, action, self.player.event.ts
        )

    async def _execute(
        self, decision: LiveDecision, notes: BotRound, number: int, arrival: float, *, failed: bool = False
    ) -> tuple[int, ...]:
        """Carry a decision out as far as the gate lets it; give what was carried out."""
        ledger = self.player.ledger
        presses, orders = split_action(
            self.player.actions, decision.action, ledger.bet, ledger.share, ledger.ledger.cash
        )
        line = self._line(decision) | ({"failed": True} if failed else {})
        if self._is_person_playing(decision):
            notes.taken_over = True
            line["note"] = "a person plays"
            action = self._pressed_action()
            if not any(action):
                self.gate.say("nothing", line=line)
                return self._wait(decision, presses=False)
            decision = replace(decision, action=action)
            presses, orders = split_action(self.player.actions, action, ledger.bet, ledger.share, ledger.ledger.cash)
        if presses:
            await self.venue.adjust(presses)
        orders = tuple(order for order in orders if self._would_fill(order))
        if not orders:
            self.gate.say("nothing", line=line)
            self.player.carry_out(decision.action)
            return decision.action
        if len(orders) > 1:
            # two orders of one choice pass the gate one by one; the ledger carries them out together or not at all
            notes.orders[number] = OrderRecord("", "+".join(order[0] for order in orders), 0, "two orders at once")
            self.gate.say("nothing", line={**line, "note": "two orders at once are not sent"})
            return self._wait(decision)
        return await self._send(decision, notes, number, arrival, orders[0], line)

    def _would_fill(self, order: tuple[str, int, int]) -> bool:
        """Tell whether the game would take an order: one that it would refuse is a press without effect."""
        from playproof.workflows.crash.choice_masks import may_bet, may_buy

        button, amount, share = order
        ledger = self.player.ledger
        if button == "SELL":
            return ledger.phase is Phase.ACTIVE and not ledger.skips and ledger.ledger.qty * share // 100 > 0
        return may_buy(ledger, amount) if button == "BUY" else may_bet(ledger, amount)

    async def _send(
        self,
        decision: LiveDecision,
        notes: BotRound,
        number: int,
        arrival: float,
        order: tuple[str, int, int],
        line: dict[str, Any],
    ) -> tuple[int, ...]:
        button, amount, share = order
        ledger = self.player.ledger
        self._serial += 1
        order_id = f"{self.gate.plan.session_id}-{self._serial}"
        kind = "exit" if button == "SELL" else "enter"
        late = await self._too_old(arrival)
        proposal = OrderProposal(
            order_id, decision.window_id, decision.tick, kind, amount if kind == "enter" else 0, self.gate.plan.version
        )
        record = OrderRecord(order_id, button, amount, "allowed")
        if late:
            self.gate.say("nothing", line={**line, **_shown_order(proposal, button), "note": late})
            notes.orders[number] = replace(record, answer=late)
            return self._wait(decision)
        answer = await self.gate.propose(proposal, {**line, "button": button})
        if not answer.allowed:
            notes.orders[number] = replace(record, answer=answer.reason)
            return self._wait(decision)
        if self.steady() - arrival > self.timing.oldest or self._newer_tick():
            # reserved and not sent: the money comes back, and the log says why
            self._report(OrderOutcome("refused", ledger.ledger.cash, *self._open(), order_id, "not sent: too old"))
            notes.orders[number] = replace(record, answer="old tick: it was overtaken while the gate was asked")
            return self._wait(decision)
        result = await self.venue.order(button, amount, share)
        return self._enter(decision, notes, number, record, result)

    def _enter(
        self, decision: LiveDecision, notes: BotRound, number: int, record: OrderRecord, result: VenueAnswer
    ) -> tuple[int, ...]:
        """Enter the answer to an order into the ledger and the account."""
        ledger = self.player.ledger
        tick_filled = self._newest_tick(decision)
        notes.orders[number] = replace(
            record, outcome=result.outcome, price=result.price, tick_filled=tick_filled, detail=result.reason
        )
        if result.outcome == "filled":
            self.player.carry_out(decision.action, price=result.price)
            detail = f"{record.button} at {result.price if result.price is not None else decision.price!r}"
            self._report(OrderOutcome("filled", ledger.ledger.cash, *self._open(), record.order_id, detail))
            return decision.action
        executed = self._wait(decision)
        if result.outcome == "refused":
            self._report(OrderOutcome("refused", ledger.ledger.cash, *self._open(), record.order_id, result.reason))
        else:
            self._unknown = (record, decision.action)
            self._report(OrderOutcome("unknown", 0, 0, 0, record.order_id, result.reason))
            self.gate.say("error", what=f"order {record.order_id}: {result.reason}")
        return executed

    def _resolve(self, event: Event, unknown: tuple[OrderRecord, tuple[int, ...]]) -> None:
        """Learn from the feed what became of an order that was not answered in time."""
        record, action = unknown
        ledger = self.player.ledger
        if event.event_name == c.ACK and event.columns.get("order_kind") == record.button:
            answer = to_answer(event)
            if answer.outcome == "filled":
                self.player.fill(action, answer.price)
        elif event.event_name == c.PLAYER and event.columns.get("cash") != ledger.ledger.cash:
            self.player.adopt(event)
            answer = VenueAnswer("filled")
        else:
            return
        self._unknown = None
        detail = f"{record.button}: the feed told after the answer was given up"
        self._report(OrderOutcome(answer.outcome, ledger.ledger.cash, *self._open(), record.order_id, detail))

    def _open(self) -> tuple[int, int]:
        """Give what is at stake, and in how many positions."""
        money = self.player.ledger.ledger
        return money.cost + money.open_stake, (money.cost > 0) + (money.open_stake > 0)

    def _report(self, outcome: OrderOutcome) -> None:
        self.gate.say("report", outcome=asdict(outcome))

    async def _too_old(self, arrival: float) -> str:
        """Say why a tick is no longer now; empty if it is. What lies ready is read first."""
        for _ in range(2):
            await asyncio.sleep(0)
        if not self._caught_up:
            return "catching up: the process stood still"
        for _ in range(READS):
            if not self.unread() > 0:
                break
            await asyncio.sleep(0)
        if self._newer_tick():
            return "old tick: a newer one has followed"
        if self.steady() - arrival > self.timing.oldest:
            return f"old tick: {self.steady() - arrival:.3f} s old"
        return ""

    def _newer_tick(self) -> bool:
        return any(event.event_name == c.TICK for event, _ in self.events)

    def _newest_tick(self, decision: LiveDecision) -> int:
        """Give the newest tick of the round that has arrived."""
        ticks = [
            self._tick_of(event)
            for event, _ in self.events
            if event.event_name == c.TICK and event.window_id == decision.window_id
        ]
        return max([decision.tick, *ticks])

    def _wait(self, decision: LiveDecision, *, presses: bool = True) -> tuple[int, ...]:
        """Carry out all of a decision but its order."""
        action = (
            (0, *decision.action[1:]) if presses and self.player.actions != "trader" else (0,) * len(decision.action)
        )
        self.player.carry_out(action)
        return action

    def _line(self, decision: LiveDecision) -> dict[str, Any]:
        heads = self._heads()
        return {
            "window": decision.window_id,
            "tick": int(decision.tick),
            "substep": decision.substep,
            "observation": decision.observation_hash,
            "version": self.gate.plan.version,
            "proposal": [int(index) for index in decision.action],
            "words": " ".join(head[index] for head, index in zip(heads, decision.action, strict=True)),
        }

    def _pressed_action(self) -> tuple[int, ...]:
        """Give the next button that a person pressed as an action; a wait where none was."""
        heads = self._heads()
        button = self.person.popleft() if self.person else ""
        return tuple(head.index(button) if button in head else 0 for head in heads)

    def _is_person_playing(self, decision: LiveDecision) -> bool:
        """Tell whether a person has taken over; the round in which he did is his to its end."""
        window = decision.window_id
        if (self.folder / TAKE_OVER).exists():
            if self._taken_over != window:
                self._taken_over = window
                self.gate.say("note", line={"kind": "take-over", "window": window, "tick": int(decision.tick)})
                self.on_intervention(window, int(decision.tick))
            return True
        return self._taken_over == window

    async def _settle(self, settled: SettledRound) -> None:
        """Enter the end of a round, once the venue has told its money."""
        notes = self.rounds.setdefault(settled.window_id, BotRound())
        notes.settled = settled
        (self.folder / TAKE_OVER).unlink(missing_ok=True)
        cash = settled.cash
        feed_money = self.venue.feed_money
        if feed_money is not None:
            await self._until_told(cash, after=None if self._unknown is None else feed_money.updates)
            notes.told_cash = feed_money.cash
            if feed_money.cash is not None and feed_money.cash != cash:
                self.player.adopt_cash(feed_money.cash)
                cash = feed_money.cash
        self._unknown = None
        self._report(OrderOutcome("settled", cash, 0, 0, "", f"round {settled.window_id}"))
        if settled.opened:
            self.gate.say("well")
        self.settled.set()

    async def _until_told(self, cash: int, after: int | None) -> None:
        """Wait a moment for what the venue tells of the round's end.

        Where nobody knows of an order, that the money did not change says nothing: only a later update counts.
        """
        feed_money = self.venue.feed_money
        assert feed_money is not None
        for _ in range(600):
            is_new = after is None or feed_money.updates > after
            if is_new and (after is not None or feed_money.cash == cash) and feed_money.open == 0:
                return
            if any(event.event_name == c.TICK for event, _ in self.events):
                return  # time went on: what was told stands
            await asyncio.sleep(0.005)

    async def flatten(self) -> None:
        """After a latch: close what can be closed, once, and say what could not be verified."""
        ledger = self.player.ledger if self.player.round is not None else None
        feed_money = self.venue.feed_money
        self.gate.status.flatten = False
        detail = "nothing was open"
        if ledger is not None and ledger.ledger.qty > 0 and ledger.phase is Phase.ACTIVE:
            answer = await self.venue.order("SELL", 0, FULL_SHARE)
            detail = f"closing sale: {answer.outcome} {answer.reason}".strip()
            if answer.outcome == "filled":
                self.player.close(answer.price)
                self._report(OrderOutcome("filled", ledger.ledger.cash, *self._open(), "", "closed after a latch"))
        count: int | None
        if feed_money is None:
            count = self._open()[1] if ledger is not None else 0
        else:
            count = None if feed_money.cash is None else feed_money.open
        if ledger is not None and ledger.ledger.sidebet is not None:
            detail += "; a sidebet cannot be cancelled and ends with its ticks"
        result = await self.gate.ask("flat", open=count, detail=detail)
        self.verdicts.append(str(result["verdict"]) if result else "the gate is gone: nothing was verified")


def _shown_order(proposal: OrderProposal, button: str) -> dict[str, Any]:
    return {"button": button, "order_kind": proposal.kind, "stake": proposal.stake}
