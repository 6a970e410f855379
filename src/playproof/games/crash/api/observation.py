"""One observation of the set `recorded`, by name, and the builder that keeps it up to date event by event.

The numbers come from the game's one fold, so a live builder, a data set and the environment hold the same bits.
Leaves out: the definitions of the features (docs/reference/features.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from playproof.errors import ConfigError
from playproof.game import load_game, lookup
from playproof.game.play import PlayerView
from playproof.games.crash.api.reading import EventReader, UserEvent
from playproof.games.crash.features.state import id_hash
from playproof.games.crash.features.table import FILLS, OBSERVATIONS
from playproof.json_types import Json

if TYPE_CHECKING:
    from typing import Self

SET = "recorded"
FEATURE_NAMES: tuple[str, ...] = OBSERVATIONS[SET].features
"""Names of the numbers of an observation, in their order."""
FEATURE_COUNT = len(FEATURE_NAMES)

_FED_BY: Mapping[str, tuple[str, ...]] = {
    "balance": ("cash",),
    "position_qty": ("positionQty",),
    "avg_entry_price": ("avgCost",),
    "cumulative_pnl": ("cumulativePnL",),
    "total_invested": ("totalInvested",),
    "unrealized_pnl": ("positionQty", "avgCost"),
    "position_pnl_pct": ("positionQty", "avgCost"),
    "balance_at_risk_pct": ("cash", "positionQty"),
    "rugpool_amount": ("rugpoolAmount",),
    "rugpool_threshold": ("threshold",),
    "instarug_count": ("instarugCount",),
    "rugpool_ratio": ("rugpoolAmount", "threshold"),
    "average_multiplier": ("averageMultiplier",),
    "count_2x": ("count2x",),
    "count_10x": ("count10x",),
    "count_50x": ("count50x",),
    "count_100x": ("count100x",),
}
"""Fields of a message without which a feature is unknown, where a message may tell only some of its group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a player could know at one moment: the 37 numbers of FEATURE_NAMES.

    Money is in coins, time in ticks, flags are 0 or 1. What was never told holds the fill value of
    docs/reference/features.md, which is also the default here.

    Example:
        >>> Observation(tick=100, price=2.5).to_numpy().shape
        (37,)
    """

    tick: float = 0.0
    price: float = 1.0
    game_phase: float = 0.0
    cooldown_timer_ms: float = 0.0
    allow_pre_round_buys: float = 0.0
    active: float = 0.0
    rugged: float = 0.0
    connected_players: float = 0.0
    game_id_hash: float = 0.0
    balance: float = 1.0
    position_qty: float = 0.0
    avg_entry_price: float = 0.0
    cumulative_pnl: float = 0.0
    total_invested: float = 0.0
    rugpool_amount: float = 3.663
    rugpool_threshold: float = 10.0
    instarug_count: float = 4.5
    average_multiplier: float = 4.78
    count_2x: float = 43.95
    count_10x: float = 7.73
    count_50x: float = 1.38
    count_100x: float = 0.65
    highest_today: float = 540.8
    price_velocity: float = 0.0
    price_acceleration: float = 0.0
    unrealized_pnl: float = 0.0
    position_pnl_pct: float = 0.0
    rugpool_ratio: float = 0.3663
    balance_at_risk_pct: float = 0.0
    time_in_position: float = 0.0
    ticks_since_last_action: float = 0.0
    bet_amount: float = 0.001
    execution_tick: float = 0.0
    execution_price: float = 0.0
    trade_id_hash: float = 0.0
    client_timestamp: float = 0.0
    latency_ms: float = 0.0
    game_id: InitVar[str | None] = None
    """The round's id, which gives `game_id_hash`."""

    def __post_init__(self, game_id: str | None) -> None:
        if game_id is not None:
            object.__setattr__(self, "game_id_hash", id_hash(game_id))

    def to_numpy(self) -> NDArray[np.float32]:
        """Give the numbers in the order of FEATURE_NAMES, shape (FEATURE_COUNT,)."""
        return np.array([getattr(self, field.name) for field in fields(self)], np.float32)

    @classmethod
    def from_numpy(cls, row: NDArray[np.float32]) -> Self:
        """Name a row's numbers; each becomes the shortest decimal that stands for it, so 0.1 is 0.1."""
        values: Json = {name: float(str(value)) for name, value in zip(FEATURE_NAMES, row, strict=True)}
        return cls(**values)


class ObservationBuilder:
    """Keep what one player knows, event by event.

    `update` takes dicts of either form and events of the store; what it does not know it passes over.

    Example:
        >>> builder = ObservationBuilder()
        >>> builder.update({"event_name": "gameStateUpdate", "data": {"gameId": "g1", "tickCount": 100, "price": 2.5}})
        >>> builder.build().price
        2.5
    """

    def __init__(self, observation: str = SET) -> None:
        lookup(OBSERVATIONS, observation, "observation set")
        self.observation = observation
        """The set whose numbers `to_numpy` gives."""
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._reader, self._view = EventReader(), PlayerView(load_game("crash"), self.observation)

    def update(self, event: UserEvent) -> None:
        """Take one event."""
        for made in self._reader.take(event):
            self._view.apply(made)

    def build(self) -> Observation:
        """Give the observation now, by name; only the set `recorded` has these names."""
        if self.observation != SET:
            raise ConfigError(f"expected a builder of the set {SET!r}, found {self.observation!r}; use to_numpy()")
        return Observation.from_numpy(self.to_numpy())

    def to_numpy(self) -> NDArray[np.float32]:
        """Give the observation now as float32 numbers, one for each feature of the set, without NaN."""
        row, unknown = self._look()
        fills = np.array(FILLS[self.observation], np.float32)
        return np.where(unknown, fills, row)

    @property
    def missing(self) -> tuple[str, ...]:
        """Name the features that nothing was told of, and that hold their fill value."""
        names = OBSERVATIONS[self.observation].features
        return tuple(name for name, unknown in zip(names, self._look()[1], strict=True) if unknown)

    def _look(self) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        row, mask = self._view.look()
        assert isinstance(row, np.ndarray)
        assert mask is not None
        payload = self._reader.fields_seen
        names = OBSERVATIONS[self.observation].features
        partly = [any(field not in payload for field in _FED_BY.get(name, ())) for name in names]
        return row, mask | np.array(partly)
