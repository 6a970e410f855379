"""Rewards that are wrong on purpose, each with the checks that must find it, and right ones that none may accuse.

`BROKEN` is the reward of an agent that earned 4,890 a round by pressing SELL with nothing to sell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from playproof.game.rewards import (
    Component,
    Components,
    ComposedReward,
    Facts,
    Settings,
    Values,
    compose,
    from_function,
)
from playproof.games.crash.rewards.terms import COMPONENTS, FACTS, TABLE, drawdown, financial
from playproof.money import UNIT

Pay = Callable[[Facts, Settings], Values]
ALL_FACTS = tuple(FACTS)


@dataclass(frozen=True)
class Mutant:
    """One wrong reward."""

    reward: ComposedReward
    killed_by: tuple[str, ...]
    """Checks that must fail, others may too."""


def mutate(name: str, pays: Mapping[str, Pay], enabled: list[str] | None = None, **sections: Any) -> ComposedReward:
    """Make a reward with some components replaced, and without the refusal of double pay."""
    changed = {key: replace(TABLE[key], pay=pay, reads=ALL_FACTS) for key, pay in pays.items()}
    table: dict[str, Component] = {**TABLE, **changed}
    config = {"global": {"enabled_components": enabled or ["financial", "bankruptcy", *pays]}, **sections}
    config["global"]["enabled_components"] = list(dict.fromkeys(config["global"]["enabled_components"]))
    return compose(Components(table, COMPONENTS.lay_out), config, name)


def sell_without_position(facts: Facts, settings: Settings) -> Values:  # noqa: ARG001
    """Pay for every SELL, whatever is held."""
    return np.where(facts["asks_sell"], 25.0, 0.0)


def income_while_alive(facts: Facts, settings: Settings) -> Values:  # noqa: ARG001
    """Pay by the tick."""
    return np.where(facts["rugged"], 0.0, 0.001 * facts["ticks"])


def press_pay(facts: Facts, settings: Settings) -> Values:  # noqa: ARG001
    """Pay for every press."""
    paid: Values = 0.001 * (facts["asks_buy"] | facts["asks_sell"] | facts["asks_sidebet"])
    return paid


def entry_pay(facts: Facts, settings: Settings) -> Values:  # noqa: ARG001
    """Pay for buying, without end."""
    return np.where(facts["bought"] > 0, 1e6 * facts["price_before"], 0.0)


def one_sided_shaping(facts: Facts, settings: Settings) -> Values:  # noqa: ARG001
    """Pay for entering, and take nothing back."""
    before, after = ((facts[f"qty_{when}"] > 0) * 1.0 for when in ("before", "after"))
    return np.maximum(0.99 * after - before, 0.0)


def shaping_left_open(facts: Facts, settings: Settings) -> Values:  # noqa: ARG001
    """Let a potential run up to the end."""
    return 0.99 * facts["tick_after"] / 100 - facts["tick_before"] / 100


def shaping_undiscounted(facts: Facts, settings: Settings) -> Values:  # noqa: ARG001
    """Forget the discount."""
    before, after = ((facts[f"qty_{when}"] > 0) * 1.0 for when in ("before", "after"))
    return after - before


def broke_again(facts: Facts, settings: Settings) -> Values:  # noqa: ARG001
    """Punish bankruptcy at every step."""
    return np.where(facts["equity_after"] + facts["sidebet_stake_after"] < 0.001 * UNIT, -10.0, 0.0)


def settled_twice(facts: Facts, settings: Settings) -> Values:
    """Pay a settled sidebet twice."""
    return financial(facts, settings) + facts["sidebet_paid"] / UNIT


def sidebet_at_stake(facts: Facts, settings: Settings) -> Values:  # noqa: ARG001
    """Count an open sidebet at its stake."""
    after, before = (facts[f"equity_{when}"] + facts[f"sidebet_stake_{when}"] for when in ("after", "before"))
    paid: Values = (after - before) / UNIT
    return paid


def rug_never_booked(facts: Facts, settings: Settings) -> Values:
    """Forget what the rug takes."""
    return np.where(facts["rugged"], 0.0, financial(facts, settings))


def gains_only(facts: Facts, settings: Settings) -> Values:
    """Forget losses."""
    return np.maximum(financial(facts, settings), 0.0)


def cash_only(facts: Facts, settings: Settings) -> Values:  # noqa: ARG001
    """Pay what sales bring."""
    return np.where(facts["sold"] > 0, (facts["cash_after"] - facts["cash_before"]) / UNIT, 0.0)


def recovery_pay(facts: Facts, settings: Settings) -> Values:
    """Pay for recovering from a drawdown."""
    return drawdown(facts, settings) + np.maximum(financial(facts, settings), 0.0)


def early_exit_pay(facts: Facts, settings: Settings) -> Values:  # noqa: ARG001
    """Pay for selling."""
    return np.where(facts["sold"] > 0, 0.001, 0.0)


def high_exit_penalty(facts: Facts, settings: Settings) -> Values:  # noqa: ARG001
    """Punish selling high."""
    return np.where((facts["sold"] > 0) & (facts["price_before"] > 10.0), -1.0, 0.0)


def pressing(facts: Facts) -> Values:
    """Pay profit, and a little for every press."""
    return financial(facts, {}) + press_pay(facts, {})


def optimist(facts: Facts) -> Values:
    """Pay profit, and count losses half."""
    profit = financial(facts, {})
    return np.where(profit < 0.0, 0.5 * profit, profit)


def honest(facts: Facts) -> Values:
    """Pay profit minus a cost of trading."""
    paid: Values = 3.0 * (financial(facts, {}) - 0.001 * (facts["bought"] + facts["sidebet_staked"]) / UNIT)
    return paid


BROKEN = mutate(
    "broken",
    {"rug_avoidance": sell_without_position, "survival_bonus": income_while_alive},
    list(TABLE),
    survival_bonus={"weight": 1.0},
    patience={"bonus": 0.001},
    sweet_spot={"bonus": 0.01},
)
"""The complete configuration of the first attempt: all seventeen components, two of them broken."""

MUTANTS: dict[str, Mutant] = {
    "position check dropped": Mutant(mutate("m1", {"rug_avoidance": sell_without_position}), ("R1", "R4", "R5")),
    "sign flipped": Mutant(mutate("m2", {}, financial={"weight": -1.0}), ("R3", "R4")),
    "double pay": Mutant(mutate("m3", {}, ["financial", "bankruptcy", "sidebet_pnl"]), ("R4",)),
    "survival income": Mutant(mutate("m4", {"survival_bonus": income_while_alive}), ("R2", "R4", "R5")),
    "unclipped bonus": Mutant(mutate("m5", {"zone_entry": entry_pay}), ("R4", "R5")),
    "shaping never taken back": Mutant(mutate("m6", {"potential": one_sided_shaping}), ("R4", "R5")),
    "shaping left open at the end": Mutant(mutate("m7", {"potential": shaping_left_open}), ("R2", "R4")),
    "shaping without the discount": Mutant(mutate("m8", {"potential": shaping_undiscounted}), ("R4",)),
    "bankruptcy every step": Mutant(mutate("m9", {"bankruptcy": broke_again}), ("R4",)),
    "bankruptcy paid out": Mutant(mutate("m10", {}, bankruptcy={"penalty": 10.0}), ("R4",)),
    "paid twice on settlement": Mutant(mutate("m11", {"financial": settled_twice}), ("R4",)),
    "sidebet marked at its stake": Mutant(mutate("m12", {"financial": sidebet_at_stake}), ("R8",)),
    "pay for pressing": Mutant(mutate("m13", {"trade_cost": press_pay}), ("R1", "R4", "R5")),
    "rug never booked": Mutant(mutate("m14", {"financial": rug_never_booked}), ("R4",)),
    "gains only": Mutant(mutate("m15", {"financial": gains_only}), ("R4",)),
    "cash of sales only": Mutant(mutate("m16", {"financial": cash_only}), ("R4", "R5")),
    "cost paid out": Mutant(mutate("m17", {}, ["financial", "trade_cost"], trade_cost={"rate": -0.01}), ("R4", "R5")),
    "recovery paid": Mutant(mutate("m18", {"drawdown": recovery_pay}), ("R4",)),
    "pay for selling": Mutant(mutate("m19", {"volatility_exit": early_exit_pay}), ("R4", "R5")),
    "high exits punished": Mutant(mutate("m20", {"trade_cost": high_exit_penalty}), ("R3",)),
    "function that pays for pressing": Mutant(from_function(COMPONENTS, pressing, "m21"), ("R1", "R4", "R5")),
    "function that halves losses": Mutant(from_function(COMPONENTS, optimist, "m22"), ("R4",)),
    "broken": Mutant(BROKEN, ("R1", "R2", "R4", "R5")),
}

SIDEBET_AT_STAKE = MUTANTS["sidebet marked at its stake"].reward
"""The one that only R8 finds."""


def _clean(*enabled: str, clip: float | None = None, **sections: object) -> ComposedReward:
    general = {"enabled_components": list(enabled), "reward_clip": clip}
    return compose(COMPONENTS, {"global": general, **sections}, "clean")


CLEAN: dict[str, ComposedReward] = {
    "minimal": _clean("financial", "bankruptcy"),
    "the plan's file": _clean("financial", "bankruptcy", clip=1000.0),
    "profit alone": _clean("financial"),
    "costs": _clean("financial", "bankruptcy", "trade_cost", "holding_cost"),
    "scaled": _clean("financial", "bankruptcy", financial={"weight": 100.0}),
    "shaping by exposure": _clean("financial", "bankruptcy", "potential"),
    "shaping by an open sidebet": _clean("financial", "bankruptcy", "potential", potential={"phi": "sidebet_open"}),
    "every penalty": _clean(
        *("financial", "bankruptcy", "rug_avoidance", "temporal_penalty", "trade_cost", "position_size")
    ),
    "drawdown": _clean("financial", "drawdown"),
    "a function": from_function(COMPONENTS, honest, "honest"),
}
