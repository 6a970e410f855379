"""The crash game as a Game record: the one place in which all its parts meet.

Importing it needs no compiler: what does is given as "module:attribute" or looked up when asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TypeVar

from playproof.game import Baseline, Column, Game, Label, Reward, Showing, Windows
from playproof.games.crash.actions import ACTIONS
from playproof.games.crash.columns import COLUMNS, MONEY
from playproof.games.crash.features import FEATURES, OBSERVATIONS, SCALING
from playproof.games.crash.ledger import SIDEBET_TICKS
from playproof.games.crash.windows import EXAMPLES, parse_window
from playproof.games.crash.worlds import WORLDS

T = TypeVar("T")
_HERE = "playproof.games.crash"

OUTCOMES = (
    Column("rug_tick", "int", "ticks", "tick of the first rugged message"),
    Column("rug_price", "float", "multiplier", "price at which open positions were sold"),
    Column("peak", "float", "multiplier", "highest price of the round"),
    Column("ended_by_rug", "bool", "flag", "did it rug? A recorded round that is whole did"),
    Column("server_seed", "text", "hex", "the seed, with which anybody can verify the round; unknown until revealed"),
    Column("server_seed_hash", "text", "hex", "commitment to the seed, said before the round ended"),
    Column("game_version", "text", "version", "version of the price algorithm"),
)


class Table(Mapping[str, T]):
    """A table that is made when somebody looks at it."""

    def __init__(self, make: Callable[[], Mapping[str, T]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Mapping[str, T]:
        return self._make()

    def __getitem__(self, name: str) -> T:
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


def _baselines() -> Mapping[str, Baseline]:
    from playproof.games.crash.baselines import game_baselines

    return game_baselines()


def _rewards() -> Mapping[str, Reward]:
    from playproof.games.crash.rewards import REWARDS

    return REWARDS


def game() -> Game:
    """Give the crash game."""
    return Game(
        name="crash",
        version="1",
        doc="Buy a price that multiplies tick by tick, and sell before it rugs.",
        money=MONEY,
        columns=COLUMNS,
        decoder=f"{_HERE}.decode:decoder",
        decides=f"{_HERE}.decode:decides",
        fold=f"{_HERE}.known:FOLD",
        features=FEATURES,
        observations=OBSERVATIONS,
        actions=ACTIONS,
        ledger=f"{_HERE}.seat:CrashLedger",
        rewards=Table(_rewards),
        labels={
            "rug_within_40": Label(
                "rug_within_40",
                SIDEBET_TICKS,
                "the rug comes no later than 40 ticks from now: a sidebet placed now would win",
                f"{_HERE}.outcomes:rug_within_40",
            )
        },
        windows=Windows(parse_window, "terminated", EXAMPLES),
        outcomes=OUTCOMES,
        outcome=f"{_HERE}.outcomes:read_outcome",
        worlds={name: world.summary for name, world in WORLDS.items()},
        baselines=Table(_baselines),
        ceiling=f"{_HERE}.outcomes:ceiling",
        sample=f"{_HERE}.sample:sample",
        commands=f"{_HERE}.commands:app",
        environment="playproof/Crash-v1",
        recordings=f"{_HERE}.recorded:RECORDINGS",
        batch=f"{_HERE}.batch:BATCH",
        auditing=f"{_HERE}.audit:AUDITING",
        replaying=f"{_HERE}.replay:REPLAYING",
        importers={"legacy": f"{_HERE}.legacy:IMPORTER", "capture": f"{_HERE}.captures:IMPORTER"},
        reward_components=f"{_HERE}.reward_components:COMPONENTS",
        predicting=f"{_HERE}.predicting:PREDICTING",
        probes=f"{_HERE}.probes:PROBES",
        showing=Showing(
            clock="tick",
            price="price",
            length="rug_tick",
            phase="game_phase",
            phases=("cooldown", "presale", "active", "rugged"),
            survival=f"{_HERE}.theory:survival_in",
        ),
        scaling=SCALING,
        lanes=f"{_HERE}.many:make_lanes",
        rivals=f"{_HERE}.rivals:rivals",
        foresight=f"{_HERE}.rivals:Hindsight",
        targets=f"{_HERE}.targets:targets",
        tape=f"{_HERE}.many:tape_of",
        studying=f"{_HERE}.study:STUDY",
        best=f"{_HERE}.optimum:best_policy",
    )
