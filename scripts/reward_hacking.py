"""Draw what PPO made of a broken reward and of an honest one, from the logs of two runs.

Usage: python scripts/reward_hacking.py BROKEN_RUN HONEST_RUN docs/results/pictures/reward-hacking.svg

The runs are those of the commands in docs/results/reward-hacking.md. Leaves out: the page's text.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

INK, LINE, REWARD, MONEY, SELL = "#334155", "#cbd5e1", "#b45309", "#2f9e6b", "#2563eb"
UNIT = 10**9
WIDE, TALL, LEFT, TOP = 300, 170, 70, 40


def looks(run: Path) -> list[dict]:
    """Give the evaluations of a run, in their order."""
    notes = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return [note for note in notes if "pnl" in note and "reward" in note]


def panel(
    x: int, y: int, title: str, steps: list[float], values: list[float], colour: str, form: str, seen: list[float]
) -> str:
    """Draw one line over the steps of training; the scale holds what is seen."""
    low, high = min(0.0, *seen), max(0.0, *seen)
    high = high if high > low else low + 1.0
    right = max(steps) or 1.0

    def at(step: float, value: float) -> str:
        return f"{x + WIDE * step / right:.1f},{y + TALL * (high - value) / (high - low):.1f}"

    zero = y + TALL * high / (high - low)
    line = " ".join(at(step, value) for step, value in zip(steps, values, strict=True))
    return (
        f'<text x="{x}" y="{y - 12}" font-weight="600">{title}</text>'
        f'<rect x="{x}" y="{y}" width="{WIDE}" height="{TALL}" fill="none" stroke="{LINE}"/>'
        f'<line x1="{x}" y1="{zero:.1f}" x2="{x + WIDE}" y2="{zero:.1f}" stroke="{LINE}"/>'
        f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2.5"/>'
        f'<text x="{x - 8}" y="{y + 10}" text-anchor="end" font-size="11">{form.format(high)}</text>'
        f'<text x="{x - 8}" y="{y + TALL}" text-anchor="end" font-size="11">{form.format(low)}</text>'
        f'<text x="{x + WIDE}" y="{y + TALL + 16}" text-anchor="end" font-size="11">{right:,.0f} steps</text>'
    )


def picture(runs: dict[str, Path]) -> str:
    """Draw reward, money and the share of SELL of each run, a row for each; money of all on the same scale."""
    parts, row = [], TALL + 90
    money = [note["pnl"] / UNIT for run in runs.values() for note in looks(run)]
    for index, (name, run) in enumerate(runs.items()):
        result, y = looks(run), TOP + index * row + 24
        steps = [note["step"] for note in result]
        lines = (
            ("reward a round", [note["reward"] for note in result], REWARD, "{:.4g}"),
            ("money a round, coins", [note["pnl"] / UNIT for note in result], MONEY, "{:.2g}"),
            ("share of SELL", [note["mix"]["SELL"] for note in result], SELL, "{:.0%}"),
        )
        parts.append(f'<text x="{LEFT}" y="{y - 34}" font-size="16" font-weight="700">{name}</text>')
        parts += [
            panel(LEFT + number * (WIDE + 90), y, title, steps, values, colour, form, money if number == 1 else values)
            for number, (title, values, colour, form) in enumerate(lines)
        ]
    wide, tall = LEFT + 3 * (WIDE + 90), TOP + len(runs) * row
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {tall}" width="{wide}" height="{tall}" '
        f'font-family="system-ui, sans-serif" font-size="13" fill="{INK}"><rect width="{wide}" height="{tall}" '
        f'fill="white"/>{"".join(parts)}</svg>\n'
    )


if __name__ == "__main__":
    broken, honest, out = (Path(text) for text in sys.argv[1:4])
    out.write_text(picture({"broken reward": broken, "minimal reward": honest}), encoding="utf-8")
