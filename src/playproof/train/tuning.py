"""Search settings of any trainer with Optuna: pruned, resumable, and every trial written to the trial ledger.

The study lies in an SQLite file: a search that was stopped goes on from it, and several workers, in
this process or on Ray, share it. A trial's worth is money on validation windows, the same for all
trials, and the trial ledger remembers every one of them: whoever later claims an edge is told among
how many tries it was found.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from playproof.errors import ConfigError, ContractError
from playproof.evaluate.rollout import Score
from playproof.evaluate.trials import record_trial, trial_of
from playproof.json_types import Json
from playproof.parallel import Engine, LocalEngine

Value = float | int | str | bool
Settings = Mapping[str, Value]


@dataclass(frozen=True)
class Axis:
    """One setting's range: log or float or int from low to high, or a choice among some values."""

    kind: str
    low: float = 0.0
    high: float = 1.0
    choices: tuple[Value, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Axis:
        """Read log:LOW:HIGH, float:LOW:HIGH, int:LOW:HIGH or choice:A:B:..."""
        kind, *rest = text.split(":")
        try:
            if kind == "choice" and rest:
                return cls("choice", choices=tuple(_value(word) for word in rest))
            low, high = (float(word) for word in rest)
        except ValueError:
            low, high = 0.0, 0.0
        if kind not in ("log", "float", "int") or not low < high or (kind == "log" and low <= 0):
            raise ConfigError(
                f"expected a range as log:LOW:HIGH, float:LOW:HIGH, int:LOW:HIGH or choice:A:B, found {text!r}"
            )
        return cls(kind, low, high)

    def draw(self, trial: Any, name: str) -> Value:
        """Let Optuna choose a value."""
        if self.kind == "choice":
            value: Value = trial.suggest_categorical(name, list(self.choices))
        elif self.kind == "int":
            value = trial.suggest_int(name, int(self.low), int(self.high))
        else:
            value = trial.suggest_float(name, self.low, self.high, log=self.kind == "log")
        return value


def _value(word: str) -> Value:
    for read in (int, float):
        try:
            return read(word)
        except ValueError:
            continue
    return word


@dataclass(frozen=True)
class TrialResult:
    """What came of one setting."""

    score: Score
    """Money on the validation windows."""
    policy_hash: str
    data_hash: str
    """Identity of what it learned from and was played on: a data set's hash, or the world and its seed."""
    figures: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


class StoppedEarly(Exception):
    """Tells that a trial is not worth going on with; a trainer lets it pass."""


Report = Callable[[int, float], None]
"""Tells a trial's worth so far, at a step; raises Pruned where it is not worth going on."""


class Trainer(Protocol):
    """Anything that can be tuned."""

    def __call__(self, settings: Settings, seed: int, report: Report, options: Mapping[str, object]) -> TrialResult:
        """Train with some settings and play the result over the validation windows."""


@dataclass(frozen=True)
class Search:
    """What is searched."""

    name: str
    """Of the study; the same name in the same file goes on."""
    trainer: str
    """ "module:function" of a Trainer."""
    space: Mapping[str, Axis]
    trials: int
    """In all, those of earlier runs included."""
    storage: Path
    """The study's SQLite file."""
    ledger: str | None = None
    """URL of the database with the trial ledger; None: the home's."""
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """What the trainer is told beside the settings."""
    seed: int = 0
    startup: int = 4
    """Trials before any is pruned."""

    def __post_init__(self) -> None:
        if not self.space or self.trials < 1:
            raise ConfigError(f"expected settings to search and at least 1 trial, found {self.trials}")


def tune(search: Search, engine: Engine = LocalEngine(), workers: int = 1) -> list[Json]:  # noqa: B008
    """Search until the study has so many finished trials; give them, the best first."""
    _forget_broken(search)
    left = search.trials - len(_finished(search))
    if left > 0:
        shares = [left // workers + (index < left % workers) for index in range(workers)]
        tasks = [(search, share, index) for index, share in enumerate(shares) if share]
        for _ in engine.map(_work, tasks):
            pass
    return results(search)


def results(search: Search) -> list[Json]:
    """Give what was found, the best first; pruned trials have no worth."""
    payload = [
        {
            "number": trial.number,
            "state": trial.state.name.lower(),
            "settings": dict(trial.params),
            "worth": trial.value if trial.state.name == "COMPLETE" else None,
            **trial.user_attrs,
        }
        for trial in _finished(search)
    ]
    return sorted(payload, key=lambda item: (item["worth"] is None, -(item["worth"] or 0.0), item["number"]))


def _study(search: Search, worker: int = 0) -> Any:
    """Open the study, or begin it."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    search.storage.parent.mkdir(parents=True, exist_ok=True)
    storage = optuna.storages.RDBStorage(
        f"sqlite:///{search.storage.absolute()}", engine_kwargs={"connect_args": {"timeout": 60}}
    )
    return optuna.create_study(
        study_name=search.name,
        storage=storage,
        direction="maximize",
        load_if_exists=True,
        sampler=optuna.samplers.TPESampler(seed=search.seed * 1009 + worker, n_startup_trials=search.startup),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=search.startup, n_warmup_steps=0),
    )


def _finished(search: Search) -> list[Any]:
    return [trial for trial in _study(search).get_trials(deepcopy=False) if trial.state.name in ("COMPLETE", "PRUNED")]


def _forget_broken(search: Search) -> None:
    """Mark trials that a kill left running as failed; they are tried anew."""
    import optuna

    study = _study(search)
    for trial in study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)


def _work(task: tuple[Search, int, int]) -> int:
    """Run some trials of the study; the function that workers are given."""
    import optuna

    search, share, worker = task
    study, trainer = _study(search, worker), _trainer(search.trainer)

    def objective(trial: object) -> float:
        settings = {name: axis.draw(trial, name) for name, axis in search.space.items()}
        try:
            tried = trainer(settings, search.seed, _reporter(trial), search.options)
        except StoppedEarly:
            raise optuna.TrialPruned from None
        _remember(search, tried, settings, trial)
        return tried.score.roi

    with _quiet():
        study.optimize(objective, n_trials=share)
    return share


def _reporter(trial: Any) -> Report:
    def report(step: int, worth: float) -> None:
        trial.report(worth, step)
        if trial.should_prune():
            raise StoppedEarly

    return report


def _remember(search: Search, tried: TrialResult, settings: Settings, trial: Any) -> None:
    """Write a finished trial into the ledger, and beside its worth in the study."""
    from playproof.store.db import connect, upgrade

    engine = connect(url=search.ledger)
    upgrade(engine)
    payload = trial_of(
        tried.score,
        family=f"tune:{search.name}",
        policy_hash=tried.policy_hash,
        data_hash=tried.data_hash,
        split="validation",
        kind="validation",
        now=datetime.now(UTC),
        result={"settings": dict(settings), "roi": tried.score.roi, **tried.figures},
        origin=f"tune {search.trainer}",
    )
    new = record_trial(engine, payload)
    engine.dispose()
    trial.set_user_attr("trial_id", payload.trial_id)
    trial.set_user_attr("new", new)


def _trainer(text: str) -> Trainer:
    module, _, attribute = text.partition(":")
    try:
        trainer: Trainer = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ContractError(f"expected a trainer as module:function, found {text!r}: {error}") from None
    return trainer


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out what Optuna warns about features that it calls experimental."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="optuna")
        yield
