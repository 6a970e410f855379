"""How values are written on pages: money, times, shares, sizes."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import entry_points

from playproof.money import UNIT
from playproof.reports.page import Toned


def money(units: int | None, *, signed: bool = True, digits: int = 4) -> Toned | None:
    """Write money in coins or USD, its sign as a colour."""
    if units is None:
        return None
    tone = "" if not signed or units == 0 else "good" if units > 0 else "bad"
    return Toned(f"{units / UNIT:{'+' if signed else ''},.{digits}f}", tone)


def moment(time: datetime | None) -> str | None:
    """Write a time in UTC."""
    return None if time is None else time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def moment_of(seconds: float) -> datetime:
    """Give the time of a file."""
    return datetime.fromtimestamp(seconds, UTC)


def size(count: int) -> str:
    """Write a number of bytes."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


TONES = {
    "running": "good",
    "done": "good",
    "EDGE SHOWN": "good",
    "accepted": "good",
    "passed": "good",
    "completed": "good",
    "failed": "bad",
    "NEGATIVE": "bad",
    "rejected": "bad",
    "stopped": "warn",
    "cancelled": "warn",
    "SUSPECT": "warn",
    "REWARD HACKED": "warn",
    "waiting": "warn",
}


def state(text: str | None) -> Toned | None:
    """Write a state in the colour of its meaning."""
    return None if text is None else Toned(text, TONES.get(text, ""))


def performing_games() -> list[str]:
    """Name the games that have a scripted player."""
    return sorted(point.name for point in entry_points(group="playproof.performances"))
