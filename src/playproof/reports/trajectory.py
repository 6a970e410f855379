"""One trajectory as a page: a conversation, step by step, with the agent's money beside it.

One HTML file that needs no network and runs no script; every word of it that somebody wrote is escaped.
Leaves out: outcomes, so that the page shows what the agent could know.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from typing import Any

from playproof.store.db.trajectories import StoredCall, StoredStep, StoredTrajectory

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --line: #d9dee6; --back: #f6f7f9; --card: #fff;
  --agent: #e3f0ff; --told: #eef0f3; --up: #0a7d4f; --down: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ebf0; --soft: #9aa5b5; --line: #333b47; --back: #12161c;
  --card: #1a2029; --agent: #173555; --told: #242b35; --up: #4cc38a; --down: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 24px 16px 64px; }
h1 { font-size: 22px; margin: 0 0 4px; overflow-wrap: anywhere; }
.facts { color: var(--soft); margin: 0 0 20px; overflow-wrap: anywhere; }
.step { display: grid; grid-template-columns: 190px 1fr; gap: 20px; border-top: 1px solid var(--line);
  padding: 18px 0; }
.side { font-size: 13px; color: var(--soft); }
.side b { display: block; color: var(--ink); font-size: 14px; }
dl { margin: 8px 0 0; display: grid; grid-template-columns: auto 1fr; gap: 2px 10px; }
dd { margin: 0; text-align: right; color: var(--ink); font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.up { color: var(--up); } .down { color: var(--down); }
.said { border-radius: 12px; padding: 10px 14px; margin: 0 0 10px; background: var(--told); max-width: 92%;
  white-space: pre-wrap; overflow-wrap: anywhere; }
.said.assistant { background: var(--agent); margin-left: auto; }
.who { display: block; font-size: 12px; color: var(--soft); margin-bottom: 2px; white-space: normal; }
.did { border: 1px solid var(--line); background: var(--card); border-radius: 12px; padding: 10px 14px;
  overflow-wrap: anywhere; }
.did.refused { border-color: var(--down); }
details { margin: 0 0 10px; } summary { cursor: pointer; color: var(--soft); font-size: 13px; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font: 12.5px/1.45 ui-monospace, monospace; margin: 6px 0 0; }
@media (max-width: 700px) { .step { grid-template-columns: 1fr; gap: 10px; } .said { max-width: 100%; }
  .side dl { grid-template-columns: repeat(2, auto 1fr); } }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_MONEY = ("balance", "equity", "pnl")


def trajectory_page(trajectory: StoredTrajectory) -> str:
    """Give the page of a trajectory."""
    title = f"{trajectory.agent_id} in {trajectory.window_id}"
    steps = "".join(_step(trajectory, step) for step in trajectory.steps)
    before = "".join(_call(call) for call in trajectory.calls if call.step is None)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width, initial-scale=1"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main><h1>{escape(title)}</h1>"
        f'<p class="facts">{_facts(trajectory)}</p>{before}{steps}</main></body></html>\n'
    )


def _facts(trajectory: StoredTrajectory) -> str:
    lines = [
        trajectory.archetype,
        trajectory.final_status,
        f"{len(trajectory.steps)} steps",
        f"{len(trajectory.calls)} model calls",
        None if trajectory.trades_executed is None else f"{trajectory.trades_executed} trades",
        None if trajectory.final_balance is None else f"cash {_money(trajectory.final_balance)}",
    ]
    words = " · ".join(escape(item) for item in lines if item)
    if trajectory.final_pnl is not None:
        words += (
            f' · <span class="{_sign(trajectory.final_pnl)}">P&amp;L {_money(trajectory.final_pnl, signed=True)}</span>'
        )
    return f"{words}<br>{escape(trajectory.trajectory_id)}"


def _step(trajectory: StoredTrajectory, step: StoredStep) -> str:
    saw = "".join(_access(access) for access in step.accesses)
    said = "".join(_call(call) for call in trajectory.calls_of(step.number))
    return (
        f'<section class="step"><div class="side"><b>Step {step.number}</b>{step.time:%Y-%m-%d %H:%M:%S}Z'
        f"{_state(step.state)}</div><div>{saw}{said}{_action(step)}</div></section>"
    )


def _state(state: dict[str, Any]) -> str:
    rows = []
    for name, value in state.items():
        shown = _money(value, signed=name == "pnl") if name in _MONEY and _is_whole(value) else _json(value, 200)
        sign = f' class="{_sign(value)}"' if name == "pnl" and _is_whole(value) else ""
        rows.append(f"<dt>{escape(name)}</dt><dd{sign}>{escape(shown)}</dd>")
    return f"<dl>{''.join(rows)}</dl>" if rows else ""


def _access(access: dict[str, Any]) -> str:
    purpose = f" ({access['purpose']})" if access.get("purpose") else ""
    summary = escape(f"looked at {access.get('provider')}{purpose}")
    return f"<details><summary>{summary}</summary><pre>{escape(_json(access.get('data')))}</pre></details>"


def _call(call: StoredCall) -> str:
    payload = "".join(_message(str(item.get("role", "?")), item.get("content")) for item in call.prompt)
    tokens = "" if not call.trainable else f", {len(call.token_ids or ())} tokens with log-probabilities"
    latency = "" if call.latency_ms is None else f", {call.latency_ms:.0f} ms"
    who = f"{call.model} ({call.purpose}{latency}{tokens})"
    thought = _fold("thought", call.reasoning) if call.reasoning else ""
    answer = "" if call.response is None else _bubble("assistant", who, call.response)
    failed = "" if call.error is None else _bubble("assistant", f"{who}: error", call.error)
    return payload + thought + answer + failed


def _message(role: str, content: object) -> str:
    text = content if isinstance(content, str) else _json(content)
    if role == "system":
        return _fold("system prompt", text)
    return _bubble("assistant" if role == "assistant" else "user", role, text)


def _fold(summary: str, text: str) -> str:
    return f"<details><summary>{escape(summary)}</summary><pre>{escape(text)}</pre></details>"


def _bubble(kind: str, who: str, text: str) -> str:
    return f'<div class="said {kind}"><span class="who">{escape(who)}</span>{escape(text)}</div>'


def _action(step: StoredStep) -> str:
    if step.action_type is None:
        return '<div class="did">No action was recorded: the step is open.</div>'
    refused = step.action_success is False
    payload: Iterable[tuple[str, object]] = (
        ("why", step.action_reasoning),
        ("with", step.action_parameters),
        ("result", step.action_result),
        ("refused", step.action_error),
        ("reported reward", step.reported_reward),
    )
    rows = "".join(
        f'<br><span class="who">{name}</span>{escape(item if isinstance(item, str) else _json(item))}'
        for name, item in payload
        if item is not None
    )
    return f'<div class="did{" refused" if refused else ""}"><b>{escape(step.action_type)}</b>{rows}</div>'


def _money(units: int, *, signed: bool = False) -> str:
    return f"{units / 1e9:{'+' if signed else ''},.2f}"


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _sign(units: int) -> str:
    return "up" if units > 0 else "down" if units < 0 else ""


def _json(value: object, most: int = 20_000) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=None if most < 1000 else 1)
    return text if len(text) <= most else text[: most - 1] + "…"
