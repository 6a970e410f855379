"""What can be seen of a round step by step: price, money, position and bet field, entries, exits and the rug.

Watched lanes play exactly as others do; the kernel writes down how each player stood before and after a
step, in the same integers that the ledger counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof.game.replay import Arrays, LaneSnapshot, Line, Mark, Number, ReplayRules, Values
from playproof.game.vector_env import Actions, Chosen, StepResult, VectorTerms
from playproof.games.crash.rules.actions import ACTIONS, SIZES, TRADER_MAIN
from playproof.games.crash.sim import kernel
from playproof.games.crash.sim.lanes import addresses
from playproof.games.crash.sim.vector_env import CrashVectorGame
from playproof.money import UNIT, show

LINES = (
    Line("tick", "", "ticks", stepped=True),
    Line("price", "price", "x"),
    Line("equity", "profit so far", "coins", UNIT, stepped=True, drawn="change"),
    Line("cash", "", "coins", UNIT, stepped=True),
    Line("position", "position", "coins at price 1", UNIT, stepped=True),
    Line("cost of it", "", "coins", UNIT, stepped=True),
    Line("sidebet", "bets", "coins", UNIT, stepped=True),
    Line("bet field", "bets", "coins", UNIT, stepped=True),
)
_MOMENT = {
    "tick": "tick",
    "price": "price",
    "equity": "equity",
    "cash": "cash",
    "position": "qty",
    "cost of it": "cost",
    "sidebet": "sidebet_stake",
}
_BET = kernel.FACTS.index("bet_amount")
_CLIENT = ("trade_id_hash", "client_timestamp", "latency_ms")
_EXECUTION = ("execution_tick", "execution_price")


class ObservedCrash(CrashVectorGame):
    """Lanes of the game that also tell where each player stood before and after a step."""

    def __init__(self, terms: VectorTerms, count: int) -> None:
        super().__init__(terms, count)
        lanes = self._lanes
        if lanes.purse is None:
            self._moments = (np.zeros(count, kernel.MOMENT), np.zeros(count, kernel.MOMENT))
            lanes.config["watched"] = 1
            lanes._addresses[kernel.BEFORE], lanes._addresses[kernel.AFTER] = addresses(*self._moments)
        else:
            self._moments = (lanes.purse.before, lanes.purse.after)
        self._told: tuple[LaneSnapshot, LaneSnapshot] | None = None

    def step(self, actions: Actions) -> StepResult:
        """Take an action in every lane."""
        bets, traded = self._lanes.lanes["bet"].copy(), self._traded()
        moved = super().step(actions)
        ended = moved.ended.lanes
        bets_after, traded_after = self._lanes.lanes["bet"].copy(), self._traded()
        bets_after[ended] = self._lanes.final_facts[: len(ended), _BET]
        if "execution_price" in self.features:
            traded_after[ended] = moved.ended.rows[:, self.features.index("execution_price")] > 0.0
        self._told = (
            _standing(self._moments[0], bets, self._missing(traded)),
            _standing(self._moments[1], bets_after, self._missing(traded_after)),
        )
        return moved

    def before(self) -> LaneSnapshot:
        """Tell how every lane stood when the last step began."""
        assert self._told is not None
        return self._told[0]

    def after(self) -> LaneSnapshot:
        """Tell how every lane stood when the last step was over."""
        assert self._told is not None
        return self._told[1]

    def _traded(self) -> Chosen:
        traded: Chosen = self._lanes.states["execution_price"] > 0.0
        return traded

    def _missing(self, traded: Chosen) -> Chosen | None:
        """Tell what rows of the set `recorded` hold fill values for; `policy` has none."""
        names = self.features
        if self.settings.observation == "policy":
            return None
        unknown = np.zeros((self.count, len(names)), np.bool_)
        unknown[:, [names.index(name) for name in _CLIENT]] = True
        unknown[:, [names.index(name) for name in _EXECUTION]] = ~traded[:, None]
        return unknown


def _standing(moments: NDArray[Any], bets: NDArray[np.int64], missing: Chosen | None) -> LaneSnapshot:
    values = {name: moments[field].copy() for name, field in _MOMENT.items()}
    return LaneSnapshot(values | {"bet field": bets}, missing)


def watch(terms: VectorTerms, count: int) -> ObservedCrash:
    """Make lanes that can be watched."""
    return ObservedCrash(terms, count)


def say(action: Sequence[int], actions: str) -> str:
    """Put an action into words: the bet field first, as it is pressed first, then the order."""
    heads = ACTIONS[actions].heads
    names = [head[int(index)] for head, index in zip(heads, action, strict=True)]
    if actions == "trader":
        return _say_trader(int(action[0]), SIZES[int(action[1])], names[2])
    pressed = [name for name, index in zip(names[1:], action[1:], strict=True) if index]
    return " + ".join([*pressed, *names[:1]] if action[0] or not pressed else pressed)


def _say_trader(main: int, size: int, share: str) -> str:
    name = TRADER_MAIN[main]
    if name.startswith("BUY"):
        return f"{name} {show(size).rstrip('0')}"
    return f"{name} {share}" if name == "PARTIAL_SELL" else name


def marks(values: Values, actions: Sequence[str]) -> tuple[Mark, ...]:
    """Find entries, exits, sidebets and the rug."""
    return tuple(sorted(_marks(values, actions), key=lambda mark: mark.point))


def _marks(values: Values, actions: Sequence[str]) -> Iterator[Mark]:
    end, prices = len(actions), values["price"]
    for step, (held, then) in enumerate(_moves(values["position"])):
        caught = step + 1 == end and not any(word in actions[step] for word in ("SELL", "EXIT"))
        if then > held:
            yield Mark(step, "price", "entry", f"bought at {_price(prices[step])}")
        elif then < held and caught:
            yield Mark(end, "price", "lost", f"held into the rug, sold at {_price(prices[end])}")
        elif then < held:
            yield Mark(step, "price", "exit", f"sold at {_price(prices[step])}")
    for step, (held, then) in enumerate(_moves(values["sidebet"])):
        if then > held:
            yield Mark(step, "sidebet", "bet", "sidebet placed")
        elif then < held:
            won = step + 1 == end
            yield Mark(step + 1, "sidebet", "won" if won else "lost", "sidebet won" if won else "sidebet lost")
    yield Mark(end, "price", "end", f"rug at {_price(prices[end])}, tick {values['tick'][end]:.0f}")


def _moves(values: Sequence[Number]) -> Iterator[tuple[float, float]]:
    """Give the value before and after each step; what is unknown did not move."""
    for before, after in pairwise(values):
        known = before is not None and after is not None
        yield (before, after) if known else (0.0, 0.0)  # type: ignore[misc]


def _price(price: Number) -> str:
    return "an unknown price" if price is None else f"{price:.4f}x"


STORED = (
    Line("tick", "", "ticks", stepped=True),
    Line("price", "price", "x"),
    Line("equity", "profit so far", "coins", UNIT, stepped=True, drawn="change"),
    Line("cash", "", "coins", UNIT, stepped=True),
    Line("position", "position", "coins at price 1", stepped=True),
    Line("sidebet", "bets", "coins", UNIT, stepped=True),
    Line("bet field", "bets", "coins", UNIT, stepped=True),
)


def stored(tables: Mapping[str, Arrays]) -> tuple[tuple[Line, ...], Values]:
    """Give the lines of a recorded round: what was observed as it was stored, money in the ledger's integers."""
    seen, done, paid = tables["observations"], tables["actions"], tables["rewards"]
    values: dict[str, Sequence[Number]] = {
        "tick": [int(item) for item in seen["tick"]],
        "price": _shortest(seen["price"]),
        "equity": [*paid["equity"].tolist(), *paid["next_equity"][-1:].tolist()],
        "cash": [*paid["cash"].tolist(), None],
        "position": _shortest(seen["position_qty"]),
        "sidebet": [0, *done["sidebet_stake"].tolist()],
        "bet field": [None, *done["bet_amount"].tolist()],
    }
    return STORED, values


def _shortest(values: NDArray[Any]) -> list[Number]:
    """Give float32 as the shortest decimals that mean them."""
    return [float(str(item)) for item in values.astype(np.float32)]


REPLAY = ReplayRules(LINES, watch, say, marks, stored)
