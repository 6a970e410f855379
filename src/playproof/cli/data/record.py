"""Record a live feed or a person at a page into the event store."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, runtime_checkable

import typer

from playproof.cli.output import AsJson, console, emit, note
from playproof.errors import ConfigError
from playproof.json_types import Json

if TYPE_CHECKING:
    from rich.table import Table

    from playproof.events import Source
    from playproof.record.feeds.documents import Drive
    from playproof.record.feeds.selectors import SelectorMap
    from playproof.record.recorder import Clock, Recorder

app = typer.Typer(no_args_is_help=True, help="Record a live feed or a person at a page into the event store.")

Seconds = Annotated[float, typer.Option(help="End after so many seconds; 0 for no limit.")]
Rounds = Annotated[int, typer.Option(help="End when so many windows have passed; 0 for no limit.")]
Session = Annotated[str, typer.Option(help="Id of the session; made from the time if left out.")]
LogName = Annotated[str, typer.Option(help="Hot log to write to; two recorders at once need two.")]
KeepNames = Annotated[bool, typer.Option("--keep-names", help="Do not hash other players' names.")]
Selectors = Annotated[str, typer.Option(help="Selector map: a name that comes with the product, or a TOML file.")]

BEAT = 0.05


@dataclass(frozen=True)
class RecordPlan:
    """What to record, where to, and for how long."""

    url: str
    source: Source
    selectors: str = "playproof"
    game: str = ""
    """Empty: the game that the selector map is for."""
    session_id: str = ""
    log: str = "main"
    keep_names: bool = False
    seconds: float = 0.0
    rounds: int = 0
    home: Path | None = None

    def __post_init__(self) -> None:
        if self.seconds < 0 or self.rounds < 0:
            raise ConfigError(f"expected limits from 0 on, found {self.seconds} seconds and {self.rounds} rounds")


class Feed(Protocol):
    """Something that is recorded until it is told to stop."""

    async def run(self, stop: asyncio.Event) -> None:
        """Record."""


@runtime_checkable
class OpeningFeed(Feed, Protocol):
    """A feed that may turn out not to be there; it calls `on_open` when it is, before anything is recorded."""

    on_open: Callable[[], None] | None


MakeFeed = Callable[["Recorder", "Clock", "SelectorMap"], Feed]


@app.command()
def socket(
    url: Annotated[str, typer.Argument(help="Address of a Socket.IO server, such as http://127.0.0.1:8777.")],
    game: Annotated[str, typer.Option(help="Whose feed it is; the selector map's game if left out.")] = "",
    auth: Annotated[str, typer.Option(help="JSON object for the connect frame; never stored.")] = "",
    path: Annotated[str, typer.Option(help="Path of the Socket.IO endpoint.")] = "socket.io",
    session: Session = "",
    log: LogName = "main",
    seconds: Seconds = 0.0,
    rounds: Rounds = 0,
    keep_names: KeepNames = False,
    as_json: AsJson = False,
) -> None:
    """Record a Socket.IO feed: every frame, duplicates known by the game, gaps noted; Ctrl-C ends it.

    Example: playproof record socket http://127.0.0.1:8777 --seconds 60 --json
    """
    from playproof.record.feeds.socket import SocketFeed, read_auth

    plan = RecordPlan(url, "public_ws", "playproof", game, session, log, keep_names, seconds, rounds)
    given = read_auth(auth)
    summary = record(plan, lambda recorder, clock, _: SocketFeed(url, recorder, clock, auth=given, path=path))
    emit(summary, as_json, lambda: summary_table(summary))


@app.command()
def browser(
    url: Annotated[str, typer.Argument(help="Address of the page to play on.")],
    selectors: Selectors = "playproof",
    headless: Annotated[bool, typer.Option("--headless", help="Show no window.")] = False,
    attach: Annotated[str, typer.Option(help="Address of a Chromium that runs with --remote-debugging-port.")] = "",
    session: Session = "",
    log: LogName = "main",
    seconds: Seconds = 0.0,
    rounds: Rounds = 0,
    keep_names: KeepNames = False,
    as_json: AsJson = False,
) -> None:
    """Record a person at a page in Chromium: the page's socket frames and the presses; Ctrl-C ends it.

    Example: playproof record browser http://127.0.0.1:8777 --rounds 5

    Example: playproof record browser https://example.invalid/play --selectors my-site.toml --attach http://127.0.0.1:9222
    """
    plan = RecordPlan(url, "cdp", selectors, "", session, log, keep_names, seconds, rounds)
    summary = record_page(plan, headless=headless, attach=attach or None)
    emit(summary, as_json, lambda: summary_table(summary))


@app.command()
def selectors(
    url: Annotated[str, typer.Argument(help="Address of the page whose buttons to name.")],
    output: Annotated[Path, typer.Option(help="Selector map to write.")] = Path("selectors.toml"),
    names: Annotated[
        str, typer.Option(help="Buttons in the order of the presses: NAME or NAME:category; all of --base if left out.")
    ] = "",
    fields: Annotated[str, typer.Option(help="Fields to press after the buttons; empty for none.")] = "bet_amount",
    base: Annotated[str, typer.Option(help="Selector map that gives game, reading and categories.")] = "playproof",
    event: Annotated[
        str, typer.Option(help="Event at which the page acts: click, pointerdown, mousedown...")
    ] = "click",
    headless: Annotated[bool, typer.Option("--headless", help="Show no window.")] = False,
    attach: Annotated[str, typer.Option(help="Address of a Chromium that runs with --remote-debugging-port.")] = "",
    seconds: Seconds = 0.0,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a selector map: press each button as its name is asked for; the page does not get these presses.

    Esc skips a name that the page does not have. Hold Alt to use the page itself, for instance to log in.

    Example: playproof record selectors https://example.invalid/play --output my-site.toml --names BUY,SELL,SIDEBET
    """
    plan = PickPlan(url, output, _words(names), _words(fields), base, event, headless, attach or None, seconds, force)
    summary = pick_selectors(plan)
    emit(summary, as_json, lambda: selector_table(summary))


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


@dataclass(frozen=True)
class PickPlan:
    """Which elements of a page to ask for, and where to write their selectors."""

    url: str
    output: Path
    names: tuple[str, ...] = ()
    """Empty: all buttons of the base map."""
    fields: tuple[str, ...] = ("bet_amount",)
    base: str = "playproof"
    event: str = "click"
    headless: bool = False
    attach: str | None = None
    seconds: float = 0.0
    force: bool = False

    def __post_init__(self) -> None:
        from playproof.record.feeds.selectors import EVENTS

        if self.event not in EVENTS:
            raise ConfigError(f"expected --event to be one of {', '.join(EVENTS)}, found {self.event!r}")
        if self.output.suffix != ".toml":
            raise ConfigError(f"expected --output to end in .toml, found {self.output}")
        if self.output.exists() and not self.force:
            raise ConfigError(f"expected no file at {self.output}, found one; use another --output, or --force")


def pick_selectors(plan: PickPlan, drive: Drive | None = None) -> dict[str, Any]:
    """Ask a person, or `drive`, to press the elements of a page; write the selector map and give a summary."""
    from playproof.record.feeds.picking import SelectorPicker, map_text, wanted_elements, write_map

    wanted = wanted_elements(plan.names, plan.fields, plan.base)

    async def pick() -> SelectorPicker:
        picker = SelectorPicker(plan.url, wanted, plan.headless, plan.attach, drive)
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        if plan.seconds:
            loop.call_later(plan.seconds, stop.set)
        with contextlib.ExitStack() as undo:
            with contextlib.suppress(ValueError, RuntimeError):  # not in the main thread
                loop.add_signal_handler(signal.SIGINT, stop.set)
                undo.callback(loop.remove_signal_handler, signal.SIGINT)
            note(f"press {', '.join(one.name for one in wanted)} on the page, in this order (Esc skips, Ctrl-C ends)")
            await picker.run(stop)
        return picker

    picker = asyncio.run(pick())
    if not any(not one.wanted.is_field for one in picker.picked):
        raise ConfigError(f"expected at least one button to be pressed on {plan.url}, found none; nothing was written")
    write_map(plan.output, map_text(picker.picked, plan.base, plan.url, plan.event))
    named = {one.wanted.name: one.selector for one in picker.picked}
    return {
        "output": str(plan.output),
        "selectors": named,
        "missing": [one.name for one in wanted if one.name not in named],
        "next": f"playproof record browser {plan.url} --selectors {plan.output}",
    }


def selector_table(summary: dict[str, Any]) -> Table:
    """Lay the selectors out."""
    from rich.table import Table

    table = Table("name", "selector", title=f"wrote {summary['output']}", title_justify="left")
    for name, selector in summary["selectors"].items():
        table.add_row(name, selector)
    if summary["missing"]:
        table.add_row("not named", ", ".join(summary["missing"]))
    table.add_row("next", summary["next"])
    return table


def record_page(
    plan: RecordPlan, *, headless: bool = False, attach: str | None = None, drive: Drive | None = None
) -> Json:
    """Record a page, played by a person or by `drive`; give the summary."""
    from playproof.record.feeds.browser import BrowserFeed

    def make(recorder: Recorder, clock: Clock, page_map: SelectorMap) -> Feed:
        return BrowserFeed(plan.url, recorder, clock, page_map, headless=headless, attach=attach, drive=drive)

    return record(plan, make)


def record(plan: RecordPlan, make_feed: MakeFeed) -> Json:
    """Record a feed into the home's store until it ends; give the summary, with everything durable."""
    from playproof.game import load_game
    from playproof.home import home
    from playproof.record.feeds.selectors import load_map
    from playproof.record.recorder import Recorder, steady_clock
    from playproof.record.redaction import Redaction, clean_url, load_key
    from playproof.store import EventLog

    page_map = load_map(plan.selectors)
    game = load_game(plan.game or page_map.game)
    clock, index = steady_clock(), plan.home or home()
    session_id = plan.session_id or f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{plan.source}-{time.monotonic_ns() % 10**6:06d}"
    redaction = Redaction(load_key(index), keep_names=plan.keep_names)
    with EventLog.open(index, game.columns, plan.log) as store:
        recorder = Recorder(
            game, store, session_id, plan.source, redaction=redaction, clock=clock, reading=page_map.reading
        )
        payload = {"url": clean_url(plan.url), "game": game.name, "game_version": game.version, "source": plan.source}
        started, ended, has_begun = time.monotonic(), "failed", False

        def begin() -> None:
            nonlocal has_begun
            has_begun = True
            recorder.start(payload)

        try:
            feed = make_feed(recorder, clock, page_map)
            if isinstance(feed, OpeningFeed):
                feed.on_open = begin
            else:
                begin()
            ended = asyncio.run(_run(feed, recorder, plan, page_map, clock))
        finally:
            if has_begun:
                recorder.close({"ended": ended})
            else:
                recorder.abandon()  # a page that was never there leaves no session
    return {
        **payload,
        "ended": ended,
        "seconds": round(time.monotonic() - started, 3),
        **_summary(recorder, plan, index),
    }


def _summary(recorder: Recorder, plan: RecordPlan, path: Path) -> Json:
    counts = recorder.counts
    return {
        "session_id": recorder.session_id,
        "home": str(path),
        "log": plan.log,
        "events": sum(counts.docs.values()),
        "frames_received": counts.received,
        "frames_sent": counts.sent,
        "windows": counts.windows,
        "ticks": counts.docs["game_tick"],
        "presses": counts.presses,
        "gaps": counts.gaps,
        "reconnects": counts.reconnects,
        "refused": counts.refused,
        "late": counts.late,
        "docs": dict(sorted(counts.docs.items())),
        "names": dict(sorted(counts.names.items())),
        "listeners": recorder.listeners,
    }


async def _run(feed: Feed, recorder: Recorder, plan: RecordPlan, page_map: SelectorMap, clock: Clock) -> str:
    """Run a feed until it ends, a limit is reached or somebody interrupts it; say which."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    why: list[str] = []

    def end(reason: str) -> None:
        why.append(reason)
        stop.set()

    with contextlib.ExitStack() as undo:
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(ValueError, RuntimeError):  # not in the main thread
                loop.add_signal_handler(number, end, "interrupted")
                undo.callback(loop.remove_signal_handler, number)
        tasks = [asyncio.create_task(_limit(recorder, plan, end))]
        if sys.stderr.isatty():
            tasks.append(_show(recorder, plan, page_map, clock, end, undo))
        else:
            note(f"recording {recorder.session_id} (Ctrl-C ends)")
        try:
            await feed.run(stop)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return why[0] if why else "closed"


async def _limit(recorder: Recorder, plan: RecordPlan, end: Callable[[str], None]) -> None:
    """End the recording at its limits."""
    started = time.monotonic()
    while True:
        await asyncio.sleep(BEAT)
        if plan.seconds and time.monotonic() - started >= plan.seconds:
            end("limit of seconds")
            return
        if plan.rounds and recorder.counts.windows > plan.rounds:
            end("limit of rounds")
            return


def _show(
    recorder: Recorder,
    plan: RecordPlan,
    page_map: SelectorMap,
    clock: Clock,
    end: Callable[[str], None],
    undo: contextlib.ExitStack,
) -> asyncio.Task[None]:
    """Show the recording in the terminal and take the keys."""
    from playproof.record.live_view import LiveView, pressed_keys

    money = frozenset(column.name for column in recorder.game.columns if column.kind == "money")
    view = LiveView(recorder, f"recording {recorder.session_id} from {plan.url}", clock, page_map.view, money).listen()

    def take(key: str) -> None:
        if view.say(key):
            end("quit")

    undo.enter_context(pressed_keys(take))
    return asyncio.create_task(view.draw(console(stderr=True)))


def summary_table(summary: Json) -> Table:
    """Lay a summary out."""
    from rich.table import Table

    table = Table("what", "value", title=f"recorded {summary['session_id']}", title_justify="left")
    plain = {name: value for name, value in summary.items() if name not in ("names", "listeners", "docs")}
    for name, value in {**plain, **{f"  {doc}": count for doc, count in summary["docs"].items()}}.items():
        table.add_row(name, str(value))
    return table
