"""What a data set is compared with in the bench: the same features of spectators' rounds, made the usual ways.

Each reads one Parquet file of ticks and writes the four tables of a data set: the 37 features of `recorded` and what
is missing, actions, rewards, labels. Written as a careful user of each library would; only the bench and its tests
call them; a test holds their values against a data set's. Leaves out: a player's own facts, of which these files have
none; episodes and their outcomes, hashes, and statistics of the train split, all of which a data set has.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from playproof.games.crash.features.state import ACTIVE, COOLDOWN, PRESALE, RUGGED, id_hash
from playproof.games.crash.features.table import FEATURES, OBSERVATIONS
from playproof.games.crash.rules.money import SIDEBET_TICKS

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


CONSTANT: dict[str, dict[str, Any]] = {
    "actions": {
        **{name: np.int16(0) for name in ("substep", "head_0", "head_1")},
        "effect": False,
        "bet_amount": np.int64(10**6),
        "sell_share": np.int64(100),
        "sidebet_stake": np.int64(0),
        "state_age_ticks": np.int32(-1),
        "state_age_us": np.int64(-1),
    },
    "rewards": {
        **dict.fromkeys(("reward", "reward__financial", "reward__bankruptcy"), 0.0),
        **dict.fromkeys(("cash", "equity", "next_equity"), np.int64(10**9)),
        "truncated": False,
    },
}
"""What a spectator's actions and rewards hold in every row."""


def build_per_event(source: Path, target: Path) -> int:
    """Build a file event by event; give the rows."""
    builder, rows = PerEvent(), list[dict[str, Any]]()
    for event in pq.read_table(source, columns=list(READ)).to_pylist():
        builder.update(event)
        if event["game_phase"] != COOLDOWN:
            row = builder.build()
            row |= {f"{name}__missing": name in UNKNOWN for name in RECORDED}
            rows.append(row | {"window_id": event["window_id"], "final": event["game_phase"] == RUGGED})
    rugs = {row["window_id"]: row["tick"] for row in rows if row["final"]}
    actions, rewards, labels = list[dict[str, Any]](), list[dict[str, Any]](), list[dict[str, Any]]()
    step = 0
    for row in rows:
        row["step"], step = step, 0 if row["final"] else step + 1
        if not row["final"]:
            keys = {"window_id": row["window_id"], "step": row["step"]}
            actions.append(keys | CONSTANT["actions"])
            rewards.append(keys | CONSTANT["rewards"] | {"terminated": row["tick"] + 1 == rugs[row["window_id"]]})
            labels.append(keys | {"rug_within_40": float(rugs[row["window_id"]] <= row["tick"] + SIDEBET_TICKS)})
    tables = {"actions": actions, "rewards": rewards, "labels": labels}
    pl.DataFrame(rows).cast(dict.fromkeys(RECORDED, pl.Float32)).write_parquet(target)
    for name, table in tables.items():
        pl.DataFrame(table).write_parquet(target.with_suffix(f".{name}"))
    return len(rows)


def build_polars(source: Path, target: Path, **written: Any) -> int:
    """Build a file with Polars expressions; give the rows. `written` goes to its writer."""
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
            step=pl.int_range(pl.len(), dtype=pl.Int32).over(window),
            allow_pre_round_buys=phase == PRESALE,
            active=phase >= ACTIVE,
            rugged=phase == RUGGED,
            rugpool_ratio=pl.col("rugpool_amount") / pl.col("rugpool_threshold"),
            ticks_since_last_action=pl.col("tick"),
            **{name: pl.lit(_FILLS[name]) for name in UNKNOWN},
        )
    )
    made.select(
        window,
        "step",
        *(pl.col(name).cast(pl.Float32) for name in RECORDED),
        *(pl.lit(name in UNKNOWN).alias(f"{name}__missing") for name in RECORDED),
        pl.col("rugged").alias("final"),
    ).write_parquet(target, **written)
    rug = pl.col("tick").max().over(window)
    steps = made.select(
        window,
        "step",
        "rugged",
        terminated=pl.col("tick") + 1 == rug,
        rug_within_40=(rug <= pl.col("tick") + SIDEBET_TICKS).cast(pl.Float64),
    ).filter(~pl.col("rugged"))
    for name, constant in CONSTANT.items():
        shown = [window, "step", *([] if name == "actions" else ["terminated"])]
        columns = [pl.lit(value, _POLARS[type(value)]).alias(key) for key, value in constant.items()]
        steps.select(*shown, *columns).write_parquet(target.with_suffix(f".{name}"), **written)
    steps.select(window, "step", "rug_within_40").write_parquet(target.with_suffix(".labels"), **written)
    return made.height


_POLARS: dict[type, Any] = {
    np.int16: pl.Int16,
    np.int32: pl.Int32,
    np.int64: pl.Int64,
    float: pl.Float64,
    bool: pl.Boolean,
}


def build_pandas(source: Path, target: Path) -> int:
    """Build a file with pandas; give the rows."""
    import pandas as pd

    frame = pd.read_parquet(source, columns=list(READ))
    runs = (frame["game_phase"] >= ACTIVE) & (frame["tick"] > 0)
    frame["price_velocity"] = frame.groupby("window_id", sort=False)["price"].diff().where(runs, 0.0)
    frame["price_acceleration"] = frame.groupby("window_id", sort=False)["price_velocity"].diff().where(runs, 0.0)
    frame = frame[frame["game_phase"] != COOLDOWN].copy()
    windows = frame.groupby("window_id", sort=False)
    frame["step"], frame["rug"] = windows.cumcount().astype(np.int32), windows["tick"].transform("max")
    frame["game_id_hash"] = frame["window_id"].map({name: id_hash(name) for name in frame["window_id"].unique()})
    frame["allow_pre_round_buys"] = frame["game_phase"] == PRESALE
    frame["active"], frame["rugged"] = frame["game_phase"] >= ACTIVE, frame["game_phase"] == RUGGED
    frame["rugpool_ratio"] = frame["rugpool_amount"] / frame["rugpool_threshold"]
    frame["ticks_since_last_action"] = frame["tick"]
    columns: dict[str, Any] = {"window_id": frame["window_id"], "step": frame["step"]}
    columns |= {
        name: np.float32(_FILLS[name]) if name in UNKNOWN else frame[name].astype(np.float32) for name in RECORDED
    }
    columns |= {f"{name}__missing": name in UNKNOWN for name in RECORDED} | {"final": frame["rugged"]}
    pd.DataFrame(columns, index=frame.index).to_parquet(target, index=False, compression="zstd")
    steps = frame[~frame["rugged"]]
    keys = {"window_id": steps["window_id"], "step": steps["step"]}
    tables = {
        "actions": keys | CONSTANT["actions"],
        "rewards": keys | CONSTANT["rewards"] | {"terminated": steps["tick"] + 1 == steps["rug"]},
        "labels": keys | {"rug_within_40": (steps["rug"] <= steps["tick"] + SIDEBET_TICKS).astype(np.float64)},
    }
    for name, table in tables.items():
        made = pd.DataFrame(table, index=steps.index)
        made.to_parquet(target.with_suffix(f".{name}"), index=False, compression="zstd")
    return len(frame)


def build_polars_lightly(source: Path, target: Path) -> int:
    """Build a file with Polars, written as quickly as it can: LZ4 in place of zstd, and no statistics."""
    return build_polars(source, target, compression="lz4", statistics=False)


PEERS = {
    "per event": build_per_event,
    "pandas": build_pandas,
    "Polars": build_polars,
    "Polars, written lightly": build_polars_lightly,
}
