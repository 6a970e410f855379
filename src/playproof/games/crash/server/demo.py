"""The demonstration: verify, simulate beside theory, play baselines, and show it on one page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from playproof.games.crash.players.tournament import TournamentScore
from playproof.games.crash.rules import theory
from playproof.games.crash.rules.prices import Round, play_round
from playproof.games.crash.rules.verify import PUBLISHED_ROUNDS
from playproof.games.crash.rules.worlds import get_world
from playproof.games.crash.sim.simulate import SimulatedRounds
from playproof.reports.chart import Chart, ChartAxis, LevelLine, MarkerSeries, Series
from playproof.reports.page import PageSection, PageTable, render


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


def survival_figure(result: SimulatedRounds) -> Chart:
    """Draw the share of rounds that outlive a tick, measured and by theory."""
    ticks = np.arange(0, 801, 10)
    alive = 1 - np.searchsorted(np.sort(result.rug_ticks), ticks, side="right") / result.rounds
    expected = [theory.survival(get_world(result.world), int(tick)) for tick in ticks]
    return Chart(
        title="How long a round lives",
        x=ChartAxis(title="tick"),
        y=ChartAxis(title="share of rounds still alive", percent=True, range=(0.0, None)),
        series=[
            Series(name="theory 0.995^k", x=ticks.tolist(), y=expected, colour="warn", width=4),
            MarkerSeries(
                name=f"{result.rounds:,} rounds", x=ticks.tolist(), y=alive.tolist(), colour="blue", radius=2.5
            ),
        ],
    )


def hold_figure(*results: SimulatedRounds) -> Chart:
    """Draw the return of holding against theory, with standard errors."""
    series: list[Series] = []
    for result, colour in zip(results, ("bad", "blue"), strict=False):
        world = get_world(result.world)
        ticks, rows = list(range(0, 201, 5)), list(result.hold.values())
        expected = [theory.hold_return(world, k) if k else 0.0 for k in ticks]
        series += [
            Series(name=f"{result.world}: theory", x=ticks, y=expected, colour=colour, dash="dot"),
            MarkerSeries(
                name=f"{result.world}: measured, 4 standard errors",
                x=list(result.hold),
                y=[row.mean for row in rows],
                low=[row.mean - 4 * row.se for row in rows],
                high=[row.mean + 4 * row.se for row in rows],
                colour=colour,
            ),
        ]
    return Chart(
        title="Buying at tick 0 and holding",
        x=ChartAxis(title="ticks held"),
        y=ChartAxis(title="mean return", percent=True),
        series=series,
    )


def scores_figure(scores: list[TournamentScore]) -> Chart:
    """Draw the return of each baseline with its 95 % interval."""
    return Chart(
        title="Baselines on the same rounds",
        x=ChartAxis(title="profit per unit staked, 95 % interval", percent=True),
        series=[
            MarkerSeries(
                name="measured",
                y=[score.name for score in scores],
                x=[score.roi for score in scores],
                low=[score.roi - 1.96 * score.se for score in scores],
                high=[score.roi + 1.96 * score.se for score in scores],
            )
        ],
        levels=[LevelLine(value=0.0, name="not playing", axis="x")],
        height=70 + 32 * len(scores),
        wide=True,
        numbers=False,
    )


def rounds_figure(rounds: list[tuple[str, Round]]) -> Chart:
    """Draw some published rounds, each to its rug."""
    series: list[Series] = []
    for name, one in rounds:
        series.append(Series(name=name, x=list(range(len(one.prices))), y=list(one.prices)))
    ends = [one for _, one in rounds]
    series.append(
        MarkerSeries(
            name="rug",
            x=[one.rug_tick for one in ends],
            y=[one.rug_price for one in ends],
            symbol="cross",
            colour="bad",
        )
    )
    return Chart(
        title="Rounds that the site revealed, replayed from their seeds",
        x=ChartAxis(title="tick"),
        y=ChartAxis(title="price", kind="log"),
        series=series,
        height=440,
        wide=True,
        numbers=False,
    )


def page(findings: Findings, commit: str) -> str:
    """Write the whole page."""
    rounds = [(game_id, play_round(seed, game_id)) for seed, game_id, *_ in PUBLISHED_ROUNDS]
    table = PageTable(
        head=("baseline", "positions", "staked", "profit", "return", "95 % interval"),
        rows=[
            (
                s.name,
                f"{s.positions:,}",
                f"{s.staked:,.3f}",
                f"{s.pnl:+,.4f}",
                f"{s.roi:+.2%}",
                f"{s.interval[0]:+.2%} to {s.interval[1]:+.2%}",
            )
            for s in findings.scores
        ],
    )
    return render(
        "report.html",
        title="Playproof: what the crash game is worth",
        heading="What the crash game is worth",
        lead="Published algorithm, exact money, theory beside every measurement.",
        lines=findings.sentences(),
        charts=[
            survival_figure(findings.published),
            hold_figure(findings.published, findings.fair),
            scores_figure(findings.scores),
            rounds_figure(rounds),
        ],
        sections=[PageSection(f"{findings.scores[0].rounds:,} rounds, every baseline on the same ones", [table])],
        footer=f"Seed {findings.published.seed}. Commit {commit}. Amounts in coins.",
    )


def write_page(findings: Findings, folder: Path, commit: str) -> Path:
    """Write the page into a folder; it is there whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "index.html"
    unfinished = folder / "index.html.part"
    unfinished.write_text(page(findings, commit), encoding="utf-8")
    unfinished.replace(path)
    return path
