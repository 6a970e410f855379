"""What rewards of the crash game can be made of: seventeen components over the facts of a step.

Every component reads facts of one step alone: what stood before the action, and what stands before
the next one. A tick is worth nothing in itself, so all of them pay 0 for an episode of WAIT but
`patience`, which is there to be warned about. Amounts are paid in coins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof.errors import ConfigError
from playproof.game import Step
from playproof.game.rewards import Component, Components, Facts, Settings, Values
from playproof.games.crash.rules.money import MIN_BET
from playproof.json_types import Json
from playproof.money import UNIT

Array = NDArray[Any]
ACTIVE, RUGGED = 2, 3
"""Phases; written out, as the protocol's own import is heavy."""

MOMENT = (
    *("equity", "cash", "qty", "cost", "sidebet_stake", "price", "low", "peak", "tick", "phase", "opened"),
    *("bought", "sold", "sidebet_staked", "sidebet_paid", "caught"),
)
"""What stands at one moment. The second line counts: paid for lots, got by own sales, staked on and paid by
sidebets, and the cost of lots that were caught by a rug; all since the player sat down."""

FACTS: Mapping[str, str] = {
    "equity_before": "cash and open lots at the price, an open sidebet at 0; units",
    "equity_after": "the same before the next decision",
    "cash_before": "units",
    "cash_after": "units",
    "qty_before": "position; units",
    "qty_after": "position; units",
    "cost_before": "what the held lots cost; units",
    "cost_after": "what the held lots cost; units",
    "sidebet_stake_before": "stake of the open sidebet, 0 if none; units",
    "sidebet_stake_after": "stake of the open sidebet, 0 if none; units",
    "price_before": "multiplier at which the action was carried out",
    "price_after": "multiplier; the rug price on the step that ends in a rug",
    "low_before": "lowest price of the round so far",
    "peak_before": "highest price of the round so far",
    "tick_before": "ticks",
    "tick_after": "ticks",
    "phase_before": "0 cooldown, 1 presale, 2 active, 3 rugged",
    "phase_after": "0 cooldown, 1 presale, 2 active, 3 rugged",
    "ticks": "ticks of the round that passed in this step",
    "rugged": "did the round rug in this step?",
    "opened": "positions opened in this step",
    "bought": "paid for lots in this step; units",
    "sold": "got by the player's own sales in this step, what a rug sold left out; units",
    "sidebet_staked": "staked on a sidebet in this step; units",
    "sidebet_paid": "paid by a won sidebet in this step; units",
    "caught": "cost of the lots that a rug sold in this step; units",
    "held_before": "ticks since the position was opened, 0 if flat",
    "lowest_wealth_before": "lowest wealth (equity and open stake) of the episode so far; units",
    "highest_equity_before": "highest equity of the episode so far; units",
    "asks_buy": "does the action ask for a buy, taken or not?",
    "asks_sell": "does the action ask for a sale, taken or not?",
    "asks_sidebet": "does the action ask for a sidebet, taken or not?",
    "effect": "did the action change anything?",
    "terminated": "did the episode end with this step?",
}
"""Every fact that a component may read."""

_ASKED = {
    name: np.isin(np.arange(8), choices)
    for name, choices in (("buy", (1, 4)), ("sell", (2, 5, 6)), ("sidebet", (3, 4)))
}
"""What each choice of the first head asks for; the same in all action sets, as far as each has it."""


def to_facts(before: Any, after: Any, more: Mapping[str, Any]) -> Facts:
    """Make facts of two moments, each with an array for every name of MOMENT.

    `more` holds the arrays held, lowest, highest, main, effect and terminated, or functions that make them.
    """
    facts: Json = {}
    for name in MOMENT[:10]:
        facts[f"{name}_before"] = partial(before.__getitem__, name)
        facts[f"{name}_after"] = partial(after.__getitem__, name)
    for name in MOMENT[10:]:
        facts[name] = partial(_change, before, after, name)
    for name, asked in _ASKED.items():
        facts[f"asks_{name}"] = partial(asked.__getitem__, more["main"])
    facts |= {
        "ticks": lambda: np.where(before["phase"] == ACTIVE, np.maximum(after["tick"] - before["tick"], 0), 0),
        "rugged": lambda: (after["phase"] == RUGGED) & (before["phase"] != RUGGED),
        "held_before": more["held"],
        "lowest_wealth_before": more["lowest"],
        "highest_equity_before": more["highest"],
        "effect": more["effect"],
        "terminated": more["terminated"],
    }
    return Facts(len(more["main"]), {name: facts[name] for name in FACTS})


def _change(before: Any, after: Any, name: str) -> Array:
    change: Array = after[name] - before[name]
    return change


def lay_out(steps: Sequence[Step]) -> Facts:
    """Lay the steps of one episode out side by side; what is remembered is accumulated over them."""
    rows = [_moment(step.before) for step in steps] + [_moment(steps[-1].after)]
    columns = {name: np.array(column) for name, column in zip(MOMENT, zip(*rows, strict=True), strict=True)}
    before = {name: column[:-1] for name, column in columns.items()}
    after = {name: column[1:] for name, column in columns.items()}
    more = {
        "main": np.array([step.action[0] for step in steps], np.int64),
        "effect": np.array([step.effect for step in steps], np.bool_),
        "terminated": np.array([step.end == "terminated" for step in steps], np.bool_),
        "lowest": np.minimum.accumulate(before["equity"] + before["sidebet_stake"]),
        "highest": np.maximum.accumulate(before["equity"]),
        "held": _held(before, after),
    }
    return to_facts(before, after, more)


def _moment(standing: Any) -> tuple[float, ...]:
    payload = standing.facts
    at, counted = (payload[name] for name in MOMENT[2:10]), (payload[name] for name in MOMENT[11:])
    return (standing.equity, standing.cash, *at, standing.opened, *counted)


def _held(before: Mapping[str, Array], after: Mapping[str, Array]) -> Array:
    """Give the ticks since the position was opened; one that stood at the first step counts from there."""
    indices = np.arange(len(before["qty"]))
    opens = (before["qty"] == 0) & (after["qty"] > 0)
    last = np.maximum.accumulate(np.where(opens, indices, -1))  # (n,) place of the last opening, this step included
    last = np.concatenate([[-1], last[:-1]])
    entry = np.where(last >= 0, before["tick"][last], before["tick"][0])
    return np.where(before["qty"] > 0, before["tick"] - entry, 0)


def _coins(units: Array) -> Values:
    coins: Values = units / float(UNIT)
    return coins


def financial(facts: Facts, settings: Settings) -> Values:  # noqa: ARG001
    """Pay the change in marked equity."""
    return _coins(facts["equity_after"] - facts["equity_before"])


def bankruptcy(facts: Facts, settings: Settings) -> Values:
    """Pay the penalty when wealth first falls below the threshold."""
    threshold = settings["threshold"] * UNIT
    wealth = facts["equity_after"] + facts["sidebet_stake_after"]
    return np.where((wealth < threshold) & (facts["lowest_wealth_before"] >= threshold), settings["penalty"], 0.0)


def rug_avoidance(facts: Facts, settings: Settings) -> Values:
    """Cost a share of what was caught by a rug."""
    return -float(settings["rate"]) * _coins(facts["caught"])


def zone_entry(facts: Facts, settings: Settings) -> Values:
    """Pay for opening a position in a range of prices."""
    inside = (facts["price_before"] >= settings["low"]) & (facts["price_before"] <= settings["high"])
    return np.where(inside & (facts["bought"] > 0) & (facts["qty_before"] == 0), settings["bonus"], 0.0)


def temporal_penalty(facts: Facts, settings: Settings) -> Values:
    """Cost every tick that a position is held beyond some."""
    kept = (facts["qty_before"] > 0) & (facts["cost_after"] + facts["caught"] > 0)
    late = kept & (facts["held_before"] >= settings["after"])
    return np.where(late, -settings["rate"] * facts["ticks"], 0.0)


def survival_bonus(facts: Facts, settings: Settings) -> Values:
    """Pay for every tick that a position is held without a rug."""
    holds = (facts["qty_after"] > 0) & ~facts["rugged"]
    return np.where(holds, settings["bonus"] * facts["ticks"], 0.0)


def volatility_exit(facts: Facts, settings: Settings) -> Values:
    """Pay for selling once the round's range is wide."""
    wide = facts["peak_before"] >= (1.0 + settings["range"]) * facts["low_before"]
    return np.where(wide & (facts["sold"] > 0), settings["bonus"], 0.0)


def sweet_spot(facts: Facts, settings: Settings) -> Values:
    """Pay for every tick that a position is held while the price is in a range."""
    inside = (facts["price_before"] >= settings["low"]) & (facts["price_before"] <= settings["high"])
    return np.where(inside & (facts["qty_after"] > 0), settings["bonus"] * facts["ticks"], 0.0)


def sidebet_timing(facts: Facts, settings: Settings) -> Values:
    """Pay for a sidebet that is placed from some tick on."""
    late = facts["tick_before"] >= settings["after"]
    return np.where(late & (facts["sidebet_staked"] > 0), settings["bonus"], 0.0)


def drawdown(facts: Facts, settings: Settings) -> Values:  # noqa: ARG001
    """Cost whatever deepens the fall of equity below its highest."""
    highest = np.maximum(facts["highest_equity_before"], facts["equity_before"])
    deeper = np.maximum(highest, facts["equity_after"]) - facts["equity_after"] - (highest - facts["equity_before"])
    return -_coins(np.maximum(deeper, 0))


def trade_cost(facts: Facts, settings: Settings) -> Values:
    """Cost a share of what is bought, sold and staked, and something for each order."""
    turnover = facts["bought"] + facts["sold"] + facts["sidebet_staked"]
    orders = (facts["bought"] > 0) * 1.0 + (facts["sold"] > 0) + (facts["sidebet_staked"] > 0)
    cost: Values = settings["rate"] * _coins(turnover) + settings["fixed"] * orders
    return -cost


def holding_cost(facts: Facts, settings: Settings) -> Values:
    """Cost a share of what the held lots cost, for every tick."""
    held = facts["cost_after"] + facts["caught"]
    cost: Values = float(settings["rate"]) * _coins(held) * facts["ticks"]
    return -cost


def patience(facts: Facts, settings: Settings) -> Values:
    """Pay for every tick that is waited through with nothing open."""
    nothing = (facts["qty_before"] == 0) & (facts["sidebet_stake_before"] == 0) & ~facts["effect"]
    return np.where(nothing, settings["bonus"] * facts["ticks"], 0.0)


def position_size(facts: Facts, settings: Settings) -> Values:
    """Cost whatever is bought above a share of equity."""
    excess = facts["cost_after"] - settings["largest"] * facts["equity_before"]
    return np.where(facts["bought"] > 0, -settings["rate"] * _coins(np.maximum(excess, 0.0)), 0.0)


def profit_lock(facts: Facts, settings: Settings) -> Values:
    """Pay a share of the profit of a sale on top of it."""
    released = facts["cost_before"] + facts["bought"] - facts["cost_after"] - facts["caught"]
    profit = np.where(facts["sold"] > 0, np.maximum(facts["sold"] - released, 0), 0)
    return float(settings["share"]) * _coins(profit)


def sidebet_pnl(facts: Facts, settings: Settings) -> Values:  # noqa: ARG001
    """Pay what sidebets bring and cost."""
    return _coins(facts["sidebet_paid"] - facts["sidebet_staked"])


def potential(facts: Facts, settings: Settings) -> Values:
    """Pay gamma phi(s') - phi(s), phi being 0 when flat and at the end."""
    phi = lookup_phi(settings["phi"])
    after = np.where(facts["terminated"] | facts["rugged"], 0.0, phi(facts, "after"))
    paid: Values = settings["gamma"] * after - phi(facts, "before")
    return paid


def _exposure(facts: Facts, when: str) -> Values:
    """Give the share of equity that is in the position, 0 to 1."""
    equity = facts[f"equity_{when}"]
    return np.where(equity > 0, (equity - facts[f"cash_{when}"]) / np.maximum(equity, 1), 0.0)


def _sidebet_open(facts: Facts, when: str) -> Values:
    """Give 1 while a sidebet is open."""
    return (facts[f"sidebet_stake_{when}"] > 0).astype(np.float64)


PHIS = {"exposure": _exposure, "sidebet_open": _sidebet_open}


def lookup_phi(name: str) -> Callable[[Facts, str], Values]:
    """Give a potential by name."""
    if name not in PHIS:
        raise ConfigError(f"expected potential.phi to be one of {', '.join(PHIS)}, found {name!r}")
    return PHIS[name]


TABLE: Mapping[str, Component] = {
    component.name: component
    for component in (
        Component(
            "financial",
            "money",
            "change in marked equity, settled sidebets included; an open sidebet counts 0",
            ("equity_before", "equity_after"),
            {},
            financial,
        ),
        Component(
            "bankruptcy",
            "terminal",
            "penalty, once, when equity and open sidebet together fall below the threshold",
            ("equity_after", "sidebet_stake_after", "lowest_wealth_before"),
            {"penalty": -10.0, "threshold": MIN_BET / UNIT},
            bankruptcy,
        ),
        Component(
            "rug_avoidance",
            "cost",
            "-rate x cost of the lots that a rug sold; selling is never paid for",
            ("caught",),
            {"rate": 0.1},
            rug_avoidance,
        ),
        Component(
            "zone_entry",
            "bonus",
            "bonus for opening a position at a price from low to high",
            ("price_before", "bought", "qty_before"),
            {"bonus": 0.01, "low": 25.0, "high": 50.0},
            zone_entry,
        ),
        Component(
            "temporal_penalty",
            "cost",
            "-rate a tick for a position held longer than `after` ticks",
            ("held_before", "qty_before", "cost_after", "caught", "ticks"),
            {"rate": 1e-6, "after": 60.0},
            temporal_penalty,
        ),
        Component(
            "survival_bonus",
            "bonus",
            "bonus a tick while a position is held and no rug comes",
            ("qty_after", "rugged", "ticks"),
            {"bonus": 1e-6},
            survival_bonus,
        ),
        Component(
            "volatility_exit",
            "bonus",
            "bonus for a sale once the highest price is (1 + range) x the lowest",
            ("peak_before", "low_before", "sold"),
            {"bonus": 0.01, "range": 1.0},
            volatility_exit,
        ),
        Component(
            "sweet_spot",
            "bonus",
            "bonus a tick while a position is held at a price from low to high",
            ("price_before", "qty_after", "ticks"),
            {"bonus": 1e-5, "low": 25.0, "high": 50.0},
            sweet_spot,
        ),
        Component(
            "sidebet_timing",
            "bonus",
            "bonus for a sidebet placed from tick `after` on",
            ("tick_before", "sidebet_staked"),
            {"bonus": 0.001, "after": 100.0},
            sidebet_timing,
        ),
        Component(
            "drawdown",
            "cost",
            "minus what equity falls further below its highest of the episode",
            ("equity_before", "equity_after", "highest_equity_before"),
            {},
            drawdown,
        ),
        Component(
            "trade_cost",
            "cost",
            "-rate x what is bought, sold and staked, and -fixed for each order taken",
            ("bought", "sold", "sidebet_staked"),
            {"rate": 0.001, "fixed": 0.0},
            trade_cost,
        ),
        Component(
            "holding_cost",
            "cost",
            "-rate x cost of the held lots, a tick",
            ("cost_after", "caught", "ticks"),
            {"rate": 1e-4},
            holding_cost,
        ),
        Component(
            "patience",
            "bonus",
            "bonus a tick for waiting with nothing open",
            ("qty_before", "sidebet_stake_before", "effect", "ticks"),
            {"bonus": 1e-6},
            patience,
        ),
        Component(
            "position_size",
            "cost",
            "-rate x open cost above `largest` x equity, when something is bought",
            ("cost_after", "equity_before", "bought"),
            {"rate": 0.1, "largest": 0.1},
            position_size,
        ),
        Component(
            "profit_lock",
            "bonus",
            "share x the profit of a sale, on top of it; losses cost nothing",
            ("cost_before", "cost_after", "bought", "caught", "sold"),
            {"share": 0.1},
            profit_lock,
        ),
        Component(
            "sidebet_pnl",
            "money",
            "what sidebets pay minus what they cost; for rewards without `financial`",
            ("sidebet_paid", "sidebet_staked"),
            {},
            sidebet_pnl,
        ),
        Component(
            "potential",
            "shaping",
            "gamma phi(s') - phi(s), phi >= 0, 0 when flat and at the end: exposure or sidebet_open",
            (
                *("equity_before", "equity_after", "cash_before", "cash_after"),
                *("sidebet_stake_before", "sidebet_stake_after", "terminated", "rugged"),
            ),
            {"gamma": 0.99, "phi": "exposure"},
            potential,
        ),
    )
}
"""The components, the default ones first."""

COMPONENTS = Components(
    TABLE,
    lay_out,
    (("financial", "sidebet_pnl", "financial includes settled sidebets, so they would be paid twice"),),
)
