"""The bystander model: exact where it must be, and near the recordings where they exist."""

from __future__ import annotations

import ast
import importlib.util
import random
import sys
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playproof.errors import ConfigError
from playproof.games.crash.rules.money import MIN_BET, SIDEBET_TICKS
from playproof.games.crash.rules.prices import counter_uniform, round_key
from playproof.games.crash.rules.worlds import BYSTANDERS, WORLDS, counter_round
from playproof.games.crash.sim import crowd as bystanders
from playproof.games.crash.sim.crowd import (
    BUSY,
    CAST_SIZE,
    CONNECTED_PLAYERS,
    FARM_LEVEL,
    FARM_SIZE,
    GRID,
    HIGHEST_TODAY,
    INSTARUG_TICKS,
    LEVELS,
    NAMES,
    ROUNDS_PER_DAY,
    RUGPOOL_MEAN,
    RUGPOOL_STEP,
    RUGPOOL_THRESHOLD,
    STRETCH,
    Site,
    crowd,
    hazard_amount,
    next_level,
    quantile,
    uniforms,
    warm_site,
)

ROOT = Path(__file__).parents[4]
DATA = ROOT.parent / "shared" / "data"
PUBLISHED = WORLDS["published"]
seeds = st.integers(0, 2**64 - 1)
numbers = st.integers(-100, 10**6)


def random_rounds(count: int, seed: int = 1) -> list[tuple[float, int]]:
    """Invent (peak, rug tick) with many peaks on either side of every limit, and many instarugs."""
    chooser = random.Random(seed)
    return [
        (chooser.choice([1.0, 2.0, 10.0, 50.0, 100.0]) * chooser.random() * 2, chooser.randrange(1, 60))
        for _ in range(count)
    ]


@given(seeds, st.integers(0, 5000), st.integers(1, 40))
@settings(max_examples=50)
def test_vectorised_draws_equal_the_plain_ones(key: int, first: int, ticks: int) -> None:
    u = uniforms(key, first, ticks)
    assert u.T.tolist() == [[counter_uniform(key, first + i, draw) for draw in range(8)] for i in range(ticks)]


def test_a_crowd_is_a_function_of_seed_and_round() -> None:
    assert crowd(7, 3) == crowd(7, 3)
    assert len({crowd(seed, number) for seed in range(5) for number in range(5)}) == 25
    assert crowd(7, 3) != crowd(7, 3, 1)


@given(seeds, numbers, st.integers(0, 7))
@settings(max_examples=150, deadline=None)
def test_every_bystander_is_possible(seed: int, number: int, stretch: int) -> None:
    rows = crowd(seed, number, stretch)
    assert [row.entry_tick for row in rows] == sorted(row.entry_tick for row in rows)
    bets = defaultdict(list)
    for row in rows:
        assert 0 <= row.player < CAST_SIZE
        assert (row.name, row.level) == (NAMES[row.player], LEVELS[row.player])
        assert row.amount >= MIN_BET
        assert row.amount % MIN_BET == 0
        assert row.exit_tick > max(row.entry_tick, 0)
        assert stretch * STRETCH <= row.entry_tick < (stretch + 1) * STRETCH or (row.entry_tick == -1 and stretch == 0)
        assert (row.sidebet_tick is None) == (row.sidebet_amount == 0)
        if row.sidebet_tick is not None:
            assert row.sidebet_amount >= MIN_BET
            bets[row.player].append(max(row.sidebet_tick, 0))
    for ticks in bets.values():
        assert all(later - earlier >= SIDEBET_TICKS for earlier, later in pairwise(ticks))


def test_the_farm_leaves_together() -> None:
    for number in range(200):
        farm = [row for row in crowd(11, number) if row.player < FARM_SIZE]
        assert len({row.exit_tick for row in farm}) <= 1
        assert all(row.entry_tick == -1 and row.level == FARM_LEVEL and row.sidebet_tick is None for row in farm)


def test_players_have_names_of_their_own() -> None:
    assert len(set(NAMES)) == CAST_SIZE == len(LEVELS)
    assert all(1 <= level <= 100 for level in LEVELS)


def test_crowds_persist_from_round_to_round() -> None:
    """Presale buyers of neighbouring rounds are alike, those far apart are not."""
    counts = [[sum(row.entry_tick < 0 for row in crowd(seed, n)) for n in (0, 1, 300)] for seed in range(300)]
    first, second, far = np.array(counts).T
    assert np.corrcoef(first, second)[0, 1] > 0.8
    assert abs(np.corrcoef(first, far)[0, 1]) < 0.2


def test_a_crowd_takes_about_a_millisecond() -> None:
    """Bound the best of several runs, so that a busy machine does not fail it."""

    def run() -> float:
        start = time.process_time()
        for number in range(50):
            crowd(3, number)
        return (time.process_time() - start) / 50

    assert min(run() for _ in range(5)) < 0.002


@pytest.mark.parametrize("hot", [True, False])
def test_hazard_amounts_never_slip_over_the_boundary(hot: bool) -> None:
    low, high = (0.8, 1.0) if hot else (0.0, 0.8)
    draws = [counter_uniform(round_key(5, number, BYSTANDERS), 0, 2) for number in range(100_000)]
    amounts = [hazard_amount(hot, u) for u in (*draws, 0.0, 1.0 - 2.0**-53)]
    ratios = [amount / RUGPOOL_THRESHOLD for amount in amounts]
    assert all(low <= ratio < high for ratio in ratios)
    small = np.array(amounts, np.float32) / np.float32(RUGPOOL_THRESHOLD)
    assert bool(np.all((small >= np.float32(low)) & (small < np.float32(high))))
    deciles = np.quantile(ratios, np.linspace(0, 1, 11))
    assert deciles == pytest.approx(np.linspace(low, high, 11), abs=0.005 * (high - low))


def test_hazard_shows_every_round_what_it_is() -> None:
    world = WORLDS["hazard"]
    site = warm_site(world, 3, random_rounds(100))
    for number in range(300):
        hot = number % 3 == 0
        shown = site.context(number, hot)
        assert (shown.rugpool_amount / shown.rugpool_threshold >= 0.8) == hot
        site.finish(number, 1.5, 100)


def test_rolling_statistics_equal_a_slow_recount() -> None:
    history = random_rounds(350)
    site = warm_site(PUBLISHED, 9, history[:100])
    for number, (peak, rug_tick) in enumerate(history[100:]):
        shown = site.context(number, hot=False)
        last = [peak for peak, _ in history[number : number + 100]]
        assert shown.average_multiplier == pytest.approx(sum(last) / 100, rel=1e-12)
        assert shown.count_2x == len([peak for peak in last if peak >= 2])
        assert shown.count_10x == len([peak for peak in last if peak >= 10])
        assert shown.count_50x == len([peak for peak in last if peak >= 50])
        assert shown.count_100x == len([peak for peak in last if peak >= 100])
        assert shown == site.context(number, hot=True), "reading must not change a site, nor hot matter here"
        site.finish(number, peak, rug_tick)


def test_the_mean_adds_from_slot_0() -> None:
    history = random_rounds(130)
    site = warm_site(PUBLISHED, 9, history[:100])
    for number, (peak, rug_tick) in enumerate(history[100:]):
        site.finish(number, peak, rug_tick)
    slots = [peak for peak, _ in (*history[100:130], *history[30:100])]
    total = 0.0
    for peak in slots:
        total += peak
    assert site.context(30, hot=False).average_multiplier == total / 100


def test_instarugs_fill_the_rugpool_and_the_tenth_empties_it() -> None:
    site = warm_site(PUBLISHED, 4, random_rounds(100))
    seen = set()
    for number in range(400):
        before = site.context(number, hot=False)
        rug_tick = INSTARUG_TICKS - 1 if number % 2 else INSTARUG_TICKS
        site.finish(number, 1.2, rug_tick)
        after = site.context(number + 1, hot=False)
        seen.add(after.instarug_count)
        if rug_tick >= INSTARUG_TICKS:
            assert (after.instarug_count, after.rugpool_amount) == (before.instarug_count, before.rugpool_amount)
        elif before.instarug_count == RUGPOOL_THRESHOLD - 1:
            assert (after.instarug_count, after.rugpool_amount) == (0, 0.0)
        else:
            assert after.instarug_count == before.instarug_count + 1
            paid = after.rugpool_amount - before.rugpool_amount
            assert RUGPOOL_STEP[0] - 1e-9 <= paid <= RUGPOOL_STEP[-1] + 1e-9
    assert seen == set(range(RUGPOOL_THRESHOLD))


def test_the_highest_of_the_day_is_forgotten_once_a_day() -> None:
    chooser = random.Random(2)
    site = warm_site(PUBLISHED, 6, random_rounds(100))
    expected = site.context(0, hot=False).highest_today
    fresh = []
    for number in range(2 * ROUNDS_PER_DAY):
        shown = site.context(number, hot=False).highest_today
        if shown == 1.0:
            fresh.append(number)
            expected = 1.0
        assert shown == expected
        peak = 1.0 + chooser.expovariate(1.0)
        site.finish(number, peak, 50)
        expected = max(expected, peak)
    assert len(fresh) == 2
    assert fresh[1] - fresh[0] == ROUNDS_PER_DAY


def test_sites_start_spread_over_what_they_can_show() -> None:
    sites = [Site(PUBLISHED, seed) for seed in range(2000)]
    assert {site.instarug_count for site in sites} == set(range(RUGPOOL_THRESHOLD))
    assert all(site.rugpool_amount == site.instarug_count * RUGPOOL_MEAN for site in sites)
    assert {site.day_start // 100 for site in sites} == set(range(ROUNDS_PER_DAY // 100))
    assert np.median([site.highest_today for site in sites]) == pytest.approx(HIGHEST_TODAY[0][8], rel=0.15)


def test_connected_players_keep_their_distribution_and_move_slowly() -> None:
    site = Site(PUBLISHED, 12)
    players = []
    for number in range(20_000):
        players.append(site.context(number, hot=False).connected_players)
        site.finish(number, 1.5, 100)
    assert np.quantile(players, np.linspace(0, 1, 9)) == pytest.approx(CONNECTED_PLAYERS, abs=8)
    assert np.mean(np.abs(np.diff(players))) < 8


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1, exclude_max=True))
def test_levels_stay_levels(level: float, step: float, u: float) -> None:
    assert 0.0 <= next_level(level, step, u) <= 1.0


def test_tables_are_quantiles() -> None:
    equal = ("CONNECTED_PLAYERS", "RUGPOOL_STEP")
    on_grid = ("PRESALE_BUYERS", "BUSY", "FARM_SHARE", "FARM_EXIT", "AMOUNT", "FARM_AMOUNT", "HOLD", "PRESALE_HOLD")
    names = (*equal, *on_grid, "SIDEBET_AMOUNT", "LEVEL", "GRID")
    for table in (*(getattr(bystanders, name) for name in names), *HIGHEST_TODAY):
        assert list(table) == sorted(table)
    assert len({len(table) for table in HIGHEST_TODAY}) == 1
    assert len(HIGHEST_TODAY) == len(WORLDS)
    assert len(BUSY) == len(GRID)
    assert [quantile((1.0, 2.0, 4.0), u) for u in (0.0, 0.25, 0.5, 0.75, 1.0)] == [1.0, 1.5, 2.0, 3.0, 4.0]
    assert np.mean([quantile(RUGPOOL_STEP, (i + 0.5) / 1000) for i in range(1000)]) == pytest.approx(
        RUGPOOL_MEAN, abs=0.005
    )


def test_a_site_needs_all_its_warm_up_rounds() -> None:
    with pytest.raises(ConfigError, match="expected 100 warm-up rounds, found 99"):
        warm_site(PUBLISHED, 1, random_rounds(99))


def test_a_site_warms_up_on_the_rounds_before_the_first() -> None:
    rounds = [counter_round(PUBLISHED, 5, number) for number in range(-100, 0)]
    shown = warm_site(PUBLISHED, 5, ((played.peak, played.rug_tick) for played in rounds)).context(0, hot=False)
    assert shown.average_multiplier == pytest.approx(np.mean([played.peak for played in rounds]))


@pytest.fixture(scope="module")
def fitting() -> ModuleType:
    """Load the script that fits the constants."""
    spec = importlib.util.spec_from_file_location("fit_bystanders", ROOT / "scripts" / "fit_bystanders.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def recorded(fitting: ModuleType) -> Any:
    """Read the recordings."""
    if not (DATA / "crash").is_dir():
        pytest.skip("the recordings are not at ../shared/data")
    return fitting.read_recordings(DATA)


def test_constants_are_what_the_script_fits(fitting: ModuleType, recorded: Any) -> None:
    lines = [*fitting.fit_site(recorded), *fitting.fit_counts(recorded), *fitting.fit_players(recorded)]
    fitted = {line.split(" = ")[0]: line.split(" = ")[1].split("  #")[0] for line in lines if not line.startswith("#")}
    assert len(fitted) == 20
    for name, text in fitted.items():
        assert ast.literal_eval(text) == getattr(bystanders, name), name


def test_the_model_looks_like_the_recordings(fitting: ModuleType, recorded: Any) -> None:
    """Compare medians, and the spread from 10 to 90 %, wherever the sample is large enough to tell."""
    games = fitting.simulate(70, 4)
    rows = (*fitting.compare_counts(recorded, games), *fitting.compare_players(recorded, games))
    large = [row for row in rows if len(row.data) >= 80]
    assert len(large) >= 7
    for row in large:
        seen, model = fitting.quantiles(row.data), fitting.quantiles(row.model)
        assert model[1] == pytest.approx(seen[1], rel=0.3), row.name
        assert 0.5 < (model[2] - model[0]) / (seen[2] - seen[0]) < 2.0, row.name
