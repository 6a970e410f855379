"""What is new on a page: one stream for each, a cursor that says what the browser has, and looks that cost little.

A page names its topics; the state of a topic is read from the times of files, and only where it has changed is the page
built again. The cursor holds a hash of each block: a client that comes again with it gets the blocks that differ, and
nothing else. All open pages share one look at each topic.

| topic | what is looked at |
|---|---|
| jobs | the bell of the jobs |
| runs, run:NAME | logs and results of runs |
| datasets, reports, models | their folders |
| log | the event store's logs and parts |
| db | the database's files; on PostgreSQL its counters of changed rows, every two seconds |
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from pathlib import Path

from sqlalchemy import text

from playproof.dashboard.context import DashboardContext, stat_of
from playproof.home import DATABASE

LOOK_SECONDS = 0.25
"""Between two looks: at most four messages a second."""
COUNTER_SECONDS = 2.0
KEEP_ALIVE_SECONDS = 15.0
_COUNTERS = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables"
RUN_FILES = ("log.jsonl", "result.json", "config.json", "state.json")


class Watch:
    """The states of topics, each looked at once for all pages."""

    def __init__(self, context: DashboardContext, clock: Callable[[], float] = time.monotonic) -> None:
        self._context, self._clock = context, clock
        self._states: dict[str, tuple[float, Hashable]] = {}

    def state(self, topics: Sequence[str]) -> tuple[Hashable, ...]:
        """Give the state of some topics; a look that is younger than a quarter of a second counts."""
        now = self._clock()
        for topic in topics:
            known = self._states.get(topic)
            pause = COUNTER_SECONDS if topic == "db" and not self._is_sqlite else LOOK_SECONDS * 0.8
            if known is None or now - known[0] >= pause:
                self._states[topic] = (now, self._look(topic))
        if len(self._states) > 1_000:
            self._states.clear()
            return self.state(topics)
        return tuple(self._states[topic][1] for topic in topics)

    @property
    def _is_sqlite(self) -> bool:
        return self._context.engine.dialect.name == "sqlite"

    def _look(self, topic: str) -> Hashable:
        root = self._context.root
        name, _, detail = topic.partition(":")
        if name == "db":
            return self._database()
        if name == "run":
            return tuple(stat_of(root / "runs" / detail / file) for file in RUN_FILES)
        if name in ("job", "jobs"):
            return stat_of(root / "jobs" / detail / "log.txt" if detail else root / "jobs" / "bell")
        entries = _entries(root / name)
        if name == "runs":
            files = ("log.jsonl", "result.json")
            return tuple((entry, *(stat_of(root / name / entry / file) for file in files)) for entry in entries)
        return tuple((entry, stat_of(root / name / entry)) for entry in entries)

    def _database(self) -> Hashable:
        if self._is_sqlite:
            path = Path(self._context.engine.url.database or self._context.root / DATABASE)
            return stat_of(path), stat_of(Path(f"{path}-wal"))
        with self._context.engine.connect() as connection:
            return str(connection.execute(text(_COUNTERS)).scalar())


def _entries(path: Path) -> tuple[str, ...]:
    try:
        # a reader touches the file of shared memory of a log: it says nothing
        return tuple(sorted(entry.name for entry in os.scandir(path) if not entry.name.endswith("-shm")))
    except OSError:
        return ()


async def follow(
    state: Callable[[], tuple[Hashable, ...]],
    build: Callable[[str], tuple[str, bytes] | None],
    cursor: str,
    gone: Callable[[], AsyncIterator[bool]] | None = None,  # noqa: ARG001 - starlette cancels the stream
) -> AsyncIterator[bytes]:
    """Give the messages of a stream: what differs from the cursor now, then whatever comes."""
    yield b"retry: 2000\n\n"
    seen: object = None
    quiet = time.monotonic()
    while True:
        present = await asyncio.to_thread(state)
        if present != seen:
            seen = present
            message = await asyncio.to_thread(build, cursor)
            if message is not None:
                cursor, payload = message
                quiet = time.monotonic()
                yield b"id: " + cursor.encode() + b"\ndata: " + payload + b"\n\n"
        if time.monotonic() - quiet > KEEP_ALIVE_SECONDS:
            quiet = time.monotonic()
            yield b": still here\n\n"
        await asyncio.sleep(LOOK_SECONDS)
