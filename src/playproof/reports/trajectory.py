"""One trajectory as a page: a conversation, step by step, with the agent's money beside it.

One HTML file that needs no network and runs no script; every word of it that somebody wrote is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from playproof.json_types import Json
from playproof.reports.page import Toned, render
from playproof.store.db.trajectories import StoredCall, StoredStep, StoredTrajectory

_MONEY = ("balance", "equity", "pnl")


def trajectory_page(trajectory: StoredTrajectory) -> str:
    """Give the page of a trajectory."""
    trades, cash = trajectory.trades_executed, trajectory.final_balance
    facts = [
        trajectory.archetype,
        trajectory.final_status,
        f"{len(trajectory.steps)} steps",
        f"{len(trajectory.calls)} model calls",
        None if trades is None else f"{trades} trades",
        None if cash is None else f"cash {_money(cash)}",
    ]
    pnl = trajectory.final_pnl
    before, steps = talk_of(trajectory)
    return render(
        "trajectory.html",
        title=f"{trajectory.agent_id} in {trajectory.window_id}",
        scripts=(),
        facts=" · ".join(item for item in facts if item),
        pnl=None if pnl is None else Toned(f"P&L {_money(pnl, signed=True)}", _sign(pnl)),
        trajectory_id=trajectory.trajectory_id,
        before=before,
        steps=steps,
    )


def talk_of(trajectory: StoredTrajectory) -> tuple[list[dict[str, str]], list[Json]]:
    """Give a trajectory as templates show it: what was said before the first step, and the steps."""
    before = [text for call in trajectory.calls if call.step is None for text in _call(call)]
    return before, [_step(trajectory, step) for step in trajectory.steps]


def _step(trajectory: StoredTrajectory, step: StoredStep) -> Json:
    """Give a step as its template shows it."""
    state = []
    for name, value in step.state.items():
        is_money = name in _MONEY and isinstance(value, int) and not isinstance(value, bool)
        shown = _money(value, signed=name == "pnl") if is_money else _json(value, 200)
        state.append((name, shown, _sign(value) if is_money and name == "pnl" else ""))
    saw = []
    for access in step.accesses:
        purpose = f" ({access['purpose']})" if access.get("purpose") else ""
        saw.append({"fold": f"looked at {access.get('provider')}{purpose}", "text": _json(access.get("data"))})
    action: Iterable[tuple[str, object]] = (
        ("why", step.action_reasoning),
        ("with", step.action_parameters),
        ("result", step.action_result),
        ("refused", step.action_error),
        ("reported reward", step.reported_reward),
    )
    return {
        "number": step.number,
        "time": f"{step.time:%Y-%m-%d %H:%M:%S}Z",
        "state": state,
        "texts": [*saw, *(text for call in trajectory.calls_of(step.number) for text in _call(call))],
        "action": step.action_type,
        "refused": step.action_success is False,
        "details": [
            (name, item if isinstance(item, str) else _json(item)) for name, item in action if item is not None
        ],
    }


def _call(call: StoredCall) -> list[dict[str, str]]:
    """Give the texts of a model call: what it was told, thought and answered; folded ones have a summary."""
    texts = []
    for message in call.prompt:
        role, content = str(message.get("role", "?")), message.get("content")
        text = content if isinstance(content, str) else _json(content)
        if role == "system":
            texts.append({"fold": "system prompt", "text": text})
        else:
            texts.append({"kind": "assistant" if role == "assistant" else "user", "who": role, "text": text})
    tokens = "" if not call.trainable else f", {len(call.token_ids or ())} tokens with log-probabilities"
    latency = "" if call.latency_ms is None else f", {call.latency_ms:.0f} ms"
    who = f"{call.model} ({call.purpose}{latency}{tokens})"
    if call.reasoning:
        texts.append({"fold": "thought", "text": call.reasoning})
    if call.response is not None:
        texts.append({"kind": "assistant", "who": who, "text": call.response})
    if call.error is not None:
        texts.append({"kind": "assistant", "who": f"{who}: error", "text": call.error})
    return texts


def _money(units: int, *, signed: bool = False) -> str:
    return f"{units / 1e9:{'+' if signed else ''},.2f}"


def _sign(units: int) -> str:
    return "up" if units > 0 else "down" if units < 0 else ""


def _json(value: object, most: int = 20_000) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=None if most < 1000 else 1)
    return text if len(text) <= most else text[: most - 1] + "…"
