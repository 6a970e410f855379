"""Show a study: one Markdown page with its figures, and two small pictures.

Leaves out: the runs (study).
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from playproof.stats.evidence import REJECT
from studies.validator.study import (
    FIRST_LOOK,
    LEAKS,
    PLAYERS,
    WINDOWS_OF_SIZES,
    Share,
    StudyConfig,
    commits,
    costs,
    summarise,
    units,
)

TITLES = {
    "null": "Worlds without an edge: EDGE SHOWN, which would be false",
    "edge": "Planted edges: EDGE SHOWN on as many windows as the report asked for",
    "ppo": "Players trained by PPO: EDGE SHOWN",
    "leak": "Planted leaks: caught by D1 or D2",
    "mutant": "Rewards wrong on purpose: refused",
    "honest": "Right rewards: refused, which would be false",
    "size": "Tests on fair games: rejected, which would be false",
}
GOOD, BAD, INK, LINE = "#2f9e6b", "#d1383d", "#334155", "#cbd5e1"


def write_page(
    page: Path, config: StudyConfig, done: Mapping[str, Mapping[str, Any]], now: datetime, commit: str
) -> None:
    """Write the page, and its pictures into the folder `pictures` beside it."""
    shares = summarise(done)
    pictures = page.parent / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    (pictures / "study-rates.svg").write_text(rates_picture(shares), encoding="utf-8")
    (pictures / "study-e-values.svg").write_text(e_values_picture(done), encoding="utf-8")
    page.write_text(to_markdown(config, done, shares, now, commit), encoding="utf-8")


def to_markdown(
    config: StudyConfig, done: Mapping[str, Mapping[str, Any]], shares: Sequence[Share], now: datetime, commit: str
) -> str:
    """Write the page."""
    failed = [share for share in shares if not share.met]
    planned = len(units(config))
    whole = "" if len(done) >= planned else f" **Not whole: {len(done):,} of {planned:,} runs; run it again to go on.**"
    answer = (
        "Every figure is as wanted." if not failed else f"{len(failed)} of {len(shares)} figures are not as wanted."
    )
    lines = [
        "# The validator, validated",
        "",
        f"Written by `playproof study` on {now:%Y-%m-%d}, commit {commit}: {len(done):,} runs of game"
        f" `{config.game}`, seed {config.seed}. {answer}{whole}{_mixed(done)}",
        "",
        "A run goes the whole way: windows are dealt, boosted trees learn from some, a grid of 20 rules and the trees'",
        f"policies are tried on {config.validation} validation windows, the best {config.opened} of them are looked at",
        "on the test windows, and the best of those makes the claim. All looks are in the trial ledger. The ceiling",
        "that theory knows is withheld, since it would decide alone. Intervals are 95 %, Wilson's.",
        "",
        "![Rates beside what is wanted](pictures/study-rates.svg)",
        "",
    ]
    for part, title in TITLES.items():
        own = [share for share in shares if share.part == part]
        if own:
            lines += [f"## {title}", "", *_table(own), ""]
            lines += _remarks(part, done)
    lines += ["![E-values of claims](pictures/study-e-values.svg)", "", *_costs(done)]
    return "\n".join(lines)


def _mixed(done: Mapping[str, Mapping[str, Any]]) -> str:
    """Say so where several commits did the runs."""
    by = commits(done)
    if len(by) < 2:
        return ""
    return " **Runs of several commits: " + ", ".join(f"{name} {count:,}" for name, count in by.items()) + ".**"


def _costs(done: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Tell what the parts took."""
    result = costs(done)
    rows = [f"| {part} | {runs:,} | {taken / runs:.2f} | {taken:,.0f} |" for part, runs, taken in result]
    total = f"| all | {sum(item[1] for item in result):,} | | {sum(item[2] for item in result):,.0f} |"
    return ["## What it took", "", "| part | runs | CPU s a run | CPU s |", "|---|---:|---:|---:|", *rows, total, ""]


def _table(shares: Sequence[Share]) -> list[str]:
    if shares[0].part in ("mutant", "honest") and all(share.met for share in shares):
        hits, runs = sum(share.hits for share in shares), sum(share.runs for share in shares)
        shares = [Share(shares[0].part, f"{len(shares)} rewards", hits, runs, shares[0].wanted)]
    rows = [
        f"| {share.name} | {share.hits} of {share.runs} | {share.rate:.1%} | {share.interval[0]:.1%} to "
        f"{share.interval[1]:.1%} "
        f"| {share.wanted.text} | {'yes' if share.met else '**no**'} |"
        for share in shares
    ]
    return ["| what | count | rate | interval | wanted | met |", "|---|---:|---:|---|---|---|", *rows]


def _remarks(part: str, done: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Say what stands behind a table."""
    runs = [payload for payload in done.values() if payload["part"] == part]
    return REMARKS[part](runs) if part in REMARKS else []


def _null_remarks(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    verdicts = Counter(run["verdict"] for run in runs)
    return ["Verdicts: " + ", ".join(f"{name} {count}" for name, count in verdicts.most_common()) + ".", ""]


def _leak_remarks(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    by = {leak: Counter(check for run in runs if run["name"] == leak for check in run["caught"]) for leak in LEAKS}
    payload = "; ".join(
        f"{leak}: {', '.join(f'{check} {count}' for check, count in sorted(result.items())) or 'nothing'}"
        for leak, result in by.items()
    )
    return [f"Caught by: {payload}.", ""]


def _mutant_remarks(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    alone = [run["name"] for run in runs if run["failed"] == ["R8"]]
    return [f"Found by R8 alone: {', '.join(alone) or 'none'}.", ""]


SIZES_TOLD = (
    f"The t-test is one-sided at 5 %. Samples have {WINDOWS_OF_SIZES:,} windows, 100 where it says so. Who peeks looks",
    f"after every window from the {FIRST_LOOK}th on and stops at the first rejection. The {PLAYERS} players each place",
    "sidebets at a fair payout in rounds of their own; were they one-tick holds, whose t-test rejects more often, 97",
    "to 98 % would pass. Known figures are whole percents, and met where the interval reaches them.",
    "",
)


def _ppo_remarks(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    verdicts = {name: Counter(run["verdict"] for run in runs if run["name"] == name) for name in _names(runs)}
    lines = [
        "A run trains from scratch, chooses among the checkpoints on validation windows, and has the choice judged. In",
        "worlds with an edge it is judged again on as many windows as the first report asks for; where none is named",
        "the short training found no edge, and the validator has nothing to show.",
        "",
    ]
    texts = (
        f"{name}: " + ", ".join(f"{item} {count}" for item, count in by.most_common()) for name, by in verdicts.items()
    )
    return [*lines, "Verdicts: " + "; ".join(texts) + ".", ""]


def _names(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(run["name"] for run in runs))


def _edge_remarks(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = []
    for name in dict.fromkeys(run["name"] for run in runs):
        named = [run["needed"] for run in runs if run["name"] == name and run["needed"] is not None]
        shown = sum(run["verdict"] == "EDGE SHOWN" for run in runs if run["name"] == name)
        total = sum(run["name"] == name for run in runs)
        middle = sorted(named)[len(named) // 2] if named else 0
        dear = sum(run["verdict"] == "too many windows" for run in runs if run["name"] == name)
        much = f" {dear} asked for more windows than a run may play, and count as not shown." if dear else ""
        lines.append(
            f"{name}: a number was named in {len(named)} of {total} runs (half of them at most {middle:,} windows), and"
            f" the edge shown in {shown / max(1, len(named)):.1%} of those.{much}"
        )
    failed = Counter(gate for run in runs if run["verdict"] != "EDGE SHOWN" for gate in run["failed"])
    missed = ", ".join(f"{gate} {count}" for gate, count in failed.most_common(6))
    return [*lines, f"Gates that failed where it was not shown: {missed or 'none'}.", ""]


def _svg(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="system-ui, sans-serif" font-size="13" fill="{INK}" role="img">'
        f"<title>{html.escape(title)}</title>"
        f'<rect width="{width}" height="{height}" fill="white"/>{"".join(parts)}</svg>\n'
    )


REMARKS: Mapping[str, Callable[[Sequence[Mapping[str, Any]]], list[str]]] = {
    "null": _null_remarks,
    "edge": _edge_remarks,
    "ppo": _ppo_remarks,
    "leak": _leak_remarks,
    "mutant": _mutant_remarks,
    "size": lambda _: list(SIZES_TOLD),
}


def rates_picture(shares: Sequence[Share]) -> str:
    """Draw each rate with its interval; rewards are left to their tables."""
    shown = [share for share in shares if share.part in ("null", "edge", "leak", "size")]
    left, wide, row = 270, 400, 22
    parts = []
    for mark in (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0):
        x = left + wide * mark
        parts.append(f'<line x1="{x:.0f}" y1="24" x2="{x:.0f}" y2="{34 + row * len(shown)}" stroke="{LINE}"/>')
        parts.append(f'<text x="{x:.0f}" y="16" text-anchor="middle" font-size="10">{mark:.0%}</text>')
    for index, share in enumerate(shown):
        y = 40 + row * index
        low, high = (left + wide * item for item in share.interval)
        colour = GOOD if share.met else BAD
        parts += [
            f'<text x="{left - 12}" y="{y + 4}" text-anchor="end">{html.escape(share.name)}</text>',
            f'<line x1="{low:.1f}" y1="{y}" x2="{high:.1f}" y2="{y}" stroke="{colour}" stroke-width="3"/>',
            f'<circle cx="{left + wide * share.rate:.1f}" cy="{y}" r="5" fill="{colour}"/>',
            f'<text x="{left + wide + 14}" y="{y + 4}">{html.escape(share.wanted.text)}</text>',
        ]
    return _svg(left + wide + 190, 50 + row * len(shown), "Rates beside what is wanted", parts)


def e_values_picture(done: Mapping[str, Mapping[str, Any]]) -> str:
    """Draw how many claims reached which e-value, in worlds without an edge."""
    groups: dict[str, list[float]] = {}
    for payload in done.values():
        if payload["part"] == "null":
            groups.setdefault(payload["name"], []).append(payload["e_value"])
    left, wide, top, tall = 60, 560, 20, 220
    edges = [0.1, 100.0]
    parts = []

    def across(value: float) -> float:
        from math import log10

        low, high = log10(edges[0]), log10(edges[1])
        return left + wide * (min(max(log10(max(value, 1e-9)), low), high) - low) / (high - low)

    for mark in (0.1, 0.3, 1, 3, 10, REJECT, 100):
        x, colour = across(mark), BAD if mark == REJECT else LINE
        parts.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{top + tall}" stroke="{colour}"/>')
        parts.append(f'<text x="{x:.1f}" y="{top + tall + 16}" text-anchor="middle" font-size="11">{mark:g}</text>')
    for mark in (0.0, 0.05, 0.5, 1.0):
        y = top + tall * (1 - mark)
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end" font-size="11">{mark:.0%}</text>')
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + wide}" y2="{y:.1f}" stroke="{LINE}"/>')
    for index, (name, values) in enumerate(groups.items()):
        colour = ("#2563eb", GOOD, "#b45309", "#7c3aed")[index % 4]
        ordered = sorted(values)
        points = [
            f"{across(value):.1f},{top + tall * number / len(ordered):.1f}" for number, value in enumerate(ordered)
        ]
        parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(
            f'<text x="{left + wide - 150}" y="{top + 18 + 18 * index}" fill="{colour}">{html.escape(name)}</text>'
        )
    label = "share of claims without an edge whose e-value is higher; 20 is needed"
    parts.append(f'<text x="{left}" y="{top + tall + 36}">{label}</text>')
    return _svg(left + wide + 30, top + tall + 50, "E-values of claims without an edge", parts)
