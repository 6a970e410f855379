"""How recorded play of the crash game is read: where presses belong, when a round is over, what a recording lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from playproof.events import Event
from playproof.game import RecordingGap, RecordingRules, Terms
from playproof.games.crash.features import encoder
from playproof.games.crash.recording import columns as c
from playproof.games.crash.recording.player_ledger import CrashLedger
from playproof.games.crash.rules.windows import Phase

NO_RUG = "no rug was seen"
BEGAN_LATE = "it began in mid-round"
LOST_TICKS = "ticks were lost"


def anchors(event: Event) -> bool:
    """Tell whether a press may belong to an event: to any tick, that of the cooldown included, up to the rug."""
    return event.event_name == c.TICK and event.columns.get("game_phase") != Phase.RUGGED


def ends(event: Event) -> bool:
    """Tell whether a round is over: at its rug."""
    return event.event_name == c.TICK and event.columns.get("game_phase") == Phase.RUGGED


def updates(event: Event) -> bool:
    """Tell whether the player's whole state was told."""
    return event.event_name == c.PLAYER


def lack(events: Sequence[Event]) -> RecordingGap:
    """Say what the recording of a round lacks."""
    payload = [event.columns for event in events if event.event_name in (c.TICK, c.LATE_TICK)]
    active = [
        tick for item in payload if item.get("game_phase") == Phase.ACTIVE and isinstance(tick := item.get("tick"), int)
    ]
    return name_lack(any(item.get("game_phase") == Phase.RUGGED for item in payload), min(active, default=None))


def name_lack(rugged: bool, first_tick: int | None) -> RecordingGap:
    """Say what a round lacks of which the rug was seen or not, and whose first active tick was this one."""
    if not rugged:
        return RecordingGap(NO_RUG)
    return RecordingGap(BEGAN_LATE if first_tick != 0 else LOST_TICKS, ended=True)


def terms(events: Sequence[Event], asked: Terms) -> Terms:
    """Give the money that a session's player had when he was first heard of."""
    cashes = (event.columns.get("cash") for event in events if event.event_name == c.PLAYER)
    cash = next((item for item in cashes if isinstance(item, int)), None)
    return replace(asked, cash=cash) if cash is not None else asked


def settles(before: Event, event: Event) -> bool:
    """Tell whether a tick has just ended a sidebet: the table tells the result and the money with it."""
    if event.event_name == c.BET:
        return before.event_name == c.TICK and event.columns.get("sidebet_type") == "payout"
    return event.event_name == c.PLAYER and before.event_name == c.BET


def quiet(event: Event, observation: str) -> bool:
    """Tell whether an event is for the record alone; others' trades are that to a set that knows nothing of them."""
    return event.event_name not in encoder.SHAPES or (event.event_name == c.TRADE and observation in encoder.LIGHT)


SHOWN = ("bet_amount", "sell_share", "sidebet_stake")
ALIGNMENT = RecordingRules(anchors, ends, updates, lack, terms, CrashLedger.apply_own, settles, quiet, SHOWN)
