"""E-detectors: how seldom they alarm without a change, and how soon after one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from playproof.errors import ConfigError
from playproof.stats.drift import WAYS, ConformalRank, EDetector, mean_evidence, rank_evidence, rate_evidence
from playproof.workflows.crash.drift_watch import HAZARD, HIGH, LOW, MEAN


def test_evidence_is_fair_without_a_change() -> None:
    rare, usual = rate_evidence(True, HAZARD), rate_evidence(False, HAZARD)
    assert [HAZARD * a + (1 - HAZARD) * b for a, b in zip(rare, usual, strict=True)] == pytest.approx([1.0] * 4)
    values = np.random.default_rng(0).uniform(MEAN - 0.02, MEAN + 0.02, 20_000)
    mean = np.mean([mean_evidence(value, MEAN, LOW, HIGH) for value in values], axis=0)
    assert mean == pytest.approx(1.0, abs=0.01)
    shares = (np.arange(200_000) + 0.5) / 200_000
    assert np.mean([rank_evidence(share) for share in shares], axis=0) == pytest.approx(1.0, abs=0.03)


def test_what_is_no_number_speaks_for_a_change() -> None:
    assert all(value >= 0 for value in mean_evidence(math.nan, 0.0, -1.0, 1.0))
    detector = EDetector(1_000.0, WAYS["mean"])
    assert any(detector.update(mean_evidence(math.nan, 0.0, -1.0, 1.0)) for _ in range(200))
    with pytest.raises(ConfigError):
        EDetector(1.0, 1)


def false_alarms(streams: int, steps: int, level: float) -> float:
    """Give the share of null streams of rugs in which there is an alarm."""
    rng = np.random.default_rng(3)
    count = 0
    for _ in range(streams):
        detector = EDetector(level, WAYS["rate"])
        count += any(detector.update(rate_evidence(rugged, HAZARD)) for rugged in (rng.random(steps) < HAZARD).tolist())
    return count / streams


def test_false_alarms_are_as_rare_as_the_level_says() -> None:
    assert false_alarms(60, 2_000, 20_000.0) <= 2_000 / 20_000.0 + 0.08


def test_a_changed_hazard_is_found_soon() -> None:
    rng = np.random.default_rng(4)
    waits = []
    for _ in range(20):
        detector = EDetector(100_000.0, WAYS["rate"])
        for rugged in (rng.random(5_000) < HAZARD).tolist():
            detector.update(rate_evidence(rugged, HAZARD))
        detector.alarms.clear()
        changed = (rng.random(20_000) < 4 * HAZARD).tolist()
        waits.append(next(n for n, rugged in enumerate(changed) if detector.update(rate_evidence(rugged, HAZARD))))
    assert np.median(waits) < 2_000


def test_ranks_of_a_moved_input_alarm() -> None:
    rng = np.random.default_rng(5)
    rank, detector = ConformalRank(rng), EDetector(2_000.0, WAYS["rank"])
    for value in rng.normal(size=300):
        detector.update(rank_evidence(rank.update(float(value))))
    assert not detector.alarms
    assert any(detector.update(rank_evidence(rank.update(float(value)))) for value in rng.normal(2.0, size=60))
