"""Record one session: frame in, redacted, decoded, made durable, and told to whoever listens.

The order is fixed: redaction, then decoding of the redacted text, then numbering, then the store.
Nothing unredacted is ever handed on, and the stored frames decode to the stored events. `take`
gives events before they are durable; `flush` and `close` return only when all of them are, and
raise StoreError if one could not be made so.
Leaves out: where frames come from (socket, browser) and what is shown (live_view).

Memory is bounded: frames above 16 MiB are refused and counted, the events that wait for their
commit are limited (`take` waits for the store beyond it), and a listener has a queue of its own.
A listener gets events on its own thread in their order; when it is too slow its oldest are dropped,
when it fails the failure is counted, and neither changes anything for the recording.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import orjson

from playproof.errors import StoreError
from playproof.events import DocType, Event, Source
from playproof.game import Fact, Frame, Game
from playproof.json_types import Json
from playproof.record.presses import ActionSequence, PressRules, Sequences
from playproof.record.redaction import Redaction
from playproof.record.session import NOTE, RecordingSession, text_of

Clock = Callable[[], datetime]
Listener = Callable[[Event], None]
JsonFields = Mapping[str, Any]

MAX_FRAME = 16 * 2**20
"""Characters or bytes of the largest frame that is recorded."""
MAX_WAITING = 20_000
"""Events that may wait for their commit before `take` waits for the store."""
LISTENER_QUEUE = 10_000
EVERYTHING = "*"
MAX_NAMES = 500
"""Names of events that are counted apart: a feed may make up as many as it likes."""
OTHERS = f"{NOTE}others"

START, STOP, GAP, REFUSED = f"{NOTE}start", f"{NOTE}stop", f"{NOTE}gap", f"{NOTE}refused"
MARK, REDO, DISCARD = f"{NOTE}mark", f"{NOTE}redo", f"{NOTE}discard"
SEQUENCE = f"{NOTE}sequence"
INTERVENTION = f"{NOTE}intervention"
"""A person took over from a bot; the payload says from which tick of which window on."""


class EventSink(Protocol):
    """Where events become durable."""

    def submit(self, events: Sequence[Event]) -> Future[None]:
        """Take events; the future resolves after commit and sync."""


def steady_clock(
    wall: Clock = lambda: datetime.now(UTC), monotonic: Callable[[], float] = time.monotonic
) -> Callable[[], datetime]:
    """Make a clock that starts at the wall's time and then never jumps."""
    start, zero = wall(), monotonic()
    return lambda: start + timedelta(seconds=monotonic() - zero)


@dataclass
class RecordingCounts:
    """What a recording has seen so far."""

    received: int = 0
    sent: int = 0
    refused: int = 0
    """Frames too large to be recorded."""
    gaps: int = 0
    """Times that the feed was interrupted, and stretches that the game missed."""
    presses: int = 0
    reconnects: int = 0
    late: int = 0
    """Frames or presses that came too late to be put into their place."""
    docs: Counter[str] = field(default_factory=Counter)
    names: Counter[str] = field(default_factory=Counter)
    windows: int = 0
    """Windows of which a tick was received; the last one may still be open."""
    _recent: deque[str] = field(default_factory=lambda: deque(maxlen=64))

    def add(self, event: Event) -> None:
        """Count an event."""
        self.docs[event.doc_type] += 1
        known = event.event_name in self.names or len(self.names) < MAX_NAMES
        self.names[event.event_name if known else OTHERS] += 1
        self.gaps += event.doc_type == "gap"
        self.presses += event.doc_type == "button_event"
        if event.doc_type == "game_tick" and event.window_id and event.window_id not in self._recent:
            self._recent.append(event.window_id)
            self.windows += 1


class _Subscription(threading.Thread):
    """One listener on its own thread, with a bounded queue."""

    def __init__(self, wanted: str, function: Listener, size: int) -> None:
        super().__init__(name=f"listener-{wanted}", daemon=True)
        self.wanted, self.dropped, self.failures = wanted, 0, 0
        self.last_failure: str | None = None
        self._function, self._size = function, size
        self._queue: deque[Event] = deque()
        self._changed = threading.Condition()
        self._open = True

    def wants(self, event: Event) -> bool:
        return self.wanted in (EVERYTHING, event.doc_type, event.event_name)

    def put(self, event: Event) -> None:
        """Queue an event without ever waiting for the listener."""
        with self._changed:
            if len(self._queue) >= self._size:
                self._queue.popleft()
                self.dropped += 1
            self._queue.append(event)
            self._changed.notify()

    def end(self, timeout: float) -> None:
        """Let the listener finish what is queued, for a limited time."""
        with self._changed:
            self._open = False
            self._changed.notify()
        if self is not threading.current_thread():
            self.join(timeout)

    def run(self) -> None:
        """Give the listener its events."""
        while True:
            with self._changed:
                while self._open and not self._queue:
                    self._changed.wait()
                if not self._queue:
                    return
                event = self._queue.popleft()
            try:
                self._function(event)
            except Exception as error:  # noqa: BLE001  # the listener's edge: its failure is its own
                self.failures += 1
                self.last_failure = f"{type(error).__name__}: {error}"


class Recorder:
    """Record the frames of one session into a log; safe to call from several threads."""

    def __init__(
        self,
        game: Game,
        log: EventSink,
        session_id: str,
        source: Source,
        *,
        redaction: Redaction,
        clock: Clock,
        reading: PressRules | None = None,
    ) -> None:
        self.game, self.counts = game, RecordingCounts()
        self.last_tick: Event | None = None
        """Where the world stands: the last tick that was received in its turn."""
        self._log, self._redaction, self._clock = log, redaction, clock
        self._session = RecordingSession(game, lambda _: None, session_id, source)
        self._names: Callable[[Frame], tuple[Fact, ...]] | None = game.recording().decoder()
        self._decides, self._deciding = game.recording().decides, set[str]()
        self._sequences = Sequences(reading or PressRules())
        self._waiting: deque[tuple[Future[None], int]] = deque()
        self._waiting_events = 0
        self._interrupted: Json | None = None
        self._listeners: list[_Subscription] = []
        self._lock = threading.RLock()
        self._closed = False

    @property
    def session_id(self) -> str:
        """Give the id of the session."""
        return self._session.session_id

    def subscribe(self, event_type: str, function: Listener, *, size: int = LISTENER_QUEUE) -> None:
        """Call a function with every event of a doc_type or of a name, or with all for "*".

        Events come as they are decoded, before they are durable.
        """
        listener = _Subscription(event_type, function, size)
        with self._lock:
            self._listeners.append(listener)
        listener.start()

    @property
    def listeners(self) -> list[Json]:
        """Give what each listener missed and how often it failed."""
        return [
            {"wants": one.wanted, "dropped": one.dropped, "failures": one.failures, "last_failure": one.last_failure}
            for one in self._listeners
        ]

    @property
    def waiting(self) -> int:
        """Give the number of events whose commit was not seen yet."""
        return self._waiting_events

    def start(self, payload: JsonFields) -> None:
        """Note the beginning of the recording."""
        self._note(START, payload)

    def take(self, frame: Frame) -> tuple[Event, ...]:
        """Record one frame; give its events, which `flush` makes sure of."""
        with self._lock:
            if frame.direction == "sent":
                self.counts.sent += 1
            elif frame.direction == "received":
                self.counts.received += 1
            if len(frame.payload) > MAX_FRAME:
                return self._refuse(frame)
            clean = self._redacted(frame)
            facts = self._session.decode(clean)
            if self._interrupted:
                self._end_gap(frame.ts, facts)
            events = tuple(self._session.number(clean, facts))
            self._store(events)
            self._finish_sequences(events, frame.ts)
            return events

    def interrupt(self, reason: str) -> None:
        """Note that the feed was lost; a gap record follows with the first tick after it."""
        with self._lock:
            if self._interrupted is None:
                self._interrupted = {
                    "reason": reason,
                    "lost_at": self._clock(),
                    "before": _tick_to_dict(self.last_tick),
                }

    def mark(self, name: str, payload: JsonFields | None = None) -> None:
        """Note what a person says of the current episode: MARK, REDO or DISCARD."""
        self._note(name, payload or {}, self.last_tick.window_id if self.last_tick else None)

    def flush(self) -> None:
        """Wait until everything recorded so far is durable."""
        with self._lock:
            while self._waiting:
                self._await_oldest()

    def close(self, payload: JsonFields | None = None) -> None:
        """End the recording: note the end, make all of it durable, let the listeners finish."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                if self._interrupted:
                    self._end_gap(self._clock(), (), last=True)
                self._append_sequences(self._sequences.end(), self._clock())
                self._note(STOP, {**(payload or {}), "frames": self.counts.received + self.counts.sent})
                self.flush()
            finally:
                for listener in self._listeners:
                    listener.end(timeout=1.0)

    def abandon(self) -> None:
        """End a recording that never began, as its feed was not there: note nothing, let the listeners finish."""
        with self._lock:
            self._closed = True
        for listener in self._listeners:
            listener.end(timeout=1.0)

    def _redacted(self, frame: Frame) -> Frame:
        """Give a frame that may be stored."""
        text = text_of(frame.payload)
        if self._names is not None:
            self._learn(Frame(frame.ts, text, frame.direction))
        return Frame(frame.ts, self._redaction.clean(text, frame.direction), frame.direction)

    def _learn(self, frame: Frame) -> None:
        """Find out who the recorded player is, whose name is not hashed, by decoding until the game says so."""
        names = own_names(self._names(frame)) if self._names else frozenset()
        if names:
            self._redaction.learn(names)
            self._names = None

    def _refuse(self, frame: Frame) -> tuple[Event, ...]:
        self.counts.refused += 1
        fields = {"reason": "frame too large", "length": len(frame.payload), "most": MAX_FRAME}
        return (self._note(REFUSED, fields | {"direction": frame.direction}),)

    def _note(
        self, name: str, payload: JsonFields, window_id: str | None = None, doc_type: DocType = "system_event"
    ) -> Event:
        with self._lock:
            event = self._session.number_fact(
                Fact(name, doc_type, window_id=window_id), self._clock(), write_json(payload)
            )
            self._store([event])
            return event

    def _end_gap(self, ts: datetime, facts: Iterable[Fact], *, last: bool = False) -> None:
        """Tell a gap, once the first tick after it is here or the recording ends."""
        first = next((fact for fact in facts if fact.doc_type == "game_tick"), None)
        if first is None and not last:
            return
        payload = {**(self._interrupted or {}), "back_at": ts if first else None, "after": _tick_to_dict(first)}
        self._interrupted = None
        window = self.last_tick.window_id if self.last_tick else None
        self._store([self._session.number_fact(Fact(GAP, "gap", window_id=window), ts, write_json(payload))])

    def _finish_sequences(self, events: Sequence[Event], ts: datetime) -> None:
        """Append what these events made known of sequences of presses."""
        for event in events:
            self._append_sequences(self._sequences.take(event), ts)

    def _append_sequences(self, known: Iterable[ActionSequence], ts: datetime) -> None:
        for sequence in known:
            last = sequence.presses[-1]
            fact = Fact(SEQUENCE, "player_action", {"sequence_id": last.sequence_id}, last.game_id, sequence.player_id)
            self._store([self._session.number_fact(fact, ts, write_json(sequence.to_json()))])

    def _store(self, events: Sequence[Event]) -> None:
        """Hand events to the log and to the listeners."""
        if not events:
            return
        while self._waiting and (self._waiting[0][0].done() or self._waiting_events > MAX_WAITING):
            self._await_oldest()
        self._waiting.append((self._log.submit(events), len(events)))
        self._waiting_events += len(events)
        for event in events:
            self.counts.add(event)
            if event.doc_type == "game_tick":
                self._note_tick(event)
            for listener in self._listeners:
                if listener.wants(event):
                    listener.put(event)

    def _note_tick(self, tick: Event) -> None:
        """Note where the world stands; facts of ticks that others overtook have names at which nobody decides."""
        if self._decides(tick):
            self._deciding.add(tick.event_name)
        if not self._deciding or tick.event_name in self._deciding:
            self.last_tick = tick

    def _await_oldest(self) -> None:
        future, count = self._waiting.popleft()
        self._waiting_events -= count
        try:
            future.result()
        except OSError as error:
            raise StoreError(f"expected to store {count} events, found: {error}") from error


def own_names(facts: Iterable[Fact]) -> frozenset[str]:
    """Give what the game calls the recorded player: a system event of his own names him."""
    return frozenset(
        value
        for fact in facts
        if fact.player_id is not None and fact.doc_type == "system_event"
        for value in (fact.player_id, *fact.columns.values())
        if isinstance(value, str)
    )


def write_json(value: object) -> str:
    """Write what the recorder tells as JSON."""
    return orjson.dumps(value, option=orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS).decode()


def _tick_to_dict(tick: Event | Fact | None) -> Json | None:
    """Say which tick it was."""
    return {"window_id": tick.window_id, "columns": dict(tick.columns)} if tick else None
