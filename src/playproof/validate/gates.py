"""The gates, each a rule, what was found and whether it passed, and the verdict that they make, in one sentence.

Any failure means no promotion and no live play.

| id | what it asks |
|---|---|
| D1, D2, D3 | honest splits, no look ahead, no synthetic data in a claim about the real game |
| R1 to R8 | a reward that cannot be earned without money |
| A1, A2 | enough play to judge, and play that does something |
| M1 to M4 | money beyond luck, beyond choice, under worse terms, and not beyond what is possible |
| C1 | probabilities better than a constant |

The default verdict is NO EDGE SHOWN. Order: a leak or an impossible profit is SUSPECT; a reward that can be earned
without money is REWARD HACKED; too little play is NOT EVALUABLE; a sure loss is NEGATIVE; only what passes every gate
is EDGE SHOWN. Pure functions of what was played.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from playproof.errors import ConfigError
from playproof.evaluate.rollout import Score
from playproof.stats.evidence import REJECT, Method, bootstrap_interval, e_process, paired_intervals, windows_needed
from playproof.stats.selection import DeflatedSharpe, SuperiorityTest

Floats = NDArray[np.float64]
Status = Literal["passed", "failed", "skipped"]

POSITIONS = 30
ACTIVE_WINDOWS = 20
NO_EFFECT = 0.10
ONE_ACTION = 0.60
METHOD: Method = "percentile"
"""Neither bca nor studentised intervals held their lower bound better (docs/concepts/evidence.md)."""
ALARMS = 3
OWN = ""
"""Among intervals of differences: the one to nothing at all, which is that of the ROI."""


@dataclass(frozen=True)
class Gate:
    """One check, and what it found."""

    gate: str
    passed: bool
    finding: str
    rule: str = ""
    skipped: bool = False
    """It could not be asked here, and stands in nobody's way."""

    @property
    def status(self) -> Status:
        """Give passed, failed or skipped."""
        return "skipped" if self.skipped else "passed" if self.passed else "failed"


def skipped(gate: str, rule: str, why: str) -> Gate:
    """Tell that a gate does not apply."""
    return Gate(gate, True, why, rule, skipped=True)


RULES: Mapping[str, str] = {
    "D1": "no window in two splits, in time order, scaler from train",
    "D2": "features stay when the future is cut; permuted labels give chance",
    "D3": "no synthetic data in a claim about the real game",
    "R1-R5, R8": "a reward that follows money: nothing for nothing, more for more, no cycles, no discount trick",
    "R6": "no way to play earns the reward without money",
    "R7": "over checkpoints reward does not rise while ROI does not",
    "A1": f"at least {POSITIONS} positions in at least {ACTIVE_WINDOWS} windows",
    "A2": f"at most {NO_EFFECT:.0%} of the decisions have no effect; no action above {ONE_ACTION:.0%} for nothing",
    "M1": f"e-value >= {REJECT:.0f}, lower bound of the ROI above 0, better than every baseline on the same windows",
    "M2": "SPA p < 0.05 over the trial ledger, deflated Sharpe >= 0.95",
    "M3": "the mean keeps its sign with latency, slippage, without its best 1 %; no walk-forward fold below -1 SE",
    "M4": "the 99.9 % lower bound does not lie above what theory allows",
    "C1": "Brier skill against the constant hazard above 0 with its interval",
}


def activity(opened: NDArray[np.int64]) -> Gate:
    """A1: is there enough play to judge?"""
    positions, windows = int(opened.sum()), int((opened > 0).sum())
    passed = positions >= POSITIONS and windows >= ACTIVE_WINDOWS
    return Gate("A1", passed, f"{positions:,} positions in {windows:,} windows", RULES["A1"])


def collapse(decisions: Mapping[str, int], no_effect: int, wait: str = "WAIT") -> Gate:
    """A2: does play do something, and more than one thing?"""
    acted = {name: count for name, count in decisions.items() if name != wait and count}
    total = sum(acted.values())
    if not total:
        return skipped("A2", RULES["A2"], "nothing was ever decided but to wait")
    share, top = no_effect / total, max(acted, key=lambda name: acted[name])
    alarm = acted[top] / total > ONE_ACTION and no_effect > 0
    text = f"{share:.1%} of {total:,} decisions had no effect; {acted[top] / total:.0%} are {top}"
    return Gate("A2", share <= NO_EFFECT and not alarm, text, RULES["A2"])


def money_intervals(
    returns: Floats, baselines: Mapping[str, Floats], rng: np.random.Generator
) -> dict[str, tuple[float, float]]:
    """Give the interval of the ROI (`OWN`), and of the difference to each baseline, all from the same draws."""
    return paired_intervals(returns, {OWN: np.zeros_like(returns), **baselines}, rng, method=METHOD)


def money(returns: Floats, intervals: Mapping[str, tuple[float, float]]) -> tuple[Gate, ...]:
    """M1: is the profit more than luck and more than every baseline's?"""
    value = e_process(returns).value
    low, high = intervals[OWN]
    gates = [
        Gate("M1 e-value", value >= REJECT, f"{value:.3g}", RULES["M1"]),
        Gate("M1 interval", low > 0, f"{low:+.2%} to {high:+.2%}", RULES["M1"]),
    ]
    for name, (less, more) in intervals.items():
        if name == OWN:
            continue
        gates.append(Gate(f"M1 against {name}", less > 0, f"{less:+.2%} to {more:+.2%}", RULES["M1"]))
    return tuple(gates)


def selection(superior: SuperiorityTest, deflated: DeflatedSharpe) -> Gate:
    """M2: does the profit survive the choice among all that was tried?"""
    passed = superior.p < 0.05 and deflated.probability >= 0.95
    text = (
        f"SPA p = {superior.p:.3f} over {superior.policies} policies; "
        f"deflated Sharpe {deflated.probability:.3f} over {deflated.trials} trials"
    )
    return Gate("M2", passed, text, RULES["M2"])


def robust(returns: Floats, stressed: Mapping[str, Floats], folds: int = 5) -> tuple[Gate, ...]:
    """M3: does the mean keep its sign under worse terms, and in every stretch of time?"""
    trimmed = without_best(returns)
    means = {name: float(result.mean()) for name, result in stressed.items()}
    means["without its best 1 %"] = float(trimmed.mean()) if len(trimmed) else 0.0
    sign = np.sign(returns.mean()) if len(returns) else 0.0
    lost = {name: mean for name, mean in means.items() if np.sign(mean) != sign}
    shown = ", ".join(f"{name} {mean:+.2%}" for name, mean in means.items())
    worst = min((fold_score(part) for part in np.array_split(returns, folds) if len(part) > 1), default=0.0)
    return (
        Gate("M3 terms", not lost, shown, RULES["M3"]),
        Gate("M3 folds", worst >= -1.0, f"the worst of {folds} stretches is {worst:+.1f} standard errors", RULES["M3"]),
    )


def without_best(returns: Floats, share: float = 0.01) -> Floats:
    """Leave the best windows out."""
    drop = int(np.ceil(len(returns) * share))
    return np.sort(returns)[: len(returns) - drop]


def fold_score(returns: Floats) -> float:
    """Give a mean in its own standard errors; 0 where nothing varies."""
    error = float(returns.std(ddof=1) / np.sqrt(len(returns)))
    return float(returns.mean()) / error if error > 0 else 0.0


def plausible(returns: Floats, ceiling: float | None, rng: np.random.Generator) -> Gate:
    """M4: is the profit one that theory allows?"""
    if ceiling is None:
        return skipped("M4", RULES["M4"], "the ceiling is unknown or withheld")
    low, _ = bootstrap_interval(returns, rng, level=0.998, method=METHOD)
    return Gate("M4", low <= ceiling, f"{low:+.2%} at least, {ceiling:+.2%} possible", RULES["M4"])


def divergence(alarms: int | None) -> Gate:
    """R7: did reward rise over checkpoints while money did not?"""
    if alarms is None:
        return skipped("R7", RULES["R7"], "no training that was watched")
    return Gate("R7", alarms < ALARMS, f"{alarms} alarms during training, {ALARMS} stop it", RULES["R7"])


Name = Literal["EDGE SHOWN", "NO EDGE SHOWN", "NEGATIVE", "NOT EVALUABLE", "SUSPECT", "REWARD HACKED"]


@dataclass(frozen=True)
class Verdict:
    """What was shown, and on what it rests."""

    name: Name
    sentence: str
    roi: float
    interval: tuple[float, float]
    """95 % interval of the ROI."""
    e_value: float
    windows: int
    windows_needed: int | None
    """Windows like these that all gates together would need; None if no number would do."""
    ceiling: float | None
    """The best expected ROI that theory allows; None if it is unknown."""
    gates: tuple[Gate, ...]

    @property
    def failed(self) -> tuple[str, ...]:
        """Name the gates that failed."""
        return tuple(gate.gate for gate in self.gates if not gate.passed)


def give_verdict(score: Score, baselines: Sequence[Score], ceiling: float | None, rng: np.random.Generator) -> Verdict:
    """Judge a policy's score on unseen windows beside baselines on the same ones, by money alone."""
    for other in baselines:
        if other.windows != score.windows or other.stake != score.stake:
            raise ConfigError(f"expected {other.name!r} on the same windows and stake as {score.name!r}, found others")
    returns = score.returns
    intervals = money_intervals(returns, {other.name: other.returns for other in baselines}, rng)
    gates = (
        activity(np.asarray(score.opened, np.int64)),
        *money(returns, intervals),
        plausible(returns, ceiling, rng),
    )
    return conclude(score, gates, ceiling, windows_needed(returns), intervals[OWN])


def conclude(
    score: Score, gates: Sequence[Gate], ceiling: float | None, needed: int | None, interval: tuple[float, float]
) -> Verdict:
    """Draw the conclusion from what the gates found; `interval` is that of the ROI."""
    value = e_process(score.returns).value
    name = name_of(gates, interval[1])
    return Verdict(
        name=name,
        sentence=sentence(name, score, interval, value, gates),
        roi=score.roi,
        interval=interval,
        e_value=value,
        windows=len(score.windows),
        windows_needed=needed,
        ceiling=ceiling,
        gates=tuple(gates),
    )


def name_of(gates: Sequence[Gate], upper: float) -> Name:
    """Order the verdicts: suspicion, the reward, activity, loss, then proof."""
    failed = [gate.gate for gate in gates if not gate.passed]
    if any(gate.startswith(("D", "M4")) for gate in failed):
        return "SUSPECT"
    if any(gate.startswith("R") for gate in failed):
        return "REWARD HACKED"
    if "A1" in failed:
        return "NOT EVALUABLE"
    if upper < 0:
        return "NEGATIVE"
    return "NO EDGE SHOWN" if failed else "EDGE SHOWN"


def sentence(name: Name, score: Score, interval: tuple[float, float], value: float, gates: Sequence[Gate]) -> str:
    """Say it plainly."""
    failed = [gate for gate in gates if not gate.passed]
    earned = f"{score.roi:+.2%} of the reserved stake over {len(score.windows):,} windows"
    between = f"95 % interval {interval[0]:+.2%} to {interval[1]:+.2%}, e-value {value:.3g}"
    names = ", ".join(gate.gate for gate in failed)
    why = "; ".join(f"{gate.gate}: {gate.finding}" for gate in failed if gate.gate[0] in "DR" or gate.gate == "M4")
    played = next((gate.finding for gate in gates if gate.gate == "A1"), "")
    return {
        "EDGE SHOWN": f"{score.name} earned {earned} ({between}), more than luck and more than every baseline.",
        "NO EDGE SHOWN": f"{score.name} earned {earned} ({between}), which luck or a baseline explains: {names}.",
        "NEGATIVE": f"{score.name} lost money: {earned} ({between}).",
        "NOT EVALUABLE": (
            f"{score.name} hardly played: {played}, and at least {POSITIONS} in {ACTIVE_WINDOWS} are needed."
        ),
        "SUSPECT": f"{score.name} shows what an honest evaluation cannot ({why}): look for a leak.",
        "REWARD HACKED": f"{score.name} was trained on a reward that can be earned without money ({why}).",
    }[name]
