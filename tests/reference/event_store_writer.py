"""Write recorded events in the Parquet format of a player's own event store, as his program does.

One file a hundred rows, by doc type and date; one counter for all doc types; naive UTC; decimals as text. A press
writes down the bet field as it stood before the press.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from playproof.events import Event
from playproof.money import UNIT

SCHEMA = pa.schema(
    [
        ("ts", pa.string()),
        ("source", pa.string()),
        ("doc_type", pa.string()),
        ("session_id", pa.string()),
        ("seq", pa.int64()),
        ("direction", pa.string()),
        ("raw_json", pa.string()),
        ("game_id", pa.string()),
        ("player_id", pa.string()),
        ("username", pa.string()),
        ("event_name", pa.string()),
        ("price", pa.string()),
        ("tick", pa.int64()),
        ("action_type", pa.string()),
        ("cash", pa.string()),
        ("position_qty", pa.string()),
        ("button_id", pa.string()),
        ("button_category", pa.string()),
        ("sequence_id", pa.string()),
        ("sequence_position", pa.int64()),
    ]
)
OLD_SCHEMA = pa.schema([field for field in SCHEMA if not field.name.startswith(("button", "sequence"))])
ROWS_PER_FILE = 100


def coins(units: Any) -> float | None:
    return None if units is None else units / UNIT


def rows_of(events: Iterable[Event], session_id: str) -> Iterator[dict[str, Any]]:
    """Give the rows that his program would have kept of a recording: frames, presses with their answers, rounds."""
    events = list(events)
    acks = {event.columns.get("sequence_id"): event for event in events if event.event_name == "ack"}
    bet = 0.001
    for event in events:
        base = {
            "ts": event.ts.replace(tzinfo=None).isoformat(),
            "session_id": session_id,
            "source": "cdp",
            "game_id": event.window_id,
            "direction": event.direction,
        }
        raw = event.raw or ""
        if event.event_name == "press":
            ack = acks.get(event.columns["sequence_id"]) if event.columns["button_category"] == "action" else None
            press = _press(event, bet, ack)
            bet = coins(event.columns["bet_amount"]) or 0.0
            yield base | {
                "doc_type": "button_event",
                "source": "ui",
                "direction": "sent",
                "raw_json": json.dumps(press),
                "tick": press["tick"],
                "price": str(press["price"]),
                **{name: press[name] for name in ("button_id", "button_category", "sequence_id", "sequence_position")},
            }
        elif raw.startswith("42") and event.direction == "received":
            name, *arguments = json.loads(raw[2:])
            message = {"event": name, "data": arguments[-1] if arguments else None}
            yield base | {"doc_type": "ws_event", "event_name": name, "raw_json": json.dumps(message)}
            if name == "playerUpdate":
                yield base | {
                    "doc_type": "server_state",
                    "source": "public_ws",
                    "game_id": "unknown",
                    "player_id": arguments[-1].get("id", "unknown"),
                    "cash": str(arguments[-1]["cash"]),
                    "raw_json": json.dumps(arguments[-1]),
                }
            for entry in arguments[-1].get("gameHistory", ()) if name == "gameStateUpdate" else ():
                yield base | {"doc_type": "complete_game", "game_id": entry["id"], "raw_json": json.dumps(entry)}


def _press(event: Event, bet: float, ack: Event | None) -> dict[str, Any]:
    columns = event.columns
    sequence = uuid.uuid5(uuid.NAMESPACE_OID, f"{event.session_id}/{columns['sequence_id']}")
    done = ack.columns if ack is not None else {}
    return {
        "ts": event.ts.replace(tzinfo=None).isoformat(),
        "server_ts": None,
        "button_id": columns["button_id"],
        "button_category": columns["button_category"],
        "tick": columns.get("tick"),
        "price": columns.get("price"),
        "game_phase": columns.get("game_phase"),
        "game_id": event.window_id,
        "balance": coins(columns.get("cash")),
        "position_qty": coins(columns.get("position_qty")),
        "bet_amount": bet,
        "ticks_since_last_action": columns.get("ticks_since_last_action"),
        "sequence_id": str(sequence),
        "sequence_position": columns.get("sequence_position"),
        "execution_tick": done.get("execution_tick"),
        "execution_price": done.get("execution_price"),
        "trade_id": done.get("trade_id"),
        "client_timestamp": columns.get("client_timestamp"),
        "latency_ms": done.get("latency_ms"),
        "time_in_position": columns.get("time_in_position"),
    }


def write_store(root: Path, rows: Iterable[dict[str, Any]], schema: pa.Schema = SCHEMA) -> Path:
    """Write rows into root/events_parquet; those without a number get one, in their order."""
    waiting: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for seq, row in enumerate(rows):
        numbered = {"seq": seq} | row
        key = (numbered["doc_type"], str(numbered["ts"])[:10])
        waiting.setdefault(key, []).append(numbered)
        if len(waiting[key]) >= ROWS_PER_FILE:
            _flush(root, key, waiting.pop(key), schema)
    for key, some in waiting.items():
        _flush(root, key, some, schema)
    return root / "events_parquet"


def _flush(root: Path, key: tuple[str, str], rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    folder = root / "events_parquet" / f"doc_type={key[0]}" / f"date={key[1]}"
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema)
    pq.write_table(table, folder / f"{rows[0]['seq']:08d}_{uuid.uuid4().hex[:8]}.parquet")
