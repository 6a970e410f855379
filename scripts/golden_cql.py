"""Write tests/golden/cql.json: what d3rlpy's DiscreteCQL and IQL compute from fixed weights and steps.

d3rlpy needs an older Gymnasium than this project, so that it runs in an environment of its own:

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install d3rlpy==2.8.1
    /tmp/golden/bin/python scripts/golden_cql.py tests/golden/cql.json

The tests put the same weights into our network, make the same updates on the same steps, and compare
losses and values. Leaves out: training anything useful.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import d3rlpy
import numpy as np
import torch
from d3rlpy.algos.qlearning.torch.iql_impl import IQLImpl
from d3rlpy.torch_utility import TorchMiniBatch

STEPS, FEATURES, CHOICES, UPDATES = 64, 5, 3, 12


def fixed_steps() -> dict[str, np.ndarray]:
    """Draw steps once and for all."""
    rng = np.random.default_rng(20251215)
    return {
        "observations": rng.normal(size=(STEPS, FEATURES)).astype(np.float32),
        "actions": rng.integers(CHOICES, size=(STEPS, 1)),
        "rewards": rng.normal(size=(STEPS, 1)).astype(np.float32),
        "next_observations": rng.normal(size=(STEPS, FEATURES)).astype(np.float32),
        "terminals": (rng.random((STEPS, 1)) < 0.2).astype(np.float32),
    }


def batch_of(steps: dict[str, np.ndarray]) -> TorchMiniBatch:
    """Lay the steps out as d3rlpy reads them."""
    return TorchMiniBatch(
        observations=torch.from_numpy(steps["observations"]),
        actions=torch.from_numpy(steps["actions"]),
        rewards=torch.from_numpy(steps["rewards"]),
        next_observations=torch.from_numpy(steps["next_observations"]),
        next_actions=torch.from_numpy(steps["actions"]),
        returns_to_go=torch.zeros(STEPS, 1),
        terminals=torch.from_numpy(steps["terminals"]),
        intervals=torch.ones(STEPS, 1),
        device="cpu",
    )


def cql(steps: dict[str, np.ndarray]) -> dict[str, object]:
    """Make some updates with DiscreteCQL."""
    torch.manual_seed(1)
    config = d3rlpy.algos.DiscreteCQLConfig(
        learning_rate=1e-3,
        gamma=0.95,
        alpha=0.5,
        target_update_interval=3,
        encoder_factory=d3rlpy.models.encoders.VectorEncoderFactory(hidden_units=[8, 8], activation="relu"),
    )
    algo = config.create(device="cpu")
    algo.create_impl((FEATURES,), CHOICES)
    impl = algo.impl
    start = {name: value.numpy().tolist() for name, value in impl.q_function[0].state_dict().items()}
    batch = batch_of(steps)
    curve = [impl.inner_update(batch, update) for update in range(1, UPDATES + 1)]
    values = impl._q_func_forwarder.compute_expected_q(batch.observations).detach().numpy()
    return {"start": start, "curve": curve, "values": values.tolist()}


def iql() -> dict[str, object]:
    """Ask IQL's own functions for the losses of some differences: its expectile loss and its weights."""
    differences = np.linspace(-2.0, 2.0, 9).astype(np.float32)

    impl = SimpleNamespace(
        _expectile=0.8,
        _weight_temp=3.0,
        _max_weight=100.0,
        _modules=SimpleNamespace(value_func=lambda _: torch.zeros(9, 1)),
        _targ_q_func_forwarder=SimpleNamespace(compute_expected_q=lambda *_: torch.from_numpy(differences)[:, None]),
    )
    batch = TorchMiniBatch(*([torch.zeros(9, 1)] * 8), device="cpu")
    loss = IQLImpl.compute_value_loss(impl, batch)
    weights = IQLImpl._compute_weight(impl, batch)
    return {
        "differences": differences.tolist(),
        "expectile": 0.8,
        "beta": 3.0,
        "value_loss": float(loss),
        "weights": weights.flatten().tolist(),
    }


def main(path: Path) -> None:
    """Write the file."""
    steps = fixed_steps()
    payload = {
        "d3rlpy": d3rlpy.__version__,
        "gamma": 0.95,
        "alpha": 0.5,
        "learning_rate": 1e-3,
        "target_interval": 3,
        "steps": {name: value.tolist() for name, value in steps.items()},
        "cql": cql(steps),
        "iql": iql(),
    }
    path.write_text(json.dumps(payload) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
