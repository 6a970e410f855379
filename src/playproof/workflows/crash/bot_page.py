"""The report of a bot's session as a page and as JSON: money, differences by cause, the head of the audit log."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

import orjson

from playproof.home import write_durably
from playproof.money import UNIT, show
from playproof.reports.chart import Chart, ChartAxis, Series
from playproof.reports.page import PageSection, PageTable, render
from playproof.workflows.crash.bot_report import SessionComparison

MOST_ROWS = 500
HASH = 64
"""Characters of a sha256."""
MEANINGS = {
    "decision": "the policy chose otherwise than in the environment: a defect",
    "gate": "the gate refused an order",
    "venue": "the venue refused an order",
    "unknown": "the venue did not answer in time",
    "price": "filled at another price than the tick's",
    "tick": "answered after a newer tick",
    "late": "too late to send",
    "person": "a person played",
    "policy": "the policy failed",
    "money": "the money is not the ledger's",
    "recording": "the round is not whole, so it cannot be played again",
}


def write_report(comparison: SessionComparison, folder: Path) -> None:
    """Write report.html and report.json."""
    folder.mkdir(parents=True, exist_ok=True)
    write_durably(folder / "report.json", orjson.dumps(comparison.to_dict(), option=orjson.OPT_INDENT_2))
    write_durably(folder / "report.html", bot_page(comparison).encode())


def bot_page(comparison: SessionComparison) -> str:
    """Write the page."""
    summary, causes = comparison.summary, comparison.causes
    count = sum(causes.values())
    lead = (
        f"{summary['policy']} played {summary['rounds']} rounds on {summary['mode']} and earned {summary['pnl']}"
        " coins. " + ("Nothing differs from the environment." if not count else f"{count} things were not as on paper.")
    )
    rows = [(cause, MEANINGS[cause], number) for cause, number in causes.items()]
    return render(
        "report.html",
        title=f"Bot session {summary['session']}",
        lead=lead,
        charts=[money_figure(comparison)],
        sections=[
            PageSection("Why live differs from paper", [
                PageTable(head=("cause", "meaning", "times"), rows=rows or [("none", "", 0)], words=2),
                PageTable(
                    head=("cause", "what", "tick", "round"),
                    rows=[(item.cause, item.detail, item.tick, item.window)
                          for item in comparison.differences[:MOST_ROWS]],
                    words=2,
                    hide=3,
                ),
            ]),
            PageSection("Rounds", [
                PageTable(
                    head=("round", "decisions", "live", "environment", "as decided"),
                    rows=[
                        (item.window, item.decisions, show(item.live), _money(item.environment), _money(item.paper))
                        for item in comparison.rounds[:MOST_ROWS]
                    ],
                    hide=1,
                )
            ]),
            PageSection("Session", [
                PageTable(head=("", ""), rows=[(name, _text(value)) for name, value in summary.items()], words=2)
            ]),
        ],
        footer=f"Audit log: {summary['audit_lines']} lines, head {summary['audit_head']}.",
    )  # fmt: skip


def _text(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{text[:16]}..." if len(text) == HASH else text or "none"


def _money(units: int | None) -> str:
    return "unknown" if units is None else show(units)


def money_figure(comparison: SessionComparison) -> Chart:
    """Draw profit over the rounds: live, in the environment with the same orders, and as decided."""
    rounds = comparison.rounds

    def line(name: str, label: str) -> Series:
        values = accumulate(getattr(item, name) or 0 for item in rounds)
        return Series(name=label, x=list(range(1, len(rounds) + 1)), y=[value / UNIT for value in values])

    names = {"live": "live", "environment": "environment, same orders", "paper": "environment, as decided"}
    return Chart(
        title="Profit over the rounds",
        x=ChartAxis(title="round"),
        y=ChartAxis(title="coins", zero=True),
        series=[line(name, label) for name, label in names.items()],
    )
