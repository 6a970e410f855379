"""The windows that models are benchmarked on: fixed, held out, the same for everybody.

A scenario is a world, a seed that nothing is trained on, and the numbers of its windows; a window's start follows from
these alone. Every scenario has a seed of its own: worlds of one seed tell the same news, and their windows would count
as independent without being so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from playproof.errors import InputError
from playproof.game import lookup
from playproof.game.forks import ForkTerms
from playproof.money import UNIT

SEED = 20_250_115
"""Of the first scenario, the others following; windows that a model of the home has learned from are refused."""
STAKE = 3_500 * UNIT
"""Reserved for each window before it begins; the market refuses orders beyond it."""


@dataclass(frozen=True)
class BenchScenario:
    """One kind of hour."""

    name: str
    world: str
    doc: str
    seed: int = SEED
    asked: bool = False
    """Is it played only where it is asked for by name?"""

    def terms(self, decisions: int, prompt: str = "full", options: Mapping[str, object] | None = None) -> ForkTerms:
        """Give the terms on which its windows are forked."""
        return ForkTerms(self.world, self.seed, decisions, prompt, {"stake": STAKE, **(options or {})})


SCENARIOS: Mapping[str, BenchScenario] = {
    item.name: item
    for item in (
        BenchScenario("held-out", "news", "ordinary hours: headlines come before moves, right four times out of five"),
        BenchScenario("bull", "bull", "every company rises by about 0.5 % an hour", SEED + 1),
        BenchScenario("bear", "bear", "every company falls by about 0.5 % an hour", SEED + 2),
        BenchScenario("scandal", "scandal", "now and then a company falls by 4 to 8 %", SEED + 3),
        BenchScenario("pump-and-dump", "pump", "the smallest company is pumped with loud posts and dumped", SEED + 4),
        BenchScenario("clear", "clear", "large moves that headlines tell truly: for models that begin", SEED + 5, True),
    )
}


def chosen(names: Sequence[str]) -> list[BenchScenario]:
    """Give scenarios by name; without any, all that need not be asked for."""
    return [lookup(SCENARIOS, name, "scenario") for name in names] or [
        scenario for scenario in SCENARIOS.values() if not scenario.asked
    ]


def check_unseen(used: Sequence[str], terms: ForkTerms, windows: int) -> None:
    """Refuse windows that a model has learned from."""
    seen = {terms.window(number) for number in range(windows)} & set(used)
    if seen:
        raise InputError(
            f"expected benchmarked windows that nothing was trained on, found {len(seen)}, such as {min(seen)}; "
            f"train with another seed than {terms.seed}"
        )
