"""Which choices can have an effect now, from the plain ledger: the masks that the compiled lanes give a masked policy.

The slow, obvious twin of `sim.vector_env.CrashVectorGame.masks` and `settle`; a test compares both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from playproof.games.crash.recording.player_ledger import CrashLedger
from playproof.games.crash.rules.actions import ADJUSTMENTS, BETS, PERCENTAGES, SIZES, adjusted
from playproof.games.crash.rules.money import MAX_LOTS, MAX_MONEY, MIN_BET
from playproof.games.crash.rules.windows import Phase

Mask = NDArray[np.bool_]
MAX_ADJUSTMENTS = 8
"""Adjustments in a row after which time passes, on the clock `press`."""
_OPEN = (Phase.PRESALE, Phase.ACTIVE)


def may_buy(book: CrashLedger, amount: int) -> bool:
    """Tell whether a buy of this amount would be taken."""
    most = MAX_MONEY if book.world.open_cost is None else book.world.open_cost
    money = book.ledger
    fits = money.cost + amount <= most and len(money.lots) < MAX_LOTS
    return is_affordable(book, amount) and fits and book.price > 0


def may_bet(book: CrashLedger, amount: int) -> bool:
    """Tell whether a sidebet of this amount would be taken."""
    return is_affordable(book, amount) and book.ledger.sidebet is None


def is_affordable(book: CrashLedger, amount: int) -> bool:
    """Tell whether an order of this amount keeps the limits on amounts, in a phase in which orders are taken."""
    money = book.ledger
    if book.phase not in _OPEN or book.skips or not MIN_BET <= amount <= min(money.cash, MAX_MONEY):
        return False
    if money.limits.stake is None:
        return True
    loss = max(0, money.round_cash - money.cash - money.cost - money.open_stake)
    return money.cost + money.open_stake + loss + amount <= money.limits.stake


def choice_masks(book: CrashLedger, adjustments: int | None = None) -> Mask:
    """Give the masks of the ledger's action set, the heads side by side.

    `adjustments` is how many were made in a row, on the clock `press`; None on the clock `tick`.
    """
    sells = book.phase is Phase.ACTIVE and not book.skips and book.ledger.qty > 0
    if book.terms.actions == "trader":
        return _trader_masks(book, sells)
    amounts = [adjusted(book.bet, book.ledger.cash, button) for button in ("NONE", *ADJUSTMENTS)]
    buys, bets = (any(rule(book, amount) for amount in amounts) for rule in (may_buy, may_bet))
    exhausted = adjustments is not None and adjustments >= MAX_ADJUSTMENTS
    presses = [amount != book.bet and not exhausted for amount in amounts[1:]]
    shares = [percent != book.share and not exhausted for percent in PERCENTAGES.values()]
    mask = [True, buys, sells, bets, True, *presses]
    return np.array(mask + ([True, *shares] if book.terms.actions == "buttons-share" else []), np.bool_)


def _trader_masks(book: CrashLedger, sells: bool) -> Mask:
    buys, bets = may_buy(book, SIZES[0]), may_bet(book, SIZES[0])
    skips = book.phase in _OPEN and not book.skips
    sizes = [True, *(may_buy(book, size) or may_bet(book, size) for size in SIZES[1:])]
    return np.array([True, buys, sells, bets, buys or bets, sells, sells, skips, *sizes, *[True] * 11], np.bool_)


def settled_choice(book: CrashLedger, action: tuple[int, ...]) -> tuple[int, ...]:
    """Put a wait in place of a buy or a sidebet that would not be taken with the adjustment chosen beside it."""
    if book.terms.actions == "trader" or action[0] not in (1, 3) or not 0 <= action[1] < len(BETS):
        return action
    amount = adjusted(book.bet, book.ledger.cash, BETS[action[1]])
    taken = may_buy(book, amount) if action[0] == 1 else may_bet(book, amount)
    return action if taken else (0, *action[1:])
