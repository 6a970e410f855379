"""A bot in Chromium presses the page's own buttons; its money is the server's."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from bot_table import Table, new_table, play

from playproof.game import load_game
from playproof.games.crash.rules.windows import Phase
from playproof.games.crash.server.table import OrderEntry
from playproof.money import to_units
from playproof.operate.account import read_account
from playproof.store import EventStore
from playproof.store.db import connect, ready
from playproof.validate.examine import load_subject
from playproof.workflows.crash.bot_report import compare_session
from playproof.workflows.crash.bot_run import BotPlan

GAME = load_game("crash")


@pytest.mark.browser
def test_a_round_in_chromium(chromium: Path, home: Path) -> None:
    assert play_rounds(home, 1)


def play_rounds(home: Path, rounds: int, page_rounds: int = 200) -> int:
    """Play rounds; give how many orders were sent."""
    subject = load_subject(GAME, "take-profit")
    with new_table() as table:
        plan = BotPlan(subject, "", "browser", "practice", rounds=rounds, page_rounds=page_rounds, answer_s=60.0)
        summary = play(table, plan, seconds_most=max(240, 60 * rounds))
        (player,) = table.server.table.players.values()
    sent = [entry for entry in table.log if isinstance(entry, OrderEntry)]
    assert summary["rounds"] == rounds
    assert to_units(summary["cash"]) == player.ledger.cash
    assert len(sent) == summary["orders"] > 0
    comparison = compare_session(home, summary["session"], subject)
    assert comparison.differences == ()
    assert all(item.live == item.environment for item in comparison.rounds)
    events = list(EventStore(home, GAME.columns).events(doc_type="button_event"))
    assert [event.columns["button_id"] for event in events if event.columns["button_category"] == "action"] == [
        {"buyOrder": "BUY", "sellOrder": "SELL"}[entry.kind] for entry in sent
    ]
    return len(sent)


@pytest.mark.browser
def test_a_window_closed_by_hand_leaves_no_belief_of_being_flat(chromium: Path, home: Path) -> None:
    async def close(table: Table) -> bool:
        now = table.server.table
        if now.phase is Phase.ACTIVE and now.tick >= 1:
            assert table.running is not None
            venue: Any = table.running.bot.venue
            await venue.page.close()
            await asyncio.sleep(3600)
        return True

    subject = load_subject(GAME, "hold-40")
    with new_table() as table:
        plan = BotPlan(subject, "", "browser", "practice", account="acc", rounds=1, answer_s=60.0)
        summary = play(table, plan, close)
    assert summary["ended"] == "closed"
    assert summary["flat"] == ["could not verify flat: 1 positions; the run ended before they were closed"]
    account = read_account(ready(connect(home)), "acc")
    assert account is not None
    assert account.open_positions == 1
