"""The Game record: a small core of plain data, and five capabilities that are imported when they are asked for.

A stage knows a game through this record alone. The core says what a game is called, what its events carry, what an
observation and an action look like. A capability is a record of its own, given by a function without arguments whose
imports are inside it, so that `load_game` stays light and "go to definition" leads to the code:

- `recording()`: how recorded frames become events, observations, money and outcomes. Every game has it.
- `rewards()`: the rewards by name, and what rewards can be composed of. Every game has it.
- `simulation`: worlds that can be played, with baselines and defaults of validation. None: recorded play only.
- `display()`: what reports draw. The default draws what every game has.
- `language`: windows that a language model plays. None: the game is not played in words.

Tables keep their order, and their first entry is the default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from playproof.errors import ConfigError
from playproof.events import Event
from playproof.game.types import (
    ActionSet,
    Baseline,
    Column,
    Decoder,
    Fact,
    Feature,
    Frame,
    Label,
    Ledger,
    MessageObservation,
    NumericObservation,
    ObservationFold,
    Outcome,
    RecordingRules,
    Reward,
    Terms,
    WindowRules,
    lookup,
)

if TYPE_CHECKING:
    from playproof.game.audit import AuditRules
    from playproof.game.episode_columns import ColumnarSession
    from playproof.game.forks import MakeForks
    from playproof.game.golden import Golden
    from playproof.game.importers import Importer
    from playproof.game.prediction import PredictionTask
    from playproof.game.replay import ReplayRules
    from playproof.game.rewards import Components, Probes
    from playproof.game.vector_env import (
        ActivityProfile,
        BatchPolicy,
        ControlPolicy,
        HindsightOracle,
        MakeVectorGame,
        ReplayTape,
        Target,
    )

_EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Recording:
    """How recorded play is read: from frames to events, observations, money and outcomes."""

    decoder: Callable[[], Decoder]
    """Make a decoder for one recording."""
    decides: Callable[[Event], bool]
    """Tell whether an event of the world is a decision point."""
    fold: ObservationFold
    ledger: Callable[[Terms], Ledger]
    """Make the exact ledger of one player."""
    outcome: Callable[[Sequence[Event]], Outcome | None]
    """Read a window's outcome from its events; None while the window is not whole."""
    sample: Callable[[], tuple[Frame, ...]]
    """Give frames of one recorded player through at least two whole windows, for the contract."""
    alignment: RecordingRules | None = None
    """Where a recorded player's choices belong; None: to decision points, and money is the ledger's alone."""
    columnar: ColumnarSession | None = None
    """Builds whole sessions at once from stored columns; None: event by event."""
    importers: Mapping[str, Importer] = field(default_factory=lambda: _EMPTY)
    """Older recordings that can be imported, by the name of their format."""


@dataclass(frozen=True)
class ValidationDefaults:
    """How policies of a game are validated unless the caller says otherwise."""

    stake: int = 10**8
    """Reserved for each window, in the smallest unit."""
    windows: int = 2_000
    worse: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({"2 steps late": 2, "1 step late": 1}))
    """Conditions under which an edge must last: a name, and the steps between a choice and its execution."""
    effort: float = 1.0
    """Windows that checks by play take, as a share of what they take where the simulation is compiled."""


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """Worlds that can be played: vector environments, baselines, and what a verdict compares a policy with."""

    vector: MakeVectorGame
    """Make many players at once, each at a table of their own."""
    baselines: Mapping[str, Baseline]
    ceiling: Callable[[str], float | None]
    """Give the best expected profit in a world per unit reserved; None if it is positive and not known."""
    defaults: ValidationDefaults = field(default_factory=ValidationDefaults)
    environment: str | None = None
    """Id of the Gymnasium environment."""
    tape: Callable[[Iterable[tuple[str, Sequence[Event]]]], ReplayTape] | None = None
    """Turn recorded windows, each its id and events, into a tape that the simulation replays."""
    best: Callable[[str], BatchPolicy] | None = None
    """Give the best stationary policy of a world where theory knows one; refuses the others."""
    controls: Callable[[ActivityProfile], Mapping[str, ControlPolicy]] | None = None
    """Give control policies that play as much as a policy does; None: doing nothing alone."""
    hindsight: Callable[[], HindsightOracle] | None = None
    """Make the oracle that knows the future, as an upper bound; None: no bound is shown."""
    targets: Callable[..., tuple[Target, ...]] | None = None
    """Measure targets of older plans, given the policy, its options and a way to play."""
    prediction: PredictionTask | None = None
    """What predictors of a window's end learn, and the bet on it; None: nothing is predicted."""


@dataclass(frozen=True, kw_only=True)
class Rewards:
    """The rewards of a game by name, and what rewards can be composed of."""

    presets: Mapping[str, Reward]
    components: Components | None = None
    """Terms that a configuration can combine; None: the presets alone."""
    probes: Probes | None = None
    """Windows made up to test rewards; None: the sample's windows, and checks that need others are left out."""


@dataclass(frozen=True)
class DataCard:
    """Which features a data card draws, and what theory says of how long windows last."""

    clock: str
    """Feature that counts time within a window."""
    price: str
    """Feature that is drawn over it."""
    length: str
    """Value of an outcome: how long the window lasted, on the same clock."""
    phase: str | None = None
    """Feature that says in which phase a window is, as an index into `phases`."""
    phases: tuple[str, ...] = ()
    survival: Callable[[str, int], float] | None = None
    """Give the chance that a window of a world lasts longer than so many ticks; None where there is no theory."""


@dataclass(frozen=True, kw_only=True)
class Display:
    """What reports show of a game beyond what every game has."""

    card: DataCard | None = None
    """What a data card draws; None: only what every data set has."""
    replay: ReplayRules | None = None
    """What a replay shows step by step; None: observations, actions and rewards alone."""
    audit: AuditRules | None = None
    """What recordings can be asked about the game itself; None: they cannot be audited."""


@dataclass(frozen=True, kw_only=True)
class Language:
    """Windows that a language model plays."""

    forks: MakeForks
    """Fork one window into copies that are played side by side."""
    golden: Golden | None = None
    """Make plays whose order is known, to test judges; None: judges of this game cannot be checked."""


@dataclass(frozen=True, kw_only=True)
class Game:
    """Everything that the stages know of a game."""

    name: str
    version: str
    doc: str
    money: str
    """Name of the smallest unit of money, the unit of every money column."""
    columns: tuple[Column, ...]
    features: tuple[Feature, ...]
    scaling: str = "1"
    """Version of the features' scales; networks made with another are refused."""
    observations: Mapping[str, NumericObservation | MessageObservation]
    actions: Mapping[str, ActionSet]
    labels: Mapping[str, Label]
    windows: WindowRules
    outcomes: tuple[Column, ...]
    """The values of an outcome."""
    worlds: Mapping[str, str]
    """Name and one sentence for each set of rules that can be simulated."""
    recording: Callable[[], Recording]
    rewards: Callable[[], Rewards]
    simulation: Callable[[], Simulation] | None = None
    display: Callable[[], Display] = Display
    language: Callable[[], Language] | None = None

    def simulated(self) -> Simulation:
        """Give the simulation, or say that the game has none."""
        if self.simulation is None and self.windows.market:
            raise ConfigError(f"market {self.name} is recorded, not simulated: this needs a simulation")
        if self.simulation is None:
            raise ConfigError(
                f"expected a game whose worlds can be simulated, found {self.name}, which is only recorded"
            )
        return self.simulation()

    @property
    def baselines(self) -> Mapping[str, Baseline]:
        """Give the baselines by name; none where the game cannot be simulated."""
        return _EMPTY if self.simulation is None else self.simulation().baselines

    @property
    def defaults(self) -> ValidationDefaults:
        """Give the defaults of validation."""
        return ValidationDefaults() if self.simulation is None else self.simulation().defaults

    def decode(self, frames: Sequence[Frame]) -> tuple[tuple[Fact, ...], ...]:
        """Read a recording's frames from its beginning; give the facts of each frame."""
        decoder = self.recording().decoder()
        return tuple(decoder(frame) for frame in frames)

    def fills(self, features: Sequence[str]) -> tuple[float, ...]:
        """Give the fill values of the named features."""
        table = {feature.name: feature for feature in self.features}
        return tuple(lookup(table, name, "feature").fill for name in features)
