"""The crash game as a Game record: the one place in which all its parts meet.

Importing it needs no compiler: what does is given as "module:attribute" or looked up when asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TypeVar

from playproof.game import Baseline, Column, DisplayConfig, Game, Label, Reward, WindowRules
from playproof.games.crash.features.table import FEATURES, OBSERVATIONS, SCALING
from playproof.games.crash.recording.columns import COLUMNS, MONEY
from playproof.games.crash.rules.actions import ACTIONS
from playproof.games.crash.rules.money import SIDEBET_TICKS
from playproof.games.crash.rules.windows import EXAMPLES, parse_window
from playproof.games.crash.rules.worlds import WORLDS

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


class LazyTable(Mapping[str, T]):
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
    from playproof.games.crash.players.baselines import game_baselines

    return game_baselines()


def _rewards() -> Mapping[str, Reward]:
    from playproof.games.crash.rewards.presets import REWARDS

    return REWARDS


def crash_game() -> Game:
    """Give the crash game."""
    return Game(
        name="crash",
        version="1",
        doc="Buy a price that multiplies tick by tick, and sell before it rugs.",
        money=MONEY,
        columns=COLUMNS,
        decoder=f"{_HERE}.recording.decode:decoder",
        decides=f"{_HERE}.recording.decode:decides",
        fold=f"{_HERE}.features.encoder:FOLD",
        features=FEATURES,
        observations=OBSERVATIONS,
        actions=ACTIONS,
        ledger=f"{_HERE}.recording.player_ledger:CrashLedger",
        rewards=LazyTable(_rewards),
        labels={
            "rug_within_40": Label(
                "rug_within_40",
                SIDEBET_TICKS,
                "the rug comes no later than 40 ticks from now: a sidebet placed now would win",
                f"{_HERE}.rules.outcomes:rug_within_40",
            )
        },
        windows=WindowRules(parse_window, "terminated", EXAMPLES),
        outcomes=OUTCOMES,
        outcome=f"{_HERE}.rules.outcomes:read_outcome",
        worlds={name: world.summary for name, world in WORLDS.items()},
        baselines=LazyTable(_baselines),
        ceiling=f"{_HERE}.rules.outcomes:ceiling",
        sample=f"{_HERE}.recording.sample:sample",
        commands=f"{_HERE}.cli:app",
        environment="playproof/Crash-v1",
        recordings=f"{_HERE}.recording.alignment:RECORDINGS",
        batch=f"{_HERE}.recording.columnar:BATCH",
        auditing=f"{_HERE}.analysis.audit:AUDITING",
        replaying=f"{_HERE}.analysis.replay:REPLAYING",
        importers={
            "legacy": f"{_HERE}.recording.importers.legacy:IMPORTER",
            "capture": f"{_HERE}.recording.importers.captures:IMPORTER",
        },
        reward_components=f"{_HERE}.rewards.terms:COMPONENTS",
        predicting=f"{_HERE}.analysis.predictor:PREDICTING",
        probes=f"{_HERE}.rewards.probes:PROBES",
        showing=DisplayConfig(
            clock="tick",
            price="price",
            length="rug_tick",
            phase="game_phase",
            phases=("cooldown", "presale", "active", "rugged"),
            survival=f"{_HERE}.rules.theory:survival_in",
        ),
        scaling=SCALING,
        lanes=f"{_HERE}.sim.vector_env:make_lanes",
        rivals=f"{_HERE}.players.controls:rivals",
        foresight=f"{_HERE}.players.controls:Hindsight",
        targets=f"{_HERE}.players.targets:targets",
        tape=f"{_HERE}.sim.vector_env:tape_of",
        studying="studies.validator.crash:STUDY",
        best=f"{_HERE}.players.optimum:best_policy",
    )
