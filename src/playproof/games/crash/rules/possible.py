"""Which choices of the crash game can have an effect, as far as an observation tells.

For policies that act where nobody gives them masks. A row does not tell of an open sidebet, of a
reserved stake or of a world's cap: choices that only those forbid count as possible.
The lanes' masks (many) know them and allow nothing that these do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from playproof.games.crash.rules.actions import ADJUSTMENTS, SIZES, TENTHS, TRADER_MAIN
from playproof.money import UNIT

Rows = NDArray[np.float32]
Mask = NDArray[np.bool_]

_PRESALE, _ACTIVE = 1, 2
_NEED_A_BET = [index for index, name in enumerate(ADJUSTMENTS, start=5) if name in ("CLEAR", "HALF", "DOUBLE")]
_SMALLEST = 0.001
_ROUNDING = 1e-6
"""Float32 rows hold money to about this share of itself."""
_AFFORDABLE = float(np.float32(_SMALLEST * (1 - _ROUNDING)))
"""The least balance with which one can order; the bet field is adjusted before the order of the same step."""


@lru_cache(maxsize=16)
def _places(features: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(features.index(name) for name in ("game_phase", "balance", "position_qty", "bet_amount"))


def _columns(rows: Rows, features: tuple[str, ...]) -> Iterator[Rows]:
    """Give phase, balance, position and bet field."""
    return (rows[:, index] for index in _places(features))


def buttons(rows: Rows, features: tuple[str, ...], shares: int = 0) -> Mask:
    """Tell it for the sets of buttons, (n, 4 + 9 + shares)."""
    if len(rows) == 1:
        return _one(rows[0], features, shares)
    return _buttons(rows, features, shares)


def _one(row: Rows, features: tuple[str, ...], shares: int) -> Mask:
    """Tell it for one row, (1, 4 + 9 + shares), read-only: there are few answers, and all are kept."""
    phase, balance, qty, bet = [row.item(index) for index in _places(features)]
    open_phase = phase in (_PRESALE, _ACTIVE) and balance >= _AFFORDABLE
    return _kept(open_phase, phase == _ACTIVE and qty > 0, bet > 0, shares)


@lru_cache(maxsize=32)
def _kept(orders: bool, sells: bool, adjusts: bool, shares: int) -> Mask:
    out = _mask(np.array([orders]), np.array([sells]), np.array([adjusts]), shares)
    out.flags.writeable = False
    return out


def _buttons(rows: Rows, features: tuple[str, ...], shares: int) -> Mask:
    """Tell it for many rows."""
    phase, balance, qty, bet = _columns(rows, features)
    open_phase = (phase == _PRESALE) | (phase == _ACTIVE)
    return _mask(open_phase & (balance >= _AFFORDABLE), (phase == _ACTIVE) & (qty > 0), bet > 0, shares)


def _mask(orders: Mask, sells: Mask, adjusts: Mask, shares: int) -> Mask:
    """Lay out what may be pressed: BUY and SIDEBET, SELL, and what changes a bet that is there."""
    out = np.ones((len(orders), 4 + 1 + len(ADJUSTMENTS) + shares), np.bool_)
    out[:, 1] = out[:, 3] = orders
    out[:, 2] = sells
    out[:, _NEED_A_BET] = adjusts[:, None]
    return out


def buttons_share(rows: Rows, features: tuple[str, ...]) -> Mask:
    """Tell it for `buttons-share`; a row does not tell the share, so that any may be pressed."""
    return buttons(rows, features, shares=5)


def trader(rows: Rows, features: tuple[str, ...]) -> Mask:
    """Tell it for `trader`, (n, 8 + 9 + 11)."""
    phase, balance, qty, _ = _columns(rows, features)
    open_phase = (phase == _PRESALE) | (phase == _ACTIVE)
    out = np.ones((len(rows), len(TRADER_MAIN) + len(SIZES) + len(TENTHS)), np.bool_)
    payable = balance[:, None] * (1 + _ROUNDING) >= np.array(SIZES)[None, :] / UNIT
    out[:, 1] = out[:, 3] = out[:, 4] = open_phase & payable[:, 0]
    out[:, 2] = out[:, 5] = out[:, 6] = (phase == _ACTIVE) & (qty > 0)
    out[:, 7] = open_phase
    out[:, len(TRADER_MAIN) + 1 : len(TRADER_MAIN) + len(SIZES)] = payable[:, 1:]
    return out
