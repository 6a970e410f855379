"""Markets that users declare, which are recorded and not simulated: their declarations, and how they are shown."""

from __future__ import annotations

from playproof.game.markets.declaration import (
    CURRENCY,
    FILE,
    JUDGE_ONLY,
    PNL_MINUS_HOLD,
    MarketDeclaration,
    add_market,
    declared_markets,
    find_market,
    from_table,
)

__all__ = [
    "CURRENCY",
    "FILE",
    "JUDGE_ONLY",
    "PNL_MINUS_HOLD",
    "MarketDeclaration",
    "add_market",
    "declared_markets",
    "find_market",
    "from_table",
]
