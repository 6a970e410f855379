"""Bots with large counts: a million proposals, a thousand kills, 200 rounds over the socket, 20 in Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest
from gate_kills import kill_gates
from test_bot_page import play_rounds
from test_bot_socket import play_and_compare
from test_gate import flood

pytestmark = pytest.mark.torture


def test_a_million_proposals_cross_no_limit() -> None:
    assert sum(flood(seed, 1_000) for seed in range(1_000)) > 10_000


def test_a_thousand_kills(home: Path) -> None:
    orders, kills = kill_gates(home, 1_000, 7)
    assert orders > 1_000
    assert kills > 100


@pytest.mark.timeout(0)
def test_200_rounds_over_the_socket(home: Path) -> None:
    play_and_compare("take-profit", 200, home)


@pytest.mark.browser
@pytest.mark.timeout(0)
def test_20_rounds_in_chromium(chromium: Path, home: Path) -> None:
    assert play_rounds(home, 20, page_rounds=7)
