"""Follow a Socket.IO crash feed with any number of players, each on paper; everything is recorded like a person's play.

    results = await follow_feed(url, recorder, clock, [champion, challenger], stop)

A player whose policy fails is a failure of the whole feed: whoever wants one to go on without the other catches in
`take`. Leaves out: orders that are really sent (bot).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from playproof.events import Event
from playproof.record.feeds.socket import SocketFeed
from playproof.record.recorder import Clock, Recorder
from playproof.workflows.crash.live_player import LiveDecision, LivePlayer, SettledRound

OnResult = Callable[[LivePlayer, LiveDecision | SettledRound], None]


async def follow_feed(
    url: str,
    recorder: Recorder,
    clock: Clock,
    players: Sequence[LivePlayer],
    stop: asyncio.Event,
    on_result: OnResult | None = None,
    auth: Mapping[str, Any] | None = None,
) -> dict[int, list[SettledRound]]:
    """Record a feed until `stop` is set and let the players follow it; give the settled rounds by player's place."""
    settled: dict[int, list[SettledRound]] = {index: [] for index in range(len(players))}
    failures: list[Exception] = []

    def take(events: tuple[Event, ...]) -> None:
        try:
            for event in events:
                for index, player in enumerate(players):
                    for result in player.take(event):
                        if isinstance(result, SettledRound):
                            settled[index].append(result)
                        if on_result is not None:
                            on_result(player, result)
        except Exception as error:  # noqa: BLE001  # the library would swallow it: it is raised again below
            failures.append(error)
            stop.set()

    await SocketFeed(url, recorder, clock, auth=auth or {}, on_events=take).run(stop)
    if failures:
        raise failures[0]
    return settled
