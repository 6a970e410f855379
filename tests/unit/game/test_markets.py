"""Markets that users declare: refused where they cannot be right, found by name, and never simulated."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from playproof.cli.app import main, run_app
from playproof.errors import ConfigError, DecodeError, UnknownName
from playproof.game import game_names, load_game
from playproof.game.markets import FILE, MarketDeclaration, add_market, declared_markets, find_market

MARKET = MarketDeclaration(name="mine", assets=("BTC", "ETH"), actions=("BUY", "SELL", "HOLD"), unit="1e-6")


def test_a_market_is_written_and_read_back(home: Path) -> None:
    assert declared_markets() == {}
    assert game_names() == ("arena", "crash")
    path = add_market(MARKET)
    assert path == home / FILE
    other = MarketDeclaration(name="other", reward="judge-only", window_hours=24, zone="America/New_York")
    add_market(other)
    before = path.read_text()
    assert add_market(MARKET) == path
    assert path.read_text() == before
    assert declared_markets() == {"mine": MARKET, "other": other}
    assert game_names() == ("arena", "crash", "mine", "other")
    assert find_market("mine").unit_size == 1_000
    with pytest.raises(ConfigError, match="declared otherwise"):
        add_market(MarketDeclaration(name="mine", assets=("BTC",)))
    with pytest.raises(UnknownName, match="mine, other"):
        find_market("theirs")
    with pytest.raises(UnknownName, match="arena, crash, mine"):
        load_game("theirs")


def test_windows_are_hours_of_utc() -> None:
    assert MARKET.window_id(datetime(2025, 1, 15, 10, 59, tzinfo=UTC)) == "2025-01-15T10:00Z"
    for text in ("2025-01-15T10:00", "2025-01-15T10:00Z", "2025-01-15T10:00:00Z", "2025-01-15T10:00:00.000Z"):
        assert MARKET.parse_window(text).window_id == "2025-01-15T10:00Z"
    for text in ("2025-01-15T10:30", "2025-01-15", "2025-13-15T10:00", "", "2025-01-15T10:00+01:00"):
        with pytest.raises(DecodeError, match="expected"):
            MARKET.parse_window(text)
    with pytest.raises(DecodeError, match="zone"):
        MARKET.window_id(datetime(2025, 1, 15, 10))  # noqa: DTZ001


def test_days_are_cut_in_the_markets_zone() -> None:
    paris = MarketDeclaration(name="paris", reward="judge-only", window_hours=24, zone="Europe/Paris")
    assert paris.window_id(datetime(2025, 1, 15, 22, 59, tzinfo=UTC)) == "2025-01-14T23:00Z"
    assert paris.window_id(datetime(2025, 1, 15, 23, 0, tzinfo=UTC)) == "2025-01-15T23:00Z"
    assert paris.parse_window("2025-01-15T00:00").window_id == "2025-01-14T23:00Z"
    with pytest.raises(DecodeError, match="start of a window"):
        paris.parse_window("2025-01-15T00:00Z")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"name": "My Market"}, "name"),
        ({"name": "../x"}, "name"),
        ({"window_hours": 5}, "window_hours"),
        ({"window_hours": True}, "window_hours"),
        ({"zone": "Mars/Base"}, "zone"),
        ({"zone": "../../etc/passwd"}, "zone"),
        ({"assets": ()}, "assets for the reward"),
        ({"assets": ("BTC", "btc")}, "assets"),
        ({"assets": ("",)}, "assets"),
        ({"currency": "dollars"}, "currency"),
        ({"unit": "0.3e-9"}, "unit"),
        ({"unit": "-0.01"}, "unit"),
        ({"unit": "NaN"}, "unit"),
        ({"unit": 0.01}, "unit"),
        ({"reward": "profit"}, "reward"),
        ({"usable_step": "prompt"}, "usable_step"),
        ({"usable_step": "action+luck"}, "usable_step"),
    ],
)
def test_a_market_that_cannot_be_is_refused(parts: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        MarketDeclaration(**({"name": "mine", "assets": ("BTC",)} | parts))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[markets.mine", "TOML"),
        ("markets = 5", "tables"),
        ("[markets]\nmine = 5", "with window_hours"),
        ('[markets.mine]\nasset = ["BTC"]', "found asset"),
        ('[markets.mine]\nassets = "BTC"', "list"),
        ('[markets.arena]\nassets = ["BTC"]', "installed game"),
    ],
)
def test_a_broken_file_is_named(text: str, message: str, home: Path) -> None:
    home.mkdir()
    (home / FILE).write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_game("mine")


@pytest.mark.parametrize(
    "arguments",
    [
        ["validate", "wait"],
        ["compare", "wait", "random"],
        ["replay", "wait"],
        ["train", "ppo", "--name", "x"],
        ["train", "sft", "--name", "x"],
        ["train", "grpo", "--name", "x", "--base", "tiny"],
        ["judge", "check"],
        ["reward", "ls"],
    ],
    ids=" ".join,
)
def test_what_needs_a_simulation_says_so(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    add_market(MARKET)
    assert main([*arguments, "--game", "mine"]) == 1
    said = capsys.readouterr().err
    assert "market mine is recorded, not simulated" in said
    assert said.count("error:") == 1


def test_a_data_set_of_events_needs_a_feed(capsys: pytest.CaptureFixture[str]) -> None:
    add_market(MARKET)
    assert main(["dataset", "build", "x", "--game", "mine"]) == 1
    assert "recorded as trajectories, not as frames" in capsys.readouterr().err


def test_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    from playproof.workflows.market.commands import app

    added = ["add", "mine", "--asset", "BTC", "--asset", "ETH", "--unit", "1e-6"]
    added += [word for name in ("BUY", "SELL", "HOLD") for word in ("--action", name)]
    for _ in range(2):
        assert run_app(app, "market", added) == 0
    assert declared_markets() == {"mine": MARKET}
    for arguments in (["ls"], ["ls", "--json"], ["show", "mine"], ["show", "mine", "--json"]):
        capsys.readouterr()
        assert run_app(app, "market", arguments) == 0
        assert "mine" in capsys.readouterr().out
    assert run_app(app, "market", ["add", "arena", "--asset", "BTC"]) == 1
    assert run_app(app, "market", ["show", "theirs"]) == 1
    assert run_app(app, "market", ["agents", "mine"]) == 1
    assert "found none" in capsys.readouterr().err
