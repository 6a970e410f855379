"""The Game contract, as a checker: one function a clause, all of them run, every breach told.

A clause gives a sentence for each breach. Clauses that need play use the frames that the game
ships (`sample`), so a game is checked with what it says about itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from playproof.errors import ContractError
from playproof.game.checks.case import GameCase, SampleError
from playproof.game.checks.knowledge import check_fold, check_future, check_observations, check_outcome
from playproof.game.checks.money import check_baselines, check_labels, check_ledger, check_rewards
from playproof.game.checks.reading import check_decode, check_sample, check_windows
from playproof.game.checks.tables import (
    check_actions,
    check_capabilities,
    check_columns,
    check_features,
    check_names,
    check_worlds,
)
from playproof.game.game import Game

Clause = Callable[[GameCase], Iterator[str]]

CLAUSES: Mapping[str, Clause] = {
    "names": check_names,
    "capabilities": check_capabilities,
    "columns": check_columns,
    "features": check_features,
    "sample": check_sample,
    "decode": check_decode,
    "windows": check_windows,
    "actions": check_actions,
    "observations": check_observations,
    "fold": check_fold,
    "future": check_future,
    "outcome": check_outcome,
    "ledger": check_ledger,
    "rewards": check_rewards,
    "labels": check_labels,
    "baselines": check_baselines,
    "worlds": check_worlds,
}
"""The contract. The first line of a clause's docstring is its rule."""


@dataclass(frozen=True)
class ContractBreach:
    """One breach of one clause."""

    clause: str
    what: str


def broken_clauses(game: Game) -> tuple[ContractBreach, ...]:
    """Run every clause; give every breach, in the order of the clauses."""
    case = GameCase(game)
    return tuple(ContractBreach(name, what) for name, clause in CLAUSES.items() for what in _run(name, clause, case))


def _run(name: str, clause: Clause, case: GameCase) -> list[str]:
    """Run one clause; whatever the game's own code raises is a breach, and the other clauses are still run."""
    names: list[str] = []
    try:
        for what in clause(case):
            if what not in names:
                names.append(what)
    except SampleError as error:
        if name == "sample":
            names.append(str(error))
    except Exception as error:  # noqa: BLE001 - the code under examination may raise anything
        names.append(f"expected the game's code not to raise, found {type(error).__name__}: {error}")
    return names


def check_game(game: Game) -> None:
    """Raise ContractError with every broken clause of a game."""
    problems = broken_clauses(game)
    if problems:
        lines = "\n".join(f"- {problem.clause}: {problem.what}" for problem in problems)
        raise ContractError(f"the game {game.name!r} breaks its contract in {len(problems)} places:\n{lines}")
