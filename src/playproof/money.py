"""Exact money: integers of 10^-9, and the two ways in and out of them."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from playproof.errors import DecodeError

UNIT = 1_000_000_000
"""Units in one whole coin."""


def to_units(amount: str | int | float | Decimal) -> int:
    """Read an amount of at most nine decimals as units; a float is read by its shortest text."""
    try:
        scaled = Decimal(str(amount)).scaleb(9)
        units = int(scaled)
    except (InvalidOperation, ValueError, OverflowError):
        raise DecodeError(f"expected an amount of money, found {amount!r}") from None
    if units != scaled:
        raise DecodeError(f"expected at most nine decimals, found {amount!r}")
    return units


def from_units(units: int) -> float:
    """Give units as a float of whole coins, for screens, JSON and observations."""
    return units / UNIT


def show(units: int) -> str:
    """Write units as a decimal text without loss, such as -0.001000000."""
    sign = "-" if units < 0 else ""
    whole, rest = divmod(abs(units), UNIT)
    return f"{sign}{whole}.{rest:09d}"
