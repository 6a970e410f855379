"""Agents in games and markets: windows, ranked agents, trajectories as conversations, search, the review queue."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from sqlalchemy import case, func, select

from playproof.dashboard.context import DashboardContext
from playproof.dashboard.marks import next_unmarked, read_mark
from playproof.dashboard.pages.shown import moment, money, state
from playproof.dashboard.shell import Block, FactList, Field, Form, Link, Page, Part, Talk
from playproof.dashboard.tables import Row, TableQuery, TableSource, select_page, view
from playproof.errors import InputError
from playproof.reports.page import PageTable, Toned
from playproof.reports.trajectory import talk_of
from playproof.stats.ranking import interval
from playproof.store.db import Judgement, LlmCall, MarketOutcome, ReviewMark, Trajectory
from playproof.store.db.trajectories import read_trajectory

SHOWN = 50
RANKED = 20_000
"""Latest trajectories that are ranked."""
MIN_WINDOWS = 2
SEARCHED = 20_000
"""Latest model calls that a search reads."""
SNIPPET = 120


def _read(context: DashboardContext, query: TableQuery) -> Sequence[Row]:
    columns = (
        Trajectory.trajectory_id,
        Trajectory.agent_id,
        Trajectory.window_id,
        Trajectory.market,
        Trajectory.start_time,
        Trajectory.final_status,
        Trajectory.trades_executed,
        Trajectory.final_pnl,
        Trajectory.judge_reward,
        ReviewMark.verdict,
    )
    wanted = select(*columns).outerjoin(ReviewMark, ReviewMark.trajectory_id == Trajectory.trajectory_id)
    exact = {
        "agent": Trajectory.agent_id,
        "window": Trajectory.window_id,
        "market": Trajectory.market,
        "status": Trajectory.final_status,
        "verdict": ReviewMark.verdict,
    }
    for name, filtered in exact.items():
        if query.filters.get(name):
            wanted = wanted.where(filtered == query.filters[name])
    by_money = query.sort == "final_pnl"
    if by_money and not any(query.filters.get(name) for name in ("agent", "window")):
        raise InputError("expected a window or an agent to sort by money in; filter by one of them first")
    column: Any = Trajectory.final_pnl if by_money else Trajectory.start_time
    with context.engine.connect() as connection:
        rows = select_page(
            connection,
            wanted,
            column.expression,
            Trajectory.trajectory_id.expression,
            query,
            int if by_money else datetime,
            nullable=by_money,
        )
    return [{**row._asdict(), "key": (getattr(row, query.sort), row.trajectory_id)} for row in rows]


TRAJECTORIES = TableSource(
    name="trajectories",
    columns=(
        ("trajectory_id", "trajectory", True),
        ("agent_id", "agent", True),
        ("window_id", "window", True),
        ("start_time", "began (UTC)", True),
        ("final_status", "status", True),
        ("trades_executed", "trades", False),
        ("final_pnl", "P&L", False),
        ("judge_reward", "judge", False),
        ("verdict", "mark", True),
    ),
    read=_read,
    sort="start_time",
    sortable=frozenset({"start_time", "final_pnl"}),
    filters=("agent", "window", "market", "status", "verdict"),
    empty="No agent was recorded yet.",
    show=lambda row: {
        **row,
        "trajectory_id": Link(row["trajectory_id"][:12], f"/agents/trajectories/{row['trajectory_id']}"),
        "start_time": moment(row["start_time"]),
        "final_status": state(row["final_status"]),
        "final_pnl": money(row["final_pnl"], digits=2),
        "judge_reward": None if row["judge_reward"] is None else f"{row['judge_reward']:.3f}",
        "verdict": state(row["verdict"]),
    },
)


def agents_page(context: DashboardContext, values: Mapping[str, str]) -> Page:  # noqa: ARG001
    """Show windows with their readiness, agents ranked by money with intervals, and where to go on."""
    with context.engine.connect() as connection:
        windows = connection.execute(
            select(
                Trajectory.market,
                Trajectory.window_id,
                func.count(),
                func.count(Trajectory.agent_id.distinct()),
                func.sum(case((Trajectory.final_status == "completed", 1), else_=0)),
                func.sum(Trajectory.final_pnl),
            )
            .where(Trajectory.trajectory_id.in_(_latest()))
            .group_by(Trajectory.market, Trajectory.window_id)
            .order_by(Trajectory.window_id.desc())
            .limit(SHOWN)
        ).all()
        known = {
            (row[0], row[1]): (row[2], row[3])
            for row in connection.execute(
                select(MarketOutcome.market, MarketOutcome.window_id, func.count(), func.avg(MarketOutcome.change))
                .where(MarketOutcome.window_id.in_([row[1] for row in windows]))
                .group_by(MarketOutcome.market, MarketOutcome.window_id)
            )
        }
        played = connection.execute(
            select(Trajectory.agent_id, Trajectory.window_id, Trajectory.final_pnl, Trajectory.judge_reward).where(
                Trajectory.trajectory_id.in_(_latest()),
                Trajectory.final_status == "completed",
                Trajectory.final_pnl.is_not(None),
            )
        ).all()
    table = PageTable(
        head=("window", "market", "ready", "agents", "trajectories", "outcomes", "change", "P&L of all"),
        rows=[
            (
                Link(row[1], f"/agents/trajectories?window={row[1]}"),
                row[0] or "–",
                _ready(row, known),
                row[3],
                row[2],
                known.get((row[0], row[1]), (0, None))[0],
                _share(known.get((row[0], row[1]), (0, None))[1]),
                money(None if row[5] is None else int(row[5]), digits=2),
            )
            for row in windows
        ],
        words=3,
    )
    links: list[Part] = [
        Link("All trajectories", "/agents/trajectories"),
        Link("Review queue", "/agents/review"),
        _search_form(""),
    ]
    return Page(
        title="Agents and markets",
        blocks=[
            Block("go", links),
            Block("agents", [_ranking(played)] if played else ["No agent has ended a window yet."], "Agents"),
            Block("windows", [table] if windows else ["No window was played yet."], "Windows"),
        ],
        topics=("db",),
    )


def _latest() -> Any:
    return (
        select(Trajectory.trajectory_id)
        .order_by(Trajectory.start_time.desc(), Trajectory.trajectory_id.desc())
        .limit(RANKED)
    )


def _ready(row: Any, known: Mapping[tuple[str, str], object]) -> Toned:
    if (row[0], row[1]) not in known:
        return Toned("no outcomes", "warn")
    return Toned("ready", "good") if row[4] and row[3] >= 2 else Toned("few agents", "warn")


def _share(value: float | None) -> str | None:
    return None if value is None else f"{value:+.2%}"


def _ranking(played: Sequence[Any]) -> PageTable:
    """Rank agents by their mean profit a window, with a bootstrap interval over windows."""
    sums: dict[str, dict[str, list[int]]] = {}
    scores: dict[str, list[float]] = {}
    for agent, window, pnl, score in played:
        sums.setdefault(agent, {}).setdefault(window, []).append(pnl)
        if score is not None:
            scores.setdefault(agent, []).append(score)
    rows = []
    for agent, windows in sums.items():
        means = np.array([sum(values) / len(values) for values in windows.values()], np.float64)
        low, high = interval(means, 1) if len(means) >= MIN_WINDOWS else (float("nan"), float("nan"))
        rows.append((float(means.mean()), agent, len(means), low, high))
    rows.sort(reverse=True)
    return PageTable(
        head=("agent", "windows", "P&L a window", "95 % interval", "judge"),
        rows=[
            (
                Link(agent, f"/agents/trajectories?agent={agent}"),
                count,
                money(round(mean), digits=2),
                "too few windows" if low != low else f"{low / 1e9:+,.2f} to {high / 1e9:+,.2f}",  # noqa: PLR0124
                f"{np.mean(scores[agent]):.3f}" if agent in scores else None,
            )
            for mean, agent, count, low, high in rows[:SHOWN]
        ],
    )


def trajectories_page(context: DashboardContext, values: Mapping[str, str]) -> Page:
    """Show trajectories, the latest first."""
    fields = [
        Field(name="agent", label="agent"),
        Field(name="window", label="window"),
        Field(name="market", label="market"),
        Field(name="status", label="status", kind="select", options=("", "running", "completed", "failed", "cut")),
        Field(name="verdict", label="mark", kind="select", options=("", "accepted", "rejected")),
    ]
    return Page(
        title="Trajectories",
        trail=[Link("Agents", "/agents")],
        blocks=[Block("trajectories", [view(TRAJECTORIES, context, values, "/agents/trajectories", fields)])],
        topics=("db",),
    )


def trajectory_page(context: DashboardContext, values: Mapping[str, str]) -> Page:
    """Show one trajectory: what was said, the money beside it, judges, the mark."""
    return _conversation(context, values["trajectory"], "page")


def _conversation(context: DashboardContext, identity: str, kind: str) -> Page:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", identity):
        raise InputError(f"expected an id of a trajectory, found {identity[:80]!r}")
    stored = read_trajectory(context.engine, identity)
    mark = read_mark(context.engine, identity)
    with context.engine.connect() as connection:
        judged = connection.execute(
            select(Judgement.judge_model, Judgement.score, Judgement.rank, Judgement.reasoning)
            .where(Judgement.trajectory_id == identity)
            .order_by(Judgement.created_at.desc())
            .limit(20)
        ).all()
    before, steps = talk_of(stored)
    facts = [
        ("agent", Link(stored.agent_id, f"/agents/trajectories?agent={stored.agent_id}")),
        ("window", Link(stored.window_id, f"/agents/trajectories?window={stored.window_id}")),
        ("status", state(stored.final_status)),
        ("P&L", money(stored.final_pnl, digits=2)),
        ("cash", money(stored.final_balance, signed=False, digits=2)),
        ("steps", len(stored.steps)),
        ("mark", state(mark.verdict)),
    ]
    scores = PageTable(
        head=("judge", "score", "rank", "why"),
        rows=[(row[0], f"{row[1]:.3f}", row[2], row[3] or "") for row in judged],
        words=1,
    )
    hidden = [
        Field(name="trajectory", label="", kind="hidden", value=identity),
        Field(name="next", label="", kind="hidden", value=kind),
    ]
    marking: list[Part] = [
        Form(
            action="/do/mark",
            submit=label,
            inline=True,
            key=label[-2],
            tone="plain" if verdict == "clear" else "",
            fields=[*hidden, Field(name="verdict", label="", kind="hidden", value=verdict)],
        )
        for label, verdict in (("Accept (a)", "accepted"), ("Reject (r)", "rejected"), ("Take back (c)", "clear"))
    ]
    marking.append(
        Form(
            action="/do/mark",
            submit="Keep tags and note",
            fields=[
                *hidden,
                Field(name="tags", label="tags (t)", value=" ".join(mark.tags)),
                Field(name="note", label="note (n)", kind="textarea", value=mark.note),
            ],
        )
    )
    if kind == "queue":
        marking.append(Link("Next (j)", f"/agents/review?after={identity}", key="j"))
    return Page(
        title=f"{stored.agent_id} in {stored.window_id}",
        trail=[
            Link("Agents", "/agents"),
            Link("Review", "/agents/review") if kind == "queue" else Link("Trajectories", "/agents/trajectories"),
        ],
        blocks=[
            Block("facts", [FactList(pairs=facts)]),
            Block("mark", marking, "Mark"),
            Block("judges", [scores] if judged else ["No judge has scored it."], "Judges"),
            Block("talk", [Talk(before=before, steps=steps)], "What was said"),
        ],
        topics=("db",) if kind != "queue" else (),
    )


def review_page(context: DashboardContext, values: Mapping[str, str]) -> Page:
    """Show the next trajectory that nobody has marked."""
    identity = next_unmarked(context.engine, values.get("after", ""))
    if identity is None:
        parts: list[Part] = ["No ended trajectory waits for a mark.", Link("Begin at the latest", "/agents/review")]
        return Page(title="Review queue", trail=[Link("Agents", "/agents")], blocks=[Block("empty", parts)])
    return _conversation(context, identity, "queue")


def _search_form(text: str) -> Form:
    return Form(
        action="/agents/search",
        method="get",
        submit="Search",
        inline=True,
        role="viewer",
        fields=[
            Field(name="q", label=f"text in the latest {SEARCHED:,} answers and prompts", kind="search", value=text)
        ],
    )


def search_page(context: DashboardContext, values: Mapping[str, str]) -> Page:
    """Search the texts of agents: the latest model calls, so that a search stays fast however much is stored."""
    text = values.get("q", "").strip()[:200]
    rows: list[tuple[object, ...]] = []
    if text:
        pattern = "%" + re.sub(r"([\\%_])", r"\\\1", text) + "%"
        latest = (
            select(
                LlmCall.trajectory_id,
                LlmCall.step,
                LlmCall.time,
                LlmCall.response,
                LlmCall.user_prompt,
                LlmCall.reasoning,
            )
            .order_by(LlmCall.time.desc())
            .limit(SEARCHED)
            .subquery()
        )
        columns = (latest.c.response, latest.c.reasoning, latest.c.user_prompt)
        hit = (
            columns[0].ilike(pattern, escape="\\")
            | columns[1].ilike(pattern, escape="\\")
            | columns[2].ilike(pattern, escape="\\")
        )
        with context.engine.connect() as connection:
            result = connection.execute(select(latest).where(hit).limit(SHOWN)).all()
        for row in result:
            source = next(
                value
                for value in (row.response, row.reasoning, row.user_prompt)
                if value and text.lower() in value.lower()
            )
            rows.append(
                (
                    Link(row.trajectory_id[:12], f"/agents/trajectories/{row.trajectory_id}"),
                    row.step,
                    moment(row.time),
                    _around(source, text),
                )
            )
    shown: list[Part] = [_search_form(text)]
    if text:
        shown.append(
            PageTable(head=("trajectory", "step", "when (UTC)", "text"), rows=rows, words=4)
            if rows
            else "Nothing was said that holds this text."
        )
    return Page(title="Search", trail=[Link("Agents", "/agents")], blocks=[Block("search", shown)])


def _around(source: str, text: str) -> str:
    at = source.lower().find(text.lower())
    start = max(0, at - SNIPPET)
    return ("…" if start else "") + source[start : at + len(text) + SNIPPET]
