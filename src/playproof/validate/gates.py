"""The gates, each a rule, what was found and whether it passed, and the verdict that they make, in one sentence.

Any failure means no promotion and no live play.

| id | what it asks |
|---|---|
| D1 to D4 | honest splits, no look ahead, no synthetic data in a claim about the real game, causal choices |
| R1 to R8 | a reward that cannot be earned without money |
| A1, A2 | enough play to judge, and play that does something |
| M1 to M4 | money beyond luck, beyond choice, under worse terms, and not beyond what is possible |
| C1 | probabilities better than a constant |

The default verdict is NO EDGE SHOWN. Order: a leak is SUSPECT; a reward that can be earned without money is REWARD
HACKED; too little play is NOT EVALUABLE; an impossible profit is SUSPECT; a sure loss is NEGATIVE; only what passes
every gate is EDGE SHOWN. Pure functions of what was played.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from playproof.errors import ConfigError
from playproof.evaluate.rollout import Score
from playproof.stats.evidence import (
    BETS,
    FEWEST,
    REJECT,
    Method,
    bootstrap_interval,
    e_process,
    paired_intervals,
    windows_needed,
)
from playproof.stats.selection import DeflatedSharpe, StepDownTest

Floats = NDArray[np.float64]
Status = Literal["passed", "failed", "skipped"]

POSITIONS = 30
ACTIVE_WINDOWS = 20
NO_EFFECT = 0.10
IMPOSSIBLE = 1000.0
"""E-value against the ceiling that luck reaches at most once in 1,000 times, whatever the number of windows."""
BOTH_WAYS = 30
"""Windows won, and windows lost, without which a bootstrap says nothing: rare losses may not have come yet."""
FEW_WINDOWS = 30
"""Below so many windows nothing is said of how many more would be needed."""
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
    def title(self) -> str:
        """Give the code with its name, such as "M1 money: e-value"."""
        for code, name in NAMES.items():
            if self.gate == code or self.gate.startswith(f"{code} "):
                rest = self.gate[len(code) :].strip()
                return f"{code} {name}: {rest}" if rest else f"{code} {name}"
        return self.gate

    @property
    def status(self) -> Status:
        """Give passed, failed or skipped."""
        return "skipped" if self.skipped else "passed" if self.passed else "failed"


def skipped(gate: str, rule: str, why: str) -> Gate:
    """Tell that a gate does not apply."""
    return Gate(gate, True, why, rule, skipped=True)


NAMES: Mapping[str, str] = {
    "D1": "split",
    "D2": "leak probe",
    "D3": "provenance",
    "D4": "causality",
    "R1-R5, R8": "reward checks",
    "R6": "exploit search",
    "R7": "divergence",
    "A1": "activity",
    "A2": "spam",
    "M1": "money",
    "M2": "selection",
    "M3": "robustness",
    "M4": "plausibility",
    "C1": "calibration",
}
"""What each gate is called beside its code."""

RULES: Mapping[str, str] = {
    "D1": "no window in two splits, in time order, scaler from train",
    "D2": "features stay when the future is cut; permuted labels give chance",
    "D3": "no synthetic data in a claim about the real game",
    "D4": "choices stay, bit for bit, when only the future changes; profit does not hang on the drawn future",
    "R1-R5, R8": "a reward that follows money: nothing for nothing, more for more, no cycles, no discount trick",
    "R6": "no way to play earns the reward without money",
    "R7": "over checkpoints reward does not rise while ROI does not",
    "A1": f"at least {POSITIONS} positions in at least {ACTIVE_WINDOWS} windows",
    "A2": f"where no profit is shown, at most {NO_EFFECT:.0%} of the decisions have no effect",
    "M1": f"e-value >= {REJECT:.0f}, lower bound of the ROI above 0, better than every baseline on the same windows",
    "M2": "step-down p < 0.05 for this policy over the trial ledger, deflated Sharpe >= 0.95",
    "M3": "a profit stays one with latency, slippage, without its best 1 %; no walk-forward fold below -1 SE",
    "M4": f"the profit is not above what theory allows: e-value against it < {IMPOSSIBLE:,.0f}, 99.9 % lower bound",
    "C1": "Brier skill against the constant hazard above 0 with its interval",
}


def activity(opened: NDArray[np.int64]) -> Gate:
    """A1: is there enough play to judge?"""
    positions, windows = int(opened.sum()), int((opened > 0).sum())
    passed = positions >= POSITIONS and windows >= ACTIVE_WINDOWS
    return Gate("A1", passed, f"{positions:,} positions in {windows:,} windows", RULES["A1"])


def collapse(decisions: Mapping[str, int], no_effect: int, low: float, wait: str = "WAIT") -> Gate:
    """A2: is there play behind the presses? `low` is the lower bound of the ROI.

    Presses without effect cost nothing, so they are only held against a policy that has nothing else to show: where
    money was earned beyond luck they hide nothing.
    """
    acted = {name: count for name, count in decisions.items() if name != wait and count}
    total = sum(acted.values())
    if not total:
        return skipped("A2", RULES["A2"], "nothing was ever decided but to wait")
    share, top = no_effect / total, max(acted, key=lambda name: acted[name])
    text = f"{share:.1%} of {total:,} decisions had no effect; {acted[top] / total:.0%} are {top}"
    return Gate("A2", share <= NO_EFFECT or low > 0, text, RULES["A2"])


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


def selection(chosen: StepDownTest, deflated: DeflatedSharpe) -> Gate:
    """M2: does the profit survive the choice among all that was tried?"""
    passed = chosen.p < 0.05 and deflated.probability >= 0.95
    text = (
        f"step-down p = {chosen.p:.3f} among {chosen.policies} policies; "
        f"deflated Sharpe {deflated.probability:.3f} over {deflated.trials} trials"
    )
    return Gate("M2", passed, text, RULES["M2"])


def robust(returns: Floats, stressed: Mapping[str, Floats], folds: int = 5) -> tuple[Gate, ...]:
    """M3: does a profit stay one under worse terms, and in every stretch of time?"""
    if not len(returns) or returns.mean() <= 0:
        return (skipped("M3 terms", RULES["M3"], "there is no profit that worse terms could take"),)
    trimmed = without_best(returns)
    means = {name: float(result.mean()) for name, result in stressed.items()}
    means["without its best 1 %"] = float(trimmed.mean()) if len(trimmed) else 0.0
    shown = ", ".join(f"{name} {mean:+.2%}" for name, mean in means.items())
    worst = min((fold_score(part) for part in np.array_split(returns, folds) if len(part) > 1), default=0.0)
    return (
        Gate("M3 terms", min(means.values()) > 0, shown, RULES["M3"]),
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


def plausible(returns: Floats, ceiling: float | None, rng: np.random.Generator, reason: str = "") -> Gate:
    """M4: is the profit one that theory allows?

    Two tests against the ceiling, each at one in 1,000. The e-value holds at every number of windows. The bootstrap is
    more powerful and needs a sample in which losses were seen: its lower bound is too high before.
    """
    if ceiling is None:
        return skipped("M4", RULES["M4"], reason or "the ceiling is unknown or withheld")
    value = impossible_value(returns, ceiling)
    why = f" ({reason})" if reason else ""
    text = f"e-value {value:.3g} against {ceiling:+.2%} possible{why}"
    won, lost = int((returns > ceiling).sum()), int((returns < 0).sum())
    if won < BOTH_WAYS or lost < BOTH_WAYS:
        few = f"{text}; {won:,} windows won and {lost:,} lost, too few for an interval"
        return Gate("M4", value < IMPOSSIBLE, few, RULES["M4"])
    low, _ = bootstrap_interval(returns, rng, level=0.998, method=METHOD)
    return Gate("M4", value < IMPOSSIBLE and low <= ceiling, f"{text}, {low:+.2%} at least", RULES["M4"])


def impossible_value(returns: Floats, ceiling: float) -> float:
    """Give the e-value against a mean of at most the ceiling; a loss is at most the reserve, so larger bets are fair.

    Bets of up to nine tenths tell where nearly every window is won, as with a leak.
    """
    if not len(returns):
        return 1.0
    gains = np.maximum((returns - ceiling) / (1.0 + ceiling), -1.0)
    logs = np.log1p(np.outer(gains, (*BETS, 0.5, 0.9))).sum(axis=0)
    return float(np.exp(min(np.logaddexp.reduce(logs) - np.log(len(logs)), 700.0)))


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
    """Order the verdicts: a leak, the reward, activity, an impossible profit, loss, then proof."""
    failed = [gate.gate for gate in gates if not gate.passed]
    if any(gate.startswith("D") for gate in failed):
        return "SUSPECT"
    if any(gate.startswith("R") for gate in failed):
        return "REWARD HACKED"
    if "A1" in failed:
        return "NOT EVALUABLE"
    if "M4" in failed:
        return "SUSPECT"
    if upper < 0:
        return "NEGATIVE"
    return "NO EDGE SHOWN" if failed else "EDGE SHOWN"


def sentence(name: Name, score: Score, interval: tuple[float, float], value: float, gates: Sequence[Gate]) -> str:
    """Say it plainly."""
    failed = [gate for gate in gates if not gate.passed]
    earned = f"{score.roi:+.2%} of the reserved stake over {len(score.windows):,} windows"
    between = f"{shown_interval(interval)}, e-value {value:.3g}"
    why = "; ".join(f"{gate.title}: {gate.finding}" for gate in failed if gate.gate[0] in "DR" or gate.gate == "M4")
    played = next((gate.finding for gate in gates if gate.gate == "A1"), "")
    return {
        "EDGE SHOWN": f"{score.name} earned {earned} ({between}), more than luck and more than every baseline.",
        "NO EDGE SHOWN": f"{score.name} earned {earned} ({between}). No edge is shown: {doubts(failed)}.",
        "NEGATIVE": f"{score.name} lost money: {earned} ({between}).",
        "NOT EVALUABLE": (
            f"{score.name} hardly played: {played}, and at least {POSITIONS} in {ACTIVE_WINDOWS} are needed."
        ),
        "SUSPECT": f"{score.name} shows what an honest evaluation cannot ({why}): look for a leak.",
        "REWARD HACKED": f"{score.name} was trained on a reward that can be earned without money ({why}).",
    }[name]


def doubts(failed: Sequence[Gate]) -> str:
    """Say what each failed gate leaves open, each kind once."""
    names = [gate.gate for gate in failed]
    rivals = [name.removeprefix("M1 against ") for name in names if name.startswith("M1 against ")]
    findings = {gate.gate: gate.finding for gate in failed}
    parts = []
    if "M1 e-value" in names or "M1 interval" in names:
        parts.append("luck explains the result")
    if rivals:
        parts.append(f"it is not better than {', '.join(rivals)} on the same windows")
    if "M2" in names and not parts:
        parts.append(f"choosing among what was tried explains the result ({findings['M2']})")
    if "M3 terms" in names:
        parts.append(f"worse terms take the profit ({findings['M3 terms']})")
    if "M3 folds" in names:
        parts.append(findings["M3 folds"])
    if "A2" in names:
        parts.append(findings["A2"])
    if "C1" in names:
        parts.append(f"the predictor is not better than a constant ({findings['C1']})")
    rest = [gate.title for gate in failed if gate.gate[0] not in "MAC"]
    return "; ".join([*parts, *rest])


def shown_interval(interval: tuple[float, float]) -> str:
    """Write a 95 % interval, or that there is none."""
    low, high = interval
    if not (np.isfinite(low) and np.isfinite(high)):
        return f"too few windows for an interval, at least {FEWEST} are needed"
    return f"95 % interval {low:+.2%} to {high:+.2%}"


def advice(verdict: Verdict) -> str:
    """Say whether more windows would help, and how many."""
    if verdict.name == "EDGE SHOWN":
        return "The edge is shown on these windows; no more are needed."
    if verdict.windows < FEW_WINDOWS:
        return (
            f"{verdict.windows:,} windows are too few to say how many a proof would need: record or play at least"
            f" {FEW_WINDOWS}."
        )
    if verdict.name in ("SUSPECT", "REWARD HACKED"):
        return "More windows would not change this: remove the cause first."
    if verdict.windows_needed is None:
        return "No number of windows like these would prove an edge."
    if verdict.windows_needed <= verdict.windows:
        return f"More windows are not what is missing: {', '.join(verdict.failed)} failed."
    return f"Proof would need about {verdict.windows_needed:,} windows like these."
