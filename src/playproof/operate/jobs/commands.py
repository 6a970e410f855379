"""Which command lines may be jobs, and what becomes of one whose process was lost.

A job is given by a page, so its words are checked here: a known command, known options, and values that name things of
the home. Nothing that is imported by its name, and no path that leads out of the home.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Literal

from playproof.errors import InputError
from playproof.game import game_names
from playproof.train.run import CONFIG

OnLoss = Literal["resume", "again", "never"]
"""After a loss: go on with --resume, run it again (it gives the same), or leave it and say why."""
MOST_WORDS = 64
MOST_LENGTH = 2_000
_MODULE = re.compile(r"[\w./-]+:[A-Za-z_][\w.]*")
_URL = re.compile(r"https?://[^\s\x00-\x1f]+")
_SAFE_PREFIXES = ("baseline:", "best:", "informed:")


@dataclass(frozen=True)
class JobCommand:
    """A command that may be a job."""

    words: tuple[str, ...]
    on_loss: OnLoss
    why: str = ""
    """Why it is not begun again, where it is not."""
    url_at: int | None = None
    """Which of its words is an address."""


ANY_GAME = "GAME"
"""In a command: the name of an installed game, whose own commands stand under it."""
_RECORDED = "what was recorded is in the store; begin a new recording"
COMMANDS: tuple[JobCommand, ...] = (
    JobCommand(("record", "socket"), "never", _RECORDED, url_at=0),
    JobCommand(("record", "browser"), "never", _RECORDED, url_at=0),
    JobCommand(("perform",), "never", _RECORDED),
    JobCommand(("dataset", "build"), "again"),
    JobCommand(("dataset", "check"), "again"),
    JobCommand(("dataset", "show"), "again"),
    JobCommand(("store", "compact"), "again"),
    JobCommand(("store", "verify"), "again"),
    JobCommand(("store", "export"), "never", "a file may have been begun; remove it and ask again"),
    *(JobCommand(("train", name), "resume") for name in ("bc", "cql", "iql", "ppo", "sft", "grpo")),
    *(JobCommand(("train", name), "never", "it cannot go on; begin it under another name") for name in ("sidebet",)),
    JobCommand(("train", "tune"), "again"),
    JobCommand(("validate",), "again"),
    JobCommand(("compare",), "again"),
    JobCommand(("audit",), "again"),
    JobCommand(("replay",), "again"),
    JobCommand(("reward", "check"), "again"),
    JobCommand(("windows",), "again"),
    JobCommand(("models", "add"), "again"),
    JobCommand(("bot", "run"), "never", "its account is reconciled when a new one begins", url_at=1),
    JobCommand(("judge", "run"), "again"),
    JobCommand((ANY_GAME, "loop"), "again"),
    JobCommand((ANY_GAME, "run"), "never", "its trajectories are kept; begin a new run"),
)
OPTIONS = frozenset(
    (
        "--account",
        "--actions",
        "--agents",
        "--axis",
        "--base",
        "--restarts",
        "--budget",
        "--clock",
        "--cuts",
        "--cycles",
        "--data",
        "--dataset",
        "--decisions",
        "--doc-type",
        "--epochs",
        "--evaluate-every",
        "--evaluate-windows",
        "--final",
        "--forks",
        "--game",
        "--gap",
        "--headless",
        "--hours",
        "--iterations",
        "--json",
        "--log",
        "--marks",
        "--max-calls",
        "--max-tokens-total",
        "--max-usd",
        "--method",
        "--min-actions",
        "--min-agents",
        "--min-ticks",
        "--model",
        "--name",
        "--no-browser",
        "--observation",
        "--once",
        "--paper",
        "--permutations",
        "--player",
        "--preset",
        "--price-in",
        "--price-out",
        "--recorded",
        "--restarts",
        "--resume",
        "--reward",
        "--rounds",
        "--sample",
        "--seal",
        "--seconds",
        "--seed",
        "--session",
        "--set",
        "--show",
        "--speed",
        "--split",
        "--stake",
        "--steps",
        "--trials",
        "--window",
        "--windows",
        "--workers",
        "--world",
    )
)
"""What jobs may set; nothing here names a file outside the home, an address to send to, or code."""


def find_command(arguments: Sequence[str]) -> JobCommand:
    """Check a command line, and give the command that it is."""
    if not 1 <= len(arguments) <= MOST_WORDS:
        raise InputError(f"expected a command line of 1 to {MOST_WORDS} words, found {len(arguments)}")
    first = ANY_GAME if arguments[0] in game_names() else arguments[0]
    start = (first, *arguments[1:])
    command = next((item for item in COMMANDS if start[: len(item.words)] == item.words), None)
    if command is None:
        known = ", ".join(" ".join(item.words) for item in COMMANDS)
        raise InputError(f"expected a command that may be a job, found {' '.join(arguments[:2])[:80]!r}; use {known}")
    for index, word in enumerate(arguments[len(command.words) :]):
        _check_word(word, index == command.url_at)
    return command


def _check_word(word: str, url: bool) -> None:
    """Refuse an option that jobs may not set, and a value that leads out of the home or names code."""
    if len(word) > MOST_LENGTH or any(ord(character) < 32 for character in word):
        raise InputError(f"expected a word of at most {MOST_LENGTH} printable characters, found {word[:40]!r}")
    if url:
        if not _URL.fullmatch(word):
            raise InputError(f"expected an address as http://host:port, found {word[:80]!r}")
        return
    name, _, value = word.partition("=") if word.startswith("--") else ("", "", word)
    if word.startswith("-") and not re.fullmatch(r"-\d[\d.e-]*", word) and name not in OPTIONS:
        raise InputError(f"expected an option that a job may set, found {word[:80]!r}; use a terminal for others")
    for part in value.split("=", 1):
        if part.startswith("~") or PurePosixPath(part).is_absolute() or ".." in PurePosixPath(part).parts:
            raise InputError(f"expected a name, or a path inside the home, found {part[:80]!r}")
        if _MODULE.fullmatch(part) and not part.startswith(_SAFE_PREFIXES):
            raise InputError(f"expected a name, found {part[:80]!r}, which names code; use a terminal for it")


def resumed(arguments: Sequence[str], root: Path) -> list[str]:
    """Give the command line with which a job goes on: with --resume where its run has begun."""
    words = list(arguments)
    if find_command(words).on_loss != "resume" or "--resume" in words:
        return words
    name = next((after for word, after in pairwise(words) if word == "--name"), None)
    if name is None or not (root / "runs" / name / CONFIG).is_file():
        return words
    return [*words, "--resume"]
