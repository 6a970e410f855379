"""A small network's logits for one row, as fast as numpy goes: every array is laid out before the first row comes.

At this size a call costs more than its arithmetic. Features are put in the order of their rules, so that a
rule works on a slice and not on a list of places; the first layer's weights are put in the same order; every
result is written into an array that is there already. Logits are those of `NetworkPolicy.logits`, up to the
rounding of sums taken in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof.policies.scaling import FLOOR, LIMIT, Scaling

Floats = NDArray[np.float32]
Layer = tuple[Floats, Floats]

_FLOOR, _LOW, _HIGH, _ZERO = np.float32(FLOOR), np.float32(-LIMIT), np.float32(LIMIT), np.float32(0.0)


class SingleRowNetwork:
    """Hold the arrays of one row's way through a network; not for two threads at once."""

    def __init__(self, scaling: Scaling, layers: Sequence[Layer], activation: str) -> None:
        self._made_of = (scaling, tuple(layers), activation)
        order, curved, ratios = _order(scaling), len(scaling.curves), len(scaling.ratios)
        self._order, self._divisors = order, scaling.divisors
        self._x, self._below = np.empty(len(order), np.float32), np.empty(ratios, np.float32)
        self._over, self._curved = self._x[:ratios], self._x[:curved]
        self._size = np.empty(curved, np.float32)
        self._units = scaling.units[np.searchsorted(scaling.curves, order[:curved])]
        self._logged = self._x[curved : curved + len(scaling.logs)]
        self._centers, self._spreads = scaling.centers[order], scaling.spreads[order]
        (first, bias), *rest = layers
        self._layers = [
            (weight, offset, np.empty(len(offset), np.float32))
            for weight, offset in [(np.ascontiguousarray(first[order]), bias), *rest]
        ]
        self._relu = activation == "relu"

    def __reduce__(self) -> tuple[Any, ...]:
        """Build the arrays anew in another process: copies of slices would no longer be slices."""
        return SingleRowNetwork, self._made_of

    def logits(self, row: Floats) -> Floats:
        """Give the logits of a row of float32, heads side by side; the array is written again by the next call."""
        x = self._scaled(row)
        *trunk, (weight, bias, out) = self._layers
        for inner, offset, hidden in trunk:
            np.dot(x, inner, out=hidden)
            np.add(hidden, offset, out=hidden)
            x = np.maximum(hidden, _ZERO, out=hidden) if self._relu else np.tanh(hidden, out=hidden)
        np.dot(x, weight, out=out)
        np.add(out, bias, out=out)
        return out

    def _scaled(self, row: Floats) -> Floats:
        """Scale a row as `scale_rows` does, in the order of the rules."""
        x = self._x
        row.take(self._order, out=x, mode="clip")
        if self._over.size:
            below, over = self._below, self._over
            row.take(self._divisors, out=below, mode="clip")
            np.abs(below, out=below)
            np.maximum(below, _FLOOR, out=below)
            np.divide(over, below, out=over)
        if self._curved.size:
            size, curved = self._size, self._curved
            np.abs(curved, out=size)
            np.divide(size, self._units, out=size)
            np.log1p(size, out=size)
            np.copysign(size, curved, out=curved)
        if self._logged.size:
            np.maximum(self._logged, _FLOOR, out=self._logged)
            np.log(self._logged, out=self._logged)
        np.subtract(x, self._centers, out=x)
        np.divide(x, self._spreads, out=x)
        np.maximum(x, _LOW, out=x)
        return np.minimum(x, _HIGH, out=x)


def _order(scaling: Scaling) -> NDArray[np.int64]:
    """Give the places of the features by their rule: `over`, `symlog`, `log`, `linear`."""
    symlogs = np.setdiff1d(scaling.curves, scaling.ratios)
    taken = np.concatenate([scaling.ratios, symlogs, scaling.logs])
    return np.concatenate([taken, np.setdiff1d(np.arange(len(scaling.names)), taken)])
