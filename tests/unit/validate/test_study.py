"""The validator's own validation: rules that earn what lanes pay, runs that repeat, notes that survive a kill."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from playproof.errors import InputError
from playproof.evaluate.rollout import rollout
from playproof.game import load_game
from playproof.game.vector_env import ReplayTape
from playproof.games.crash.players.baselines import AlwaysSidebet, Hold
from playproof.games.crash.sim.lanes import make_tape
from playproof.money import UNIT
from studies.validator import study
from studies.validator.command import app
from studies.validator.crash import BET, GRID, SIDEBET, STUDY, PlayRule
from studies.validator.page import write_page
from studies.validator.study import (
    LEAKS,
    RARE,
    SAMPLES,
    SIZES,
    WANTED,
    Share,
    StudyConfig,
    StudyNotes,
    StudyTask,
    TargetRate,
    Unit,
    commits,
    costs,
    left,
    run_unit,
    summarise,
    timed_unit,
    units,
)

GAME = load_game("crash")
TINY = StudyConfig("crash", nulls=2, edges=1, leaks=1, rewards=0, sizes=5, train=60, validation=80, test=80, pilot=400)


def test_a_rule_earns_to_the_unit_what_lanes_pay() -> None:
    dealt = STUDY.deal("published", 40, (1, 2))
    rounds = dealt.material
    prices = [rounds.prices[a:b].tolist() for a, b in zip(rounds.starts[:-1], rounds.starts[1:], strict=True)]
    tape = ReplayTape(dealt.windows, make_tape(prices, dealt.windows))
    bet = 0.001
    pairs = (
        (PlayRule(ticks=7, bet=UNIT // 1000), Hold(bet, k=7)),
        (PlayRule(ticks=40, bet=UNIT // 1000), Hold(bet, k=40)),
    )
    for rule, policy in pairs:
        played = rollout(GAME, policy, tape, None, 1, stake=GAME.defaults.stake)
        assert STUDY.play(rule, dealt).pnl.tolist() == played.pnl.tolist()
    late = rollout(GAME, Hold(bet, k=7), tape, None, 1, stake=GAME.defaults.stake)
    assert int(late.opened.sum()) == int(STUDY.play(pairs[0][0], dealt).opened.sum())


def test_sidebets_are_settled_as_the_lanes_settle_them() -> None:
    dealt = STUDY.deal("published", 30, (3, 4))
    rounds = dealt.material
    own = STUDY.play(PlayRule(SIDEBET, first=0, again=True, bet=UNIT // 1000), dealt)
    lengths = np.diff(rounds.starts) - 1
    bets = -(-lengths // 40)
    expected = (UNIT // 1000) * (5 - bets)  # the last one always covers the rug
    assert own.pnl.tolist() == expected.tolist()
    assert AlwaysSidebet(0.001).target == UNIT // 1000


def test_worse_terms_and_chance_are_other_play() -> None:
    dealt = STUDY.deal("drift", 60, (5,))
    own = GRID["hold 20 in a countdown"]
    assert STUDY.play(own, dealt).pnl.sum() > STUDY.play(own, dealt, delay=2).pnl.sum()
    assert own.bet == BET
    assert STUDY.play(PlayRule(), dealt).pnl.min() >= -BET


def test_the_same_run_gives_the_same_result() -> None:
    task = StudyTask(TINY, Unit("null", "fair", 0))
    assert run_unit(task) == run_unit(task)
    assert run_unit(task) != run_unit(StudyTask(TINY, Unit("null", "fair", 1)))


def test_a_report_that_asks_for_too_much_counts_as_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "MOST", 1)
    unit = run_unit(StudyTask(TINY, Unit("edge", "drift", 0)))
    assert unit["needed"] > 1
    assert unit["verdict"] == "too many windows"


@pytest.mark.parametrize("leak", LEAKS)
def test_planted_leaks_are_caught_and_clean_pipelines_are_not_accused(leak: str) -> None:
    caught = run_unit(StudyTask(TINY, Unit("leak", leak, 0)))["caught"]
    assert bool(caught) == (leak != "clean")


def test_shares_are_what_they_should_be_or_not() -> None:
    assert Share("null", "x", 12, 400, RARE).met
    assert not Share("null", "x", 28, 400, RARE).met
    assert Share("null", "x", 1, 10, RARE).met, "one of ten does not refute a twentieth"
    assert not Share("null", "x", 9, 10, RARE).met


def test_known_figures_are_met_as_far_as_luck_goes_and_no_runs_meet_nothing() -> None:
    known = TargetRate("86 to 91 %", 0.86, 0.91, known=True)
    assert Share("size", "x", 340, 400, known).met
    assert not Share("size", "x", 390, 400, known).met
    assert not Share("ppo", "x", 0, 0, WANTED["edge"]).met


def test_tests_of_fair_games_reject_as_often_as_is_known() -> None:
    runs = [Unit("size", name, number) for name in SIZES[:3] for number in range(8)]
    done = {unit.key: run_unit(StudyTask(TINY, unit)) for unit in runs}
    rates = {share.name: share for share in summarise(done)}
    assert all(share.runs == 8 * SAMPLES for share in rates.values())
    assert all(share.met for share in rates.values()), rates


def test_runs_tell_their_cost_and_a_study_of_several_commits_says_so(tmp_path: Path) -> None:
    unit = Unit("size", SIZES[0], 0)
    payload = timed_unit(StudyTask(TINY, unit))
    assert payload["seconds"] > 0
    assert {name: value for name, value in payload.items() if name != "seconds"} == run_unit(StudyTask(TINY, unit))
    done = {unit.key: payload | {"commit": "a"}, "size/x/1": payload | {"number": 1, "commit": "b"}}
    assert commits(done) == {"a": 1, "b": 1}
    assert costs(done) == [("size", 2, 2 * payload["seconds"])]
    write_page(tmp_path / "page.md", TINY, done, datetime(2026, 1, 1, tzinfo=UTC), "b")
    assert "**Runs of several commits: a 1, b 1.**" in (tmp_path / "page.md").read_text()


def test_ppo_is_judged_again_on_what_the_report_asked_for_where_it_asked() -> None:
    shown = {"part": "ppo", "name": "drift", "number": 0, "needed": 500, "verdict": "EDGE SHOWN", "roi": 0.1}
    silent = {"part": "ppo", "name": "drift", "number": 1, "needed": None, "verdict": "no number named", "failed": []}
    (share,) = summarise({"0": shown, "1": silent})
    assert (share.hits, share.runs, share.wanted) == (1, 1, WANTED["edge"])


def test_a_torn_line_counts_for_nothing_and_a_broken_one_is_refused(tmp_path: Path) -> None:
    notes = StudyNotes(tmp_path / "runs.jsonl")
    notes.write([{"part": "null", "name": "fair", "number": 0, "verdict": "NEGATIVE", "e_value": 1.0}])
    with notes.path.open("ab") as file:
        file.write(b'{"part": "null", "na')
    assert list(notes.read()) == ["null/fair/0"]
    notes.write([{"part": "null", "name": "fair", "number": 1, "verdict": "NEGATIVE", "e_value": 1.0}])
    assert len(notes.read()) == 2
    assert "null/fair/0" not in {task.unit.key for task in left(TINY, notes.read(), ("null",))}
    notes.path.write_bytes(b"nonsense\n")
    with pytest.raises(InputError, match="line 1"):
        notes.read()


def test_a_study_that_was_killed_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "studies.validator", "--small", "--part", "size", "--output", str(tmp_path)]
    root = Path(__file__).resolve().parents[3]
    running = subprocess.Popen(command, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    file = None
    for _ in range(600):
        file = next(tmp_path.glob("*.jsonl"), None)
        if (file is not None and file.stat().st_size) or running.poll() is not None:
            break
        time.sleep(0.1)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert file is not None
    before = len(StudyNotes(file).read())
    fields = CliRunner().invoke(app, ["--small", "--part", "size", "--output", str(tmp_path), "--json"])
    assert fields.exit_code in (0, 2), fields.output
    payload = json.loads(fields.stdout)
    assert before > 0
    assert payload["whole"]
    assert payload["runs"] == 80


def test_the_page_shows_every_part(tmp_path: Path) -> None:
    wanted = [Unit("null", "random P&L", 0), Unit("edge", "drift", 0), Unit("size", "fair sidebets, peeking", 0)]
    done = {unit.key: run_unit(StudyTask(TINY, unit)) for unit in wanted}
    write_page(tmp_path / "page.md", TINY, done, datetime(2026, 1, 1, tzinfo=UTC), "abc")
    text = (tmp_path / "page.md").read_text()
    assert "commit abc" in text
    assert "drift" in text
    assert (tmp_path / "pictures" / "study-rates.svg").read_text().startswith("<svg")
    assert done["edge/drift/0"]["verdict"] == "EDGE SHOWN"
    assert {share.part for share in summarise(done)} == {"null", "edge", "size"}


def test_a_full_study_is_as_large_as_promised() -> None:
    listed = [unit.part for unit in units(StudyConfig("crash"))]
    assert listed.count("null") == 1200
    assert listed.count("mutant") >= 10
    assert listed.count("edge") == 200
    assert listed.count("ppo") == 40
