"""The arena as a Game record: the module in which all its parts meet. Importing it is light."""

from __future__ import annotations

from datetime import timedelta
from functools import cache

from playproof.game import (
    ActionSet,
    Baseline,
    Display,
    Game,
    Label,
    Language,
    MessageObservation,
    NumericObservation,
    Recording,
    Reward,
    Rewards,
    Simulation,
    ValidationDefaults,
    WindowRules,
)
from playproof.games.arena.agents.decisions import (
    AMOUNTS,
    EXAMPLES,
    HOLD,
    NAMES,
    read_decision,
    recorded_decision,
    recorded_order,
)
from playproof.games.arena.learning.outcomes import OUTCOMES, ends_higher
from playproof.games.arena.learning.table import FEATURES
from playproof.games.arena.market.rules import PERPS, MarketRules
from playproof.games.arena.market.windows import parse_window, window_id
from playproof.games.arena.market.worlds import WORLDS
from playproof.games.arena.recording.columns import COLUMNS, USD

SCRIPTED = {
    "random": "orders anything",
    "momentum": "goes with the move of the last 20 minutes",
    "hold": "buys a little of every company and holds it",
    "informed": "reads the news on companies and questions",
    "contrarian": "goes against the move of the last 20 minutes",
    "conservative": "trades little, on strong news alone",
    "balanced": "weighs news and trend",
    "aggressive": "trades on any sign, in large sizes",
}


@cache
def recording() -> Recording:
    """Give how recorded hours are read."""
    from playproof.games.arena.learning.observation import FOLD
    from playproof.games.arena.learning.outcomes import read_outcome
    from playproof.games.arena.recording.feed import decides, decoder
    from playproof.games.arena.recording.ledger import ArenaLedger
    from playproof.games.arena.recording.sample import sample

    return Recording(
        decoder=decoder, decides=decides, fold=FOLD, ledger=ArenaLedger, outcome=read_outcome, sample=sample
    )


@cache
def simulation() -> Simulation:
    """Give markets that are played side by side, with scripted agents as baselines."""
    from playproof.games.arena.agents import archetypes
    from playproof.games.arena.learning.controls import control_policies
    from playproof.games.arena.learning.outcomes import ceiling
    from playproof.games.arena.learning.vector_env import make_vector_game

    def baseline(name: str, doc: str) -> Baseline:
        return Baseline(doc, "market", "orders", *archetypes.policies(name))

    return Simulation(
        vector=make_vector_game,
        baselines={
            "wait": baseline("wait", "holds still"),
            **{name: baseline(name, doc) for name, doc in SCRIPTED.items()},
        },
        ceiling=ceiling,
        defaults=ValidationDefaults(MarketRules().cash // 10, 400, {"10 minutes late": 1}, effort=0.01),
        environment="playproof/Arena-v1",
        controls=control_policies,
    )


@cache
def rewards() -> Rewards:
    """Give the rewards by name."""
    from playproof.games.arena.learning.outcomes import minus_hold, profit

    return Rewards(
        presets={
            "alpha": Reward(
                "alpha",
                "1",
                "return on the starting equity, after fees, minus that of buying and holding in the same window",
                {"profit": profit, "benchmark": minus_hold},
                benchmark="benchmark",
            ),
            "profit": Reward("profit", "1", "return on the starting equity, after fees", {"profit": profit}),
        }
    )


@cache
def display() -> Display:
    """Give what a replay shows of an hour."""
    from playproof.games.arena.recording.replay import REPLAY

    return Display(replay=REPLAY)


@cache
def language() -> Language:
    """Give forked hours that language models play, and plays of known order."""
    from playproof.games.arena.learning.forks import make_forks
    from playproof.games.arena.learning.golden import golden

    return Language(forks=make_forks, golden=golden)


def arena_game() -> Game:
    """Give the arena."""
    return Game(
        name="arena",
        version="1",
        doc="Trade perps and prediction markets with others, hour by hour.",
        money=USD,
        columns=COLUMNS,
        features=FEATURES,
        observations={
            "market": NumericObservation(tuple(feature.name for feature in FEATURES), doc="the same market as numbers"),
            "messages": MessageObservation(
                "what an agent reads: its task, then portfolio, markets, movers, headlines and posts"
            ),
        },
        actions={
            "orders": ActionSet((NAMES, PERPS, tuple(map(str, AMOUNTS))), (0, 0, 0), recorded_order),
            "decision": ActionSet(((*NAMES, "CREATE_POST"),), HOLD, recorded_decision, read_decision, EXAMPLES),
        },
        labels={"up": Label("up", 6, "the companies together end above where they began", ends_higher)},
        windows=WindowRules(
            parse_window,
            "truncated",
            ("2025-01-15T10:00Z", "2025-01-15T10:00", "2024-02-29T23:00Z"),
            timedelta(hours=1),
            window_id,
        ),
        outcomes=OUTCOMES,
        worlds={name: world.summary for name, world in WORLDS.items()},
        recording=recording,
        rewards=rewards,
        simulation=simulation,
        display=display,
        language=language,
    )
