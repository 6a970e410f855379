"""What a data set is compared with in the bench: the same features of spectators' rounds, made the usual ways.

Each reads one Parquet file of ticks and writes one with the 37 features of `recorded`, what is missing, action and
reward. Written as a careful user of each library would; only the bench and its tests call them.
Leaves out: a player's own facts, of which these files have none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from playproof.games.crash.fair import id_hash
from playproof.games.crash.features import FEATURES, OBSERVATIONS
from playproof.games.crash.fold import ACTIVE, COOLDOWN, PRESALE, RUGGED

RECORDED = OBSERVATIONS["recorded"].features
_FILLS = {feature.name: feature.fill for feature in FEATURES}
SHOWN = (
    *("connected_players", "rugpool_amount", "rugpool_threshold", "instarug_count", "average_multiplier"),
    *("count_2x", "count_10x", "count_50x", "count_100x", "highest_today"),
)
READ = ("window_id", "tick", "price", "game_phase", "cooldown_timer_ms", *SHOWN)
UNKNOWN = (
    *("balance", "position_qty", "avg_entry_price", "cumulative_pnl", "total_invested", "unrealized_pnl"),
    *("position_pnl_pct", "balance_at_risk_pct", "time_in_position", "bet_amount", "execution_tick"),
    *("execution_price", "trade_id_hash", "client_timestamp", "latency_ms"),
)
"""Features that a spectator never knows."""


class PerEvent:
    """Build observations one event at a time, in plain Python: the obvious builder."""

    def __init__(self) -> None:
        self.window: str | None = None
        self.price = self.velocity = self.acceleration = 0.0
        self.tick = 0

    def update(self, event: dict[str, Any]) -> None:
        """Take one tick."""
        if event["window_id"] != self.window:
            self.window, self.price, self.velocity, self.acceleration, self.tick = event["window_id"], 1.0, 0.0, 0.0, 0
        if event["game_phase"] >= ACTIVE and event["tick"] == self.tick + 1:
            velocity = event["price"] - self.price
            self.acceleration, self.velocity = velocity - self.velocity, velocity
        self.event, self.tick, self.price = event, event["tick"], event["price"]

    def build(self) -> dict[str, float]:
        """Give the features now."""
        event = self.event
        row = {name: _FILLS[name] for name in UNKNOWN}
        row |= {name: event[name] for name in ("tick", "price", "game_phase", "cooldown_timer_ms", *SHOWN)}
        row["allow_pre_round_buys"] = float(event["game_phase"] == PRESALE)
        row["active"] = float(event["game_phase"] >= ACTIVE)
        row["rugged"] = float(event["game_phase"] == RUGGED)
        row["game_id_hash"] = id_hash(event["window_id"])
        row["price_velocity"], row["price_acceleration"] = self.velocity, self.acceleration
        row["rugpool_ratio"] = event["rugpool_amount"] / event["rugpool_threshold"]
        row["ticks_since_last_action"] = float(event["tick"])
        return row


def build_per_event(source: Path, target: Path) -> int:
    """Build a file event by event; give the rows."""
    builder, rows = PerEvent(), list[dict[str, Any]]()
    for event in pq.read_table(source, columns=list(READ)).to_pylist():
        builder.update(event)
        if event["game_phase"] != COOLDOWN:
            row = builder.build()
            row |= {f"{name}__missing": name in UNKNOWN for name in RECORDED}
            row |= {"window_id": event["window_id"], "head_0": 0, "head_1": 0, "reward": 0.0}
            rows.append(row)
    pl.DataFrame(rows).cast(dict.fromkeys(RECORDED, pl.Float32)).write_parquet(target)
    return len(rows)


def build_polars(source: Path, target: Path) -> int:
    """Build a file with Polars expressions; give the rows."""
    price, phase, window = pl.col("price"), pl.col("game_phase"), "window_id"
    runs = (phase >= ACTIVE) & (pl.col("tick") > 0)
    frame = pl.read_parquet(source, columns=list(READ))
    hashes = frame.select(pl.col(window).unique()).with_columns(
        game_id_hash=pl.col(window).map_elements(id_hash, pl.Float64)
    )
    made = (
        frame.with_columns(price_velocity=pl.when(runs).then(price.diff().over(window)).otherwise(0.0))
        .with_columns(
            price_acceleration=pl.when(runs).then(pl.col("price_velocity").diff().over(window)).otherwise(0.0)
        )
        .filter(phase != COOLDOWN)
        .join(hashes, on=window, how="left", maintain_order="left")
        .with_columns(
            allow_pre_round_buys=phase == PRESALE,
            active=phase >= ACTIVE,
            rugged=phase == RUGGED,
            rugpool_ratio=pl.col("rugpool_amount") / pl.col("rugpool_threshold"),
            ticks_since_last_action=pl.col("tick"),
            **{name: pl.lit(_FILLS[name]) for name in UNKNOWN},
        )
        .select(
            window,
            *(pl.col(name).cast(pl.Float32) for name in RECORDED),
            *(pl.lit(name in UNKNOWN).alias(f"{name}__missing") for name in RECORDED),
            pl.lit(0, pl.Int16).alias("head_0"),
            pl.lit(0, pl.Int16).alias("head_1"),
            pl.lit(0.0).alias("reward"),
        )
    )
    made.write_parquet(target)
    return made.height


def build_pandas(source: Path, target: Path) -> int:
    """Build a file with pandas; give the rows."""
    import pandas as pd

    frame = pd.read_parquet(source, columns=list(READ))
    runs = (frame["game_phase"] >= ACTIVE) & (frame["tick"] > 0)
    frame["price_velocity"] = frame.groupby("window_id", sort=False)["price"].diff().where(runs, 0.0)
    frame["price_acceleration"] = frame.groupby("window_id", sort=False)["price_velocity"].diff().where(runs, 0.0)
    frame = frame[frame["game_phase"] != COOLDOWN].copy()
    frame["game_id_hash"] = frame["window_id"].map({name: id_hash(name) for name in frame["window_id"].unique()})
    frame["allow_pre_round_buys"] = frame["game_phase"] == PRESALE
    frame["active"], frame["rugged"] = frame["game_phase"] >= ACTIVE, frame["game_phase"] == RUGGED
    frame["rugpool_ratio"] = frame["rugpool_amount"] / frame["rugpool_threshold"]
    frame["ticks_since_last_action"] = frame["tick"]
    columns: dict[str, Any] = {"window_id": frame["window_id"]}
    columns |= {
        name: np.float32(_FILLS[name]) if name in UNKNOWN else frame[name].astype(np.float32) for name in RECORDED
    }
    columns |= {f"{name}__missing": name in UNKNOWN for name in RECORDED}
    made = pd.DataFrame(columns | {"head_0": np.int16(0), "head_1": np.int16(0), "reward": 0.0}, index=frame.index)
    made.to_parquet(target, index=False, compression="zstd")
    return len(made)


PEERS = {"per event": build_per_event, "pandas": build_pandas, "Polars": build_polars}
