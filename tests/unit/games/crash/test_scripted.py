"""The scripted person as a recording: his frames become the steps that the lanes would have shown of him."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.train_bc import find_person, recorded
from playproof.datasets import Transitions
from playproof.datasets.dataset import starts
from playproof.game import load_game
from playproof.train.demonstrations import on_press_clock

CRASH = load_game("crash")
NAMES = CRASH.observations["policy"].features


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Transitions:
    return recorded(find_person(), CRASH, tmp_path_factory.mktemp("store"), seed=4, rounds=5)


def test_every_recorded_choice_is_one_that_he_makes(shown: Transitions) -> None:
    chances = find_person().chances(shown.observations, shown.actions, starts(shown))
    assert len(starts(shown)) == 5
    assert shown.actions.any(axis=0).all()
    for head, of in enumerate(chances):
        assert of[np.arange(len(of)), shown.actions[:, head]].min() > 1e-6


def test_a_tick_ends_with_a_wait_or_an_order(shown: Transitions) -> None:
    tick = shown.observations[:, NAMES.index("tick")]
    adjusts = np.flatnonzero((shown.actions[:-1, 0] == 0) & (shown.actions[:-1, 1] > 0))
    assert len(adjusts) > 1
    assert (tick[adjusts + 1] == tick[adjusts]).all()
    bets = shown.observations[:, NAMES.index("bet_amount")]
    assert (bets[adjusts + 1] != bets[adjusts]).mean() > 0.9
    assert np.array_equal(shown.next_observations[adjusts], shown.observations[adjusts + 1])


def test_same_seed_same_frames() -> None:
    first, second = ([frame.payload for frame in next(find_person().sessions(5, 1))] for _ in range(2))
    assert first == second


def steps(actions: list[tuple[int, int]], substep: list[int], bets: list[float]) -> Transitions:
    rows = np.stack([np.arange(len(bets)), bets], axis=1).astype(np.float32)
    after = np.concatenate([rows[1:], [[len(bets), bets[-1] + 1]]]).astype(np.float32)
    count = len(bets)
    ends = np.arange(count) == count - 1
    return Transitions(
        rows,
        np.array(actions, np.int16),
        np.arange(1.0, count + 1),
        after,
        ends,
        np.zeros(count, np.bool_),
        ("w",) * count,
        np.array(substep, np.int16),
        np.zeros((count, 2), np.bool_),
    )


def test_waits_are_added_and_idle_presses_left_out() -> None:
    # a tick with an adjustment and an order; one with an idle press and an adjustment; the last with one adjustment
    result = on_press_clock(
        steps([(0, 2), (1, 0), (0, 0), (0, 3), (0, 0), (0, 1)], [0, 1, 0, 1, 0, 0], [1.0, 2.0, 2.0, 2.0, 5.0, 5.0])
    )
    assert result.actions.tolist() == [[0, 2], [1, 0], [0, 3], [0, 0], [0, 0], [0, 1], [0, 0]]
    assert result.rewards.tolist() == [1, 2, 0, 4, 5, 0, 6]
    assert result.observations[3, 1] == 5.0
    assert result.observations[6, 1] == 6.0
    assert result.terminated.tolist() == [False] * 6 + [True]


def test_no_steps_stay_no_steps() -> None:
    whole = steps([(0, 2), (1, 0)], [0, 1], [1.0, 2.0])
    assert len(on_press_clock(whole).windows) == 2
