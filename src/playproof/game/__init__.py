"""The Game record and its contract.

`load_game` loads an installed game, `check_game` checks one against the contract, `play` runs a policy on recorded
windows. No stage names a game: everything special to one reaches a stage through the record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from playproof.game.game import (
    DataCard,
    Display,
    Game,
    Language,
    Recording,
    Rewards,
    Simulation,
    ValidationDefaults,
    game_names,
    load_attribute,
    load_game,
)
from playproof.game.types import (
    PRESS_PAUSE,
    WAIT,
    AccountSnapshot,
    Action,
    ActionSet,
    Baseline,
    Choice,
    Column,
    Decoder,
    EpisodeRecord,
    Fact,
    Feature,
    Frame,
    Label,
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
    Window,
    WindowRules,
    first,
    lookup,
)

if TYPE_CHECKING:
    from playproof.game.checks import ContractBreach

__all__ = [
    "PRESS_PAUSE",
    "WAIT",
    "AccountSnapshot",
    "Action",
    "ActionSet",
    "Baseline",
    "Choice",
    "Column",
    "DataCard",
    "Decoder",
    "Display",
    "EpisodeRecord",
    "Fact",
    "Feature",
    "Frame",
    "Game",
    "Label",
    "Language",
    "Ledger",
    "Message",
    "MessageObservation",
    "NumericObservation",
    "Observation",
    "ObservationFold",
    "Outcome",
    "Policy",
    "Recording",
    "RecordingGap",
    "RecordingRules",
    "Reward",
    "Rewards",
    "Simulation",
    "Step",
    "Terms",
    "ValidationDefaults",
    "Window",
    "WindowRules",
    "broken_clauses",
    "check_game",
    "first",
    "game_names",
    "load_attribute",
    "load_game",
    "lookup",
]


def broken_clauses(game: Game) -> tuple[ContractBreach, ...]:
    """Run the contract; give everything that a game breaks."""
    from playproof.game import checks

    return checks.broken_clauses(game)


def check_game(game: Game) -> None:
    """Run the contract; raise ContractError with every broken clause."""
    from playproof.game import checks as checks

    checks.check_game(game)
