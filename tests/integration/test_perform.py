"""The scripted player of a game, recorded at its real page or over its socket."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from playproof.cli.app import main
from playproof.game import load_game
from playproof.store import EventStore


@pytest.mark.browser
def test_a_scripted_person_is_recorded_on_the_page(
    home: Path, chromium: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert chromium
    assert main(["perform", "crash", "--rounds", "1", "--speed", "6", "--seed", "5", "--json"]) == 0
    payload = json.loads(capsys.readouterr().out)
    store = EventStore(home, load_game("crash").columns)
    docs = Counter(event.doc_type for event in store.events())
    assert docs == payload["docs"]
    assert docs["game_tick"] > 20
    assert payload["windows"] >= 1
    assert docs["button_event"] == payload["presses"] > 0
    assert payload["gaps"] == 0


def test_without_a_browser_he_plays_over_the_socket(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["perform", "crash", "--rounds", "1", "--speed", "20", "--seed", "8", "--no-browser", "--json"]) == 0
    payload = json.loads(capsys.readouterr().out)
    store = EventStore(home, load_game("crash").columns)
    names = Counter(event.event_name for event in store.events())
    assert names["tick"] > 180
    assert names["fill"] > 0
    assert payload["source"] == "public_ws"


def test_a_game_without_a_performance_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["perform", "chess"]) == 1
    assert "crash" in capsys.readouterr().err
