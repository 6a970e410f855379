"""What a game's recordings themselves say: is there anything to exploit here?

Nothing is trained and nothing is chosen: how long windows live, whether their age matters, what staking a unit in
every place would have come to, what bets really paid, and what was once promised about all that, each with
an interval over whole windows and beside the published rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from playproof.game.audit import AuditRules, Material, Promise, SettledBet, Wager, WindowAges
from playproof.stats.evidence import JointTest, joint_test, ratio_errors, ratio_intervals
from playproof.stats.survival import (
    Hazard,
    HazardTest,
    Lifetimes,
    Survival,
    constant_hazard,
    hazard_bands,
    kaplan_meier,
    piecewise_test,
    quantile_bands,
    weibull_test,
)

Floats = NDArray[np.float64]
SIGNIFICANT = 0.05
LEAST_WINDOWS = 20
"""Windows that a wager must be measured in before it is compared with others."""


@dataclass(frozen=True)
class Band:
    """The hazard at some ages."""

    first: int
    last: int | None
    """None: no end."""
    hazard: Hazard


@dataclass(frozen=True)
class WagerFigures:
    """One wager in figures."""

    group: str
    name: str
    windows: int
    count: int
    """Places at which it could have been staked."""
    profit: float
    """Mean profit of a unit."""
    interval: tuple[float, float]
    hit_rate: float
    hit_interval: tuple[float, float]
    theory: float | None
    remark: str | None

    @property
    def enough(self) -> bool:
        """Tell whether it was measured in windows enough to be compared."""
        return self.windows >= LEAST_WINDOWS


@dataclass(frozen=True)
class GroupComparison:
    """The wagers of one group against each other."""

    group: str
    against_theory: JointTest | None
    """Does any differ from the published rules? None where they say nothing."""
    best: str | None
    """The one with the highest lower bound that holds for all at once; None if none was measured enough."""
    best_low: float
    """That bound."""

    @property
    def profitable(self) -> bool:
        """Tell whether one of them earns something beyond luck, the choice among them accounted for."""
        return self.best_low > 0


@dataclass(frozen=True)
class Payouts:
    """Bets that were settled in the recordings."""

    count: int
    won: int
    hit_rate: float
    hit_interval: tuple[float, float]
    multiple: float | None
    """What was paid for a unit staked in bets that won; None if none did."""
    seen: int
    """Payouts of the player's own bets for which his money was told before and after."""
    agreed: int
    """Of those, how many moved the money by exactly the payout."""


@dataclass(frozen=True)
class PromiseResult:
    """A promise, and what became of it."""

    what: str
    claimed: float
    measured: float | None
    interval: tuple[float, float] | None
    published: float | None
    profit: float | None
    """What the same wager earned: a high share of hits is no profit."""
    profit_interval: tuple[float, float] | None


@dataclass(frozen=True)
class AuditReport:
    """Everything that was found."""

    game: str
    windows: int
    whole: int
    verified: int
    revealed: int
    differences: tuple[str, ...]
    """The first differences of windows that are not what their revealed seeds give."""
    hazard: Hazard
    published_hazard: float
    tests: tuple[HazardTest, ...]
    bands: tuple[Band, ...]
    survival: Survival
    wagers: tuple[WagerFigures, ...]
    compared: tuple[GroupComparison, ...]
    payouts: Payouts | None
    promises: tuple[PromiseResult, ...]
    answer: str
    """One plain sentence: is there anything to exploit here?"""
    exploitable: bool
    lines: tuple[str, ...]
    """What the answer rests on, a sentence each."""


def audit(name: str, auditing: AuditRules, material: Material, rng: np.random.Generator) -> AuditReport:
    """Weigh what a game gathered from recordings."""
    lives = to_lives(material.ages)
    edges = quantile_bands(lives)
    hazard, tests = constant_hazard(lives), (weibull_test(lives), piecewise_test(lives, edges))
    survival = kaplan_meier(lives)
    wagers = tuple(measure_wager(wager, rng) for wager in material.wagers)
    compared = tuple(compare(group, material.wagers, rng) for group in _groups(material.wagers))
    payouts = measure_payouts(material.settled, rng)
    differences = tuple(
        f"{item.window_id}: {item.difference}" for item in material.verified if item.difference is not None
    )
    exploitable = any(item.profitable for item in compared)
    report = AuditReport(
        game=name,
        windows=len(lives.end),
        whole=material.whole,
        verified=len(material.verified) - len(differences),
        revealed=len(material.verified),
        differences=differences,
        hazard=hazard,
        published_hazard=auditing.hazard,
        tests=tests,
        bands=_bands(lives, edges),
        survival=survival,
        wagers=wagers,
        compared=compared,
        payouts=payouts,
        promises=tuple(keep(item, auditing, survival, wagers) for item in auditing.promised),
        answer="",
        exploitable=exploitable,
        lines=(),
    )
    return _told(report, auditing)


def model_doubt(report: AuditReport) -> str | None:
    """Say why recordings are not taken for windows of the published game; None where nothing speaks against it."""
    if report.windows < LEAST_WINDOWS:
        return f"{report.windows} windows, and at least {LEAST_WINDOWS} are needed to audit them"
    if report.differences:
        return f"a revealed seed gives another window ({report.differences[0]})"
    low, high = report.hazard.interval
    if not low <= report.published_hazard <= high:
        return f"the hazard is {low:.3%} to {high:.3%}, published {report.published_hazard:.3%}"
    if min(test.p for test in report.tests) * len(report.tests) < SIGNIFICANT:
        return "the hazard changes with age"
    tested = [item for item in report.compared if item.against_theory is not None]
    for item in tested:
        assert item.against_theory is not None
        if item.against_theory.p * len(tested) < SIGNIFICANT:
            return f"{item.group} does not earn what the published rules give (p = {item.against_theory.p:.2g})"
    return None


def to_lives(ages: WindowAges) -> Lifetimes:
    """Give the windows that were seen alive; one that ended at its beginning tells nothing about later ages."""
    seen = (ages.end - ages.ended >= ages.entered) & (ages.end > ages.entered)
    return Lifetimes(ages.entered[seen], ages.end[seen], ages.ended[seen])


def _bands(lives: Lifetimes, edges: Sequence[int]) -> tuple[Band, ...]:
    firsts, lasts = [1, *(edge + 1 for edge in edges)], [*edges, None]
    result = hazard_bands(lives, edges)
    return tuple(Band(first, last, hazard) for first, last, hazard in zip(firsts, lasts, result, strict=True))


def measure_wager(wager: Wager, rng: np.random.Generator) -> WagerFigures:
    """Give a wager's mean profit and share of hits with their intervals, windows drawn whole."""
    total = float(wager.count.sum())
    intervals = ratio_intervals(np.column_stack([wager.profit, wager.hits]), wager.count[:, None], rng)
    profit, hits = ((float(low), float(high)) for low, high in intervals)
    return WagerFigures(
        group=wager.group,
        name=wager.name,
        windows=len(wager.windows),
        count=int(total),
        profit=float(wager.profit.sum()) / total if total else 0.0,
        interval=profit,
        hit_rate=float(wager.hits.sum()) / total if total else 0.0,
        hit_interval=hits,
        theory=wager.theory,
        remark=wager.remark,
    )


def _groups(wagers: Iterable[Wager]) -> list[str]:
    """Give the groups of which there is more than one wager, in their order."""
    names = [wager.group for wager in wagers]
    return [name for name in dict.fromkeys(names) if names.count(name) > 1]


def compare(group: str, wagers: Iterable[Wager], rng: np.random.Generator) -> GroupComparison:
    """Compare the wagers of a group that were measured in windows enough, all at once."""
    own = [wager for wager in wagers if wager.group == group and len(wager.windows) >= LEAST_WINDOWS]
    if not own:
        return GroupComparison(group, None, None, -np.inf)
    above, below = _aligned(own)
    theories = [item.theory for item in own]
    expected = np.array([0.0 if theory is None else theory for theory in theories])
    joint = joint_test(above, below, expected, rng)
    estimate, error = ratio_errors(above, below)
    low = estimate - joint.critical * error
    best = int(np.argmax(low))
    return GroupComparison(group, joint if None not in theories else None, own[best].name, float(low[best]))


def _aligned(wagers: Sequence[Wager]) -> tuple[Floats, Floats]:
    """Lay wagers side by side over all their windows: profits and counts (windows, wagers)."""
    order = {name: index for index, name in enumerate(dict.fromkeys(name for item in wagers for name in item.windows))}
    above, below = np.zeros((len(order), len(wagers))), np.zeros((len(order), len(wagers)))
    for column, wager in enumerate(wagers):
        rows = [order[name] for name in wager.windows]
        above[rows, column], below[rows, column] = wager.profit, wager.count
    return above, below


def measure_payouts(settled: Sequence[SettledBet], rng: np.random.Generator) -> Payouts | None:
    """Give how often settled bets won and what they paid; None where none was settled."""
    if not settled:
        return None
    order = {name: index for index, name in enumerate(dict.fromkeys(entry.window_id for entry in settled))}
    sums = np.zeros((len(order), 2))
    for item in settled:
        sums[order[item.window_id]] += (item.paid > 0, 1)
    won = [entry for entry in settled if entry.paid > 0]
    low, high = ratio_intervals(sums[:, 0], sums[:, 1], rng)[0]
    seen = [entry for entry in settled if entry.moved is not None]
    return Payouts(
        count=len(settled),
        won=len(won),
        hit_rate=len(won) / len(settled),
        hit_interval=(float(low), float(high)),
        multiple=sum(entry.paid for entry in won) / sum(entry.stake for entry in won) if won else None,
        seen=len(seen),
        agreed=sum(entry.moved == entry.paid for entry in seen),
    )


def keep(promised: Promise, auditing: AuditRules, survival: Survival, wagers: Sequence[WagerFigures]) -> PromiseResult:
    """Hold a promise against the data."""
    if promised.age is not None:
        alive, low, high = survival.at(promised.age)
        published = 1 - (1 - auditing.hazard) ** promised.age
        return PromiseResult(promised.what, promised.claimed, 1 - alive, (1 - high, 1 - low), published, None, None)
    result = next((wager for wager in wagers if (wager.group, wager.name) == (promised.group, promised.name)), None)
    if result is None or not result.count:
        return PromiseResult(promised.what, promised.claimed, None, None, None, None, None)
    return PromiseResult(
        promised.what, promised.claimed, result.hit_rate, result.hit_interval, None, result.profit, result.interval
    )


def _told(report: AuditReport, auditing: AuditRules) -> AuditReport:
    """Say what the figures mean."""
    lines = [
        _say_verified(report),
        _say_hazard(report, auditing),
        _say_constant(report, auditing),
        *(_say_compared(item, len(report.compared)) for item in report.compared if item.best is not None),
        *(_say_remarked(wager) for wager in report.wagers if wager.remark and wager.count),
        _say_payouts(report, auditing),
    ]
    return AuditReport(**{**vars(report), "answer": _answer(report), "lines": tuple(line for line in lines if line)})


def _answer(report: AuditReport) -> str:
    """Answer whether there is anything to exploit."""
    if all(item.best is None for item in report.compared):
        return f"Too little was recorded to tell: {report.windows} windows, and at least {LEAST_WINDOWS} are needed."
    named = next((item for item in report.compared if item.profitable), None)
    if named is None:
        return f"No: in {report.windows} windows nothing was found that is better than not playing."
    return (
        f"Perhaps: {named.group} at {named.best} earned at least {named.best_low:+.2%} of the stake with 95 %"
        " confidence, the choice accounted for; confirm it on new windows before anything is staked."
    )


def _say_verified(report: AuditReport) -> str:
    if not report.revealed:
        return f"{report.windows} windows, {report.whole} of them whole; none was revealed, so none could be verified."
    whole = f"{report.windows} windows, {report.whole} of them whole"
    return f"{whole}; {report.verified} of {report.revealed} revealed ones are what their seeds give."


def _say_hazard(report: AuditReport, auditing: AuditRules) -> str:
    low, high = report.hazard.interval
    holds = low <= report.published_hazard <= high
    return (
        f"The {auditing.end} comes with a chance of {report.hazard.value:.3%} a {auditing.unit} (95 % interval"
        f" {low:.3%} to {high:.3%}), which {'holds' if holds else 'does NOT hold'} the published"
        f" {report.published_hazard:.3%}."
    )


def _say_constant(report: AuditReport, auditing: AuditRules) -> str:
    smallest = min(test.p for test in report.tests)
    figures = ", ".join(f"{test.against} p = {test.p:.2f}" for test in report.tests)
    if smallest * len(report.tests) < SIGNIFICANT:
        return f"The hazard changes with age ({figures}): the {auditing.end} is NOT memoryless in these windows."
    return f"A constant hazard is not rejected ({figures}): age tells nothing about when the {auditing.end} comes."


def _say_compared(group_comparison: GroupComparison, groups: int) -> str:
    """Say what a group came to; the more groups are looked at, the less a small p of one of them says."""
    best = (
        f"{group_comparison.group}: the best place, {group_comparison.best}, earned at least "
        f"{group_comparison.best_low:+.2%} with 95 % confidence"
    )
    if group_comparison.against_theory is None:
        return f"{best}."
    p = group_comparison.against_theory.p
    says = "at least one is not what they say" if p * groups < SIGNIFICANT else "no place is better than another"
    return f"{best}; against the published rules p = {p:.2f} (one of {groups} such tests): {says}."


def _say_remarked(wager_figures: WagerFigures) -> str:
    low, high = wager_figures.interval
    says = "more than nothing" if low > 0 else "less than nothing" if high < 0 else "nothing that luck does not explain"
    theory = f", {wager_figures.theory:+.2%} by the published rules" if wager_figures.theory is not None else ""
    return (
        f"{wager_figures.name} ({wager_figures.remark}), {wager_figures.group}: "
        f"{wager_figures.profit:+.2%} of the stake (95 % interval {low:+.2%} to"
        f" {high:+.2%}) from {wager_figures.count} entries in {wager_figures.windows} windows{theory}: {says}."
    )


def _say_payouts(report: AuditReport, auditing: AuditRules) -> str:
    if report.payouts is None:
        return "No bet was settled in these recordings; what bets would have won is read from when windows ended."
    result = report.payouts
    paid = f", a win paid {result.multiple:.4g} times the stake" if result.multiple is not None else ""
    even = next(iter(auditing.break_even.values()), None)
    need = f"; {even:.1%} are needed to break even" if even is not None else ""
    wallet = f"; {result.agreed} of {result.seen} payouts moved the wallet by exactly that much" if result.seen else ""
    return f"{result.won} of {result.count} settled bets won ({result.hit_rate:.1%}){paid}{need}{wallet}."
