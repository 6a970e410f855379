"""The arena: a shared market in which many agents trade, hour by hour. A first, small form of it.

What is here is real: window ids, the decision that agents write, the messages that they read, exact
money for one perp. It leaves out: prediction markets, funding, leverage, price impact, several
markets, the simulated world and its scripted archetypes, the trajectory tables, and the alpha
reward; the decision reader knows all of a decision, the ledger refuses what is not traded here.
"""

from __future__ import annotations

from datetime import timedelta

from playproof.game import (
    ActionSet,
    Baseline,
    Column,
    Feature,
    Game,
    Label,
    Messages,
    Numbers,
    Reward,
    Windows,
)
from playproof.games.arena.windows import parse_window, window_id

USD = "10^-9 USD"

COLUMNS = (
    Column("tick", "int", "minutes", "minute of the window, from 0"),
    Column("market", "text", "id", "the company that a perp is on"),
    Column("price", "money", USD, "price of the market, or of the fill"),
    Column("author", "text", "id", "who wrote a post"),
    Column("text", "text", "text", "headline, post or decision, as it was written"),
    Column("order", "text", "action", "what was carried out"),
    Column("size", "money", USD, "notional of the open position, 0 if there is none"),
    Column("cash", "money", USD, "what the agent has, margins apart"),
)

FEATURES = (
    Feature("tick", "minutes", "price, turn", "minute of the window", 0.0),
    Feature("price", "USD", "price", "last price shown", 0.0),
    Feature("window_return", "fraction", "price", "last price over the window's first price, minus 1", 0.0),
    Feature("position", "USD", "fill, balance", "signed notional: positive long, negative short", 0.0),
    Feature("entry_price", "USD", "fill", "price at which the position was opened", 0.0),
    Feature("balance", "USD", "fill, balance", "cash, margins apart", 0.0),
)

HOLD = '{"action":"hold"}'
EXAMPLES = (
    HOLD,
    '{"action":"trade","trade":{"type":"perp","market":"ACME","action":"open_long","amount":100},"reasoning":"news"}',
    '{"action":"trade","trade":{"type":"perp","market":"ACME","action":"open_short","amount":50.5,"forecast":0.3}}',
    '{"action":"trade","trade":{"type":"perp","market":"ACME","action":"close"}}',
    '{"action":"trade","trade":{"type":"prediction","market":"rain","action":"buy_yes","amount":20}}',
    '{"action":"create_post","post":{"text":"ACME looks strong"}}',
)

_HERE = "playproof.games.arena"


def game() -> Game:
    """Give the arena."""
    return Game(
        name="arena",
        version="0",
        doc="Trade in one market with others, hour by hour.",
        money=USD,
        columns=COLUMNS,
        decoder=f"{_HERE}.feed:decoder",
        decides=f"{_HERE}.feed:decides",
        fold=f"{_HERE}.prompts:FOLD",
        features=FEATURES,
        observations={
            "messages": Messages("what an agent reads: its task, then portfolio, market, headlines and posts"),
            "market": Numbers(tuple(feature.name for feature in FEATURES), doc="the same market as numbers"),
        },
        actions={
            "decision": ActionSet(
                (("WAIT", "OPEN_LONG", "OPEN_SHORT", "CLOSE", "BUY_YES", "BUY_NO", "SELL", "CREATE_POST"),),
                HOLD,
                f"{_HERE}.actions:recorded_decision",
                f"{_HERE}.actions:read_decision",
                EXAMPLES,
            ),
            "orders": ActionSet(
                (("WAIT", "OPEN_LONG", "OPEN_SHORT", "CLOSE"), ("50", "100", "500")),
                (0, 0),
                f"{_HERE}.actions:recorded_order",
            ),
        },
        ledger=f"{_HERE}.ledger:PerpLedger",
        rewards={
            "equity": Reward(
                "equity",
                "0",
                "change in marked equity after fees, in USD",
                {"equity": f"{_HERE}.outcomes:equity_change"},
            )
        },
        labels={
            "up": Label("up", 6, "the window ends above the price it began with", f"{_HERE}.outcomes:ends_higher"),
        },
        windows=Windows(
            parse_window,
            "truncated",
            ("2025-01-15T10:00Z", "2025-01-15T10:00", "2024-02-29T23:00Z"),
            timedelta(hours=1),
            window_id,
        ),
        outcomes=(
            Column("start_price", "money", USD, "first price of the window"),
            Column("end_price", "money", USD, "price at which the window closed"),
        ),
        outcome=f"{_HERE}.outcomes:read_outcome",
        worlds={"walk": "prices move up or down by chance, and fees make every trade lose on average"},
        baselines={
            "wait": Baseline("holds", "messages", "decision", f"{_HERE}.agents:wait"),
            "random": Baseline("orders anything", "market", "orders", f"{_HERE}.agents:random"),
            "momentum": Baseline("goes with the hour's move", "market", "orders", f"{_HERE}.agents:momentum"),
        },
        ceiling=f"{_HERE}.outcomes:ceiling",
        sample=f"{_HERE}.feed:sample",
    )
