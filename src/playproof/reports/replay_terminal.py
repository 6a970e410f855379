"""A replay in a terminal: the same keys as on the page, drawn with characters.

What is shown at a cursor and what a key does are pure functions; only `run` reads keys. Where no terminal listens
the frames at which something happened are printed one after the other.
"""

from __future__ import annotations

import os
import re
import select
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from playproof.game.replay import Line, Number, ReplayedEpisode
from playproof.money import UNIT, show
from playproof.validate.replay import Replay

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

SPEEDS = (1, 2, 4, 8, 16, 32, 64, 128)
"""Steps a second."""
PRINTED = 8
"""Frames of an episode that are printed where no terminal listens."""
BLOCKS = "▁▂▃▄▅▆▇█"
SIGNS = {"entry": ("▲", "green"), "exit": ("▼", "yellow"), "bet": ("●", "magenta"), "won": ("★", "green"),
         "lost": ("✕", "red"), "end": ("■", "red")}  # fmt: skip
KEYS = {
    "\x1b[C": "right", "\x1b[D": "left", "\x1b[1;2C": "right10", "\x1b[1;2D": "left10", "\x1b[H": "home",
    "\x1b[F": "end", "\x1b[1~": "home", "\x1b[4~": "end", "\x1bOH": "home", "\x1bOF": "end", " ": "space",
    "\x1b": "q", "\x03": "q", "\x04": "q", "=": "+",
}  # fmt: skip
"""What terminals send for keys that have names; other characters stand for themselves."""
SEQUENCE = re.compile(r"\x1b(?:\[[0-9;]*[A-Za-z~]|O.)|.", re.DOTALL)
HELP = "← → step (shift: ten)  Home End  space play  + - speed  e E event  w worst  b best  n p episode  q quit"


@dataclass(frozen=True)
class Cursor:
    """Where one looks."""

    episode: int = 0
    point: int = 0
    playing: bool = False
    speed: int = 3
    """Place in SPEEDS."""
    quit: bool = False


def press(cursor: Cursor, key: str, replay: Replay) -> Cursor:
    """Give where a key leads; a key that means nothing leads nowhere."""
    episode = replay.episodes[cursor.episode]
    point = _stop(episode, cursor.point, key)
    if point is not None:
        return replace(cursor, point=min(max(point, 0), len(episode)), playing=False)
    if key == "space":
        again = cursor.point >= len(episode) and not cursor.playing
        return replace(cursor, playing=not cursor.playing, point=0 if again else cursor.point)
    if key in ("+", "-"):
        return replace(cursor, speed=min(max(cursor.speed + (1 if key == "+" else -1), 0), len(SPEEDS) - 1))
    if key == "q":
        return replace(cursor, quit=True)
    led = {"w": replay.worst, "b": replay.best, "n": cursor.episode + 1, "p": cursor.episode - 1}
    if key not in led:
        return cursor
    return replace(cursor, episode=min(max(led[key], 0), len(replay.episodes) - 1), point=0, playing=False)


def _stop(episode: ReplayedEpisode, point: int, key: str) -> int | None:
    """Give the point of the same episode that a key leads to; None for other keys."""
    stops = {"right": point + 1, "left": point - 1, "right10": point + 10, "left10": point - 10}
    stops |= {"home": 0, "end": len(episode)}
    if key in ("e", "E"):
        return _event(episode, point, 1 if key == "e" else -1)
    return stops.get(key)


def tick(cursor: Cursor, replay: Replay) -> Cursor:
    """Let a step pass while playing; playing stops at the end."""
    if not cursor.playing:
        return cursor
    point = min(cursor.point + 1, len(replay.episodes[cursor.episode]))
    return replace(cursor, point=point, playing=point < len(replay.episodes[cursor.episode]))


def _event(episode: ReplayedEpisode, point: int, by: int) -> int:
    ahead = [mark.point for mark in episode.marks if (mark.point - point) * by > 0]
    return (min(ahead) if by > 0 else max(ahead)) if ahead else point


def frame(replay: Replay, cursor: Cursor, width: int = 100) -> RenderableType:
    """Draw what is to be seen at a cursor."""
    from rich.columns import Columns
    from rich.console import Group
    from rich.text import Text

    episode = replay.episodes[cursor.episode]
    parts: list[RenderableType] = [_title(replay, cursor), _where(replay, episode, cursor)]
    for line in episode.lines:
        if line.panel:
            parts.append(_spark(line, episode, cursor.point, width))
    parts.append(_marks(episode, cursor.point, width))
    parts.append(Columns([_values(episode, cursor.point), _thoughts(episode, cursor.point)], padding=(0, 4)))
    if episode.said and cursor.point < len(episode):
        parts += [_speech(item.kind, item.who, item.text) for item in episode.said[cursor.point] if item.kind != "told"]
    if len(episode.rows):
        parts.append(_seen(replay, episode, cursor.point, width))
    state = f"playing {SPEEDS[cursor.speed]}/s" if cursor.playing else f"speed {SPEEDS[cursor.speed]}/s"
    return Group(*parts, Text(f"{HELP}  ({state})", style="dim"))


def _title(replay: Replay, cursor: Cursor) -> Text:
    from rich.text import Text

    episode = replay.episodes[cursor.episode]
    flag = replay.flag(cursor.episode)
    text = Text(f"{episode.player} in {episode.window}", style="bold")
    text.append(f"  {cursor.episode + 1} of {len(replay.episodes)}{flag and f', the {flag}'}  ", style="dim")
    return text.append(_money(episode.pnl, replay.money), style=_colour(episode.pnl))


def _money(units: int | None, name: str) -> str:
    return "no P&L told" if units is None else f"{'+' if units >= 0 else ''}{show(units)} {name}"


def _colour(value: Number) -> str:
    return "dim" if not value else "green" if value > 0 else "red"


def _where(replay: Replay, episode: ReplayedEpisode, cursor: Cursor) -> Text:
    from rich.text import Text

    point, steps = cursor.point, len(episode)
    clock = f"{episode.lines[0].name} {written(episode.lines[0], episode, point)}  " if episode.lines else ""
    if point >= steps:
        return Text(f"end, after {steps} steps  {clock}P&L {_money(episode.pnl, replay.money)}", style="bold")
    text = Text(f"step {point + 1} of {steps}  {clock}")
    text.append(episode.actions[point], style="bold cyan")
    paid = episode.rewards[point] if len(episode.rewards) else None
    return text if paid is None else text.append(f"  pays {paid}", style=_colour(paid))


def written(line: Line, episode: ReplayedEpisode, point: int) -> str:
    """Write a line's value without loss."""
    value = episode.values[line.name][point]
    if value is None:
        return "unknown"
    return show(int(value)) if line.whole == UNIT else str(value)


def _spark(line: Line, episode: ReplayedEpisode, point: int, width: int) -> Text:
    """Draw a line over the whole window in one row, the cursor on it."""
    from rich.text import Text

    room = max(10, width - 34)
    values = episode.values[line.name]
    indices = _places(len(values), room)
    text = Text(f"{line.name[:12]:<12} {written(line, episode, point)[:18]:>18} ")
    here = max(column for column, index in enumerate(indices) if index <= point)
    for column, bar in enumerate(bars([values[index] for index in indices])):
        text.append(bar, style="reverse" if column == here else "blue")
    return text


def _places(points: int, room: int) -> list[int]:
    """Choose the points that fit into so many columns, the first and the last among them."""
    columns = min(points, room)
    return [round(column * (points - 1) / max(1, columns - 1)) for column in range(columns)]


def bars(values: Sequence[Number]) -> str:
    """Draw values as blocks from the lowest to the highest; a blank is unknown."""
    known = [float(value) for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    span = (high - low) or 1.0
    return "".join(
        " " if value is None else BLOCKS[round((float(value) - low) / span * (len(BLOCKS) - 1))] for value in values
    )


def _marks(episode: ReplayedEpisode, point: int, width: int) -> Text:
    from rich.text import Text

    room = max(10, width - 34)
    indices = _places(len(episode) + 1, room)
    row: list[tuple[str, str]] = [(" ", "")] * len(indices)
    for mark in episode.marks:
        row[max(column for column, index in enumerate(indices) if index <= mark.point)] = SIGNS[mark.kind]
    happened = [mark.text for mark in episode.marks if mark.point == point]
    text = Text(f"{(happened[0] if happened else '')[:31]:<31} ")
    for sign, style in row:
        text.append(sign, style=style)
    return text


def _values(episode: ReplayedEpisode, point: int) -> Table:
    from rich.table import Table

    table = Table(show_header=False, box=None, padding=(0, 1))
    for line in episode.lines:
        table.add_row(line.name, written(line, episode, point), line.unit)
    table.columns[1].justify = "right"
    return table


def _thoughts(episode: ReplayedEpisode, point: int) -> Table:
    from rich.table import Table

    table = Table(show_header=False, box=None, padding=(0, 1))
    if point < len(episode):
        for names, chances in episode.thoughts:
            for name, chance in zip(names, chances[point].tolist(), strict=True):
                if chance >= 0.005:
                    table.add_row(name, "█" * round(20 * chance), f"{chance:.1%}")
        for name, prediction in episode.predictions.items():
            chance = prediction[point]
            if chance is not None:
                table.add_row(name.replace("_", " "), "█" * round(20 * chance), f"{chance:.1%}")
    return table


def _speech(kind: str, who: str, words: str) -> Text:
    from rich.text import Text

    return Text(f"{who} {kind}: ", style="dim").append(words[:600], style="" if kind == "saw" else "cyan")


def _seen(replay: Replay, episode: ReplayedEpisode, point: int, width: int) -> Table:
    """Lay the observation out in columns; what is unknown says so."""
    from rich.table import Table

    columns = max(1, width // 46)
    table = Table(box=None, show_header=False, padding=(0, 1), title="what it saw", title_justify="left")
    cells = []
    for index, name in enumerate(episode.features):
        unknown = episode.missing is not None and bool(episode.missing[point, index])
        value = "[dim italic]unknown[/]" if unknown else f"{episode.rows[point, index]}"
        cells.append((name, value, f"[dim]{replay.units.get(name, '')[:12]}[/]"))
    for start in range(0, len(cells), columns):
        table.add_row(*(word for cell in cells[start : start + columns] for word in cell))
    return table


def frames(replay: Replay) -> Iterator[Cursor]:
    """Give cursors at which something happened, some of each episode, its start and its end among them."""
    for number, episode in enumerate(replay.episodes):
        points = sorted({0, len(episode), *(mark.point for mark in episode.marks)})
        yield from (Cursor(number, points[index]) for index in _places(len(points), PRINTED))


def run(replay: Replay, console: Console) -> None:
    """Step through the replay with keys, or print what happened where no terminal listens."""
    if not (sys.stdin.isatty() and console.is_terminal):
        for cursor in frames(replay):
            console.print(frame(replay, cursor, console.width))
            console.rule(style="dim")
        return
    _listen(replay, console)


def _listen(replay: Replay, console: Console) -> None:
    import termios
    import tty

    from rich.live import Live

    before = termios.tcgetattr(sys.stdin)
    cursor = Cursor()
    try:
        tty.setcbreak(sys.stdin, termios.TCSADRAIN)
        with Live(frame(replay, cursor, console.width), console=console, screen=True, auto_refresh=False) as live:
            while not cursor.quit:
                wait = 1 / SPEEDS[cursor.speed] if cursor.playing else None
                ready, _, _ = select.select([sys.stdin], [], [], wait)
                if ready:
                    for key in keys(os.read(sys.stdin.fileno(), 64).decode(errors="replace")):
                        cursor = press(cursor, key, replay)
                else:
                    cursor = tick(cursor, replay)
                live.update(frame(replay, cursor, console.width), refresh=True)
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def keys(typed: str) -> Iterator[str]:
    """Cut what a terminal sent into keys; a sequence that has no name here comes as it is, and means nothing."""
    for result in SEQUENCE.findall(typed):
        yield KEYS.get(result, result)
