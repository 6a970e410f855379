"""The demonstration: verify, simulate beside theory, play baselines, and show it on one page.

Leaves out: everything that needs a network. The page is one file that opens offline.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from playproof.games.crash.players.tournament import TournamentScore
from playproof.games.crash.rules import theory
from playproof.games.crash.rules.prices import Round, play_round
from playproof.games.crash.rules.verify import PUBLISHED_ROUNDS
from playproof.games.crash.rules.worlds import get_world
from playproof.games.crash.sim.simulate import SimulatedRounds

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

INK, PAPER, LINE = "#e7edf3", "#0f1419", "#2a3440"
MEASURED, THEORY, LOSS = "#4cc9f0", "#f2b134", "#ef5b5b"


@dataclass(frozen=True)
class Findings:
    """Everything that the demonstration found."""

    verified: int
    published: SimulatedRounds
    fair: SimulatedRounds
    scores: list[TournamentScore]

    @property
    def farthest(self) -> float:
        """Give the largest distance from theory, in standard errors."""
        tables = [self.published.survival, self.published.hold, self.fair.survival, self.fair.hold]
        return max(row.sigmas for table in tables for row in table.values())

    def sentences(self) -> list[str]:
        """Say in plain words what was found."""
        total = len(PUBLISHED_ROUNDS)
        hold = self.published.hold
        return [
            f"{self.verified} of {total} revealed rounds replay exactly from their seeds.",
            f"Over {self.published.rounds:,} rounds every figure lies within {self.farthest:.1f} standard errors "
            "of theory, in the published game and in the fair one.",
            f"Holding returns {hold[10].theory:+.2%} over 10 ticks, {hold[40].theory:+.2%} over 40, "
            f"{hold[200].theory:+.2%} over 200. A sidebet returns "
            f"{theory.sidebet_return(get_world('published')):+.2%} of its stake.",
            f"{self._winners()} The best expected result in the published game is 0, by not playing.",
        ]

    def _winners(self) -> str:
        lucky = [score.name for score in self.scores if score.pnl > 0]
        if not lucky:
            return "No baseline ended with a profit."
        surely = [score.name for score in self.scores if score.interval[0] > 0]
        proof = f"; {', '.join(surely)} even beyond its 95 % interval, as one in forty will" if surely else ""
        return f"{', '.join(lucky)} ended with a profit by luck{proof}."


def verify_published() -> int:
    """Count the published rounds that replay exactly."""
    count = 0
    for seed, game_id, rug_tick, peak in PUBLISHED_ROUNDS:
        result = play_round(seed, game_id)
        count += (result.rug_tick, result.peak) == (rug_tick, peak)
    return count


def _figure(title: str, x: str, y: str, **layout: Any) -> Figure:
    import plotly.graph_objects as go

    figure = go.Figure()
    figure.update_layout(
        meta={"title": title},
        template="plotly_dark",
        paper_bgcolor=PAPER,
        plot_bgcolor=PAPER,
        font={"color": INK, "family": "system-ui, sans-serif"},
        margin={"l": 64, "r": 24, "t": 20, "b": 56},
        height=400,
        legend={"orientation": "h", "y": -0.22, "yanchor": "top", "x": 0, "xanchor": "left"},
        xaxis={"title": x, "gridcolor": LINE, "zerolinecolor": LINE},
        yaxis={"title": y, "gridcolor": LINE, "zerolinecolor": INK},
        **layout,
    )
    return figure


def survival_figure(result: SimulatedRounds) -> Figure:
    """Draw the share of rounds that outlive a tick, measured and by theory."""
    ticks = np.arange(0, 801, 10)
    alive = 1 - np.searchsorted(np.sort(result.rug_ticks), ticks, side="right") / result.rounds
    figure = _figure("How long a round lives", "tick", "share of rounds still alive", yaxis_tickformat=".0%")
    expected = [theory.survival(get_world(result.world), int(tick)) for tick in ticks]
    figure.add_scatter(x=ticks, y=expected, name="theory 0.995^k", line={"color": THEORY, "width": 5})
    figure.add_scatter(x=ticks, y=alive, name=f"{result.rounds:,} rounds", mode="markers",
                       marker={"color": MEASURED, "size": 5})  # fmt: skip
    return figure


def hold_figure(*results: SimulatedRounds) -> Figure:
    """Draw the return of holding against theory, with standard errors."""
    figure = _figure("Buying at tick 0 and holding", "ticks held", "mean return", yaxis_tickformat=".1%")
    for result, colour in zip(results, (LOSS, MEASURED), strict=False):
        world = get_world(result.world)
        ticks = list(range(0, 201, 5))
        figure.add_scatter(
            x=ticks,
            y=[theory.hold_return(world, k) if k else 0.0 for k in ticks],
            name=f"{result.world}: theory",
            line={"color": colour, "dash": "dot"},
        )
        figure.add_scatter(
            x=list(result.hold),
            y=[row.mean for row in result.hold.values()],
            error_y={"array": [4 * row.se for row in result.hold.values()], "color": colour},
            mode="markers",
            marker={"color": colour, "size": 9},
            name=f"{result.world}: measured, 4 standard errors",
        )
    return figure


def scores_figure(scores: list[TournamentScore]) -> Figure:
    """Draw the return of each baseline with its 95 % interval."""
    figure = _figure(
        "Baselines on the same rounds", "profit per unit staked, 95 % interval", "", xaxis_tickformat=".0%"
    )
    names = [score.name for score in reversed(scores)]
    figure.add_scatter(
        x=[score.roi for score in reversed(scores)],
        y=names,
        error_x={"array": [1.96 * score.se for score in reversed(scores)], "color": MEASURED},
        mode="markers",
        marker={"color": MEASURED, "size": 10},
        name="measured",
    )
    figure.add_vline(
        x=0, line={"color": THEORY, "width": 2}, annotation_text="not playing", annotation_font_color=THEORY
    )
    return figure


def rounds_figure(rounds: list[tuple[str, Round]]) -> Figure:
    """Draw some published rounds, each to its rug."""
    figure = _figure("Rounds that the site revealed, replayed from their seeds", "tick", "price", yaxis_type="log")
    for name, one in rounds:
        figure.add_scatter(x=list(range(len(one.prices))), y=list(one.prices), name=name, mode="lines")
        figure.add_scatter(x=[one.rug_tick], y=[one.rug_price], mode="markers", showlegend=False,
                           marker={"color": LOSS, "symbol": "x", "size": 9})  # fmt: skip
    figure.update_layout(height=460)
    return figure


STYLE = f"""
:root {{ color-scheme: dark; }}
body {{ margin: 0 auto; max-width: 1080px; padding: 2rem 1.2rem 4rem; background: {PAPER}; color: {INK};
       font: 16px/1.55 system-ui, sans-serif; }}
h1 {{ font-size: 1.9rem; margin: 0 0 .3rem; }} p.lead {{ color: #9fb0c0; margin: 0 0 1.4rem; }}
ol {{ padding-left: 1.2rem; }} li {{ margin: .5rem 0; }}
.plots {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: 1rem; }}
.plots > section {{ border: 1px solid {LINE}; border-radius: 10px; overflow: hidden; min-width: 0; }}
h3 {{ margin: .9rem 1.1rem 0; font-size: 1.05rem; font-weight: 600; }}
.wide {{ grid-column: 1 / -1; }}
.scroll {{ overflow-x: auto; }} table {{ border-collapse: collapse; width: 100%; margin: 1.2rem 0; }}
th, td {{ text-align: right; padding: .35rem .7rem; border-bottom: 1px solid {LINE}; white-space: nowrap; }}
th:first-child, td:first-child {{ text-align: left; }} th {{ color: #9fb0c0; font-weight: 500; }}
footer {{ color: #9fb0c0; margin-top: 2rem; font-size: .9rem; }}
"""


RESIZE = "addEventListener('load', () => document.querySelectorAll('.js-plotly-plot').forEach(Plotly.Plots.resize))"
"""A plot that was drawn while the page was still being read has measured too wide a place."""


def scores_table(scores: list[TournamentScore]) -> str:
    """Write the baselines as an HTML table."""
    head = "".join(
        f"<th>{name}</th>" for name in ("baseline", "positions", "staked", "profit", "return", "95 % interval")
    )
    body = "".join(
        f"<tr><td>{html.escape(s.name)}</td><td>{s.positions:,}</td><td>{s.staked:,.3f}</td><td>{s.pnl:+,.4f}</td>"
        f"<td>{s.roi:+.2%}</td><td>{s.interval[0]:+.2%} to {s.interval[1]:+.2%}</td></tr>"
        for s in scores
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def page(findings: Findings, commit: str) -> str:
    """Write the whole page, Plotly included."""
    rounds = [(game_id, play_round(seed, game_id)) for seed, game_id, *_ in PUBLISHED_ROUNDS]
    figures = [
        ("", survival_figure(findings.published)),
        ("", hold_figure(findings.published, findings.fair)),
        ("wide", scores_figure(findings.scores)),
        ("wide", rounds_figure(rounds)),
    ]
    parts = []
    for index, (kind, figure) in enumerate(figures):
        body = figure.to_html(
            full_html=False,
            include_plotlyjs=index == 0,
            div_id=f"plot-{index}",
            config={"displaylogo": False, "responsive": True},
        )
        parts.append(f'<section class="{kind}"><h3>{html.escape(figure.layout.meta["title"])}</h3>{body}</section>')
    lines = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in findings.sentences())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Playproof: what the crash game is worth</title><style>{STYLE}</style></head><body>"
        "<h1>What the crash game is worth</h1>"
        '<p class="lead">Published algorithm, exact money, theory beside every measurement.</p>'
        f'<ol>{lines}</ol><div class="plots">{"".join(parts)}</div>'
        f"<h2>{findings.scores[0].rounds:,} rounds, every baseline on the same ones</h2>{scores_table(findings.scores)}"
        f"<footer>Seed {findings.published.seed}. Commit {html.escape(commit)}. Amounts in coins."
        f"</footer><script>{RESIZE}</script></body></html>"
    )


def write_page(findings: Findings, folder: Path, commit: str) -> Path:
    """Write the page into a folder; it is there whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "index.html"
    unfinished = folder / "index.html.part"
    unfinished.write_text(page(findings, commit), encoding="utf-8")
    unfinished.replace(path)
    return path
