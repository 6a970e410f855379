"""Fixed scaling of observations: rules in the feature table, the same for every network of a game.

| rule | a feature x becomes |
|---|---|
| `linear:S` `linear:S:C` | (x - C) / S |
| `log:S:C` | (ln(max(x, 10^-6)) - C) / S; `log` alone is `log:1:0` |
| `symlog:U:S` | sign(x) ln(1 + |x| / U) / S |
| `over:NAME:U:S` | the same of x / max(|NAME|, 10^-6), NAME being another feature of the row |

All are cut at -10 and 10, so that no price can drown the others. Nothing is fitted to data: the rules
are versioned with the game (`Game.scaling`) and are part of every exported model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from playproof.errors import ConfigError, InputError
from playproof.game import Game, NumericObservation, lookup
from playproof.json_types import Json

Rows = NDArray[np.float32]

FLOOR = 1e-6
LIMIT = 10.0
SCALING = "fixed"
"""Name of this way to scale, as checkpoints state it."""


@dataclass(frozen=True)
class Scaling:
    """Rules as columns of numbers, for rows of f features."""

    names: tuple[str, ...]
    rules: tuple[str, ...]
    logs: NDArray[np.int64]
    """Places of features of rule `log`."""
    curves: NDArray[np.int64]
    """Places of features of rules `symlog` and `over`."""
    ratios: NDArray[np.int64]
    """Places of features of rule `over`."""
    divisors: NDArray[np.int64]
    """Places of the features they are divided by."""
    units: NDArray[np.float32]
    """U of each curve, (curves,)."""
    spreads: NDArray[np.float32]
    """S, (f,)."""
    centers: NDArray[np.float32]
    """C, (f,)."""

    def stacked(self, frames: int) -> Scaling:
        """Give the scaling of rows that hold so many observations side by side."""
        return self if frames == 1 else parse(self.names * frames, self.rules * frames, len(self.names))


def parse(names: Sequence[str], rules: Sequence[str], period: int | None = None) -> Scaling:
    """Read the rules of some features; with a period, frames of so many features lie side by side."""
    return _parse(tuple(names), tuple(rules), period or len(names))


@lru_cache(maxsize=64)
def _parse(names: tuple[str, ...], rules: tuple[str, ...], period: int) -> Scaling:
    logs, curves, ratios, divisors, units = [], [], [], [], []
    spreads, centers = np.ones(len(names), np.float32), np.zeros(len(names), np.float32)
    for position, (name, rule) in enumerate(zip(names, rules, strict=True)):
        kind, *rest = rule.split(":")
        try:
            if kind == "over":
                divisors.append(position // period * period + names[:period].index(rest.pop(0)))
                ratios.append(position)
            numbers = [float(text) for text in rest]
            if kind in ("over", "symlog"):
                curves.append(position)
                unit, spreads[position] = numbers
                units.append(unit)
            elif kind in ("linear", "log"):
                spreads[position], centers[position] = (*numbers, *(1.0, 0.0)[len(numbers) :])
                logs += [position] * (kind == "log")
            else:
                raise ValueError(kind)
            if spreads[position] <= 0 or (units and units[-1] <= 0):
                raise ValueError(rule)
        except (ValueError, IndexError):
            raise ConfigError(
                f"expected feature {name!r} to be scaled by linear:S[:C], log[:S[:C]], symlog:U:S or over:NAME:U:S "
                f"with positive U and S, found {rule!r}"
            ) from None
    return Scaling(
        names,
        rules,
        np.array(logs, np.int64),
        np.array(curves, np.int64),
        np.array(ratios, np.int64),
        np.array(divisors, np.int64),
        np.array(units, np.float32),
        spreads,
        centers,
    )


def scale_rows(rows: NDArray[np.floating], scaling: Scaling | Sequence[str], names: Sequence[str] = ()) -> Rows:
    """Scale rows (n, f), or one row (f,); rules may be given as texts with the features' names."""
    if not isinstance(scaling, Scaling):
        scaling = parse(names or [str(index) for index in range(len(scaling))], scaling)
    x = np.array(rows, np.float32)
    if scaling.ratios.size:
        x[..., scaling.ratios] /= np.maximum(np.abs(rows.take(scaling.divisors, axis=-1)), FLOOR)
    if scaling.curves.size:
        curved = x.take(scaling.curves, axis=-1)
        x[..., scaling.curves] = np.copysign(np.log1p(np.abs(curved) / scaling.units), curved)
    if scaling.logs.size:
        x[..., scaling.logs] = np.log(np.maximum(x.take(scaling.logs, axis=-1), FLOOR))
    x -= scaling.centers
    x /= scaling.spreads
    np.maximum(x, -LIMIT, out=x)
    return np.minimum(x, LIMIT, out=x)


def game_scaling(game: Game, features: Sequence[str]) -> Scaling:
    """Give the scaling of some features as the game's table has it."""
    table = {feature.name: feature for feature in game.features}
    return parse(features, [lookup(table, name, "feature").scale for name in features])


def feature_hash(features: Sequence[str], rules: Sequence[str]) -> str:
    """Give the identity of a feature list: names, order and scales."""
    text = "\n".join(f"{name}\t{rule}" for name, rule in zip(features, rules, strict=True))
    return hashlib.sha256(text.encode()).hexdigest()


def describe(game: Game, observation: str, *, numbers: tuple[str, ...] | None = None) -> Json:
    """Give the fields of a card that the game decides: features, their hash and scaling."""
    shown = lookup(game.observations, observation, "observation set")
    if numbers is None and not isinstance(shown, NumericObservation):
        raise InputError(f"expected an observation set of numbers, found {observation!r}, which is of messages")
    features = numbers or shown.features  # type: ignore[union-attr]
    rules = game_scaling(game, features).rules
    return {
        "game": game.name,
        "observation": observation,
        "features": tuple(features),
        "feature_hash": feature_hash(features, rules),
        "scaling": {"name": SCALING, "version": game.scaling, "rules": list(rules)},
    }
