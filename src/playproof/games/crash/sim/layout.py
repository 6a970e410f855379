"""The layout of what the compiled game holds: records of lanes, lots, sites, settings and tapes, and their codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numba import from_dtype, types
from numba.extending import intrinsic

from playproof.games.crash.features.state import STATE
from playproof.games.crash.rules.money import MAX_LOTS
from playproof.games.crash.sim.crowd import RING

if TYPE_CHECKING:
    from llvmlite.ir import IRBuilder, Value
    from numba.core.base import BaseContext as Target
    from numba.core.typing import BaseContext, Signature

LANE = np.dtype(
    [
        ("seed", "u8"),
        ("price_key", "u8"),
        ("world_key", "u8"),
        ("price", "f8"),
        ("low", "f8"),
        ("peak", "f8"),
        ("tape_peak", "f8"),
        ("next_peak", "f8"),
        ("next_hash", "f8"),
        ("cash", "i8"),
        ("qty", "i8"),
        ("cost", "i8"),
        ("side_stake", "i8"),
        ("round_cash", "i8"),
        ("invested", "i8"),
        ("staked", "i8"),  # everything ever paid in, over all rounds and episodes
        ("paid", "i8"),  # everything ever paid out
        ("sidebet_staked", "i8"),  # of what was paid in
        ("sidebet_paid", "i8"),  # of what was paid out
        ("sold", "i8"),  # of what was paid out, the player's own sales
        ("caught", "i8"),  # cost of all lots that a rug sold
        ("granted", "i8"),  # balances handed out at the start of episodes
        ("equity", "i8"),
        ("bet", "i8"),
        ("round", "i8"),
        ("seat", "i8"),  # number among the lanes that began
        ("tape_start", "i8"),  # of this round on the tape
        ("next_start", "i8"),  # of the next round on the tape
        ("tick", "i4"),
        ("last_tick", "i4"),  # of a taped round
        ("next_last", "i4"),
        ("countdown", "i4"),
        ("instarug", "i4"),
        ("side_end", "i4"),
        ("lot_head", "i4"),
        ("lot_count", "i4"),
        ("adjustments", "i4"),
        ("rounds_left", "i4"),
        ("opened", "i4"),
        ("no_effects", "i4"),  # presses of the first head that changed nothing
        ("flags", "i4"),
        ("share", "i1"),
        ("phase", "i1"),
        ("hot", "i1"),
        ("skip", "i1"),
        ("done", "i1"),
        ("over", "i1"),  # the round's last tick has come
    ],
    align=True,
)
"""One lane. Invariant: cash = granted + paid - staked."""

LOTS = np.dtype([("qty", "i8", (MAX_LOTS,)), ("cost", "i8", (MAX_LOTS,))], align=True)
"""A ring of lots. A record like the others: arrays handed to inner functions are counted, records are not."""

MOMENT = np.dtype(
    [
        *((name, "i8") for name in ("equity", "cash", "qty", "cost", "sidebet_stake")),
        *((name, "f8") for name in ("price", "low", "peak")),
        *((name, "i8") for name in ("tick", "phase", "opened")),
        *((name, "i8") for name in ("bought", "sold", "sidebet_staked", "sidebet_paid", "caught")),
    ],
    align=True,
)
"""What rewards read of a lane before and after a step."""

SITE = np.dtype(
    [
        ("peaks", "f8", (RING,)),
        ("level", "f8"),
        ("rugpool", "f8"),
        ("highest", "f8"),
        ("instarugs", "i4"),
        ("day_start", "i4"),
    ],
    align=True,
)

CONFIG = np.dtype(
    [
        (name, "i8")
        for name in (
            "world",
            "payout_numerator",
            "payout_denominator",
            "open_cost",  # largest cost of open lots
            "stake",  # reserved stake of a round, -1 for none
            "balance",
            "first_bet",
            "rounds",
            "clock",
            "actions",
            "observation",
            "taped",  # rounds on the tape, 0 for the counter-based stream
            "stride",  # lanes share the tape in turn
            "watched",  # are moments written for a reward that the kernel does not compute?
        )
    ],
    align=True,
)

TAPE = np.dtype([("price", "f8"), ("countdown", "i4")], align=True)
"""One tick of a recorded round."""

TAPE_ROUND = np.dtype([("start", "i8"), ("peak", "f8"), ("id_hash", "f8"), ("last_tick", "i4")], align=True)
"""One recorded round on the tape; the peak leaves the rug price out."""

CLOCK_TICK, CLOCK_PRESS = range(2)
BUTTONS, BUTTONS_SHARE, TRADER = range(3)
ACTION_CODES = {"buttons": BUTTONS, "buttons-share": BUTTONS_SHARE, "trader": TRADER}
POLICY, RECORDED = range(2)
TERMINATED, TRUNCATED = 1, 2

F_NO_EFFECT, F_BOUGHT, F_SOLD, F_BET, F_RUG, F_WON, F_LOST, F_BANKRUPT, F_ADJUSTED, F_ADVANCED = (
    1 << bit for bit in range(10)
)

FACTS = (
    "cash",
    "position_qty",
    "open_cost",
    "equity",
    "sidebet_stake",
    "sidebet_end_tick",
    "bet_amount",
    "round",
    "tick",
    "phase",
    "sell_share",
    "flags",
    "no_effect",
    "positions_opened",
    "no_effect_actions",
    "total_invested",
)
"""Integers written for every lane after every step; money in units of 10^-9."""
FACT_COUNT = len(FACTS)

HEADS = np.array([[4, 9, 0], [4, 9, 5], [8, 9, 11]], np.int64)
"""Choices of each head, by action set."""

LANES, STATES, SITES, ALL_LOTS, CONFIGS, TAPE_ROUNDS, TAPE_TICKS, BEFORE, AFTER = range(9)
"""Indices into a table of addresses; the last two are the moments before and after a step.

An array that is handed to compiled code costs as much as a step of a lane, a table of addresses costs as one array.
Whoever makes the table keeps the arrays alive.
"""


def pointer_to(dtype: np.dtype[np.void]) -> Callable[[int], types.CPointer]:
    """Give a compiled cast from an address to a pointer to this type."""
    target = types.CPointer(from_dtype(dtype))

    @intrinsic  # type: ignore[untyped-decorator]
    def cast(typing_context: BaseContext, address: types.Type) -> tuple[Signature, Callable[..., Value]]:  # noqa: ARG001
        def generate(context: Target, builder: IRBuilder, signature: Signature, arguments: list[Value]) -> Value:  # noqa: ARG001
            return builder.inttoptr(arguments[0], context.get_value_type(target))

        return target(types.int64), generate

    return cast  # type: ignore[no-any-return]


lane_at, state_at, site_at, lots_at = map(pointer_to, (LANE, STATE, SITE, LOTS))
config_at, tape_at, tape_round_at, moment_at = map(pointer_to, (CONFIG, TAPE, TAPE_ROUND, MOMENT))
