"""The plain records that a game and the stages exchange: columns, frames, facts, features, actions, steps, episodes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, get_args

from playproof.errors import ContractError, UnknownName
from playproof.events import Direction, DocType, Event, Source, Value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from playproof.game.vector_env import BatchPolicy

    Row: TypeAlias = NDArray[np.float32]
    Mask: TypeAlias = NDArray[np.bool_]
    Rng: TypeAlias = np.random.Generator
else:
    Row = Mask = Rng = Any

T = TypeVar("T")

Kind = Literal["int", "float", "bool", "text", "money"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Role = Literal["system", "user", "assistant"]
ROLES: tuple[Role, ...] = get_args(Role)
End = Literal["terminated", "truncated"]
WAIT = "WAIT"
PRESS_PAUSE = timedelta(seconds=5)
"""Without a press for longer, a sequence of presses has ended: decoders number sequences by it, readers close them."""
"""The action that every action set has."""

_EMPTY: Mapping[str, Any] = MappingProxyType({})


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
    recorded: Callable[[Event], Action | None]
    """Read the choice that a recorded own event stands for; None if it is no choice."""
    read: Callable[[str], Choice] | None = None
    """For decisions in text: read one. It takes anything, and rejects rather than raises."""
    examples: tuple[str, ...] = ()
    """For decisions in text: some that are understood."""
    local: tuple[int, ...] = ()
    """Heads of the player's own controls, such as a bet field: under latency they act at once, orders do not."""
    possible: Callable[[Any, tuple[str, ...]], Any] | None = None
    """From rows (n, features) and the features' names tell which choices can have an effect as far as a row tells,
    the heads side by side, (n, sum of heads); None: any may."""

    def holds(self, action: object) -> bool:
        """Tell whether an action is one of this set."""
        if self.read is not None:
            if not isinstance(action, str):
                return False
            choice = self.read(action)
            return choice.rejected is None and choice.kind in self.heads[0]
        if not isinstance(action, tuple) or len(action) != len(self.heads):
            return False
        return all(0 <= int(index) < len(head) for index, head in zip(action, self.heads, strict=True))

    def waits(self, action: Action) -> bool:
        """Tell whether an action's first head says WAIT; a rejected text waits."""
        if isinstance(action, str):
            return self.read is not None and self.read(action).kind == WAIT
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

    def apply_world(self, event: Event) -> tuple[Fact, ...]:
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
    make: Callable[[Rng], Policy]
    """Make the policy for one window."""
    batch: Callable[[], BatchPolicy] | None = None
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
    apply_own: Callable[[Any, Event], bool]
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
class EpisodeRecord:
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
    components: Mapping[str, OverSteps]
    benchmark: str | None = None
    """The component that is the same whatever the player does, such as minus the return of holding; all others
    give 0 for an episode of WAIT."""

    def compute(self, steps: Sequence[Step], outcome: Outcome) -> dict[str, tuple[float, ...]]:
        """Give each component's values, one for each step."""
        return {name: tuple(part(steps, outcome)) for name, part in self.components.items()}

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
    value: Callable[[Outcome, Event], float | None]
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

    parse: Callable[[str], Window]
    """Read an id; raise DecodeError if it is none."""
    end: End
    """terminated: the end of a window ends the episode; truncated: it only cuts it."""
    examples: tuple[str, ...]
    length: timedelta | None = None
    """None where windows differ in length."""
    at: Callable[[datetime], str] | None = None
    """Give the id of the window that holds an aware time; None where the world deals the names."""
    market: str = ""
    """Name of a declared market, which is recorded and not simulated; empty for installed games."""
    usable_step: tuple[str, ...] = ("action", "prompt", "answer")
    """What a recorded step needs to be usable."""
    action_types: tuple[str, ...] = ()
    """Types of actions that a usable step may have, in any case; empty: any."""
