"""The crash game as a Game record: the module in which all its parts meet.

Importing it is light: each capability imports its parts when it is asked for.
"""

from __future__ import annotations

from functools import cache

from playproof.game import (
    Column,
    DataCard,
    Display,
    Game,
    Label,
    Recording,
    Rewards,
    Simulation,
    ValidationDefaults,
    WindowRules,
)
from playproof.games.crash.features.table import FEATURES, OBSERVATIONS, SCALING
from playproof.games.crash.recording.columns import COLUMNS, MONEY
from playproof.games.crash.rules.actions import ACTIONS
from playproof.games.crash.rules.money import SIDEBET_TICKS
from playproof.games.crash.rules.outcomes import read_outcome, rug_within_40
from playproof.games.crash.rules.windows import EXAMPLES, parse_window
from playproof.games.crash.rules.worlds import WORLDS, ceiling

OUTCOMES = (
    Column("rug_tick", "int", "ticks", "tick of the first rugged message"),
    Column("rug_price", "float", "multiplier", "price at which open positions were sold"),
    Column("peak", "float", "multiplier", "highest price of the round"),
    Column("ended_by_rug", "bool", "flag", "did it rug? A recorded round that is whole did"),
    Column("server_seed", "text", "hex", "the seed, with which anybody can verify the round; unknown until revealed"),
    Column("server_seed_hash", "text", "hex", "commitment to the seed, said before the round ended"),
    Column("game_version", "text", "version", "version of the price algorithm"),
)


@cache
def recording() -> Recording:
    """Give how recorded rounds are read."""
    from playproof.games.crash.features.encoder import FOLD, decides
    from playproof.games.crash.recording.alignment import ALIGNMENT
    from playproof.games.crash.recording.columnar import COLUMNAR
    from playproof.games.crash.recording.decode import decoder
    from playproof.games.crash.recording.importers import captures, event_store, legacy, prices
    from playproof.games.crash.recording.player_ledger import CrashLedger
    from playproof.games.crash.recording.sample import sample
    from playproof.games.crash.recording.sample_facts import sample_facts

    return Recording(
        decoder=decoder,
        decides=decides,
        fold=FOLD,
        ledger=CrashLedger,
        outcome=read_outcome,
        sample=sample,
        facts=sample_facts,
        alignment=ALIGNMENT,
        columnar=COLUMNAR,
        importers={"legacy": legacy.IMPORTER, "capture": captures.IMPORTER, "prices": prices.IMPORTER},
        stores={"events": event_store.IMPORTER},
    )


@cache
def simulation() -> Simulation:
    """Give the compiled game, its baselines and control policies."""
    from playproof.games.crash.analysis.predictor import PREDICTION
    from playproof.games.crash.players.baselines import game_baselines
    from playproof.games.crash.players.controls import HindsightTrader, control_policies, targets
    from playproof.games.crash.players.optimum import best_policy
    from playproof.games.crash.sim.vector_env import make_vector_game, tape_of

    return Simulation(
        vector=make_vector_game,
        baselines=game_baselines(),
        ceiling=ceiling,
        defaults=ValidationDefaults(worse={"+2 ticks latency": 2, "1 tick of slippage": 1}),
        environment="playproof/Crash-v1",
        tape=tape_of,
        best=best_policy,
        controls=control_policies,
        hindsight=HindsightTrader,
        targets=targets,
        prediction=PREDICTION,
    )


@cache
def rewards() -> Rewards:
    """Give the rewards by name, their terms, and rounds to test them on."""
    from playproof.games.crash.rewards.presets import REWARDS
    from playproof.games.crash.rewards.probes import PROBES
    from playproof.games.crash.rewards.terms import COMPONENTS

    return Rewards(presets=REWARDS, components=COMPONENTS, probes=PROBES)


@cache
def display() -> Display:
    """Give what reports draw of a round."""
    from playproof.games.crash.analysis.audit import AUDIT
    from playproof.games.crash.analysis.replay import REPLAY
    from playproof.games.crash.rules.theory import survival_in

    return Display(
        card=DataCard(
            clock="tick",
            price="price",
            length="rug_tick",
            phase="game_phase",
            phases=("cooldown", "presale", "active", "rugged"),
            survival=survival_in,
        ),
        replay=REPLAY,
        audit=AUDIT,
    )


def crash_game() -> Game:
    """Give the crash game."""
    return Game(
        name="crash",
        version="1",
        doc="Buy a price that multiplies tick by tick, and sell before it rugs.",
        money=MONEY,
        columns=COLUMNS,
        features=FEATURES,
        scaling=SCALING,
        observations=OBSERVATIONS,
        actions=ACTIONS,
        labels={
            "rug_within_40": Label(
                "rug_within_40",
                SIDEBET_TICKS,
                "the rug comes no later than 40 ticks from now: a sidebet placed now would win",
                rug_within_40,
            )
        },
        windows=WindowRules(parse_window, "terminated", EXAMPLES),
        outcomes=OUTCOMES,
        worlds={name: world.summary for name, world in WORLDS.items()},
        recording=recording,
        rewards=rewards,
        simulation=simulation,
        display=display,
    )
