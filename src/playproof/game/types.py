"""The Game record and the records that it is made of.

A stage knows a game through these alone. Whatever is heavy to import may be given as a text
"module:attribute" in place of the thing itself (`Lazy`); `resolve` reaches it when it is needed.
Tables keep their order, and their first entry is the default.
Leaves out: finding games (load), sitting at them (play) and checking them (contract).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, get_args

from playproof.errors import ContractError, UnknownName
from playproof.events import Direction, DocType, Event, Source, Value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
        MakeLanes,
        ReplayTape,
        Target,
    )
    from studies.validator.worlds import StudyGame

    Row: TypeAlias = NDArray[np.float32]
    Mask: TypeAlias = NDArray[np.bool_]
    Rng: TypeAlias = np.random.Generator
else:
    Row = Mask = Rng = Any

T = TypeVar("T")
Lazy: TypeAlias = T | str
"""The thing itself, or the text "module:attribute" that leads to it."""

Kind = Literal["int", "float", "bool", "text", "money"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Role = Literal["system", "user", "assistant"]
ROLES: tuple[Role, ...] = get_args(Role)
End = Literal["terminated", "truncated"]
WAIT = "WAIT"
"""The action that every action set has."""

_EMPTY: Mapping[str, Any] = MappingProxyType({})


def resolve(reference: Lazy[T]) -> T:
    """Give the thing itself, importing it if it was given as a text."""
    if not isinstance(reference, str):
        return reference
    module, _, attribute = reference.partition(":")
    try:
        result: T = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ContractError(f"expected module:attribute, found {reference!r}: {error}") from error
    return result


def lookup(table: Mapping[str, T], name: str, kind: str) -> T:
    """Give the entry of a table, or say which names it has."""
    if name not in table:
        raise UnknownName(kind, name, table)
    return table[name]


def first(table: Mapping[str, object]) -> str:
    """Give the name of a table's default."""
    return next(iter(table))


@dataclass(frozen=True, slots=True)
class Column:
    """One column that the game's events may carry, or one value of its outcomes."""

    name: str
    kind: Kind
    unit: str
    """What one stands for; money is counted in the game's smallest unit."""
    doc: str
    outcome: bool = False
    """Known only when the window has closed: no observation of that window may depend on it."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One raw message of a transport, before anything was read from it."""

    ts: datetime
    """When this client received or sent it, aware UTC."""
    payload: str | bytes
    direction: Direction = "received"


@dataclass(frozen=True, slots=True)
class Fact:
    """What a decoder read from a frame: an event that has no envelope yet."""

    event_name: str
    doc_type: DocType
    columns: Mapping[str, Value] = field(default_factory=lambda: _EMPTY)
    window_id: str | None = None
    player_id: str | None = None
    """Whose own fact this is: set for what happened to the recorded player, None for what the world did.
    What others did is the world's; a column names them."""
    server_ts: datetime | None = None

    def event(
        self,
        ts: datetime,
        session_id: str,
        seq: int,
        *,
        source: Source = "replay",
        direction: Direction = "none",
        raw: str | None = None,
        player_id: str | None = None,
    ) -> Event:
        """Put the fact into an envelope; `player_id` stands in where the fact names nobody."""
        return Event(
            ts=ts,
            source=source,
            doc_type=self.doc_type,
            session_id=session_id,
            seq=seq,
            event_name=self.event_name,
            server_ts=self.server_ts,
            direction=direction,
            window_id=self.window_id,
            player_id=self.player_id or player_id,
            raw=raw,
            columns=self.columns,
        )


Decoder = Callable[[Frame], tuple[Fact, ...]]
"""Reads one recording's frames in their order; what it has to remember it keeps itself.

It takes anything: from a frame that is not the game's it reads nothing."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a language observation."""

    role: Role
    content: str


Observation: TypeAlias = Row | tuple[Message, ...]
Action: TypeAlias = tuple[int, ...] | str
"""One index for each head, or the text of a decision."""


@dataclass(frozen=True, slots=True)
class Feature:
    """One number of observations."""

    name: str
    unit: str
    source: str
    """Which events it comes from."""
    how: str
    """How it is computed from them."""
    fill: float
    """What stands in the row while it is unknown."""
    scale: str = "linear:1"
    """How networks see it: a rule of playproof.policies.scaling; a change of it is a new `Game.scaling`."""


@dataclass(frozen=True, slots=True)
class NumericObservation:
    """An observation set of numbers: a float32 row with one place for each feature."""

    features: tuple[str, ...]
    blocks: Mapping[str, int] = field(default_factory=lambda: _EMPTY)
    """Names and sizes of consecutive blocks, for environments that show the row as a Dict."""
    doc: str = ""


@dataclass(frozen=True, slots=True)
class MessageObservation:
    """An observation set of messages, as a language model reads them."""

    doc: str


@dataclass(frozen=True)
class ObservationFold:
    """What a player knows, event by event, and the observations made of it.

    The one place where features are computed: environment, live builder and batch builder call it.
    """

    start: Callable[[], Any]
    """Give a state that knows nothing yet."""
    apply: Callable[[Any, Any], None]
    """Take one encoded event into the state, in place."""
    observe: Mapping[str, Callable[[Any, Any], None]]
    """By observation set: write the whole row (fill values where unknown), or append messages to the list."""
    missing: Mapping[str, Callable[[Any, Any], None]] = field(default_factory=lambda: _EMPTY)
    """By observation set of numbers: write True for what is unknown. No entry: nothing ever is."""
    encode: Callable[[Event], Any] = lambda event: event
    """Turn an event into what `apply` takes, such as a record that compiled code reads."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A decision as it was read from a text."""

    kind: str
    """A name in the first head; WAIT if the text was rejected."""
    arguments: Mapping[str, Value] = field(default_factory=lambda: _EMPTY)
    rejected: str | None = None
    """Why it was not understood."""


@dataclass(frozen=True)
class ActionSet:
    """One list of actions: heads of names, WAIT among those of the first."""

    heads: tuple[tuple[str, ...], ...]
    wait: Action
    """The action that does nothing."""
    recorded: Lazy[Callable[[Event], Action | None]]
    """Read the choice that a recorded own event stands for; None if it is no choice."""
    read: Lazy[Callable[[str], Choice]] | None = None
    """For decisions in text: read one. It takes anything, and rejects rather than raises."""
    examples: tuple[str, ...] = ()
    """For decisions in text: some that are understood."""
    possible: Lazy[Callable[[Any, tuple[str, ...]], Any]] | None = None
    """From rows (n, features) and the features' names tell which choices can have an effect as far as a row tells,
    the heads side by side, (n, sum of heads); None: any may."""

    def holds(self, action: object) -> bool:
        """Tell whether an action is one of this set."""
        if self.read is not None:
            if not isinstance(action, str):
                return False
            choice = resolve(self.read)(action)
            return choice.rejected is None and choice.kind in self.heads[0]
        if not isinstance(action, tuple) or len(action) != len(self.heads):
            return False
        return all(0 <= int(index) < len(head) for index, head in zip(action, self.heads, strict=True))

    def waits(self, action: Action) -> bool:
        """Tell whether an action's first head says WAIT; a rejected text waits."""
        if isinstance(action, str):
            return self.read is not None and resolve(self.read)(action).kind == WAIT
        return self.heads[0][action[0]] == WAIT


@dataclass(frozen=True, slots=True)
class AccountSnapshot:
    """Where a player's money stands, in the smallest unit."""

    cash: int
    equity: int
    """Cash and open positions at the last mark seen."""
    opened: int = 0
    """Positions opened since the ledger was made."""
    facts: Mapping[str, Value] = field(default_factory=lambda: _EMPTY)
    """What else rewards may read."""


@dataclass(frozen=True, slots=True)
class Terms:
    """On which terms a player sits down."""

    actions: str
    """The action set that `act` will be given."""
    world: str | None = None
    """None: the game's first world."""
    cash: int | None = None
    """Starting money; None: the game's own default."""
    stake: int | None = None
    """Reserved for each window: an order by which more than this could be lost in one is refused."""


class Ledger(Protocol):
    """One player's exact money through the windows of one session."""

    @property
    def total(self) -> int:
        """Give the money of the player and of everybody he trades with; it never changes."""

    def standing(self) -> AccountSnapshot:
        """Give where the player stands."""

    def see(self, event: Event) -> tuple[Fact, ...]:
        """Take what the world did (marks, settlements); give what the player is told of it."""

    def act(self, action: Action) -> tuple[Fact, ...]:
        """Carry an action out at the last mark seen; give what the player is told, nothing if nothing changed."""


class Policy(Protocol):
    """One player's way to choose, for one window."""

    def act(self, observation: Observation) -> Action:
        """Choose an action of the action set the policy was made for."""


@dataclass(frozen=True)
class Baseline:
    """A policy that comes with the game, to be shown beside every score."""

    doc: str
    observation: str
    actions: str
    make: Lazy[Callable[[Rng], Policy]]
    """Make the policy for one window."""
    batch: Lazy[Callable[[], BatchPolicy]] | None = None
    """Make the same policy for many lanes; None where the game has none."""


@dataclass(frozen=True, slots=True)
class Step:
    """One decision point: what was chosen, and the money before it and before the next one."""

    number: int
    substep: int
    """0, or the place among several choices at the same decision point."""
    action: Action
    effect: bool
    """Did the action change anything?"""
    before: AccountSnapshot
    after: AccountSnapshot
    end: End | None
    """How the episode ended with this step, None if it went on."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the world did in a window, known after it closed."""

    window_id: str
    values: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class RecordingGap:
    """What the recording of a window lacks."""

    reason: str
    ended: bool = False
    """Was the window's end seen? Then its episodes end there; else they are only cut."""


@dataclass(frozen=True)
class RecordingRules:
    """How a recorded player's choices find their decision points, and his ledger its money."""

    anchors: Callable[[Event], bool]
    """Tell whether a choice made after an event of the world belongs to it; decision points are among them."""
    ends: Callable[[Event], bool]
    """Tell whether an event of the world ends the window: choices after it are no steps."""
    updates: Callable[[Event], bool]
    """Tell whether an own event tells the player's whole state."""
    lack: Callable[[Sequence[Event]], RecordingGap]
    """Say what a window of which there is no outcome lacks."""
    terms: Callable[[Sequence[Event], Terms], Terms]
    """Give the terms on which a session's player sat down, as its events tell them."""
    hear: Callable[[Any, Event], bool]
    """Let the ledger take an own event before its choice is carried out; what is told stands.

    Tells whether it was other money than the ledger held."""
    settles: Callable[[Event, Event], bool] = lambda before, event: False  # noqa: ARG005
    """Tell whether an own event is what a tick settled, told directly after it: the two come as one.

    Given are the event before it and the event."""
    quiet: Callable[[Event, str], bool] = lambda event, observation: False  # noqa: ARG005
    """Tell whether an event says nothing that an observation set or the ledger takes: it may stand between a tick and
    what that settled."""
    shown: tuple[str, ...] = ()
    """Facts of a standing that data sets keep beside the actions, as they are after each step."""


@dataclass(frozen=True)
class Episode:
    """One player's way through one window."""

    window_id: str
    session_id: str
    player_id: str | None
    """None for a spectator."""
    start: datetime
    """When the window's first event could be known."""
    observations: tuple[Observation, ...]
    """One for each step, and the one after the last."""
    missing: tuple[Mask | None, ...]
    """What is unknown in each observation; None for messages."""
    steps: tuple[Step, ...]
    decisions: tuple[Event, ...]
    """For each step the event at which it was taken."""
    facts: tuple[Fact, ...]
    """What the ledger told the player, in order."""
    outcome: Outcome | None
    """None if the recording does not hold the whole window."""
    lack: RecordingGap | None = None
    """What its recording lacks; None if nothing."""
    corrected: int = 0
    """How often the money that was told differed from the ledger's, which then took what was told."""
    late: int = 0
    """Choices after the window's end, which are no steps."""
    ages: tuple[tuple[int, int], ...] = ()
    """For each step how old the player's told state was: ticks and microseconds; -1 if it was never told."""

    def __post_init__(self) -> None:
        for result, what, expected in (
            (len(self.observations), "observations", len(self.steps) + 1),
            (len(self.missing), "masks", len(self.steps) + 1),
            (len(self.decisions), "decisions", len(self.steps)),
        ):
            if result != expected:
                raise ContractError(f"expected {expected} {what} for {len(self.steps)} steps, found {result}")

    @property
    def pnl(self) -> int:
        """Give the change in equity from the first step to the end."""
        return self.steps[-1].after.equity - self.steps[0].before.equity if self.steps else 0

    @property
    def opened(self) -> int:
        """Give the number of positions opened."""
        return self.steps[-1].after.opened - self.steps[0].before.opened if self.steps else 0


OverSteps = Callable[[Sequence[Step], Outcome], Sequence[float]]
"""One component of a reward: a value for each step, from steps and outcome alone."""


@dataclass(frozen=True)
class Reward:
    """A named, versioned sum of components, computed when a data set is built."""

    name: str
    version: str
    doc: str
    components: Mapping[str, Lazy[OverSteps]]
    benchmark: str | None = None
    """The component that is the same whatever the player does, such as minus the return of holding; all others
    give 0 for an episode of WAIT."""

    def compute(self, steps: Sequence[Step], outcome: Outcome) -> dict[str, tuple[float, ...]]:
        """Give each component's values, one for each step."""
        return {name: tuple(resolve(part)(steps, outcome)) for name, part in self.components.items()}

    @property
    def identity(self) -> Mapping[str, Any]:
        """Give what makes this reward another than others."""
        return {"name": self.name, "version": self.version, "components": list(self.components)}

    @property
    def hash(self) -> str:
        """Hash the identity, in canonical JSON."""
        text = json.dumps(self.identity, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Label:
    """Something to predict at a decision point, from the outcome alone."""

    name: str
    horizon: int
    """How many decision points it looks ahead."""
    doc: str
    value: Lazy[Callable[[Outcome, Event], float | None]]
    """Give the label at a decision event; None where it is not defined."""


@dataclass(frozen=True, slots=True)
class Window:
    """What a window's id tells."""

    window_id: str
    """In its one canonical form."""
    start: datetime | None = None
    """Aware UTC; None where the id does not tell it."""


@dataclass(frozen=True)
class WindowRules:
    """How the game's windows are named, and how they end."""

    parse: Lazy[Callable[[str], Window]]
    """Read an id; raise DecodeError if it is none."""
    end: End
    """terminated: the end of a window ends the episode; truncated: it only cuts it."""
    examples: tuple[str, ...]
    length: timedelta | None = None
    """None where windows differ in length."""
    at: Lazy[Callable[[datetime], str]] | None = None
    """Give the id of the window that holds an aware time; None where the world deals the names."""


@dataclass(frozen=True)
class DisplayConfig:
    """Which features of a game a data card draws, and what theory says of how long windows last."""

    clock: str
    """Feature that counts time within a window."""
    price: str
    """Feature that is drawn over it."""
    length: str
    """Value of an outcome: how long the window lasted, on the same clock."""
    phase: str | None = None
    """Feature that says in which phase a window is, as an index into `phases`."""
    phases: tuple[str, ...] = ()
    survival: Lazy[Callable[[str, int], float]] | None = None
    """Give the chance that a window of a world lasts longer than so many ticks; None where there is no theory."""


@dataclass(frozen=True)
class ValidationDefaults:
    """How policies of a game are validated unless told otherwise."""

    stake: int = 10**8
    """Reserved for each window, in the smallest unit."""
    windows: int = 2_000
    worse: Mapping[str, int] = field(
        default_factory=lambda: MappingProxyType({"+2 ticks latency": 2, "1 tick of slippage": 1})
    )
    """Terms under which an edge must last: in words, and the steps between choosing and its being carried out."""
    effort: float = 1.0
    """Windows that checks by play take, as a share of what they take where lanes are compiled."""


@dataclass(frozen=True, kw_only=True)
class Game:
    """Everything that the stages know of a game."""

    name: str
    version: str
    doc: str
    money: str
    """Name of the smallest unit of money, the unit of every money column."""
    columns: tuple[Column, ...]
    decoder: Lazy[Callable[[], Decoder]]
    """Make a decoder for one recording."""
    decides: Lazy[Callable[[Event], bool]]
    """Tell whether an event of the world is a decision point."""
    fold: Lazy[ObservationFold]
    features: tuple[Feature, ...]
    observations: Mapping[str, NumericObservation | MessageObservation]
    actions: Mapping[str, ActionSet]
    ledger: Lazy[Callable[[Terms], Ledger]]
    rewards: Mapping[str, Reward]
    labels: Mapping[str, Label]
    windows: WindowRules
    outcomes: tuple[Column, ...]
    """The values of an outcome."""
    outcome: Lazy[Callable[[Sequence[Event]], Outcome | None]]
    """Read a window's outcome from its events; None while the window is not whole."""
    worlds: Mapping[str, str]
    """Name and one sentence for each set of rules that can be simulated."""
    baselines: Mapping[str, Baseline]
    ceiling: Lazy[Callable[[str], float | None]]
    """Give the best expected profit in a world per unit reserved; None if it is positive and not known."""
    sample: Lazy[Callable[[], tuple[Frame, ...]]]
    """Give frames of one recorded player through at least two whole windows, for the contract."""
    commands: str | None = None
    """Where the game's Typer app is, as "module:attribute"."""
    environment: str | None = None
    """Id of the Gymnasium environment."""
    importers: Mapping[str, Lazy[Importer]] = field(default_factory=lambda: _EMPTY)
    """Old recordings that can be imported, by the name of their kind."""
    recordings: Lazy[RecordingRules] | None = None
    """How recorded play is read; None: choices belong to decision points, and money is the ledger's alone."""
    batch: Lazy[ColumnarSession] | None = None
    """Lays whole sessions out at once, as data sets are built from stored parts."""
    scaling: str = "1"
    """Version of the features' scales; networks made with another are refused."""
    lanes: Lazy[MakeLanes] | None = None
    """Make many players at once, each at a table of their own; None where worlds cannot be simulated."""
    forks: Lazy[MakeForks] | None = None
    """Fork a window for a player of words; None where nobody plays it in words."""
    tape: Lazy[Callable[[Iterable[tuple[str, Sequence[Event]]]], ReplayTape]] | None = None
    """Lay recorded windows, each its id and events, on a tape that lanes play again."""
    best: Lazy[Callable[[str], BatchPolicy]] | None = None
    """Give the best stationary policy of a world where theory knows one; refuses the others."""
    rivals: Lazy[Callable[[ActivityProfile], Mapping[str, ControlPolicy]]] | None = None
    """Give what a policy is shown beside, made to play as much as it does; None: doing nothing alone."""
    foresight: Lazy[Callable[[], HindsightOracle]] | None = None
    """Make what tells the profit of hindsight, which nobody can have; None: it is not shown."""
    targets: Lazy[Callable[..., tuple[Target, ...]]] | None = None
    """Measure what older plans wanted, given the policy, its options and a way to play; None: there were none."""
    reward_components: Lazy[Components] | None = None
    """What rewards can be put together from by a configuration; None: only the rewards listed."""
    showing: DisplayConfig | None = None
    """What a data card draws; None: only what every data set has."""
    predicting: Lazy[PredictionTask] | None = None
    """What predictors of a window's end learn, and the bet on it; None: nothing is predicted."""
    probes: Lazy[Probes] | None = None
    """Windows made up to try rewards on; None: the sample's are used, and what needs others is not checked."""
    validating: ValidationDefaults = field(default_factory=ValidationDefaults)
    studying: Lazy[StudyGame] | None = None
    """What the game brings to studies of the validator itself; None: it takes no part."""
    auditing: Lazy[AuditRules] | None = None
    """What recordings can be asked about the game itself; None: they cannot be audited."""
    replaying: Lazy[ReplayRules] | None = None
    """What can be seen of an episode step by step; None: observations, actions and rewards alone."""
    golden: Lazy[Golden] | None = None
    """Makes plays whose order is known, to try judges on; None: judges of this game cannot be checked."""

    def decode(self, frames: Sequence[Frame]) -> tuple[tuple[Fact, ...], ...]:
        """Read a recording's frames from its beginning; give the facts of each frame."""
        decoder = resolve(self.decoder)()
        return tuple(decoder(frame) for frame in frames)

    def fills(self, features: Sequence[str]) -> tuple[float, ...]:
        """Give the fill values of the named features."""
        table = {feature.name: feature for feature in self.features}
        return tuple(lookup(table, name, "feature").fill for name in features)
