"""Selection: the published deflated Sharpe ratio, PBO against a plain loop, SPA's size beside the naive test's."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from playproof.errors import InputError
from playproof.stats.selection import (
    deflated_sharpe,
    lucky_sharpe,
    overfit_probability,
    sharpe_probability,
    step_down,
    superior_ability,
)

Floats = NDArray[np.float64]


def best_of(policies: int, windows: int, rng: np.random.Generator) -> Floats:
    """Returns of policies without edge that share a little of their luck: (windows, policies)."""
    common = rng.normal(size=(windows, 1))
    return 0.25 * common + rng.normal(size=(windows, policies))


class TestDeflatedSharpe:
    def test_the_published_example(self) -> None:
        """Bailey and Lopez de Prado (2014): 100 trials, variance 1/2 a year, 5 years of days, Sharpe 2.5 a year."""
        sharpe, days = 2.5 / math.sqrt(250), 1250
        bar = lucky_sharpe(100, 1 / 2 / 250)
        assert bar == pytest.approx(0.1132, abs=5e-5)
        assert sharpe_probability(sharpe, bar, days, -3, 10) == pytest.approx(0.9004, abs=5e-5)

    def test_fewer_trials_would_have_been_enough(self) -> None:
        """The same paper: with 46 trials the same strategy reaches 0.9505."""
        result = sharpe_probability(2.5 / math.sqrt(250), lucky_sharpe(46, 1 / 500), 1250, -3, 10)
        assert result == pytest.approx(0.9505, abs=5e-5)

    def test_the_bar_is_the_mean_best_of_lucky_trials(self) -> None:
        best = np.random.default_rng(1).normal(scale=0.1, size=(20_000, 50)).max(axis=1)
        assert lucky_sharpe(50, 0.01) == pytest.approx(best.mean(), rel=0.02)

    def test_one_trial_is_not_deflated(self) -> None:
        rng = np.random.default_rng(2)
        returns = rng.normal(0.2, 1, size=400)
        result = deflated_sharpe(returns, np.array([0.2]))
        assert result.bar == 0
        t = returns.mean() / returns.std(ddof=1) * math.sqrt(399)
        assert result.probability == pytest.approx(stats.norm.cdf(t), abs=0.01)

    def test_more_trials_leave_less(self) -> None:
        rng = np.random.default_rng(3)
        returns = rng.normal(0.2, 1, size=400)
        few, many = (
            deflated_sharpe(returns, np.r_[0.2, rng.normal(0, 0.07, size=count)]).probability for count in (3, 300)
        )
        assert few > 0.95 > many

    def test_what_luck_explains_is_a_bar_that_no_luck_passes_and_an_edge_does(self) -> None:
        """The trials' variance is capped at what luck makes it: hardly any run without an edge, nearly all with one."""
        rng, windows, tries = np.random.default_rng(4), 300, 26
        losing = np.where(np.arange(tries) % 2, 0.5, 0.0)
        passed = dict.fromkeys(("independent", "shared", "losing", "edge", "edge, published"), 0)
        runs = 100
        for _ in range(runs):
            own = rng.normal(size=(windows, tries))
            shared = math.sqrt(0.5) * rng.normal(size=(windows, 1)) + math.sqrt(0.5) * own
            edge = own - losing + 0.35 * (np.arange(tries) == 0)
            for name, table in (("independent", own), ("shared", shared), ("losing", own - losing), ("edge", edge)):
                sharpes = table.mean(axis=0) / table.std(axis=0, ddof=1)
                best = table[:, sharpes.argmax()]
                passed[name] += deflated_sharpe(best, sharpes, 1 / (windows - 1)).probability >= 0.95
                if name == "edge":
                    passed["edge, published"] += deflated_sharpe(best, sharpes).probability >= 0.95
        assert max(passed[name] for name in ("independent", "shared", "losing")) <= 0.05 * runs
        assert passed["edge"] >= 0.9 * runs
        assert passed["edge, published"] == 0, "the losers' badness would be taken for luck"

    def test_nothing_earned_is_no_skill(self) -> None:
        assert deflated_sharpe(np.zeros(10), np.zeros(5)).probability == 0
        with pytest.raises(InputError, match="at least one trial"):
            lucky_sharpe(0, 1.0)


def slow_overfit(returns: Floats, blocks: int) -> float:
    """PBO as the paper tells it, loop by loop; ties at half ranks."""
    parts = np.split(returns, np.linspace(0, len(returns), blocks + 1).astype(int)[1:-1])
    below = 0
    for members in combinations(range(blocks), blocks // 2):
        inside = np.concatenate([parts[member] for member in members])
        outside = np.concatenate([parts[index] for index in range(blocks) if index not in members])
        best = int(np.argmax(inside.mean(axis=0) / inside.std(axis=0, ddof=1)))
        rank = stats.rankdata(outside.mean(axis=0) / outside.std(axis=0, ddof=1))[best]
        share = rank / (returns.shape[1] + 1)
        below += math.log(share / (1 - share)) <= 0
    return below / math.comb(blocks, blocks // 2)


class TestOverfit:
    @given(st.integers(0, 10_000), st.integers(2, 6), st.sampled_from([2, 4, 6]), st.integers(0, 5))
    def test_it_is_that_of_a_plain_loop(self, seed: int, policies: int, blocks: int, extra: int) -> None:
        returns = np.random.default_rng(seed).normal(size=(4 * blocks + extra, policies))
        assert overfit_probability(returns, blocks).probability == slow_overfit(returns, blocks)

    def test_luck_does_not_last_and_skill_does(self) -> None:
        rng = np.random.default_rng(4)
        luck = np.mean([overfit_probability(rng.normal(size=(320, 20)), 8).probability for _ in range(40)])
        skill = rng.normal(size=(320, 20))
        skill[:, 7] += 0.3
        assert luck == pytest.approx(0.5, abs=0.1)
        assert overfit_probability(skill).probability < 0.05

    def test_too_little_is_refused(self) -> None:
        with pytest.raises(InputError, match="even number of blocks"):
            overfit_probability(np.zeros((10, 3)), 16)


class TestSuperiorAbility:
    def test_the_best_of_many_passes_a_naive_test_and_not_this_one(self) -> None:
        rng = np.random.default_rng(5)
        naive = spa = 0
        runs, windows = 40, 150
        for seed in range(runs):
            returns = best_of(50, windows, rng)
            t = returns.mean(axis=0) / returns.std(axis=0, ddof=1) * math.sqrt(windows)
            naive += t.max() > stats.norm.isf(0.05)
            spa += superior_ability(returns, seed, draws=100).p < 0.05
        assert naive / runs > 0.7
        assert spa / runs <= 0.12  # at most 4 of 40

    @pytest.mark.torture
    def test_the_sizes_at_full_count(self) -> None:
        rng = np.random.default_rng(6)
        naive = spa = 0
        for seed in range(400):
            returns = best_of(50, 300, rng)
            t = returns.mean(axis=0) / returns.std(axis=0, ddof=1) * math.sqrt(300)
            naive += t.max() > stats.norm.isf(0.05)
            spa += superior_ability(returns, seed, draws=500).p < 0.05
        assert 0.83 < naive / 400 < 0.93
        assert spa / 400 < 0.075

    def test_a_real_edge_among_many_is_found(self) -> None:
        rng = np.random.default_rng(7)
        returns = best_of(30, 400, rng)
        returns[:, 11] += 0.35
        result = superior_ability(returns, 1, draws=300)
        assert result.p < 0.02
        assert (result.policies, result.windows) == (30, 400)

    def test_the_same_seed_gives_the_same_p(self) -> None:
        returns = best_of(5, 100, np.random.default_rng(8))
        assert superior_ability(returns, 3, draws=200) == superior_ability(returns, 3, draws=200)

    def test_who_does_nothing_shows_nothing(self) -> None:
        assert superior_ability(np.zeros((50, 3)), 1).p == 1.0
        assert superior_ability(np.empty((0, 2)), 1).p == 1.0

    def test_a_benchmark_may_be_given(self) -> None:
        rng = np.random.default_rng(9)
        market = rng.normal(0.5, 1, size=(300, 1))
        returns = market + 0.3 * rng.normal(size=(300, 4))
        assert superior_ability(returns, 1, draws=200).p < 0.05
        assert superior_ability(returns, 1, benchmark=market[:, 0], draws=200).p > 0.05


def test_the_step_down_test_is_about_the_candidate() -> None:
    """A strong policy beside coin players with larger stakes keeps its p; a losing one beside it gets no help."""
    rng = np.random.default_rng(3)
    strong, losing = rng.normal(0.004, 0.01, 2000), rng.normal(-0.002, 0.01, 2000)
    coins = rng.choice([-1.0, 1.0], size=(2000, 10))
    table = np.column_stack([strong, losing, coins])
    assert step_down(table, 1).p < 0.01
    assert step_down(table, 1, candidate=1).p > 0.5
    assert superior_ability(table, 1, draws=300).p > 0.05, "unstudentised, the coins hide it"


def test_the_step_down_test_holds_its_size() -> None:
    """The best of 20 policies without skill is accused in about 5 % of the cases, t alone in most."""
    rng = np.random.default_rng(5)
    runs, accused, alone = 150, 0, 0
    for seed in range(runs):
        table = rng.standard_t(5, size=(200, 20)) * np.geomspace(0.01, 1, 20)
        best = int(np.argmax(table.mean(axis=0) / table.std(axis=0)))
        test = step_down(table, seed, best, draws=400)
        accused += test.p < 0.05
        alone += test.t > 1.645
    assert accused <= 17, accused  # 5 % of 150 is 7.5; more than 17 refutes it at 1 in 1,000
    assert alone > 60


def test_the_step_down_test_of_nothing() -> None:
    assert step_down(np.zeros((50, 3)), 1).p == 1.0
    assert step_down(np.empty((0, 2)), 1).p == 1.0
    alone = np.random.default_rng(1).normal(0.1, 0.1, (100, 1))
    assert step_down(alone, 1) == step_down(alone, 1)
