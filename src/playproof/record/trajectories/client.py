"""The recorder's client: the SDK's calls without waiting, through a spool that outlives a server that is away.

    with TrajectoryClient("http://127.0.0.1:8790", spool=Path("spool")) as client:
        identity = client.start_trajectory("agent-1")
        client.start_step(identity, {"balance": 10_000_000_000_000})
        ...

A call writes one line into the spool and returns; a thread sends the lines in their order. What is in the spool is
sent once, be it by the next process. The agent is never slowed or broken: if the spool is full, the rest of a
trajectory is left out as a whole and counted, and what the server refuses is counted and kept, not raised.
Leaves out: answers. Steps are numbered by the server.
"""

from __future__ import annotations

import http.client
import itertools
import random
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import orjson

from playproof.errors import ConfigError, InputError, RefusedRecord, StoreError
from playproof.record.trajectories.calls import TrajectoryCalls
from playproof.record.trajectories.facts import Access, Call, End, Json, Start, StepEnd, StepStart
from playproof.record.trajectories.recorder import Clock, new_id, utc_now
from playproof.record.trajectories.spool import MOST_BYTES, Spool
from playproof.store.db.columns import plain

LINES, BYTES = 200, 1 << 20
"""Of one request."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
TIMEOUT = 30.0
ATTEMPTS = 4
"""Of a request that is answered at once, where the connection is lost."""
REMEMBERED = 100
"""Refusals that are remembered."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that the server did not take."""

    status: int
    error: str
    kind: str
    trajectory_id: str | None


class TrajectoryClient(TrajectoryCalls[None, None]):
    """Record trajectories at a server, from any thread."""

    def __init__(
        self,
        url: str,
        spool: Path,
        *,
        token: str | None = None,
        clock: Clock = utc_now,
        rng: random.Random | None = None,
        most: int = MOST_BYTES,
        acknowledged: Callable[[Json], None] | None = None,
    ) -> None:
        """Open the client.

        Args:
            url: address of the server.
            spool: folder of this process's own spool.
            token: the server's token, where it asks for one.
            clock: tells the time of every record.
            rng: makes ids; the system's own unless given.
            most: bytes that may wait.
            acknowledged: is told every record that the server has stored, on the sending thread.
        """
        self._address = urlsplit(url)
        if self._address.scheme not in ("http", "https") or not self._address.hostname:
            raise ConfigError(f"expected an address such as http://127.0.0.1:8790, found {url[:80]!r}")
        self._token, self._clock, self._rng = token, clock, rng or random.SystemRandom()
        self._spool = Spool(spool, most)
        self._acknowledged = acknowledged
        self._prefix = new_id(clock(), self._rng)
        self._numbers = itertools.count()
        self._cut: dict[str, None] = {}
        self.sent = self.dropped = 0
        self.refusals: deque[Refusal] = deque(maxlen=REMEMBERED)
        self.refused = 0
        self._connection: http.client.HTTPConnection | None = None
        self._wake, self._closing = threading.Event(), threading.Event()
        self._idle = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="trajectories", daemon=True)
        self._thread.start()

    def __enter__(self) -> TrajectoryClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fact_time(self) -> datetime:
        """Read the clock: a fact is sent later than it happened."""
        return self._clock()

    def put_start(self, start: Start) -> str:
        """Send a start, with an id that the client makes."""
        now = self._clock()
        identity = start.trajectory_id or new_id(now, self._rng)
        self._put("start", identity, replace(start, trajectory_id=identity, time=start.time or now))
        return identity

    def put_step(self, trajectory_id: str, step: StepStart) -> None:
        """Send a step's beginning."""
        self._put("step", trajectory_id, step)

    def put_access(self, trajectory_id: str, access: Access) -> None:
        """Send what the agent looked at."""
        self._put("access", trajectory_id, access)

    def put_call(self, trajectory_id: str, call: Call) -> None:
        """Send a model call."""
        self._put("call", trajectory_id, call if call.time else replace(call, time=self._clock()))

    def put_action(self, trajectory_id: str, end: StepEnd) -> None:
        """Send a step's end."""
        self._put("action", trajectory_id, end)

    def put_end(self, trajectory_id: str, end: End) -> None:
        """Send a trajectory's end."""
        self._put("end", trajectory_id, end)

    def post_outcomes(
        self,
        window_id: str,
        *,
        currency: str,
        assets: Sequence[Json] = (),
        questions: Sequence[Json] = (),
        market: str | None = None,
        reason: str | None = None,
    ) -> Json:
        """Write what a closed window did and wait for the answer; with a reason, correct what is written.

        Needs a token of the role outcomes. What the server refuses is raised: RefusedRecord for an open window or other
        outcomes, InputError for wrong values, StoreError where it cannot be reached; sending it again is safe.
        """
        body: Json = {"window_id": window_id, "currency": currency, "assets": list(assets)}
        body |= {"questions": list(questions)} | ({"market": market} if market is not None else {})
        if reason is None:
            return self._ask("POST", "/v1/outcomes", body)
        return self._ask("PUT", f"/v1/outcomes/{quote(window_id, safe='')}", body | {"reason": reason})

    def windows(self, hours: float = 24.0) -> list[Json]:
        """Ask which windows of the last hours have closed, have outcomes and are ready."""
        rows: list[Json] = self._ask("GET", f"/v1/windows?hours={hours:g}", None)["windows"]
        return rows

    def _ask(self, method: str, path: str, body: Json | None) -> Json:
        """Send one request on a connection of its own, a few times if that is lost, and give its answer."""
        content = None if body is None else orjson.dumps(plain(body))
        for attempt in range(ATTEMPTS):
            connection = self._new_connection()
            try:
                connection.request(method, f"{self._address.path.rstrip('/')}{path}", content, self._headers())
                answer = connection.getresponse()
                status, payload = answer.status, orjson.loads(answer.read())
                if status < 500:
                    break
                lost = str(payload)
            except (OSError, http.client.HTTPException, orjson.JSONDecodeError) as error:
                lost = str(error)
            finally:
                connection.close()
            self._closing.wait(FIRST_PAUSE * 2**attempt)
        else:
            raise StoreError(f"expected an answer of {self._address.netloc} to {method} {path}, found: {lost[:200]}")
        if status == 200:
            return dict(payload)
        message = str(payload.get("error", {}).get("message", payload))
        if status in (404, 409):
            raise RefusedRecord(str(payload["error"].get("reason", status)), message)
        raise InputError(message)

    @property
    def waiting(self) -> int:
        """Give how many bytes of records the server has not acknowledged."""
        return self._spool.waiting

    def flush(self, seconds: float = 10.0) -> bool:
        """Wait until the server has acknowledged everything; tell whether it has."""
        self._wake.set()
        with self._idle:
            return self._idle.wait_for(lambda: not self._spool.waiting, seconds)

    def close(self, seconds: float = 5.0) -> None:
        """Send what can be sent in some seconds; the rest stays in the spool."""
        self.flush(seconds)
        self._closing.set()
        self._wake.set()
        self._thread.join(TIMEOUT)
        self._spool.close()

    def _put(self, kind: str, trajectory_id: str, fact: Any) -> None:
        """Write a record into the spool, or count it as dropped with the rest of its trajectory."""
        if trajectory_id in self._cut:
            self.dropped += 1
            return
        key = f"{self._prefix}-{next(self._numbers)}"
        payload = {"key": key, "kind": kind, "trajectory_id": None if kind == "start" else trajectory_id}
        try:
            line = orjson.dumps(payload | {"body": fact})
        except TypeError:
            line = orjson.dumps(plain(payload | {"body": asdict(fact)}))
        if self._spool.append(line):
            self._wake.set()
            return
        self._cut[trajectory_id] = None
        self.dropped += 1

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._closing.is_set():
            self._wake.clear()
            lines, index = self._spool.peek(LINES, BYTES)
            if not lines:
                self._tell_idle()
                self._wake.wait(1.0)
                continue
            if self._send(lines):
                self._spool.finish(index)
                pause = FIRST_PAUSE
            else:
                self._closing.wait(pause * (0.7 + 0.6 * self._rng.random()))
                pause = min(LONGEST_PAUSE, pause * 2)
        self._hang_up()

    def _tell_idle(self) -> None:
        with self._idle:
            self._idle.notify_all()

    def _send(self, lines: list[bytes]) -> bool:
        """Send lines; give True once every one of them is stored or refused for good."""
        try:
            status, answer = self._post(b'{"records":[' + b",".join(lines) + b"]}")
            answers = orjson.loads(answer)["answers"] if status == 200 else None
        except (OSError, http.client.HTTPException, orjson.JSONDecodeError, KeyError, TypeError):
            self._hang_up()
            return False
        if answers is None:
            if status in (413, 422) and len(lines) == 1:
                self._refuse(lines[0], status, answer[:200].decode("utf-8", "replace"))
                return True
            return status in (413, 422) and all(self._send([line]) for line in lines)
        if any(entry["status"] == 503 for entry in answers):
            return False
        for line, item in zip(lines, answers, strict=True):
            self._settle(line, item)
        return True

    def _settle(self, line: bytes, answer: Json) -> None:
        if answer["status"] != 200:
            self._refuse(line, answer["status"], answer["error"])
            return
        self.sent += 1
        if self._acknowledged is not None:
            self._acknowledged(orjson.loads(line))

    def _refuse(self, line: bytes, status: int, error: str) -> None:
        payload = orjson.loads(line)
        self.refused += 1
        self.refusals.append(Refusal(status, error, payload["kind"], payload["trajectory_id"]))

    def _post(self, body: bytes) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = self._new_connection()
        self._connection.request("POST", f"{self._address.path.rstrip('/')}/v1/records", body, self._headers())
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def _headers(self) -> dict[str, str]:
        authorization = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        return {"Content-Type": "application/json"} | authorization

    def _new_connection(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._address.scheme == "https" else http.client.HTTPConnection
        assert self._address.hostname
        return kind(self._address.hostname, self._address.port, timeout=TIMEOUT)

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
