"""Look into the event store, query it, move it into Parquet, check it and export it.

Leaves out: the store itself (playproof.store). The home is $PLAYPROOF_HOME, or playproof-home here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playproof.cli.output import AsJson, emit, note, to_json
from playproof.errors import ConfigError
from playproof.events import DOC_TYPES, Event
from playproof.home import home
from playproof.json_types import Json

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.table import Table

    from playproof.store import EventStore, Verification

SHOWN = 20
CELL = 60
"""Characters of a value that a table shows."""
FORMATS = ("parquet", "jsonl")

app = typer.Typer(no_args_is_help=True, help=__doc__.partition("\n")[0])

DocTypeOption = Annotated[str | None, typer.Option("--doc-type", help=f"One of: {', '.join(DOC_TYPES)}.")]
WindowOption = Annotated[str | None, typer.Option("--window", help="Only events of this window.")]
SessionOption = Annotated[str | None, typer.Option("--session", help="Only events of this session.")]
LogsOption = Annotated[list[str] | None, typer.Option("--log", help="Only this log; may be given again.")]


@app.command(name="ls")
def list_events(*, as_json: AsJson = False) -> None:
    """List what the store holds: events of each doc_type, hot and compacted, and the sessions.

    The same store gives the same text.

    Example: playproof store ls --json
    """
    store = _store()
    listing = _listing(store)
    _tell_problems(store)
    emit(listing, as_json, lambda: _listing_tables(listing))


@app.command()
def show(
    *,
    doc_type: DocTypeOption = None,
    window: WindowOption = None,
    session: SessionOption = None,
    limit: Annotated[int, typer.Option(help="Events to show; 0 for all.", min=0)] = SHOWN,
    as_json: AsJson = False,
) -> None:
    """Show events in the order of their sessions, whole and with their columns.

    Example: playproof store show --doc-type button_event --limit 5
    """
    store = _store()
    result = store.events(doc_type=doc_type, window_id=window, session_id=session)
    events = [_event_to_dict(event) for event in (islice(result, limit) if limit else result)]
    _tell_problems(store)
    emit({"events": events}, as_json, lambda: _event_table(events))


@app.command()
def query(
    sql: Annotated[str, typer.Argument(help="One SELECT; there is a view for each doc_type.")],
    *,
    max_seconds: Annotated[float, typer.Option(help="Stop a query that takes longer.", min=0.001)] = 60.0,
    max_memory: Annotated[int, typer.Option(help="Megabytes that it may need.", min=16)] = 1024,
    max_rows: Annotated[int, typer.Option(help="Rows that its result may have.", min=1)] = 1_000_000,
    as_json: AsJson = False,
) -> None:
    """Run one SELECT over the events; it reaches the store's events and nothing else.

    A query that takes more time or memory, or gives more rows, than allowed is stopped with an error.

    Example: playproof store query "SELECT window_id, count(*) FROM game_tick GROUP BY ALL ORDER BY ALL"
    """
    from playproof.store.log.query import QueryLimits

    store = _store()
    result = store.query(sql, QueryLimits(max_seconds, max_memory, max_rows))
    _tell_problems(store)
    emit({"columns": result.column_names, "rows": _rows(result)}, as_json, lambda: _result_table(result))


@app.command()
def compact(
    *,
    log: LogsOption = None,
    final: Annotated[
        bool, typer.Option("--final", help="Also the last window of each session: no session goes on.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Move whole windows from the logs into Parquet parts. A log that is being written is refused.

    Example: playproof store compact --final
    """
    from playproof.store import compact as compact_logs

    done = compact_logs(home(), log, final=final)
    emit({"logs": done}, as_json, lambda: _counts_table(done))


@app.command()
def verify(
    *,
    give_up_missing: Annotated[
        bool,
        typer.Option(
            "--give-up-missing",
            help="Also set missing parts aside: their events can be sent again, and the files are not read any more.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check every part and every row against its checksum, and set aside what is damaged. Exit code 2: damage.

    Example: playproof store verify --json
    """
    from playproof.store import verify as verify_store

    result = verify_store(home(), give_up_missing=give_up_missing)
    damaged = bool(result.damage)
    payload = {
        "parts": result.parts,
        "rows": result.rows,
        "damaged": damaged,
        "findings": list(map(asdict, result.findings)),
    }
    emit(payload, as_json, lambda: _findings_table(result))
    if damaged:
        raise typer.Exit(2)


@app.command()
def export(
    path: Annotated[Path, typer.Argument(help="The file to write; .parquet or .jsonl says how.")],
    *,
    doc_type: DocTypeOption = None,
    window: WindowOption = None,
    session: SessionOption = None,
    as_json: AsJson = False,
) -> None:
    """Write events into one file, ordered by session and seq. A file that is there is not touched.

    Example: playproof store export ticks.parquet --doc-type game_tick
    """
    form = path.suffix.removeprefix(".")
    if form not in FORMATS:
        raise ConfigError(f"expected a file that ends in .{' or .'.join(FORMATS)}, found {path.name!r}")
    if path.exists():
        raise ConfigError(f"expected a new file, found {path} there; remove it or name another")
    store = _store()
    events = store.events(doc_type=doc_type, window_id=window, session_id=session)
    count = _write_jsonl(path, events) if form == "jsonl" else _write_parquet(path, events)
    _tell_problems(store)
    emit({"path": str(path), "events": count}, as_json, lambda: f"{count} events in {path}")


def _store() -> EventStore:
    from playproof.store import EventStore

    return EventStore(home())


def _tell_problems(store: EventStore) -> None:
    for problem in store.problems:
        note(f"passed over: {problem}; run: playproof store verify")


def _listing(store: EventStore) -> Json:
    """Count events by log and doc_type, and by session."""
    logs = []
    sessions: dict[str, int] = {}
    for view in store.views():
        counts: dict[str, dict[str, int]] = {name: {"hot": 0, "compacted": 0, "parts": 0} for name in DOC_TYPES}
        for row in view.rows:
            counts[row[4]]["hot"] += 1
            sessions[view.session(row)] = sessions.get(view.session(row), 0) + 1
        for part in view.parts:
            counts[part.doc_type]["compacted"] += part.rows
            counts[part.doc_type]["parts"] += 1
        for name, rows in view.compacted().items():
            sessions[name] = sessions.get(name, 0) + rows
        logs.append(
            {"log": view.name, "doc_types": {name: count for name, count in counts.items() if any(count.values())}}
        )
    payload = [{"session_id": name, "events": count} for name, count in sorted(sessions.items())]
    return {"events": sum(sessions.values()), "logs": logs, "sessions": payload}


def _event_to_dict(event: Event) -> Json:
    payload = (
        asdict(event) if not event.columns else {name: getattr(event, name) for name in event.__dataclass_fields__}
    )
    return payload | {"columns": dict(event.columns)}


def _rows(table: pa.Table) -> list[list[Any]]:
    """Give a result's rows; whole numbers beyond 64 bits, decimals and bytes as texts."""
    return [[_plain(value) for value in row.values()] for row in _named_apart(table).to_pylist()]


def _named_apart(table: pa.Table) -> pa.Table:
    return table.rename_columns([str(index) for index in range(table.num_columns)])


def _plain(value: Any) -> Any:
    from datetime import date, time
    from decimal import Decimal

    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Decimal) and value == value.to_integral_value():
        value = int(value)
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else str(value)
    return value if value is None or isinstance(value, float | str | date | time) else str(value)


def _write_jsonl(path: Path, events: Iterable[Event]) -> int:
    import orjson

    count = 0
    with path.open("xb") as file:
        for event in events:
            file.write(orjson.dumps(_event_to_dict(event), option=orjson.OPT_APPEND_NEWLINE))
            count += 1
    return count


def _write_parquet(path: Path, events: Iterator[Event]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    other = _store()  # a look of its own: `store.problems` are those of the events that are being written
    shape = other.schema(other.views())
    count = 0
    with path.open("xb") as file, pq.ParquetWriter(file, shape, compression="zstd") as writer:
        while chunk := list(islice(events, 50_000)):
            flat = [{name: getattr(event, name) for name in _FLAT} | dict(event.columns) for event in chunk]
            writer.write_table(pa.Table.from_pylist(flat, schema=shape))
            count += len(chunk)
    return count


_FLAT = tuple(name for name in Event.__dataclass_fields__ if name != "columns")


def _listing_tables(listing: Json) -> Any:
    from rich.console import Group
    from rich.table import Table

    logs = Table(
        "log", "doc_type", "hot", "compacted", "parts", title=f"{listing['events']} events", title_justify="left"
    )
    for log in listing["logs"]:
        for doc_type, counts in log["doc_types"].items():
            logs.add_row(log["log"], doc_type, *(str(counts[name]) for name in ("hot", "compacted", "parts")))
    sessions = Table("session", "events")
    for session in listing["sessions"]:
        sessions.add_row(session["session_id"], str(session["events"]))
    return Group(logs, sessions)


def _event_table(events: Sequence[Json]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table("session/seq", "ts", "doc_type", "event", "window", "columns")
    for event in events:
        columns = ", ".join(f"{name}={value}" for name, value in event["columns"].items())
        values = (event["ts"].isoformat(), event["doc_type"], event["event_name"], event["window_id"] or "")
        identity = f"{event['session_id']}/{event['seq']}"
        table.add_row(*(Text(value) for value in (identity, *values, columns[: 2 * CELL])))
    return table


def _result_table(result: pa.Table) -> Table:
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    table = Table(*(escape(name) for name in result.column_names))
    for row in _rows(result.slice(0, 1000)):
        table.add_row(*(Text("" if value is None else _cell(value)) for value in row))
    return table


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else to_json(value)
    return text if len(text) <= CELL else text[: CELL - 1] + "…"


def _counts_table(done: dict[str, dict[str, int]]) -> Table:
    from rich.table import Table

    table = Table("log", "rows moved", "parts made", "damaged rows", "old files removed")
    for name, counts in done.items():
        table.add_row(name, *(str(count) for count in counts.values()))
    return table


def _findings_table(verification: Verification) -> Table:
    from rich.table import Table
    from rich.text import Text

    title = f"checked {verification.parts} parts and {verification.rows} hot rows: {len(verification.damage)} damaged"
    table = Table("kind", "what", "found", "set aside", title=title, title_justify="left")
    for finding in verification.findings:
        table.add_row(finding.kind, Text(finding.what), Text(finding.detail), "yes" if finding.set_aside else "no")
    return table
