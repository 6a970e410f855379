"""A bot in Chromium presses the page's own buttons; its money is the server's."""

from __future__ import annotations

from pathlib import Path

import pytest
from bot_table import new_table, play

from playproof.game import load_game
from playproof.games.crash.server.table import OrderEntry
from playproof.money import to_units
from playproof.store import EventStore
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
