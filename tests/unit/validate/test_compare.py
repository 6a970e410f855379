"""Comparing policies: on the same windows, in pairs, honest about how many comparisons there are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine

from playproof.cli.app import main
from playproof.errors import ConfigError
from playproof.evaluate.trials import trials
from playproof.game import load_game
from playproof.games.crash.players.optimum import best_policy
from playproof.home import home
from playproof.money import UNIT
from playproof.reports.compare import compare_page, share
from playproof.stats.evidence import joint_test
from playproof.store.db import connect, opened, ready
from playproof.validate.compare import Comparison, compare, weigh
from playproof.validate.examine import EvalPlan, Subject, load_subject

CRASH = load_game("crash")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = ready(connect(tmp_path))
    yield made
    made.dispose()


def plan(world: str = "published", rounds: int = 200, ceiling: float | None = 0.0) -> EvalPlan:
    return EvalPlan(world, f"world {world}", f"hash of {world} {rounds}", "test", rounds, 3, ceiling=ceiling)


def baseline(name: str) -> Subject:
    return load_subject(CRASH, name)


def differences(*columns: np.ndarray) -> tuple[Any, ...]:
    table = np.column_stack(columns)
    joint = joint_test(table, np.ones_like(table), np.zeros(table.shape[1]), np.random.default_rng(1))
    return weigh(table, joint, np.random.default_rng(2))


def test_a_policy_against_itself_differs_by_exactly_nothing(engine: Engine) -> None:
    result = compare(CRASH, [baseline("hold-40"), baseline("hold-40")], plan(), engine, NOW)
    gap = result.rows[1].difference
    assert gap is not None
    assert (gap.mean, gap.alone, gap.together) == (0.0, (0.0, 0.0), (0.0, 0.0))
    assert (gap.better, gap.worse, gap.finding) == (0, 0, "the same in every window")
    assert [row.subject.name for row in result.rows] == ["hold-40", "hold-40 (2)"]
    assert (result.joint.p, result.superior.p) == (1.0, 1.0)
    assert "no difference" in result.sentence


def test_the_other_order_negates_the_difference(engine: Engine) -> None:
    pair = [baseline("hold-40"), baseline("sidebet")]
    one, other = (compare(CRASH, order, plan(), engine, NOW).rows[1].difference for order in (pair, pair[::-1]))
    assert one is not None and other is not None  # noqa: PT018
    assert one.mean == -other.mean
    assert (one.better, one.worse) == (other.worse, other.better)
    assert one.together == pytest.approx((-other.together[1], -other.together[0]), rel=1e-12)
    assert one.alone == pytest.approx((-other.alone[1], -other.alone[0]), rel=1e-9)


def test_differences_are_paired_by_window(engine: Engine) -> None:
    result = compare(CRASH, [baseline("wait"), baseline("hold-40"), baseline("sidebet")], plan(), engine, NOW)
    assert len({row.played.windows for row in result.rows}) == 1
    for row in result.rows[1:]:
        gaps = row.returns - result.rows[0].returns
        assert row.difference is not None
        assert row.difference.mean == pytest.approx(gaps.mean(), rel=1e-12)
        assert row.difference.better == int((gaps > 0).sum())
    pnl = result.rows[1].played.pnl
    assert result.to_json()["policies"][1]["pnl"] == int(pnl.sum())


def test_a_planted_better_policy_is_found(engine: Engine) -> None:
    best = Subject("best", best_policy("drift"), "hash of best", "tests", UNIT // 10)
    result = compare(CRASH, [baseline("wait"), best, baseline("sidebet")], plan("drift", 200, None), engine, NOW)
    assert next(row.difference.finding for row in result.rows[1:] if row.difference) == "better"
    assert result.superior.p < 0.05
    assert result.joint.p < 0.05
    assert result.sentence.startswith("best earned more than wait")
    assert "not known" in compare_page(result)


def test_many_comparisons_widen_the_intervals() -> None:
    rng = np.random.default_rng(5)
    columns = [rng.normal(0.0, 1.0, 400) for _ in range(12)]
    alone, together = differences(columns[0])[0], differences(*columns)[0]
    assert alone.mean == pytest.approx(together.mean, rel=1e-12)
    wide, narrow = (gap.together[1] - gap.together[0] for gap in (together, alone))
    assert wide > 1.25 * narrow


def test_all_at_once_is_rarely_wrong() -> None:
    rng = np.random.default_rng(6)
    runs, wrong, naive = 150, 0, 0
    for _ in range(runs):
        result = differences(*(rng.normal(0.0, 1.0, 80) for _ in range(8)))
        wrong += any(gap.finding in ("better", "worse") for gap in result)
        naive += any(not gap.alone[0] <= 0 <= gap.alone[1] for gap in result)
    assert wrong <= 0.05 * runs + 3 * (0.05 * 0.95 * runs) ** 0.5, "about 5 % of the comparisons of nothing"
    assert naive > 0.2 * runs, "taken one by one something is nearly always found"


def test_every_evaluation_is_written_down_once(engine: Engine) -> None:
    pair = [baseline("wait"), baseline("hold-40")]
    first = compare(CRASH, pair, plan(rounds=20), engine, NOW)
    again = compare(CRASH, pair, plan(rounds=20), engine, NOW)
    kept = trials(engine)
    assert len(kept) == first.looks == again.looks == 2
    assert {trial.origin for trial in kept} == {"playproof compare"}
    assert {trial.policy_hash: trial.pnl for trial in kept} == {
        row.subject.policy_hash: tuple(row.played.pnl.tolist()) for row in first.rows
    }
    assert [row.new_look for row in first.rows] == [True, True]
    assert [row.new_look for row in again.rows] == [False, False]
    assert compare_page(first) == compare_page(again)


def test_one_policy_alone_is_refused(engine: Engine) -> None:
    with pytest.raises(ConfigError, match="at least two"):
        compare(CRASH, [baseline("wait")], plan(), engine, NOW)


def test_small_shares_keep_their_digits() -> None:
    assert share(-0.00003) == "-0.003%"
    assert share(0.0) == "+0.00%"
    assert share(0.5) == "+50.00%"


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asked = ["compare", "wait", "hold-40", "--rounds", "40", "--seed", "2"]
    assert main([*asked, "--json", "--output", str(tmp_path / "c.html")]) == 0
    payload = json.loads(capsys.readouterr().out)
    assert [item["name"] for item in payload["policies"]] == ["wait", "hold-40"]
    assert payload["policies"][0]["difference"] is None
    assert payload["ceiling"] == 0.0
    assert payload["comparisons"] == 1
    assert Path(payload["page"]).read_text().startswith("<!doctype html>")
    assert main(asked) == 0
    assert "the best possible" in capsys.readouterr().out
    with opened(home()) as engine:
        assert len(trials(ready(engine))) == 2
    for wrong in (["wait"], ["wait", "nothing"], ["wait", "hold-40", "--data", "x", "--world", "published"]):
        assert main(["compare", *wrong]) == 1


@pytest.fixture
def compared(engine: Engine) -> Comparison:
    return compare(CRASH, [baseline(item) for item in ("wait", "hold-40", "sidebet")], plan(rounds=60), engine, NOW)


@pytest.mark.browser
def test_the_page_fits_a_phone_without_a_network(compared: Comparison, chromium: Path, tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    hostile = "<script>document.title='run'</script>"
    rows = tuple(replace(row, subject=replace(row.subject, name=hostile)) for row in compared.rows)
    path = tmp_path / "compare.html"
    path.write_text(compare_page(replace(compared, rows=rows)), encoding="utf-8")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=str(chromium), args=["--no-sandbox"])
        shown = browser.new_context(viewport={"width": 390, "height": 844}, offline=True).new_page()
        failures: list[str] = []
        shown.on("pageerror", lambda error: failures.append(str(error)))
        shown.on("request", lambda request: request.url.startswith("http") and failures.append(request.url))
        shown.goto(path.as_uri())
        shown.wait_for_selector("figure[data-drawn] >> nth=2")
        returns, differences, profit = (json.loads(item) for item in shown.locator("figure script").all_text_contents())
        assert [item["y"] for item in returns["series"]] == [[0], [1], [2]], "three returns"
        assert [item["y"] for item in differences["series"]] == [[1], [1], [2], [2]], "two differences, two intervals"
        assert len(profit["series"]) == 3
        assert shown.evaluate("document.documentElement.scrollWidth") <= 390
        assert shown.title() != "run"
        browser.close()
    assert not failures
