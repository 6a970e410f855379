"""Record a game's own scripted player at its real page, for demonstrations and tests.

A game names its performance in the entry-point group "playproof.performances": a function of rounds, speed and
seed that gives a context with `url`, `drive(page)` for a browser and `join()` for a socket.
"""

from __future__ import annotations

import asyncio
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playproof.cli.data.record import RecordPlan, record, record_page, summary_table
from playproof.cli.output import AsJson, emit, note
from playproof.errors import UnknownName
from playproof.json_types import Json
from playproof.record.feeds.chromium import find_chromium

if TYPE_CHECKING:
    from playproof.record.recorder import Clock, Recorder

GROUP = "playproof.performances"
SETTLE = 1.0
"""Seconds that a recorder listens on after the last round."""

app = typer.Typer()


class ScriptedFeed:
    """A player who sits down over the socket, and a recorder that is the same player's second connection."""

    def __init__(self, performance: Any, recorder: Recorder, clock: Clock) -> None:
        self._performance, self._recorder, self._clock = performance, recorder, clock

    async def run(self, stop: asyncio.Event) -> None:
        """Record while the player plays."""
        from playproof.record.feeds.socket import SocketFeed

        auth, play = await self._performance.join()
        feed = SocketFeed(self._performance.url, self._recorder, self._clock, auth=auth)
        recording = asyncio.create_task(feed.run(stop))
        playing = asyncio.ensure_future(play())
        await asyncio.wait([recording, playing], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(SETTLE)
        stop.set()
        playing.cancel()
        await recording


def record_performance(game: str, rounds: int, speed: float, seed: int, use_browser: bool) -> Json:
    """Record the game's scripted player; give the recorder's summary."""
    result = {entry.name: entry for entry in entry_points(group=GROUP)}
    if game not in result:
        raise UnknownName("performance", game, result)
    with result[game].load()(rounds, speed, seed) as show:
        if use_browser:
            return record_page(RecordPlan(show.url, "cdp"), headless=True, drive=show.drive)
        return record(RecordPlan(show.url, "public_ws"), lambda recorder, clock, _: ScriptedFeed(show, recorder, clock))


@app.command()
def perform(
    game: Annotated[str, typer.Argument(help="Whose scripted player to record.")],
    rounds: Annotated[int, typer.Option(help="How many rounds he plays.")] = 2,
    speed: Annotated[float, typer.Option(help="How many times faster than the real game.")] = 8.0,
    seed: Annotated[int, typer.Option(help="Same seed, same rounds and the same player.")] = 1,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Play over the socket, as without Chromium.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Serve a game, let its scripted player play on the real page, and record him as a person would be.

    Without Chromium he plays over the socket, and presses are not recorded.

    Example: playproof perform crash --rounds 2
    """
    use_browser = not no_browser and find_chromium() is not None
    if not use_browser and not no_browser:
        note("no Chromium: playing over the socket; playproof doctor tells how to get one")
    summary = record_performance(game, rounds, speed, seed, use_browser)
    emit(summary, as_json, lambda: summary_table(summary))
