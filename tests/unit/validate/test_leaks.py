"""Leak detectors: each planted leak is caught, honest work passes, and the harness that claimed 754 % fails thrice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import hopeful_harness as harness
import numpy as np
import pytest
from hopeful_harness import HoldoutScores, Samples
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from playproof.errors import InputError
from playproof.events import Event
from playproof.game import Game, load_game
from playproof.stats.calibration import calibrate
from playproof.testing import coin
from playproof.validate.gates import give_verdict
from playproof.validate.leaks import (
    altered_events,
    check_features,
    check_future,
    check_order,
    check_permuted,
    check_scaler,
    check_untouched,
    check_windows,
    compare_splits,
    fold_rows,
    permuted_labels,
)

WIN = 1 - (1 - harness.HAZARD) ** harness.COVERED


@pytest.fixture(scope="module")
def played() -> tuple[Samples, NDArray[np.int64]]:
    return harness.play_rounds(2000, np.random.default_rng(1))


@pytest.fixture(scope="module")
def few(played: tuple[Samples, NDArray[np.int64]]) -> Samples:
    samples, _ = played
    return cut(samples, 300)


def cut(samples: Samples, windows: int) -> Samples:
    own = samples.windows < f"w{windows:05d}"
    return Samples(samples.rows[own], samples.labels[own], samples.windows[own], samples.names)


def with_feature(samples: Samples, name: str, values: NDArray[np.float64]) -> Samples:
    return replace(samples, rows=np.column_stack([samples.rows, values]), names=(*samples.names, name))


class TestSplit:
    def test_a_window_in_two_splits_is_found(self) -> None:
        assert check_windows({"train": ["a", "a", "b"], "test": ["c"]}).passed
        windows = check_windows({"train": ["a", "b"], "test": ["b", "c"]})
        assert not windows.passed
        assert windows.figures == {"shared": 1, "windows": 3}

    def test_time_must_not_run_backwards(self) -> None:
        starts = {"a": 1, "b": 2, "c": 3, "d": 4}
        assert check_order({"train": ["a", "b"], "test": ["d", "c"]}, starts).passed
        assert not check_order({"train": ["a", "c"], "test": ["b", "d"]}, starts).passed
        assert not check_order({"train": ["a", "b"], "test": ["c", "d"]}, starts, gap=1).passed
        assert check_order({"train": ["a"], "test": ["c", "d"]}, starts, gap=1).passed

    def test_a_scaler_over_test_is_found(self) -> None:
        rng = np.random.default_rng(2)
        rows = np.column_stack([rng.normal(size=500), rng.exponential(size=500), np.ones(500)])
        train = rows[:300]
        assert check_scaler(train.mean(axis=0), train.std(axis=0), train, rows).passed
        scaler = check_scaler(rows.mean(axis=0), rows.std(axis=0), train, rows)
        assert not scaler.passed
        assert "test included" in scaler.finding
        assert not check_scaler(rows[100:300].mean(axis=0), rows[100:300].std(axis=0), train, rows).passed


def price_rows(prices: Sequence[float], peek: int = 0) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Rows of a price and its change; a peeking builder also shows a later price, the last one where it ends."""
    values = np.asarray(prices, float)
    later = values[np.minimum(np.arange(len(values)) + peek, len(values) - 1)] if len(values) else values
    return np.arange(len(values)), np.column_stack([values, np.diff(values, prepend=values[:1]), later])


def noisy(prices: Sequence[float]) -> list[float]:
    return [price * 1.5 + 0.1 for price in prices]


class TestFuture:
    def test_rows_of_the_past_pass_and_rows_of_the_future_do_not(self) -> None:
        prices = np.random.default_rng(3).random(50).tolist()
        assert check_future(price_rows, prices, noisy, (5, 20, 48)).passed
        for peek in (1, 5, 40):
            future = check_future(lambda items, peek=peek: price_rows(items, peek), prices, noisy, (5, 20, 40))  # type: ignore[misc]
            assert not future.passed
            assert "[2]" in future.finding

    def test_a_whole_sequence_average_is_found(self) -> None:
        """A mean over everything, such as a scaler fitted on a whole recording."""
        prices = np.random.default_rng(4).random(50).tolist()

        def centred(items: Sequence[float]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
            return np.arange(len(items)), (np.asarray(items) - np.mean(items))[:, None]

        assert not check_future(centred, prices, noisy, (10,)).passed

    def test_rows_that_appear_later_are_found(self) -> None:
        prices = np.random.default_rng(5).random(30).tolist()

        def only_whole(items: Sequence[float]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
            kept = np.arange(len(items)) if len(items) >= 30 else np.empty(0, np.intp)
            return kept, np.asarray(items)[kept][:, None]

        assert not check_future(only_whole, prices, noisy, (10,)).passed

    @pytest.mark.parametrize(("game", "observation"), [(coin.game(), "table"), (load_game("crash"), "policy")])
    def test_the_games_own_rows_pass(self, game: Game, observation: str) -> None:
        events = recorded(game)
        rng = np.random.default_rng(6)
        cuts = sorted(rng.choice(len(events) - 1, size=6, replace=False).tolist())
        future = check_future(
            fold_rows(game, observation), events, lambda later: altered_events(later, game.columns, rng), cuts
        )
        assert future.passed, future.finding
        assert not future.finding.startswith("0 rows")

    def test_an_outcome_shown_early_is_found(self) -> None:
        game = coin.game()
        build, events = fold_rows(game, "table"), recorded(game)

        def leaking(items: Sequence[Event]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
            indices, rows = build(items)
            sides = "".join(str(event.columns.get("sides") or "") for event in items)
            return indices, np.column_stack([rows, np.full(len(rows), sides.count("H"))])

        future = check_future(leaking, events, lambda later: [], (4, len(events) // 2))
        assert not future.passed


def recorded(game: Game) -> list[Event]:

    frames = game.recording().sample()
    facts = [(frame, fact) for frame, some in zip(frames, game.decode(frames), strict=True) for fact in some]
    return [fact.event(frame.ts, "session", seq) for seq, (frame, fact) in enumerate(facts)]


class TestPermuted:
    @given(st.lists(st.integers(1, 9), min_size=2, max_size=12), st.integers(0, 1000))
    def test_windows_keep_some_windows_labels_in_their_order(self, lengths: list[int], seed: int) -> None:
        rng = np.random.default_rng(seed)
        windows = np.repeat([f"w{n:03d}" for n in range(len(lengths))], lengths)
        labels = rng.random(len(windows)) < 0.4
        samples = Samples(np.zeros((len(windows), 1)), labels, windows, ("x",))
        result = permuted_labels(samples, rng)
        rings = {tuple(np.roll(labels[windows == name], shift).tolist()) for name in set(windows) for shift in range(9)}
        for name in set(windows):
            own = result[windows == name].tolist()
            assert any(own == [ring[index % len(ring)] for index in range(len(own))] for ring in rings)

    def test_a_window_in_two_places_is_refused(self) -> None:
        samples = Samples(np.zeros((3, 1)), np.zeros(3, bool), np.array(["a", "b", "a"]), ("x",))
        with pytest.raises(InputError, match="two places"):
            permuted_labels(samples, np.random.default_rng(1))

    def test_an_honest_pipeline_finds_nothing(self, played: tuple[Samples, NDArray[np.int64]]) -> None:
        samples, _ = played
        rng = np.random.default_rng(7)
        passed = [check_permuted(harness.honest_probabilities, cut(samples, 800), rng).passed for _ in range(8)]
        assert all(passed)

    def test_a_hazard_that_changes_with_time_is_no_leak(self) -> None:
        """The tick tells the label in truth; permuted labels must not take that for a leak."""
        rng = np.random.default_rng(8)
        lengths = 20 + rng.integers(20, size=300)
        windows = np.repeat([f"w{n:05d}" for n in range(300)], lengths)
        step = np.concatenate([np.arange(length) for length in lengths])
        samples = Samples(step[:, None].astype(float), rng.random(len(step)) < step / 60, windows, ("tick",))

        def tick_alone(given: Samples) -> HoldoutScores:
            return HoldoutScores(np.arange(len(given.rows)), given.rows[:, 0])

        assert all(check_permuted(tick_alone, samples, rng).passed for _ in range(20))


class TestFeatures:
    def test_honest_features_pass(self, few: Samples) -> None:
        assert check_features(few).passed

    @pytest.mark.parametrize("kind", ["ordinal", "hash", "rug", "left", "next", "price in 40"])
    def test_planted_features_are_found(
        self, few: Samples, played: tuple[Samples, NDArray[np.int64]], kind: str
    ) -> None:
        caught = [plant(kind, few, played[1], np.random.default_rng([9, run])) for run in range(20)]
        assert np.mean(caught) >= 0.95

    def test_what_the_game_vouches_for_is_not_suspected(self, few: Samples) -> None:
        drawn = np.random.default_rng(10).random(len(np.unique(few.windows)))
        by_window = drawn[np.unique(few.windows, return_inverse=True)[1]]
        samples = with_feature(few, "rugpool_ratio", by_window)
        assert not check_features(samples).passed
        assert check_features(samples, known=("rugpool_ratio",)).passed


def plant(kind: str, samples: Samples, rugs: NDArray[np.int64], rng: np.random.Generator) -> bool:
    """Plant a feature that gives its window away; tell whether it was found under its own name."""
    number = np.array([int(name[1:]) for name in samples.windows])
    rug = rugs[number].astype(float)
    truth = {f"w{n:05d}": float(rugs[n]) for n in np.unique(number)}
    scale, shift = rng.uniform(0.5, 2.0), rng.normal()
    ends = np.searchsorted(number, number, side="right") - 1
    values = {
        "ordinal": number * scale + shift,
        "hash": rng.random(number.max() + 1)[number],
        "rug": rug * scale + shift,
        "left": -(rug - samples.rows[:, 0]) * scale,
        "next": samples.rows[np.minimum(np.arange(len(number)) + 1, ends), 1],
        "price in 40": samples.rows[np.minimum(np.arange(len(number)) + 8, ends), 1],
    }[kind]
    outcomes = {"rug_tick": truth, "ticks left": {}}
    # the countdown runs in rows: five ticks each, from the window's own first tick
    if kind == "left":
        first = samples.rows[np.searchsorted(number, number), 0]
        outcomes = {
            "rug_tick": {name: (value - first[number == int(name[1:])][0]) / 5 for name, value in truth.items()}
        }
    features = check_features(with_feature(samples, "planted", values), outcomes, known=samples.names)
    return not features.passed and features.finding.startswith("planted")


def scaled(samples: Samples, over_test: bool) -> HoldoutScores:
    """A linear score of scaled rows, the scaler fitted with or without the test rows."""
    train, test = harness.split_by_window(samples), harness.split_by_window(samples, 0.65, 1.0)
    fitted = samples.rows[train | test] if over_test else samples.rows[train]
    rows = (samples.rows - fitted.mean(axis=0)) / fitted.std(axis=0)
    weights = rows[train].T @ (samples.labels[train] - samples.labels[train].mean())
    return HoldoutScores(np.flatnonzero(test), rows[test] @ weights)


class TestUntouched:
    def test_a_scaler_over_test_is_found_without_seeing_it(self, few: Samples) -> None:
        rng = np.random.default_rng(11)
        honest: Callable[[Samples], HoldoutScores] = lambda given: scaled(given, False)  # noqa: E731
        leaking: Callable[[Samples], HoldoutScores] = lambda given: scaled(given, True)  # noqa: E731
        for _ in range(10):
            assert check_untouched(honest, few, rng).passed
            assert not check_untouched(leaking, few, rng).passed

    def test_a_pipeline_that_differs_each_time_cannot_be_checked(self, few: Samples) -> None:
        rng = np.random.default_rng(12)
        untouched = check_untouched(
            lambda given: HoldoutScores(np.arange(len(given.rows)), rng.random(len(given.rows))), few, rng
        )
        assert not untouched.passed
        assert "seed" in untouched.finding

    def test_choosing_rows_by_what_they_hold_is_found(self, few: Samples) -> None:
        def greedy(given: Samples) -> HoldoutScores:
            chosen = np.flatnonzero(given.rows[:, 1] > 1)
            return HoldoutScores(chosen, given.rows[chosen, 1])

        assert not check_untouched(greedy, few, np.random.default_rng(13)).passed


@pytest.fixture(scope="module")
def claimed(played: tuple[Samples, NDArray[np.int64]]) -> tuple[Samples, HoldoutScores]:
    samples, rugs = played
    labelled = cut(harness.relabelled(samples, rugs, harness.CLAIMED), 400)
    return labelled, harness.hopeful(labelled)


class TestHopefulHarness:
    """The old claim, with every check that would have stopped it."""

    def test_it_claims_much_and_so_does_whoever_always_bets(self, claimed: tuple[Samples, HoldoutScores]) -> None:
        samples, scored = claimed
        bets = harness.pay(samples, scored, samples.labels, "hopeful")
        always = harness.pay(
            samples, HoldoutScores(scored.tested, np.ones(len(scored.tested))), samples.labels, "always"
        )
        assert bets.roi_of_bets > 2
        assert always.win_rate == pytest.approx(1 - (1 - harness.HAZARD) ** harness.CLAIMED, abs=0.05)
        assert always.roi_of_bets > 0.4

    def test_d1_catches_it(self, claimed: tuple[Samples, HoldoutScores]) -> None:
        samples, _ = claimed
        train = harness.split_by_row(samples)
        split = {"train": samples.windows[train].tolist(), "test": samples.windows[~train].tolist()}
        assert not check_windows(split).passed
        assert not check_order(split, {name: name for name in samples.windows.tolist()}).passed

    def test_d2_catches_it(self, claimed: tuple[Samples, HoldoutScores]) -> None:
        samples, _ = claimed
        rng = np.random.default_rng(14)
        assert not check_permuted(harness.hopeful_probabilities, samples, rng).passed
        assert not check_untouched(harness.hopeful, samples, rng).passed
        splits = compare_splits(harness.learn, samples, rng)
        assert splits.inflated
        assert splits.by_row.value > 0.9
        assert splits.by_window.holds(0.5)

    def test_m4_catches_it(self, claimed: tuple[Samples, HoldoutScores]) -> None:
        samples, scored = claimed
        bets = harness.pay(samples, scored, samples.labels, "hopeful")
        verdict = give_verdict(bets.score, [], 0.0, np.random.default_rng(15))
        assert verdict.name == "SUSPECT"

    def test_the_honest_version_shows_no_edge(self, played: tuple[Samples, NDArray[np.int64]]) -> None:
        samples, _ = played
        rng = np.random.default_rng(16)
        bets = harness.pay(samples, harness.honest(samples), samples.labels, "honest")
        verdict = give_verdict(bets.score, [], 0.0, rng)
        assert verdict.name == "NO EDGE SHOWN"
        scored = harness.honest_probabilities(samples)
        result = calibrate(scored.scores, samples.labels[scored.tested], samples.windows[scored.tested], WIN, rng)
        assert abs(result.skill) < 0.02
        assert not result.skilled
        assert check_untouched(harness.honest, cut(samples, 400), rng).passed
        assert check_permuted(harness.honest_probabilities, cut(samples, 800), rng).passed


@pytest.mark.torture
def test_row_splits_are_caught_and_honest_splits_are_not_at_full_count() -> None:
    caught, alarms = [], []
    for run in range(200):
        rng = np.random.default_rng([17, run])
        samples, _ = harness.play_rounds(300, rng)
        caught.append(not check_permuted(harness.hopeful_probabilities, samples, rng).passed)
        alarms.append(not check_permuted(harness.honest_probabilities, samples, rng).passed)
    assert np.mean(caught) >= 0.95
    assert np.mean(alarms) <= 0.015
