"""A bot over the real socket: money equal to the server's own ledger, decisions equal to the environment's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from bot_table import CALM, new_table, play

from playproof.game import load_game
from playproof.games.crash.server.table import FillEntry, OrderEntry
from playproof.money import to_units
from playproof.operate.audit import read_audit, verify_audit
from playproof.operate.limits import OrderLimits
from playproof.store.db import connect, ready
from playproof.validate.examine import load_subject
from playproof.workflows.crash.bot_report import compare_session
from playproof.workflows.crash.bot_run import BotPlan, Mode, read_session

GAME = load_game("crash")


WIDE = replace(CALM, stake_share=10**6, open_positions=100, daily_loss=10**6, total_loss=10**6, raise_after_loss=True)
"""Limits that let the scripted person play as he likes."""


@pytest.mark.parametrize(
    ("name", "mode", "rounds", "limits"),
    [
        ("take-profit", "practice", 2, CALM),
        ("sidebet", "practice", 1, CALM),
        ("human", "practice", 1, WIDE),
        ("human", "paper", 1, CALM),
    ],
)
def test_money_is_the_servers_and_decisions_are_the_environments(
    name: str, mode: Mode, rounds: int, limits: OrderLimits, home: Path
) -> None:
    play_and_compare(name, rounds, home, mode, limits)


def play_and_compare(name: str, rounds: int, home: Path, mode: Mode = "practice", limits: OrderLimits = CALM) -> None:
    """Play, and hold the server's ledger, the account, the audit log and the environment together."""
    subject = load_subject(GAME, name)
    with new_table() as table:
        summary = play(
            table, BotPlan(subject, "", mode=mode, rounds=rounds), limits=limits, seconds_most=max(240, 20 * rounds)
        )
        (player,) = table.server.table.players.values()
        cash = player.ledger.cash
    assert summary["rounds"] == rounds
    kept = read_session(home, summary["session"])["rounds"]
    refused = [order["answer"] for one in kept for order in one["orders"].values() if order["answer"] != "allowed"]
    assert summary["orders"] > 0 or (mode == "paper" and refused), refused
    sent = [entry for entry in table.log if isinstance(entry, OrderEntry)]
    engine = ready(connect(home))
    lines = read_audit(engine, summary["session"])
    allowed = [line for line in lines if line.get("answer") == "allowed"]
    assert len({line["order"] for line in allowed}) == len(allowed) == summary["orders"]
    if mode == "practice":
        assert to_units(summary["cash"]) == cash
        assert len(sent) == len(allowed)
        assert all(entry.success for entry in sent)
    else:
        assert not sent
        assert not [entry for entry in table.log if isinstance(entry, FillEntry)]
    comparison = compare_session(home, summary["session"], subject)
    assert {item.cause for item in comparison.differences} <= {"gate"}
    assert all(item.live == item.environment for item in comparison.rounds)
    assert verify_audit(engine, summary["session"], summary["audit_head"]).sound
    decided = [line for line in lines if line["kind"] == "decision"]
    assert len(decided) == sum(item.decisions for item in comparison.rounds)
