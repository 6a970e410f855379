"""The arena as a Game record: the one place in which all its parts meet. A light import."""

from __future__ import annotations

from datetime import timedelta

from playproof.game import (
    ActionSet,
    Baseline,
    Game,
    Label,
    MessageObservation,
    NumericObservation,
    Reward,
    ValidationDefaults,
    WindowRules,
)
from playproof.games.arena.agents.decisions import AMOUNTS, EXAMPLES, HOLD, NAMES
from playproof.games.arena.learning.outcomes import OUTCOMES
from playproof.games.arena.learning.table import FEATURES
from playproof.games.arena.market.rules import PERPS, MarketRules
from playproof.games.arena.market.windows import parse_window, window_id
from playproof.games.arena.market.worlds import WORLDS
from playproof.games.arena.recording.columns import COLUMNS, USD

_HERE = "playproof.games.arena"
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


def _baseline(name: str, doc: str) -> Baseline:
    return Baseline(
        doc, "market", "orders", f"{_HERE}.agents.archetypes:{name}", f"{_HERE}.agents.archetypes:{name}_lanes"
    )


def arena_game() -> Game:
    """Give the arena."""
    return Game(
        name="arena",
        version="1",
        doc="Trade perps and prediction markets with others, hour by hour.",
        money=USD,
        columns=COLUMNS,
        decoder=f"{_HERE}.recording.feed:decoder",
        decides=f"{_HERE}.recording.feed:decides",
        fold=f"{_HERE}.learning.observation:FOLD",
        features=FEATURES,
        observations={
            "market": NumericObservation(tuple(feature.name for feature in FEATURES), doc="the same market as numbers"),
            "messages": MessageObservation(
                "what an agent reads: its task, then portfolio, markets, movers, headlines and posts"
            ),
        },
        actions={
            "orders": ActionSet(
                (NAMES, PERPS, tuple(map(str, AMOUNTS))),
                (0, 0, 0),
                f"{_HERE}.agents.decisions:recorded_order",
            ),
            "decision": ActionSet(
                ((*NAMES, "CREATE_POST"),),
                HOLD,
                f"{_HERE}.agents.decisions:recorded_decision",
                f"{_HERE}.agents.decisions:read_decision",
                EXAMPLES,
            ),
        },
        ledger=f"{_HERE}.recording.ledger:ArenaLedger",
        rewards={
            "alpha": Reward(
                "alpha",
                "1",
                "return on the starting equity, after fees, minus that of buying and holding in the same window",
                {"profit": f"{_HERE}.learning.outcomes:profit", "benchmark": f"{_HERE}.learning.outcomes:minus_hold"},
                benchmark="benchmark",
            ),
            "profit": Reward(
                "profit",
                "1",
                "return on the starting equity, after fees",
                {"profit": f"{_HERE}.learning.outcomes:profit"},
            ),
        },
        labels={
            "up": Label(
                "up", 6, "the companies together end above where they began", f"{_HERE}.learning.outcomes:ends_higher"
            ),
        },
        windows=WindowRules(
            parse_window,
            "truncated",
            ("2025-01-15T10:00Z", "2025-01-15T10:00", "2024-02-29T23:00Z"),
            timedelta(hours=1),
            window_id,
        ),
        outcomes=OUTCOMES,
        outcome=f"{_HERE}.learning.outcomes:read_outcome",
        worlds={name: world.summary for name, world in WORLDS.items()},
        baselines={
            "wait": _baseline("wait", "holds still"),
            **{name: _baseline(name, doc) for name, doc in SCRIPTED.items()},
        },
        ceiling=f"{_HERE}.learning.outcomes:ceiling",
        sample=f"{_HERE}.recording.sample:sample",
        commands="playproof.workflows.arena.commands:app",
        environment="playproof/Arena-v1",
        lanes=f"{_HERE}.learning.vector_env:make_lanes",
        replaying=f"{_HERE}.recording.replay:REPLAYING",
        rivals=f"{_HERE}.learning.controls:rivals",
        validating=ValidationDefaults(MarketRules().cash // 10, 400, {"10 minutes late": 1}, effort=0.01),
        golden=f"{_HERE}.learning.golden:golden",
        forks=f"{_HERE}.learning.forks:make_forks",
    )
