"""What a round came to, and what is computed from it: label, ceiling."""

from __future__ import annotations

from collections.abc import Sequence

from playproof.events import Event, Value
from playproof.game import Outcome
from playproof.games.crash.recording import columns as c
from playproof.games.crash.rules.money import SIDEBET_TICKS
from playproof.games.crash.rules.windows import Phase


def read_outcome(events: Sequence[Event]) -> Outcome | None:
    """Give a round's end and peak; None unless every tick from 0 to the rug was received.

    The rug is the lowest tick that was called rugged; ticks that came late count as received.
    """
    prices: dict[int, float] = {}
    rugs: dict[int, float] = {}
    for event in events:
        tick, price, phase = (event.columns.get(name) for name in ("tick", "price", "game_phase"))
        if event.event_name in (c.TICK, c.LATE_TICK) and isinstance(tick, int) and isinstance(price, float):
            if phase == Phase.RUGGED:
                rugs[tick] = price
            elif phase == Phase.ACTIVE:
                prices[tick] = price
    rug_tick = min(rugs, default=None)
    if rug_tick is None or any(tick not in prices for tick in range(rug_tick)):
        return None
    payload: dict[str, Value] = {
        "rug_tick": rug_tick,
        "rug_price": rugs[rug_tick],
        "peak": max([rugs[rug_tick], *(prices[tick] for tick in range(rug_tick))]),
        "ended_by_rug": True,
    }
    return Outcome(events[0].window_id or "", payload | _revealed(events))


def _revealed(events: Sequence[Event]) -> dict[str, Value]:
    """Give what was published of the seed: the commitment, and the seed itself once it was revealed."""
    payload: dict[str, Value] = {"server_seed": None, "server_seed_hash": None, "game_version": None}
    for event in events:
        if event.event_name in (c.ROUND, c.COMPLETE):
            payload |= {name: event.columns[name] for name in payload if event.columns.get(name) is not None}
    return payload


def rug_within_40(outcome: Outcome, event: Event) -> float | None:
    """Give 1 if a sidebet placed at a decision would win: the rug comes no later than 40 ticks after it."""
    rug_tick, tick = outcome.values["rug_tick"], event.columns.get("tick")
    if not isinstance(rug_tick, int) or not isinstance(tick, int):
        return None
    return float(rug_tick <= tick + SIDEBET_TICKS)
