"""Windows of trajectories: counted, closed, sealed; outcomes written once; pages that hostile text cannot harm."""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, delete, func, select, update

from playproof.cli.app import main
from playproof.errors import InputError
from playproof.game import WindowRules, load_game
from playproof.record.trajectories.bulk import BulkRecorder
from playproof.record.trajectories.facts import ActionTaken, Call
from playproof.record.trajectories.outcomes import read_outcomes, sync, write_outcomes
from playproof.record.trajectories.windows import LIMITED, NONE, READY, is_closed, survey
from playproof.reports.trajectory import trajectory_page
from playproof.store import EventStore, verify
from playproof.store.db import MarketOutcome, Trajectory, connect, opened, ready, upgrade, writing
from playproof.store.db.sealing import COLUMNS, seal_windows
from playproof.store.db.trajectories import list_trajectories, read_trajectory

START = datetime(2025, 1, 15, 10, tzinfo=UTC)
NOW = START + timedelta(hours=12)


def windows() -> WindowRules:
    return load_game("arena").windows


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    url = f"sqlite:///{tmp_path / 'w.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres").new()
    engine = connect(url=url)
    upgrade(engine)
    yield engine
    engine.dispose()


def play(engine: Engine, hour: int, agents: int, steps: int = 5, **more: Any) -> None:
    """Record so many agents in one hour."""
    tokens = {"token_ids": [1, 2], "logprobs": [-0.1, -0.2]} if more.pop("tokens", False) else {}
    ended = more.pop("ended", True)
    start = START + timedelta(hours=hour)
    with BulkRecorder(engine, lambda: start, windows=windows(), environment={}) as recorder:
        for number in range(agents):
            identity = recorder.start_trajectory(more.pop("agent", None) or f"agent-{number}", **more)
            for step in range(steps):
                recorder.start_step(identity, {"balance": 10**13, "pnl": step - 2})
                recorder.log_llm_call(identity, Call("m", user_prompt="state", response="{}", **tokens))
                recorder.complete_step(identity, ActionTaken("trade", success=True))
            if ended:
                recorder.end_trajectory(identity, 10**13, -(10**9))


def row(window: str, subject: str = "ACME", **more: Any) -> dict[str, Any]:
    payload = {"window_id": window, "kind": "asset", "subject": subject, "start_price": 100, "end_price": 110}
    return payload | {"change": 0.1, "sentiment": 0.5, "news_ids": ["n1"]} | more


def name(hour: int) -> str:
    return (START + timedelta(hours=hour)).strftime("%Y-%m-%dT%H:00Z")


def source(names: Any) -> list[dict[str, Any]]:
    return [row(item, subject) for item in names for subject in ("ACME", "KITE")]


def test_windows_are_counted_by_agents(engine: Engine) -> None:
    for hour, agents in enumerate((8, 5, 5, 3, 2, 1)):
        play(engine, hour, agents)
    sync(engine, source, windows(), NOW, hours=None)
    result = survey(engine, windows(), NOW)
    assert [result.with_agents(level) for level in (2, 3, 5, 8)] == [5, 4, 3, 1]
    assert (result.sft, result.grpo) == (READY, NONE)
    assert [window.actions for window in result.windows] == [40, 25, 25, 15, 10, 5]
    assert result.windows[0].pnl == -8 * 10**9
    assert survey(engine, windows(), NOW, hours=10).with_agents(1) == 4
    assert survey(engine, windows(), NOW, min_agents=8).sft == LIMITED
    assert survey(engine, windows(), NOW, min_actions=6).sft == NONE


def test_only_closed_windows_with_outcomes_count(engine: Engine) -> None:
    play(engine, 0, 5)
    play(engine, 12, 5)
    before = survey(engine, windows(), NOW)
    assert [window.usable for window in before.windows] == [False, False]
    done = sync(engine, source, windows(), NOW, hours=None)
    assert (done.written, done.open) == ((name(0),), (name(12),))
    after = survey(engine, windows(), NOW)
    assert [window.usable for window in after.windows] == [True, False]
    assert after.sft == LIMITED


def test_forks_and_log_probabilities_make_grpo_ready(engine: Engine) -> None:
    for hour in range(3):
        for fork in range(5):
            play(
                engine, hour, 1, tokens=True, agent="policy", scenario_id=f"scenario-{hour}", episode_id=f"fork-{fork}"
            )
    sync(engine, source, windows(), NOW, hours=None)
    result = survey(engine, windows(), NOW)
    assert (result.sft, result.grpo, result.groups) == (NONE, READY, 3)


def test_a_window_closes_by_the_clock_whatever_the_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    end = START + timedelta(hours=1)
    for zone in ("UTC", "Asia/Kolkata", "America/New_York"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        for written in (name(0), "2025-01-15T10:00"):
            assert not is_closed(written, 1, windows(), end + timedelta(minutes=4))
            assert is_closed(written, 1, windows(), end + timedelta(minutes=5))
            assert not is_closed(written, 4, windows(), end + timedelta(minutes=5))
    monkeypatch.delenv("TZ")
    time.tzset()


def test_outcomes_are_written_once_and_whole(engine: Engine) -> None:
    play(engine, 0, 2)
    assert sync(engine, source, windows(), NOW).written == (name(0),)
    again = sync(engine, lambda names: [row(item, end_price=1) for item in names], windows(), NOW)
    assert (again.written, again.known) == ((), (name(0),))
    assert not write_outcomes(engine, name(0), [row(name(0), "NEW")], NOW)
    outcomes = read_outcomes(engine, [name(0), name(5)])
    assert [item["subject"] for item in outcomes[name(0)].rows] == ["ACME", "KITE"]
    assert outcomes[name(0)].rows[0]["end_price"] == 110
    assert name(5) not in outcomes
    with pytest.raises(InputError, match="outcomes of"):
        write_outcomes(engine, name(1), [row(name(0))], NOW)


def test_running_agents_and_unknown_prices_are_told(engine: Engine) -> None:
    play(engine, 0, 2)
    play(engine, 1, 2)
    with writing(engine) as connection:
        connection.execute(update(Trajectory).where(Trajectory.window_id == name(1)).values(final_status="running"))
    done = sync(engine, lambda _: [], windows(), NOW)
    assert (done.written, done.open, done.missing) == ((), (name(1),), (name(0),))


def test_sealed_windows_stand_in_the_event_store(engine: Engine, tmp_path: Path) -> None:
    for hour in range(2):
        play(engine, hour, 3)
    home = tmp_path / "sealed"
    assert seal_windows(engine, home, [name(0), name(1)]) == 6
    store = EventStore(home, COLUMNS)
    events = list(store.events())
    assert seal_windows(engine, home, [name(0), name(1)]) == 6
    assert list(EventStore(home, COLUMNS).events()) == events
    assert not verify(home).damage
    assert not list((home / "log").glob("*.parquet"))
    assert list((home / "events").rglob("*.parquet"))
    steps = [event for event in events if event.event_name == "trajectory.step"]
    assert len(steps) == 30
    assert {event.window_id for event in events} == {name(0), name(1)}
    assert {event.columns["action_type"] for event in steps} == {"trade"}
    one = read_trajectory(engine, steps[0].session_id)
    assert json.loads(steps[0].raw or "")["state"] == one.steps[0].state
    pylist = store.query("SELECT window_id, count(*) FROM player_action GROUP BY ALL ORDER BY ALL").to_pylist()
    assert [item["window_id"] for item in pylist] == [name(0), name(1)]


HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)> & </style></pre>"


def hostile(engine: Engine) -> str:
    with BulkRecorder(engine, lambda: START, windows=windows(), environment={}) as recorder:
        identity = recorder.start_trajectory("hostile", archetype=HOSTILE, metadata={"x": HOSTILE})
        recorder.log_llm_call(identity, Call("m", user_prompt=HOSTILE, response=HOSTILE))
        recorder.start_step(identity, {"balance": 5, "pnl": -(10**9), HOSTILE: HOSTILE})
        recorder.log_provider_access(identity, HOSTILE, {HOSTILE: [HOSTILE]}, HOSTILE)
        messages = [{"role": "system", "content": HOSTILE}, {"role": HOSTILE, "content": [{"text": HOSTILE}]}]
        recorder.log_llm_call(
            identity, Call(HOSTILE, messages=messages, response=HOSTILE, reasoning=HOSTILE, error=HOSTILE)
        )
        recorder.complete_step(
            identity,
            ActionTaken(
                HOSTILE, {HOSTILE: HOSTILE}, success=False, result={"r": HOSTILE}, error=HOSTILE, reasoning=HOSTILE
            ),
        )
        recorder.start_step(identity, {})
        recorder.end_trajectory(identity, 5, -5)
    return identity


def test_a_page_shows_hostile_text_as_text(engine: Engine) -> None:
    page = trajectory_page(read_trajectory(engine, hostile(engine)))
    assert page.count("&lt;script&gt;") > 10
    assert "<script" not in page
    assert "<img" not in page
    assert "default-src 'none'" in page
    assert "-1.00" in page
    assert "the step is open" in page


@pytest.mark.browser
def test_a_page_runs_nothing_in_a_browser(chromium: Path, tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    engine = connect(url=f"sqlite:///{tmp_path / 'p.db'}")
    upgrade(engine)
    path = tmp_path / "page.html"
    path.write_text(trajectory_page(read_trajectory(engine, hostile(engine))), encoding="utf-8")
    engine.dispose()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(chromium), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 390, "height": 800})
        names: list[str] = []
        page.on("dialog", lambda dialog: (names.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: None if request.url.startswith("file:") else names.append(request.url))
        page.goto(path.as_uri())
        assert page.evaluate("document.images.length + document.scripts.length") == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        browser.close()
    assert names == []


def timeless(result: Any) -> list[dict[str, Any]]:
    rows = [dict(item) for outcomes in result.values() for item in outcomes.rows]
    return [{key: value for key, value in item.items() if key != "created_at"} for item in rows]


def test_the_arenas_commands(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["arena", "windows"]) == 2
    assert "NO DATA" in capsys.readouterr().out
    assert main(["arena", "run", "--agents", "5", "--windows", "3", "--seed", "4", "--json"]) == 0
    capsys.readouterr()
    assert main(["arena", "windows", "--seal", "--json"]) == 0
    payload = json.loads(capsys.readouterr().out)
    assert (payload["sft"], payload["grpo"], payload["agents"]["5+"]) == ("READY FOR TRAINING", "NO DATA", 3)
    assert list((home / "events").rglob("*.parquet"))
    with opened(home) as engine:
        before = read_outcomes(ready(engine), [item["window_id"] for item in payload["windows"]])
        with writing(engine) as connection:
            connection.execute(delete(MarketOutcome))
        one = list_trajectories(engine, limit=1)[0]
    assert main(["arena", "windows"]) == 2
    assert main(["arena", "outcomes", "sync", "--hours", "48", "--json"]) == 0
    capsys.readouterr()
    with opened(home) as engine:
        after = read_outcomes(engine, before)
    bare = [
        {key: value for key, value in item.items() if key != "created_at"}
        for outcomes in after.values()
        for item in outcomes.rows
    ]
    kept = [
        {key: value for key, value in item.items() if key != "created_at"}
        for outcomes in before.values()
        for item in outcomes.rows
    ]
    assert bare == kept
    page = tmp_path / "one.html"
    assert main(["arena", "trajectories", "show", one.trajectory_id, "--html", str(page)]) == 0
    assert one.agent_id in page.read_text()
    assert main(["arena", "trajectories", "ls", "--window", one.window_id, "--json"]) == 0
    assert main(["arena", "trajectories", "show", "nobody"]) == 1


def test_the_example_environment_names_everything(project: Path) -> None:
    names = set(re.findall(r"^([A-Z_]+)=", (project / ".env.example").read_text(), re.M))
    wanted = {"PLAYPROOF_DB", "DATABASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "WANDB_API_KEY", "JUDGE_MODEL"}
    assert names == wanted | {"BASE_MODEL", "ART_BASE_URL"}
    assert not re.findall(r"^[A-Z_]+=.+$", (project / ".env.example").read_text(), re.M)


def test_the_bench_runs_small(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import trajectories as bench
    from benchmarks.report import BenchmarkReport

    some = BenchmarkReport("trajectories", ())
    monkeypatch.setattr(bench, "measure", lambda: some)
    assert BenchmarkReport.from_json(bench.run()) == some
    engine = connect(url=f"sqlite:///{Path(os.environ['PLAYPROOF_HOME']) / 'bench.db'}")
    upgrade(engine)
    ours, bare = bench._bulk(engine, 2, 10)
    assert len(ours) == len(bare) == 2
    bench._fill(engine, 300)
    assert 0 < bench._query(engine) < 10
    with engine.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(Trajectory)) == 50 + 300 + 100
    engine.dispose()
    assert len({draft.trajectory_id for draft in bench.drafts(5, random.Random(1))}) == 5
