"""Show a recording while it runs: where the world and the player stand, presses, rates, lag and gaps.

A listener of the recorder like any other: it may be slow, and the recording does not notice.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from playproof.events import Event, Value
from playproof.money import show
from playproof.record.recorder import DISCARD, EVERYTHING, MARK, REDO, Clock, Recorder

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

PRESSES = 6
RATE_SECONDS = 5
KEYS: Mapping[str, tuple[str, str]] = {
    "m": (MARK, "mark"),
    "r": (REDO, "redo"),
    "d": (DISCARD, "discard"),
}
"""What a key says of the current episode."""
QUIT = "q"


@dataclass
class LiveView:
    """What the screen shows; fed from the recorder's listener thread, drawn from another."""

    recorder: Recorder
    title: str
    clock: Clock
    layout: Mapping[str, Any] = field(default_factory=dict)
    """The table `view` of a selector map."""
    money: frozenset[str] = frozenset()
    """Columns that hold money."""
    said: str = ""
    _tick: Event | None = field(default=None, init=False)
    _player: Event | None = field(default=None, init=False)
    _presses: deque[Event] = field(default_factory=lambda: deque(maxlen=PRESSES), init=False)
    _times: deque[float] = field(default_factory=lambda: deque(maxlen=20_000), init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def listen(self) -> LiveView:
        """Subscribe to everything that is recorded."""
        self.recorder.subscribe(EVERYTHING, self.take)
        return self

    def take(self, event: Event) -> None:
        """Take one event."""
        with self._lock:
            self._times.append(self.clock().timestamp())
            if event.doc_type == "game_tick":
                self._tick = event
            elif event.doc_type == "button_event":
                self._presses.append(event)
            elif event.player_id is not None and event.doc_type == "server_state":
                self._player = event

    def say(self, key: str) -> bool:
        """Do what a key stands for; tell whether the recording shall end."""
        if key in KEYS:
            name, word = KEYS[key]
            self.recorder.mark(name)
            self.said = f"{word}: {self._tick.window_id if self._tick else 'nothing yet'}"
        return key == QUIT

    def rate(self) -> float:
        """Give the events a second over the last seconds."""
        now = self.clock().timestamp()
        with self._lock:
            return sum(moment > now - RATE_SECONDS for moment in self._times) / RATE_SECONDS

    def figures(self) -> dict[str, str]:
        """Give everything that is shown, by its label."""
        counts, tick = self.recorder.counts, self._tick
        lag = (self.clock() - tick.ts).total_seconds() if tick else None
        return {
            "window": (tick.window_id or "") if tick else "waiting for the first tick",
            "phase": self._phase(),
            **self._columns(tick, "tick"),
            **self._columns(self._player, "player"),
            "events/s": f"{self.rate():.1f}",
            "events": f"{sum(counts.docs.values()):,}",
            "frames": f"{counts.received:,} in, {counts.sent:,} out",
            "lag": "" if lag is None else f"{lag:.1f} s since the last tick, {self.recorder.waiting} not durable yet",
            "gaps": f"{counts.gaps} ({counts.reconnects} times connected again)",
            "refused": str(counts.refused),
            "presses": str(counts.presses),
        }

    def _phase(self) -> str:
        column, names = self.layout.get("phase"), self.layout.get("phases", ())
        value = self._tick.columns.get(column) if self._tick and isinstance(column, str) else None
        return names[value] if isinstance(value, int) and 0 <= value < len(names) else str(value or "")

    def _columns(self, event: Event | None, table: str) -> dict[str, str]:
        known = event.columns if event else {}
        return {name: self._text(name, known.get(name)) for name in self.layout.get(table, list(known)[:6])}

    def _text(self, name: str, value: Value) -> str:
        if name in self.money and isinstance(value, int):
            return show(value)
        return f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)

    def render(self) -> RenderableType:
        """Lay everything out for a terminal."""
        from rich.console import Group
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        for label, value in self.figures().items():
            table.add_row(Text(label, style="dim"), Text(value))
        with self._lock:
            pressed = [_press_line(event) for event in reversed(self._presses)]
        keys = "  ".join([*(f"[{key}] {word}" for key, (_, word) in KEYS.items()), f"[{QUIT}] or Ctrl-C end"])
        lines = Text("\n".join([*pressed, self.said, keys]).strip())
        return Panel(Group(table, lines), title=Text(self.title), title_align="left")

    async def draw(self, console: Console, pause: float = 0.25) -> None:
        """Draw the screen again and again until cancelled."""
        from rich.live import Live

        with Live(self.render(), console=console, auto_refresh=False, transient=True) as live:
            while True:
                await asyncio.sleep(pause)
                live.update(self.render(), refresh=True)


def _press_line(event: Event) -> str:
    payload = event.columns
    return f"{event.ts:%H:%M:%S.%f}"[:12] + f"  {payload.get('button_id')}  at tick {payload.get('tick')}"


@contextlib.contextmanager
def pressed_keys(take: Callable[[str], object]) -> Iterator[None]:
    """Call a function with every key pressed in the terminal; nothing where there is none."""
    if not sys.stdin.isatty():
        yield
        return
    import os
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before, loop = termios.tcgetattr(descriptor), asyncio.get_running_loop()
    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, lambda: [take(key) for key in os.read(descriptor, 64).decode("utf-8", "ignore")])
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
