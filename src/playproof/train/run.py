"""A run's folder: configuration, log, resume point, checkpoints, plots. For every method of training.

| file | what |
|---|---|
| config.json | method and configuration, commit; written first, never changed |
| log.jsonl | one line for each note: kind, step, numbers |
| tensorboard/ | the same numbers for TensorBoard |
| state.json, state-N.safetensors | where training goes on; the JSON names the arrays' file and is written last |
| checkpoints/N/ | policies, as policies.checkpoint saves them |
| result.json | how it ended, and the best checkpoint |
| report.html | plots, one file that opens offline |

A kill at any moment leaves the last resume point whole: notes after it are dropped when the run goes
on.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from playproof.errors import ConfigError, DecodeError, InputError, MissingExtra
from playproof.home import write_durably
from playproof.json_types import Json
from playproof.policies.checkpoint import CARD, Card, load_checkpoint, save_checkpoint
from playproof.provenance import commit

CONFIG, LOG, STATE, RESULT, REPORT = "config.json", "log.jsonl", "state.json", "result.json", "report.html"
CHECKPOINTS, TENSORBOARD = "checkpoints", "tensorboard"

Arrays = Mapping[str, NDArray[Any]]
Numbers = Mapping[str, float]


class Tracker(Protocol):
    """Something that shows numbers while a run goes on."""

    def log(self, numbers: Numbers, step: int) -> None:
        """Show numbers at a step."""

    def close(self) -> None:
        """Write what is left."""


@dataclass(frozen=True)
class Tracking:
    """Where numbers go beside the log."""

    tensorboard: bool = True
    wandb: str | None = None
    """Project of Weights & Biases."""
    mlflow: str | None = None
    """Experiment of MLflow."""


class Run:
    """One run of a training in its folder."""

    def __init__(self, path: Path, method: str, config: Mapping[str, object], tracking: Tracking) -> None:
        self.path, self.method, self.config = path, method, config
        self._log = (path / LOG).open("a", encoding="utf-8")
        self._trackers = list(_trackers(path, method, config, tracking))

    @classmethod
    def create(cls, path: Path, method: str, config: Mapping[str, object], tracking: Tracking = Tracking()) -> Run:  # noqa: B008
        """Begin a run in a folder that holds none yet."""
        if (path / CONFIG).exists():
            raise ConfigError(f"expected a new run at {path}, found one; use --resume to go on, or another name")
        path.mkdir(parents=True, exist_ok=True)
        payload = {"method": method, "config": config, "commit": commit()}
        write_durably(path / CONFIG, (json.dumps(payload, indent=1, sort_keys=True) + "\n").encode())
        return cls(path, method, config, tracking)

    @classmethod
    def resume(cls, path: Path, method: str, tracking: Tracking = Tracking()) -> Run:  # noqa: B008
        """Go on with a run; notes after its resume point are dropped. How it ended stands until it has gone on."""
        config = read_config(path)
        if config["method"] != method:
            raise ConfigError(f"expected a run of {method} at {path}, found one of {config['method']}")
        state = _read_state(path)
        kept = [line for line in read_log(path) if state is not None and line["step"] <= state["step"]]
        write_durably(path / LOG, "".join(json.dumps(line) + "\n" for line in kept).encode())
        return cls(path, method, config["config"], tracking)

    def note(self, kind: str, step: int, payload: Mapping[str, Any]) -> None:
        """Write a line into the log, and its numbers to the trackers; a run that notes has not ended."""
        (self.path / RESULT).unlink(missing_ok=True)
        self._log.write(json.dumps({"kind": kind, "step": step, **payload}, default=_plain) + "\n")
        self._log.flush()
        numbers = {f"{kind}/{name}": float(value) for name, value in payload.items() if _is_number(value)}
        for tracker in self._trackers:
            tracker.log(numbers, step)

    def save_state(self, step: int, arrays: Arrays, facts: Mapping[str, object]) -> None:
        """Write the resume point: arrays of any kind as their bytes, everything else as JSON."""
        from safetensors.numpy import save

        name = f"state-{step}.safetensors"
        raw = {key: np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8) for key, value in arrays.items()}
        data = save({key: value for key, value in raw.items() if value.size})
        os.fsync(self._log.fileno())
        write_durably(self.path / name, data)
        payload = {"step": step, "file": name, "sha256": hashlib.sha256(data).hexdigest(), "facts": facts}
        write_durably(self.path / STATE, json.dumps(payload, default=_plain).encode())
        for old in self.path.glob("state-*.safetensors"):
            if old.name != name:
                old.unlink()

    def load_state(self) -> tuple[int, dict[str, bytes], Json] | None:
        """Read the resume point: step, arrays as bytes, facts; None where there is none yet."""
        from safetensors.numpy import load

        state = _read_state(self.path)
        if state is None:
            return None
        data = (self.path / Path(state["file"]).name).read_bytes()
        if hashlib.sha256(data).hexdigest() != state["sha256"]:
            raise DecodeError(f"expected the resume point of {self.path} as it was saved, found it changed")
        return state["step"], {name: value.tobytes() for name, value in load(data).items()}, state["facts"]

    def save_checkpoint(self, step: int, card: Card, weights: Arrays) -> str:
        """Keep a policy; give its name inside the run's folder."""
        name = f"{CHECKPOINTS}/{step:012d}"
        save_checkpoint(self.path / name, card, weights)
        return name

    def amend_checkpoint(self, name: str, metrics: Mapping[str, object]) -> None:
        """Write into a kept policy's card what only became known after it was kept."""
        kept = load_checkpoint(self.path / name)
        save_checkpoint(kept.path, replace(kept.card, metrics={**kept.card.metrics, **metrics}), kept.weights)

    def finish(self, result: Mapping[str, object]) -> None:
        """Write how the run ended, and its plots."""
        from playproof.reports.run import write_page

        write_durably(self.path / RESULT, (json.dumps(result, indent=1, default=_plain) + "\n").encode())
        write_page(self.path)

    def close(self) -> None:
        """Let log and trackers go."""
        self._log.close()
        for tracker in self._trackers:
            tracker.close()


def restore(array: NDArray[Any], data: bytes) -> None:
    """Write an array's saved bytes back into it."""
    result = np.frombuffer(data, np.uint8)
    if result.nbytes != array.nbytes:
        raise DecodeError(
            f"expected {array.nbytes} bytes for an array of shape {array.shape}, found {result.nbytes}: the resume "
            "point was saved by another version or with other settings; train anew under another name"
        )
    array[...] = np.frombuffer(data, array.dtype).reshape(array.shape)


def read_config(path: Path) -> Json:
    """Read what a run was asked for."""
    try:
        payload: Json = json.loads((path / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"expected a run's folder with {CONFIG} at {path}, found: {error}") from None
    return payload


def read_log(path: Path) -> list[Json]:
    """Read a run's notes; a line that a kill cut off is left out."""
    lines: list[Json] = []
    if (path / LOG).exists():
        for line in (path / LOG).read_text(encoding="utf-8").splitlines():
            try:
                lines.append(json.loads(line))
            except ValueError:
                continue
    return lines


def read_result(path: Path) -> Json:
    """Read how a run ended; empty while it has not."""
    payload: Json = json.loads((path / RESULT).read_text(encoding="utf-8")) if (path / RESULT).exists() else {}
    return payload


def find_checkpoint(path: Path) -> Path:
    """Give a checkpoint's folder as it is, and of a run's folder the best checkpoint, or the last where none is."""
    if (path / CARD).exists():
        return path
    best = read_result(path).get("best")
    if isinstance(best, str):  # a search keeps its best trial there, which is no checkpoint
        return path / best
    kept = sorted((path / CHECKPOINTS).glob(f"*/{CARD}"))
    if not kept:
        raise InputError(f"expected a checkpoint's folder, or a run's folder with one, found none at {path}")
    return kept[-1].parent


def _read_state(path: Path) -> Json | None:
    if not (path / STATE).exists():
        return None
    state: Json = json.loads((path / STATE).read_text(encoding="utf-8"))
    return state


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and math.isfinite(value)


def _plain(value: object) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (np.ndarray, tuple)):
        return list(value)
    raise TypeError(f"expected what JSON can hold, found {type(value).__name__}")


@dataclass
class _TensorBoard:
    """TensorBoard's event files."""

    folder: Path
    _writer: Any = field(default=None, init=False)

    def log(self, numbers: Numbers, step: int) -> None:
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(self.folder), purge_step=step)
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


@dataclass
class _Wandb:
    """Weights & Biases."""

    run: Any

    def log(self, numbers: Numbers, step: int) -> None:
        self.run.log(dict(numbers), step=step)

    def close(self) -> None:
        self.run.finish()


@dataclass
class _Mlflow:
    """MLflow."""

    module: Any

    def log(self, numbers: Numbers, step: int) -> None:
        self.module.log_metrics({name.replace("/", "."): value for name, value in numbers.items()}, step=step)

    def close(self) -> None:
        self.module.end_run()


def _trackers(path: Path, method: str, config: Mapping[str, object], tracking: Tracking) -> Iterator[Tracker]:
    """Make the trackers that are asked for, or say what is missing."""
    if tracking.tensorboard:
        yield _TensorBoard(path / TENSORBOARD)
    if tracking.wandb is not None:
        wandb = _imported("wandb")
        yield _Wandb(
            wandb.init(
                project=tracking.wandb, name=path.name, dir=str(path), config=dict(config), id=path.name, resume="allow"
            )
        )
    if tracking.mlflow is not None:
        mlflow = _imported("mlflow")
        mlflow.set_experiment(tracking.mlflow)
        mlflow.start_run(run_name=path.name, tags={"method": method})
        yield _Mlflow(mlflow)


def _imported(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise MissingExtra(name, name) from None
