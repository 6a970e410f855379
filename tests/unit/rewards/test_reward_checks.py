"""The checks on rewards: every mutant is killed, no clean variant is accused, and the commands say so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from playproof.cli.app import main
from playproof.errors import ConfigError
from playproof.game import Game, Reward, load_game
from playproof.games.crash.rewards.mutants import BROKEN, CLEAN, MUTANTS
from playproof.rewards import ExploitReport, check_reward, find_exploits
from playproof.rewards.discount import check_discount, worthless_world
from playproof.rewards.plays import Plays, discounted, money_weight, walk
from playproof.rewards.zoo import ThresholdRule, Zoo, ZooSetup
from playproof.testing import coin

ON_PLAYS = ("R1", "R2", "R3", "R4", "R5")
STAKE = "sidebet marked at its stake"


@pytest.fixture(scope="module")
def game() -> Game:
    return load_game("crash")


@pytest.fixture(scope="module")
def plays(game: Game) -> Plays:
    return Plays(game, 1, 18)


@pytest.fixture(scope="module")
def broken(game: Game) -> ExploitReport:
    return find_exploits(game, BROKEN, 1, 800)


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_killed(game: Game, plays: Plays, name: str) -> None:
    mutant = MUTANTS[name]
    failed = check_reward(game, mutant.reward, 1, plays=plays, zoo_windows=0).failed
    assert set(mutant.killed_by) - {"R8"} <= set(failed)
    assert failed or mutant.killed_by == ("R8",)


@pytest.mark.parametrize("name", CLEAN)
def test_no_clean_variant_is_accused(game: Game, plays: Plays, name: str) -> None:
    report = check_reward(game, CLEAN[name], 1, plays=plays, zoo_windows=0)
    assert not report.failed, report.findings
    assert [finding.check for finding in report.findings if finding.status == "passed"] == list(ON_PLAYS)


def test_a_sidebet_marked_at_its_stake_is_found_by_the_discount_alone(game: Game, plays: Plays) -> None:
    reward = MUTANTS[STAKE].reward
    assert not check_reward(game, reward, 1, plays=plays, zoo_windows=0).failed
    assert find_exploits(game, reward, 1, 800).passed
    discount = check_discount(game, reward, 1, 0.99, 14_000)
    assert discount.status == "failed", discount
    assert "SIDEBET" in discount.detail
    assert "ROI -" in discount.detail


@pytest.mark.torture
def test_without_a_discount_the_same_bet_is_worth_what_it_pays(game: Game) -> None:
    assert check_discount(game, MUTANTS[STAKE].reward, 1, 1.0, 800).status == "passed"


@pytest.mark.parametrize("name", ["minimal", "shaping by an open sidebet"])
def test_clean_variants_pass_the_zoo(game: Game, name: str) -> None:
    assert check_discount(game, CLEAN[name], 1, 0.99, 600).status == "passed"


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", CLEAN)
def test_clean_variants_pass_everything_at_full_size(game: Game, name: str, seed: int) -> None:
    assert not check_reward(game, CLEAN[name], seed).failed
    assert find_exploits(game, CLEAN[name], seed).passed


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(8))
def test_the_discount_finds_the_marked_sidebet_with_every_seed(game: Game, seed: int) -> None:
    assert check_reward(game, MUTANTS[STAKE].reward, seed).failed == ("R8",)


def test_nothing_is_found_in_an_honest_reward(game: Game) -> None:
    report = find_exploits(game, CLEAN["minimal"], 1, 800)
    assert report.passed
    assert report.honest == 0.0
    assert {item.origin for item in report.best} <= {"zoo", "search"}


def test_the_sell_spam_is_found_and_told(broken: ExploitReport) -> None:
    worst = broken.exploits[0]
    assert not broken.passed
    assert worst.mix["SELL"] > 0.9
    assert worst.reward > 1000.0
    assert (worst.pnl, worst.roi, worst.positions) == (0.0, 0.0, 0.0)
    assert worst.no_effect > 0.9
    assert "SELL" in worst.story
    assert "0 positions" in worst.story


@pytest.mark.torture
@pytest.mark.parametrize("name", ["gains only", "rug never booked", "unclipped bonus", "pay for pressing"])
def test_the_search_finds_other_mutants_too(game: Game, name: str) -> None:
    report = find_exploits(game, MUTANTS[name].reward, 1)
    assert not report.passed
    assert all(exploit.roi <= 0.0 for exploit in report.exploits[:1])


def test_networks_find_what_the_zoo_does_not_try(game: Game) -> None:
    result = find_exploits(game, MUTANTS["gains only"].reward, 2, 1200, thorough=True)
    assert any(exploit.origin == "search" and exploit.reward > 0.0 for exploit in result.exploits)


def test_the_same_seed_says_the_same(game: Game) -> None:
    ground = ZooSetup(game, BROKEN, "published", 4, 0.99, 0.0)
    zoo = ground.zoo()
    assert zoo == ground.zoo()
    assert ground.try_rules(zoo[:8], 8, 1) == ground.try_rules(zoo[:8], 8, 1)


def test_another_game_is_checked_as_far_as_it_goes() -> None:
    game = coin.game()
    profit = game.rewards().presets["profit"]
    statuses = {finding.check: finding.status for finding in check_reward(game, profit, 1, zoo_windows=400).findings}
    lanes = "skipped" if game.simulation is None else "passed"
    assert statuses == dict(
        zip((*ON_PLAYS, "R8"), ("passed", "passed", "skipped", "passed", "skipped", lanes), strict=True)
    )
    flipped = Reward(
        "flipped", "1", "", {"flipped": lambda steps, outcome: [-item for item in coin.profit(steps, outcome)]}
    )
    assert "R4" in check_reward(game, flipped, 1, zoo_windows=0).failed
    none = find_exploits(replace(game, simulation=None), profit, 1)
    assert none.passed
    assert "no lanes" in none.note
    assert {
        finding.check: finding.status for finding in check_reward(replace(game, simulation=None), profit, 1).findings
    }["R8"] == "skipped"


def test_an_honest_world_is_looked_for(game: Game) -> None:
    assert worthless_world(game) == "published"
    assert worthless_world(coin.game()) == "fair"


def test_rules_choose_by_feature_by_step_and_by_chance() -> None:
    rules = [
        ThresholdRule("a", "", (1, 0), (2, 0), feature=1, cut=0.5),
        ThresholdRule("b", "", (3, 0), (0, 0), period=2),
        ThresholdRule("c", "", (0, 0), (0, 0), random=True),
    ]
    zoo = Zoo(rules, 2, (4, 9))
    rows = np.array([[0, 0], [0, 1]] * 3, np.float32)
    ages = np.array([0, 0, 0, 1, 0, 0])
    acted = zoo.act(rows, ages, np.random.default_rng(0))
    assert acted[:4].tolist() == [[2, 0], [1, 0], [3, 0], [0, 0]]
    drawn = np.concatenate([zoo.act(rows, ages, np.random.default_rng(seed))[4:] for seed in range(60)])
    assert set(drawn[:, 0]) == set(range(4))
    assert set(drawn[:, 1]) == set(range(9))


def test_the_zoo_counts_what_a_plain_loop_counts(game: Game) -> None:
    ground = ZooSetup(game, CLEAN["costs"], "published", 3, 0.9, 1.0 / 1e9)
    rule = ThresholdRule("hold", "", (1, 0), (2, 0), period=7)
    payload = ground.try_rules([rule], 12, 1)[0]
    lanes = ground.lanes(4, 1)
    windows, ages = {lane: [] for lane in range(4)}, np.zeros(4, int)  # type: ignore[var-annotated]
    running: Any = [[0.0, 0.0] for _ in range(4)]
    lanes.start()
    while min(map(len, windows.values())) < 3:
        moved = lanes.step(np.array([(1, 0) if age % 7 == 0 else (2, 0) for age in ages], np.int64))
        for lane in range(4):
            running[lane][0] += moved.rewards[lane]
            running[lane][1] += 0.9 ** ages[lane] * moved.rewards[lane]
            ages[lane] += 1
        for index, lane in enumerate(moved.ended.lanes.tolist()):
            windows[lane].append((*running[lane], moved.ended.pnl[index]))
            running[lane], ages[lane] = [0.0, 0.0], 0
    kept = np.array([window for of in windows.values() for window in of[:3]])
    assert payload.windows == 12
    assert payload.reward == pytest.approx(kept[:, 0].mean(), abs=1e-12)
    assert payload.discounted == pytest.approx(kept[:, 1].mean(), abs=1e-12)
    assert payload.pnl == pytest.approx(kept[:, 2].mean() / 1e9, abs=1e-15)


def test_the_worth_of_money_is_read_from_the_reward(plays: Plays) -> None:
    scored = [item.score(CLEAN["scaled"]) for item in plays.anything]
    assert money_weight(scored) == pytest.approx(100.0 / 1e9)
    assert discounted(np.array([1.0, 1.0, 1.0]), 0.5) == 1.75


def test_ladders_are_ladders_and_cycles_come_back(game: Game, plays: Plays) -> None:
    assert plays.probes is not None
    for ladder in plays.ladders:
        money = [rung.steps[-1].after.equity for rung in ladder]
        assert money == sorted(money)
        assert money[0] < money[-1]
    back = [len({plays.probes.state(step.before) for step in cycle.steps}) < len(cycle.steps) for cycle in plays.cycles]
    assert all(back)
    bought = [cycle for cycle in plays.cycles if cycle.steps[-1].after.opened > 5]
    assert len(bought) > 5
    again = walk(game, plays.cycles[0].play, plays.probes.actions)
    assert again == plays.cycles[0].steps


def test_a_discount_must_be_one(game: Game) -> None:
    with pytest.raises(ConfigError, match="discount"):
        check_reward(game, CLEAN["minimal"], 1, gamma=1.5)


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, Any]:
    code = main(["reward", *args, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_the_commands_answer_with_exit_codes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, listed = run(capsys, "ls")
    assert code == 0
    assert len(listed["components"]) == 17
    code, report = run(capsys, "check", "minimal", "--windows", "0")
    assert (code, report["passed"], report["warnings"]) == (0, True, [])
    bad = tmp_path / "bad.yaml"
    bad.write_text(
        "global: {enabled_components: [financial, patience, survival_bonus]}\n"
        "patience: {bonus: 0.01}\nsurvival_bonus: {bonus: 0.1}\n"
    )
    code, report = run(capsys, "check", str(bad), "--windows", "0")
    assert (code, report["passed"]) == (2, False)
    assert {"R2", "R4"} <= set(report["failed"])
    assert len(report["warnings"]) == 2
    code, report = run(capsys, "exploit", str(bad), "--budget", "400")
    assert (code, report["passed"]) == (2, False)
    assert "survival_bonus" in capsys.readouterr().err or report["exploits"][0]["story"]
