"""Train on stored steps, epoch by epoch: batches, the loss curve, and going on after a kill with the same weights.

One loop for every method that learns from data: the method gives its parameters, its optimisers and
one update. Everything is drawn from torch's own generator, seeded once; on one thread the same seed
gives the same weights, resumed or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Optimizer

from playproof.errors import DecodeError
from playproof.json_types import Json
from playproof.train.config import TrainingPace

if TYPE_CHECKING:
    from playproof.train.run import Run

Losses = Mapping[str, float]
Arrays = dict[str, NDArray[Any]]


class OfflineMethod(Protocol):
    """A method in training."""

    @property
    def module(self) -> nn.Module:
        """Give all parameters, those of targets included."""

    @property
    def optimizers(self) -> Sequence[Optimizer]:
        """Give what moves them."""

    def update(self, batch: Tensor, share: float) -> Losses:
        """Learn from rows at these places; `share` of the training is done."""


T = TypeVar("T", bound=OfflineMethod)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw from torch's generator with a seed, on one thread, and leave both as they were."""
    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


def learn(
    make: Callable[[], T],
    rows: int,
    pace: TrainingPace,
    run: Run | None = None,
    notify: Callable[[int, Losses], None] | None = None,
    look: Callable[[int, T], None] | None = None,
) -> tuple[T, list[Losses]]:
    """Make the learner from the seed and train it; give it and the mean losses of each epoch.

    With a run every epoch is noted and is a resume point. `look` sees the learner after each epoch, before it is one.
    """
    with seeded(pace.seed):
        learner = make()
        curve: list[Losses] = []
        begun = _resumed(learner, run, curve)
        updates = max(1, rows // pace.batch)
        for epoch in range(begun, pace.epochs):
            sums: dict[str, list[float]] = {}
            learner.module.train()
            for number, batch in enumerate(batches(rows, pace.batch)):
                share = (epoch * updates + number) / (pace.epochs * updates)
                for name, value in learner.update(batch, share).items():
                    sums.setdefault(name, []).append(value)
            losses = {name: float(np.mean(values)) for name, values in sums.items()}
            curve.append(losses)
            if notify is not None:
                notify(epoch, losses)
            if run is not None:
                run.note("train", epoch + 1, losses)
            if look is not None:
                learner.module.eval()
                look(epoch + 1, learner)
            if run is not None:
                run.save_state(epoch + 1, *_gather(learner, curve))
        learner.module.eval()
    return learner, curve


def batches(rows: int, size: int) -> Iterator[Tensor]:
    """Give the rows' places in a random order, in portions of equal size; what is left over waits an epoch."""
    order = torch.randperm(rows)
    for start in range(0, max(1, rows - size + 1), size):
        yield order[start : start + size]


def one_cycle(optimizer: Optimizer, peak: float, share: float, rise: float = 0.2) -> None:
    """Set the learning rate: up to its peak in the first fifth, then down to nothing along a cosine."""
    if share < rise:
        factor = 0.04 + 0.96 * (1 - np.cos(np.pi * share / rise)) / 2
    else:
        factor = (1 + np.cos(np.pi * (share - rise) / (1 - rise))) / 2
    for group in optimizer.param_groups:
        group["lr"] = peak * max(float(factor), 1e-4)


def falling(optimizers: Sequence[Optimizer], first: float, share: float, least: float = 0.01) -> None:
    """Set the learning rate: from the first one straight down to a hundredth of it."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = first * max(1.0 - share, least)


def _gather(learner: OfflineMethod, curve: Sequence[Losses]) -> tuple[Arrays, Json]:
    """Give all that training goes on from."""
    arrays: Arrays = {f"module.{name}": value.detach().numpy() for name, value in learner.module.state_dict().items()}
    for number, optimizer in enumerate(learner.optimizers):
        for index, moments in optimizer.state_dict()["state"].items():
            arrays |= {f"optimizer.{number}.{index}.{name}": np.asarray(value) for name, value in moments.items()}
    arrays["generator"] = torch.get_rng_state().numpy()
    return arrays, {"curve": [dict(losses) for losses in curve]}


def _resumed(learner: OfflineMethod, run: Run | None, curve: list[Losses]) -> int:
    """Put the learner where the run's last resume point was; give the epochs done."""
    result = run.load_state() if run is not None else None
    if result is None:
        return 0
    step, saved, facts = result
    state = learner.module.state_dict()
    learner.module.load_state_dict({name: _tensor(saved, f"module.{name}", like) for name, like in state.items()})
    for number, optimizer in enumerate(learner.optimizers):
        _restore_optimizer(optimizer, saved, f"optimizer.{number}")
    torch.set_rng_state(torch.frombuffer(bytearray(_saved_bytes(saved, "generator")), dtype=torch.uint8))
    curve.extend(facts["curve"])
    return step


def _restore_optimizer(optimizer: Optimizer, saved: Mapping[str, bytes], prefix: str) -> None:
    """Put Adam's moments back, in the order of its parameters."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for index, parameter in enumerate(parameters):
        if f"{prefix}.{index}.step" in saved:
            step = torch.zeros((), dtype=torch.float32)
            optimizer.state[parameter] = {
                "step": _tensor(saved, f"{prefix}.{index}.step", step),
                **{name: _tensor(saved, f"{prefix}.{index}.{name}", parameter) for name in ("exp_avg", "exp_avg_sq")},
            }


def _saved_bytes(saved: Mapping[str, bytes], name: str) -> bytes:
    if name not in saved:
        raise DecodeError(f"expected {name!r} in the resume point, found none; it was saved by another version")
    return saved[name]


def _tensor(saved: Mapping[str, bytes], name: str, like: Tensor) -> Tensor:
    data = bytearray(_saved_bytes(saved, name))
    if len(data) != like.numel() * like.element_size():
        raise DecodeError(
            f"expected {name!r} of shape {tuple(like.shape)} in the resume point, found {len(data)} bytes"
        )
    return torch.frombuffer(data, dtype=like.dtype).reshape(like.shape).clone()
