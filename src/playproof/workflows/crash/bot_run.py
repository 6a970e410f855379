"""Run a bot: connect, record like a person's play, start the gate, play, end, and keep what the report needs.

Paper follows a Socket.IO feed and settles by its own ledger; practice sends over the same connection, or presses the
page's own buttons in Chromium. Everything that is recorded goes to the home's store under the session's id.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import orjson

from playproof.errors import ConfigError, PlayproofError
from playproof.events import Event
from playproof.game import Frame, Game, load_game
from playproof.home import home, write_durably
from playproof.json_types import Json
from playproof.money import UNIT, show
from playproof.operate.gate_process import GateClient, GatePlan
from playproof.operate.limits import OrderLimits
from playproof.operate.state import account_folder, take_over
from playproof.record.feeds.browser import BrowserFeed
from playproof.record.feeds.selectors import load_map
from playproof.record.feeds.socket import SocketFeed
from playproof.record.live_view import pressed_keys
from playproof.record.recorder import INTERVENTION, Recorder, steady_clock
from playproof.record.redaction import Redaction, clean_url, load_key
from playproof.record.session import RecordingSession
from playproof.store import EventLog
from playproof.validate.examine import Subject
from playproof.workflows.crash.bot import BotTiming, CrashBot
from playproof.workflows.crash.live_player import LivePlayer
from playproof.workflows.crash.venues import ANSWER_S, PageVenue, PaperVenue, SocketVenue, Venue

Mode = Literal["paper", "practice"]
BEAT = 0.05
FIRST_TICK_S = 30.0
SESSION_FILE = "session.json"
PLAYER_FILE = "player"
MOST_PAGE_ROUNDS = 200
"""Rounds after which a browser's page is loaded again, between two rounds: pages grow."""


@dataclass(frozen=True)
class BotPlan:
    """What a bot is to do."""

    subject: Subject
    url: str
    on: Literal["socket", "browser"] = "socket"
    mode: Mode = "paper"
    account: str = ""
    rounds: int = 0
    """Whole rounds after which it ends; 0 for no limit."""
    seconds: float = 0.0
    balance: int = UNIT
    """Of a new paper account."""
    world: str = "published"
    seed: int = 0
    session_id: str = ""
    log: str = "bot"
    headless: bool = True
    selectors: str = "playproof"
    limits: OrderLimits = field(default_factory=OrderLimits)
    timing: BotTiming = field(default_factory=BotTiming)
    answer_s: float = ANSWER_S
    path: Path | None = None
    """The home; None: the one in force."""
    page_rounds: int = MOST_PAGE_ROUNDS

    def __post_init__(self) -> None:
        if self.on == "browser" and self.mode == "paper":
            raise ConfigError("expected --practice in a browser: paper needs no page; use --on socket for paper")
        if self.rounds < 0 or self.seconds < 0:
            raise ConfigError(f"expected limits from 0 on, found {self.rounds} rounds and {self.seconds} seconds")


@dataclass
class RunningBot:
    """What a run is made of; handed to `on_ready`, for whoever drives the table or wants to kill."""

    plan: BotPlan
    bot: CrashBot
    gate: GateClient
    recorder: Recorder
    stop: Callable[[str], None]


OnReady = Callable[[RunningBot], None]


def run_bot(plan: BotPlan, on_ready: OnReady | None = None) -> Json:
    """Run a bot until a limit, a latch or an interruption ends it; give the summary."""
    return asyncio.run(play_bot(plan, on_ready))


async def play_bot(plan: BotPlan, on_ready: OnReady | None = None) -> Json:
    """Run a bot on this loop."""
    session_id = plan.session_id or f"bot-{datetime.now(UTC):%Y%m%d-%H%M%S}-{time.monotonic_ns() % 10**6:06d}"
    account = plan.account or (f"paper-{plan.subject.name}" if plan.mode == "paper" else f"practice-{session_id}")
    account = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in account)[:64]
    root = plan.path or home()
    game = load_game("crash")
    gate = GateClient(
        GatePlan(
            account, session_id, plan.subject.name, plan.subject.policy_hash, plan.mode, clean_url(plan.url),
            plan.balance, plan.limits, str(root),
        )
    )  # fmt: skip
    await gate.start()
    started = time.monotonic()
    with EventLog.open(root, game.columns, plan.log) as store:
        clock = steady_clock()
        source: Any = "cdp" if plan.on == "browser" else "public_ws"
        redaction = Redaction(load_key(root), keep_names=False)
        recorder = Recorder(game, store, session_id, source, redaction=redaction, clock=clock)
        recorder.start(
            {"url": clean_url(plan.url), "game": game.name, "bot": plan.subject.policy_hash, "mode": plan.mode}
        )
        ended = "failed"
        player = LivePlayer(plan.subject, plan.world, gate.status.cash, carries=True, seed=plan.seed, game=game)
        session = _Session(plan, game, recorder, clock, gate, player, account_folder(account, root))
        try:
            ended = await session.run(on_ready)
        finally:
            recorder.close({"ended": ended})
            tail = await gate.end(ended)
    summary = {
        "session": session_id,
        "account": account,
        "policy": plan.subject.name,
        "version": plan.subject.policy_hash,
        "mode": plan.mode,
        "on": plan.on,
        "ended": ended,
        "seconds": round(time.monotonic() - started, 3),
        **session.figures(),
        "audit_lines": tail.get("lines"),
        "audit_head": tail.get("head"),
    }
    _keep(root, session_id, session, summary)
    return summary


class _Session:
    """One run: feed, bot and gate together."""

    def __init__(
        self,
        plan: BotPlan,
        game: Game,
        recorder: Recorder,
        clock: Callable[[], datetime],
        gate: GateClient,
        player: LivePlayer,
        folder: Path,
    ) -> None:
        self.plan, self.game, self.recorder, self.clock, self.gate = plan, game, recorder, clock, gate
        self.player, self.folder = player, folder
        self.stop = asyncio.Event()
        self.why = ""
        self._token: str | None = None
        """As whom we come back; on disk as soon as it is known, for whoever reconciles after a crash."""
        self.bot: CrashBot
        self._feed: SocketFeed | BrowserFeed

    def end(self, why: str) -> None:
        """End the run; the first reason stands."""
        self.why = self.why or why
        self.stop.set()

    async def run(self, on_ready: OnReady | None) -> str:
        """Play; give why it ended."""
        venue: Venue = PaperVenue()
        if self.plan.on == "socket":
            feed = SocketFeed(
                self.plan.url, self.recorder, self.clock, auth={"name": "bot"}, on_events=self._take,
                token=self._read_token(),
            )  # fmt: skip
            self._feed = feed
            if self.plan.mode == "practice":
                venue = SocketVenue(feed.send, self.plan.answer_s)
            self.bot = CrashBot(
                self.player, self.gate, venue, self.folder, timing=self.plan.timing, unread=lambda: feed.unread
            )
        else:
            page_map = load_map(self.plan.selectors)
            venue = PageVenue(None, {one.button_id: one.selector for one in page_map.buttons if one.selector})
            self.bot = CrashBot(self.player, self.gate, venue, self.folder, timing=self.plan.timing)
            reading = RecordingSession(self.game, lambda _: None, "page", "cdp")
            self._feed = BrowserFeed(
                self.plan.url, self.recorder, self.clock, page_map, headless=self.plan.headless,
                drive=self._drive(venue), on_frame=lambda frame: self._read(reading, frame),
            )  # fmt: skip
        self.bot.on_intervention = lambda window, tick: self.recorder.mark(
            INTERVENTION, {"window": window, "tick": tick}
        )
        if on_ready is not None:
            on_ready(RunningBot(self.plan, self.bot, self.gate, self.recorder, self.end))
        tasks = [asyncio.create_task(work) for work in (self._feed.run(self.stop), self.bot.run(), self._watch())]
        with self._signals(), pressed_keys(self._press_key):
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            finally:
                self.stop.set()
                await asyncio.gather(tasks[0], return_exceptions=True)
                for task in tasks[1:]:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                self._write_token()
        return self.why or "closed"

    def _press_key(self, key: str) -> None:
        """Take a key of the terminal: t takes over, Q ends, the page's own keys press while a person plays."""
        buttons = {one.key: one.button_id for one in load_map(self.plan.selectors).buttons if one.key}
        if key == "t":
            take_over(self.folder.parent.parent, self.folder.name)
        elif key == "Q":
            self.end("interrupted")
        elif key in buttons:
            self.bot.person.append(buttons[key])

    def _take(self, events: tuple[Event, ...]) -> None:
        for event in events:
            self.bot.put(event)

    def _read(self, reading: RecordingSession, frame: Frame) -> None:
        """Decode a page's frame at once: the recorder holds frames for a moment, to put them into order."""
        self._take(tuple(reading.read(frame)))

    def _drive(self, venue: PageVenue) -> Callable[[Any], Any]:
        """Give what logs the page in and loads it again now and then, between rounds."""

        async def drive(page: Any) -> None:
            venue.page = page
            await _log_in(page)
            since = 0
            while not self.stop.is_set():
                await self.bot.settled.wait()
                self.bot.settled.clear()
                since += 1
                if since >= self.plan.page_rounds and not self.stop.is_set():
                    since = 0
                    self.gate.say("note", line={"kind": "page", "what": "loaded again between rounds"})
                    await page.reload()
                    await _log_in(page)

        return drive

    async def _watch(self) -> None:
        """Let the gate know that we live, and end at the limits."""
        started = time.monotonic()
        was_connected = False
        while not self.stop.is_set():
            self.bot.beat()
            self._write_token()
            connected = self._feed.connected
            if was_connected and not connected:
                self.gate.say("lost", why="the connection was cut")
            was_connected = connected
            status = self.gate.status
            rounds = sum(one.settled is not None and one.settled.complete for one in self.bot.rounds.values())
            if self.gate.gone.is_set():
                self.end("the gate is gone")
            elif status.latched and (not status.flatten or self.bot.verdicts):
                await self._finish_latch()
            elif self.plan.seconds and time.monotonic() - started >= self.plan.seconds:
                self.end("limit of seconds")
            elif self.plan.rounds and rounds >= self.plan.rounds:
                self.end("limit of rounds")
            await asyncio.sleep(BEAT)

    async def _finish_latch(self) -> None:
        """End after a latch, once it was said whether all is closed."""
        if not self.bot.verdicts:
            await self.bot.flatten()
        self.end(f"halted: {self.gate.status.reason}")

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """End on Ctrl-C and SIGTERM, where this is the main thread."""
        loop = asyncio.get_running_loop()
        with contextlib.ExitStack() as undo:
            for number in (signal.SIGINT, signal.SIGTERM):
                with contextlib.suppress(ValueError, RuntimeError):
                    loop.add_signal_handler(number, self.end, "interrupted")
                    undo.callback(loop.remove_signal_handler, number)
            yield

    def _read_token(self) -> str | None:
        """Come back as the same player, where the account has played here before."""
        path = self.folder / PLAYER_FILE
        if self.plan.mode != "practice" or not path.exists():
            return None
        return path.read_text(encoding="utf-8").strip() or None

    def _write_token(self) -> None:
        token = self._feed.token if isinstance(self._feed, SocketFeed) else None
        if self.plan.mode != "practice" or not token or token == self._token:
            return
        self._token = token
        path = self.folder / PLAYER_FILE
        path.touch(mode=0o600)
        path.write_text(token, encoding="utf-8")

    def figures(self) -> Json:
        """Give what came of it."""
        rounds = [one for one in self.bot.rounds.values() if one.settled is not None and one.decisions]
        orders = [order for one in rounds for order in one.orders.values()]
        return {
            "rounds": len(rounds),
            "decisions": sum(len(one.decisions) for one in rounds),
            "orders": sum(order.answer == "allowed" for order in orders),
            "refused": sum(order.answer != "allowed" for order in orders),
            "pnl": show(sum(one.settled.pnl for one in rounds if one.settled is not None)),
            "cash": show(self.player.ledger.ledger.cash) if self.player.round is not None else None,
            "flat": self.bot.verdicts,
            "alarms": [f"{alarm.stream} in {alarm.window_id}" for alarm in self.bot.alarms],
        }


async def _log_in(page: Any) -> None:
    """Log in on the product's own page; another page is logged in by its person, before."""
    if await page.locator("#login-name").is_visible():
        await page.fill("#login-name", "bot")
        await page.click("#login-go")


def session_folder(root: Path, session_id: str) -> Path:
    """Give the folder of a session's own files."""
    path = root / "bots" / "sessions" / session_id
    path.mkdir(parents=True, exist_ok=True)
    return path


def _keep(root: Path, session_id: str, session: _Session, summary: Json) -> None:
    """Keep what the report compares with the environment."""
    rounds = []
    for window, one in session.bot.rounds.items():
        if one.settled is None or not one.decisions:
            continue
        rounds.append(
            {
                "window": window,
                "settled": asdict(one.settled),
                "told_cash": one.told_cash,
                "taken_over": one.taken_over,
                "failures": one.failures,
                "decisions": [
                    {
                        "tick": int(decision.tick),
                        "phase": int(decision.phase),
                        "substep": decision.substep,
                        "price": decision.price,
                        "observation": decision.observation.tolist(),
                        "action": [int(index) for index in decision.action],
                        "executed": [int(index) for index in executed],
                        "at": decision.ts,
                    }
                    for decision, executed in zip(one.decisions, one.executed, strict=True)
                ],
                "orders": {str(number): asdict(order) for number, order in one.orders.items()},
            }
        )
    plan = {"world": session.plan.world, "seed": session.plan.seed, "stake": session.plan.subject.stake}
    payload = {"summary": summary, "plan": plan, "rounds": rounds}
    path = session_folder(root, session_id) / SESSION_FILE
    write_durably(path, orjson.dumps(payload, option=orjson.OPT_SERIALIZE_NUMPY))


def read_session(root: Path, session_id: str) -> Json:
    """Give what a session kept."""
    path = root / "bots" / "sessions" / session_id / SESSION_FILE
    if not path.exists():
        raise PlayproofError(f"expected the bot's session {session_id!r} under {path.parent}, found none")
    result: Json = orjson.loads(path.read_bytes())
    return result
