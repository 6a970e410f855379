"""PPO: solves the toy, gives the same weights for the same seed and after a kill, watches money, not reward."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import copytree
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from playproof.errors import ConfigError, DecodeError, GateFailed, InputError
from playproof.evaluate.rollout import RolloutOptions, rollout
from playproof.game import load_game
from playproof.policies import BatchPlayer, load_checkpoint, load_policy
from playproof.policies.network import NetworkPolicy
from playproof.reports.run import page
from playproof.rewards import checks
from playproof.testing import coin
from playproof.train.ppo.callbacks import EvaluationSchedule, RolloutBoundary, TrainingProgress, diverged
from playproof.train.ppo.config import PPOConfig, fine_tuned, plan_preset
from playproof.train.ppo.loop import PPOResult, TrainSetup, build, train_ppo, weights_of
from playproof.train.ppo.loss import divergence, leaning
from playproof.train.run import Run, Tracking, find_checkpoint, read_config, read_log, read_result, restore

GAME = coin.game()
LANES, STEPS = 64, 32
ROLLOUT = LANES * STEPS
CONFIG = PPOConfig(
    game="coin",
    worlds=(("biased", 1.0),),
    steps=6 * ROLLOUT,
    lanes=LANES,
    rollout=STEPS,
    batch=512,
    epochs=4,
    learning_rate=3e-3,
    gamma=0.5,
    gae_lambda=0.9,
    entropy=0.01,
    entropy_schedule="linear",
    entropy_least=0.0,
    entropy_floor=0.0,
    noop_prior=0.0,
    stake=coin.RESERVED,
    hidden=(16, 16),
    evaluate_every=3,
    evaluate_windows=200,
)
CRASH = load_game("crash")
PINNED_LOSS = (0.53248203, 0.43995956, 0.41888653, 0.41669669, 0.41992361, 0.45249059)
"""Mean loss of each update of CONFIG, seed 1, one thread."""


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> PPOResult:
    return train_ppo(GAME, CONFIG, tmp_path_factory.mktemp("runs") / "coin")


def same(one: Any, other: Any) -> bool:
    return set(one) == set(other) and all((one[name] == other[name]).all() for name in one)


def test_it_solves_the_coin_game(solved: PPOResult) -> None:
    assert solved.best is not None
    policy = load_policy(solved.best, GAME)
    result = rollout(GAME, BatchPlayer(policy), "biased", 1000, 99, stake=coin.RESERVED)
    assert result.score().roi == pytest.approx(0.2, abs=0.05)  # the ceiling: following the hint
    hints = np.array([[side, 0, 0, 5, 1] for side in (1, -1)], np.float32)
    assert policy.act_batch(hints).tolist() == [[1], [2]]


def test_its_losses_are_pinned(solved: PPOResult) -> None:
    losses = [note["loss"] for note in read_log(solved.path) if note["kind"] == "train"]
    assert losses == pytest.approx(PINNED_LOSS, rel=1e-3)


def test_the_folder_holds_everything(solved: PPOResult) -> None:
    assert read_config(solved.path)["config"]["seed"] == 1
    evaluations = [note for note in read_log(solved.path) if note["kind"] == "evaluation"]
    assert [note["step"] for note in evaluations] == [0, 3 * ROLLOUT, 6 * ROLLOUT]
    assert evaluations[-1]["roi"] > 0.1
    assert evaluations[-1]["components"]["profit"] == pytest.approx(evaluations[-1]["reward"])
    assert list((solved.path / "tensorboard").iterdir())
    assert read_result(solved.path)["steps"] == 6 * ROLLOUT
    text = (solved.path / "report.html").read_text()
    assert text.count("<figure data-chart") == 6
    assert len(text) < 1_000_000
    assert "http://" not in text.split("</style>")[0]
    assert page(solved.path) == text
    card = load_checkpoint(solved.best or Path(), GAME).card
    assert (card.method, card.world, card.stake, card.reward["name"]) == ("ppo", "biased", coin.RESERVED, "profit")
    assert card.metrics["step"] == solved.progress.best_step
    assert card.metrics["alarms"] == 0  # read by the validator's gate R7


def test_a_kept_policy_answers_for_later_alarms(solved: PPOResult, tmp_path: Path) -> None:
    assert solved.best is not None
    copytree(solved.best, tmp_path / "run" / "checkpoints" / "best")
    run = Run.create(tmp_path / "run", "ppo", vars(CONFIG), Tracking(tensorboard=False))
    run.amend_checkpoint("checkpoints/best", {"alarms": 3})
    run.close()
    before, after = (load_checkpoint(path, GAME) for path in (solved.best, tmp_path / "run" / "checkpoints" / "best"))
    assert after.card == replace(before.card, metrics={**before.card.metrics, "alarms": 3})
    assert same(before.weights, after.weights)


def test_how_a_run_ended_stands_until_it_has_gone_on(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", "ppo", vars(CONFIG), Tracking(tensorboard=False))
    run.save_state(3, {"lanes": np.zeros(4)}, {})
    run.finish({"steps": 3})
    run.close()
    again = Run.resume(tmp_path / "run", "ppo", Tracking(tensorboard=False))
    state = again.load_state()
    assert state is not None
    with pytest.raises(DecodeError, match=r"another version .* another name"):
        restore(np.zeros(5), state[1]["lanes"])
    assert read_result(again.path) == {"steps": 3}
    again.note("train", 4, {"loss": 0.5})
    assert read_result(again.path) == {}
    again.close()


def test_a_run_stands_for_its_best_policy(solved: PPOResult, tmp_path: Path) -> None:
    assert solved.best is not None
    assert find_checkpoint(solved.path) == solved.best == find_checkpoint(solved.best)
    with pytest.raises(InputError, match="found none"):
        find_checkpoint(tmp_path)
    copytree(solved.path / "checkpoints", tmp_path / "checkpoints")  # a run that has not ended: its last one
    assert find_checkpoint(tmp_path).name == max(path.name for path in (solved.path / "checkpoints").iterdir())


def test_same_seed_same_weights(solved: PPOResult, tmp_path: Path) -> None:
    again = train_ppo(GAME, CONFIG, tmp_path / "again")
    assert same(again.weights, solved.weights)
    other = train_ppo(GAME, replace(CONFIG, seed=2, steps=ROLLOUT), tmp_path / "other")
    assert not same(other.weights, solved.weights)


PROGRAM = """
import sys
from pathlib import Path
from playproof.rewards import checks
from playproof.testing import coin
from playproof.train.ppo.config import PPOConfig
from playproof.train.ppo.loop import train_ppo
import json, time
config = PPOConfig.from_json(json.loads(sys.argv[2]))
train_ppo(coin.game(), config, Path(sys.argv[1]), show=lambda step, told: time.sleep(0.15))
"""


def start(path: Path, config: PPOConfig) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(path), json.dumps(vars(config))])


def wait_for(path: Path, step: int, running: subprocess.Popen[bytes]) -> None:
    for _ in range(2000):
        if (path / "state.json").exists() and json.loads((path / "state.json").read_text())["step"] >= step:
            return
        assert running.poll() is None, "it ended too early"
        time.sleep(0.05)
    pytest.fail("no resume point came")


def test_a_killed_run_goes_on_to_the_same_weights(solved: PPOResult, tmp_path: Path) -> None:
    path = tmp_path / "killed"
    running = start(path, CONFIG)
    wait_for(path, 2 * ROLLOUT, running)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    stopped = json.loads((path / "state.json").read_text())["step"]
    assert 0 < stopped < CONFIG.steps
    result = train_ppo(GAME, CONFIG, path, resume=True)
    assert same(result.weights, solved.weights)
    one, other = (
        [{k: v for k, v in note.items() if "second" not in k} for note in read_log(at)] for at in (path, solved.path)
    )
    assert one == other


def test_ctrl_c_saves_and_resume_goes_on(solved: PPOResult, tmp_path: Path) -> None:
    path = tmp_path / "interrupted"
    running = start(path, CONFIG)
    wait_for(path, ROLLOUT, running)
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 0
    assert read_result(path)["stopped"] == "interrupted"
    result = train_ppo(GAME, CONFIG, path, resume=True)
    assert result.progress.stopped is None
    assert same(result.weights, solved.weights)


def test_a_finished_run_stays_as_it_is_when_resumed(solved: PPOResult) -> None:
    again = train_ppo(GAME, CONFIG, solved.path, resume=True)
    assert same(again.weights, solved.weights)
    with pytest.raises(ConfigError, match="--resume"):
        train_ppo(GAME, CONFIG, solved.path)


def test_a_resumed_curriculum_with_frames_gives_the_same_weights(tmp_path: Path) -> None:
    config = replace(CONFIG, worlds=(("fair", 0.5), ("biased", 0.5)), frames=3, steps=4 * ROLLOUT, evaluate_every=4)
    whole = train_ppo(GAME, config, tmp_path / "whole")
    path = tmp_path / "killed"
    running = start(path, config)
    wait_for(path, 2 * ROLLOUT, running)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert same(train_ppo(GAME, config, path, resume=True).weights, whole.weights)
    assert whole.progress.stage == 1


def test_a_recurrent_policy_is_exported_as_it_acts() -> None:
    config = replace(CONFIG, recurrent=8, steps=ROLLOUT, evaluate_every=2)
    model, _ = build(TrainSetup.from_config(GAME, config))
    model.learn(ROLLOUT)
    policy = TrainSetup.from_config(GAME, config).policy(weights_of(model))
    rng, state, memory = np.random.default_rng(0), None, np.zeros((2, 4, 8), np.float32)
    for number in range(5):
        rows = rng.normal(size=(4, 5)).astype(np.float32)
        scaled = np.clip(rows / [1, 1, 5, 10, 1], -10, 10).astype(np.float32)
        actions, state = model.predict(scaled, state, np.full(4, number == 0), deterministic=True)
        assert policy.act_batch(rows, None, None, memory).tolist() == actions.tolist()


def test_a_recurrent_policy_learns_and_acts_without_masks(tmp_path: Path) -> None:
    config = replace(CONFIG, recurrent=8, steps=ROLLOUT, evaluate_every=1)
    assert CONFIG.masked
    assert not config.masked
    result = train_ppo(GAME, config, tmp_path / "run")
    assert result.best is not None
    policy = load_policy(result.best, GAME)
    assert isinstance(policy, NetworkPolicy)
    assert not policy.masked


def test_where_money_says_little_it_ends_doing_nothing(tmp_path: Path) -> None:
    hints = np.array([[side, 0, 0, 5, 1] for side in (1, -1)], np.float32)
    chances = []
    for lean in (0.0, 5.0):
        config = replace(
            CONFIG, entropy=1.0, entropy_least=1.0, noop_prior=lean, noop_prior_from=0.0, noop_prior_by=0.3
        )
        result = train_ppo(GAME, config, tmp_path / f"lean-{lean}")
        chances.append(TrainSetup.from_config(GAME, config).policy(result.weights).probabilities(hints)[0])
    assert np.allclose(chances[0], 1 / 3, atol=0.15)  # entropy alone pulls to anything
    assert (chances[1][:, 0] > 0.8).all()


def test_a_leaning_policy_is_the_one_it_says() -> None:
    masks = torch.tensor([[True, True, False, True, True], [True, False, True, True, False]])
    first, second = leaning(masks, (3, 2), 2.0)
    whole = math.exp(2.0)
    assert torch.allclose(first.exp()[0], torch.tensor([whole / (whole + 1), 1 / (whole + 1), 0.0]))
    assert torch.allclose(second.exp()[:, 0], torch.tensor([whole / (whole + 1), 1.0]))
    assert torch.allclose(divergence([first, second], [first, second]), torch.zeros(2))


def test_the_lean_update_is_that_of_sb3_contrib() -> None:
    from sb3_contrib import MaskablePPO

    table = TrainSetup.from_config(CRASH, small_crash(steps=512, entropy_floor=0.0, noop_prior=0.0))
    lean, env = build(table)
    lean.entropy_weight = None
    lean.learn(512)  # fills the buffer
    stock = MaskablePPO("MlpPolicy", env, n_steps=16, batch_size=128, n_epochs=2, ent_coef=0.01, device="cpu",
                        learning_rate=1e-3, policy_kwargs={"net_arch": {"pi": [64, 64], "vf": [64, 64]},
                                                           "activation_fn": torch.nn.ReLU})  # fmt: skip
    lean.lr_schedule = stock.lr_schedule
    lean.policy.optimizer = torch.optim.Adam(lean.policy.parameters(), lr=1e-3, eps=1e-5)
    stock.policy.load_state_dict(lean.policy.state_dict())
    stock._setup_learn(512)
    stock.rollout_buffer = lean.rollout_buffer
    for model in (lean, stock):
        np.random.seed(3)
        model.train()
    for one, other in zip(lean.policy.parameters(), stock.policy.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-5)
    obs, masks = torch.from_numpy(lean._last_obs), env.action_masks()
    expected = stock.policy.get_distribution(obs, masks)
    for log, part in zip(lean.policy.chances(obs, torch.from_numpy(masks)), expected.distributions, strict=True):
        assert torch.allclose(log.exp(), part.probs, atol=1e-5)


def small_crash(**changes: Any) -> PPOConfig:
    """A small crash world: rounds of `drift` with the whole bet in the field from the start."""
    asked: dict[str, Any] = {
        "game": "crash",
        "worlds": (("drift", 1.0),),
        "steps": 98_304,
        "lanes": 32,
        "rollout": 16,
        "batch": 128,
        "epochs": 2,
        "entropy": 0.01,
        "entropy_schedule": "linear",
        "options": {"first_bet": 10**8},
        "evaluate_windows": 64,
    }
    return PPOConfig(**(asked | changes))


def test_it_finds_the_edge_of_a_small_crash_world(tmp_path: Path) -> None:
    """World `hazard` with a fair bet in the field: sidebets win in the rounds that show themselves as hot."""
    config = small_crash(
        worlds=(("hazard", 1.0),),
        steps=40 * 128 * 32,
        lanes=128,
        rollout=32,
        batch=1024,
        epochs=4,
        learning_rate=3e-3,
        gamma=0.995,
        gae_lambda=0.98,
        entropy=0.02,
        reward_scale=30.0,
        options={"first_bet": 10**7},
        evaluate_every=40,
    )
    result = train_ppo(CRASH, config, tmp_path / "hazard")
    policy = TrainSetup.from_config(CRASH, config).policy(result.weights)
    options = RolloutOptions(game=config.options)
    value = rollout(CRASH, BatchPlayer(policy), "hazard", 400, 7, stake=config.stake, options=options).summary()
    assert value["pnl"] > 2 * value["pnl_se"] > 0
    assert value["mix"]["SIDEBET"] > 0.001


def test_the_plan_preset_is_the_plans_set_up(tmp_path: Path) -> None:
    config = plan_preset(small_crash())
    assert (config.lanes, config.batch, config.learning_rate, config.entropy) == (8, 64, 3e-4, 0.01)
    model, env = build(TrainSetup.from_config(CRASH, config))
    assert type(model).__name__ == "PPO"
    assert [type(env).__name__, type(env.venv).__name__, type(env.venv.venv).__name__] == [
        "ScaledObservation",
        "VecMonitor",
        "DummyVecEnv",
    ]
    quick = replace(config, rollout=64, steps=512, epochs=1, evaluate_windows=16)
    result = train_ppo(CRASH, quick, tmp_path / "plan")
    assert load_policy(result.best or Path()).act(np.zeros(31, np.float32))


def test_a_clone_is_warmed_up_and_kept_near(solved: PPOResult, tmp_path: Path) -> None:
    assert solved.best is not None
    origin = load_checkpoint(solved.best, GAME)
    config = fine_tuned(replace(CONFIG, steps=2 * ROLLOUT, noop_prior=5.0), solved.best, GAME)
    assert config.noop_prior == 0.0  # a prior towards WAIT would undo what the clone does
    assert (config.warmup, config.anchor, config.hidden) == (4, 1.0, (16, 16))
    warm = train_ppo(GAME, replace(config, warmup=2), tmp_path / "warm", source=solved.best)
    actor = [name for name in warm.weights if not name.startswith("critic")]
    assert all((warm.weights[name] == origin.weights[name]).all() for name in actor)  # only the critic has learned
    assert any((warm.weights[name] != origin.weights[name]).any() for name in warm.weights)
    moved = []
    for anchor in (0.0, 100.0):
        free = replace(config, warmup=0, anchor=anchor, anchor_share=1.0, entropy=1.0)  # entropy pulls away
        result = train_ppo(GAME, free, tmp_path / f"anchor-{anchor}", source=solved.best)
        hints = np.array([[side, 0, 0, 5, 1] for side in (1, -1)], np.float32)
        table = TrainSetup.from_config(GAME, free)
        old, new = table.policy(dict(origin.weights)), table.policy(result.weights)
        moved.append(float(np.abs(old.probabilities(hints)[0] - new.probabilities(hints)[0]).max()))
    assert moved[1] < 0.5 * moved[0]
    with pytest.raises(InputError, match="network like"):
        train_ppo(GAME, replace(config, activation="tanh"), tmp_path / "other", source=solved.best)


def test_reward_that_rises_without_money_is_an_alarm() -> None:
    rng = np.random.default_rng(1)
    pnl = rng.normal(size=200)
    assert not diverged(pnl + 1, pnl + 1, pnl, pnl)  # both rise
    assert not diverged(pnl, pnl, pnl, pnl)
    assert diverged(pnl + 1, pnl, pnl, pnl)
    assert diverged(pnl + 1, pnl - 0.5, pnl, pnl)
    assert not diverged(pnl + rng.normal(size=200) * 0.5, pnl - 0.01, pnl, pnl)  # no more than luck


def test_three_alarms_stop_the_training(tmp_path: Path) -> None:
    class Notes(list[Any]):
        def note(self, kind: str, step: int, payload: dict[str, Any]) -> None:
            self.append((kind, step, payload))

    base = rollout(GAME, Coins(), "fair", 50, 1, stake=coin.RESERVED)
    rewards = iter(range(10))
    notes = Notes()
    boundary = RolloutBoundary(
        notes,  # type: ignore[arg-type]
        EvaluationSchedule(every=1),
        lambda: replace(base, reward=base.reward + 0.1 * next(rewards)),
        lambda step, payload: f"checkpoint-{step}",
        TrainingProgress(),
        time.perf_counter,
        lambda step, payload: None,
    )
    boundary.model = SimpleNamespace(n_steps=1, n_envs=1)
    for step in range(4):
        assert boundary._on_step()
        boundary.num_timesteps = step
        boundary._look()
    assert [payload["alarm"] for _, _, payload in notes] == [False, True, True, True]
    assert boundary.progress.best == "checkpoint-0"
    assert not boundary._on_step()
    assert "alarms" in (boundary.progress.stopped or "")


class Coins:
    """Always bet on heads."""

    def start(self, lanes: int, rng: np.random.Generator) -> None:
        return None

    def begin(self, state: None, chosen: np.ndarray) -> None:
        return None

    def act(self, obs: np.ndarray, state: None) -> np.ndarray:
        return np.ones((len(obs), 1), np.int64)


def test_a_reward_that_fails_its_checks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "check_reward", partial(checks.check_reward, zoo_windows=0))
    paid = tmp_path / "paid.yaml"
    paid.write_text("global: {enabled_components: [financial, survival_bonus]}\nsurvival_bonus: {weight: 1.0}\n")
    config = small_crash(reward=str(paid))
    with pytest.raises(GateFailed, match="R4"):
        TrainSetup.from_config(CRASH, config)
    table = TrainSetup.from_config(CRASH, config, allow_failing_reward=True)
    assert table.card({}).reward["failed_checks"] is True


@pytest.mark.parametrize(
    "changes",
    [
        {"worlds": ()},
        {"worlds": (("drift", 0.5),)},
        {"batch": 100},
        {"schedule": "cubic"},
        {"preset": "magic"},
        {"recurrent": 8, "frames": 2},
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        small_crash(**changes)
