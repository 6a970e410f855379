"""The verdict: what a policy's money on unseen windows shows, in one plain sentence.

The default is NO EDGE SHOWN. Order: a leak or an impossible profit is SUSPECT; a reward that can be earned
without money is REWARD HACKED; too little play is NOT EVALUABLE; a sure loss is NEGATIVE; only what passes
every gate is EDGE SHOWN. Leaves out: the gates themselves (gates).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from playproof.errors import ConfigError
from playproof.evaluate.score import Score
from playproof.stats.evidence import e_process, windows_needed
from playproof.validate.gates import (
    ACTIVE_WINDOWS,
    OWN,
    POSITIONS,
    Gate,
    activity,
    money,
    money_intervals,
    plausible,
)

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
