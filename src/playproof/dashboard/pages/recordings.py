"""Recordings: sessions live and past, one with its windows, and replays in place.

Sessions are listed from the manifests of the logs; only what a page shows of one is read from its events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from itertools import islice

from playproof.dashboard.actions import once_field
from playproof.dashboard.context import DashboardContext, stat_of
from playproof.dashboard.pages.shown import moment, performing_games
from playproof.dashboard.shell import Block, FactList, Field, Form, Link, Page, Part
from playproof.dashboard.tables import Row, TableSource, matches, page_of, view
from playproof.datasets import open_dataset
from playproof.errors import InputError
from playproof.events import Event
from playproof.game import load_game
from playproof.reports.chart import Chart, ChartAxis, Series
from playproof.reports.page import PageTable
from playproof.reports.replay import page_data
from playproof.store import EventStore

LIVE_SECONDS = 15.0
MOST_EVENTS = 60_000
"""Events of a session that its page reads."""
SHOWN_WINDOWS, SHOWN_PRESSES, SHOWN_TICKS = 200, 30, 400


def log_state(context: DashboardContext) -> tuple[object, ...]:
    """Give the state of the logs and parts."""
    folder = context.root / "log"
    if not folder.is_dir():
        return ()
    # a reader touches the file of shared memory, so that one says nothing
    return tuple((path.name, stat_of(path)) for path in sorted(folder.iterdir()) if not path.name.endswith("-shm"))


def sessions(context: DashboardContext) -> list[Row]:
    """Give a row for each session, the logs read again only where they have changed."""
    return context.cache.get("sessions", log_state(context), lambda: _sessions(context))


def _sessions(context: DashboardContext) -> list[Row]:
    counts: Counter[str] = Counter()
    logs: dict[str, str] = {}
    last: dict[str, datetime] = {}
    for view_of in EventStore(context.root).views():
        for row in view_of.rows:
            name = view_of.session(row)
            counts[name] += 1
            logs[name] = view_of.name
        for name, rows in view_of.compacted().items():
            counts[name] += rows
            logs.setdefault(name, view_of.name)
        newest: dict[str, tuple[object, ...]] = {}
        for row in view_of.rows:
            newest[view_of.session(row)] = row
        for name, row in newest.items():
            last[name] = view_of.layout.event(row, name).ts
    return [
        {"session": name, "log": logs[name], "events": count, "last": last.get(name)} for name, count in counts.items()
    ]


def is_live(context: DashboardContext, row: Row) -> bool:
    """Tell whether a session was written a moment ago."""
    return row["last"] is not None and (context.clock() - row["last"]).total_seconds() < LIVE_SECONDS


SESSIONS = TableSource(
    name="sessions",
    columns=(
        ("session", "session", True),
        ("events", "events", False),
        ("log", "log", True),
        ("last", "last event (UTC)", True),
    ),
    read=lambda context, query: page_of(
        [row for row in sessions(context) if matches(row, query.filters)], query, "session"
    ),
    sort="session",
    sortable=frozenset({"session", "events", "log", "last"}),
    filters=("session", "log"),
    empty="Nothing was recorded yet. Record a feed below, or let the scripted player play.",
    show=lambda row: {
        **row,
        "session": Link(row["session"], f"/recordings/{row['session']}"),
        "events": f"{row['events']:,}",
        "last": moment(row["last"]),
    },
)


def recordings_page(context: DashboardContext, values: Mapping[str, str]) -> Page:
    """Show sessions, the live ones first, and the forms that record."""
    going = [row for row in sessions(context) if is_live(context, row)]
    parts: list[Part] = [
        PageTable(
            head=("session", "events", "last event"),
            rows=[
                (Link(row["session"], f"/recordings/{row['session']}"), f"{row['events']:,}", moment(row["last"]))
                for row in going
            ],
        )
        if going
        else "Nothing is being recorded."
    ]
    record = Form(
        action="/do/record",
        title="Record a feed or a page",
        submit="Record",
        fields=[
            once_field(),
            Field(name="url", label="address", value="http://127.0.0.1:8777", required=True),
            Field(name="kind", label="how", kind="select", options=("socket", "browser"), value="socket"),
            Field(name="seconds", label="end after seconds", kind="number"),
            Field(name="rounds", label="end after windows", kind="number"),
            Field(name="session", label="id of the session"),
            Field(name="log", label="log", hint="two recordings at once need two"),
            Field(name="headless", label="browser without a window", kind="checkbox"),
        ],
    )
    perform = Form(
        action="/do/perform",
        title="Let the scripted player play",
        submit="Play",
        fields=[
            once_field(),
            Field(name="game", label="game", kind="select", options=performing_games()),
            Field(name="rounds", label="rounds", kind="number", value="2"),
            Field(name="speed", label="speed", kind="number", value="8"),
        ],
    )
    fields = [Field(name="session", label="session"), Field(name="log", label="log")]
    return Page(
        title="Recordings",
        blocks=[
            Block("going", parts, "Live"),
            Block("sessions", [view(SESSIONS, context, values, "/recordings", fields)], "Sessions"),
            Block("record", [record, perform], "Record", folded=True),
        ],
        topics=("log", "jobs"),
    )


def session_page(context: DashboardContext, values: Mapping[str, str]) -> Page:
    """Show one session: rate, gaps, presses, the last prices, its windows."""
    name = values["session"]
    row = next((row for row in sessions(context) if row["session"] == name), None)
    if row is None:
        raise InputError(f"expected a session, found none called {name[:80]!r}; the list of recordings has their ids")
    store = EventStore(context.root)
    events = context.cache.get(
        ("session", name), log_state(context), lambda: list(islice(store.events(session_id=name), MOST_EVENTS))
    )
    kinds = Counter(event.doc_type for event in events)
    seconds = (events[-1].ts - events[0].ts).total_seconds() if len(events) > 1 else 0.0
    live = is_live(context, row)
    lag = (context.clock() - events[-1].ts).total_seconds() if events and live else None
    facts = [
        ("state", "live" if live else "ended"),
        ("events", f"{row['events']:,}"),
        ("events/s", f"{len(events) / seconds:.1f}" if seconds else None),
        ("windows", f"{len({event.window_id for event in events if event.window_id}):,}"),
        ("presses", f"{kinds['button_event']:,}"),
        ("gaps", f"{sum(event.event_name.lower().find('gap') >= 0 for event in events):,}"),
        ("lag", None if lag is None else f"{lag:.1f} s"),
        ("began (UTC)", moment(events[0].ts) if events else None),
    ]
    chart = _prices(events)
    presses = [event for event in events if event.doc_type == "button_event"][-SHOWN_PRESSES:]
    table = PageTable(
        head=("at (UTC)", "button", "tick"),
        rows=[
            (moment(event.ts), str(event.columns.get("button_id")), event.columns.get("tick"))
            for event in reversed(presses)
        ],
    )
    counts = Counter(event.window_id for event in events if event.window_id)
    replays = _replays(context, name)
    windows = PageTable(
        head=("window", "events", "replay"),
        rows=[
            (window, count, Link("replay", f"/replay/{replays[window]}/{window}") if window in replays else None)
            for window, count in list(counts.items())[-SHOWN_WINDOWS:]
        ],
    )
    cut = [f"Only its first {MOST_EVENTS:,} events are read here."] if len(events) == MOST_EVENTS else []
    export = Link(
        "its events as JSON",
        f"/store/query?sql=SELECT+*+EXCLUDE+(raw)+FROM+game_tick+WHERE+session_id+%3D+%27{name}%27",
    )
    return Page(
        title=name,
        trail=[Link("Recordings", "/recordings")],
        blocks=[
            Block("facts", [FactList(pairs=facts), *cut]),
            Block("prices", [chart] if chart else []),
            Block("presses", [table] if presses else ["No press was recorded."], "Presses"),
            Block("windows", ["A window opens as a replay once a data set holds it.", windows], "Windows"),
            Block("export", [export]),
        ],
        topics=("log",),
    )


def _prices(events: list[Event]) -> Chart | None:
    ticks = [event for event in events if event.doc_type == "game_tick"][-SHOWN_TICKS:]
    column = next((name for name in ("price", "multiplier", "close") if ticks and name in ticks[-1].columns), None)
    if column is None:
        return None
    known = [event for event in ticks if isinstance(event.columns.get(column), int | float)]
    return Chart(
        title=f"The last {len(known)} ticks",
        x=ChartAxis(title="time", kind="time"),
        y=ChartAxis(title=column),
        series=[
            Series(
                name=column,
                x=[event.ts for event in known],
                y=[float(event.columns[column]) for event in known],  # type: ignore[arg-type]
                step=True,
            )
        ],
        wide=True,
    )


def _replays(context: DashboardContext, session: str) -> dict[str, str]:
    """Give, for each window of a session, a data set that holds it."""
    from playproof.datasets.registry import list_datasets

    result: dict[str, str] = {}
    for entry in list_datasets(context.root):
        if session in entry.manifest["sessions"]:
            result |= dict.fromkeys(entry.manifest["split"], entry.label)
    return result


def replay_recorded(context: DashboardContext, label: str, window: str) -> str:
    """Give the page that replays one window of a data set, its scripts linked."""
    from playproof.dashboard.pages.data_sets import find
    from playproof.dashboard.shell import asset_stamp
    from playproof.reports.page import CHART_SCRIPT, embed, render
    from playproof.validate.replay import replay_dataset

    dataset = open_dataset(find(context, label))
    game = load_game(dataset.manifest["game"]["name"])
    replay = replay_dataset(game, dataset, None, window)
    return render(
        "replay.html",
        title=f"Replay: {replay.title}",
        heading=replay.title,
        lead=replay.about,
        data=embed(page_data(replay)),
        packed=False,
        scripts=(CHART_SCRIPT, "replay.js"),
        static_url=f"/static/{asset_stamp()}/",
    )
