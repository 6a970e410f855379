"""Checkpoints: the same network in torch, numpy and ONNX; anything doctored is refused; acting needs no torch."""

from __future__ import annotations

import hashlib
import json
import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from playproof.errors import ConfigError, InputError
from playproof.game import load_game
from playproof.policies import (
    BatchPlayer,
    Card,
    CheckpointRefused,
    NetworkPolicy,
    NetworkSingleEnv,
    load_checkpoint,
    load_policy,
)
from playproof.policies.checkpoint import CARD, ONNX, WEIGHTS, _card_hash, save_checkpoint
from playproof.policies.one_row import SingleRowNetwork
from playproof.policies.scaling import Scaling, describe, feature_hash, game_scaling, parse, scale_rows
from playproof.train.network import Network, NetworkShape, Scale, build_network
from playproof.train.run import Run, read_log, restore

HEADS = (4, 9)
GAME = load_game("crash")
FEATURES = GAME.observations["policy"].features  # type: ignore[union-attr]
SCALING = game_scaling(GAME, FEATURES)


def rows(count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(count, len(FEATURES))) * 10.0 ** rng.integers(-4, 5, len(FEATURES))).astype(np.float32)


def make_card(**changes: Any) -> Card:
    fields: dict[str, Any] = {
        "kind": "network",
        "method": "ppo",
        "actions": "buttons",
        "heads": HEADS,
        "clock": "tick",
        "stake": 10**8,
        "reward": {"name": "minimal", "version": "1", "failed_checks": False},
        "config": {"activation": "relu"},
        **describe(GAME, "policy"),
    }
    return Card(**{**fields, **changes})


@pytest.fixture(scope="module")
def network() -> Network:
    torch.manual_seed(1)
    return build_network(SCALING, HEADS, (32, 32), activation="relu")


@pytest.fixture
def saved(network: Network, tmp_path: Path) -> Path:
    save_checkpoint(tmp_path / "policy", make_card(), network.weights())
    return tmp_path / "policy"


def slow_scale(row: np.ndarray, scaling: Scaling) -> list[float]:
    """Scale one row as the table of rules says, number by number."""
    out = []
    for raw, rule in zip(row.tolist(), scaling.rules, strict=True):
        kind, *rest = rule.split(":")
        x = raw
        if kind == "over":
            x = raw / max(abs(float(row[scaling.names.index(rest.pop(0))])), 1e-6)
        numbers = [float(text) for text in rest]
        if kind in ("over", "symlog"):
            unit, spread = numbers
            value = math.copysign(math.log1p(abs(x) / unit), x) / spread
        else:
            spread, center = (*numbers, *(1.0, 0.0)[len(numbers) :])
            value = ((math.log(max(x, 1e-6)) if kind == "log" else x) - center) / spread
        out.append(min(10.0, max(-10.0, value)))
    return out


@given(st.integers(0, 2**32), st.integers(1, 3))
def test_scaling_is_what_the_rules_say(seed: int, frames: int) -> None:
    raw = rows(3, seed)
    stacked = np.tile(raw, (1, frames))
    scaled = scale_rows(stacked, SCALING.stacked(frames))
    expected = np.array([slow_scale(row, SCALING) * frames for row in raw])
    assert np.allclose(scaled, expected, rtol=1e-4, atol=1e-5)
    tensor = Scale(SCALING.stacked(frames))(torch.from_numpy(stacked))
    assert np.allclose(scaled, tensor.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rule", ["cubic:1", "linear:0", "linear:x", "over:moon:1:1", "symlog:1", "symlog:-1:1", ""])
def test_rules_that_are_none_are_refused(rule: str) -> None:
    with pytest.raises(ConfigError, match="scaled by"):
        parse(("a", "b"), ("linear:1", rule))


def test_torch_numpy_and_onnx_agree(network: Network, saved: Path) -> None:
    import onnxruntime

    policy, raw = load_policy(saved, GAME), rows(200)
    assert isinstance(policy, NetworkPolicy)
    with torch.no_grad():
        expected = torch.cat(network(torch.from_numpy(raw)), dim=1).numpy()
    assert np.allclose(policy.logits(raw), expected, rtol=1e-4, atol=1e-4)
    session = onnxruntime.InferenceSession((saved / ONNX).read_bytes(), providers=["CPUExecutionProvider"])
    assert np.allclose(session.run(None, {"observation": raw})[0], expected, rtol=1e-3, atol=1e-3)
    chances = policy.probabilities(raw, np.ones((200, sum(HEADS)), np.bool_))
    assert [part.shape for part in chances] == [(200, 4), (200, 9)]
    assert all(np.allclose(part.sum(axis=1), 1.0, atol=1e-5) for part in chances)


def test_greedy_sampled_and_masked_choices(saved: Path) -> None:
    policy, raw = load_policy(saved, GAME), rows(1)
    masks = np.zeros((1, sum(HEADS)), np.bool_)
    masks[:, [0, 2, 4, 9]] = True
    chances = policy.probabilities(raw, masks)
    assert chances[0][0, [1, 3]].tolist() == [0.0, 0.0]
    drawn = policy.act_batch(np.repeat(raw, 4000, 0), np.repeat(masks, 4000, 0), np.random.default_rng(1))
    assert set(drawn[:, 0]) <= {0, 2}
    assert np.allclose(np.bincount(drawn[:, 0], minlength=4) / 4000, chances[0][0], atol=0.03)
    greedy = policy.act_batch(raw, masks)[0]
    assert tuple(greedy) == policy.choose(raw[0], masks[0])
    assert greedy[0] == chances[0][0].argmax()


def test_possible_choices_come_from_the_row_where_nobody_gives_masks(saved: Path) -> None:
    policy, raw = load_policy(saved, GAME), np.zeros((50, len(FEATURES)), np.float32)
    raw[:, FEATURES.index("game_phase")] = 2.0
    raw[:, FEATURES.index("balance")] = 0.0  # nothing held, no money
    assert not policy.act_batch(raw, rng=np.random.default_rng(1))[:, 0].any()
    assert policy.act(raw[0])[0] == 0


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_single_row_is_chosen_for_as_in_a_batch(network: Network, activation: str) -> None:
    payload = GAME.actions["buttons"].possible
    assert payload is not None
    possible = payload
    policy = NetworkPolicy(SCALING, HEADS, network.weights(), activation, possible=possible)
    raw = rows(300, 7)
    raw[:, FEATURES.index("game_phase")] = np.arange(300) % 4
    one = SingleRowNetwork(policy._scaling, (*policy._trunk, policy._out), activation)
    again = pickle.loads(pickle.dumps(one))
    for row, logits in zip(raw, policy.logits(raw), strict=True):
        assert np.allclose(one.logits(row), logits, rtol=1e-4, atol=1e-3)
        assert np.array_equal(again.logits(row), one.logits(row))
    assert [policy.act(row) for row in raw] == [tuple(action) for action in policy.act_batch(raw).tolist()]
    assert [tuple(possible(row[None], FEATURES)[0]) for row in raw] == [*map(tuple, possible(raw, FEATURES))]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(policy.act, raw)) == [policy.act(row) for row in raw]


def test_frames_are_stacked_alike_in_lanes_and_seats() -> None:
    torch.manual_seed(2)
    network = Network(SCALING, HEADS, NetworkShape((16,), "tanh", 3))
    policy = NetworkPolicy(SCALING, HEADS, network.weights(), "tanh", 3)
    with pytest.raises(InputError, match="Seat"):
        policy.act(rows(1)[0])
    player, seat = BatchPlayer(policy), NetworkSingleEnv(policy)
    state, history = player.start(2, np.random.default_rng(0)), []
    for number in range(8):
        now = rows(2, number)
        if number == 5:
            player.begin(state, np.array([True, False]))
            seat.begin()
            history = []
        history = [*history, now[0]] if history else [now[0]] * 3
        stacked = np.concatenate(history[-3:])[None]
        expected = policy.act_batch(stacked)[0].tolist()
        assert player.act(now, state)[0].tolist() == expected == list(seat.act(now[0]))


def test_the_memory_is_torchs_lstm() -> None:
    torch.manual_seed(3)
    lstm, head = torch.nn.LSTM(len(FEATURES), 8), torch.nn.Linear(8, 4)
    weights = {f"memory.{name}": getattr(lstm, f"{name}_l0").detach().numpy() for name in ("weight_ih", "weight_hh")}
    weights |= {f"memory.{name}": getattr(lstm, f"{name}_l0").detach().numpy() for name in ("bias_ih", "bias_hh")}
    weights |= {"head.0.weight": head.weight.detach().numpy(), "head.0.bias": head.bias.detach().numpy()}
    policy = NetworkPolicy(SCALING, (4,), weights)
    memory, raw = np.zeros((2, 5, 8), np.float32), [rows(5, seed) for seed in range(6)]
    scaled = torch.from_numpy(np.stack([scale_rows(row, SCALING) for row in raw]))
    with torch.no_grad():
        expected = head(lstm(scaled)[0]).numpy()
    for row, logits in zip(raw, expected, strict=True):
        assert np.allclose(policy.logits(row, memory), logits, atol=1e-5)


def test_networks_that_do_not_fit_are_refused(network: Network) -> None:
    weights = network.weights()
    with pytest.raises(InputError, match="heads"):
        NetworkPolicy(SCALING, (4, 8), weights)
    with pytest.raises(InputError, match="takes"):
        NetworkPolicy(parse(("a",), ("linear:1",)), HEADS, weights)
    with pytest.raises(InputError, match=r"trunk\.0"):
        NetworkPolicy(SCALING, HEADS, {name: value for name, value in weights.items() if name != "trunk.0.bias"})


def test_a_checkpoint_comes_back_as_it_was(network: Network, saved: Path) -> None:
    checkpoint = load_checkpoint(saved)
    assert checkpoint.card.features == FEATURES
    assert checkpoint.card.config == {"activation": "relu"}
    assert set(checkpoint.card.files) == {WEIGHTS, ONNX}
    assert all((checkpoint.weights[name] == value).all() for name, value in network.weights().items())
    assert checkpoint.hash == hashlib.sha256((saved / CARD).read_bytes()).hexdigest()
    again = Network(SCALING, HEADS, NetworkShape((32, 32), "relu"))
    again.load(checkpoint.weights)
    assert all((again.weights()[name] == value).all() for name, value in checkpoint.weights.items())


@pytest.mark.parametrize("name", [CARD, WEIGHTS, ONNX])
def test_a_flipped_byte_is_refused(saved: Path, name: str) -> None:
    for index in (10, (saved / name).stat().st_size // 2, (saved / name).stat().st_size - 3):
        data = bytearray((saved / name).read_bytes())
        data[index] ^= 0x04
        (saved / name).write_bytes(data)
        with pytest.raises(CheckpointRefused):
            load_checkpoint(saved)
        data[index] ^= 0x04
        (saved / name).write_bytes(data)
    load_checkpoint(saved)


def forge(saved: Path, change: Callable[[dict[str, Any]], None], files: dict[str, bytes] | None = None) -> None:
    """Doctor a checkpoint as somebody would who knows the format: all hashes are made to fit."""
    for name, data in (files or {}).items():
        (saved / name).write_bytes(data)
    payload = json.loads((saved / CARD).read_text())
    change(payload)
    for name in payload["files"]:
        if (saved / name).is_file():
            payload["files"][name] = hashlib.sha256((saved / name).read_bytes()).hexdigest()
    payload["card_hash"] = _card_hash(payload)
    (saved / CARD).write_text(json.dumps(payload))


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("protocol", [0, 2, 5])
@pytest.mark.parametrize("name", [WEIGHTS, ONNX])
def test_a_pickle_in_disguise_is_refused_and_not_run(saved: Path, tmp_path: Path, name: str, protocol: int) -> None:
    bomb = tmp_path / "went-off"
    forge(saved, lambda payload: None, {name: pickle.dumps(Bomb(bomb), protocol)})
    with pytest.raises(CheckpointRefused, match=r"pickle|safetensors|ONNX"):
        load_checkpoint(saved)
    assert not bomb.exists()
    pickle.loads((saved / name).read_bytes())
    assert bomb.exists()  # it would have


def test_a_zip_of_torch_is_refused(saved: Path, tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(1)}, tmp_path / "model.pt")
    forge(saved, lambda payload: None, {WEIGHTS: (tmp_path / "model.pt").read_bytes()})
    with pytest.raises(CheckpointRefused, match="zip"):
        load_checkpoint(saved)


def swap(payload: dict[str, Any]) -> None:
    payload["features"][0], payload["features"][1] = payload["features"][1], payload["features"][0]


def test_a_swapped_feature_order_is_refused(saved: Path) -> None:
    forge(saved, swap)
    with pytest.raises(CheckpointRefused, match="hash does not fit"):
        load_checkpoint(saved)

    def rehash(payload: dict[str, Any]) -> None:
        payload["feature_hash"] = feature_hash(payload["features"], payload["scaling"]["rules"])

    forge(saved, rehash)
    with pytest.raises(CheckpointRefused, match="differ first at 'tick'"):
        load_checkpoint(saved)
    elsewhere = json.loads((saved / CARD).read_text())["game"]
    assert elsewhere == GAME.name
    forge(
        saved, lambda payload: payload.update(game="nowhere")
    )  # without the game the weights still know their features
    with pytest.raises(CheckpointRefused, match="trained on the card's features"):
        load_checkpoint(saved)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda payload: payload["scaling"].update(version="0"), "scaling version"),
        (lambda payload: payload["scaling"].update(name="running"), "scaling 'fixed'"),
        (lambda payload: payload.update(heads=[4, 8]), "heads"),
        (lambda payload: payload.update(kind="code"), "kind among"),
        (lambda payload: payload["files"].update({"../../evil.txt": "0"}), "files among"),
        (lambda payload: payload["files"].update({"model.txt": "0"}), "model.txt"),
        (lambda payload: payload.pop("features"), "card"),
        (lambda payload: payload.update(observation="moon"), "observation set"),
    ],
)
def test_doctored_cards_are_refused(saved: Path, change: Callable[[dict[str, Any]], None], words: str) -> None:
    forge(saved, change)
    with pytest.raises(InputError, match=words):
        load_checkpoint(saved)


def test_weights_that_are_not_finite_are_refused(network: Network, tmp_path: Path) -> None:
    weights = network.weights()
    weights["trunk.0.bias"][0] = np.nan
    save_checkpoint(tmp_path / "nan", make_card(), weights)
    with pytest.raises(CheckpointRefused, match="finite"):
        load_checkpoint(tmp_path / "nan")


def test_folders_that_are_no_checkpoints_are_refused(tmp_path: Path, saved: Path) -> None:
    with pytest.raises(CheckpointRefused, match=r"checkpoint\.json"):
        load_checkpoint(tmp_path)
    (saved / WEIGHTS).unlink()
    (saved / WEIGHTS).symlink_to("/etc/hostname")
    with pytest.raises(CheckpointRefused, match=r"weights\.safetensors"):
        load_checkpoint(saved)
    with pytest.raises(InputError, match="files among"):
        save_checkpoint(tmp_path / "other", make_card(), None, {"model.pkl": b""})


def test_acting_needs_neither_torch_nor_sb3(saved: Path) -> None:
    program = f"""
import sys, importlib.abc

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in ("torch", "stable_baselines3", "sb3_contrib", "onnx", "onnxruntime"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Refuse())
import numpy as np
from pathlib import Path
from playproof.policies import load_policy
policy = load_policy(Path({str(saved)!r}))
row = np.linspace(0, 2, {len(FEATURES)}, dtype=np.float32)
print(*policy.act(row))
assert "torch" not in sys.modules and "stable_baselines3" not in sys.modules
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=False)
    assert answer.returncode == 0, answer.stderr
    expected = load_policy(saved).act(np.linspace(0, 2, len(FEATURES), dtype=np.float32))
    assert tuple(map(int, answer.stdout.split())) == expected


def test_a_run_keeps_its_resume_point_whole(tmp_path: Path) -> None:
    record = np.zeros(3, np.dtype([("a", "i8"), ("b", "f4", (2,))]))
    record["a"], record["b"] = [1, 2, 3], 0.5
    run = Run.create(tmp_path / "run", "ppo", {"x": 1})
    run.note("train", 1, {"loss": 0.5})
    run.save_state(1, {"record": record, "empty": np.zeros(0)}, {"n": 1})
    run.note("train", 2, {"loss": 0.25})
    run.close()
    with (tmp_path / "run" / "log.jsonl").open("a") as log:
        log.write('{"kind": "tr')  # cut off by a kill
    with pytest.raises(ConfigError, match="--resume"):
        Run.create(tmp_path / "run", "ppo", {"x": 1})
    with pytest.raises(ConfigError, match="run of bc"):
        Run.resume(tmp_path / "run", "bc")
    again = Run.resume(tmp_path / "run", "ppo")
    assert [line["step"] for line in read_log(tmp_path / "run")] == [1]
    step, arrays, facts = again.load_state() or (0, {}, {})
    back = np.zeros_like(record)
    restore(back, arrays["record"])
    assert (step, facts) == (1, {"n": 1})
    assert (back == record).all()
    again.close()
    state = next((tmp_path / "run").glob("state-*"))
    state.write_bytes(state.read_bytes()[:-1] + b"x")
    again = Run.resume(tmp_path / "run", "ppo")
    with pytest.raises(InputError, match="changed"):
        again.load_state()
    again.close()
