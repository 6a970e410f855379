"""What was found out about a reward."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from playproof.json_types import Json

Status = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True)
class RewardFinding:
    """What one check said."""

    check: str
    """R1, R2 ..."""
    rule: str
    status: Status
    detail: str
    """An example of the breach, what was tried, or why it was not checked."""


@dataclass(frozen=True)
class RewardReport:
    """What the checks said about a reward."""

    game: str
    reward: str
    hash: str
    seed: int
    gamma: float
    """The discount that the agent is trained with."""
    findings: tuple[RewardFinding, ...]
    warnings: tuple[str, ...]
    clipped: int
    """Steps of the checks' own plays whose reward was clipped."""
    steps: int
    """Steps that the checks looked at."""

    @property
    def passed(self) -> bool:
        """Tell whether no check failed."""
        return not any(finding.status == "failed" for finding in self.findings)

    @property
    def failed(self) -> tuple[str, ...]:
        """Name the checks that failed."""
        return tuple(finding.check for finding in self.findings if finding.status == "failed")

    def to_json(self) -> Json:
        """Give everything, with the verdict."""
        return {**asdict(self), "passed": self.passed, "failed": list(self.failed)}


@dataclass(frozen=True)
class Exploit:
    """One way to play, and what it brings a window: reward on one side, money on the other."""

    name: str
    origin: str
    """zoo, or search."""
    does: str
    """In words."""
    windows: int
    reward: float
    reward_se: float
    unearned: float
    """Reward beyond what the money is worth."""
    unearned_se: float
    pnl: float
    """Money, in the game's coins."""
    roi: float
    """Money per unit staked; 0 where nothing was."""
    positions: float
    no_effect: float
    """Share of the choices other than WAIT that changed nothing."""
    mix: dict[str, float]
    """Share of each choice of the first head."""
    discounted: float
    """Reward at the training discount, from the first step."""
    discounted_se: float

    @property
    def story(self) -> str:
        """Tell it in one sentence."""
        top = max(self.mix, key=lambda name: self.mix[name])
        return (
            f"{self.does}; {self.mix[top]:.0%} of its choices are {top}, "
            f"{self.no_effect:.0%} of what it does has no effect. A window brings it a reward of {self.reward:+.4g} "
            f"(± {1.96 * self.reward_se:.2g}) and {self.pnl:+.4g} in money: ROI {self.roi:+.1%}, "
            f"{self.positions:.3g} positions."
        )


@dataclass(frozen=True)
class ExploitReport:
    """What the search for exploits found."""

    game: str
    reward: str
    hash: str
    seed: int
    world: str
    budget: int
    """Windows that were played."""
    honest: float
    """Reward of the best honest policy: doing nothing, or one that earns money."""
    exploits: tuple[Exploit, ...]
    """Ways to earn more than that without money, the worst first."""
    best: tuple[Exploit, ...]
    """The best rewards found, exploits or not."""
    seconds: float
    note: str = ""
    """Why nothing was searched."""

    @property
    def passed(self) -> bool:
        """Tell whether nothing was found."""
        return not self.exploits

    def to_json(self) -> Json:
        """Give everything, with the stories."""
        payload = asdict(self)
        payload["exploits"] = [asdict(exploit) | {"story": exploit.story} for exploit in self.exploits]
        payload["best"] = [asdict(item) | {"story": item.story} for item in self.best]
        return payload | {"passed": self.passed}
