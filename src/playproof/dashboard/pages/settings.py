"""Settings: where things are kept, who may come in, what was spent on judges."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from sqlalchemy import func, select

from playproof import __version__
from playproof.dashboard.access import ROLES
from playproof.dashboard.context import DashboardContext
from playproof.dashboard.pages.shown import size
from playproof.dashboard.shell import Block, Field, Form, Page
from playproof.home import FOLDERS
from playproof.operate.jobs.queue import home_id
from playproof.reports.page import PageTable
from playproof.store.db import JudgeCall, check, shown_url

KEYS = ("OPENAI_API_KEY", "JUDGE_API_KEY", "PLAYPROOF_SERVE_KEY", "PLAYPROOF_NOTIFY_URL")
"""Names only: whether they are set is shown, what they hold never."""


def settings_page(context: DashboardContext, values: Mapping[str, str]) -> Page:  # noqa: ARG001
    """Show databases, homes, tokens and budgets."""
    schema = check(context.engine)
    disk = shutil.disk_usage(context.root if context.root.exists() else context.root.parent)
    locations = [
        ("home", str(context.root)),
        ("id of the home", home_id(context.root)[:12]),
        ("database", shown_url(context.engine)),
        (
            "tables",
            "as this version expects"
            if schema.sound
            else f"missing: {', '.join(schema.missing) or schema.differences}",
        ),
        ("disk free", f"{size(disk.free)} of {size(disk.total)}"),
        ("version", __version__),
        *((f"{name}/", _count(context, name)) for name in FOLDERS),
    ]
    with context.engine.connect() as connection:
        spent = connection.execute(
            select(
                JudgeCall.judge_model,
                func.count(),
                func.sum(JudgeCall.prompt_tokens),
                func.sum(JudgeCall.completion_tokens),
                func.sum(JudgeCall.cost),
            ).group_by(JudgeCall.judge_model)
        ).all()
    judges = PageTable(
        head=("judge", "questions", "tokens in", "tokens out", "USD"),
        rows=[(row[0], row[1], row[2], row[3], None if row[4] is None else f"{row[4]:.4f}") for row in spent],
    )
    keys = PageTable(
        head=("variable", "is set"), rows=[(name, "yes" if os.environ.get(name) else "no") for name in KEYS], words=2
    )
    link = Form(
        action="/do/link",
        title="A link for somebody else",
        submit="Make a link",
        text="Good once, for ten minutes. A viewer reads, an operator starts jobs and marks, an admin does everything.",
        fields=[Field(name="role", label="role", kind="select", options=ROLES, value="viewer")],
        role="admin",
    )
    leave = Form(action="/leave", submit="Leave", inline=True, role="viewer", tone="plain")
    return Page(
        title="Settings",
        blocks=[
            Block("places", [PageTable(head=("what", "where"), rows=locations, words=2)], "Where things are"),
            Block("judges", [judges] if spent else ["No judge was asked."], "Judge budget spent"),
            Block("variables", [keys], "Tokens and notifications"),
            Block("people", [link, leave], "Who may come in"),
        ],
    )


def _count(context: DashboardContext, name: str) -> str:
    path = context.root / name
    return f"{sum(1 for _ in path.iterdir())} entries" if path.is_dir() else "not there yet"
