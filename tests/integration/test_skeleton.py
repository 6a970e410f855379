"""The walking skeleton: CoinGame from a recording to a verdict, and each stage's promise on the way."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from playproof.datasets import DatasetConfig, build, open_dataset, split_windows
from playproof.datasets.dataset import content_hash
from playproof.datasets.segment import segment
from playproof.errors import ConfigError, DecodeError, InputError, UnknownName
from playproof.evaluate import Score, bootstrap_interval, e_process, play_windows
from playproof.evaluate.rollout import PolicyPlayer
from playproof.events import Event
from playproof.game import WAIT, Frame
from playproof.policies import Constant, TablePolicy
from playproof.record.session import RecordingSession
from playproof.stats.evidence import BETS, REJECT, windows_needed
from playproof.store import EventLog, EventStore
from playproof.testing import coin, skeleton
from playproof.testing.tabular import TableConfig, learn
from playproof.validate import give_verdict

GAME = coin.game()
REFUSALS = {"NO EDGE SHOWN", "NEGATIVE", "NOT EVALUABLE"}


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> skeleton.SkeletonResult:
    return skeleton.run(tmp_path_factory.mktemp("ring"), seed=1)


# The whole ring.


def test_the_fair_coin_shows_no_edge_and_the_biased_one_does(ring: skeleton.SkeletonResult) -> None:
    fair, biased = ring.worlds["fair"].verdict, ring.worlds["biased"].verdict
    assert fair.name in REFUSALS
    assert biased.name == "EDGE SHOWN"
    assert biased.interval[0] < coin.ceiling("biased") < biased.interval[1]
    assert biased.e_value >= REJECT
    assert (fair.ceiling, biased.ceiling) == (0.0, coin.ceiling("biased"))


def test_what_was_acknowledged_is_what_the_later_stages_read(ring: skeleton.SkeletonResult) -> None:
    for world, result in ring.worlds.items():
        home = result.dataset.parents[1]
        assert home.name == world
        assert tuple(EventStore(home).events()) == result.events
        assert TablePolicy.from_json((home / "runs" / "policy.json").read_text()) == result.policy
        report = json.loads((home / "reports" / "verdict.json").read_text())
        assert (report["name"], report["data_hash"]) == (result.verdict.name, result.data_hash)


def test_the_learner_found_the_hint(ring: skeleton.SkeletonResult) -> None:
    assert ring.worlds["biased"].policy.table == {(1.0,): (1,), (-1.0,): (2,)}


def test_test_windows_come_after_train_windows_and_a_gap(ring: skeleton.SkeletonResult) -> None:
    for result in ring.worlds.values():
        split = open_dataset(result.dataset).manifest["split"]
        assert list(dict.fromkeys(split.values())) == ["train", "gap", "test"]
        assert list(split.values()).count("gap") == skeleton.CONFIG.gap
        assert result.score.windows == tuple(window for window, its in split.items() if its == "test")
        assert list(split) == sorted(split)


def test_the_same_seed_gives_the_same_ring_and_another_one_does_not(tmp_path: Path) -> None:
    one, again, other = (
        skeleton.run(tmp_path / name, seed, ("fair",), 60) for name, seed in (("a", 5), ("b", 5), ("c", 6))
    )
    assert one.worlds["fair"].verdict == again.worlds["fair"].verdict
    assert one.worlds["fair"].data_hash == again.worlds["fair"].data_hash != other.worlds["fair"].data_hash


def test_the_ring_needs_the_base_dependencies_only(tmp_path: Path) -> None:
    extras = ("torch", "hypothesis", "scipy", "sklearn", "lightgbm", "pandas", "pytest", "sqlalchemy")
    code = (
        f"import importlib.abc, sys, pathlib\n"
        f"class Refuse(importlib.abc.MetaPathFinder):\n"
        f"    def find_spec(self, name, path, target=None):\n"
        f"        if name.partition('.')[0] in {extras}: raise ModuleNotFoundError(name, name=name)\n"
        f"sys.meta_path.insert(0, Refuse())\n"
        f"from playproof.testing.skeleton import run\n"
        f"print(run(pathlib.Path({str(tmp_path)!r}), 1, ('fair',), 40).worlds['fair'].verdict.name)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in REFUSALS


# Recording and the store.


@cache
def recorded(world: str = "biased", windows: int = 12, seed: int = 3) -> tuple[Event, ...]:
    kept: list[Event] = []
    session = RecordingSession(GAME, kept.extend, "session-1", "public_ws")
    chooser = coin.random_chooser(np.random.default_rng(seed))
    for frames in coin.deal(world, seed, windows, chooser):
        session.take(frames)
    return tuple(kept)


def test_a_session_commits_to_the_log_and_the_store_gives_it_back(home: Path) -> None:
    with EventLog.open(home, GAME.columns) as log:
        session = RecordingSession(GAME, log.append, "session-1", "public_ws")
        chooser = coin.random_chooser(np.random.default_rng(3))
        taken = [event for frames in coin.deal("biased", 3, 12, chooser) for event in session.take(frames)]
    assert tuple(EventStore(home).events()) == tuple(taken) == recorded()


def test_frames_that_are_not_the_games_are_kept_raw(home: Path) -> None:
    frames = [
        Frame(coin.START, b"\xff\x00"),
        Frame(coin.START, "\ud800"),
        *next(coin.deal("fair", 1, 1, lambda: WAIT)),
    ]
    with EventLog.open(home, GAME.columns) as log:
        RecordingSession(GAME, log.append, "s", "cdp").take(frames)
    first, second, third = list(EventStore(home).events())[:3]
    assert (first.doc_type, first.raw, second.raw) == ("ws_event", "\\xff\x00", "\\ud800")
    assert (third.event_name, json.loads(third.raw or "")["event"]) == ("open", "open")


# Episodes.


def test_every_hint_is_a_step_and_every_order_its_action() -> None:
    made = segment(GAME, recorded(), "table", "bets")
    assert (len(made.episodes), made.left_out) == (12, ())
    for episode in made.episodes:
        assert len(episode.steps) == coin.FLIPS
        own = [e for e in recorded() if e.window_id == episode.window_id and e.event_name == "order"]
        chosen = [coin.CHOICES[step.action[0]] for step in episode.steps if isinstance(step.action, tuple)]
        assert [choice for choice in chosen if choice != WAIT] == [e.columns["choice"] for e in own]


def test_the_ledger_tells_what_the_table_told() -> None:
    """Parity: replaying the recorded choices gives the recorded fills and balances, to the last unit."""
    for episode in segment(GAME, recorded(), "table", "bets").episodes:
        own = [e for e in recorded() if e.window_id == episode.window_id and e.event_name in ("placed", "cash")]
        assert [(fact.event_name, dict(fact.columns)) for fact in episode.facts] == [
            (event.event_name, dict(event.columns)) for event in own
        ]


def test_money_goes_on_from_window_to_window() -> None:
    episodes = segment(GAME, recorded(), "table", "bets").episodes
    for last, following in pairwise(episodes):
        assert last.steps[-1].after == following.steps[0].before


def test_windows_that_were_not_seen_whole_are_left_out_with_the_reason() -> None:
    events = recorded()
    started_late = [event for event in events if event.seq > 7]
    lost_a_flip = [e for e in events if not (e.window_id == "coin-000004" and e.columns.get("flip") == 6)]
    for given_events, window in (
        (started_late, "coin-000000"),
        (lost_a_flip, "coin-000004"),
        (events[:-1], "coin-000011"),
    ):
        made = segment(GAME, given_events, "table", "bets")
        assert [(item.window_id, item.reason) for item in made.left_out] == [(window, "the window was not seen whole")]
        assert len(made.episodes) == 11


def test_a_session_without_a_player_is_a_spectators() -> None:
    world = [event for event in recorded() if event.player_id is None]
    made = segment(GAME, world, "table", "bets")
    assert all(episode.player_id is None and episode.pnl == 0 for episode in made.episodes)
    assert all(step.action == (0,) for episode in made.episodes for step in episode.steps)
    assert all(mask is not None and mask[4] for episode in made.episodes for mask in episode.missing)


def test_a_second_choice_at_the_same_point_is_a_substep() -> None:
    events = list(recorded())
    at = next(n for n, event in enumerate(events) if event.event_name == "order")
    doubled = [*events[: at + 2], events[at], *events[at + 2 :]]
    events = [replace(event, seq=seq) for seq, event in enumerate(doubled)]
    first = segment(GAME, events, "table", "bets").episodes[0]
    assert len(first.steps) == coin.FLIPS + 1
    [twice] = [step for step in first.steps if step.substep == 1]
    assert (twice.effect, twice.action) == (False, first.steps[twice.number - 1].action)


def test_choices_before_any_decision_point_are_told() -> None:
    events = list(recorded())
    order = next(event for event in events if event.event_name == "order")
    events = [replace(event, seq=seq) for seq, event in enumerate([events[0], order, *events[1:]])]
    [left] = segment(GAME, events, "table", "bets").left_out
    assert left.reason == "1 choices came before the first decision point"


def test_two_players_in_one_session_are_refused() -> None:
    events = [replace(event, player_id=event.player_id and f"p{event.seq % 2}") for event in recorded()]
    with pytest.raises(InputError, match="expected one player"):
        segment(GAME, events, "table", "bets")


@pytest.mark.parametrize("keep", range(11))
def test_no_step_changes_when_later_windows_do(keep: int) -> None:
    events = recorded()
    cut = [event for event in events if (event.window_id or "") <= f"coin-{keep:06d}"]
    whole = segment(GAME, events, "table", "bets").episodes[: keep + 1]
    short = segment(GAME, cut, "table", "bets").episodes
    assert [episode.steps for episode in short] == [episode.steps for episode in whole]
    for one, other in zip(short, whole, strict=True):
        assert np.array_equal(np.asarray(one.observations), np.asarray(other.observations))


# Data sets.

CONFIG = DatasetConfig("coins", "table", "bets", "profit", {"train": 0.5, "test": 0.5}, gap=1)


def test_a_data_set_has_the_layout_and_reads_back(home: Path) -> None:
    path = build(GAME, recorded(), CONFIG, home)
    assert sorted(item.relative_to(path).as_posix() for item in path.rglob("*") if item.is_file()) == [
        "manifest.json",
        *(
            f"sessions/session-1/{name}"
            for name in (
                "actions.parquet",
                "labels.parquet",
                "metadata.json",
                "observations.parquet",
                "rewards.parquet",
            )
        ),
    ]
    dataset = open_dataset(path)
    assert dataset.manifest["features"] == list(GAME.observations["table"].features)  # type: ignore[union-attr]
    assert dataset.manifest["reward"] == {"name": "profit", "version": "1", "components": ["profit"]}
    seen = dataset.sessions["session-1"]["observations"]
    assert {f"{name}__missing" for name in dataset.manifest["features"]} <= set(seen.columns)
    assert seen.null_count().sum_horizontal().item() == 0


def test_transitions_are_the_episodes_step_by_step(home: Path) -> None:
    dataset = open_dataset(build(GAME, recorded(), CONFIG, home))
    episodes = {episode.window_id: episode for episode in segment(GAME, recorded(), "table", "bets").episodes}
    steps = dataset.transitions("test")
    row = 0
    for window in dataset.windows("test"):
        episode = episodes[window]
        for number, step in enumerate(episode.steps):
            assert np.array_equal(steps.observations[row], np.asarray(episode.observations[number]))
            assert np.array_equal(steps.next_observations[row], np.asarray(episode.observations[number + 1]))
            assert tuple(steps.actions[row]) == step.action
            assert steps.rewards[row] == (step.after.equity - step.before.equity) / 10**9
            assert steps.done[row] == steps.terminated[row] == (number == coin.FLIPS - 1)
            row += 1
    assert row == len(steps.rewards)
    assert not steps.truncated.any()


def test_a_data_set_is_a_pure_function_of_its_events(home: Path, tmp_path: Path) -> None:
    events = list(recorded())
    np.random.default_rng(0).shuffle(events)  # type: ignore[arg-type]
    assert build(GAME, recorded(), CONFIG, home).name == build(GAME, events, CONFIG, tmp_path).name
    flip = next(event for event in recorded() if event.event_name == "flip")
    other = replace(flip, columns={**flip.columns, "side": 1 - int(flip.columns["side"] or 0)})
    changed = [other if event is flip else event for event in recorded()]
    assert build(GAME, changed, CONFIG, tmp_path).name != build(GAME, recorded(), CONFIG, tmp_path).name


def test_a_changed_value_or_a_missing_manifest_is_refused(home: Path) -> None:
    path = build(GAME, recorded(), CONFIG, home)
    file = path / "sessions" / "session-1" / "rewards.parquet"
    pl.read_parquet(file).with_columns(reward=pl.col("reward") + 1e-12).write_parquet(file)
    with pytest.raises(DecodeError, match="found others"):
        open_dataset(path).transitions("test")
    (path / "manifest.json").unlink()
    with pytest.raises(DecodeError, match="not finished"):
        open_dataset(path)
    assert build(GAME, recorded(), CONFIG, home) == path
    open_dataset(path).transitions("test")


def test_the_hash_is_over_values_not_files() -> None:
    table = pl.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    sessions = {"s": dict.fromkeys(("observations", "actions", "rewards"), table)}
    again = {
        "s": dict.fromkeys(("observations", "actions", "rewards"), pl.concat([table[:1], table[1:]], rechunk=False))
    }
    assert content_hash(sessions) == content_hash(again)
    other = {"s": {**sessions["s"], "actions": table.with_columns(b=pl.Series(["x", "z"]))}}
    assert content_hash(sessions) != content_hash(other)


def test_nothing_to_build_is_said() -> None:
    with pytest.raises(ConfigError, match="at least one whole window"):
        build(GAME, recorded()[:5], CONFIG, Path("nowhere"))
    with pytest.raises(UnknownName, match="known reward"):
        build(GAME, recorded(), replace(CONFIG, reward="fame"), Path("nowhere"))


@given(st.integers(1, 60), st.lists(st.floats(0.05, 1), min_size=1, max_size=4), st.integers(0, 5))
def test_splits_are_stretches_in_time_with_gaps(count: int, shares: list[float], gap: int) -> None:
    windows = [f"w{number:03d}" for number in range(count)]
    names = {f"s{number}": share for number, share in enumerate(shares)}
    try:
        split = split_windows(windows, names, gap)
    except ConfigError:
        assert count < 25 * (len(shares) + gap * len(shares))
        return
    assert list(split) == windows
    runs = [name for index, name in enumerate(split.values()) if index == 0 or name != list(split.values())[index - 1]]
    expected = [part for name in names for part in ((name, "gap") if gap else (name,))]
    assert runs == (expected[:-1] if gap else expected)
    assert list(split.values()).count("gap") == gap * (len(shares) - 1)


def test_windows_are_split_by_time_and_not_by_name(home: Path) -> None:
    names = {f"coin-{number:06d}": f"coin-{999_999 - number:06d}" for number in range(12)}
    events = [replace(event, window_id=names[event.window_id or ""]) for event in recorded()]
    split = open_dataset(build(GAME, events, CONFIG, home)).manifest["split"]
    assert list(split) == list(names.values())


def test_bad_splits_are_refused() -> None:
    for shares, gap in (({}, 0), ({"train": 0.0}, 0), ({"gap": 1.0}, 0), ({"train": 1.0}, -1)):
        with pytest.raises(ConfigError):
            split_windows(["a", "b"], shares, gap)
    with pytest.raises(ConfigError, match="some twice"):
        split_windows(["a", "a"], {"train": 1.0}, 0)


# The learner.


def test_the_learner_reads_the_train_split_alone(home: Path) -> None:
    """Test windows in which every bet would win the other way round change nothing."""
    events = recorded(windows=60)
    split = open_dataset(build(GAME, events, CONFIG, home)).manifest["split"]
    others = [
        replace(e, columns={**e.columns, "side": 1 - int(e.columns["side"] or 0)})
        if e.event_name == "flip" and split[e.window_id] != "train"
        else e
        for e in events
    ]
    config = TableConfig(("hint",), coin.RESERVED, least=5)
    one, other = (learn(open_dataset(build(GAME, of, CONFIG, home)), config, (0,)) for of in (events, others))
    assert one.table == other.table != {}
    assert one.data_hash != other.data_hash


def test_an_action_seen_too_seldom_is_not_chosen(home: Path) -> None:
    dataset = open_dataset(build(GAME, recorded(windows=60), CONFIG, home))
    assert learn(dataset, TableConfig(("hint",), coin.RESERVED, least=10**6), (0,)).table == {}
    with pytest.raises(UnknownName, match="known feature"):
        learn(dataset, TableConfig(("colour",), coin.RESERVED), (0,))


def test_a_file_that_is_no_policy_is_refused(ring: skeleton.SkeletonResult) -> None:
    text = ring.worlds["biased"].policy.to_json()
    for bad in ("", "[]", "{}", text.replace("features", "feature"), text.replace('"table"', '"tables"')):
        with pytest.raises(DecodeError, match="table policy"):
            TablePolicy.from_json(bad)


# Evaluation.


def heads() -> PolicyPlayer:
    return PolicyPlayer("heads", lambda _: Constant((1,)), "table", "bets")


def test_money_is_counted_per_window() -> None:
    windows = ("coin-000002", "coin-000005")
    score = play_windows(GAME, heads(), recorded(), windows, stake=coin.RESERVED, seed=0)
    for window, pnl, opened in zip(score.windows, score.pnl, score.opened, strict=True):
        outcome = GAME.recording().outcome([event for event in recorded() if event.window_id == window])
        assert outcome is not None
        assert pnl == (2 * int(outcome.values["heads"] or 0) - 10) * coin.STAKE
        assert opened == 10
    assert score.roi == pytest.approx(score.returns.mean())


def test_a_player_with_the_worlds_seed_knows_nothing_of_the_world() -> None:
    windows = tuple(f"coin-{number:06d}" for number in range(60))
    random = GAME.baselines["random"]
    player = PolicyPlayer("random", random.make, random.observation, random.actions)
    score = play_windows(GAME, player, recorded(windows=60, seed=3), windows, stake=coin.RESERVED, seed=3)
    assert abs(score.roi) < 4 * score.returns.std() / math.sqrt(60)


def test_windows_that_are_not_there_are_refused() -> None:
    with pytest.raises(ConfigError, match="expected 1 windows"):
        play_windows(GAME, heads(), recorded(), ("coin-000777",), stake=coin.RESERVED, seed=0)


def test_a_score_refuses_losses_above_the_stake() -> None:
    with pytest.raises(ConfigError, match="expected no window to lose more"):
        Score("x", ("a",), (-11,), (1,), 10)


# Evidence.


def slow_e_values(pnl: Sequence[int], stake: int) -> list[Fraction]:
    """The obvious twin: five bettors, exact fractions, one window after the other."""
    bankrolls, values = [Fraction(1)] * 5, []
    for profit in pnl:
        bets = [Fraction(str(bet)) * bankroll for bet, bankroll in zip(BETS, bankrolls, strict=True)]
        bankrolls = [roll + bet * Fraction(profit, stake) for roll, bet in zip(bankrolls, bets, strict=True)]
        values.append(sum(bankrolls, Fraction(0)) / 5)
    return values


@given(st.lists(st.integers(-100, 400), max_size=60))
def test_the_e_process_is_the_bettors_bankroll(pnl: list[int]) -> None:
    process = e_process(np.asarray(pnl, np.float64) / 100)
    slow = slow_e_values(pnl, 100)
    assert np.allclose(np.exp(process.logs), [float(value) for value in slow], rtol=1e-9)
    crossed = next((number for number, value in enumerate(slow, 1) if value >= REJECT), None)
    assert process.crossed == crossed or any(math.isclose(value, REJECT, rel_tol=1e-9) for value in slow)
    assert process.value == pytest.approx(float(slow[-1]) if slow else 1.0)


@pytest.mark.parametrize("returns", [[-1.0001], [math.nan], [math.inf]])
def test_returns_that_no_reserved_stake_allows_are_refused(returns: list[float]) -> None:
    with pytest.raises(InputError, match="at least -1"):
        e_process(np.asarray(returns))


def test_huge_bankrolls_do_not_overflow() -> None:
    assert math.isfinite(e_process(np.full(100_000, 5.0)).value)


def test_luck_passes_the_e_process_at_most_once_in_twenty() -> None:
    """400 fair runs of 400 windows, looked at after every window."""
    rng = np.random.default_rng(20)
    flips = 2 * rng.binomial(coin.FLIPS, 0.5, size=(400, 400)) - coin.FLIPS
    passed = sum(e_process(run / coin.FLIPS).crossed is not None for run in flips)
    assert passed <= 20


def doubled_down(rng: np.random.Generator) -> tuple[int, int]:
    """Double the bet after each loss in a fair game, up to 31 units; give profit and what was staked."""
    staked, bet = 0, 1
    for _ in range(5):
        staked += bet
        if rng.random() < 0.5:
            return 2 * bet - staked, staked
        bet *= 2
    return -staked, staked


def test_doubling_down_is_no_edge_unless_divided_by_hindsight() -> None:
    rng = np.random.default_rng(7)
    fair = [[doubled_down(rng) for _ in range(300)] for _ in range(200)]
    reserved = [np.asarray([profit / 31 for profit, _ in run]) for run in fair]
    hindsight = [np.asarray([profit / staked for profit, staked in run]) for run in fair]
    assert sum(e_process(run).crossed is not None for run in reserved) <= 10
    assert sum(e_process(run).crossed is not None for run in hindsight) > 100


def test_the_interval_covers_the_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(200):
        low, high = bootstrap_interval(rng.normal(0.3, 1, 100), rng, draws=500)
        hits += low <= 0.3 <= high
    assert 178 <= hits <= 199


def test_an_interval_of_nothing_is_everything() -> None:
    assert bootstrap_interval(np.asarray([]), np.random.default_rng(0)) == (-math.inf, math.inf)


def test_the_windows_needed_are_enough() -> None:
    rng = np.random.default_rng(0)
    returns = (2 * rng.binomial(10, 0.6, 4000) - 10) / 10
    needed = windows_needed(returns)
    assert needed is not None
    reached = [e_process((2 * rng.binomial(10, 0.6, 2 * needed) - 10) / 10).crossed for _ in range(50)]
    assert sum(item is not None for item in reached) >= 48
    assert windows_needed(-returns) is None


# The verdict.


def scores(returns: Sequence[float], opened: int = 10, name: str = "policy") -> Score:
    windows = tuple(f"w{number}" for number in range(len(returns)))
    pnl = tuple(round(1000 * item) for item in returns)
    return Score(name, windows, pnl, (opened,) * len(returns), 1000)


def judged(returns: Sequence[float], ceiling: float | None = None, opened: int = 10) -> str:
    idle = scores([0.0] * len(returns), 0, "wait")
    return give_verdict(scores(returns, opened), [idle], ceiling, np.random.default_rng(0)).name


STRONG = tuple(np.random.default_rng(1).normal(0.3, 0.3, 200).clip(-1))


def test_verdicts_in_their_order() -> None:
    assert judged(STRONG) == "EDGE SHOWN"
    assert judged(STRONG, ceiling=0.31) == "EDGE SHOWN"
    assert judged(STRONG, ceiling=0.1) == "SUSPECT"
    assert judged(STRONG, opened=0) == "NOT EVALUABLE"
    assert judged(STRONG[:19]) == "NOT EVALUABLE"
    assert judged([-item for item in STRONG if abs(item) < 1]) == "NEGATIVE"
    assert judged([0.1, -0.1] * 50) == "NO EDGE SHOWN"
    assert judged([]) == "NOT EVALUABLE"


def test_an_edge_must_beat_every_baseline() -> None:
    rng = np.random.default_rng(0)
    same = scores(STRONG, name="hold")
    verdict = give_verdict(scores(STRONG), [same], None, rng)
    assert verdict.name == "NO EDGE SHOWN"
    assert "not better than hold" in verdict.sentence
    with pytest.raises(ConfigError, match="same windows"):
        give_verdict(scores(STRONG), [scores(STRONG[:-1])], None, rng)


def test_a_verdict_says_what_it_rests_on() -> None:
    verdict = give_verdict(scores(STRONG), [], 0.4, np.random.default_rng(0))
    assert verdict.sentence.startswith(f"policy earned {np.mean(STRONG):+.1%}"[:17])
    assert verdict.sentence.endswith(".")
    assert (verdict.windows, verdict.ceiling) == (200, 0.4)
    assert verdict.windows_needed is not None
    assert verdict.windows_needed < 200
    assert [gate.gate for gate in verdict.gates] == ["A1", "M1 e-value", "M1 interval", "M4"]
