"""The replay: every number that it shows is the environment's and the ledger's, and the keys do what they say."""

from __future__ import annotations

import io
import json
import os
import pty
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from old_recordings import write_recordings
from rich.console import Console

from playproof.cli.app import main
from playproof.datasets import Dataset, open_dataset
from playproof.datasets.registry import find_dataset
from playproof.errors import ConfigError, ContractError, InputError
from playproof.evaluate.rollout import STREAM, RolloutOptions, rollout
from playproof.game import load_game
from playproof.game.replay import ReplayedEpisode
from playproof.game.vector_env import VectorTerms
from playproof.games.arena.learning.vector_env import ArenaVectorGame
from playproof.games.arena.recording.replay import REPLAY as ARENA
from playproof.games.crash.analysis.predictor import PREDICTION
from playproof.games.crash.analysis.replay import marks, say
from playproof.games.crash.rules.actions import ACTIONS
from playproof.games.crash.sim.env import CrashEnv
from playproof.home import home as home_folder
from playproof.money import UNIT
from playproof.policies.checkpoint import Card, save_checkpoint
from playproof.policies.ensemble import save_ensemble
from playproof.policies.network import BatchPlayer, NetworkPolicy
from playproof.policies.scaling import describe, game_scaling
from playproof.policies.trees import BetOnLabelPolicy, Predictor, PredictorPolicy, TreeEnsemble
from playproof.reports.replay import expand, page_data, replay_page, shorten
from playproof.reports.replay_terminal import SPEEDS, Cursor, bars, frame, frames, keys, press, run, tick
from playproof.store.db import opened, ready
from playproof.store.db.trajectories import list_trajectories, read_trajectory
from playproof.testing import coin
from playproof.testing.altered import altered
from playproof.validate.examine import Subject, load_subject
from playproof.validate.replay import Replay, ReplayRequest, choose, replay_dataset, replay_policy
from tests.reference.crash_twin import PlainEnv

CRASH = load_game("crash")
SEED, ROUNDS = 5, 9
BUTTONS = {say((main, bet), "buttons"): (main, bet) for main in range(4) for bet in range(9)}


def network(hidden: int = 6, memory: int = 0) -> NetworkPolicy:
    """Make a network that nobody trained."""
    rng = np.random.default_rng(8)
    shown = CRASH.observations["policy"]
    names = tuple(shown.features)  # type: ignore[union-attr]
    width = memory or len(names)
    sizes = [(hidden, width)]
    weights = {f"trunk.{k}.weight": rng.normal(size=size).astype(np.float32) for k, size in enumerate(sizes)}
    weights |= {"trunk.0.bias": np.zeros(hidden, np.float32)}
    for head, choices in enumerate((4, 9)):
        weights |= {f"head.{head}.weight": rng.normal(size=(choices, hidden)).astype(np.float32)}
        weights |= {f"head.{head}.bias": np.zeros(choices, np.float32)}
    if memory:
        weights |= {
            "memory.weight_ih": rng.normal(size=(4 * memory, len(names))).astype(np.float32),
            "memory.weight_hh": rng.normal(size=(4 * memory, memory)).astype(np.float32),
            "memory.bias_ih": np.zeros(4 * memory, np.float32),
            "memory.bias_hh": np.zeros(4 * memory, np.float32),
        }
    assert ACTIONS["buttons"].possible is not None
    possible = ACTIONS["buttons"].possible
    return NetworkPolicy(game_scaling(CRASH, names), (4, 9), weights, possible=possible)


def card(kind: Any, method: str, config: dict[str, Any] | None = None) -> Card:
    return Card(
        kind=kind,
        method=method,
        actions="buttons",
        heads=(4, 9),
        clock="tick",
        stake=UNIT // 10,
        reward={"name": "minimal", "version": "1", "hash": None, "failed_checks": False},
        data_hash=None,
        world="published",
        commit="",
        seed=0,
        config=config or {},
        metrics={},
        **describe(CRASH, "policy"),
    )


def subject(player: Any, name: str = "own") -> Subject:
    return Subject(name, player, "hash", "tests", UNIT // 10, RolloutOptions("policy", "buttons"))


@pytest.fixture(scope="module")
def replay() -> Replay:
    """Give a network that plays by chance, watched: it presses everything."""
    looking = ReplayRequest("published", "world published", ROUNDS, SEED, show=4)
    return replay_policy(CRASH, subject(BatchPlayer(network(), sample=True)), looking)


def number(episode: ReplayedEpisode) -> int:
    return int(episode.window.rpartition("-")[2])


def key_of(episode: ReplayedEpisode) -> int:
    """Give the key of the lane whose first round the episode is."""
    return int(np.random.SeedSequence((STREAM, SEED)).generate_state(ROUNDS, np.uint64)[number(episode)])


def shown_values(replay: Replay, index: int) -> dict[str, list[Any]]:
    """Give the lines of an episode as the page's own data tells them."""
    data = json.loads(json.dumps(page_data(replay)))["episodes"][index]
    return {line["name"]: expand(line["v"]) for line in data["lines"]}


class TestNumbers:
    def test_the_page_shows_the_environments_own(self, replay: Replay) -> None:
        data = json.loads(json.dumps(page_data(replay)))
        traded = 0
        for index, episode in enumerate(replay.episodes):
            page, values = data["episodes"][index], shown_values(replay, index)
            rows = np.array([expand(column) for column in page["rows"]], np.float32).T
            rewards, words = expand(page["rewards"]), [page["words"][item] for item in expand(page["actions"])]
            env = CrashEnv(observation="policy", actions="buttons", stake=UNIT // 10)
            row, info = env.reset(seed=key_of(episode))
            over = False
            for step, word in enumerate(words):
                assert not over
                self._same(env, row, info, values, rows, step)
                row, reward, over, _, info = env.step(BUTTONS[word])
                assert rewards[step] == reward
            assert over
            self._same(env, row, info, values, rows, len(words))
            assert page["pnl"] == info["equity"] - UNIT == episode.pnl
            traded += info["positions_opened"]
        assert traded, "an episode without an order would show nothing"

    def _same(self, env: Any, row: Any, info: Any, values: dict[str, list[Any]], rows: Any, point: int) -> None:
        names = {"cash": "cash", "position": "position_qty", "equity": "equity", "sidebet": "sidebet_stake"}
        names |= {"bet field": "bet_amount", "tick": "tick", "cost of it": "open_cost"}
        assert {line: values[line][point] for line in names} == {line: info[fact] for line, fact in names.items()}
        assert values["price"][point] == float(env._lanes.lanes["price"][0])
        assert rows[point].tobytes() == row.tobytes()

    def test_the_page_shows_the_ledgers_money(self, replay: Replay) -> None:
        for index, episode in enumerate(replay.episodes[:2]):
            values = shown_values(replay, index)
            env = PlainEnv(stake=UNIT // 10)
            env.seed(key_of(episode))
            env.reset()
            for step, word in enumerate(episode.actions):
                book = env.ledger
                assert values["cash"][step] == book.cash
                assert values["position"][step] == book.qty
                assert values["cost of it"][step] == book.cost
                assert values["price"][step] == env.price
                env.step(BUTTONS[word])
            assert values["cash"][-1] == env.ledger.cash

    def test_watching_changes_nothing(self, replay: Replay) -> None:
        player = BatchPlayer(network(), sample=True)
        played = rollout(
            CRASH, player, "published", ROUNDS, SEED, stake=UNIT // 10, options=RolloutOptions("policy", "buttons")
        )
        assert {number(item): item.pnl for item in replay.episodes}.items() <= dict(
            enumerate(played.pnl.tolist())
        ).items()
        assert replay.pnl == int(played.pnl.sum())
        for episode in replay.episodes:
            assert sum(reward or 0 for reward in episode.rewards) == pytest.approx(
                played.reward[number(episode)], abs=1e-12
            )

    def test_lanes_that_play_otherwise_when_watched_are_an_error(self) -> None:
        assert CRASH.display().replay is not None
        made = CRASH.display().replay
        other = replace(made, watch=lambda terms, count: made.watch(replace(terms, seed=(1,)), count))
        game = altered(CRASH, replay=other)
        with pytest.raises(ContractError, match="unwatched"):
            replay_policy(game, load_subject(CRASH, "hold-40", stake=UNIT), ReplayRequest("published", "w", 3, 1))

    def test_what_is_missing_is_told(self) -> None:
        seated = replace(load_subject(CRASH, "hold-40"), options=RolloutOptions("recorded", "buttons"))
        episode = replay_policy(CRASH, seated, ReplayRequest("published", "w", 1, 4)).episodes[0]
        env = CrashEnv(observation="recorded", stake=UNIT // 10)
        key = np.random.SeedSequence((STREAM, 4)).generate_state(1, np.uint64)[0]
        _, info = env.reset(seed=int(key))
        assert episode.missing is not None
        for step, word in enumerate(episode.actions):
            unknown = {name for name, flag in zip(episode.features, episode.missing[step], strict=True) if flag}
            assert unknown == set(info["missing"])
            *_, info = env.step(BUTTONS[word])

    def test_money_beyond_a_browsers_numbers_stays_exact(self, replay: Replay) -> None:
        rich = replace(replay.episodes[0], pnl=2**53 + 1)
        data = page_data(replace(replay, episodes=(rich,)))
        assert int(data["episodes"][0]["pnl"]) == 2**53 + 1
        assert isinstance(data["episodes"][0]["pnl"], str)


class TestThoughts:
    @pytest.mark.parametrize("memory", [0, 5])
    def test_chances_are_what_it_acts_by(self, memory: int) -> None:
        policy = network(memory=memory)
        episode = replay_policy(CRASH, subject(BatchPlayer(policy)), ReplayRequest("published", "w", 2, 3)).episodes[0]
        for step, word in enumerate(episode.actions):
            order, adjustment = (int(chances[step].argmax()) for _, chances in episode.thoughts)
            assert BUTTONS[word] in ((order, adjustment), (0, adjustment))  # a wait where the order had no effect
        for names, chances in episode.thoughts:
            assert len(names) == chances.shape[1]
            np.testing.assert_allclose(chances.sum(axis=1), 1.0, atol=1e-6)

    def test_predictions_are_the_predictors(self) -> None:
        none = np.zeros(0, np.int64)
        trees = TreeEnsemble(("x",), none, np.zeros(0), none, none, np.zeros(1), np.array([-1]), np.array([0]))
        predictor = Predictor(trees, 1.0, 0.0, 0.25, 40, 200.0, skilled=False)
        names = tuple(CRASH.observations["policy"].features)  # type: ignore[union-attr]
        player = BetOnLabelPolicy(PredictorPolicy(predictor, PREDICTION, names, 5.0), (0, 0))
        episode = replay_policy(CRASH, subject(player), ReplayRequest("hazard", "w", 2, 3)).episodes[0]
        assert set(episode.predictions["rug_within_40"]) == {0.25}
        theory = episode.predictions["rug_within_40 by theory"]
        expected = PREDICTION.chance("hazard", episode.rows[:-1], episode.features)
        assert theory == expected.tolist()  # type: ignore[union-attr]
        assert any(mark.kind == "bet" for mark in episode.marks), "0.25 at 5 : 1 is worth a bet"

    def test_checkpoints_of_predictors_and_ensembles_tell_the_end(self, tmp_path: Path) -> None:
        network_card, weights = card("network", "ppo"), network().weights
        save_checkpoint(tmp_path / "policy", network_card, weights)
        names = [*CRASH.observations["policy"].features, *PREDICTION.inputs]  # type: ignore[union-attr]
        model = f"objective=binary sigmoid:1\nmax_feature_idx={len(names) - 1}\nfeature_names={' '.join(names)}\n"
        model += "tree_sizes=1\n\nTree=0\nnum_leaves=1\nleaf_value=0.5\n\nend of trees\n"
        payload = {"inputs": names, "rows": list(CRASH.observations["policy"].features), "slope": 1.0, "offset": 0.0}  # type: ignore[union-attr]
        payload |= {"constant": 0.2, "horizon": 40, "mean_life": 200.0, "skilled": True}
        save_checkpoint(
            tmp_path / "rugs", card("trees", "sidebet", {"predictor": payload}), files={"model.txt": model.encode()}
        )
        save_ensemble(tmp_path / "both", tmp_path / "policy", tmp_path / "rugs", margin=9.0, commit="", metrics={})
        chance = pytest.approx(1 / (1 + np.exp(-0.5)))
        for name, thinks in (("rugs", False), ("both", True)):
            result = load_subject(CRASH, str(tmp_path / name))
            episode = replay_policy(CRASH, result, ReplayRequest("published", "w", 1, 3)).episodes[0]
            assert list(episode.predictions["rug_within_40"]) == [chance] * len(episode)
            assert bool(episode.thoughts) == thinks

    def test_a_rule_says_that_it_weighs_nothing(self) -> None:
        episode = replay_policy(CRASH, load_subject(CRASH, "hold-40"), ReplayRequest("published", "w", 1, 3)).episodes[
            0
        ]
        assert not episode.thoughts
        assert "weighs no chances" in episode.about


class TestChoosing:
    @given(st.lists(st.integers(-5, 5), min_size=1, max_size=40), st.integers(1, 15))
    def test_the_extremes_are_among_the_chosen(self, pnl: list[int], show: int) -> None:
        chosen = choose(pnl, show)
        assert len(chosen) == len(set(chosen)) == min(show, len(pnl))
        assert chosen == sorted(chosen)
        assert min(pnl[index] for index in chosen) == min(pnl)
        assert show == 1 or max(pnl[index] for index in chosen) == max(pnl)

    @given(st.lists(st.sampled_from([0, 1, 2.5, None, "x"]), max_size=30))
    def test_columns_come_back(self, column: list[Any]) -> None:
        assert expand(json.loads(json.dumps(shorten(column)))) == column

    def test_one_window_can_be_asked_for(self) -> None:
        asked = ReplayRequest("published", "w", 5, 3, window="published-3-5-2")
        result = replay_policy(CRASH, load_subject(CRASH, "wait"), asked)
        assert [episode.window for episode in result.episodes] == ["published-3-5-2"]
        with pytest.raises(InputError, match="published-3-5-0 to published-3-5-4"):
            replay_policy(CRASH, load_subject(CRASH, "wait"), replace(asked, window="other"))

    def test_nothing_to_show_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="at least one"):
            choose([1], 0)

    def test_lengths_that_do_not_fit_are_refused(self, replay: Replay) -> None:
        with pytest.raises(ContractError, match="rewards"):
            replace(replay.episodes[0], rewards=[1.0])

    def test_a_game_that_tells_nothing_of_itself_is_shown_too(self) -> None:
        game = altered(coin.game(), replay=None)
        world = next(iter(game.worlds))
        player = subject(coin_follower(), "coins")
        result = replay_policy(game, replace(player, options=RolloutOptions()), ReplayRequest(world, "w", 3, 1))
        assert all(len(episode.rows) == len(episode) + 1 == len(episode.rewards) + 1 for episode in result.episodes)
        assert "coins" in replay_page(result)


def coin_follower() -> Any:
    class Follow:
        def start(self, lanes: int, rng: np.random.Generator) -> None:
            return None

        def begin(self, state: None, chosen: np.ndarray) -> None:
            return None

        def act(self, obs: np.ndarray, state: None) -> np.ndarray:
            return np.where(obs[:, :1] > 0, 1, 2).astype(np.int64)

    return Follow()


def test_a_crash_episode_is_marked() -> None:
    values: dict[str, list[Any]] = {
        "tick": [0, 1, 2, 3],
        "price": [1.0, 1.5, 2.0, 0.01],
        "position": [0, 5, 5, 0],
        "sidebet": [0, 0, 3, 0],
    }
    result = marks(values, ("BUY", "SIDEBET", "WAIT"))
    assert [(item.point, item.kind) for item in result] == [
        (0, "entry"),
        (1, "bet"),
        (3, "lost"),
        (3, "won"),
        (3, "end"),
    ]
    sold = marks(values | {"sidebet": [0, 3, 0, 0]}, ("BUY", "SIDEBET", "SELL"))
    assert [(item.point, item.kind) for item in sold] == [
        (0, "entry"),
        (0, "bet"),
        (2, "exit"),
        (2, "lost"),
        (3, "end"),
    ]


def test_actions_are_put_into_words() -> None:
    assert say((0, 0), "buttons") == "WAIT"
    assert say((1, 3), "buttons") == "INC_01 + BUY"
    assert say((0, 6), "buttons") == "HALF"
    assert len(BUTTONS) == 36, "no two actions have the same words"
    assert say((1, 3, 0), "trader") == "BUY_MAIN 0.01"
    assert say((6, 0, 3), "trader") == "PARTIAL_SELL 30 %"


# recorded windows


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a home with imported recordings, a data set of them, and an hour of the arena."""
    folder = tmp_path_factory.mktemp("recorded")
    write_recordings(folder / "own", 12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLAYPROOF_HOME", str(folder / "home"))
        assert main(["import", "legacy", str(folder / "own"), "--zone", "UTC"]) == 0
        assert main(["dataset", "build", "mine"]) == 0
        assert main(["arena", "run", "--agents", "4", "--windows", "1", "--seed", "4", "--json"]) == 0
    return folder / "home"


@pytest.fixture
def own(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLAYPROOF_HOME", str(recorded))
    return recorded


def dataset_of(home: Path) -> Dataset:
    return open_dataset(find_dataset("mine", home))


def test_a_data_sets_episode_is_what_was_stored(own: Path) -> None:
    dataset = dataset_of(own)
    window = next(iter(dataset.manifest["split"]))
    result = replay_dataset(CRASH, dataset, None, window)
    episode = result.episodes[0]
    split = dataset.manifest["split"][window]
    steps = dataset.transitions(split, dataset.manifest["stored"])
    mine = np.array([name == window for name in steps.windows])
    assert episode.rows[:-1].tobytes() == steps.observations[mine].tobytes()
    assert list(episode.rewards) == steps.rewards[mine].tolist()
    assert episode.missing is not None
    np.testing.assert_array_equal(episode.missing[:-1], steps.missing[mine])
    page = json.loads(json.dumps(page_data(result)))["episodes"][0]
    shown = np.array([expand(column) for column in page["rows"]], np.float32).T
    assert shown.tobytes() == np.ascontiguousarray(episode.rows).tobytes()
    assert episode.marks[-1].kind == "end"
    with pytest.raises(InputError, match="splits"):
        replay_dataset(CRASH, dataset, None, "none")


def test_the_command_shows_windows_policies_and_trajectories(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_json(*args: str) -> Any:
        assert main(["replay", *args, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    window = next(iter(dataset_of(own).manifest["split"]))
    assert [item["window"] for item in run_json("--data", "mine", window)["episodes"]] == [window]
    everything = run_json("--data", "mine", "--show", "3", "--output", str(tmp_path / "all.html"))
    assert (everything["of"], len(everything["episodes"])) == (dataset_of(own).manifest["episodes"], 3)
    assert (tmp_path / "all.html").read_text().startswith("<!doctype html>")
    again = run_json("hold-40", "--data", "mine", "--split", "train")
    assert {item["player"] for item in again["episodes"]} == {"hold-40"}
    assert Path(again["page"]).parent == own / "reports"
    with opened(home_folder()) as engine:
        trajectories = list_trajectories(ready(engine))
    one = trajectories[0]
    assert run_json(one.trajectory_id)["episodes"][0]["player"] == one.agent_id
    hour = run_json(one.window_id)
    assert len(hour["episodes"]) == len(trajectories) == 4
    assert hour["pnl"] == sum(trajectory.final_pnl or 0 for trajectory in trajectories)
    for wrong in (["nothing"], [], ["hold-40", "--data", "mine", "--world", "published"], ["0" * 32]):
        assert main(["replay", *wrong]) == 1
    assert main(["replay", "nothing", "--data", "mine"]) == 1


def test_a_trajectory_is_shown_in_its_own_units(own: Path) -> None:
    with opened(own) as engine:
        trajectories = [
            read_trajectory(ready(engine), trajectory.trajectory_id) for trajectory in list_trajectories(engine)
        ]
    assert ARENA.trajectory is not None
    for stored in trajectories:
        episode = ARENA.trajectory(stored)
        assert list(episode.values["cash"]) == [*(step.state["balance"] for step in stored.steps), stored.final_balance]
        ends = (stored.metrics or {})["end_equity"]
        assert list(episode.values["equity"]) == [*(step.state["equity"] for step in stored.steps), ends]
        assert episode.pnl == stored.final_pnl
        assert sum(reward or 0 for reward in episode.rewards) == pytest.approx(
            (ends - stored.steps[0].state["equity"]) / UNIT, abs=1e-6
        )
        spoken = {item.text for said in episode.said for item in said if item.kind == "said"}
        assert spoken == {call.response for call in stored.calls}
        assert len([mark for mark in episode.marks if mark.kind != "end"]) == sum(
            1 for step in stored.steps if step.action_result
        )


def test_watched_lanes_of_the_arena_play_alike() -> None:
    arena = load_game("arena")
    terms = VectorTerms("news", (3,), balance=10**13, stake=10**12)
    assert arena.simulation is not None
    plain, watched = arena.simulated().vector(terms, 2), ARENA.watch(terms, 2)
    assert isinstance(watched, ArenaVectorGame)
    assert plain.start().tobytes() == watched.start().tobytes()
    for action in ((1, 0, 1), (0, 0, 0), (2, 3, 2), (3, 0, 0), (4, 1, 1), (0, 0, 0)):
        actions = np.array([action, (0, 0, 0)])
        one, other = plain.step(actions), watched.step(actions)
        assert one.rows.tobytes() == other.rows.tobytes()
        assert one.rewards.tobytes() == other.rewards.tobytes()
    assert other.ended.pnl.tolist() == (watched.after().values["equity"] - 10**13).tolist()
    assert watched.before().values["KITE"][0] != watched.after().values["KITE"][0]


# the terminal


class TestTerminal:
    def test_keys_move_the_cursor(self, replay: Replay) -> None:
        steps = len(replay.episodes[0])
        cursor = Cursor()
        for key, point in (("right", 1), ("right10", 11), ("left", 10), ("left10", 0), ("left", 0), ("end", steps)):
            cursor = press(cursor, key, replay)
            assert cursor.point == min(point, steps)
        assert press(cursor, "right", replay).point == steps
        assert press(press(cursor, "home", replay), "E", replay).point == 0
        assert press(press(cursor, "home", replay), "e", replay).point in {
            mark.point for mark in replay.episodes[0].marks
        }
        assert press(cursor, "w", replay).episode == replay.worst
        assert press(cursor, "b", replay).episode == replay.best
        assert press(cursor, "p", replay).episode == 0
        assert press(replace(cursor, episode=3), "n", replay).episode == 3
        assert press(cursor, "z", replay) == cursor
        assert press(cursor, "q", replay).quit
        assert press(cursor, "+", replay).speed == cursor.speed + 1
        assert press(replace(cursor, speed=0), "-", replay).speed == 0
        assert press(replace(cursor, speed=len(SPEEDS) - 1), "+", replay).speed == len(SPEEDS) - 1

    def test_playing_stops_at_the_end(self, replay: Replay) -> None:
        steps = len(replay.episodes[0])
        cursor = press(Cursor(point=steps - 1), "space", replay)
        assert cursor.playing
        cursor = tick(cursor, replay)
        assert (cursor.point, cursor.playing) == (steps, False)
        assert tick(cursor, replay) == cursor
        assert press(cursor, "space", replay) == replace(cursor, playing=True, point=0)

    def test_sequences_are_cut_into_keys(self) -> None:
        assert list(keys("\x1b[C\x1b[1;2Dw \x1b[A\x1b[F=")) == ["right", "left10", "w", "space", "\x1b[A", "end", "+"]
        assert list(keys("\x1b")) == ["q"]

    def test_a_frame_shows_the_numbers_without_loss(self, replay: Replay) -> None:
        out = Console(width=110, file=io.StringIO(), force_terminal=False)
        point = 2
        out.print(frame(replay, Cursor(replay.best, point), 110))
        text = out.file.getvalue()  # type: ignore[attr-defined]
        episode = replay.episodes[replay.best]
        cash = episode.values["cash"][point]
        assert isinstance(cash, int)
        assert f"{cash // UNIT}.{cash % UNIT:09d}" in text
        assert episode.actions[point] in text
        assert "the best" in text
        assert str(episode.rows[point, episode.features.index("price")]) in text

    def test_blocks_rise_with_the_values(self) -> None:
        assert bars([0, 1, 2, None, 7]) == "▁▂▃ █"
        assert bars([]) == ""
        assert bars([3, 3]) == "▁▁"

    def test_without_a_terminal_the_events_are_printed(self, replay: Replay) -> None:
        out, some = Console(width=100, file=io.StringIO()), replace(replay, episodes=replay.episodes[:2])
        run(some, out)
        text = out.file.getvalue()  # type: ignore[attr-defined]
        assert text.count("what it saw") == len(list(frames(some)))
        assert all(episode.window in text for episode in some.episodes)

    @pytest.mark.timeout(60)
    def test_a_terminal_is_listened_to(self, replay: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
        master, slave = pty.openpty()
        with os.fdopen(slave, "r+b", buffering=0) as end, io.TextIOWrapper(end, write_through=True) as typed:
            monkeypatch.setattr(sys, "stdin", typed)
            os.write(master, b"\x1b[C\x1b[Cb\x1b[Fq")
            out = io.StringIO()
            run(replay, Console(width=100, height=60, file=out, force_terminal=True))
            assert replay.episodes[replay.best].window in out.getvalue()
            assert "end, after" in out.getvalue()
        os.close(master)


# the page in a browser


@pytest.fixture(scope="module")
def page(replay: Replay, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "replay.html"
    path.write_text(replay_page(replay), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser(chromium: Path) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        launched = play.chromium.launch(executable_path=str(chromium), args=["--no-sandbox"])
        yield launched
        launched.close()


def open_page(browser: Any, page: Path, width: int) -> tuple[Any, list[str]]:
    """Open the page without a network; give it, and what went wrong."""
    context = browser.new_context(viewport={"width": width, "height": 844}, has_touch=width < 500, offline=True)
    shown = context.new_page()
    failures: list[str] = []
    shown.on("pageerror", lambda error: failures.append(str(error)))
    shown.on("console", lambda said: said.type == "error" and failures.append(said.text))
    shown.on("request", lambda request: request.url.startswith("http") and failures.append(request.url))
    shown.goto(page.as_uri())
    return shown, failures


def cell(shown: Any, name: str) -> str:
    text: str = shown.locator(f"#values tr:has(td:text-is('{name}')) td.v").inner_text()
    return text


def exact(value: Any) -> str:
    assert isinstance(value, int)
    return f"{'-' if value < 0 else ''}{abs(value) // UNIT}.{abs(value) % UNIT:09d}"


@pytest.mark.browser
def test_keys_step_through_the_page(browser: Any, page: Path, replay: Replay) -> None:
    shown, failures = open_page(browser, page, 1280)
    episode, steps = replay.episodes[0], len(replay.episodes[0])

    def at(point: int) -> None:
        expected = f"end, after {steps} steps" if point == steps else f"step {point + 1} of {steps}"
        assert shown.locator("#step").inner_text() == expected
        for name in ("cash", "equity", "position", "bet field"):
            assert cell(shown, name) == exact(episode.values[name][point])
        assert float(cell(shown, "price")) == episode.values["price"][point]
        seen = shown.locator("#rows div:has(span:text-is('balance')) b").inner_text()
        assert np.float32(seen) == episode.rows[point, episode.features.index("balance")]
        if point < steps:
            assert shown.locator("#did").inner_text() == episode.actions[point]
            chances = [item.inner_text() for item in shown.locator("#thoughts .bar span:last-child").all()[:4]]
            for text, chance in zip(chances, episode.thoughts[0][1][point], strict=True):
                assert float(text.removesuffix(" %")) == pytest.approx(100 * float(chance), abs=0.51)
        indices.append(shown.locator("#charts .chart-cursor").first.bounding_box()["x"])

    indices: list[float] = []
    at(0)
    for key, point in (
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("ArrowLeft", 1),
        ("Shift+ArrowRight", 11),
        ("End", steps),
    ):
        shown.keyboard.press(key)
        at(min(point, steps))
    shown.keyboard.press("Home")
    at(0)
    assert indices[0] == indices[-1] < indices[1] < indices[2] < indices[5]
    assert indices[3] == indices[1]
    for key, position in (("w", replay.worst), ("b", replay.best)):
        shown.keyboard.press(key)
        assert replay.episodes[position].window in shown.locator("#which").inner_text()
        shown.keyboard.press("End")
        assert exact(replay.episodes[position].pnl) in shown.locator("#paid").inner_text()
    shown.locator("#charts .chart-box").first.click()
    chosen = int(shown.locator("#slider").input_value())
    assert 0 < chosen < len(replay.episodes[replay.best]), "a click on the chart chooses its step"
    shown.keyboard.press("ArrowRight")
    assert shown.locator("#slider").input_value() == str(chosen + 1), "and the keys still work"
    shown.keyboard.press("Home")
    shown.keyboard.press("e")
    reached = min(mark.point for mark in replay.episodes[replay.best].marks if mark.point > 0)
    assert shown.locator("#slider").input_value() == str(reached)
    assert not failures
    shown.context.close()


@pytest.mark.browser
def test_it_plays_on_a_phone_by_touch(browser: Any, page: Path, replay: Replay) -> None:
    from playwright.sync_api import expect

    shown, failures = open_page(browser, page, 390)
    assert shown.evaluate("document.documentElement.scrollWidth") <= 390
    steps = len(replay.episodes[0])
    for _ in range(3):
        shown.locator("[data-key='+']").tap()
    assert shown.locator("#speed").inner_text() == f"{SPEEDS[6]}/s"
    shown.locator("#play").tap()
    expect(shown.locator("#slider")).to_have_value(str(steps), timeout=60_000)
    assert shown.locator("#play").inner_text() == "▶"
    shown.locator("[data-key='w']").tap()
    assert replay.episodes[replay.worst].window in shown.locator("#which").inner_text()
    shown.locator("#strip button").nth(replay.best).tap()
    assert replay.episodes[replay.best].window in shown.locator("#which").inner_text()
    assert not failures
    shown.context.close()


@pytest.mark.browser
def test_a_long_replay_is_packed(browser: Any, replay: Replay, tmp_path: Path) -> None:
    long = replace(replay, episodes=replay.episodes * 8)
    text = replay_page(long)
    assert len(json.dumps(page_data(long))) > 2_000_000
    assert len(text) < 1_000_000
    path = tmp_path / "long.html"
    path.write_text(text, encoding="utf-8")
    shown, failures = open_page(browser, path, 900)
    shown.wait_for_selector("#strip button >> nth=31")
    assert shown.locator("#step").inner_text() == f"step 1 of {len(replay.episodes[0])}"
    assert not failures
    shown.context.close()


@pytest.mark.browser
def test_what_others_wrote_is_text(browser: Any, replay: Replay, tmp_path: Path) -> None:
    hostile = "</script><script>document.title='run'</script><img src=x onerror=alert(1)>"
    said = tuple(() for _ in replay.episodes[0].actions)
    episode = replace(replay.episodes[0], player=hostile, about=hostile, said=said)
    path = tmp_path / "hostile.html"
    path.write_text(replay_page(replace(replay, title=hostile, episodes=(episode,))), encoding="utf-8")
    shown, failures = open_page(browser, path, 900)
    assert shown.locator("h1").inner_text() == hostile
    assert hostile in shown.locator("#which").inner_text()
    assert shown.title() != "run"
    assert not failures
    shown.context.close()
