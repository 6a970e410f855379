"""The page about one person's play: what it earned, how that was settled, habits, and what a clone does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np

from playproof.datasets import Dataset
from playproof.game import Game
from playproof.json_types import Json
from playproof.money import UNIT
from playproof.reports.audit import survival_plot, wager_plot
from playproof.reports.chart import BarSeries, Chart, ChartAxis, LevelLine, Series
from playproof.reports.dataset import example_chart
from playproof.reports.page import PageSection, PageTable, render
from playproof.validate.audit import AuditReport
from playproof.validate.review import LEAST_WINDOWS, PlayReview

BINS = 24


def coins(units: float) -> str:
    """Write an amount in whole coins."""
    return f"{units / UNIT:+.6f}"


def sentence(review: PlayReview) -> tuple[str, str]:
    """Say in one sentence what the recordings prove of this player, and in what tone."""
    windows = len(review.played)
    if not windows:
        return "No order was sent in these recordings: there is no play to judge.", ""
    total = f"{coins(review.pnl)} coins over {windows} rounds played"
    if review.roi is None or review.roi_interval is None:
        return f"{total}: too little to say more.", ""
    low, high = review.roi_interval
    share = f"{review.roi:+.2%} of what was staked"
    if windows < LEAST_WINDOWS:
        need = f"{windows} rounds are too few for a verdict, record at least {LEAST_WINDOWS}"
        return f"{total}, {share}. {need}.", ""
    band = f"({low:+.2%} to {high:+.2%}, 95 %)"
    if review.e_value >= 20:
        return f"{total}, {share} {band}: the profit is shown, e-value {review.e_value:.3g}.", "good"
    if high < 0:
        return f"{total}, {share} {band}: the play loses money.", "bad"
    return f"{total}, {share} {band}: NO EDGE SHOWN, e-value {review.e_value:.3g} of the 20 that are needed.", ""


def to_json(review: PlayReview, **more: object) -> Json:
    """Give every figure; money in the smallest unit."""
    answer, _ = sentence(review)
    return {
        "answer": answer,
        "rounds": len(review.rounds),
        "played": len(review.played),
        "pnl": review.pnl,
        "staked": sum(item.staked for item in review.rounds),
        "roi": review.roi,
        "roi_interval": review.roi_interval,
        "mean_interval": review.mean_interval,
        "e_value": review.e_value,
        "max_drawdown": review.drawdown,
        "mix": dict(review.mix),
        "adjustments": dict(review.adjustments),
        "sequences": len(review.sequences),
        "outcomes": dict(review.outcomes),
        "holding_ticks": _spread(review.holding),
        "latency_ms": _spread(review.latency),
        "ticks_between_actions": _spread(review.gaps),
        "settled": [asdict(item) | {"difference": item.difference} for item in review.sessions],
        "best": asdict(review.best) if review.rounds else None,
        "worst": asdict(review.worst) if review.rounds else None,
        **more,
    }


def _spread(values: Sequence[float]) -> Json | None:
    """Give the quartiles of some values; None if there are none."""
    if not values:
        return None
    low, middle, high = np.quantile(np.array(values, np.float64), [0.25, 0.5, 0.75])
    return {"count": len(values), "q25": float(low), "median": float(middle), "q75": float(high)}


def page(
    review: PlayReview,
    dataset: Dataset,
    game: Game,
    *,
    source: str,
    audit: AuditReport | None,
    checks: Sequence[tuple[str, bool, str]],
    clone: Mapping[str, object],
    report: Mapping[str, object],
    replay: str | None,
) -> str:
    """Write the page."""
    answer, tone = sentence(review)
    sections = [
        PageSection("Money, round by round", [money_chart(review), rounds_table(review)]),
        PageSection("Settled again, and compared with the feed", [*_settled(review)]),
        PageSection("How you play", [*_habits(review)]),
        PageSection("Your best and your worst round", [*_extremes(review, dataset, game, replay)]),
        PageSection("A clone of you", [_clone_text(clone), *_clone_table(clone)]),
        PageSection("Was there anything to win?", _audit_parts(audit, game)),
        PageSection(
            "What was read",
            [
                PageTable(head=("count", "value"), rows=[(name, _text(value)) for name, value in report.items()]),
                PageTable(
                    head=("check of the data set", "result", "what was seen"),
                    rows=[(name, "passed" if passed else "FAILED", detail) for name, passed, detail in checks],
                    words=3,
                ),
            ],
            folded=True,
        ),
    ]
    return render(
        "report.html",
        title=f"Review of {source}",
        heading="Your play, reviewed",
        answer=answer,
        answer_tone=tone,
        notes=[
            f"From {source}, game {game.name}. Money is settled by the exact ledger; intervals are 95 % ones over whole"
            " rounds. An e-value of 20 is needed to claim an edge, however often one looks."
        ],
        facts=[
            ("rounds", f"{len(review.rounds):,}"),
            ("rounds played", f"{len(review.played):,}"),
            ("orders", f"{sum(item.orders for item in review.rounds):,}"),
            ("profit", f"{coins(review.pnl)} coins"),
            ("return on stakes", "nothing staked" if review.roi is None else f"{review.roi:+.2%}"),
            ("e-value", f"{review.e_value:.3g}"),
            ("largest drawdown", f"{coins(-abs(review.drawdown))} coins"),
        ],
        sections=sections,
    )


def money_chart(review: PlayReview) -> Chart:
    """Draw the profit so far and that of every round."""
    pnl = [item.pnl / UNIT for item in review.rounds]
    names = [item.window_id for item in review.rounds]
    rounds = list(range(1, len(pnl) + 1))
    return Chart(
        title="profit in coins",
        x=ChartAxis(title="round"),
        y=ChartAxis(title="coins", zero=True),
        series=[
            BarSeries(name="of the round", x=rounds, y=pnl, colour="faint", text=names),
            Series(name="so far", x=rounds, y=np.cumsum(pnl).tolist(), step=True, points=len(pnl) < 60),
        ],
        levels=[LevelLine(value=0.0, name="0", colour="dim")],
        wide=True,
    )


def rounds_table(review: PlayReview) -> PageTable:
    """Show every round that was played, at most the last fifty."""
    return PageTable(
        head=("round", "orders", "staked", "profit", "corrected"),
        rows=[
            (item.window_id, item.orders, f"{item.staked / UNIT:.6f}", coins(item.pnl), item.corrected)
            for item in review.played[-50:]
        ],
    )


def _settled(review: PlayReview) -> list[str | PageTable]:
    rows = [
        (
            item.session_id,
            coins(item.ledger),
            "not told" if item.feed is None else coins(item.feed),
            "" if item.difference is None else coins(item.difference),
        )
        for item in review.sessions
    ]
    corrected = sum(item.corrected for item in review.rounds)
    words = (
        f"The ledger fills an order at the tick of its press. The feed told other money {corrected} times, mostly"
        " because an order was filled a tick later; what the feed told then counts. A difference remains where a round"
        " was left out."
    )
    return [words, PageTable(head=("session", "ledger", "feed", "difference"), rows=rows)]


def _habits(review: PlayReview) -> list[str | Chart | PageTable]:
    orders = {name: count for name, count in review.mix.items() if name != "WAIT"}
    waits = review.mix.get("WAIT", 0)
    steps = max(1, sum(review.mix.values()))
    parts: list[str | Chart | PageTable] = [
        f"{steps:,} decisions, {waits / steps:.1%} of them waits (bet adjustments included)."
    ]
    if orders or review.adjustments:
        both = {**orders, **review.adjustments}
        parts.append(
            Chart(
                title="presses",
                x=ChartAxis(title="button"),
                y=ChartAxis(title="presses", zero=True),
                series=[BarSeries(name="presses", x=list(both), y=list(both.values()))],
            )
        )
    for title, unit, values in (
        ("how long positions were held", "ticks", review.holding),
        ("time between actions", "ticks", review.gaps),
        ("from press to answer", "ms", review.latency),
    ):
        if len(values) > 1:
            counts, edges = np.histogram(np.array(values, np.float64), bins=min(BINS, len(set(values)) + 1))
            centres = ((edges[1:] + edges[:-1]) / 2).tolist()
            parts.append(
                Chart(
                    title=title,
                    x=ChartAxis(title=unit),
                    y=ChartAxis(title="times", zero=True),
                    series=[BarSeries(name="times", x=centres, y=counts.tolist(), colour="teal")],
                )
            )
    parts.append(
        PageTable(
            head=("sequences of presses ended in", "times"),
            rows=[(name, count) for name, count in Counter(review.outcomes).most_common()],
        )
    )
    return parts


def _extremes(review: PlayReview, dataset: Dataset, game: Game, replay: str | None) -> list[str | PageSection]:
    card = game.display().card
    if card is None or not review.played:
        return ["No round was played."]
    parts: list[str | PageSection] = []
    best = max(review.played, key=lambda item: item.pnl)
    worst = min(review.played, key=lambda item: item.pnl)
    for name, item in (("best", best), ("worst", worst)):
        chart = example_chart(dataset, item.session_id, item.window_id, card)
        parts.append(PageSection(f"{name}: {item.window_id}, {coins(item.pnl)} coins", [chart]))
    if replay is not None:
        parts.append(f"Step through both in {replay}, beside this page.")
    return parts


def _clone_text(clone: Mapping[str, object]) -> str:
    return str(clone.get("text", "No clone was trained."))


def _clone_table(clone: Mapping[str, object]) -> list[PageTable]:
    heads = clone.get("heads")
    if not isinstance(heads, list):
        return []
    rows = [(f"head {index}", *(f"{float(head[name]):.3f}" for name in ("accuracy", "balanced") if name in head))
            for index, head in enumerate(heads)]  # fmt: skip
    return [PageTable(head=("what was predicted", "accuracy", "balanced accuracy"), rows=rows)]


def _audit_parts(audit: AuditReport | None, game: Game) -> list[str | Chart]:
    rules = game.display().audit
    if audit is None or rules is None:
        return ["These recordings hold too few whole rounds for an audit of the game itself."]
    groups = list(dict.fromkeys(item.group for item in audit.compared))
    return [audit.answer, survival_plot(audit, rules), *(wager_plot(audit, group) for group in groups[:1])]


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
