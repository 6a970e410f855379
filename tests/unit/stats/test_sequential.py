"""Sequential comparison: against a slow twin, its size under peeking, its power, and its confidence sequence."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playproof.errors import InputError
from playproof.stats.sequential import (
    MOST,
    PRIOR,
    SHARES,
    SequentialTerms,
    bankroll,
    confidence_bounds,
    confidence_path,
    naive_ps,
    weigh_differences,
)

UNIT = st.floats(-1.0, 1.0, allow_nan=False, width=32)


def slow_bankroll(x: list[float], mean: float) -> list[float]:
    """Bet window by window, as one would with a pencil."""
    largest = MOST / (1 + mean)
    adaptive, fixed = 0.5, [0.5 / len(SHARES)] * len(SHARES)
    seen: list[float] = []
    result = []
    for value in x:
        gain = value - mean
        average = sum(seen) / (len(seen) + 1)
        square = (PRIOR + sum(item * item for item in seen)) / (len(seen) + 1)
        adaptive *= 1 + min(max(average / square, 0.0), largest) * gain
        fixed = [money * (1 + share * largest * gain) for money, share in zip(fixed, SHARES, strict=True)]
        seen.append(gain)
        result.append(adaptive + sum(fixed))
    return result


@given(st.lists(UNIT, max_size=40), st.floats(-0.9, 0.9))
@settings(max_examples=150)
def test_the_bankroll_is_that_of_a_slow_twin(x: list[float], mean: float) -> None:
    fast = np.exp(bankroll(np.array(x), mean)) if x else np.empty(0)
    np.testing.assert_allclose(fast, slow_bankroll(x, mean), rtol=1e-9)


@given(st.lists(UNIT, min_size=1, max_size=30), st.floats(-0.9, 0.9), st.lists(UNIT, min_size=1, max_size=5))
@settings(max_examples=100)
def test_no_bet_knows_what_comes_after(x: list[float], mean: float, other: list[float]) -> None:
    """What stands after k windows is the same whatever follows, and stays above 0."""
    whole = bankroll(np.array(x + other), mean)
    assert np.isfinite(whole).all()
    np.testing.assert_array_equal(whole[: len(x)], bankroll(np.array(x), mean)[: len(x)])


@pytest.mark.parametrize("values", [(-1.0, 1.0), (-1.0, 0.25), (-0.1, 1.0)], ids=str)
def test_a_fair_bet_neither_grows_nor_shrinks_on_average(values: tuple[float, float]) -> None:
    """Over every sequence of two outcomes with mean 0, weighted by its probability, the bankroll is exactly 1."""
    low, high = values
    chance = -low / (high - low)
    length = 9
    total = 0.0
    for code in range(2**length):
        ups = [(code >> bit) & 1 for bit in range(length)]
        x = np.array([high if up else low for up in ups])
        weight = math.prod(chance if up else 1 - chance for up in ups)
        total += weight * math.exp(bankroll(x)[-1])
    assert total == pytest.approx(1.0, rel=1e-9)


def draws(kind: str, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Draw differences of mean 0 within the bound, of several shapes."""
    match kind:
        case "normal":
            return np.clip(rng.normal(0, 0.1, shape), -1, 1)
        case "rare loss":  # small gains, now and then all is lost: the shape that fools t-tests
            return np.where(rng.random(shape) < 0.02, -0.98, 0.02)
        case "rare gain":
            return np.where(rng.random(shape) < 0.02, 0.98, -0.02)
        case "coin":
            return rng.choice([-1.0, 1.0], shape)
    raise AssertionError(kind)


@pytest.mark.parametrize("kind", ["normal", "rare loss", "rare gain", "coin"])
def test_size_under_peeking_at_every_window(kind: str) -> None:
    """2,000 null experiments of 200 windows, looked at after each: wrong endings in either direction stay below 5 %."""
    x = draws(kind, np.random.default_rng(7), (2_000, 200))
    threshold = SequentialTerms(1.0).threshold
    wrong = (bankroll(x) >= threshold).any(axis=1) | (bankroll(-x) >= threshold).any(axis=1)
    assert wrong.mean() <= 0.05
    if kind == "normal":
        peeking = (naive_ps(x)[:, 10:] < 0.05).any(axis=1).mean()
        assert peeking > 0.2  # what a naive test does with the same data


def test_an_edge_like_the_arenas_is_seen_within_60_windows() -> None:
    """+65 a window with a spread of 47, order limits of 320 on losses and as much on counted gains."""
    rng = np.random.default_rng(3)
    gains = np.clip(rng.normal(65, 47, (500, 60)), -320, 320) / 320
    alone = (bankroll(gains) >= math.log(20)).any(axis=1).mean()
    paired = (
        np.clip(rng.normal(65, 47, (500, 60)), -320, 320) - np.clip(rng.normal(0, 20, (500, 60)), -320, 320)
    ) / 640
    against = (bankroll(paired) >= SequentialTerms(1.0).threshold).any(axis=1).mean()
    assert alone == 1.0
    assert against >= 0.95


def test_the_confidence_sequence_holds_at_all_windows_together() -> None:
    rng = np.random.default_rng(11)
    missed = 0
    for _ in range(60):
        x = np.clip(rng.normal(0.05, 0.2, 150), -1, 1)
        lows, highs = confidence_path(x, [10, 40, 80, 150])
        assert (np.diff(lows) >= 0).all()
        assert (np.diff(highs) <= 0).all()
        missed += not (lows[-1] <= 0.05 <= highs[-1])
    assert missed <= 6  # of 60, at 5 %


@given(st.lists(st.floats(-1, 1, width=16), min_size=1, max_size=60))
@settings(max_examples=60)
def test_the_sequence_excludes_0_when_a_bettor_on_it_wins(x: list[float]) -> None:
    values = np.array(x)
    low, high = confidence_bounds(values)
    threshold = SequentialTerms(1.0).threshold
    above, below = (bankroll(side).max() for side in (values, -values))
    if abs(above - threshold) > 1e-6:
        assert (low > 0) == (above >= threshold)
    if abs(below - threshold) > 1e-6:
        assert (high < 0) == (below >= threshold)
    assert -1 <= low <= high <= 1


def test_the_five_endings() -> None:
    rng = np.random.default_rng(5)
    better = rng.normal(30, 20, 400)
    terms = SequentialTerms(200.0, margin=5.0, budget=300)
    a, b = weigh_differences(better, terms), weigh_differences(-better, terms)
    assert (a.ending, b.ending) == ("A better", "B better")
    assert a.ended == b.ended
    assert a.windows == len(a.logs_a) == a.ended
    assert a.interval[0] > 0 > b.interval[1]
    calm = weigh_differences(rng.normal(0, 4, 300), SequentialTerms(200.0, margin=10.0, budget=300))
    assert calm.ending == "equal"
    assert -10 < calm.interval[0] <= calm.interval[1] < 10
    noise = rng.normal(0, 60, 300)
    assert weigh_differences(noise, terms).ending == "budget used"
    going = weigh_differences(noise[:50], terms)
    assert (going.ending, going.ended, going.windows) == ("go on", None, 50)
    assert weigh_differences([], terms).ending == "go on"
    assert weigh_differences([1.0] * 3, SequentialTerms(200.0)).ending == "go on"


def test_looks_change_nothing_and_later_windows_neither() -> None:
    rng = np.random.default_rng(9)
    x = rng.normal(25, 30, 200)
    terms = SequentialTerms(150.0)
    ended = weigh_differences(x, terms)
    assert ended.ended is not None
    for windows in range(1, 200, 7):
        look = weigh_differences(x[:windows], terms)
        assert (look.ending == "go on") == (windows < ended.ended)
    assert weigh_differences(np.concatenate([x, -x]), terms).ending == ended.ending


def test_what_lies_beyond_the_bound_is_refused() -> None:
    with pytest.raises(InputError, match="declared bound"):
        weigh_differences([5.0, 11.0], SequentialTerms(10.0))
    with pytest.raises(InputError, match="declared bound"):
        weigh_differences([math.nan], SequentialTerms(10.0))
    for wrong in (
        {"bound": 0.0},
        {"bound": 1.0, "margin": 2.0},
        {"bound": 1.0, "alpha": 0.7},
        {"bound": 1.0, "budget": -1},
    ):
        with pytest.raises(InputError, match="expected"):
            SequentialTerms(**wrong)  # type: ignore[arg-type]
