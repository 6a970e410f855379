"""Watch whether the game is still the one that a policy was proven in: hazard, returns, and the policy's own inputs.

Three kinds of streams, each an e-detector (stats.drift): the rug at a tick against the published chance, the change of
a tick against the published mean, and once a round each watched input's mean against those of the rounds before. An
alarm is a line in the audit log and a notification; it stops nothing by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from playproof.events import Event
from playproof.games.crash.features.table import OBSERVATIONS
from playproof.games.crash.recording import columns as c
from playproof.games.crash.rules.windows import Phase
from playproof.stats.drift import WAYS, ConformalRank, EDetector, mean_evidence, rank_evidence, rate_evidence

HAZARD = 0.005
"""Chance of a rug at a tick, in the published game."""
MEAN, LOW, HIGH = 0.00446495625, -0.25, 0.25
"""Of a surviving tick's relative change while the price is at most 100."""
TICKS, ROUNDS = 100_000.0, 2_000.0
"""Expected steps to a false alarm: of a stream of ticks (some 700 rounds), and of one of rounds."""
MOST_PRICE = 100.0
INPUTS = ("price_velocity", "average_multiplier", "connected_players", "rugpool_ratio")
WARM_UP = 20
"""Rounds whose inputs are only remembered."""


@dataclass(frozen=True)
class DriftAlarm:
    """Something has changed."""

    stream: str
    window_id: str
    step: int
    """Of the stream: ticks, or rounds."""


@dataclass
class DriftWatch:
    """Take a session's events and observations; give alarms."""

    observation: str = "policy"
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    detectors: dict[str, EDetector] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        names = OBSERVATIONS[self.observation].features
        self._columns = {name: names.index(name) for name in INPUTS if name in names}
        self.detectors = {"hazard": EDetector(TICKS, WAYS["rate"]), "returns": EDetector(TICKS, WAYS["mean"])}
        self.detectors |= {name: EDetector(ROUNDS, WAYS["rank"]) for name in self._columns}
        self._ranks = {name: ConformalRank(self.rng) for name in self._columns}
        self._last: tuple[str, int, float] | None = None
        self._rows: list[np.ndarray[Any, Any]] = []

    def take(self, event: Event) -> list[DriftAlarm]:
        """Take one event of the world."""
        columns: Mapping[str, Any] = event.columns
        if event.event_name != c.TICK or columns.get("game_phase", 0) < Phase.ACTIVE or event.window_id is None:
            return []
        window, tick, price = event.window_id, int(columns["tick"]), float(columns["price"])
        last, self._last = self._last, (window, tick, price)
        result = []
        if last is not None and last[:2] == (window, tick - 1):
            rugged = columns["game_phase"] == Phase.RUGGED
            result += self._update("hazard", rate_evidence(rugged, HAZARD), window)
            if not rugged and 0 < last[2] <= MOST_PRICE:
                result += self._update("returns", mean_evidence(price / last[2] - 1.0, MEAN, LOW, HIGH), window)
        return result

    def observe(self, row: np.ndarray[Any, Any]) -> None:
        """Take what the policy saw at one decision."""
        if len(row):
            self._rows.append(row[list(self._columns.values())])

    def end_round(self, window: str) -> list[DriftAlarm]:
        """Compare the round's inputs with those of the rounds before."""
        rows, self._rows = self._rows, []
        if not rows:
            return []
        means: Sequence[float] = np.mean(np.array(rows, np.float64), axis=0).tolist()
        result = []
        for name, mean in zip(self._columns, means, strict=True):
            share = self._ranks[name].update(mean)
            if len(self._ranks[name].seen) > WARM_UP:
                result += self._update(name, rank_evidence(share), window)
        return result

    def _update(self, stream: str, evidence: Sequence[float], window: str) -> list[DriftAlarm]:
        detector = self.detectors[stream]
        return [DriftAlarm(stream, window, detector.steps)] if detector.update(evidence) else []

    def figures(self) -> dict[str, dict[str, float]]:
        """Give each stream's evidence, steps and alarms."""
        return {
            name: {"value": item.value, "level": item.level, "steps": item.steps, "alarms": len(item.alarms)}
            for name, item in self.detectors.items()
        }
