"""The exception tree. Catch PlayproofError to catch them all.

PlayproofError
├── InputError            what a user or a file gave is not what was expected
│   ├── ConfigError       an option, an environment variable or a configuration
│   ├── DecodeError       bytes or JSON from a feed or a recording
│   └── UnknownName       a name that is not in the table it was looked up in
├── StoreError            the event store refuses to go on
├── RefusedOrder          the game did not take an order; nothing has changed
├── RefusedRecord         a trajectory did not take a record; nothing has changed
├── ContractError         a plug-in does not keep the Game contract
├── MissingExtra          an optional part of the product is not installed
└── GateFailed            a check said no (exit code 2)
    └── Diverged          a training went wrong

A message says what was expected, what was found and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path


class PlayproofError(Exception):
    """Stand at the root of every error that this package raises on purpose."""

    exit_code = 1


class InputError(PlayproofError):
    """Tell that something given from outside is not what was expected."""


class ConfigError(InputError):
    """Tell that an option, environment variable or configuration is wrong."""


class DecodeError(InputError):
    """Tell that bytes or JSON could not be read as what they claim to be."""


class UnknownName(InputError):
    """Tell that a name is not in its table, and which names are."""

    def __init__(self, kind: str, text: str, known: Iterable[str]) -> None:
        names = ", ".join(sorted(known)) or "none"
        super().__init__(f"expected a known {kind}, found {text!r}; use one of: {names}")


class StoreError(PlayproofError):
    """Tell that the event store refuses to go on, and why."""


class RefusedOrder(PlayproofError):
    """Tell that the game did not take an order; nothing has changed."""


class RefusedRecord(PlayproofError):
    """Tell why a trajectory did not take a record; nothing has changed.

    `reason` is one word: unknown, known, ended, open_step, no_step, other_body, open_window or has_outcomes.
    """

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class ContractError(PlayproofError):
    """Tell which clauses of the Game contract a plug-in does not keep."""


class MissingExtra(PlayproofError):
    """Tell which extra brings the part that is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} is not installed; run: {install_extra(extra)}")


def install_extra(extra: str) -> str:
    """Give the command that installs an extra: in a clone the clone's own."""
    clone = Path(__file__).parents[2]
    inside = (clone / "pyproject.toml").is_file() and clone.name != "site-packages"
    return f"pip install -e '.[{extra}]' in {clone}" if inside else f"pip install 'playproof[{extra}]'"


_EXTRA_OF: Mapping[str, str] = {
    **dict.fromkeys(("torch", "stable_baselines3", "sb3_contrib", "lightgbm", "sklearn", "scipy", "arch"), "train"),
    **dict.fromkeys(("safetensors", "onnx", "onnxruntime", "optuna", "tensorboard"), "train"),
    **dict.fromkeys(("transformers", "tokenizers", "peft", "gguf", "openai"), "llm"),
    "playwright": "browser",
    "psycopg": "postgres",
    "minari": "minari",
    "h5py": "minari",
    "ray": "ray",
    "wandb": "wandb",
}
"""Which extra brings a module."""


def missing_extra(error: ModuleNotFoundError) -> MissingExtra | None:
    """Tell which extra brings a module that could not be imported; None if it is none of theirs."""
    extra = _EXTRA_OF.get((error.name or "").partition(".")[0])
    return None if extra is None else MissingExtra(str(error.name), extra)


class GateFailed(PlayproofError):
    """Tell that a check said no; the command line answers with exit code 2."""

    exit_code = 2


class Diverged(GateFailed):
    """Tell that training went wrong: numbers that are not finite, too far a move, or money lost; and what is kept."""
