"""Evidence: each statistic against a slow twin or a published number, and the sizes it is said to have."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize, stats
from sklearn.metrics import roc_auc_score

from playproof.errors import ConfigError, InputError
from playproof.stats.calibration import auc, brier_score, calibrate, calibration_error, reliability
from playproof.stats.evidence import (
    BETS,
    Claim,
    bootstrap_interval,
    cluster_sums,
    e_process,
    paired_intervals,
    ratio_errors,
    ratio_interval,
    ratio_intervals,
    sample_needed,
    windows_needed,
)
from playproof.stats.metrics import (
    drawdowns,
    expected_shortfall,
    max_drawdown,
    measure,
    profit_factor,
    ruin_probability,
    sharpe_ratio,
)
from playproof.stats.survival import (
    Lifetimes,
    constant_hazard,
    hazard_bands,
    kaplan_meier,
    lives,
    piecewise_test,
    quantile_bands,
    quantile_chi2,
    survival_chi2,
    weibull_test,
)
from playproof.stats.walkforward import walk_forward

Floats = NDArray[np.float64]
FAIR_RUG = 0.11147370625
FAIR_PAYOUT = 5.5042
WIN = 1 - 0.995**40


def one_tick_holds(shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Returns of buying at price 1 and selling a tick later in the fair world: rare large losses, mean 0."""
    big = (0.15 + 0.10 * rng.random(shape)) * np.where(rng.random(shape) > 0.5, 1, -1)
    small = -0.02 + 0.05 * rng.random(shape) + 0.005 * (2 * rng.random(shape) - 1)
    moved = np.where(rng.random(shape) < 0.125, big, small)
    moved = np.where(rng.random(shape) < 1e-5, 9.0, moved)
    return np.where(rng.random(shape) < 0.005, FAIR_RUG - 1, moved)


def fair_sidebets(shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    return np.where(rng.random(shape) < WIN, FAIR_PAYOUT - 1, -1.0)


def running_t(x: Floats) -> Floats:
    """The t statistic after each window: (runs, windows)."""
    count = np.arange(1, x.shape[1] + 1)
    mean = np.cumsum(x, axis=1) / count
    variance = np.maximum(np.cumsum(x**2, axis=1) / count - mean**2, 1e-18)
    return mean / np.sqrt(variance / np.maximum(count - 1, 1))


class TestEProcess:
    @given(st.lists(st.floats(-1, 5), min_size=1, max_size=30))
    def test_it_is_the_mean_bankroll_of_the_bettors(self, returns: list[float]) -> None:
        bankrolls = [math.prod(1 + bet * x for x in returns) for bet in BETS]
        assert e_process(np.array(returns)).value == pytest.approx(sum(bankrolls) / len(BETS), rel=1e-9)

    def test_returns_below_the_reserved_stake_are_refused(self) -> None:
        with pytest.raises(InputError, match="at least -1"):
            e_process(np.array([0.5, -1.5]))

    def test_it_says_when_it_crossed(self) -> None:
        result = e_process(np.full(100, 0.5))
        assert result.crossed is not None
        assert result.logs[result.crossed - 1] >= math.log(20) > result.logs[result.crossed - 2]
        assert e_process(np.empty(0)).value == 1


class TestKnownSizes:
    def test_a_t_test_rejects_too_often_where_losses_are_rare(self) -> None:
        x = one_tick_holds((3000, 300), np.random.default_rng(1))
        assert 0.06 < np.mean(running_t(x)[:, -1] > stats.norm.isf(0.05)) < 0.115

    def test_peeking_makes_it_worse_and_the_e_process_does_not_mind(self) -> None:
        rng = np.random.default_rng(2)
        holds, bets = one_tick_holds((600, 1000), rng), fair_sidebets((600, 1000), rng)
        limit = stats.norm.isf(0.05)
        assert 0.34 < np.mean((running_t(holds)[:, 49:] > limit).any(axis=1)) < 0.46
        assert 0.21 < np.mean((running_t(bets)[:, 19:] > limit).any(axis=1)) < 0.32
        for returns in (holds, bets):
            assert np.mean([e_process(run).crossed is not None for run in returns]) <= 0.05

    def test_dividing_by_what_was_staked_in_hindsight_is_no_evidence(self) -> None:
        """Averaging down in a fair coin game: dividing by the money staked turns a fair game into a claimed edge."""
        rng = np.random.default_rng(3)
        lost = rng.geometric(0.5, size=(200, 2000)) - 1  # losses before the first win, stakes 1, 2, 4, ...
        capped = np.minimum(lost, 6)
        won = lost < 6
        staked = 2.0 ** (capped + won) - 1
        pnl = np.where(won, 1.0, -staked)
        assert abs(pnl.mean()) < 0.05
        hindsight = np.mean([e_process(run).value >= 20 for run in pnl / staked])
        reserved = np.mean([e_process(run).crossed is not None for run in pnl / 63])
        assert hindsight > 0.9
        assert reserved <= 0.05

    @pytest.mark.torture
    def test_the_sizes_at_full_count(self) -> None:
        rng, limit = np.random.default_rng(4), stats.norm.isf(0.05)
        for windows, low, high in ((100, 0.09, 0.12), (300, 0.07, 0.10), (1000, 0.055, 0.085)):
            result = np.mean([running_t(one_tick_holds((1000, windows), rng))[:, -1] > limit for _ in range(40)])
            assert low < result < high, (windows, result)
        crossed, peeked = [], []
        for _ in range(20):
            holds = one_tick_holds((1000, 1000), rng)
            peeked.append(np.mean((running_t(holds)[:, 49:] > limit).any(axis=1)))
            crossed += [e_process(run).crossed is not None for run in holds]
        assert 0.37 < np.mean(peeked) < 0.43
        assert np.mean(crossed) <= 0.05


def slow_bootstrap(above: Floats, below: Floats, rng: np.random.Generator, draws: int) -> Floats:
    results = []
    for _ in range(draws):
        chosen = rng.integers(len(above), size=len(above))
        results.append(above[chosen].sum() / below[chosen].sum())
    return np.quantile(results, [0.025, 0.975])


class TestBootstrap:
    def test_the_percentile_interval_is_that_of_a_plain_loop(self) -> None:
        rng = np.random.default_rng(5)
        above, below = rng.exponential(size=200), rng.exponential(size=200) + 0.5
        fast = ratio_interval(above, below, rng, draws=4000)
        assert fast == pytest.approx(slow_bootstrap(above, below, rng, 4000), abs=0.02)

    def test_bca_is_that_of_scipy(self) -> None:
        rng = np.random.default_rng(6)
        values = rng.exponential(size=60)
        ours = bootstrap_interval(values, rng, draws=20_000, method="bca")
        theirs = stats.bootstrap((values,), np.mean, n_resamples=20_000, method="BCa", rng=rng).confidence_interval
        assert ours == pytest.approx((theirs.low, theirs.high), abs=0.012)

    def test_studentised_is_that_of_a_plain_loop(self) -> None:
        rng = np.random.default_rng(7)
        values = rng.exponential(size=50)
        error = values.std() / math.sqrt(50)
        distances = []
        for _ in range(4000):
            drawn = values[rng.integers(50, size=50)]
            distances.append((drawn.mean() - values.mean()) / (drawn.std() / math.sqrt(50)))
        high, low = np.quantile(distances, [0.025, 0.975])
        expected = (values.mean() - low * error, values.mean() - high * error)
        assert bootstrap_interval(values, rng, draws=4000, method="studentised") == pytest.approx(expected, abs=0.03)

    @pytest.mark.parametrize("method", ["percentile", "bca", "studentised"])
    def test_it_covers_what_it_says(self, method: str) -> None:
        rng = np.random.default_rng(8)
        covered = 0
        for _ in range(300):
            low, high = bootstrap_interval(rng.exponential(size=80), rng, draws=400, method=method)  # type: ignore[arg-type]
            covered += low <= 1 <= high
        assert 0.89 < covered / 300 < 0.98

    def test_rows_of_a_window_stay_together(self) -> None:
        """Each window's value stands in it 50 times: rows drawn alone would give an interval 7 times too narrow."""
        rng = np.random.default_rng(9)
        values, names = np.repeat(rng.normal(size=100), 50), np.repeat(np.arange(100), 50)
        sums = cluster_sums(np.column_stack([values, np.ones(5000)]), names)
        low, high = ratio_interval(sums[:, 0], sums[:, 1], rng)
        alone = bootstrap_interval(values, rng)
        assert (high - low) / (alone[1] - alone[0]) == pytest.approx(math.sqrt(50), rel=0.15)

    @given(st.lists(st.tuples(st.sampled_from("abcd"), st.floats(-10, 10)), min_size=1, max_size=20))
    def test_cluster_sums_are_those_of_a_dict(self, rows: list[tuple[str, float]]) -> None:
        expected: dict[str, float] = {}
        for name, value in rows:
            expected[name] = expected.get(name, 0.0) + value
        result = cluster_sums(np.array([value for _, value in rows]), [name for name, _ in rows])
        assert result == pytest.approx([expected[name] for name in sorted(expected)])

    def test_many_columns_share_their_draws(self) -> None:
        rng = np.random.default_rng(10)
        x = rng.normal(size=300)
        result = ratio_intervals(np.column_stack([x, x, -x]), np.ones((300, 3)), rng)
        assert result[0] == pytest.approx(result[1])
        assert result[0] == pytest.approx(-result[2][::-1])

    def test_what_was_not_measured_has_no_interval(self) -> None:
        rng = np.random.default_rng(11)
        result = ratio_intervals(np.zeros((5, 2)), np.array([[1.0, 0.0]] * 5), rng)
        assert result[0].tolist() == [0, 0]
        assert result[1].tolist() == [-math.inf, math.inf]
        assert bootstrap_interval(np.empty(0), rng) == (-math.inf, math.inf)

    def test_pairing_takes_out_what_is_common(self) -> None:
        rng = np.random.default_rng(12)
        common = rng.normal(size=400)
        own, other = common + 0.05 + 0.1 * rng.normal(size=400), common
        low, high = paired_intervals(own, {"other": other}, rng)["other"]
        assert 0 < low < 0.05 < high < 0.1
        with pytest.raises(InputError, match="400 windows"):
            paired_intervals(own, {"other": other[:10]}, rng)

    def test_ten_thousand_rounds_take_well_under_a_second(self) -> None:
        rng = np.random.default_rng(13)
        values = rng.normal(size=10_000)
        start = time.process_time()
        bootstrap_interval(values, rng, draws=2000)
        assert time.process_time() - start < 1.5, "0.3 s of one quiet core are usual"

    def test_the_error_of_a_ratio_is_that_of_the_delta_method(self) -> None:
        rng = np.random.default_rng(14)
        runs = []
        for _ in range(400):
            below = rng.exponential(size=(300, 1)) + 1
            above = 0.3 * below + rng.normal(size=(300, 1))
            runs.append(ratio_errors(above, below))
        estimates, errors = np.array(runs)[:, :, 0].T
        assert estimates.std() == pytest.approx(errors.mean(), rel=0.12)


class TestNeeded:
    def test_more_edge_needs_fewer_windows(self) -> None:
        rng = np.random.default_rng(15)
        noise = rng.normal(scale=0.3, size=2000)
        noise -= noise.mean()
        strong, weak = sample_needed(Claim(noise + 0.1), rng), sample_needed(Claim(noise + 0.05), rng)
        assert strong.windows is not None
        assert weak.windows is not None
        assert 2 < weak.windows / strong.windows < 8
        assert weak.power >= 0.9

    def test_it_is_enough(self) -> None:
        """At the number printed, fresh windows pass every part in at least about 90 %."""
        rng = np.random.default_rng(16)
        pilot = rng.choice([-1.0, 1.0], size=1500, p=[0.43, 0.57])
        base = np.zeros(1500)
        needed = sample_needed(Claim(pilot, {"wait": base}, {"late": pilot - 0.02}), rng)
        assert needed.windows is not None
        passed = 0
        for _ in range(150):
            fresh = rng.choice([-1.0, 1.0], size=needed.windows, p=[0.43, 0.57])
            low, _ = bootstrap_interval(fresh, rng, draws=300)
            passed += e_process(fresh).value >= 20 and low > 0 and fresh.mean() > 0.02
        assert passed / 150 > 0.85

    def test_no_edge_needs_no_number(self) -> None:
        rng = np.random.default_rng(17)
        assert sample_needed(Claim(rng.normal(-0.01, 0.3, size=500)), rng, limit=20_000).windows is None
        assert sample_needed(Claim(np.empty(0)), rng).windows is None
        assert windows_needed(np.full(10, -0.1)) is None

    def test_the_weakest_part_decides(self) -> None:
        rng = np.random.default_rng(18)
        x = rng.normal(0.08, 0.3, size=1000)
        alone = sample_needed(Claim(x), rng)
        beside = sample_needed(Claim(x, {"near": x - rng.normal(0.01, 0.1, size=1000)}), rng)
        assert alone.windows is not None
        assert beside.windows is not None
        assert beside.windows > alone.windows
        assert min(beside.passing, key=lambda name: beside.passing[name]) == "against near"


class TestMetrics:
    def test_figures_of_a_small_run(self) -> None:
        pnl = np.array([1.0, -2.0, 3.0, -1.0, -1.0])
        assert profit_factor(pnl) == pytest.approx(1.0)
        assert profit_factor(np.array([1.0, 0.0])) is None
        assert max_drawdown(pnl) == 2
        assert drawdowns(pnl).tolist() == [0, 2, 0, 1, 2]
        assert sharpe_ratio(pnl) == pytest.approx(0.0)
        assert expected_shortfall(pnl, 0.3) == pytest.approx((-2 - 0.5) / 1.5)

    @given(st.lists(st.integers(-5, 5), min_size=1, max_size=20))
    def test_drawdown_is_that_of_a_plain_loop(self, steps: list[int]) -> None:
        equity, top, worst = 0, 0, 0
        for step in steps:
            equity += step
            top = max(top, equity)
            worst = max(worst, top - equity)
        assert max_drawdown(np.array(steps, float)) == worst

    @given(st.lists(st.floats(-1, 1), min_size=1, max_size=50), st.floats(0.01, 1))
    def test_the_shortfall_is_that_of_small_pieces(self, returns: list[float], tail: float) -> None:
        ordered, left, total = sorted(returns), tail * len(returns), 0.0
        for value in ordered:
            part = min(1.0, left)
            total, left = total + part * value, left - part
        assert expected_shortfall(np.array(returns), tail) == pytest.approx(total / (tail * len(returns)), abs=1e-9)

    def test_ruin_is_that_of_the_gambler(self) -> None:
        """A gambler who wins 0.4 of even bets loses 3 units within n bets as the closed form for n without end says."""
        rng = np.random.default_rng(19)
        returns = np.repeat([1.0, -1.0], [600, 400])  # p = 0.6
        result = ruin_probability(returns, rng, bankroll=3, windows=400, draws=4000)
        assert result == pytest.approx((0.4 / 0.6) ** 3, abs=0.03)

    def test_all_figures_at_once(self) -> None:
        rng = np.random.default_rng(20)
        result = measure(rng.normal(0.05, 0.2, size=500).clip(-1), rng)
        assert result.windows == 500
        assert result.interval[0] < result.roi < result.interval[1]
        assert result.e_value > 1
        assert 0 <= result.ruin <= 1
        empty = measure(np.empty(0), rng)
        assert (empty.roi, empty.e_value, empty.profit_factor) == (0.0, 1.0, None)


FREIREICH = (
    [6, 6, 6, 7, 10, 13, 16, 22, 23, 6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35],
    [1] * 9 + [0] * 12,
)
"""Weeks of remission under 6-MP (Freireich et al. 1963), the textbook example of Kaplan and Meier's estimate."""


def simulated(rng: np.random.Generator, count: int, hazard: float = 0.005) -> Lifetimes:
    return lives(rng.geometric(hazard, size=count))


class TestHazards:
    def test_chi_square_is_that_of_scipy(self) -> None:
        for freedom in range(1, 12):
            for value in (0.0, 0.1, 1.0, 3.84, 12.0, 60.0):
                assert survival_chi2(value, freedom) == pytest.approx(stats.chi2.sf(value, freedom), rel=1e-9)
            assert quantile_chi2(0.95, freedom) == pytest.approx(stats.chi2.ppf(0.95, freedom), rel=1e-9)

    def test_kaplan_and_meier_is_the_textbook_one(self) -> None:
        end, ended = FREIREICH
        result = kaplan_meier(Lifetimes(np.zeros(21, np.int64), np.array(end), np.array(ended, bool)))
        expected = {6: 0.857, 7: 0.807, 10: 0.753, 13: 0.690, 16: 0.627, 22: 0.538, 23: 0.448}
        assert {age: round(result.at(age)[0], 3) for age in result.ages.tolist()} == expected
        assert result.at(23)[1:] == pytest.approx((0.188, 0.680), abs=0.002)  # log-log interval
        assert result.at(5) == (1.0, 1.0, 1.0)

    def test_late_entries_are_at_risk_from_then_on(self) -> None:
        result = kaplan_meier(Lifetimes(np.array([0, 0, 4]), np.array([3, 6, 5]), np.array([True, True, True])))
        assert result.alive == pytest.approx([1 / 2, 1 / 4, 0.0])

    def test_the_hazard_and_its_interval(self) -> None:
        rng = np.random.default_rng(21)
        result = simulated(rng, 600)
        hazard = constant_hazard(result)
        assert hazard.value == result.deaths / result.exposure
        exact = stats.binomtest(result.deaths, result.exposure).proportion_ci(0.95, "exact")
        assert hazard.interval == pytest.approx((exact.low, exact.high), rel=0.01)

    def test_the_interval_covers(self) -> None:
        rng = np.random.default_rng(22)
        inside = [
            low <= 0.005 <= high for low, high in (constant_hazard(simulated(rng, 100)).interval for _ in range(600))
        ]
        assert 0.93 < np.mean(inside) < 0.97

    def test_censored_and_late_lives_do_not_bias(self) -> None:
        rng = np.random.default_rng(23)
        ends, entered, cut = rng.geometric(0.02, 20_000), rng.integers(0, 60, 20_000), rng.integers(1, 150, 20_000)
        seen = (ends > entered) & (cut > entered)
        ends, entered, cut = ends[seen], entered[seen], cut[seen]
        lifetimes = Lifetimes(entered, np.minimum(ends, cut), ends <= cut)
        assert constant_hazard(lifetimes, 0.999).interval[0] < 0.02 < constant_hazard(lifetimes, 0.999).interval[1]
        assert weibull_test(lifetimes).p > 0.001
        assert piecewise_test(lifetimes, (20, 40, 80)).p > 0.001

    def test_weibull_is_that_of_a_general_optimiser(self) -> None:
        rng = np.random.default_rng(24)
        ends = np.ceil(50 * rng.weibull(1.5, size=400)).astype(np.int64)
        result = weibull_test(lives(ends))

        def minus(theta: Floats) -> float:
            rate, shape = np.exp(theta)
            inside = np.exp(-rate * (ends - 1.0) ** shape) - np.exp(-rate * ends**shape)
            return float(-np.log(np.maximum(inside, 1e-300)).sum())

        best = optimize.minimize(minus, [-5.0, 0.2], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10})
        plain = -stats.geom.logpmf(ends, 1 / ends.mean()).sum()
        assert result.estimates[0] == pytest.approx(math.exp(best.x[1]), rel=1e-4)
        assert result.statistic == pytest.approx(2 * (plain - best.fun), abs=1e-4)
        assert result.p < 1e-6

    def test_a_constant_hazard_is_rejected_as_often_as_it_should(self) -> None:
        rng = np.random.default_rng(25)
        rejected = []
        for _ in range(200):
            result = simulated(rng, 200)
            rejected.append((weibull_test(result).p < 0.05, piecewise_test(result, (50, 100, 200, 400)).p < 0.05))
        assert (np.mean(rejected, axis=0) < 0.10).all()
        assert (np.mean(rejected, axis=0) > 0.01).all()

    def test_a_hazard_that_rises_is_found(self) -> None:
        rng = np.random.default_rng(26)
        early = rng.geometric(0.003, 400)
        ends = np.where(early <= 150, early, 150 + rng.geometric(0.008, 400))
        result = lives(ends)
        assert piecewise_test(result, (150,)).p < 1e-3
        low, high = hazard_bands(result, (150,))
        assert low.value < 0.005 < high.value
        assert (low.deaths + high.deaths, low.exposure + high.exposure) == (result.deaths, result.exposure)

    def test_bands_hold_equally_many(self) -> None:
        result = simulated(np.random.default_rng(27), 600)
        counts = [band.deaths for band in hazard_bands(result, quantile_bands(result))]
        assert max(counts) - min(counts) < 20

    def test_nonsense_is_refused(self) -> None:
        with pytest.raises(InputError, match="seen alive"):
            Lifetimes(np.array([5]), np.array([3]), np.array([True]))
        with pytest.raises(InputError, match="rising"):
            hazard_bands(lives(np.array([3])), (5, 5))


class TestCalibration:
    def test_scores_of_a_small_sample(self) -> None:
        predicted, happened = np.array([0.1, 0.9, 0.5, 0.5]), np.array([False, True, True, False])
        result = calibrate(predicted, happened, list("aabb"), 0.5, np.random.default_rng(28))
        assert result.brier == pytest.approx(0.13)
        assert result.skill == pytest.approx(1 - 0.13 / 0.25)
        assert brier_score(predicted, happened) == pytest.approx(0.13)

    def test_a_predictor_that_knows_nothing_has_no_skill(self) -> None:
        rng = np.random.default_rng(29)
        names = np.repeat(np.arange(300), 20)
        happened = rng.random(6000) < 0.18
        noise = (0.18 + 0.02 * rng.normal(size=6000)).clip(0, 1)
        assert not calibrate(noise, happened, names, 0.18, rng).skilled
        truth = np.where(rng.random(6000) < 0.3, 0.55, 0.1)
        assert calibrate(truth, rng.random(6000) < truth, names, 0.235, rng).skilled

    def test_the_interval_of_the_skill_is_that_of_a_plain_loop(self) -> None:
        rng = np.random.default_rng(30)
        names = np.repeat(np.arange(60), 10)
        truth = np.repeat(rng.uniform(0.1, 0.9, size=60), 10)
        happened = rng.random(600) < truth
        result = calibrate(truth, happened, names, 0.5, rng)
        skills = []
        for _ in range(2000):
            rows = np.concatenate([np.flatnonzero(names == name) for name in rng.integers(60, size=60)])
            skills.append(1 - brier_score(truth[rows], happened[rows]) / 0.25)
        assert result.interval == pytest.approx(np.quantile(skills, [0.025, 0.975]), abs=0.03)

    def test_bins_tell_how_reliable(self) -> None:
        rng = np.random.default_rng(31)
        truth = rng.uniform(size=5000)
        happened = rng.random(5000) < truth
        bins = reliability(truth, happened, np.arange(5000), rng)
        assert len(bins) == 10
        assert all(bin_.interval[0] - 0.03 < bin_.predicted < bin_.interval[1] + 0.03 for bin_ in bins)
        assert calibration_error(truth, happened) < 0.03
        assert calibration_error(truth**3, happened) > 0.15

    @given(
        st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=30).filter(
            lambda rows: len({happened for _, happened in rows}) == 2
        )
    )
    def test_auc_is_that_of_scikit_learn(self, rows: list[tuple[int, bool]]) -> None:
        scores, happened = np.array([row[0] for row in rows], float), np.array([row[1] for row in rows])
        assert auc(scores, happened, np.arange(len(rows))).value == pytest.approx(roc_auc_score(happened, scores))

    def test_auc_covers_half_where_rows_of_a_window_are_alike(self) -> None:
        rng = np.random.default_rng(32)
        covered, naive = 0, 0
        for _ in range(300):
            names = np.repeat(np.arange(60), 15)
            scores = np.repeat(rng.normal(size=60), 15) + 0.1 * rng.normal(size=900)
            happened = np.repeat(rng.random(60) < 0.4, 15)
            covered += auc(scores, happened, names).holds(0.5)
            naive += auc(scores, happened, np.arange(900)).holds(0.5)
        assert 0.91 < covered / 300 < 0.985
        assert naive / 300 < 0.6

    def test_one_class_alone_has_no_auc(self) -> None:
        result = auc(np.zeros(3), np.ones(3, bool), list("abc"))
        assert result.holds(0.0)
        assert result.holds(1.0)


class TestWalkForward:
    @given(
        st.integers(10, 120), st.integers(1, 5), st.integers(0, 3), st.integers(0, 3), st.sampled_from([0.3, 0.5, 0.7])
    )
    def test_training_ends_before_its_test(
        self, count: int, folds: int, purge: int, embargo: int, first: float
    ) -> None:
        windows = [f"w{number:03d}" for number in range(count)]
        try:
            result = walk_forward(windows, folds, purge=purge, embargo=embargo, first=first)
        except ConfigError:
            assert count < 4 * (folds + purge) / first
            return
        assert len(result) == folds
        tested = [name for fold in result for name in fold.test]
        assert tested == windows[round(count * first) :]
        for number, fold in enumerate(result):
            start = windows.index(fold.test[0])
            assert all(windows.index(name) < start - purge for name in fold.train)
            for earlier in result[:number]:
                after = windows.index(earlier.test[-1]) + 1
                assert not set(fold.train) & set(windows[after : after + embargo])

    def test_nonsense_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="twice"):
            walk_forward(["a", "a"], 1)
        with pytest.raises(ConfigError, match="enough"):
            walk_forward(["a", "b", "c"], 3)


@pytest.mark.parametrize(("windows", "least"), [(3, 0.83), (5, 0.83), (10, 0.86), (30, 0.87)])
@pytest.mark.parametrize("law", ["normal", "heavy", "skewed"])
def test_intervals_of_few_windows_cover(windows: int, least: float, law: str) -> None:
    """Measured over 400 runs; a bootstrap alone covers 50 % at 2 windows and 75 % at 3 to 5."""
    rng = np.random.default_rng(windows)
    draw = {
        "normal": lambda: rng.normal(size=windows),
        "heavy": lambda: rng.standard_t(3, size=windows),
        "skewed": lambda: rng.exponential(size=windows) - 1.0,
    }[law]
    held = 0
    for _ in range(400):
        low, high = bootstrap_interval(draw(), rng, draws=300)
        held += low <= 0 <= high
    assert held / 400 >= (least if law == "skewed" else 0.9)


def test_two_windows_have_no_interval() -> None:
    assert bootstrap_interval(np.array([0.1, 0.2]), np.random.default_rng(1)) == (-np.inf, np.inf)
