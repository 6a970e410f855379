"""Teaching language models: shared prefixes against plain forwards, the loss, resuming, checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tongues import OPTIONS, TERMS, arena, saved, small_model

from playproof.datasets.conversations.groups import TokenSequence
from playproof.errors import ConfigError, InputError
from playproof.policies.checkpoint import CheckpointRefused
from playproof.train.language import sft
from playproof.train.language.config import SFTConfig
from playproof.train.language.generation import fixed_answers, generate, pack, pack_rows, score_answers
from playproof.train.language.model import (
    LanguageCard,
    LanguageModel,
    add_adapter,
    load_language_model,
    save_language_model,
    weights_hash,
)
from playproof.train.language.rollout import model_player, play, scripted_player
from playproof.train.language.sft import sft_step, train_sft
from playproof.train.language.tiny import make_tiny
from playproof.train.run import Tracking

SEQUENCES = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=6)
QUIET = Tracking(tensorboard=False)


@pytest.fixture(scope="module")
def small() -> LanguageModel:
    return small_model()


@given(SEQUENCES)
def test_a_row_holds_every_sequence_and_each_token_sees_its_own_past_alone(sequences: list[list[int]]) -> None:
    row = pack(sequences)
    for sequence, indices in zip(sequences, row.indices, strict=True):
        assert row.ids[indices].tolist() == sequence
        assert row.positions[indices].tolist() == list(range(len(sequence)))
        for at, index in enumerate(indices):
            assert np.flatnonzero(row.visible[index]).tolist() == sorted(indices[: at + 1].tolist())
    beginnings = {tuple(item[: n + 1]) for item in sequences for n in range(len(item))}
    assert len(row.ids) == len(beginnings)


@given(SEQUENCES, st.integers(1, 12))
def test_rows_keep_to_their_budget(sequences: list[list[int]], budget: int) -> None:
    rows = list(pack_rows(sequences, budget))
    assert sorted(number for numbers, _ in rows for number in numbers) == list(range(len(sequences)))
    for numbers, row in rows:
        assert len(row.ids) <= budget or len(numbers) == 1 or len({tuple(sequences[number]) for number in numbers}) == 1
        assert [row.ids[index].tolist() for index in row.indices] == [list(sequences[number]) for number in numbers]


def _plain(model: Any, tokens: TokenSequence) -> torch.Tensor:
    """Give an answer's log-probabilities by one forward of the whole sequence: the slow twin."""
    logits = model(input_ids=torch.tensor([tokens.ids])).logits[0]
    payload = torch.log_softmax(logits[len(tokens.prompt) - 1 : -1], -1)
    return payload.gather(1, torch.tensor(tokens.answer)[:, None])[:, 0]


def _lessons() -> list[TokenSequence]:
    rng = np.random.default_rng(3)
    prompts = [tuple(rng.integers(0, 300, 9).tolist()) for _ in range(2)]
    prompts.append((*prompts[0][:6], 7, 7))
    return [TokenSequence(prompts[at % 3], tuple(rng.integers(0, 300, 2 + at % 4).tolist())) for at in range(8)]


def test_shared_prefixes_give_the_log_probabilities_and_gradients_of_plain_forwards(small: LanguageModel) -> None:
    lessons, weights = _lessons(), torch.randn(8, generator=torch.Generator().manual_seed(1))
    plain = [_plain(small.model, lesson) for lesson in lessons]
    result = fixed_answers(small.model, lessons, budget=30)
    for want, got in zip(plain, result, strict=True):
        np.testing.assert_allclose(got, want.detach().numpy(), atol=2e-6)

    small.model.zero_grad()
    torch.stack([weight * entry.sum() for weight, entry in zip(weights, plain, strict=True)]).sum().backward()
    wanted = {name: entry.grad.clone() for name, entry in small.model.named_parameters() if entry.grad is not None}
    small.model.zero_grad()
    for scored in score_answers(small.model, lessons):
        parts = torch.split(scored.logprobs, scored.lengths)
        sum(weights[number] * part.sum() for number, part in zip(scored.numbers, parts, strict=True)).backward()
    for name, item in small.model.named_parameters():
        torch.testing.assert_close(item.grad, wanted[name], atol=1e-5, rtol=1e-4)
    small.model.zero_grad()


def test_answers_are_drawn_from_the_model_and_carry_its_log_probabilities(small: LanguageModel) -> None:
    prompts = [lesson.prompt for lesson in _lessons() for _ in range(2)]
    drawn = generate(small.model, prompts, small.ends, 6, torch.Generator().manual_seed(5), budget=25)
    again = generate(small.model, prompts, small.ends, 6, torch.Generator().manual_seed(5), budget=25)
    assert drawn == again
    assert len({entry.token_ids for entry in drawn}) > 1
    for prompt, item in zip(prompts, drawn, strict=True):
        assert item.ended == (item.token_ids[-1] in small.ends)
        assert item.ended or len(item.token_ids) == 6
        assert not set(item.token_ids[:-1]) & small.ends
        with torch.no_grad():
            want = _plain(small.model, TokenSequence(tuple(prompt), item.token_ids))
        np.testing.assert_allclose(item.logprobs, want.numpy(), atol=2e-6)


def test_the_likeliest_answer_is_the_one_of_transformers(small: LanguageModel) -> None:
    for prompt in {lesson.prompt for lesson in _lessons()}:
        (drawn,) = generate(small.model, [prompt], small.ends, 5, torch.Generator(), temperature=0)
        ids = torch.tensor([prompt])
        payload = small.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=5, do_sample=False)
        assert payload[0, len(prompt) :].tolist() == list(drawn.token_ids)


def test_draws_follow_the_models_probabilities(small: LanguageModel) -> None:
    prompt = _lessons()[0].prompt
    drawn = generate(small.model, [prompt] * 3_000, frozenset(), 1, torch.Generator().manual_seed(2))
    with torch.no_grad():
        chances = torch.softmax(small.model(input_ids=torch.tensor([prompt])).logits[0, -1], -1)
    counts = np.bincount([item.token_ids[0] for item in drawn], minlength=len(chances)) / 3_000
    likeliest = chances.argsort(descending=True)[:5].numpy()
    assert np.abs(counts[likeliest] - chances.numpy()[likeliest]).max() < 0.02


def test_the_loss_is_that_of_transformers_with_masked_labels() -> None:
    result, (lesson, *_) = small_model(), _lessons()
    ids = torch.tensor([lesson.ids])
    labels = torch.where(torch.tensor([lesson.mask]), ids, -100)
    want = float(result.model(input_ids=ids, labels=labels).loss.detach())
    loss = sft_step(result.model, torch.optim.SGD(result.model.parameters(), lr=0.0), [lesson])
    assert loss == pytest.approx(want, abs=1e-6)


def _config(**more: Any) -> SFTConfig:
    payload = {"decisions": 1, "prompt": "brief", "options": OPTIONS, "player": "headline", "windows": 12, "batch": 4}
    small = {"holdout": 2, "embargo": 1, "epochs": 2, "learning_rate": 1e-3, "rank": None, "max_tokens": 16}
    return SFTConfig(game="arena", **{**payload, **small, "save_every": 2, "baselines": False, **more})


@pytest.fixture
def small_tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sft, "make_tiny", lambda payload, seed: make_tiny(payload, seed, width=64, layers=1))


@pytest.mark.usefixtures("small_tiny")
def test_a_run_that_was_cut_off_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    whole = train_sft(arena(), _config(), tmp_path / "line", tracking=QUIET)

    class Cut(Exception):
        pass

    def cut(step: int, value: object) -> None:
        if step == 5:
            raise Cut

    other = tmp_path / "other" / "line"
    with pytest.raises(Cut):
        train_sft(arena(), _config(), other, tracking=QUIET, show=cut)
    resumed = train_sft(arena(), _config(), other, resume=True, tracking=QUIET)
    models = [load_language_model(item["checkpoint"]) for item in (whole, resumed)]
    assert weights_hash(models[0].model) == weights_hash(models[1].model)
    assert whole["holdout"] == resumed["holdout"]
    assert models[0].card is not None
    assert models[0].card.next_window == 15
    with pytest.raises(ConfigError, match="--resume"):
        train_sft(arena(), _config(), tmp_path / "line", tracking=QUIET)


@pytest.mark.usefixtures("small_tiny")
def test_long_answers_are_left_out_and_none_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--max-tokens"):
        train_sft(arena(), _config(max_tokens=1), tmp_path / "none", tracking=QUIET)


def test_a_changed_checkpoint_is_refused(tmp_path: Path, small: LanguageModel) -> None:
    path = saved(tmp_path / "kept", small)
    again = load_language_model(path)
    assert again.version == "small@0"
    assert weights_hash(again.model) == weights_hash(small.model)
    (path / "config.json").write_text((path / "config.json").read_text() + " ")
    with pytest.raises(CheckpointRefused, match=r"config.json"):
        load_language_model(path)
    payload = json.loads((path / "checkpoint.json").read_text())
    (path / "checkpoint.json").write_text(json.dumps(payload | {"kind": "network"}))
    with pytest.raises(CheckpointRefused, match="kind 'network'"):
        load_language_model(path)
    (path / "more.py").write_text("")
    (path / "checkpoint.json").write_text(json.dumps(payload))
    with pytest.raises(CheckpointRefused, match=r"more.py"):
        load_language_model(path)
    with pytest.raises(ConfigError, match="smollm2"):
        load_language_model(tmp_path / "nothing")


def test_an_adapter_lies_on_the_very_weights_it_was_trained_on(tmp_path: Path) -> None:
    base = saved(tmp_path / "base", small_model())
    adapted = add_adapter(load_language_model(base), rank=2, seed=3)
    before = weights_hash(adapted.model)
    loss = [sft_step(adapted.model, torch.optim.Adam(adapted.model.parameters(), 1e-2), _lessons()) for _ in range(3)]
    assert loss[-1] < loss[0]
    assert weights_hash(adapted.model) == before
    card = LanguageCard(version="a@1", method="sft", game="arena", base=str(base), base_hash=before)
    save_language_model(tmp_path / "adapter", adapted, card)
    again = load_language_model(tmp_path / "adapter")
    assert fixed_answers(again.model, _lessons()) == fixed_answers(adapted.model.eval(), _lessons())
    save_language_model(base, small_model(seed=9), LanguageCard(**{**vars(card), "base": "tiny", "base_hash": ""}))
    with pytest.raises(CheckpointRefused, match="other weights"):
        load_language_model(tmp_path / "adapter")


def test_forks_differ_only_by_what_the_player_does() -> None:
    same = play(arena(), TERMS, [3, 4], 3, scripted_player("headline", (1,)), None)
    for item in same:
        assert len({end.pnl for end in item.ends}) == 1
        assert len({episode.exchanges[0].messages for episode in item.group.episodes}) == 1
    waited = play(arena(), TERMS, [3], 2, scripted_player("wait", (1,)), None)[0]
    assert [end.pnl for end in waited.ends] == [0, 0]
    assert same[0].outcomes.rows[0]["start_price"] == waited.outcomes.rows[0]["start_price"]


def test_play_carries_the_tokens_that_were_drawn_and_no_outcome(small: LanguageModel) -> None:
    (played,) = play(arena(), TERMS, [3], 2, model_player(small, 5, (1, 2)), "small@0")
    (again,) = play(arena(), TERMS, [3], 2, model_player(small, 5, (1, 2)), "small@0")
    assert played.group == again.group
    assert played.outcomes.rows
    for episode in played.group.episodes:
        (exchange,) = episode.exchanges
        assert len(exchange.prompt_ids) <= 64
        assert len(exchange.token_ids) == len(exchange.logprobs) <= 5
        assert "change" not in json.dumps(exchange.messages)
