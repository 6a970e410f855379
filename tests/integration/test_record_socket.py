"""Recording a live Socket.IO feed: the real server, a proxy that cuts, doubles and reorders, and the command."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from playproof.errors import StoreError
from playproof.events import Event
from playproof.game import load_game
from playproof.games.crash.rules.windows import Phase
from playproof.games.crash.server.app import RunningServer, ServeConfig
from playproof.games.crash.server.table import TableMessage
from playproof.record.feeds.socket import Backoff, SocketFeed
from playproof.record.recorder import GAP, REFUSED, Recorder, steady_clock
from playproof.record.redaction import Redaction
from playproof.record.session import NOTE
from playproof.store import EventLog, EventStore

GAME = load_game("crash")
SEED = 12  # its first round rugs at tick 45
KEY = bytes(range(32))
QUICK = Backoff(first=0.02, longest=0.1)

Policy = Callable[[str], Iterable[str]]
"""Gives what a client gets in place of a frame; nothing drops it."""


class Proxy:
    """Stand between a client and the server and do harm, message by message."""

    def __init__(self, url: str) -> None:
        self.upstream = url.replace("http", "ws")
        self.policy: Policy = lambda frame: (frame,)
        self.clients: set[ServerConnection] = set()
        self.url = ""

    async def carry(self, client: ServerConnection) -> None:
        assert client.request is not None
        async with connect(self.upstream + client.request.path, compression=None, max_size=None) as server:
            self.clients.add(client)
            ways = [asyncio.create_task(self.down(client, server)), asyncio.create_task(self.up(client, server))]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            self.clients.discard(client)
            for way in ways:
                way.cancel()
            server.transport.abort()

    async def down(self, client: ServerConnection, server: Any) -> None:
        with suppress(ConnectionClosed):
            async for frame in server:
                for item in self.policy(str(frame)):
                    await client.send(item)

    async def up(self, client: ServerConnection, server: Any) -> None:
        with suppress(ConnectionClosed):
            async for frame in client:
                await server.send(frame)

    async def say(self, frames: Iterable[str]) -> None:
        """Send frames of our own."""
        for frame in frames:
            for client in list(self.clients):
                await client.send(frame)

    def cut(self) -> None:
        """Break every connection without a farewell."""
        for client in list(self.clients):
            client.transport.abort()


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[Proxy]:
    proxy = Proxy(url)
    async with serve(proxy.carry, "127.0.0.1", 0, compression=None, max_size=None) as server:
        proxy.url = f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"
        yield proxy


class Recording:
    """A feed that is being recorded into the real store."""

    def __init__(self, url: str, log: EventLog, session_id: str, **options: Any) -> None:
        self.clock = steady_clock()
        redaction = Redaction(KEY, keep_names=options.pop("keep_names", False))
        self.recorder = Recorder(GAME, log, session_id, "public_ws", redaction=redaction, clock=self.clock)
        self.feed = SocketFeed(url, self.recorder, self.clock, auth={"name": session_id}, backoff=QUICK, **options)
        self.stop = asyncio.Event()
        self.task = asyncio.create_task(self.feed.run(self.stop))

    def count(self, name: str) -> int:
        return self.recorder.counts.names[name]

    async def until(self, condition: Callable[[], bool], seconds: float = 10) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "it never came to that"
            if self.task.done():
                self.task.result()
            await asyncio.sleep(0.005)

    async def until_at(self, server: RunningServer) -> None:
        """Wait until the last thing that the table said is recorded."""
        table = server.table

        def here() -> bool:
            last = self.recorder.last_tick
            return last is not None and (last.window_id, last.columns["tick"], last.columns["game_phase"]) == (
                table.game_id,
                table.tick,
                int(table.phase),
            )

        await self.until(here)

    async def end(self) -> None:
        self.stop.set()
        await self.task
        self.recorder.close()


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with RunningServer(ServeConfig(port=0, seed=SEED, manual=True)) as running:
        yield running


@pytest.fixture
def log(home: Path) -> Iterator[EventLog]:
    with EventLog.open(home, GAME.columns) as opened:
        yield opened


def stored(home: Path, session_id: str) -> list[Event]:
    return list(EventStore(home, GAME.columns).events(session_id=session_id))


def ticks(events: list[Event]) -> dict[Any, Any]:
    es = [e for e in events if e.doc_type == "game_tick"]
    table = {(e.window_id, e.columns["game_phase"], e.columns["tick"]): e.columns["price"] for e in es}
    assert len(table) == len(es), "each tick is stored once"
    return table


def trades(events: list[Event]) -> Counter[Any]:
    return Counter(
        (e.event_name, e.window_id, *sorted(e.columns.items())) for e in events if e.event_name in ("trade", "sidebet")
    )


def rounds(events: list[Event]) -> set[Any]:
    wanted = ("game_id", "rug_tick", "server_seed")
    return {tuple(e.columns[name] for name in wanted) for e in events if e.doc_type == "complete_game"}


def test_the_store_holds_what_the_server_said(server: RunningServer, log: EventLog, home: Path) -> None:
    said: list[list[Any]] = []
    original = server.server.send

    def noting(messages: Iterable[TableMessage]) -> None:
        messages = list(messages)
        said.extend([message.event, *message.arguments] for message in messages)
        original(messages)

    async def work() -> None:
        ada = Recording(server.url, log, "ada", keep_names=True)
        await ada.until(lambda: ada.count("playerLeaderboardPosition") == 1)
        server.server.send = noting  # type: ignore[method-assign]
        await asyncio.to_thread(server.advance_to, Phase.RUGGED)
        await asyncio.to_thread(server.step, 3)
        await ada.until(lambda: ada.recorder.counts.received >= 8 + len(said))
        await ada.end()

    run(work())
    events = stored(home, "ada")
    frames = [e.raw for e in events if e.raw and e.direction == "received"]
    heard = [json.loads(raw[2:]) for raw in frames if raw.startswith("42[")]
    assert heard[6:] == json.loads(json.dumps(said)), "after the greeting, every event with all its arguments"
    (token,) = (m["token"] for e in events if e.event_name == "identity" for m in [json.loads(str(e.raw)[2:])[1]])
    assert token == "[redacted]"
    decides = GAME.recording().decides
    first = next(e.window_id for e in events if e.doc_type == "game_tick")
    indices = [(e.columns["game_phase"], e.columns["tick"]) for e in events if decides(e) and e.window_id == first]
    assert indices == [(1, 0), *((2, tick) for tick in range(45))], "every decision point is there"


def test_no_secret_and_no_name_reaches_the_disk(server: RunningServer, log: EventLog, home: Path) -> None:
    seen: list[str] = []

    async def work() -> None:
        ada = Recording(server.url, log, "ada")
        await ada.until(lambda: ada.count("playerLeaderboardPosition") == 1)
        seen.append(str(ada.feed.token))
        await asyncio.to_thread(server.advance_to, Phase.ACTIVE, 8)
        await ada.until_at(server)
        seen.extend(str(entry["username"]) for entry in server.table._board if entry["username"])
        seen.extend(str(entry["id"]) for entry in server.table._board)
        await ada.end()

    run(work())
    assert len(seen) > 5
    log.close()
    contents = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    assert b"standard/newTrade" in contents
    assert not [secret for secret in seen if secret.encode() in contents]


class Harm:
    """Double every third event, and send every fourth tick behind the next one."""

    def __init__(self) -> None:
        self.count = self.ticks = 0
        self.held: list[str] = []

    def __call__(self, frame: str) -> Iterator[str]:
        self.count += 1
        if frame.startswith('42["gameStateUpdate",{"active":true') and '"rugged":false' in frame:
            self.ticks += 1
            if self.ticks % 4 == 0:
                self.held.append(frame)
                return
            yield from (frame, *self.release())
        else:
            yield frame
        if self.count % 3 == 0 and frame.startswith("42["):
            yield frame

    def release(self) -> list[str]:
        held, self.held = self.held, []
        return held


def test_doubled_reordered_and_cut_feeds_end_in_the_same_store(
    server: RunningServer, log: EventLog, home: Path
) -> None:
    async def work() -> None:
        async with proxied(server.url) as proxy:
            clean, harmed = Recording(server.url, log, "clean"), Recording(proxy.url, log, "harmed")
            await clean.until(lambda: clean.count("playerLeaderboardPosition") >= 1)
            await harmed.until(lambda: harmed.count("playerLeaderboardPosition") >= 1)
            proxy.policy = harm = Harm()
            for number, beats in enumerate((60, 88, 9, 12, 11, 10, 14, 40)):
                await asyncio.to_thread(server.step, beats)
                await clean.until_at(server)
                await asyncio.sleep(0.1)
                await proxy.say(harm.release())
                await harmed.until_at(server)
                if number % 2:
                    greeted = harmed.count("usernameStatus")
                    proxy.cut()
                    await harmed.until(lambda greeted=greeted: harmed.count("usernameStatus") > greeted)  # type: ignore[misc]
                    await asyncio.sleep(0.1)
            await clean.end()
            await harmed.end()
            assert harmed.recorder.counts.reconnects == 4

    run(work())
    clean, harmed = stored(home, "clean"), stored(home, "harmed")
    assert len(ticks(clean)) > 45
    assert ticks(harmed) == ticks(clean)
    assert trades(harmed) == trades(clean)
    assert sum(trades(clean).values()) > 50
    assert rounds(harmed) == rounds(clean)
    assert sum(e.event_name == GAP for e in harmed) >= 3
    assert sum(e.event_name == "late_tick" for e in harmed) > 5, "the proxy did reorder ticks"
    assert not [e for e in clean if e.doc_type == "gap" or e.event_name == "late_tick"]


def test_lost_and_changed_ticks_are_told_and_nothing_is_filled_in(
    server: RunningServer, log: EventLog, home: Path
) -> None:
    def lossy(frame: str) -> Iterable[str]:
        if not frame.startswith('42["gameStateUpdate"'):
            return (frame,)
        payload = json.loads(frame[2:])[1]
        if payload.get("tickCount") in (6, 7, 8):
            return ()
        changed = frame.replace(f'"price":{json.dumps(payload.get("price"))}', '"price":77.5', 1)
        return (frame, changed) if payload.get("tickCount") == 12 else (frame,)

    async def work() -> None:
        async with proxied(server.url) as proxy:
            proxy.policy = lossy
            ada = Recording(proxy.url, log, "ada")
            await ada.until(lambda: ada.count("playerLeaderboardPosition") == 1)
            await asyncio.to_thread(server.advance_to, Phase.ACTIVE, 20)
            await ada.until_at(server)
            proxy.cut()
            await asyncio.to_thread(server.step, 5)
            await ada.until_at(server)
            await ada.end()

    run(work())
    events = stored(home, "ada")
    (window,) = {e.window_id for e in events if e.doc_type == "game_tick"}
    active = sorted(tick for (_, phase, tick) in ticks(events) if phase == 2)
    missing = [(e.columns["missing_from"], e.columns["missing_to"]) for e in events if e.event_name == "gap"]
    assert missing[0] == (6, 8)
    assert active == sorted(set(range(26)) - {t for first, last in missing for t in range(first, last + 1)})
    (conflict,) = (e for e in events if e.event_name == "conflict")
    assert (conflict.columns["tick"], conflict.columns["price"]) == (12, 77.5)
    assert ticks(events)[window, 2, 12] != 77.5
    (gap,) = (json.loads(e.raw or "") for e in events if e.event_name == GAP)
    assert gap["before"]["columns"]["tick"] == 20
    assert gap["after"]["columns"]["tick"] >= 21


def test_bytes_that_are_no_frames_do_not_stop_the_feed(server: RunningServer, log: EventLog, home: Path) -> None:
    rubbish = ["9what", "42[", "42{}", "\x00", "451-[]", '42["chat",NaN]', "42" + "[" * 50_000, "43[]"]
    rubbish.append("42" + "x" * 17_000_000)

    def strange(frame: str) -> Iterable[str]:
        more = rubbish.copy() if frame.startswith('42["playerLeaderboardPosition"') else []
        return (frame, *more)

    async def work() -> None:
        async with proxied(server.url) as proxy:
            proxy.policy = strange
            ada = Recording(proxy.url, log, "ada")
            await ada.until(lambda: ada.recorder.counts.refused == 1, 20)
            await asyncio.to_thread(server.advance_to, Phase.ACTIVE, 3)
            await ada.until_at(server)
            await ada.end()
            assert ada.recorder.counts.reconnects == 0

    run(work())
    raws = [e.raw for e in stored(home, "ada")]
    assert [text for text in rubbish[:-1] if text in raws] == rubbish[:-1]
    assert sum(e.event_name == REFUSED for e in stored(home, "ada")) == 1


def test_a_flood_does_not_keep_the_recorder_from_answering(log: EventLog, home: Path) -> None:
    async def flood(client: ServerConnection) -> None:
        await client.send('0{"sid":"x","upgrades":[],"pingInterval":25000,"pingTimeout":20000}')
        await client.recv()
        await client.send('40{"sid":"y"}')
        await asyncio.sleep(0.2)
        for text in ["2", *(f'42["chat",{{"n":{n}}}]' for n in range(3000))]:
            await client.send(text)
        await client.wait_closed()

    async def work() -> None:
        async with serve(flood, "127.0.0.1", 0, compression=None) as server:
            url = f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"
            ada = Recording(url, log, "ada")
            await ada.until(lambda: ada.count("chat") == 3000)
            await ada.end()

    run(work())
    names = [e.event_name for e in stored(home, "ada")]
    assert names.index("pong") - names.index("ping") < 100


def test_a_lost_player_comes_back_as_the_same(server: RunningServer, log: EventLog) -> None:
    async def work() -> None:
        async with proxied(server.url) as proxy:
            ada = Recording(proxy.url, log, "ada")
            await ada.until(lambda: ada.count("playerLeaderboardPosition") == 1)
            proxy.cut()
            await ada.until(lambda: ada.count("playerLeaderboardPosition") == 2)
            await ada.end()
        assert len(server.table.players) == 1

    run(work())


def test_a_full_disk_ends_the_recording_with_an_error(server: RunningServer, log: EventLog) -> None:
    async def work() -> None:
        ada = Recording(server.url, log, "ada")
        await ada.until(lambda: ada.count("playerLeaderboardPosition") == 1)
        log.close()
        await asyncio.to_thread(server.step, 30)
        with pytest.raises(StoreError):
            await asyncio.wait_for(ada.task, 10)

    run(work())


# the command


@pytest.fixture
def lively() -> Iterator[RunningServer]:
    with RunningServer(ServeConfig(port=0, seed=SEED, speed=100)) as running:
        yield running


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "playproof", "record", *args]


def test_the_command_records_rounds_and_tells_what(lively: RunningServer, home: Path) -> None:
    asked = command("socket", lively.url, "--rounds", "2", "--seconds", "40", "--session", "evening", "--json")
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    payload = json.loads(done.stdout)
    events = stored(home, "evening")
    assert (payload["ended"], payload["events"], payload["windows"]) == ("limit of rounds", len(events), 3)
    assert payload["ticks"] == sum(e.doc_type == "game_tick" for e in events)
    assert json.loads(events[0].raw or "")["url"] == lively.url
    assert "names" in payload


def test_the_live_view_takes_keys_and_ctrl_c_ends_cleanly(lively: RunningServer, home: Path) -> None:
    master, slave = pty.openpty()
    asked = command("socket", lively.url, "--session", "watched", "--json")
    running = subprocess.Popen(asked, stdin=slave, stdout=subprocess.PIPE, stderr=slave, start_new_session=True)
    os.close(slave)
    screen = b""
    deadline = time.monotonic() + 30

    def read_until(word: bytes) -> None:
        nonlocal screen
        while word not in screen:
            assert time.monotonic() < deadline, screen[-2000:].decode("utf-8", "replace")
            screen += os.read(master, 65536)

    read_until(b"position_qty")
    os.write(master, b"mrd")
    read_until(b"discard: ")
    os.killpg(running.pid, signal.SIGINT)
    output = running.communicate(timeout=20)[0]
    os.close(master)
    assert running.returncode == 0
    payload = json.loads(output)
    assert payload["ended"] == "interrupted"
    names = [e.event_name for e in stored(home, "watched") if e.event_name.startswith(NOTE)]
    assert names == ["record.start", "record.mark", "record.redo", "record.discard", "record.stop"]
    for shown in (b"phase", b"events/s", b"lag", b"gaps", b"presses", b"price"):
        assert shown in screen


# an hour


def resident_mb(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    return float(text.partition("VmRSS:")[2].split()[0]) / 1024


def capture(home: Path, speed: float, seconds: float) -> list[float]:
    """Record in a process of its own; give its memory, second by second."""
    with RunningServer(ServeConfig(port=0, seed=SEED, speed=speed)) as server:
        asked = command("socket", server.url, "--seconds", str(seconds), "--session", "hour", "--json")
        running = subprocess.Popen(asked, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        memory = []
        while running.poll() is None:
            time.sleep(1)
            with suppress(FileNotFoundError, IndexError):
                memory.append(resident_mb(running.pid))
        assert running.returncode == 0
    return memory


def check_capture(home: Path, memory: list[float]) -> int:
    """Check that every tick is there and that memory is flat; give the number of whole rounds."""
    events = EventStore(home, GAME.columns).events(session_id="hour")
    indices: dict[Any, list[tuple[int, int]]] = {}
    traders = set()
    for event in events:
        assert event.doc_type != "gap"
        if event.doc_type == "game_tick":
            assert event.event_name == "tick"
            index = (int(str(event.columns["game_phase"])), int(str(event.columns["tick"])))
            indices.setdefault(event.window_id, []).append(index)
        elif event.event_name == "trade":
            traders.add(event.columns["trader"])
    for seen in list(indices.values())[1:-1]:
        rug = seen[-1][1]
        assert seen == [(0, 0), (1, 0), *((2, tick) for tick in range(rug)), (3, rug)]
    assert len(traders) >= 100, "as many bystanders traded"
    settled = memory[len(memory) // 4 :]
    assert max(settled) - settled[0] < 24, memory
    return len(indices) - 2


@pytest.mark.torture
def test_an_hour_of_the_game_at_twenty_times_its_speed(home: Path) -> None:
    assert check_capture(home, capture(home, speed=20, seconds=180)) >= 20
