"""Rounds made up to try rewards on: rounds of the published game, ladders of exits, and rounds that stand still."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from playproof.events import Event
from playproof.game import AccountSnapshot, Fact
from playproof.game.rewards import Play, Probes
from playproof.games.crash.recording import columns as c
from playproof.games.crash.rules.actions import BETS, MAIN
from playproof.games.crash.rules.windows import Phase
from playproof.games.crash.rules.worlds import TICK_MS, counter_round, get_world

ROUND = "20250101-0000000000000000"
_START = datetime(2025, 1, 1, tzinfo=UTC)
_WAIT = (0, 0)
_BUY, _SELL, _BET = ((MAIN.index(name), 0) for name in ("BUY", "SELL", "SIDEBET"))
_MORE = (MAIN.index("BUY"), BETS.index("INC_01"))
LONGEST = 200
"""Ticks of a dealt round that are played; a longer one is rugged there, so that checks stay quick."""
EXITS = (0.2, 0.6, 0.95, 1.0, 1.05, 1.5, 3.0, 12.0, 30.0, 60.0)
"""Exit prices of a ladder, as multiples of the entry price."""
RUGS = (0.0, 0.01, 0.02, 0.5, 0.9, 1.0, 1.5)
"""Rug prices of a ladder, as multiples of the last price."""


def to_events(prices: Sequence[float]) -> tuple[Event, ...]:
    """Tell a round of these prices by tick, the last one the rug price."""
    facts: list[Fact] = [c.fact(c.ROUND, {}, ROUND), _tick(0, 1.0, Phase.PRESALE)]
    facts += [_tick(tick, price, Phase.ACTIVE) for tick, price in enumerate(prices[:-1])]
    facts.append(_tick(len(prices) - 1, prices[-1], Phase.RUGGED))
    beat = timedelta(milliseconds=TICK_MS)
    return tuple(fact.event(_START + beat * index, "probe", index) for index, fact in enumerate(facts))


def _tick(tick: int, price: float, phase: Phase) -> Fact:
    return c.fact(c.TICK, {"tick": tick, "price": float(price), "game_phase": int(phase)}, ROUND)


def windows(rng: np.random.Generator, count: int) -> list[tuple[Event, ...]]:
    """Deal rounds of the published game, cut where they get long."""
    world, seed = get_world("published"), int(rng.integers(2**63))
    dealt = (counter_round(world, seed, number).prices for number in range(count))
    return [to_events(prices if len(prices) <= LONGEST else (*prices[:LONGEST], 0.02)) for prices in dealt]


def _walk(rng: np.random.Generator, length: int) -> list[float]:
    """Draw a path that begins with 1."""
    path: list[float] = np.exp(np.cumsum(rng.normal(0.003, 0.03, length - 1))).tolist()
    return [1.0, *path]


def ladders(rng: np.random.Generator) -> list[tuple[Play, ...]]:
    """Draw rounds in which one exit price alone differs: that of a sale, or that of the rug."""
    return [ladder for _ in range(4) for ladder in (_sales(rng), _catches(rng))]


def _entry(rng: np.random.Generator) -> tuple[int, list[tuple[int, int]]]:
    """Draw when to buy (0 is the presale) and how much."""
    index = int(rng.integers(0, 12))
    return index, [_WAIT] * index + [_BUY if rng.random() < 0.5 else _MORE]


def _sales(rng: np.random.Generator) -> tuple[Play, ...]:
    """Sell at better and better prices; the round goes on as it would have."""
    index, actions = _entry(rng)
    hold = int(rng.integers(1, 60))
    sale = max(0, index - 1) + hold  # the tick of the sale: decision 0 is the presale, decision n is tick n - 1
    path = _walk(rng, sale + 20)
    script = (*actions, *[_WAIT] * (sale - index), _SELL)
    entry = path[max(0, index - 1)]
    return tuple(
        Play(f"sold at {entry * times:.3g}", to_events([*path[:sale], entry * times, *path[sale + 1 :], 0.02]), script)
        for times in EXITS
    )


def _catches(rng: np.random.Generator) -> tuple[Play, ...]:
    """Be caught by rugs at better and better prices."""
    _, actions = _entry(rng)
    path = _walk(rng, int(rng.integers(15, 60)))
    return tuple(
        Play(f"caught at {path[-1] * times:.3g}", to_events([*path, path[-1] * times]), tuple(actions))
        for times in RUGS
    )


def cycles(rng: np.random.Generator) -> list[Play]:
    """Trade and press in rounds whose price stands still at 1, 32 or 0.5, where rounding takes nothing."""
    presses = [(0, BETS.index(name)) for name in ("INC_001", "HALF", "DOUBLE", "CLEAR")]
    loops: list[list[tuple[int, int]]] = [
        [_BUY, _SELL],
        [_BUY, _WAIT, _WAIT, _SELL],
        [_BUY, *[_WAIT] * 30, _SELL],
        [_BUY, _BUY, _SELL, _WAIT],
        [_SELL, _WAIT],
        [_SELL],
        [presses[0], presses[3], presses[0]],
        [presses[1], presses[2]],
        [_BUY, *[_WAIT] * 100, _SELL],
    ]
    choices = [_WAIT, _BUY, _SELL, *presses]
    loops += [[choices[int(integer)] for integer in rng.integers(len(choices), size=12)] for _ in range(6)]
    plays = []
    for level in (1.0, 32.0, 0.5):
        events = to_events([1.0, *[level] * 128, 0.02])
        for number, loop in enumerate(loops):
            script = [_WAIT, _WAIT, *loop * (126 // len(loop))]
            plays.append(Play(f"loop {number} at {level:g}", events, tuple(script)))
    return plays


def state(standing: AccountSnapshot) -> Hashable:
    """Give money, position, bet field and price; not the clock, and not what only counts."""
    payload = standing.facts
    names = ("qty", "cost", "sidebet_stake", "price", "phase", "bet_amount", "sell_share")
    return standing.cash, standing.equity, *(payload.get(name) for name in names)


PROBES = Probes("buttons", windows, ladders, cycles, state)
