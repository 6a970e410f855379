"""The verdict: what a policy's money on unseen windows shows, in one plain sentence.

The default is NO EDGE SHOWN. Gates checked here: A1 (activity), M1 (e-value, interval, baselines),
M4 (plausible). Leaves out: the other gates, above all those on splits, rewards and selection, which
must pass too before money is at stake.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from playproof.errors import ConfigError
from playproof.evaluate.evidence import REJECT, bootstrap_interval, e_process, windows_needed
from playproof.evaluate.score import Score

Name = Literal["EDGE SHOWN", "NO EDGE SHOWN", "NEGATIVE", "NOT EVALUABLE", "SUSPECT"]
POSITIONS = 30
ACTIVE_WINDOWS = 20


@dataclass(frozen=True)
class Gate:
    """One check, and what it found."""

    gate: str
    passed: bool
    found: str


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
    """Windows like these that the e-value would need in all; None if no number would do."""
    ceiling: float | None
    """The best expected ROI that theory allows; None if it is unknown."""
    gates: tuple[Gate, ...]


def give_verdict(score: Score, baselines: Sequence[Score], ceiling: float | None, rng: np.random.Generator) -> Verdict:
    """Judge a policy's score on unseen windows beside baselines on the same ones."""
    for other in baselines:
        if other.windows != score.windows or other.stake != score.stake:
            raise ConfigError(f"expected {other.name!r} on the same windows and stake as {score.name!r}, found others")
    returns = score.returns
    interval = bootstrap_interval(returns, rng)
    value = e_process(returns).value
    gates = (
        _active(score),
        Gate("M1 e-value", value >= REJECT, f"{value:.3g}, at least {REJECT:g} wanted"),
        Gate("M1 interval", interval[0] > 0, f"{interval[0]:+.2%} to {interval[1]:+.2%}"),
        *(_beats(score, other, rng) for other in baselines),
        _plausible(score, ceiling, rng),
    )
    name = _name(gates, interval[1])
    return Verdict(
        name=name,
        sentence=_sentence(name, score, interval, value, gates),
        roi=score.roi,
        interval=interval,
        e_value=value,
        windows=len(score.windows),
        windows_needed=windows_needed(returns),
        ceiling=ceiling,
        gates=gates,
    )


def _active(score: Score) -> Gate:
    """Check that there is enough play to judge."""
    positions, windows = sum(score.opened), sum(opened > 0 for opened in score.opened)
    passed = positions >= POSITIONS and windows >= ACTIVE_WINDOWS
    return Gate("A1", passed, f"{positions} positions in {windows} windows")


def _beats(score: Score, other: Score, rng: np.random.Generator) -> Gate:
    """Check that the policy earned more than a baseline, window by window."""
    low, high = bootstrap_interval(score.returns - other.returns, rng)
    return Gate(f"M1 against {other.name}", low > 0, f"{low:+.2%} to {high:+.2%}")


def _plausible(score: Score, ceiling: float | None, rng: np.random.Generator) -> Gate:
    """Check that the policy does not earn more than theory allows."""
    low, _ = bootstrap_interval(score.returns, rng, level=0.998)
    passed = ceiling is None or low <= ceiling
    return Gate("M4", passed, "ceiling unknown" if ceiling is None else f"{low:+.2%} at least, {ceiling:+.2%} possible")


def _name(gates: Sequence[Gate], upper: float) -> Name:
    """Order the verdicts: suspicion, activity, loss, then proof."""
    passed = {gate.gate: gate.passed for gate in gates}
    if not passed["M4"]:
        return "SUSPECT"
    if not passed["A1"]:
        return "NOT EVALUABLE"
    if upper < 0:
        return "NEGATIVE"
    return "EDGE SHOWN" if all(passed.values()) else "NO EDGE SHOWN"


def _sentence(name: Name, score: Score, interval: tuple[float, float], value: float, gates: Sequence[Gate]) -> str:
    """Say it plainly."""
    found = {gate.gate: gate.found for gate in gates}
    earned = f"{score.roi:+.2%} of the reserved stake over {len(score.windows)} windows"
    between = f"95 % interval {interval[0]:+.2%} to {interval[1]:+.2%}, e-value {value:.3g}"
    failed = ", ".join(gate.gate for gate in gates if not gate.passed)
    return {
        "EDGE SHOWN": f"{score.name} earned {earned} ({between}), more than luck and more than every baseline.",
        "NO EDGE SHOWN": f"{score.name} earned {earned} ({between}), which luck or a baseline explains: {failed}.",
        "NEGATIVE": f"{score.name} lost money: {earned} ({between}).",
        "NOT EVALUABLE": (
            f"{score.name} hardly played: {found['A1']}, and at least {POSITIONS} in {ACTIVE_WINDOWS} are needed."
        ),
        "SUSPECT": f"{score.name} earned more than the game can give ({found['M4']}): look for a leak.",
    }[name]
