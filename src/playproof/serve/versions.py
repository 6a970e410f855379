"""Serve a model whose version can change: one reference, swapped between two requests, never within one.

A request is answered whole by the version that it met; a version that was replaced is closed when its last request
has ended. Every answer carries version and generation, in headers and, through `stamp_of`, in its body. In an
experiment units (windows, agents) keep the arm that their hash gives them.
Leaves out: when to swap (following).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import orjson
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from playproof.json_types import Json
from playproof.stats.assignment import Arm, assign_arm

VERSION_HEADER, GENERATION_HEADER, ARM_HEADER = "X-Playproof-Version", "X-Playproof-Generation", "X-Playproof-Arm"
UNIT_HEADER = "X-Playproof-Unit"
"""Names the window or agent that a request is about; in a chat the field `user` does as well."""
_STAMP = "playproof.stamp"


def stamp_of(scope: Mapping[str, object]) -> Json:
    """Give what the answer to a request says of its version; empty where no version is followed."""
    stamp = scope.get(_STAMP)
    return dict(stamp) if isinstance(stamp, Mapping) else {}


@dataclass(eq=False)
class ServedVersion:
    """One loaded version."""

    app: ASGIApp
    label: str
    """NAME:VERSION."""
    generation: int | None = None
    """Of the alias that is followed."""
    close: Callable[[], None] = field(default=lambda: None)
    answers: int = 0
    active: int = 0
    """Requests that are being answered."""
    retired: bool = False


class VersionSwitch:
    """An application that hands every request to the version of the moment."""

    def __init__(
        self,
        current: ServedVersion | None = None,
        challenger: ServedVersion | None = None,
        experiment: str = "",
        share: float = 0.5,
    ) -> None:
        self.current = current
        self.challenger, self.experiment, self.share = challenger, experiment, share
        self._lock = threading.Lock()

    def swap(self, version: ServedVersion | None) -> ServedVersion | None:
        """Answer new requests by another version, or by none; give the one before, closed once it is idle."""
        with self._lock:
            before, self.current = self.current, version
            if before is None:
                return None
            before.retired = True
            idle = before.active == 0
        if idle:
            before.close()
        return before

    @contextmanager
    def lease(self, arm: Arm = "a") -> Iterator[ServedVersion | None]:
        """Give the version that answers a request, kept open until the request has ended."""
        with self._lock:
            version = self.challenger if arm == "b" else self.current
            if version is not None:
                version.active += 1
        try:
            yield version
        finally:
            if version is not None:
                self._release(version)

    def _release(self, version: ServedVersion) -> None:
        with self._lock:
            version.active -= 1
            version.answers += 1
            last = version.retired and version.active == 0
        if last:  # closing may wait for a computing thread, which the server's own loop must not
            threading.Thread(target=version.close, name="playproof-retire").start()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer by the version of the moment, or of the unit's arm."""
        if scope["type"] != "http":
            return
        arm: Arm | None = None
        if self.challenger is not None:
            unit, receive = await _unit(scope, receive)
            arm = assign_arm(self.experiment, unit, self.share) if unit else None
        with self.lease(arm or "a") as version:
            if version is None:
                answer = JSONResponse({"error": {"message": EMPTY, "type": "server_error"}}, 503, {"Retry-After": "1"})
                await answer(scope, receive, send)
                return
            stamp: Json = {"version": version.label, "generation": version.generation}
            if self.challenger is not None:
                stamp |= {"arm": arm, "experiment": self.experiment}
            await version.app({**scope, _STAMP: stamp}, receive, _stamping(send, stamp))


EMPTY = "expected a version behind the alias, found none: its promotion was taken back; promote one"


def _stamping(send: Send, stamp: Json) -> Send:
    """Write the stamp into the headers of whatever is answered."""

    async def stamped(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers[VERSION_HEADER] = str(stamp["version"])
            if stamp["generation"] is not None:
                headers[GENERATION_HEADER] = str(stamp["generation"])
            if stamp.get("arm"):
                headers[ARM_HEADER] = str(stamp["arm"])
        await send(message)

    return stamped


async def _unit(scope: Scope, receive: Receive) -> tuple[str, Receive]:
    """Give the unit that a request names, by its header or the chat's `user`, and how to read the body again."""
    named = Headers(scope=scope).get(UNIT_HEADER, "")
    if named or scope["method"] != "POST":
        return named[:200], receive
    messages: list[Message] = []
    while not messages or messages[-1].get("more_body"):
        messages.append(await receive())
        if messages[-1]["type"] != "http.request":
            break
    body = b"".join(message.get("body", b"") for message in messages)
    queue = iter(messages)

    async def again() -> Message:
        return next(queue, None) or await receive()

    try:
        payload = orjson.loads(body)
    except orjson.JSONDecodeError:
        return "", again
    user = payload.get("user") if isinstance(payload, dict) else None
    return (user[:200] if isinstance(user, str) else ""), again
