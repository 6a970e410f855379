"""A shadow experiment on a live feed: both versions decide on every tick, each is settled on paper, nothing is sent.

A round counts once both have seen it from its presale to its rug without a lost tick. The feed is recorded like a
spectator's. Leaves out: the test and its endings (operate.experiments).
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime

from playproof.game import load_game
from playproof.home import home
from playproof.operate.experiments.plan import ExperimentPlan, ExperimentUnit
from playproof.record.recorder import Recorder, steady_clock
from playproof.record.redaction import Redaction, clean_url, load_key
from playproof.store import EventLog
from playproof.validate.examine import Subject
from playproof.workflows.crash.live_feed import follow_feed
from playproof.workflows.crash.live_player import LiveDecision, LivePlayer, SettledRound

Take = Callable[[list[ExperimentUnit]], bool]
"""Count units; tell whether the experiment goes on."""


class RoundPairs:
    """Brings the rounds of two players together; one that either of them missed a part of is left out."""

    def __init__(self) -> None:
        self._waiting: tuple[dict[str, SettledRound], dict[str, SettledRound]] = ({}, {})
        self.left_out = 0

    def add(self, index: int, settled: SettledRound) -> ExperimentUnit | None:
        """Take a round that player 0 (A) or 1 (B) settled; give the pair once both have."""
        other = self._waiting[1 - index].pop(settled.window_id, None)
        if other is None:
            self._waiting[index][settled.window_id] = settled
            return None
        if not (settled.complete and other.complete):
            self.left_out += 1
            return None
        a, b = (settled, other) if index == 0 else (other, settled)
        return ExperimentUnit(settled.window_id, a.pnl, b.pnl)


def follow_shadow(plan: ExperimentPlan, a: Subject, b: Subject, take: Take) -> int:
    """Follow the plan's feed until the experiment ends or Ctrl-C; give how many rounds were left out."""
    return asyncio.run(shadow_rounds(plan, a, b, take, asyncio.Event()))


async def shadow_rounds(plan: ExperimentPlan, a: Subject, b: Subject, take: Take, stop: asyncio.Event) -> int:
    """Follow the plan's feed on this loop until the experiment ends or `stop` is set."""
    game, pairs = load_game(plan.game), RoundPairs()
    players = [LivePlayer(subject, seed=plan.seed, game=game) for subject in (a, b)]

    def note(player: LivePlayer, result: LiveDecision | SettledRound) -> None:
        if not isinstance(result, SettledRound):
            return
        unit = pairs.add(0 if player is players[0] else 1, result)
        if unit is not None and not stop.is_set() and not take([unit]):
            stop.set()

    session = f"ab-{plan.name}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{time.monotonic_ns() % 10**6:06d}"[-64:]
    with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):  # not in the main thread
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
    clock = steady_clock()
    with EventLog.open(home(), game.columns, "shadow") as store:
        recorder = Recorder(
            game, store, session, "public_ws", redaction=Redaction(load_key(home()), keep_names=False), clock=clock
        )
        recorder.start({"url": clean_url(plan.on), "game": game.name, "experiment": plan.name})
        try:
            await follow_feed(plan.on, recorder, clock, players, stop, note, {"name": "shadow"})
        finally:
            recorder.close({"ended": "experiment"})
    return pairs.left_out
