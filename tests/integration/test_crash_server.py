"""The crash server over real sockets: protocol, players and tokens, who gets in, bounded input, shutdown."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import socketio
from engineio.packet import MESSAGE, PING, Packet
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from playproof.errors import ConfigError, UnknownName
from playproof.games.crash.rules import prices
from playproof.games.crash.rules.windows import Phase
from playproof.games.crash.server import protocol
from playproof.games.crash.server.access import MAX_INPUT, read_token, readable
from playproof.games.crash.server.app import Bucket, CrashServer, RunningServer, ServeConfig, clean_name, listen
from playproof.games.crash.server.broadcast import Outbox, frame, frames, packet
from playproof.games.crash.server.protocol import BET, BUY, PLAYER, SELL, SESSION, STATE, TRADE, FeedFrame
from playproof.games.crash.server.table import TableMessage
from playproof.money import UNIT, to_units
from playproof.net.access import admits_host, admits_origin
from playproof.reports.page import STATIC

SEED = 14


class Client:
    """A player's end of a raw WebSocket."""

    def __init__(self, wire: ClientConnection) -> None:
        self.wire = wire
        self.got: list[FeedFrame] = []
        self.acks = 0

    async def next(self) -> FeedFrame:
        while True:
            text = await asyncio.wait_for(self.wire.recv(), 10)
            assert isinstance(text, str)
            read = protocol.parse_frame(text)
            if read.kind == "ping":
                await self.wire.send("3")
                continue
            self.got.append(read)
            return read

    async def until(self, wanted: Callable[[FeedFrame], bool]) -> FeedFrame:
        while True:
            read = await self.next()
            if wanted(read):
                return read

    async def event(self, name: str) -> Any:
        return protocol.payload_of((await self.until(lambda read: read.event == name)).arguments)

    async def order(self, kind: str, payload: Any) -> Any:
        self.acks += 1
        number = self.acks
        await self.wire.send(protocol.event_frame(kind, [payload], number))
        return (await self.until(lambda read: read.kind == "ack" and read.ack_id == number)).arguments[0]


def socket_url(server: RunningServer) -> str:
    return server.url.replace("http", "ws") + "/socket.io/?EIO=4&transport=websocket"


@asynccontextmanager
async def joined(server: RunningServer, auth: Any = None, **options: Any) -> AsyncIterator[Client]:
    async with connect(socket_url(server), compression=None, max_size=None, **options) as wire:
        client = Client(wire)
        assert (await client.next()).kind == "open"
        await wire.send("40" + json.dumps(auth if auth is not None else {"name": "Ann"}))
        answer = await client.next()
        assert answer.kind == "connect", answer
        yield client


async def drained(wire: ClientConnection) -> None:
    """Read until the connection ends, answering nothing."""
    while True:
        await wire.recv()


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 30))


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with RunningServer(ServeConfig(port=0, seed=SEED, manual=True)) as running:
        yield running


@pytest.fixture(scope="module")
def lasting() -> Iterator[RunningServer]:
    """Give one server to all tests that leave no trace they would notice."""
    with RunningServer(ServeConfig(port=0, seed=SEED, manual=True)) as running:
        yield running


def get(server: RunningServer, path: str, headers: dict[str, str] | None = None, method: str = "GET") -> Any:
    host, _, port = server.url.removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    try:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


# the protocol


def test_a_newcomer_is_told_who_it_is_and_how_the_game_stands(lasting: RunningServer) -> None:
    async def work() -> None:
        async with joined(lasting) as ann:
            for _ in range(6):
                await ann.next()
            events = [(read.event, len(read.arguments)) for read in ann.got[2:]]
            assert events == [
                (SESSION, 1), (STATE, 1), (PLAYER, 1), (protocol.PLAYER_STATE, 1),
                (protocol.USERNAME, 2), (protocol.RANK, 2),
            ]  # fmt: skip
            session = ann.got[2].arguments[0]
            assert session["name"] == "Ann"
            assert len(session["token"]) >= 32
            assert session["world"] == "published"

    run(work())


def test_beats_arrive_in_order_and_unchanged(server: RunningServer) -> None:
    said: list[list[Any]] = []
    original = server.server.send

    def noting(messages: Any) -> None:
        messages = list(messages)
        said.extend([message.event, *message.arguments] for message in messages)
        original(messages)

    server.server.send = noting  # type: ignore[method-assign]

    async def work() -> None:
        async with joined(server) as ann:
            await ann.event(protocol.RANK)
            start = len(ann.got)
            await asyncio.to_thread(server.step, 400)
            while len(ann.got) - start < len(said):
                await ann.next()
            got = [[read.event, *read.arguments] for read in ann.got[start:]]
            assert got == json.loads(json.dumps(said))
            assert {row[0] for row in got} >= {STATE, TRADE, protocol.PLAYER_STATE, protocol.SIDEBET}

    run(work())


def test_orders_are_acked_and_everybody_sees_the_trade(server: RunningServer) -> None:
    async def work() -> None:
        async with joined(server) as ann, joined(server, {"name": "Bob"}) as bob:
            session = await ann.event(SESSION)
            await bob.event(protocol.RANK)
            server.advance_to(Phase.ACTIVE, 5)
            ack = await ann.order(BUY, {"amount": 0.1})
            assert ack["success"] is True
            assert ack["executedPrice"] == server.table.price
            update = next(read.arguments[0] for read in reversed(ann.got) if read.event == PLAYER)
            ledger = server.table.players[session["playerId"]].ledger
            assert (to_units(update["cash"]), to_units(update["positionQty"])) == (ledger.cash, ledger.qty)
            trade = await bob.until(
                lambda read: read.event == TRADE and read.arguments[1]["playerId"] == session["playerId"]
            )
            assert trade.arguments[0]["__trace"] is True
            server.step()
            await bob.event(STATE)
            assert [read.event for read in bob.got].count(PLAYER) == 1, "Bob hears nothing of Ann's money"

    run(work())


def test_bad_and_late_orders_get_a_negative_ack(server: RunningServer) -> None:
    async def work() -> None:
        async with joined(server) as ann:
            await ann.event(protocol.RANK)
            early = await ann.order(BUY, {"amount": 0.1})
            assert early["success"] is False
            assert "presale" in early["reason"]
            server.advance_to(Phase.ACTIVE, 2)
            bad: list[Any] = [None, {}, {"amount": "0.1"}, {"amount": -1}, {"amount": 1e300}, [], "x", 7]
            for payload in bad:
                ack = await ann.order(BUY, payload)
                assert ack["success"] is False
                assert ack["reason"]
            await ann.wire.send('42900["buyOrder",{"amount":NaN}]')
            ack = await ann.until(lambda read: read.ack_id == 900)
            assert ack.arguments[0]["success"] is False
            assert (await ann.order(SELL, {"percentage": 100}))["reason"] == "there is nothing to sell"
            server.advance_to(Phase.RUGGED)
            late = await ann.order(BET, {"amount": 0.1})
            assert "rug" in late["reason"]
            (player,) = server.table.players.values()
            assert player.ledger.cash == UNIT

    run(work())


@pytest.mark.parametrize("transports", [["websocket"], ["polling"], ["polling", "websocket"]], ids="+".join)
def test_the_usual_client_library_can_play(server: RunningServer, transports: list[str]) -> None:
    async def work() -> None:
        client = socketio.AsyncClient()
        heard: list[tuple[str, int]] = []
        client.on("*", lambda event, *arguments: heard.append((event, len(arguments))))
        await client.connect(server.url, auth={"name": "Ann"}, transports=transports)
        try:
            server.advance_to(Phase.PRESALE)
            server.step(50)
            ack = await client.call(BUY, {"amount": 0.25}, timeout=10)
            assert ack["success"] is True
            assert (STATE, 1) in heard
            assert (TRADE, 2) in heard
        finally:
            await client.eio.disconnect(abort=transports == ["polling"])
            await asyncio.sleep(0.1)

    run(work())


# players


def test_a_token_brings_a_player_back_in_the_middle_of_a_round(server: RunningServer) -> None:
    async def work() -> None:
        async with joined(server) as ann:
            session = await ann.event(SESSION)
            server.advance_to(Phase.ACTIVE, 3)
            assert (await ann.order(BUY, {"amount": 0.3}))["success"]
            assert (await ann.order(BET, {"amount": 0.01}))["success"]
        server.step(4)
        async with joined(server, {"token": session["token"]}) as again:
            back = await again.event(SESSION)
            assert (back["playerId"], back["token"], back["name"]) == (session["playerId"], session["token"], "Ann")
            state = await again.event(STATE)
            assert len(state["prices"]) == server.table.tick + 1
            update = await again.event(PLAYER)
            ledger = server.table.players[session["playerId"]].ledger
            assert to_units(update["cash"]) == ledger.cash == UNIT - 310_000_000
            assert to_units(update["positionQty"]) == ledger.qty > 0
            assert update["sideBet"]["end"] == 43
            own = await again.event(protocol.PLAYER_STATE)
            assert [trade["type"] for trade in own["trades"]] == ["buy"]
            assert (await again.order(SELL, {"percentage": 100}))["success"]

    run(work())


def test_two_tabs_of_one_player_both_work(server: RunningServer) -> None:
    async def work() -> None:
        async with joined(server) as one:
            token = (await one.event(SESSION))["token"]
            async with joined(server, {"token": token}) as two:
                await two.event(protocol.RANK)
                server.advance_to(Phase.PRESALE)
                assert (await one.order(BUY, {"amount": 0.1}))["success"]
                assert to_units((await two.event(PLAYER))["cash"]) == 900_000_000
                assert (await two.order(BUY, {"amount": 0.1}))["success"]
                assert to_units((await one.event(PLAYER))["cash"]) == 800_000_000
        assert len(server.table.players) == 1

    run(work())


def test_an_unknown_token_makes_a_new_player_with_a_new_token(server: RunningServer) -> None:
    async def work() -> None:
        strange: list[Any] = [{"token": "chosen-by-me"}, {"token": 7}, {"token": "\ud800"}, [], "x", {"name": None}]
        for auth in strange:
            async with joined(server, auth) as client:
                session = await client.event(SESSION)
                assert session["token"] != "chosen-by-me"
        assert len(server.table.players) == 6

    run(work())


@pytest.mark.parametrize("name", ["x" * 25, "a\nb", "a\x00b", "\u202eabc", 7, ["Ann"]])
def test_a_name_that_cannot_be_shown_is_refused(lasting: RunningServer, name: Any) -> None:
    async def work() -> None:
        async with connect(socket_url(lasting)) as wire:
            client = Client(wire)
            await client.next()
            await wire.send("40" + json.dumps({"name": name}))
            answer = await client.next()
            assert answer.kind == "refused"
            assert "name" in answer.arguments[0]["message"]
        assert not any(player.name == name for player in lasting.table.players.values())

    run(work())


def test_names_are_kept_as_they_are() -> None:
    assert clean_name("  <b>Zoë</b> ") == "<b>Zoë</b>"
    assert clean_name(None) == ""


def test_orders_are_limited_in_rate() -> None:
    now = [0.0]
    bucket = Bucket(50, lambda: now[0])
    assert [bucket.take() for _ in range(51)] == [True] * 50 + [False]
    now[0] = 0.1
    assert [bucket.take() for _ in range(6)] == [True] * 5 + [False]

    async def work(server: RunningServer) -> None:
        async with joined(server) as ann:
            await ann.event(protocol.RANK)
            acks = [await ann.order(BUY, {"amount": 0.1}) for _ in range(20)]
            assert sum("too many" in ack["reason"] for ack in acks) >= 8

    with RunningServer(ServeConfig(port=0, seed=SEED, orders_per_second=5)) as server:
        run(work(server))


# who gets in


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://localhost"])
def test_another_origin_is_refused(lasting: RunningServer, origin: str) -> None:
    async def work() -> None:
        with pytest.raises(InvalidStatus) as refused:
            async with joined(lasting, origin=origin):
                pass
        assert refused.value.response.status_code == 403

    run(work())
    assert get(lasting, "/socket.io/?EIO=4&transport=polling", {"Origin": origin})[0] == 403
    assert get(lasting, "/healthz", {"Origin": origin}, "POST")[0] == 403
    assert get(lasting, "/healthz", {"Origin": origin})[0] == 200


def test_sockets_open_at_one_place_only(lasting: RunningServer) -> None:
    async def work() -> None:
        with pytest.raises(InvalidStatus) as refused:
            await connect(lasting.url.replace("http", "ws") + "/page.js")
        assert refused.value.response.status_code == 404

    run(work())


def test_the_own_origin_is_let_in(lasting: RunningServer) -> None:
    async def work() -> None:
        async with joined(lasting, origin=lasting.url) as ann:
            await ann.event(SESSION)

    run(work())


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "", "[", "127.0.0.1.evil.example"])
def test_another_host_name_is_refused(lasting: RunningServer, host: str) -> None:
    assert get(lasting, "/", {"Host": host})[0] in (400, 421)
    assert get(lasting, "/healthz", {"Host": "localhost:1"})[0] == 200


def test_rules_of_the_entrance() -> None:
    assert admits_host("192.168.1.5:80", loopback=False)
    assert not admits_host("192.168.1.5:80", loopback=True)
    assert admits_host("[::1]:80", loopback=True)
    assert admits_origin("http://a:80", "A:80")
    assert not admits_origin("http://a", "a:80")


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "example.org"])
def test_an_address_that_others_can_reach_needs_a_token_file(host: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="token file"):
        ServeConfig(host=host)
    assert ServeConfig(host=host, token_file=tmp_path / "token")


def test_bad_settings_are_refused() -> None:
    for bad in ({"port": -1}, {"port": 70_000}, {"speed": 0.0}, {"speed": float("nan")}, {"speed": -1.0}):
        with pytest.raises(ConfigError):
            ServeConfig(**bad)
    with pytest.raises(UnknownName):
        ServeConfig(world="nowhere")
    with RunningServer(ServeConfig(port=0, seed=SEED, manual=True)) as running:
        port = int(running.url.rpartition(":")[2])
        with pytest.raises(ConfigError, match="free address"):
            RunningServer(ServeConfig(port=port, seed=SEED, manual=True))


def test_token_files(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "token"
    token = read_token(path)
    assert len(token) >= 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_token(path) == token
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_token(path)
    path.chmod(0o600)
    path.write_text("short")
    with pytest.raises(ConfigError, match="16 characters"):
        read_token(path)


def test_with_a_token_file_page_and_socket_need_the_token(tmp_path: Path) -> None:
    path = tmp_path / "token"
    config = ServeConfig(port=0, seed=SEED, manual=True, token_file=path)
    with RunningServer(config) as server:
        token = path.read_text().strip()
        for page in ("/", "/page.js", "/api/rounds/x", "/?access=wrong", "/page.js?access=" + token):
            assert get(server, page)[0] == 401
        assert get(server, "/healthz")[0] == 200
        status, headers, _ = get(server, "/?access=" + token)
        assert (status, headers["location"]) == (303, "/")
        assert "HttpOnly" in headers["set-cookie"]
        cookie = headers["set-cookie"].split(";")[0]
        assert get(server, "/", {"Cookie": cookie})[0] == 200

        async def work() -> None:
            for bad in ({}, {"Authorization": "Bearer wrong"}, {"Cookie": "playproof_access=x"}):
                with pytest.raises(InvalidStatus) as refused:
                    async with joined(server, additional_headers=bad):
                        pass
                assert refused.value.response.status_code == 401
            for good in ({"Authorization": f"Bearer {token}"}, {"Cookie": cookie}):
                async with joined(server, additional_headers=good) as ann:
                    await ann.event(SESSION)

        run(work())


def test_connections_are_limited() -> None:
    async def work(server: RunningServer) -> None:
        async with joined(server), joined(server):
            with pytest.raises(InvalidStatus) as refused:
                async with joined(server):
                    pass
            assert refused.value.response.status_code == 503

    with RunningServer(ServeConfig(port=0, seed=SEED, manual=True, max_connections=2)) as server:
        run(work(server))


# bounded input

GARBAGE = [
    "", "x", "4", "42", "42[", "42{}", "42[1]", "49", "451-[\"buyOrder\",{\"_placeholder\":true,\"num\":0}]", "9" * 10,
    "2" * 100, '42["buyOrder",' + "[" * 4000, '42["buyOrder",' + "9" * 5000 + "]", "42" + json.dumps(["x" * MAX_INPUT]),
    b"\x04binary", b"",
]  # fmt: skip


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda value: repr(value[:16]))
def test_garbage_ends_its_own_connection_only(lasting: RunningServer, garbage: str | bytes) -> None:
    async def work() -> None:
        async with joined(lasting) as good, joined(lasting) as bad:
            await good.event(protocol.RANK)
            await bad.event(protocol.RANK)
            await bad.wire.send(garbage)
            with pytest.raises(ConnectionClosed):
                await bad.until(lambda read: False)
            lasting.step()
            await good.event(STATE)

    run(work())


def test_polling_garbage_is_refused(lasting: RunningServer) -> None:
    status, _, body = get(lasting, "/socket.io/?EIO=4&transport=polling")
    sid = json.loads(body[1:])["sid"]
    host, _, port = lasting.url.removeprefix("http://").partition(":")
    assert status == 200
    for garbage in (b"x", b"42[", b"bAAAA", b"4" * (MAX_INPUT + 1), b"\xff\xfe", b"451-[]"):
        connection = http.client.HTTPConnection(host, int(port), timeout=10)
        connection.request("POST", f"/socket.io/?EIO=4&transport=polling&sid={sid}", body=garbage)
        assert connection.getresponse().status == 400
        connection.close()


def test_readable_frames() -> None:
    assert readable('42["buyOrder",{"amount":0.1}]')
    assert readable("3")
    assert readable("5")
    assert readable("2probe")
    assert readable('40{"name":"x"}')
    assert not readable("b64")


# what goes out


def test_frames_have_the_three_lengths_of_the_standard() -> None:
    for size in (0, 125, 126, 65_535, 65_536):
        made = frame(b"a" * size)
        head = 2 if size < 126 else 4 if size < 65_536 else 10
        assert len(made) == head + size
        assert made[0] == 0x81


def test_an_outbox_never_lets_a_message_overtake_another() -> None:
    async def work() -> None:
        wire: list[bytes] = []
        box = Outbox()
        letters = [Packet(MESSAGE, data=f"2{i}") for i in range(8)]
        open_now = [True]

        def write(data: bytes) -> bool:
            if open_now[0]:
                wire.append(data)
            return open_now[0]

        async def reader() -> None:
            while (packet := await box.get()) is not None:
                await asyncio.sleep(0.001)
                wire.append(frames([packet]))

        async def caught_up(count: int) -> None:
            while len(wire) < count:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.001)

        box.write = write
        box.put_nowait(letters[0])  # nobody reads yet: it waits
        task = asyncio.create_task(reader())
        await asyncio.sleep(0)
        box.deliver(letters[1:3], frames(letters[1:3]))  # the reader is busy with the first
        await caught_up(3)
        box.put_nowait(letters[3])  # the reader waits: written at once
        assert wire[-1] == frames(letters[3:4])
        open_now[0] = False
        box.deliver(letters[4:6], frames(letters[4:6]))  # the connection is full: it waits
        open_now[0] = True
        await box.put(letters[6])
        await caught_up(7)
        box.put_nowait(Packet(PING))
        await box.put(letters[7])
        await caught_up(9)
        box.put_nowait(None)
        await task
        ping = frame(b"2")
        assert b"".join(wire) == frames(letters[:7]) + ping + frames(letters[7:])

    run(work())


def test_a_client_that_does_not_read_is_cut_off_and_the_others_go_on(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("playproof.games.crash.server.app.MAX_BACKLOG", 50)

    async def work() -> None:
        async with joined(server) as ann:
            deaf = await connect(socket_url(server), compression=None, max_size=None)
            await deaf.send('40{"name":"Deaf"}')
            await asyncio.sleep(0.2)
            deaf.transport.pause_reading()
            filler = TableMessage("filler", ("x" * 200_000,))
            for _ in range(20):
                server.call(lambda: server.server.send([filler] * 10))
                for _ in range(10):
                    await ann.event("filler")
            assert server.call(lambda: len(server.server._clients)) == 1
            server.step()
            await ann.event(STATE)
            deaf.transport.abort()

    run(work())


def test_a_client_that_answers_pings_stays_and_one_that_does_not_goes(server: RunningServer) -> None:
    engine = server.server._sio.eio
    engine.ping_interval = engine.ping_timeout = 0.3

    async def work() -> None:
        async with joined(server) as ann, joined(server, {"name": "Mute"}) as mute:
            for _ in range(20):
                await asyncio.sleep(0.1)
                server.step()
                await ann.event(STATE)
            assert server.call(lambda: len(server.server._clients)) == 1
            with pytest.raises(ConnectionClosed):
                await asyncio.wait_for(drained(mute.wire), 5)

    run(work())


# pages


def test_finished_rounds_can_be_looked_up_and_verified(server: RunningServer) -> None:
    identity = server.table.game_id
    assert get(server, f"/api/rounds/{identity}")[0] == 404
    server.advance_to(Phase.RUGGED)
    assert get(server, f"/api/rounds/{identity}")[0] == 404
    server.step(2)
    status, _, body = get(server, f"/api/rounds/{identity}")
    payload = json.loads(body)
    assert status == 200
    assert payload["world"] == "published"
    assert prices.server_seed_hash(payload["serverSeed"]) == payload["serverSeedHash"]
    assert prices.play_round(payload["serverSeed"], identity).prices == tuple(payload["prices"])


def test_the_page_is_served_alone_and_closed_in(lasting: RunningServer) -> None:
    status, headers, body = get(lasting, "/")
    assert status == 200
    assert b'data-button="BUY"' in body
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    for path in ("/../server.py", "/%2e%2e/server.py", "/..%2fserver.py", "/api/rounds/..%2f..%2fx", "/nothing"):
        assert get(lasting, path)[0] == 404
    page = Path(__file__).parents[2] / "src/playproof/games/crash/server/page"
    for file in (*page.iterdir(), *STATIC.iterdir()):
        text = file.read_text()
        assert not re.search(r"https?://(?!www\.w3\.org/)", text), "everything comes from this server"
        assert "innerHTML" not in text


# the bench


def test_the_bench_finds_ticks_in_frames() -> None:
    from benchmarks import server as bench

    state = ("4" + packet(TableMessage(STATE, ({"active": True, "tickCount": 7, "gameId": "g"},))).data).encode()
    buffer = bytearray(frame(state) + frame(b"x" * 70_000) + frame(b"2")[:1])
    assert list(bench.frames(buffer)) == [(1, state), (1, b"x" * 70_000)]
    assert bytes(buffer) == frame(b"2")[:1]
    result = bench.compare({("g", 1): 1.0, ("g", 2): 2.0, ("g", 3): 3.0}, [{("g", 1): 1.01}, {("g", 2): 2.03}], last=2)
    assert (result.expected, result.received) == (4, 2)
    assert result.quantile(1.0) == pytest.approx(30)


def test_the_bench_runs_and_reports() -> None:
    from benchmarks.server import run as measure

    report = measure(seconds=1.0, clients=5)
    results = {result["name"]: result["value"] for result in report["results"]}
    assert report["bench"] == "server"
    assert results["ticks_expected"] == results["ticks_received"] == 4 * 5
    assert {goal["name"] for goal in report["goals"]} == {"missed", "delivery_p99_ms"}
    assert 0 < results["delivery_p50"] < 1000


# time


def test_a_fixed_seed_deals_the_same_rounds_and_no_seed_does_not() -> None:
    ids = {CrashServer(ServeConfig(seed=5)).table.game_id for _ in range(2)}
    assert len(ids) == 1
    assert len({CrashServer(ServeConfig()).table.game_id for _ in range(2)}) == 2


def test_beats_keep_to_their_schedule() -> None:
    beats: list[float] = []
    config = ServeConfig(port=0, seed=SEED, speed=20, crowded=False)
    with RunningServer(config, observer=lambda _, at: beats.append(at)):
        time.sleep(0.7)
    pauses = 0.1 / 20
    assert len(beats) > 30
    late = [at - i * pauses for i, at in enumerate(beats)]
    late = [
        item - min(late) for item in late
    ]  # any beat may be late, the first one too: the least late one was on time
    assert sorted(late)[len(late) // 2] < 0.05
    assert min(late[: len(late) // 3]) < 0.02, "it beats faster than its schedule"
    assert min(late[-len(late) // 3 :]) < 0.02, "it beats slower than its schedule"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
def test_a_signal_ends_the_server_cleanly(number: signal.Signals) -> None:
    program = (
        "from playproof.games.crash.server.app import *\n"
        "serve(ServeConfig(port=0, seed=1), lambda url: print(url, flush=True))\n"
        "print('done', flush=True)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    url = process.stdout.readline().strip()

    async def work() -> float:
        async with connect(url.replace("http", "ws") + "/socket.io/?EIO=4&transport=websocket") as wire:
            await wire.recv()
            await wire.send("40{}")
            await wire.recv()
            started = time.monotonic()
            process.send_signal(number)
            await asyncio.to_thread(process.wait, 10)
            return time.monotonic() - started

    took = asyncio.run(work())
    output, errors = process.communicate()
    assert (process.returncode, output.strip(), errors.strip()) == (0, "done", "")
    assert took < 2.0


def test_answers_are_not_held_back() -> None:
    """Nagle's algorithm would let an ack wait 40 ms behind the message before it."""
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
