"""GRPO: the loss against TRL's, who gives gradients, a model that learns to earn, kill -9, divergence, ART."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import types
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine
from tongues import OPTIONS, TERMS, arena, saved, small_model, tables

from playproof.cli.app import main
from playproof.datasets.conversations.art import from_art_group
from playproof.datasets.conversations.groups import ChatExchange, Conversation, ConversationGroup
from playproof.errors import ConfigError, Diverged, InputError, MissingExtra
from playproof.judge.computed import computed
from playproof.train.language import art
from playproof.train.language.config import GRPOConfig, SFTConfig
from playproof.train.language.generation import fixed_answers
from playproof.train.language.grpo import (
    Clipping,
    ForkPlan,
    GRPOLearner,
    ScoredGroup,
    TrainingSample,
    UpdateStats,
    advantages,
    choose,
    grpo_loss,
    score,
    train_grpo,
)
from playproof.train.language.model import LanguageModel, load_language_model, weights_hash
from playproof.train.language.rollout import model_player, play
from playproof.train.language.sft import train_sft
from playproof.train.run import Tracking, read_log
from playproof.workflows.arena.presets import PRESETS

QUIET = Tracking(tensorboard=False)


@pytest.fixture(scope="module")
def small() -> LanguageModel:
    return small_model()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    yield from tables(tmp_path / "tables.db")


@given(st.lists(st.floats(-100, 100).map(lambda item: round(item, 3)), min_size=2, max_size=9))
def test_advantages_are_centred_and_a_group_without_spread_has_none(rewards: list[float]) -> None:
    payload = advantages(rewards)
    if len(set(rewards)) == 1:
        assert payload is None
    else:
        assert payload is not None
        assert sum(payload) == pytest.approx(0, abs=1e-6)
        assert np.std(payload, ddof=1) == pytest.approx(1, abs=0.2)
        assert np.argmax(payload) == np.argmax(rewards)
    assert advantages([1.0]) is None
    assert advantages([1.0, float("nan")]) is None


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Make TRL's trainer around a small model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from datasets import Dataset
        from trl import GRPOConfig as TheirConfig
        from trl import GRPOTrainer

        result = small_model()
        args = TheirConfig(
            output_dir=str(tmp_path_factory.mktemp("trl")),
            per_device_train_batch_size=4,
            num_generations=4,
            max_completion_length=6,
            report_to=[],
            use_cpu=True,
            beta=0.0,
            disable_tqdm=True,
        )
        return GRPOTrainer(
            model=result.model,
            processing_class=result.tokenizer,
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            args=args,
            train_dataset=Dataset.from_list([{"prompt": "a"}] * 4),
        )


@pytest.mark.parametrize(("loss_type", "averaging"), [("grpo", "sequence"), ("bnpo", "token")])
@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_the_loss_equals_that_of_trl_on_the_same_batch(
    trainer: Any, loss_type: str, averaging: Any, beta: float
) -> None:
    generator = torch.Generator().manual_seed(4)
    lengths, width = [5, 2, 6, 1], 6
    prompts = torch.randint(0, 300, (4, 7), generator=generator)
    answers = torch.randint(0, 300, (4, width), generator=generator)
    mask = (torch.arange(width)[None] < torch.tensor(lengths)[:, None]).int()
    given = torch.tensor([1.2, -0.7, -1.1, 0.6])
    model = trainer.model.eval()
    own, _, _ = trainer._get_per_token_logps_and_entropies(
        model, torch.cat([prompts, answers], 1), torch.cat([torch.ones_like(prompts), mask], 1), width
    )
    old = own.detach() + 0.4 * torch.randn(4, width, generator=generator)
    reference = own.detach() + 0.2 * torch.randn(4, width, generator=generator)
    trainer.loss_type, trainer.beta = loss_type, beta
    inputs = {
        "prompt_ids": prompts,
        "prompt_mask": torch.ones_like(prompts),
        "completion_ids": answers,
        "completion_mask": mask,
        "advantages": given,
        "old_per_token_logps": old,
        "ref_per_token_logps": reference,
        "num_items_in_batch": mask.sum(),
    }
    want = trainer._compute_loss(model, inputs)
    flat = mask.bool()
    clipping = Clipping(0.2, 0.2, beta, averaging)
    result = grpo_loss(own[flat], old[flat], lengths, given.tolist(), clipping, reference=reference[flat])
    assert result.value.item() == pytest.approx(want.item(), abs=1e-6)
    assert result.clipped > 0
    gradients = [torch.autograd.grad(item, model.parameters(), retain_graph=True) for item in (want, result.value)]
    for theirs, ours in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-4)


def test_parts_of_a_batch_add_up_to_its_loss() -> None:
    own, old = -torch.rand(9), -torch.rand(9)
    lengths, given = [4, 2, 3], [1.0, -2.0, 0.5]
    for averaging, total in (("sequence", 3), ("token", 9)):
        clipping = Clipping(averaging=averaging)  # type: ignore[arg-type]
        whole = grpo_loss(own, old, lengths, given, clipping).value
        first = grpo_loss(own[:4], old[:4], lengths[:1], given[:1], clipping, total=total).value
        rest = grpo_loss(own[4:], old[4:], lengths[1:], given[1:], clipping, total=total).value
        assert float(first + rest) == pytest.approx(float(whole), abs=1e-6)


def _episode(name: str, version: str | None, **more: Any) -> Conversation:
    payload = {"prompt_ids": (5, 6), "token_ids": (7, 8), "logprobs": (-1.0, -1.0), **more}
    return Conversation(name, name, version, (ChatExchange((("user", "u"),), "x", **payload),))


def test_gradients_come_from_own_recent_samples_while_all_count_in_the_group(small: LanguageModel) -> None:
    kinds = {"a": "line@3", "b": "line@2", "c": "line@1", "d": "other@3"}
    members = [_episode(name, version) for name, version in kinds.items()]
    members.append(_episode("e", "line@3", temperature=0.5))
    group = ScoredGroup(ConversationGroup("w", tuple(members)), (0.1, 0.2, 0.3, 0.4, 0.9), "computed")
    flat = ScoredGroup(
        ConversationGroup("v", (_episode("f", "line@3"), _episode("g", "line@3"))), (0.5, 0.5), "computed"
    )
    foreign = ScoredGroup(
        ConversationGroup("u", (_episode("h", "other@1"), _episode("i", None))), (0.1, 0.2), "computed"
    )
    chosen = choose([group, flat, foreign], small, "line", 3)
    assert chosen.standings == {"own": 4, "stale": 1, "foreign": 3, "tempered": 1}
    assert (chosen.flat, chosen.idle) == (1, 1)
    (lessons,) = chosen.lessons
    whole = advantages([1e4 * reward for reward in group.rewards])
    assert whole is not None
    assert [lesson.advantage for lesson in lessons] == list(whole[:2])


def test_a_step_raises_what_did_well_and_lowers_what_did_not() -> None:
    result = small_model()
    (played,) = play(arena(), TERMS, [3], 4, model_player(result, 4, (1,)), "line@0")
    tokens = [episode.exchanges[0] for episode in played.group.episodes]
    lessons = [
        TrainingSample(_tokens(token), 1.0 if token.token_ids == tokens[0].token_ids else -1.0) for token in tokens
    ]
    learner = GRPOLearner(result, 1e-3, Clipping(), 1.0)
    before = [sum(fixed_answer) for fixed_answer in fixed_answers(result.model, [lesson.tokens for lesson in lessons])]
    learner.step(lessons, UpdateStats())
    after = [sum(fixed_answer) for fixed_answer in fixed_answers(result.model, [lesson.tokens for lesson in lessons])]
    assert after[0] > before[0]
    assert learner.moved(lessons) > 0


def _tokens(exchange: ChatExchange) -> Any:
    from playproof.datasets.conversations.groups import TokenSequence

    return TokenSequence(exchange.prompt_ids, exchange.token_ids, exchange.logprobs)


def test_computed_scores_of_forks_are_their_rewards(small: LanguageModel) -> None:
    (played,) = play(arena(), TERMS, [5], 3, model_player(small, 4, (1,)), "small@0")
    payload = score(played.group, played.outcomes, computed)
    held = np.mean([row["change"] for row in played.outcomes.rows])
    assert payload.rewards == pytest.approx([end.pnl / end.start_equity - held for end in played.ends])


def test_held_out_forks_come_after_the_embargo() -> None:
    plan = ForkPlan(TERMS, 10, 3, 4, holdout=5, embargo=2)
    assert [list(plan.numbers(item)) for item in (1, 3)] == [[10, 11, 12, 13], [18, 19, 20, 21]]
    split = plan.split()
    assert split.held == tuple(TERMS.window(item) for item in plan.held)
    assert split.train == tuple(TERMS.window(index) for index in range(10, 22))
    assert len(split.embargoed) == 2


def _config(base: Path, **more: Any) -> GRPOConfig:
    payload = {"decisions": 1, "prompt": "brief", "options": OPTIONS, "iterations": 3, "windows": 2, "forks": 4}
    small = {"min_agents": 4, "learning_rate": 1e-3, "max_tokens": 4, "holdout": 2, "embargo": 1, "rank": None}
    return GRPOConfig(game="arena", base=str(base), **{**payload, **small, "holdout_forks": 1, "max_kl": 5.0, **more})


def by_length(group: Any) -> Any:
    """Score by the answers' characters, which differ; a stand-in that any model can learn from."""
    result = computed(group)
    values = {contender.trajectory_id: float(sum(map(len, contender.answers))) for contender in group.contenders}
    return replace(result, values=values)


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = {tests!r}
import test_grpo as own
calls = 0

def reward(group):
    global calls
    calls += 1
    if calls == 4:  # in the middle of the second iteration
        os.kill(os.getpid(), signal.SIGKILL)
    return own.by_length(group)

engine = next(own.tables(Path({path!r}) / "killed.db"))
base = Path({path!r}) / "base"
run = Path({path!r}) / "killed" / "line"
own.train_grpo(own.arena(), own._config(base), run, engine, reward=reward, tracking=own.QUIET)
"""


def test_kill_9_loses_nothing_and_trains_nothing_twice(tmp_path: Path) -> None:
    base = saved(tmp_path / "base", small_model())
    with_engine = tables(tmp_path / "whole.db")
    engine = next(with_engine)
    whole = train_grpo(arena(), _config(base), tmp_path / "whole" / "line", engine, reward=by_length, tracking=QUIET)
    program = KILLED.format(tests=[str(Path(__file__).parent), str(Path(__file__).parents[2])], path=str(tmp_path))
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=280)
    assert ended.returncode == -signal.SIGKILL, ended.stderr[-2000:]
    assert not (tmp_path / "killed" / "line" / "checkpoints" / "0002").exists()

    other = next(with_other := tables(tmp_path / "killed.db"))
    again = train_grpo(
        arena(), _config(base), tmp_path / "killed" / "line", other, reward=by_length, resume=True, tracking=QUIET
    )
    models = [load_language_model(item["checkpoint"]) for item in (whole, again)]
    assert weights_hash(models[0].model) == weights_hash(models[1].model)
    assert weights_hash(models[0].model) != weights_hash(load_language_model(base).model)
    assert models[0].version == "line@3"
    logs = [[item for item in read_log(Path(item["run"])) if item["kind"] == "grpo"] for item in (whole, again)]
    assert logs[0] == logs[1]
    assert _ledger(engine) == _ledger(other)
    assert [row[2] for row in _ledger(other) if row[1] == "train"] == [1, 1, 2, 2, 3, 3]
    with_engine.close()
    with_other.close()


def _ledger(engine: Engine) -> list[tuple[Any, ...]]:
    from sqlalchemy import select

    from playproof.store.db import UsedWindow

    query = select(UsedWindow.window_id, UsedWindow.purpose, UsedWindow.iteration, UsedWindow.settled)
    with engine.connect() as connection:
        return sorted(map(tuple, connection.execute(query)))


def test_divergence_stops_and_keeps_the_last_good_checkpoint(tmp_path: Path, engine: Engine) -> None:
    base = saved(tmp_path / "base", small_model())
    config = _config(base, learning_rate=2.0, max_kl=0.5)
    with pytest.raises(Diverged, match=r"stopped in iteration 1: .*last good checkpoint is .*base"):
        train_grpo(arena(), config, tmp_path / "line", engine, reward=by_length, tracking=QUIET)
    payload = json.loads((tmp_path / "line" / "result.json").read_text())
    assert payload["stopped"]
    assert payload["last_good"] == str(base)


def test_a_collapse_in_money_stops_too(tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    from playproof.train.language import grpo
    from playproof.train.language.rollout import PlayerMeasurement

    base, looks = saved(tmp_path / "base", small_model()), iter([0.0, 1e9, -9e9])
    monkeypatch.setattr(
        grpo,
        "measure",
        lambda *_: PlayerMeasurement(np.full(4, next(looks)) + np.arange(4) * 1e6, np.zeros(4), 1.0, 0.0, 0.0),
    )
    with pytest.raises(Diverged, match=r"iteration 2: expected money .*checkpoints/0001"):
        train_grpo(arena(), _config(base), tmp_path / "line", engine, reward=by_length, tracking=QUIET)
    assert (tmp_path / "line" / "checkpoints" / "0001" / "checkpoint.json").exists()
    assert not (tmp_path / "line" / "checkpoints" / "0002").exists()


def test_a_small_model_learns_to_earn(tmp_path: Path, engine: Engine) -> None:
    """SFT on play that is right 65 % of the time, then GRPO: more money than its parent on held-out windows."""
    tiny, terms = PRESETS["tiny"], {"game": "arena", "seed": 21}
    taught = train_sft(arena(), SFTConfig(**terms, **tiny.teach), tmp_path / "taught", tracking=QUIET)
    parent = load_language_model(taught["checkpoint"])
    assert 4.5e6 < parent.parameters < 6e6
    payload = {name: tiny.loop[name] for name in ("world", "decisions", "prompt", "max_tokens")}
    config = GRPOConfig(**terms, base=taught["checkpoint"], **payload, **tiny.train)
    (window,) = play(arena(), config.terms, [0], 1, model_player(parent, 10, (1,)), None)
    assert len(window.group.episodes[0].exchanges[0].prompt_ids or ()) <= 64
    result = train_grpo(arena(), config, tmp_path / "better", engine, tracking=QUIET)
    after = result["after"]
    assert after["gain_low"] > 0, after
    assert after["holdout_valid"] > 0.9
    lines = [item for item in read_log(tmp_path / "better") if item["kind"] == "grpo"]
    assert result["flat_groups"] == sum(line["flat"] for line in lines) > 0
    assert all(line["episodes_own"] == config.windows * config.forks for line in lines)


def test_recorded_windows_without_any_are_an_error_that_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAYPROOF_HOME", str(tmp_path))
    monkeypatch.delenv("PLAYPROOF_DB", raising=False)
    monkeypatch.delenv("JUDGE_MODEL", raising=False)
    base = saved(tmp_path / "base", small_model())
    asked = ["train", "grpo", "--name", "x", "--base", str(base), "--source", "recorded"]
    assert main(asked) == 1
    payload = " ".join(capsys.readouterr().err.split())
    assert "found none: 0 windows were played" in payload
    assert "--lookback-hours" in payload


def test_art_is_refused_without_its_package_or_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingExtra, match="openpipe-art"):
        art.client({})
    monkeypatch.setitem(sys.modules, "art", types.ModuleType("art"))
    with pytest.raises(ConfigError, match="WANDB_API_KEY"):
        art.client({})
    assert art.client({"WANDB_API_KEY": "k"}) is not None


def test_groups_go_to_art_with_tokens_and_rewards(small: LanguageModel) -> None:
    (played,) = play(arena(), TERMS, [5], 3, model_player(small, 4, (1,)), "small@0")
    scored = ScoredGroup(played.group, (0.1, 0.2, 0.3), "computed")
    flat = ScoredGroup(played.group, (0.1, 0.1, 0.1), "computed")
    (group,) = art.art_groups([scored, flat])
    views = from_art_group(group)
    assert [view.reward for view in views] == [0.1, 0.2, 0.3]
    assert views[0].conversations[0][-1].token_ids == played.group.episodes[0].exchanges[0].token_ids
    empty = replace(played.group, episodes=tuple(replace(episode, exchanges=()) for episode in played.group.episodes))
    with pytest.raises(InputError, match="no answer"):
        art.art_groups([replace(scored, group=empty)])


def test_forks_are_at_least_min_agents(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="min-agents"):
        _config(tmp_path, forks=3)
