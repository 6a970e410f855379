"""Serving: the official client against a small random model, many clients at once, and policies of numbers."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest

from playproof.cli.app import main
from playproof.errors import ConfigError
from playproof.game import load_game
from playproof.policies.language.batched import BatchedModel
from playproof.policies.language.local import LocalModel, Sampling
from playproof.serve.batching import ServeLimits, Worker
from playproof.serve.chat import create_app
from playproof.serve.serving import ServedApp, prepare, serving
from playproof.store.db import opened
from playproof.store.db.trajectories import list_trajectories, read_trajectory

CHAT: Any = [{"role": "system", "content": "You trade."}, {"role": "user", "content": "Buy or sell?"}]


def _tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = ["<|im_start|>", "<|im_end|>", *alphabet]
    base = Tokenizer(models.BPE({name: at for at, name in enumerate(names)}, []))
    base.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    base.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=base, eos_token="<|im_end|>", pad_token="<|im_end|>")
    made.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    made.chat_template = (
        "{% for m in messages %}<|im_start|>{{m['role']}}: {{m['content']}}<|im_end|>{% endfor %}<|im_start|>"
    )
    return made


@pytest.fixture(scope="module")
def local() -> LocalModel:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    tokenizer = _tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=4_096,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )
    return LocalModel("tiny", LlamaForCausalLM(config).eval(), tokenizer)


def batched(local: LocalModel) -> BatchedModel:
    return BatchedModel("tiny", local.model, local.tokenizer, frozenset({1}), 512)


@pytest.fixture
def server(local: LocalModel) -> Iterator[tuple[str, Worker]]:
    worker = Worker(batched(local), ServeLimits(batch=16, waiting=64, max_tokens=300))
    with serving(ServedApp("tiny", "chat", create_app(worker), worker.close)) as url:
        yield f"{url}/v1", worker


@pytest.fixture
def client(server: tuple[str, Worker]) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server[0], api_key="none", max_retries=0) as made:
        yield made


def test_chats_side_by_side_answer_as_they_would_alone(local: LocalModel) -> None:
    """The fast path against the plain one, chats of different lengths joining and leaving at different steps."""
    model = batched(local)
    chats = []
    for number in range(12):
        messages = [{"role": "user", "content": "x" * (7 * number % 60) + str(number)}]
        sampling = Sampling(5 + 6 * (number % 5), 0.0 if number % 2 else 1.0, seed=number)
        chats.append((messages, sampling, model.open(messages, sampling)))
    for _, _, chat in chats:
        model.join(chat)
        model.step()
        model.step()
    while model.chats:
        model.step()
    for messages, sampling, chat in chats:
        alone = local.answer(messages, sampling)
        assert chat.token_ids == alone.token_ids
        assert model.text(chat) == alone.text
        np.testing.assert_allclose([piece.logprob for piece in chat.pieces], alone.logprobs, atol=2e-4)
    assert model._width == 0


def test_columns_of_chats_that_left_are_dropped(local: LocalModel) -> None:
    model = batched(local)
    stays = model.open(CHAT, Sampling(120, 0.0))
    model.join(stays)
    for _ in range(15):
        guest = model.open([{"role": "user", "content": "x" * 60}], Sampling(2, 0.0))
        model.join(guest)
        model.step()
        model.step()
        model.leave(guest)
    assert model._width < 600
    while model.chats:
        model.step()
    assert stays.token_ids == local.answer(CHAT, Sampling(120, 0.0)).token_ids


def test_a_chat_with_log_probabilities_and_token_ids(client: openai.OpenAI, local: LocalModel) -> None:
    assert [entry.id for entry in client.models.list()] == ["tiny"]
    payload = client.chat.completions.create(
        model="tiny",
        messages=CHAT,
        max_tokens=9,
        temperature=0,
        logprobs=True,
        top_logprobs=3,
        extra_body={"return_token_ids": True},
    )
    alone = local.answer(CHAT, Sampling(9, 0.0))
    choice = payload.choices[0]
    assert choice.message.content == alone.text
    assert choice.finish_reason == alone.finish
    assert (choice.model_extra or {})["token_ids"] == list(alone.token_ids)
    assert (payload.model_extra or {})["prompt_token_ids"] == list(alone.prompt_ids)
    assert choice.logprobs is not None
    assert choice.logprobs.content is not None
    np.testing.assert_allclose([entry.logprob for entry in choice.logprobs.content], alone.logprobs, atol=1e-4)
    for item in choice.logprobs.content:
        assert len(item.top_logprobs) == 3
        assert item.top_logprobs[0].logprob == item.logprob
    assert payload.usage is not None
    assert payload.usage.prompt_tokens == len(alone.prompt_ids)
    assert payload.usage.completion_tokens == len(alone.token_ids)


def test_a_seed_repeats_and_several_answers_differ(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "tiny", "messages": CHAT, "max_tokens": 12, "seed": 5, "n": 3}
    first, second = (client.chat.completions.create(**asked) for _ in range(2))
    texts = [choice.message.content for choice in first.choices]
    assert texts == [choice.message.content for choice in second.choices]
    assert len(set(texts)) == 3


def test_a_stream_adds_up_to_the_answer(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "tiny", "messages": CHAT, "max_tokens": 40, "seed": 7, "logprobs": True, "n": 2}
    whole = client.chat.completions.create(**asked)
    stream = client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    texts, values, finishes, usage = ["", ""], [[], []], {}, None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            values[choice.index] += (
                [entry.logprob for entry in (choice.logprobs.content or [])] if choice.logprobs else []
            )
            if choice.finish_reason:
                finishes[choice.index] = choice.finish_reason
    assert texts == [entry.message.content for entry in whole.choices]
    assert finishes == {at: entry.finish_reason for at, entry in enumerate(whole.choices)}
    for at, item in enumerate(whole.choices):
        assert item.logprobs is not None
        np.testing.assert_allclose(values[at], [one.logprob for one in item.logprobs.content or []], atol=1e-4)
    assert usage is not None
    assert usage == whole.usage


def test_answers_carry_the_version_of_the_checkpoint(local: LocalModel, tmp_path: Path) -> None:
    from playproof.train.language.model import LanguageCard, LanguageModel, save_language_model

    card = LanguageCard(version="taught@3", method="sft", game="arena", base="tiny", base_hash="", next_window=0)
    save_language_model(tmp_path / "model", LanguageModel("tiny", local.model, local.tokenizer), card)
    prepared = prepare(str(tmp_path / "model"), name="another-name")
    try:
        with serving(prepared) as url, openai.OpenAI(base_url=f"{url}/v1", api_key="none") as client:
            asked: Any = {"model": "another-name", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
            answers = [client.chat.completions.create(**asked), *client.chat.completions.create(**asked, stream=True)]
    finally:
        prepared.close()
    assert {answer.model for answer in answers} == {"another-name"}
    assert {answer.system_fingerprint for answer in answers} == {"taught@3"}


def test_a_stop_text_ends_an_answer_and_is_never_shown(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "tiny", "messages": CHAT, "max_tokens": 60, "seed": 3}
    full = client.chat.completions.create(**asked).choices[0].message.content or ""
    stop = full[20:23]
    cut = client.chat.completions.create(**asked, stop=stop).choices[0]
    assert cut.message.content == full.partition(stop)[0]
    assert cut.finish_reason == "stop"
    stream = client.chat.completions.create(**asked, stop=[stop], stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == full.partition(stop)[0]


@pytest.mark.parametrize(
    ("wrong", "status", "words"),
    [
        ({"messages": []}, 400, "messages"),
        ({"messages": [{"role": "alien", "content": "x"}]}, 400, "role"),
        ({"temperature": 3}, 400, "temperature"),
        ({"temperature": 1e-310}, 400, "temperature of 0 or of 0.01"),
        ({"top_p": 0}, 400, "top_p"),
        ({"max_tokens": 301}, 400, "at most 300 tokens"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"n": 9}, 400, "n:"),
        ({"messages": [{"role": "user", "content": "x" * 600}]}, 400, "at most 512 tokens"),
        ({"top_logprobs": 21}, 400, "top_logprobs"),
        ({"response_format": {"type": "json_object"}}, 400, "response_format"),
        ({"tools": [{"type": "function"}]}, 400, "tools"),
        ({"model": "gpt-9"}, 404, "expected the model 'tiny'"),
    ],
)
def test_bad_requests_say_what_is_wrong(client: openai.OpenAI, wrong: dict[str, Any], status: int, words: str) -> None:
    with pytest.raises(openai.APIStatusError) as payload:
        client.chat.completions.create(**({"model": "tiny", "messages": CHAT} | wrong))
    assert payload.value.status_code == status
    assert words in str(payload.value.body["message"])  # type: ignore[index]


def test_broken_bodies_and_other_hosts_are_refused(server: tuple[str, Worker]) -> None:
    url = f"{server[0]}/chat/completions"
    assert httpx.post(url, content=b"{", headers={"content-type": "application/json"}).status_code == 400
    assert httpx.post(url, json={}, headers={"host": "evil.example"}).status_code == 421
    assert httpx.post(url, json={}, headers={"origin": "http://evil.example"}).status_code == 403
    assert httpx.post(url, content=b"x" * (5 << 20)).status_code == 413
    assert httpx.get(f"{server[0]}/nothing").status_code == 404
    assert httpx.get(f"{server[0]}/models/other").status_code == 404


def _until(true: Any, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_cancelled_stream_stops_computing(client: openai.OpenAI, server: tuple[str, Worker]) -> None:
    worker = server[1]
    stream = client.chat.completions.create(model="tiny", messages=CHAT, max_tokens=300, seed=1, stream=True)
    for _ in range(3):
        next(iter(stream))
    stream.close()
    _until(lambda: worker.load["running"] == 0)
    load = worker.load
    assert load["cancelled"] + load["served"] == 1
    again = client.chat.completions.create(model="tiny", messages=CHAT, max_tokens=3)
    assert again.usage is not None


def test_a_client_that_goes_away_is_given_up(server: tuple[str, Worker], monkeypatch: pytest.MonkeyPatch) -> None:
    url, worker = server
    gone = threading.Event()
    plain = worker.model._read

    def patient() -> Any:
        gone.wait(60)
        return plain()

    monkeypatch.setattr(worker.model, "_read", patient)
    asked = {"model": "tiny", "messages": CHAT, "max_tokens": 300, "seed": 2, "n": 8}
    connection = http.client.HTTPConnection(url.removeprefix("http://").partition("/")[0])
    connection.request("POST", "/v1/chat/completions", json.dumps(asked), {"Content-Type": "application/json"})
    _until(lambda: worker.load["running"] + worker.load["waiting"] == 8)
    connection.close()
    time.sleep(0.6)
    gone.set()
    _until(lambda: worker.load["running"] == worker.load["waiting"] == 0)
    assert worker.load["cancelled"] + worker.load["served"] == 8
    assert worker.load["steps"] < 300


def test_fifty_clients_at_once_get_their_own_answers(server: tuple[str, Worker], local: LocalModel) -> None:
    url, worker = server

    async def one(client: openai.AsyncOpenAI, number: int) -> str:
        messages: Any = [{"role": "user", "content": f"I am client {number}"}]
        asked: dict[str, Any] = {"model": "tiny", "messages": messages, "max_tokens": 16, "seed": number}
        if number % 2:
            return (await client.chat.completions.create(**asked)).choices[0].message.content or ""
        stream = await client.chat.completions.create(**asked, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async def all_of_them() -> list[str]:
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            return await asyncio.gather(*(one(client, number) for number in range(50)))

    texts = asyncio.run(all_of_them())
    for number in (0, 1, 24, 49):
        alone = local.answer([{"role": "user", "content": f"I am client {number}"}], Sampling(16, seed=number))
        assert texts[number] == alone.text
    assert len(set(texts)) > 40
    load = worker.load
    assert load["served"] == 50
    assert load["largest_batch"] > 4
    assert load["steps"] < 50 * 16 / 4


def test_more_than_may_wait_are_refused(local: LocalModel) -> None:
    worker = Worker(batched(local), ServeLimits(batch=1, waiting=2))
    with serving(ServedApp("tiny", "chat", create_app(worker), worker.close)) as url:
        asked = {"messages": CHAT, "max_tokens": 100, "seed": 1, "n": 4}
        answer = httpx.post(f"{url}/v1/chat/completions", json=asked)
        assert answer.status_code == 429
        assert answer.json()["error"]["code"] == "busy"
        assert answer.headers["retry-after"] == "1"
        _until(lambda: not worker.load["running"] and not worker.load["waiting"])
        small = httpx.post(f"{url}/v1/chat/completions", json={"messages": CHAT, "max_tokens": 2})
        assert small.status_code == 200


def test_a_model_that_fails_is_told_and_goes_on(local: LocalModel, monkeypatch: pytest.MonkeyPatch) -> None:
    model = batched(local)
    broken = threading.Event()
    broken.set()
    plain = model._read

    def failing() -> Any:
        if broken.is_set():
            raise RuntimeError("out of memory")
        return plain()

    monkeypatch.setattr(model, "_read", failing)
    worker = Worker(model)
    with serving(ServedApp("tiny", "chat", create_app(worker), worker.close)) as url:
        asked = {"messages": CHAT, "max_tokens": 4}
        answer = httpx.post(f"{url}/v1/chat/completions", json=asked)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "model_failed")
        stream = httpx.post(f"{url}/v1/chat/completions", json=asked | {"stream": True})
        assert "out of memory" in stream.text
        broken.clear()
        assert httpx.post(f"{url}/v1/chat/completions", json=asked).status_code == 200


def test_one_chats_failure_is_not_its_neighbours(local: LocalModel, monkeypatch: pytest.MonkeyPatch) -> None:
    model = batched(local)
    good = model.open(CHAT, Sampling(4, 1.0, seed=1))
    bad = model.open(CHAT, Sampling(4, 1e-310, seed=1))
    cold = model.open(CHAT, Sampling(4, 0.0))
    plain = model._read

    def poisoned() -> Any:
        rows = plain().clone()
        rows[model.chats.index(cold), 3] = float("nan")
        return rows

    for chat in (good, bad, cold):
        model.join(chat)
    monkeypatch.setattr(model, "_read", poisoned)
    model.step()
    monkeypatch.setattr(model, "_read", plain)
    while not good.over:
        model.step()
    assert (len(good.pieces), good.failure) == (4, None)
    assert "no token could be drawn" in (bad.failure or "")
    assert "not finite" in (cold.failure or "")
    assert good.token_ids == batched(local).answer(CHAT, Sampling(4, 1.0, seed=1)).token_ids


def test_a_template_that_fails_fails_one_request(local: LocalModel, monkeypatch: pytest.MonkeyPatch) -> None:
    template = local.tokenizer.chat_template
    worker = Worker(batched(local))
    with serving(ServedApp("tiny", "chat", create_app(worker), worker.close)) as url:
        for broken in (
            "{{ ''.__class__.__mro__[1].__subclasses__() }}",
            "{% for x in range(10**9) %}{% endfor %}",
            "{{ 1/0 }}",
        ):
            monkeypatch.setattr(local.tokenizer, "chat_template", broken)
            answer = httpx.post(f"{url}/v1/chat/completions", json={"messages": CHAT, "max_tokens": 4})
            assert answer.status_code == 400
            assert "template" in answer.json()["error"]["message"]
        monkeypatch.setattr(local.tokenizer, "chat_template", template)
        assert httpx.post(f"{url}/v1/chat/completions", json={"messages": CHAT, "max_tokens": 4}).status_code == 200


def test_a_key_is_asked_for_and_needed_beyond_this_machine(local: LocalModel) -> None:
    worker = Worker(batched(local))
    with serving(ServedApp("tiny", "chat", create_app(worker), worker.close), key="a-key-of-its-own") as url:
        wrong = openai.OpenAI(base_url=f"{url}/v1", api_key="wrong", max_retries=0)
        with wrong, pytest.raises(openai.AuthenticationError):
            wrong.models.list()
        with openai.OpenAI(base_url=f"{url}/v1", api_key="a-key-of-its-own", max_retries=0) as client:
            assert client.models.list().data[0].id == "tiny"
        assert httpx.get(f"{url}/healthz").json()["status"] == "ok"
    with (
        pytest.raises(ConfigError, match="expected tokens"),
        serving(ServedApp("x", "chat", create_app(worker)), "0.0.0.0"),
    ):
        pass


def test_the_arenas_language_agents_play_against_it(local: LocalModel, capsys: pytest.CaptureFixture[str]) -> None:
    worker = Worker(BatchedModel("tiny", local.model, local.tokenizer, frozenset({1}), 4_096))
    command = ["arena", "run", "--agents", "2", "--windows", "1", "--decisions", "1", "--llm-agents", "2"]
    with serving(ServedApp("tiny", "chat", create_app(worker), worker.close)) as url:
        assert main([*command, "--llm", f"{url}/v1", "--model", "tiny", "--max-tokens", "8", "--json"]) == 0
    assert {load["agent"] for load in json.loads(capsys.readouterr().out)["agents"]} >= {"llm-1", "llm-2"}
    assert worker.load["served"] == worker.load["largest_batch"] == 2
    with opened() as engine:
        calls = [
            call
            for trajectory in list_trajectories(engine)
            for call in read_trajectory(engine, trajectory.trajectory_id).calls
        ]
    sampled = [call for call in calls if call.model == "tiny"]
    assert len(sampled) == 2
    assert all(call.trainable and call.error is None and call.prompt_token_ids for call in sampled)


def test_a_folder_of_a_model_is_served_by_name(local: LocalModel, tmp_path: Path) -> None:
    index = tmp_path / "my-model"
    local.model.save_pretrained(index)
    local.tokenizer.save_pretrained(index)
    with serving(prepare(str(index))) as url, openai.OpenAI(base_url=f"{url}/v1", api_key="none") as client:
        assert client.models.list().data[0].id == "my-model"
        payload = client.chat.completions.create(model="my-model", messages=CHAT, max_tokens=5, temperature=0)
    assert payload.choices[0].message.content == local.answer(CHAT, Sampling(5, 0.0)).text
    assert main(["serve", str(index), "--port", "0", "--seconds", "0.2"]) == 0
    assert main(["serve", str(tmp_path / "nothing"), "--port", "0"]) == 1


def test_doctored_models_and_pickles_are_refused(local: LocalModel, tmp_path: Path) -> None:
    from playproof.policies.language.local import load_model

    local.model.save_pretrained(tmp_path / "tiny")
    local.tokenizer.save_pretrained(tmp_path / "tiny")
    weights = tmp_path / "tiny" / "model.safetensors"
    whole = weights.read_bytes()
    for damaged in (whole[:100], b"\xff" * 8 + whole[8:], b"", whole[: len(whole) // 2]):
        weights.write_bytes(damaged)
        for load in (prepare, load_model):
            with pytest.raises(ConfigError, match="expected a model that can be read"):
                load(str(tmp_path / "tiny"))
    weights.write_bytes(whole)
    (tmp_path / "tiny" / "adapter_model.bin").write_bytes(b"x")
    for load in (prepare, load_model):
        with pytest.raises(ConfigError, match="a pickle"):
            load(str(tmp_path / "tiny"))


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a small random network of the crash game."""
    import torch

    from playproof.policies.checkpoint import Card, save_checkpoint
    from playproof.policies.scaling import describe, game_scaling
    from playproof.train.network import build_network

    torch.manual_seed(1)
    game = load_game("crash")
    features = game.observations["policy"].features  # type: ignore[union-attr]
    network = build_network(game_scaling(game, features), (4, 9), (16,), activation="relu")
    card = Card(
        kind="network",
        method="ppo",
        actions="buttons",
        heads=(4, 9),
        clock="tick",
        stake=10**8,
        reward={"name": "minimal", "version": "1", "failed_checks": False},
        config={"activation": "relu"},
        **describe(game, "policy"),
    )
    index = tmp_path_factory.mktemp("act") / "policy"
    save_checkpoint(index, card, network.weights())
    return index


def test_a_policy_of_numbers_acts_over_http(policy: Path) -> None:
    from playproof.policies.checkpoint import load_policy

    rng = np.random.default_rng(3)
    with serving(prepare(str(policy))) as url, httpx.Client(base_url=url) as client:
        card = client.get("/card").json()
        rows = rng.normal(size=(20, len(card["features"]))).astype(np.float32)
        payload = client.post("/act", json={"rows": rows.tolist()}).json()
        mine: Any = load_policy(policy)
        assert payload["actions"] == [list(mine.act(row)) for row in rows]
        assert all(len(item) == 2 for item in payload["names"])
        seated = client.post("/act", json={"rows": rows.tolist(), "session": "me", "begin": True}).json()
        assert seated["actions"] == payload["actions"]
        unknown = rows[:1].tolist()
        unknown[0][0] = None
        filled = rows[:1].copy()
        filled[0][0] = load_game("crash").fills(card["features"])[0]
        answer = client.post("/act", json={"rows": unknown}).json()
        assert answer["actions"] == [list(mine.act(filled[0]))]
        for wrong, words in (
            ({"rows": []}, "rows"),
            ({"rows": [[1.0]]}, "expected"),
            ({"rows": [["x"] * len(card["features"])]}, "rows"),
            ({"rows": rows.tolist(), "stake": 5}, "stake"),
        ):
            refused = client.post("/act", json=wrong)
            assert refused.status_code == 400
            assert words in refused.json()["error"]["message"]
        for value in (b"1e38", b"-1e39", b"1e999", b"NaN", b"-Infinity"):
            strange = [b"0"] * (len(card["features"]) - 1) + [value]
            body = b'{"rows": [[' + b",".join(strange) + b"]," + json.dumps(rows[0].tolist()).encode() + b"]}"
            answer = client.post("/act", content=body, headers={"content-type": "application/json"}).json()
            assert answer["names"][0][0] == "WAIT"
            assert "null or within 1e+15" in answer["reasons"][0]
            assert (answer["actions"][1], answer["reasons"][1]) == (payload["actions"][0], None)
        assert client.get("/healthz").json()["policy"] == card["policy"]


def test_a_doctored_checkpoint_is_not_served(policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = tmp_path / "doctored"
    index.mkdir()
    for file in policy.iterdir():
        (index / file.name).write_bytes(file.read_bytes())
    (index / "weights.safetensors").write_bytes(b"x" * 100)
    assert main(["serve", str(index), "--port", "0"]) == 1
    assert "weights.safetensors" in capsys.readouterr().err
