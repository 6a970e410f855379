"""Worlds are what they say: theory, measurement beside it, and what the commands print."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from playproof.cli.app import main
from playproof.errors import ConfigError, UnknownName
from playproof.games.crash.players.baselines import make_baseline
from playproof.games.crash.players.tournament import play
from playproof.games.crash.rules import theory
from playproof.games.crash.rules.prices import RUG_CHANCE
from playproof.games.crash.rules.worlds import WORLDS, counter_round, get_world, site_round
from playproof.games.crash.sim.simulate import simulate

PUBLISHED = get_world("published")


@pytest.mark.parametrize(("ticks", "expected"), [(10, -0.0046), (40, -0.0189), (100, -0.0480), (200, -0.0961)])
def test_holding_loses_what_a_long_run_showed(ticks: int, expected: float) -> None:
    assert theory.hold_return(PUBLISHED, ticks) == pytest.approx(expected, abs=0.00011)


def test_theory_has_the_published_figures() -> None:
    assert pytest.approx(0.00446495625) == theory.GROWTH
    assert theory.survival(PUBLISHED, 138) == pytest.approx(0.995**138)
    assert theory.sidebet_return(PUBLISHED) == pytest.approx(5 * (1 - 0.995**40) - 1)
    assert theory.sidebet_return(get_world("fair")) == pytest.approx(0, abs=1e-5)
    assert 1 - theory.survival(get_world("instarug"), 5) == pytest.approx(0.05)
    assert get_world("instarug").ceiling == pytest.approx(theory.sidebet_return(get_world("instarug")))


def test_one_tick_of_theory_by_hand() -> None:
    value = 0.995 * 1.00446495625 + RUG_CHANCE * 0.02
    assert theory.hold_return(PUBLISHED, 1) == pytest.approx(value - 1, abs=1e-9)


@pytest.mark.parametrize("name", list(WORLDS))
def test_measurement_meets_theory(name: str) -> None:
    result = simulate(get_world(name), 1, 100_000)
    for table in (result.survival, result.hold):
        for ticks, row in table.items():
            assert row.sigmas < 4, (name, ticks, row)


def test_a_wrong_hazard_would_be_noticed() -> None:
    """The same measurement against the theory of another world stands far off."""
    result = simulate(get_world("hazard"), 1, 100_000)
    row = result.survival[50]
    assert abs(row.mean - theory.survival(PUBLISHED, 50)) > 20 * row.se


def test_fair_differs_from_published_in_the_rug_price_alone() -> None:
    for number in range(50):
        fair, published = (counter_round(get_world(name), 4, number) for name in ("fair", "published"))
        assert fair.prices[:-1] == published.prices[:-1]
        rho = 0.11147370625 if fair.prices[-2] <= 100 else 0.129375
        assert fair.rug_price == pytest.approx(rho * fair.prices[-2])


def test_hot_rounds_are_thirty_percent_and_four_times_as_dangerous() -> None:
    rounds = [counter_round(get_world("hazard"), 2, number) for number in range(3000)]
    hot = np.array([one.hot for one in rounds])
    ended = np.array([one.rug_tick <= 40 for one in rounds])
    assert hot.mean() == pytest.approx(0.3, abs=0.035)
    assert ended[hot].mean() == pytest.approx(1 - 0.98**40, abs=0.07)
    assert ended[~hot].mean() == pytest.approx(1 - 0.995**40, abs=0.035)


def test_drift_rises_in_countdowns_and_falls_outside() -> None:
    inside, outside = [], []
    big_inside = starts = chances = 0
    for number in range(1500):
        one = counter_round(get_world("drift"), 3, number)
        for tick in range(one.rug_tick - 1):
            change = one.prices[tick + 1] / one.prices[tick] - 1
            (inside if one.countdown[tick] else outside).append(change)
            if one.countdown[tick]:
                assert one.countdown[tick + 1] == one.countdown[tick] - 1
                big_inside += abs(change) > 0.12
            else:
                assert one.countdown[tick + 1] in (0, 20)
                chances += 1
                starts += one.countdown[tick + 1] == 20
    for changes, mean in ((inside, 0.01), (outside, -0.01)):
        assert abs(np.mean(changes) - mean) < 4 * np.std(changes) / np.sqrt(len(changes))
    assert big_inside == 0
    assert starts / chances == pytest.approx(1 / 40, rel=0.08)


def test_instarugs_come_in_five_percent_of_rounds_and_else_not_at_once() -> None:
    result = simulate(get_world("instarug"), 1, 100_000)
    assert (result.rug_ticks <= 5).mean() == pytest.approx(0.05, abs=0.003)
    counts = np.bincount(result.rug_ticks, minlength=7)[1:6]
    assert counts.min() > 0.85 * counts.mean()


def test_worlds_served_over_the_site_stream_are_the_same_worlds() -> None:
    rounds = [site_round(get_world("drift"), f"seed-{number}", "20250101-0000000000000000") for number in range(60)]
    assert any(max(one.countdown) == 20 for one in rounds)
    again = site_round(get_world("drift"), "seed-0", "20250101-0000000000000000")
    assert again == rounds[0]


def test_simulate_prints_what_was_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crash", "simulate", "--rounds", "20000", "--world", "fair", "--seed", "1", "--json"]) == 0
    payload = json.loads(capsys.readouterr().out)
    assert list(payload["survival"]) == ["50", "100", "138", "200", "300"]
    assert list(payload["hold"]) == ["10", "40", "100", "200"]
    assert set(payload["hold"]["10"]) == {"mean", "se", "theory"}
    assert payload["hold"]["200"]["theory"] == 0
    assert main(["crash", "simulate", "--rounds", "1"]) == 1
    assert main(["crash", "simulate", "--rounds", "10", "--world", "moon"]) == 1
    assert "published" in capsys.readouterr().err


def test_unknown_worlds_and_too_few_rounds_are_refused() -> None:
    with pytest.raises(UnknownName):
        get_world("moon")
    with pytest.raises(ConfigError):
        simulate(PUBLISHED, 1, 1)


def test_baselines_are_scored_in_money() -> None:
    wait = play("wait", make_baseline("wait"), "published", 600, 1)
    assert (wait.pnl, wait.staked, wait.roi, wait.se) == (0.0, 0.0, 0.0, 0.0)
    bets = play("sidebet", make_baseline("sidebet"), "hazard", 1500, 1)
    assert bets.rounds == 1500
    assert bets.interval[0] > 0  # three rounds in ten win more than half of their bets
    held = play("hold-20", make_baseline("hold-20"), "drift", 1000, 1)
    assert held.positions == 1000
    assert held.staked == pytest.approx(1.0)
    assert held.interval[1] < 0


def test_the_demonstration_writes_its_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crash", "demo", "--output", str(tmp_path), "--rounds", "5000", "--played", "100", "--json"]) == 0
    payload = json.loads(capsys.readouterr().out)
    assert payload["verified"] == 5
    assert len(payload["baselines"]) == 7
    page = Path(payload["page"]).read_text()
    assert "not playing" in page
    assert page.count("<figure data-chart") == 4
    assert len(page) < 1_000_000
    assert "http://" not in page.split("</style>")[0]


def test_baselines_command(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["crash", "baselines", "--rounds", "200", "--only", "wait", "--only", "hold-10", "--json"]
    assert main(arguments) == 0
    payload = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in payload["baselines"]] == ["wait", "hold-10"]
    assert main(["crash", "baselines", "--only", "luck"]) == 1
