"""Draw learning curves in money, from the logs of runs of PPO.

Usage: python scripts/learning_curve.py OUT.svg "TITLE[=BEST]" RUN... ["TITLE[=BEST]" RUN...]...

A title begins a panel; BEST is a profit in coins a window, drawn as a dashed line. What is drawn is the profit of
the greedy policy on its validation windows. Leaves out: the text of docs/results/training.md, where the picture stands.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

INK, LINE, COLOURS = "#334155", "#cbd5e1", ("#2563eb", "#2f9e6b", "#b45309", "#7c3aed")
UNIT = 10**9
WIDE, TALL, LEFT, TOP, GAP = 380, 220, 80, 56, 100

Curve = list[tuple[float, float]]


def curve(run: Path) -> Curve:
    """Give steps and coins a window of a run's evaluations."""
    notes = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return [(note["step"], note["pnl"] / UNIT) for note in notes if note["kind"] == "evaluation"]


def panel(x: int, title: str, best: float | None, curves: list[Curve]) -> str:
    """Draw the curves of one world."""
    values = [value for line in curves for _, value in line] + ([best] if best is not None else [])
    low, high = min(0.0, *values), max(0.0, *values)
    right = max(step for line in curves for step, _ in line)

    def down(value: float) -> float:
        return TOP + TALL * (high - value) / ((high - low) or 1.0)

    parts = [
        f'<text x="{x}" y="{TOP - 16}" font-weight="600">{title}</text>',
        f'<rect x="{x}" y="{TOP}" width="{WIDE}" height="{TALL}" fill="none" stroke="{LINE}"/>',
        f'<line x1="{x}" y1="{down(0):.1f}" x2="{x + WIDE}" y2="{down(0):.1f}" stroke="{INK}"/>',
        f'<text x="{x + WIDE}" y="{TOP + TALL + 18}" text-anchor="end">{right:,.0f} steps</text>',
    ]
    marks = {0.0: "0", low: f"{low:+.3f}", high: f"{high:+.3f}"}
    parts += [
        f'<text x="{x - 8}" y="{down(value) + 4:.1f}" text-anchor="end">{mark}</text>'
        for value, mark in marks.items()
        if value == 0.0 or abs(down(value) - down(0.0)) > 14
    ]
    if best is not None:
        parts += [
            f'<line x1="{x}" y1="{down(best):.1f}" x2="{x + WIDE}" y2="{down(best):.1f}" stroke="{INK}" '
            'stroke-dasharray="5 4"/>',
            f'<text x="{x + WIDE - 8}" y="{TOP + TALL - 10}" text-anchor="end">dashed: best policy, {best:+.4f}</text>',
        ]
    for line, colour in zip(curves, COLOURS, strict=False):
        points = " ".join(f"{x + WIDE * step / right:.1f},{down(value):.1f}" for step, value in line)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
    return "".join(parts)


def picture(panels: list[tuple[str, float | None, list[Curve]]]) -> str:
    """Lay the panels side by side."""
    wide, tall = LEFT + len(panels) * (WIDE + GAP), TOP + TALL + 40
    drawn = "".join(panel(LEFT + index * (WIDE + GAP), *item) for index, item in enumerate(panels))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {tall}" width="{wide}" height="{tall}" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="{INK}"><rect width="{wide}" height="{tall}" '
        f'fill="white"/>{drawn}</svg>\n'
    )


def read(words: list[str]) -> list[tuple[str, float | None, list[Curve]]]:
    """Sort titles and runs into panels."""
    panels: list[tuple[str, float | None, list[Curve]]] = []
    for word in words:
        if (Path(word) / "log.jsonl").exists():
            panels[-1][2].append(curve(Path(word)))
        else:
            title, _, best = word.partition("=")
            panels.append((title, float(best) if best else None, []))
    return panels


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture(read(sys.argv[2:])), encoding="utf-8")
