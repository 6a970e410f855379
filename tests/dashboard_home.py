"""A small home for tests of the dashboard: a recording, a data set, runs, a report, trajectories with odd texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, insert

from playproof.store.db import AgentRow, Judgement, LlmCall, MarketOutcome, StepRow, Trajectory, TrialRow, writing

NOW = datetime(2026, 1, 2, 3, 0, tzinfo=UTC)
HOSTILE: tuple[str, ...] = (
    "<script>window.hit=1</script>",
    "</script><script>window.hit=1</script>",
    '"><img src=x onerror="window.hit=1">',
    "<svg onload=window.hit=1>",
    "<iframe srcdoc='<script>parent.hit=1</script>'>",
    "javascript:window.hit=1",
    "' onmouseover='window.hit=1",
    '" autofocus onfocus="window.hit=1',
    "</textarea><script>window.hit=1</script>",
    "</title><script>window.hit=1</script>",
    "</style><script>window.hit=1</script>",
    "<!--<script>window.hit=1</script>",
    "]]><script>window.hit=1</script>",
    "{{ 7 * 7 }}",
    "{% raw %}{{ config }}{% endraw %}",
    "${7*7}",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=window.hit=1>",
    "<a href='javascript:window.hit=1'>x</a>",
    "<base href='https://evil.invalid/'>",
    "<meta http-equiv=refresh content='0;url=https://evil.invalid'>",
    "<link rel=stylesheet href='https://evil.invalid/x.css'>",
    "<object data='data:text/html,<script>parent.hit=1</script>'>",
    "<form action='https://evil.invalid'><input name=csrf>",
    "&lt;script&gt;window.hit=1&lt;/script&gt;",
    "\u202egnp.exe\u2066",
    "\x1b[31mred\x1b[0m",
    '=HYPERLINK("https://evil.invalid")',
    "a\u2028b\u2029c",
    "Z̸̢a̶l̵g̴o̷",
    "'; DROP TABLE trajectory; --",
)


def fill_tables(engine: Engine, texts: Sequence[str] = HOSTILE, count: int = 30) -> list[str]:
    """Write trajectories whose agents, windows, texts and judges' reasons are such texts; give their ids."""
    identities = []
    with writing(engine) as connection:
        for number in range(count):
            text = texts[number % len(texts)]
            agent, window = f"agent {number} {text}", f"2026-01-02T0{number % 3}:00Z"
            identity = f"{number:032x}"
            identities.append(identity)
            connection.execute(insert(AgentRow).values(agent_id=agent, kind="llm", archetype=text, created_at=NOW))
            connection.execute(insert(Trajectory).values(**trajectory(identity, agent, window, number)))
            connection.execute(
                insert(StepRow).values(
                    trajectory_id=identity, number=0, time=NOW, state={"balance": 10**12, text: text}, accesses=[],
                    completed_at=NOW, action_type=text, action_parameters={"text": text}, action_success=False,
                    action_result=None, action_error=text, action_reasoning=text, reported_reward=0.5, done=True,
                )
            )  # fmt: skip
            connection.execute(
                insert(LlmCall).values(
                    call_id=f"c{identity}", trajectory_id=identity, step=0, position=0, time=NOW, model=text,
                    purpose="action", system_prompt=text, user_prompt=text, response=text, reasoning=text,
                )
            )  # fmt: skip
            connection.execute(
                insert(Judgement).values(
                    judgement_id=f"j{identity}", trajectory_id=identity, judge_model=text, prompt_hash="h", score=0.5,
                    rank=1, reasoning=text, created_at=NOW,
                )
            )  # fmt: skip
        for hour in range(2):
            connection.execute(
                insert(MarketOutcome).values(
                    window_id=f"2026-01-02T0{hour}:00Z", kind="asset", subject="BTC", market="", start_price=1,
                    end_price=2, change=0.01, created_at=NOW,
                )
            )  # fmt: skip
        connection.execute(
            insert(TrialRow).values(
                trial_id="t1", family=texts[0], policy_hash="p" * 40, data_hash="d" * 40, split="test", kind="test",
                created_at=NOW, windows=["w"], pnl=[1], stake=10, metric=0.1, origin=texts[-1],
            )
        )  # fmt: skip
    return identities


def trajectory(identity: str, agent: str, window: str, number: int) -> dict[str, Any]:
    """Give the columns of a trajectory."""
    return {
        "trajectory_id": identity, "agent_id": agent, "window_id": window, "window_hours": 1, "scenario_id": window,
        "start_time": NOW + timedelta(minutes=number), "end_time": NOW + timedelta(minutes=number + 1),
        "episode_length": 1, "final_status": "completed", "final_balance": 10**12, "final_pnl": (number - 5) * 10**9,
        "trades_executed": number, "is_training_data": True, "is_evaluation": False, "used_in_training": False,
        "created_at": NOW,
    }  # fmt: skip


def make_run(root: Path, name: str, points: int = 40, seed: int = 1, **config: Any) -> Path:
    """Write a run's folder as a training does."""
    path = root / "runs" / name
    path.mkdir(parents=True)
    payload = {"method": "ppo", "config": {"world": "drift", "seed": seed, **config}, "commit": "c" * 40}
    (path / "config.json").write_text(json.dumps(payload))
    with (path / "log.jsonl").open("w") as file:
        for index in range(points):
            file.write(note_line(index, seed))
    return path


def note_line(index: int, seed: int = 1) -> str:
    """Give a line of a run's log: an evaluation in money."""
    pnl = int(1e6 * (index * seed % 17))
    note = {"kind": "evaluation", "step": index * 100, "pnl": pnl, "pnl_se": 1e5, "reward": 0.1 * index,
            "mix": {"WAIT": 0.5, "BUY": 0.5}, "components": {"money": 0.1}}  # fmt: skip
    return json.dumps(note) + "\n"


def make_report(root: Path, name: str = "validate-aa-bb", text: str = "hold") -> Path:
    """Write a verdict as validate does."""
    path = root / "reports" / name
    path.mkdir(parents=True)
    metric = {"roi": 0.01, "interval": [-0.1, 0.1], "e_value": 1.2}
    payload = {
        "verdict": "NO EDGE SHOWN", "sentence": text, "policy": {"name": text, "hash": "h", "family": text, "stake": 1},
        "data": {"name": text, "hash": "d", "split": "test", "windows": 200}, "seed": 1, "roi": 0.01,
        "interval": [-0.1, 0.1], "e_value": 1.2,
        "gates": [{"gate": "M1", "status": "failed", "found": text, "rule": text}], "metrics": {text: metric},
    }  # fmt: skip
    (path / "report.json").write_text(json.dumps(payload))
    (path / "report.html").write_text("<!doctype html><title>report</title><script>window.hit=1</script>")
    return path
