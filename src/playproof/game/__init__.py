"""Game: a frozen record of what a game provides, and the contract that it keeps.

`load_game` finds one, `check_game` checks one, `play` sits a policy down at one. No stage names a
game: everything special reaches it through this record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from playproof.game.registry import game_names, load_game
from playproof.game.types import (
    WAIT,
    AccountSnapshot,
    Action,
    ActionSet,
    Baseline,
    Choice,
    Column,
    Decoder,
    DisplayConfig,
    Episode,
    Fact,
    Feature,
    Frame,
    Game,
    Label,
    Lazy,
    Ledger,
    Message,
    MessageObservation,
    NumericObservation,
    Observation,
    ObservationFold,
    Outcome,
    Policy,
    RecordingGap,
    RecordingRules,
    Reward,
    Step,
    Terms,
    ValidationDefaults,
    Window,
    WindowRules,
    first,
    lookup,
    resolve,
)

if TYPE_CHECKING:
    from playproof.game.checks import ContractBreach

__all__ = [
    "WAIT",
    "AccountSnapshot",
    "Action",
    "ActionSet",
    "Baseline",
    "Choice",
    "Column",
    "Decoder",
    "DisplayConfig",
    "Episode",
    "Fact",
    "Feature",
    "Frame",
    "Game",
    "Label",
    "Lazy",
    "Ledger",
    "Message",
    "MessageObservation",
    "NumericObservation",
    "Observation",
    "ObservationFold",
    "Outcome",
    "Policy",
    "RecordingGap",
    "RecordingRules",
    "Reward",
    "Step",
    "Terms",
    "ValidationDefaults",
    "Window",
    "WindowRules",
    "broken_clauses",
    "check_game",
    "first",
    "game_names",
    "load_game",
    "lookup",
    "resolve",
]


def broken_clauses(game: Game) -> tuple[ContractBreach, ...]:
    """Run the contract; give everything that a game breaks."""
    from playproof.game import checks

    return checks.broken_clauses(game)


def check_game(game: Game) -> None:
    """Run the contract; raise ContractError with every broken clause."""
    from playproof.game import checks as checks

    checks.check_game(game)
