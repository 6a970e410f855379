"""Bots: the state of each gate, limits used, what is open, the last decisions; take over, kill, reset."""

from __future__ import annotations

from collections.abc import Mapping

from playproof.dashboard.actions import once_field
from playproof.dashboard.context import DashboardContext
from playproof.dashboard.pages.models import bots_rows
from playproof.dashboard.pages.shown import moment, money, performing_games
from playproof.dashboard.shell import Block, FactList, Field, Form, Link, Page, Part
from playproof.operate.live_money import read_limits
from playproof.operate.state import BotState, read_bot, read_bots
from playproof.reports.page import PageTable, Toned


def _now_ms(context: DashboardContext) -> int:
    return int(context.clock().timestamp() * 1000)


def gate_state(bot: BotState) -> Toned:
    """Say how a gate stands."""
    if bot.kill_file:
        return Toned("killed", "bad")
    if bot.account.latched:
        return Toned("latched", "bad")
    return Toned(bot.account.state, "good" if bot.running else "dim")


def bots_page(context: DashboardContext, values: Mapping[str, str]) -> Page:  # noqa: ARG001
    """Show every account."""
    bots = read_bots(context.engine, context.root, _now_ms(context), read_limits(context.root))
    table = PageTable(
        head=("account", "gate", "why", "mode", "policy", "equity", "open", "session"),
        rows=[
            (
                Link(bot.account.account, f"/bots/{bot.account.account}"),
                gate_state(bot),
                bot.account.reason,
                bot.mode,
                bot.policy,
                money(bot.account.equity, signed=False),
                bot.account.open_positions,
                "running" if bot.running else bot.ended or "ended",
            )
            for bot in bots
        ],
        words=5,
    )
    starting = Form(
        action="/do/bots/start",
        submit="Play on paper",
        text="Nothing is sent: orders are settled by our own ledger. Practice and live need a terminal.",
        fields=[
            once_field(),
            Field(name="policy", label="model, run or baseline", required=True),
            Field(name="url", label="address of the table", value="http://127.0.0.1:8777", required=True),
            Field(name="account", label="account"),
            Field(name="rounds", label="end after rounds", kind="number"),
            Field(name="seconds", label="end after seconds", kind="number"),
        ],
    )
    return Page(
        title="Bots",
        blocks=[
            Block("bots", [table] if bots else ["No bot has played yet."]),
            Block("start", [starting] if performing_games() else [], "Start one on paper", folded=True),
        ],
        topics=("db", "bots"),
    )


def bot_page(context: DashboardContext, values: Mapping[str, str]) -> Page:
    """Show one account: the gate, limits, what is open, decisions."""
    name = values["account"]
    bot = read_bot(context.engine, context.root, name, _now_ms(context), read_limits(context.root))
    account = bot.account
    facts = [
        ("gate", gate_state(bot)),
        ("mode", bot.mode or None),
        ("policy", bot.policy or None),
        ("equity", money(account.equity, signed=False)),
        ("open positions", account.open_positions),
        ("at stake", money(account.open_cost, signed=False)),
        ("since (UTC)", moment(bot.started_at)),
        ("audit lines", f"{bot.audit_lines:,}"),
    ]
    limits = PageTable(head=("limit", "used", "of", "share"), rows=bots_rows(bot.limits))
    hidden = Field(name="account", label="", kind="hidden", value=name)
    doing: list[Part] = []
    if not bot.kill_file:
        doing.append(Form(action="/do/bots/kill", submit="Kill", fields=[hidden], inline=True, tone="danger"))
    if bot.running and not bot.taken_over:
        doing.append(
            Form(action="/do/bots/takeover", submit="Take over until the round ends", fields=[hidden], inline=True)
        )
    if bot.kill_file or account.latched:
        reset = [hidden, Field(name="why", label="why it may trade again", required=True)]
        doing.append(Form(action="/do/bots/reset", submit="Reset", fields=reset, role="admin", tone="danger"))
    decisions = PageTable(
        head=("what", "detail"),
        rows=[
            (str(line.get("kind") or line.get("what") or line.get("line") or ""), _text(line)) for line in bot.decisions
        ],
        words=2,
    )
    return Page(
        title=name,
        lead=account.reason,
        trail=[Link("Bots", "/bots")],
        blocks=[
            Block("facts", [FactList(pairs=facts)]),
            Block("doing", doing),
            Block("limits", [limits], "Limits used"),
            Block("decisions", [decisions] if bot.decisions else ["Nothing was decided yet."], "Last decisions"),
        ],
        topics=("db", f"bots/{name}", "jobs"),
    )


def _text(line: Mapping[str, object]) -> str:
    return ", ".join(f"{key}={value}" for key, value in line.items() if key not in ("kind", "what"))[:400]
