"""What recordings of the crash game say about it: lives of rounds, holds by entry zone, sidebets, revealed seeds.

Every tick of a round that was received whole is a place at which somebody could have bought or bet. Rounds of
which some ticks are missing count for the hazard alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import polars as pl
from numpy.typing import NDArray

from playproof.errors import InputError
from playproof.game.audit import (
    AuditRules,
    Material,
    Promise,
    RecordedTables,
    SettledBet,
    VerifiedWindow,
    Wager,
    WindowAges,
)
from playproof.games.crash.recording import columns as c
from playproof.games.crash.rules import prices as fair
from playproof.games.crash.rules.money import SIDEBET_TICKS
from playproof.games.crash.rules.verify import TOLERANCE, replay
from playproof.games.crash.rules.windows import Phase

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ZONES = (
    ("below 1x", 0.0, 1.0),
    ("1x to 2x", 1.0, 2.0),
    ("2x to 5x", 2.0, 5.0),
    ("5x to 10x", 5.0, 10.0),
    ("10x to 25x", 10.0, 25.0),
    ("25x to 50x", 25.0, 50.0),
    ("50x to 100x", 50.0, 100.0),
    ("above 100x", 100.0, np.inf),
)
SWEET_SPOT = "25x to 50x"
HOLDS = (10, 40, 60)
BEST_HOLDS = (
    (1.0, "1x to 2x", 65, 0.61),
    (25.0, "25x to 50x", 60, 0.75),
    (50.0, "50x to 100x", 48, 0.75),
    (100.0, "above 100x", 71, 0.36),
)
"""The old plan's "best hold" and "success" by entry."""
RUG_BY = ((50, 0.234), (100, 0.386), (138, 0.500), (200, 0.644), (300, 0.793))
"""The old plan's cumulative rug probability."""
AGES = (("tick 0 to 49", 0, 50), ("tick 50 to 99", 50, 100), ("tick 100 to 199", 100, 200), ("tick 200 on", 200, 10**9))
SIDEBET = "sidebet"
PAYOUT = 5.0
GROWTH, GROWTH_ABOVE = 0.00446495625, 0.004375
"""What a survivor gains in a tick, up to 100x and above."""
_PATHS = 4000


@dataclass(frozen=True)
class WholeRounds:
    """Rounds that were received whole, tick after tick in one line."""

    windows: tuple[str, ...]
    rugs: Ints
    """Tick of each round's rug: as many ticks of it were played."""
    rug_prices: Floats
    prices: Floats
    """Of all ticks before the rugs, round after round."""

    @property
    def starts(self) -> Ints:
        """Give where each round begins in the line."""
        return np.concatenate([[0], np.cumsum(self.rugs)[:-1]]).astype(np.int64)


def from_store(store: RecordedTables) -> Material:
    """Gather from stored events."""
    ages, whole = read_ticks(_frame(store, "game_tick", ["window_id", "tick", "price", "game_phase"]))
    return gather(ages, whole, tuple(read_settled(store)), tuple(read_revealed(store, whole)))


def from_rows(rows: pl.DataFrame) -> Material:
    """Gather from the observations of a data set; a round is in it once for each of its players, and counts once."""
    ticks = rows.select("window_id", pl.col("tick", "game_phase").cast(pl.Int64), pl.col("price").cast(pl.Float64))
    return gather(*read_ticks(ticks))


def gather(
    ages: WindowAges, whole: WholeRounds, settled: Sequence[SettledBet] = (), verified: Sequence[VerifiedWindow] = ()
) -> Material:
    """Put everything together."""
    wagers = [wager for ticks in HOLDS for wager in holds(whole, ticks)]
    for _, zone, ticks, _ in BEST_HOLDS:
        wagers += [wager for wager in holds(whole, ticks) if wager.name == zone and ticks not in HOLDS]
    wagers += sidebets(whole)
    return Material(ages, len(whole.windows), tuple(wagers), tuple(settled), tuple(verified))


def read_ticks(ticks: pl.DataFrame) -> tuple[WindowAges, WholeRounds]:
    """Give how long rounds lived, and the rounds that are whole; the rug is the lowest tick called rugged."""
    running = (
        ticks.filter(pl.col("window_id").is_not_null() & (pl.col("game_phase") == int(Phase.ACTIVE)))
        .unique(["window_id", "tick"], keep="first")
        .sort("window_id", "tick")
    )
    rugs = (
        ticks.filter(pl.col("window_id").is_not_null() & (pl.col("game_phase") == int(Phase.RUGGED)))
        .sort("window_id", "tick")
        .group_by("window_id", maintain_order=True)
        .agg(pl.first("tick").alias("rug"), pl.first("price").alias("rug_price"))
    )
    joined = running.join(rugs, on="window_id", how="left")
    joined = joined.filter(pl.col("rug").is_null() | (pl.col("tick") < pl.col("rug")))
    rounds = joined.group_by("window_id", maintain_order=True).agg(
        pl.min("tick").alias("first"),
        pl.max("tick").alias("last"),
        pl.len().alias("seen"),
        pl.first("rug", "rug_price"),
    )
    if not len(rounds):
        raise InputError("expected ticks of rounds in the recordings, found none")
    ended = rounds["rug"].is_not_null().to_numpy()
    end = rounds.select(pl.coalesce("rug", "last")).to_series().to_numpy().astype(np.int64)
    ages = WindowAges(tuple(rounds["window_id"]), rounds["first"].to_numpy().astype(np.int64), end, ended)
    chosen = rounds.filter(pl.col("rug").is_not_null() & (pl.col("seen") == pl.col("rug")))
    prices = joined.join(chosen.select("window_id"), on="window_id", how="semi")["price"].to_numpy()
    return ages, WholeRounds(
        tuple(chosen["window_id"]),
        chosen["rug"].to_numpy().astype(np.int64),
        chosen["rug_price"].to_numpy().astype(np.float64),
        prices.astype(np.float64),
    )


def holds(whole: WholeRounds, ticks: int) -> list[Wager]:
    """Buy at every tick and sell so many ticks later, or at the rug; by the zone of the entry price."""
    starts, owner = whole.starts, np.repeat(np.arange(len(whole.windows)), whole.rugs)
    index = np.arange(len(whole.prices))
    tick = index - starts[owner]
    sold = tick + ticks < whole.rugs[owner]
    exits = np.where(sold, whole.prices[np.minimum(index + ticks, len(index) - 1)], whole.rug_prices[owner])
    profit = exits / whole.prices - 1
    low = lows(whole)
    results = []
    for name, floor, roof in ZONES:
        own = (whole.prices >= floor) & (whole.prices < roof)
        theory = hold_theory(whole.prices[own], low[own], ticks) if own.any() else None
        remark = "the old plan's sweet spot" if name == SWEET_SPOT else None
        results.append(_wager(f"hold {ticks}", name, whole, owner[own], profit[own], theory, remark))
    return results


def lows(whole: WholeRounds) -> Floats:
    """Give the lowest price of its round so far at every tick, the start price 1 included."""
    result = np.empty_like(whole.prices)
    for start, length in zip(whole.starts.tolist(), whole.rugs.tolist(), strict=True):
        result[start : start + length] = np.minimum.accumulate(whole.prices[start : start + length])
    return np.minimum(result, 1.0)


def sidebets(whole: WholeRounds) -> list[Wager]:
    """Place a sidebet at every tick, by the age of the round."""
    owner = np.repeat(np.arange(len(whole.windows)), whole.rugs)
    tick = np.arange(len(whole.prices)) - whole.starts[owner]
    profit = np.where(whole.rugs[owner] <= tick + SIDEBET_TICKS, PAYOUT - 1, -1.0)
    theory = PAYOUT * (1 - (1 - fair.RUG_CHANCE) ** SIDEBET_TICKS) - 1
    results = []
    for name, first, end in AGES:
        own = (tick >= first) & (tick < end)
        results.append(_wager(SIDEBET, name, whole, owner[own], profit[own], theory, None))
    return results


def _wager(
    group: str, name: str, whole: WholeRounds, owner: Ints, profit: Floats, theory: float | None, remark: str | None
) -> Wager:
    """Sum a wager up by round, rounds that never allowed it left out."""
    size = len(whole.windows)
    count = np.bincount(owner, minlength=size).astype(np.float64)
    total, hits = (np.bincount(owner, item, size).astype(np.float64) for item in (profit, profit > 0))
    own = np.flatnonzero(count)
    windows = tuple(whole.windows[index] for index in own)
    return Wager(group, name, windows, count[own], total[own], hits[own], theory, remark)


def hold_theory(prices: Floats, low: Floats, ticks: int) -> float:
    """Give the mean return of such entries by the published rules.

    A survivor's part is exact while prices stay on their side of 100. The rug pays 0.02 of the lowest price of the
    round, which may fall further while one holds: that part comes from simulated paths, and is 0.7 % at most.
    """
    hazard = fair.RUG_CHANCE
    grown = np.where(prices <= fair.GOD_LIMIT, GROWTH, GROWTH_ABOVE)
    survived = ((1 - hazard) * (1 + grown)) ** ticks - 1
    spread = 0.005 * min(10.0, float(np.sqrt(np.median(prices))))
    shares = np.linspace(0, 1, 41)
    rugged = np.interp(np.minimum(low / prices, 1.0), shares, _rug_parts(ticks, round(spread, 3)))
    return float((survived + rugged).mean())


@lru_cache(maxsize=64)
def _rug_parts(ticks: int, spread: float) -> Floats:
    """Give the rug's part of a hold's value by the ratio of lowest price and price at the entry: 41 ratios, 0 to 1."""
    rng = np.random.default_rng([int.from_bytes(b"rug"), ticks])
    shape = (ticks, _PATHS)
    big = (0.15 + 0.10 * rng.random(shape)) * np.where(rng.random(shape) > 0.5, 1.0, -1.0)
    small = -0.02 + 0.05 * rng.random(shape) + spread * (2 * rng.random(shape) - 1)
    moves = 1 + np.where(rng.random(shape) < fair.BIG_CHANCE, big, small)
    lowest = np.minimum.accumulate(np.vstack([np.ones((1, _PATHS)), np.cumprod(moves, axis=0)]), axis=0)[:-1]
    chance = fair.RUG_CHANCE * (1 - fair.RUG_CHANCE) ** np.arange(ticks)
    means = np.array([np.minimum(share, lowest).mean(axis=1) for share in np.linspace(0, 1, 41)])  # (ratios, ticks)
    parts: Floats = fair.RUG_FACTOR * (means @ chance)
    return parts


def read_settled(store: RecordedTables) -> Iterator[SettledBet]:
    """Give the sidebets that were settled, the player's own with what his wallet gained."""
    wanted = ["session_id", "seq", "window_id", "event_name", "sidebet_type", "sidebet_stake", "sidebet_payout"]
    payload = pl.concat([_frame(store, doc_type, wanted) for doc_type in ("player_action", "ws_event")])
    payload = payload.filter(
        pl.col("event_name").is_in([c.BET, c.SIDEBET])
        & (pl.col("sidebet_type") == "payout")
        & (pl.col("sidebet_stake").fill_null(0) > 0)
    )
    wallets = _wallets(store) if (payload["event_name"] == c.BET).any() else {}
    for row in payload.sort("session_id", "seq").iter_rows(named=True):
        own = row["event_name"] == c.BET
        gained = _gained(wallets.get(row["session_id"]), row["seq"]) if own else None
        yield SettledBet(row["window_id"] or "", row["sidebet_stake"], row["sidebet_payout"] or 0, gained)


def _frame(store: RecordedTables, doc_type: str, wanted: Sequence[str]) -> pl.DataFrame:
    frame = pl.from_arrow(store.arrow(doc_type, wanted))
    assert isinstance(frame, pl.DataFrame)
    return frame


def _wallets(store: RecordedTables) -> dict[str, tuple[Ints, Ints]]:
    """Give by session when the player's wallet was told, and what it held."""
    frame = _frame(store, "server_state", ["session_id", "seq", "event_name", "cash"])
    payload = frame.filter((pl.col("event_name") == c.PLAYER) & pl.col("cash").is_not_null()).sort("session_id", "seq")
    return {
        str(name[0]): (some["seq"].to_numpy().astype(np.int64), some["cash"].to_numpy().astype(np.int64))
        for name, some in payload.group_by("session_id", maintain_order=True)
    }


def _gained(wallet: tuple[Ints, Ints] | None, seq: int) -> int | None:
    """Give by how much the wallet grew from the last word before a moment to the first after it."""
    if wallet is None:
        return None
    after = int(np.searchsorted(wallet[0], seq))
    return int(wallet[1][after] - wallet[1][after - 1]) if 0 < after < len(wallet[0]) else None


def read_revealed(store: RecordedTables, whole: WholeRounds) -> Iterator[VerifiedWindow]:
    """Replay every round whose seed was revealed, and hold it against what was told and what was received."""
    wanted = ["game_id", "server_seed", "server_seed_hash", "game_version", "rug_tick", "peak"]
    frame = _frame(store, "complete_game", wanted).filter(pl.col("server_seed").is_not_null())
    indices = {window: position for position, window in enumerate(whole.windows)}
    starts = whole.starts
    for row in frame.unique("game_id", keep="first").sort("game_id").iter_rows(named=True):
        index = indices.get(row["game_id"])
        received = None if index is None else whole.prices[starts[index] : starts[index] + whole.rugs[index]]
        yield VerifiedWindow(row["game_id"], _difference(row, received))


def _difference(row: dict[str, object], received: Floats | None) -> str | None:
    """Say how a revealed round differs from its seed's."""
    seed = str(row["server_seed"])
    promised = row["server_seed_hash"]
    if promised is not None and promised != fair.server_seed_hash(seed):
        return "the seed is not the one that was promised"
    try:
        result = replay(seed, str(row["game_id"]), str(row["game_version"] or "v3"))
    except InputError as error:
        return str(error)
    if row["rug_tick"] != result.rug_tick:
        return f"rug tick {row['rug_tick']}, the seed gives {result.rug_tick}"
    peak = row["peak"]
    if isinstance(peak, float) and not abs(peak - result.peak) <= TOLERANCE:
        return f"peak {peak}, the seed gives {result.peak}"
    if received is not None and not np.allclose(received, result.prices[: len(received)], rtol=0, atol=TOLERANCE):
        return "prices differ from those of the seed"
    return None


AUDIT = AuditRules(
    from_store=from_store,
    from_rows=from_rows,
    hazard=fair.RUG_CHANCE,
    hit_rates={SIDEBET: 1 - (1 - fair.RUG_CHANCE) ** SIDEBET_TICKS},
    break_even={SIDEBET: 1 / PAYOUT},
    promised=(
        *(Promise(f"rugged by tick {tick}", share, age=tick) for tick, share in RUG_BY),
        *(
            Promise(f"entry at {entry:g}x, held {ticks} ticks: success", share, f"hold {ticks}", zone)
            for entry, zone, ticks, share in BEST_HOLDS
        ),
    ),
    unit="tick",
    end="rug",
)
