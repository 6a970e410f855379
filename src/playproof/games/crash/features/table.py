"""The feature table of the crash game: every number an observation may hold, and the four sets made of it.

Names, order, units, definitions and fill values stand here once; `fold` and `history` write the
numbers, docs/reference/features.md and the schemas are generated. Leaves out: computing anything. Importing
this needs no compiler.

A row holds what could be known at its moment. The leaderboard comes with the tick's own message; a
trade stamped with a tick comes after it, so the row of tick t holds the trades of ticks before t and
those of t that were heard so far.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from playproof.game import Feature, NumericObservation

WINDOW = 40
"""Ticks of the volumes and of the price and volume statistics; a sidebet's span."""
WHALE_WINDOW = 10
LOTS = 10
"""Oldest open lots that `trader` shows."""
PAST_ROUNDS = 5

KNOWLEDGE = (
    "tick",
    "player",
    "round",
    "rugpool",
    "session",
    "highest",
    "execution",
    "client",
    "velocity",
    "acceleration",
    "bet",
    "timer",
    "leaderboard",
    "lots",
    *(f"past_{back}" for back in range(1, PAST_ROUNDS + 1)),
)
"""What a feed may have told; place i is bit i of `known`. The first twelve are the fold's, the others history's."""

STATE, TRADE, OWN = "gameStateUpdate", "standard/newTrade", "playerUpdate"
FILLS_OWN = "own fills: order acks, playerUpdate"


@dataclass(frozen=True, slots=True)
class FeatureRow:
    """One row of the table."""

    name: str
    unit: str
    source: str
    needs: str
    """What must have been told before the feature is known: words of KNOWLEDGE, separated by blanks."""
    how: str
    fill: float = 0.0

    @property
    def feature(self) -> Feature:
        """Give the row as the game's record holds it."""
        return Feature(self.name, self.unit, self.source, self.how, self.fill, SCALES.get(self.name, "linear:1"))


SCALING = "1"
"""Version of SCALES; a changed scale is a new version, and networks of the old one are refused."""
_MONEY = "over:balance:0.001:4"
_VOLUME = "symlog:0.01:3"
SCALES: Mapping[str, str] = {
    "tick": "linear:138",
    "price": "log",
    "game_phase": "linear:2:1",
    "cooldown_timer_ms": "symlog:250:2",
    "connected_players": "linear:30:225",
    "balance": "log:3",
    "position_qty": _MONEY,
    "avg_entry_price": "symlog:1:1",
    "cumulative_pnl": "over:balance:0.01:2",
    "total_invested": _MONEY,
    "rugpool_amount": "linear:10",
    "rugpool_threshold": "linear:10",
    "instarug_count": "linear:10",
    "average_multiplier": "log:1:1.5",
    "count_2x": "linear:10:44",
    "count_10x": "linear:5:8",
    "count_50x": "linear:2",
    "count_100x": "linear:2",
    "highest_today": "log:2:6.3",
    "price_velocity": "over:price:0.01:2",
    "price_acceleration": "over:price:0.01:2",
    "unrealized_pnl": "over:balance:0.01:2",
    "position_pnl_pct": "symlog:0.01:2",
    "time_in_position": "linear:40",
    "ticks_since_last_action": "linear:138",
    "bet_amount": _MONEY,
    "execution_tick": "linear:138",
    "execution_price": "symlog:1:1",
    "client_timestamp": "symlog:1000:10",
    "latency_ms": "symlog:100:2",
    "players_in_game": "linear:10",
    "players_with_positions": "linear:10",
    "total_market_capital": _VOLUME,
    "recent_buy_volume": _VOLUME,
    "recent_sell_volume": _VOLUME,
    "price_mean_40": "log",
    "price_std_40": "over:price:0.01:2",
    "price_min_40": "log",
    "price_max_40": "log",
    "volume_mean_40": _VOLUME,
    "volume_std_40": _VOLUME,
    "volume_min_40": _VOLUME,
    "volume_max_40": _VOLUME,
    "bankroll": "log:3",
    "position_count": "linear:5",
    "volatility_first_40": "linear:0.1",
    "volatility_last_10": "linear:0.1",
    "volatility_ratio": "log",
    **{f"history_{back}_end_price": "symlog:0.01:2" for back in range(1, PAST_ROUNDS + 1)},
    **{f"history_{back}_duration": "linear:138" for back in range(1, PAST_ROUNDS + 1)},
    **{f"history_{back}_peak": "symlog:1:2" for back in range(1, PAST_ROUNDS + 1)},
    **{f"lot_{index}_entry_price": "symlog:1:1" for index in range(1, LOTS + 1)},
    **{f"lot_{index}_bet_size": "symlog:0.001:4" for index in range(1, LOTS + 1)},
    **{f"lot_{index}_pnl_pct": "symlog:0.01:2" for index in range(1, LOTS + 1)},
    "log_return_3": "linear:0.2",
    "log_return_5": "linear:0.2",
    "log_return_10": "linear:0.3",
    "log_return_20": "linear:0.4",
    "rsi_14": "linear:50:50",
    "z_score_20": "linear:2",
    "run_up_from_low": "symlog:0.1:2",
    "ticks_since_peak": "linear:138",
    "ticks_since_low": "linear:138",
    "ticks_since_big_move": "linear:10",
    "big_moves_10": "linear:3",
    "rounds_in_session": "symlog:1:3",
    "session_pnl": "symlog:0.01:2",
    "win_streak": "linear:5",
    "loss_streak": "linear:5",
    "rounds_since_trade": "symlog:1:2",
    "mean_peak_5": "symlog:1:2",
    "mean_duration_5": "linear:138",
    "ticks_in_sweet_spot": "linear:40",
    "predicted_duration": "linear:138",
    "ticks_until_sidebet": "linear:40",
}
"""How networks see a feature: prices as logarithms, ticks in half-lives, money as ratios of the balance. A countdown
is curved so that its last tick and none are as far apart as its first ticks. What is not named is taken as it is."""

SERVER = (
    FeatureRow("tick", "ticks", STATE, "tick", "tickCount; 0 until the round is active, as on the feed"),
    FeatureRow(
        "price", "multiplier", STATE, "tick", "the last price said; filled with 1, where every round starts", 1.0
    ),
    FeatureRow("game_phase", "code", STATE, "tick", "0 cooldown, 1 presale, 2 active, 3 rugged; filled with cooldown"),
    FeatureRow(
        "cooldown_timer_ms",
        "ms",
        STATE,
        "timer",
        "cooldownTimer; while the round is active 0, but in world `drift` 250 for each tick left of a countdown",
    ),
    FeatureRow("allow_pre_round_buys", "flag", STATE, "tick", "1 in the presale"),
    FeatureRow("active", "flag", STATE, "tick", "1 from tick 0 to the rug, the rug's message included"),
    FeatureRow("rugged", "flag", STATE, "tick", "1 from the rug to the next round"),
    FeatureRow("connected_players", "players", STATE, "", "connectedPlayers; 0 until told, which no real feed says"),
    FeatureRow(
        "game_id_hash",
        "hash in [0, 1)",
        STATE,
        "round",
        "an identity made of the gameId, to join rows by; no feature to learn from, hence not in `policy`",
    ),
)
PLAYER = (
    FeatureRow("balance", "coins", OWN, "player", "cash; filled with 1, the balance a player starts with", 1.0),
    FeatureRow("position_qty", "coins at price 1", OWN, "player", "positionQty"),
    FeatureRow(
        "avg_entry_price", "multiplier", OWN, "player", "avgCost: cost of the held lots / their quantity; 0 when flat"
    ),
    FeatureRow(
        "cumulative_pnl", "coins", OWN, "player", "cumulativePnL as last told: realised and unrealised, of this round"
    ),
    FeatureRow("total_invested", "coins", OWN, "player", "totalInvested of this round, sidebet stakes included"),
)
RUGPOOL = (
    FeatureRow(
        "rugpool_amount",
        "coins",
        STATE,
        "rugpool",
        "rugpoolAmount; filled with its mean, 4.5 instarugs of 0.814 each",
        3.663,
    ),
    FeatureRow(
        "rugpool_threshold", "instarugs", STATE, "rugpool", "threshold; filled with 10, the only value seen", 10.0
    ),
    FeatureRow(
        "instarug_count",
        "instarugs",
        STATE,
        "rugpool",
        "instarugCount; filled with its mean, which no real count equals",
        4.5,
    ),
)
_SIMULATED = "over a million simulated rounds, which no real count equals"
SESSION = (
    FeatureRow(
        "average_multiplier",
        "multiplier",
        STATE,
        "session",
        "averageMultiplier: mean peak of the last 100 rounds; filled with the median of that mean over a million "
        "simulated rounds (its own mean, 9.4, hangs on a few peaks)",
        4.78,
    ),
    FeatureRow(
        "count_2x",
        "rounds",
        STATE,
        "session",
        f"rounds of the last 100 that reached 2; filled with the mean {_SIMULATED}",
        43.95,
    ),
    FeatureRow("count_10x", "rounds", STATE, "session", "the same for 10", 7.73),
    FeatureRow("count_50x", "rounds", STATE, "session", "the same for 50", 1.38),
    FeatureRow("count_100x", "rounds", STATE, "session", "the same for 100", 0.65),
    FeatureRow(
        "highest_today",
        "multiplier",
        STATE,
        "highest",
        "highestToday, told about once in 100 messages; filled with the median peak of half a day, simulated",
        540.8,
    ),
)
DERIVED = (
    FeatureRow(
        "price_velocity",
        "multiplier a tick",
        STATE,
        "velocity",
        "price(t) - price(t-1), the rug included; 0 at tick 0 and, as unknown, after a missed tick",
    ),
    FeatureRow(
        "price_acceleration",
        "multiplier a tick^2",
        STATE,
        "acceleration",
        "price_velocity(t) - price_velocity(t-1); 0 at tick 0 and, as unknown, until two ticks after a missed one",
    ),
    FeatureRow("unrealized_pnl", "coins", f"{STATE}, {OWN}", "player", "position_qty x (price - avg_entry_price)"),
    FeatureRow(
        "position_pnl_pct",
        "fraction",
        f"{STATE}, {OWN}",
        "player",
        "unrealized_pnl / cost of the held lots; 0 when flat. A fraction in spite of its name: 0.1 is 10 %",
    ),
    FeatureRow(
        "rugpool_ratio",
        "fraction",
        STATE,
        "rugpool",
        "rugpool_amount / rugpool_threshold; filled with the ratio of their fills",
        0.3663,
    ),
    FeatureRow(
        "balance_at_risk_pct",
        "fraction",
        f"{STATE}, {OWN}",
        "player",
        "position_qty x price / (balance + position_qty x price); 0 when flat. A fraction: 0.1 is 10 %",
    ),
)
ACTION = (
    FeatureRow(
        "time_in_position",
        "ticks",
        f"{STATE}, {OWN}",
        "player",
        "ticks since the position was opened from flat; 0 when flat",
    ),
    FeatureRow(
        "ticks_since_last_action",
        "ticks",
        f"{STATE}, presses",
        "tick",
        "ticks since the last press of BUY, SELL or SIDEBET in this round, or since its start",
    ),
    FeatureRow(
        "bet_amount",
        "coins",
        "presses",
        "bet",
        "what stands in the bet field; filled with 0.001, which stands there at first",
        0.001,
    ),
)
_LAST = "of the last own execution completed before this row"
EXECUTION = (
    FeatureRow(
        "execution_tick",
        "ticks",
        FILLS_OWN,
        "execution",
        f"tick {_LAST}; 0 while there was none, which execution_price tells apart",
    ),
    FeatureRow(
        "execution_price", "multiplier", FILLS_OWN, "execution", f"price {_LAST}; 0 while there was none: no price is"
    ),
    FeatureRow(
        "trade_id_hash", "hash in [0, 1)", TRADE, "execution client", f"identity {_LAST}; only recordings know it"
    ),
    FeatureRow(
        "client_timestamp", "ms", "presses", "execution client", f"page time of the press {_LAST}; recordings only"
    ),
    FeatureRow("latency_ms", "ms", "presses, order acks", "execution client", f"press to ack {_LAST}; recordings only"),
)
_BOARD = (
    "of the leaderboard, which holds at most 10, practice tokens left out; filled with the mean of 241 recorded ticks"
)
CROWD = (
    FeatureRow("players_in_game", "players", STATE, "leaderboard", f"entries {_BOARD}", 9.59),
    FeatureRow(
        "players_with_positions", "players", STATE, "leaderboard", f"entries with positionQty > 0 {_BOARD}", 3.31
    ),
    FeatureRow(
        "total_market_capital",
        "coins",
        STATE,
        "leaderboard",
        f"positionQty of all entries x the price said with them, {_BOARD}",
        0.285,
    ),
    FeatureRow(
        "recent_buy_volume",
        "coins",
        TRADE,
        "",
        "amounts of the buys heard of that are stamped with ticks t-39 to t of this round (all of it, if younger); "
        "presale buys are stamped 0",
    ),
    FeatureRow("recent_sell_volume", "coins", TRADE, "", "the same for sells"),
    FeatureRow(
        "trade_flow_ratio",
        "fraction",
        TRADE,
        "",
        "recent_buy_volume / (recent_buy_volume + recent_sell_volume); 0.5 when both are 0",
        0.5,
    ),
    FeatureRow(
        "whale_activity_flag",
        "flag",
        TRADE,
        "",
        "1 if a trade stamped with ticks t-9 to t of this round is above 10 x the median of the last 100 trades heard "
        "of, in whatever round (of all, if fewer; the mean of the middle two, if even)",
    ),
)
PRICE_STATISTICS = (
    FeatureRow(
        "price_mean_40",
        "multiplier",
        STATE,
        "tick",
        "mean price of ticks t-39 to t of this round that were seen (all, if younger; tick 0 is 1 by rule); "
        "like the other three filled as if only the start price were known",
        1.0,
    ),
    FeatureRow("price_std_40", "multiplier", STATE, "tick", "standard deviation of the same, divided by their number"),
    FeatureRow("price_min_40", "multiplier", STATE, "tick", "lowest of the same", 1.0),
    FeatureRow("price_max_40", "multiplier", STATE, "tick", "highest of the same", 1.0),
)
VOLUME_STATISTICS = (
    FeatureRow(
        "volume_mean_40",
        "coins a tick",
        TRADE,
        "",
        "mean over ticks t-39 to t of this round (all, if younger) of the volume stamped with each, buys and sells",
    ),
    FeatureRow("volume_std_40", "coins a tick", TRADE, "", "standard deviation of the same, divided by their number"),
    FeatureRow("volume_min_40", "coins a tick", TRADE, "", "lowest of the same"),
    FeatureRow("volume_max_40", "coins a tick", TRADE, "", "highest of the same"),
)
_CHANGES = "standard deviation (divided by their number) of the changes price(t) / price(t-1) - 1"
CURRENT = (
    FeatureRow("has_positions", "flag", OWN, "player", "1 if position_qty > 0"),
    FeatureRow(
        "bankroll",
        "coins",
        f"{STATE}, {OWN}",
        "player",
        "balance + position_qty x price, an open sidebet at 0; filled with 1, the balance a player starts with",
        1.0,
    ),
    FeatureRow("position_count", "lots", FILLS_OWN, "lots", "open lots, more than 10 included"),
    FeatureRow(
        "volatility_first_40", "fraction a tick", STATE, "", f"{_CHANGES} of ticks 1 to 40 seen so far; 0 before tick 1"
    ),
    FeatureRow(
        "volatility_last_10", "fraction a tick", STATE, "", f"{_CHANGES} of ticks t-9 to t seen; 0 before tick 1"
    ),
    FeatureRow(
        "volatility_ratio", "ratio", STATE, "", "volatility_last_10 / volatility_first_40; 1 while the latter is 0", 1.0
    ),
)


def past_entries(back: int) -> tuple[FeatureRow, ...]:
    """Describe the finished round that lies `back` rounds back, 1 being the last one."""
    which = f"of the finished round {back} back, 1 being the last one known (from its rug on)"
    needs = f"past_{back}"
    return (
        FeatureRow(
            f"history_{back}_end_price", "multiplier", STATE, needs, f"rug price {which}; 0 if unknown: no price is"
        ),
        FeatureRow(
            f"history_{back}_duration",
            "ticks",
            STATE,
            needs,
            f"rug tick {which}; 0 if unknown: a real one is at least 1",
        ),
        FeatureRow(
            f"history_{back}_peak",
            "multiplier",
            STATE,
            needs,
            f"highest price {which}; 0 if unknown: a real one is at least 1",
        ),
        FeatureRow(
            f"history_{back}_ultra_short_flag", "flag", STATE, needs, f"1 for an instarug, duration < 6, {which}"
        ),
    )


def lot_entries(index: int) -> tuple[FeatureRow, ...]:
    """Describe the open lot in a place, 1 being the oldest."""
    which = f"of open lot {index}, 1 being the oldest; 0 if there is none: a real one costs at least 0.001"
    return (
        FeatureRow(
            f"lot_{index}_entry_price", "multiplier", FILLS_OWN, "lots", f"cost / quantity of what is left {which}"
        ),
        FeatureRow(f"lot_{index}_bet_size", "coins", FILLS_OWN, "lots", f"cost of what is left {which}"),
        FeatureRow(
            f"lot_{index}_pnl_pct", "fraction", f"{STATE}, {FILLS_OWN}", "lots", f"price / entry price - 1 {which}"
        ),
    )


HISTORY = tuple(row for back in range(1, PAST_ROUNDS + 1) for row in past_entries(back))
POSITIONS = tuple(row for index in range(1, LOTS + 1) for row in lot_entries(index))
META_CONTEXT = (
    *(
        FeatureRow(
            f"log_return_{ticks}",
            "log",
            STATE,
            "",
            f"ln(price / the oldest price seen among ticks t-{ticks} to t of this round)",
        )
        for ticks in (3, 5, 10, 20)
    ),
    FeatureRow(
        "rsi_14",
        "0 to 100",
        STATE,
        "",
        "100 x gains / (gains + losses), sums of the price differences of ticks t-13 to t of this round; 50 when both "
        "are 0",
        50.0,
    ),
    FeatureRow(
        "z_score_20",
        "standard deviations",
        STATE,
        "",
        "(price - mean) / standard deviation (divided by their number) of the prices seen of ticks t-19 to t of this "
        "round; 0 while that is 0",
    ),
    FeatureRow(
        "drawdown_from_peak",
        "fraction",
        STATE,
        "",
        "1 - price / highest price seen in this round, the start price 1 included",
    ),
    FeatureRow(
        "run_up_from_low",
        "fraction",
        STATE,
        "",
        "price / lowest price seen in this round, the start price 1 included, - 1",
    ),
    FeatureRow("ticks_since_peak", "ticks", STATE, "", "ticks since that highest price was first seen"),
    FeatureRow("ticks_since_low", "ticks", STATE, "", "ticks since that lowest price was first seen"),
    FeatureRow(
        "ticks_since_big_move",
        "ticks",
        STATE,
        "",
        "ticks since the last big move seen in this round, or since its start. A big move changes the price by more "
        "than 12 % in one tick: ordinary changes stay below 9 %, big ones, god candles and rugs are above 13 %",
    ),
    FeatureRow("big_moves_10", "moves", STATE, "", "big moves seen on ticks t-9 to t of this round"),
    FeatureRow(
        "up_share_10",
        "fraction",
        STATE,
        "",
        "share of ticks t-9 to t of this round on which the price rose; 0.5 before tick 1",
        0.5,
    ),
    FeatureRow(
        "range_10", "fraction", STATE, "", "(highest - lowest) / highest price seen of ticks t-9 to t of this round"
    ),
    FeatureRow("log_price", "log", STATE, "tick", "ln(price)"),
    FeatureRow("half_lives", "half-lives", STATE, "tick", "tick / 138: half of all rounds are over after 138.3 ticks"),
    FeatureRow("rounds_in_session", "rounds", STATE, "", "rounds begun in this session, the present one included"),
    FeatureRow("session_pnl", "coins", OWN, "player", "result of the finished rounds of this session"),
    FeatureRow(
        "win_streak",
        "rounds",
        OWN,
        "player",
        "finished rounds in a row with a profit; one without a trade changes nothing, one that breaks even ends it",
    ),
    FeatureRow("loss_streak", "rounds", OWN, "player", "the same with a loss"),
    FeatureRow(
        "rounds_since_trade",
        "rounds",
        OWN,
        "player",
        "finished rounds of this session since the last one with a buy or sidebet, or since its start",
    ),
    FeatureRow(
        "mean_peak_5",
        "multiplier",
        STATE,
        "past_1",
        "mean peak of the last 5 finished rounds known, fewer if there are; 0 if none",
    ),
    FeatureRow("mean_duration_5", "ticks", STATE, "past_1", "the same of their durations"),
)
SWEET_SPOT = (
    FeatureRow("in_sweet_spot", "flag", STATE, "", "1 if 25 <= price <= 50"),
    FeatureRow("ticks_in_sweet_spot", "ticks", STATE, "", "ticks seen in this round with 25 <= price <= 50"),
    FeatureRow("sweet_spot_reached", "flag", STATE, "", "1 if a price of 25 or more was seen in this round"),
)
_PREDICTOR = "a predictor, asked on this round's ticks"
DURATION_PRED = (
    FeatureRow(
        "predicted_duration",
        "ticks",
        _PREDICTOR,
        "",
        "expected rug tick; without a prediction tick + 200, the constant hazard's",
        200.0,
    ),
    FeatureRow(
        "duration_confidence", "0 to 1", _PREDICTOR, "", "0 without a prediction: nothing is known beyond the base rate"
    ),
    FeatureRow("sidebet_active", "flag", FILLS_OWN, "player", "1 while an own sidebet is open and not settled"),
    FeatureRow(
        "ticks_until_sidebet",
        "ticks",
        FILLS_OWN,
        "player",
        "ticks until the open sidebet ends and the next may be placed; 0 if none is open",
    ),
)
RUG_PREDICTION = (
    FeatureRow(
        "rug_probability",
        "0 to 1",
        _PREDICTOR,
        "",
        "P(rug within 40 ticks); without a prediction 1 - 0.995^40, the constant hazard's",
        1.0 - 0.995**WINDOW,
    ),
    FeatureRow(
        "rug_confidence", "0 to 1", _PREDICTOR, "", "0 without a prediction: nothing is known beyond the base rate"
    ),
    FeatureRow(
        "ticks_to_rug_norm",
        "ratio",
        _PREDICTOR,
        "",
        "expected ticks to the rug / 200, the constant hazard's; 1 without a prediction",
        1.0,
    ),
    FeatureRow(
        "is_critical", "flag", _PREDICTOR, "", "1 if rug_probability >= 0.5: a rug within 40 ticks is as likely as not"
    ),
    FeatureRow(
        "should_exit",
        "flag",
        _PREDICTOR,
        "",
        "1 if rug_probability >= 0.4; a mark, not advice",
    ),
)

GROUPS: Mapping[str, tuple[FeatureRow, ...]] = {
    "server": SERVER,
    "player": PLAYER,
    "rugpool": RUGPOOL,
    "session": SESSION,
    "derived": DERIVED,
    "action": ACTION,
    "execution": EXECUTION,
    "crowd": CROWD,
    "price statistics": PRICE_STATISTICS,
    "volume statistics": VOLUME_STATISTICS,
    "current": CURRENT,
    "history": HISTORY,
    "positions": POSITIONS,
    "meta_context": META_CONTEXT,
    "sweet_spot": SWEET_SPOT,
    "duration_pred": DURATION_PRED,
    "rug_prediction": RUG_PREDICTION,
}
"""The whole table; each feature stands in the group it is defined with."""

ENTRIES: Mapping[str, FeatureRow] = {row.name: row for rows in GROUPS.values() for row in rows}
FEATURES: tuple[Feature, ...] = tuple(row.feature for row in ENTRIES.values())


def names(*groups: tuple[FeatureRow, ...]) -> tuple[str, ...]:
    """Name the features of some groups, in order."""
    return tuple(row.name for rows in groups for row in rows)


RECORDED_GROUPS = ("server", "player", "rugpool", "session", "derived", "action", "execution")
RECORDED = names(*(GROUPS[group] for group in RECORDED_GROUPS))
IDENTITIES = ("game_id_hash",)
POLICY = tuple(name for name in RECORDED if name not in (*IDENTITIES, *names(EXECUTION)))

MARKET_GROUPS: Mapping[str, tuple[str, ...]] = {
    "game state": (
        "tick",
        "price",
        "price_velocity",
        "price_acceleration",
        "game_phase",
        "cooldown_timer_ms",
        "allow_pre_round_buys",
    ),
    "player": names(PLAYER),
    "derived": ("unrealized_pnl", "position_pnl_pct", "time_in_position", "balance_at_risk_pct"),
    "market": names(CROWD),
    "rugpool": ("rugpool_amount", "rugpool_threshold", "rugpool_ratio"),
    "price history": names(PRICE_STATISTICS),
    "volume history": names(VOLUME_STATISTICS),
    "session": names(SESSION),
}
MARKET = tuple(name for group in MARKET_GROUPS.values() for name in group)

TRADER_GROUPS: Mapping[str, tuple[str, ...]] = {
    "current": (
        "price",
        "tick",
        "game_phase",
        "has_positions",
        "bankroll",
        "rugged",
        "position_count",
        "volatility_first_40",
        "volatility_last_10",
        "volatility_ratio",
    ),
    "history": names(HISTORY),
    "positions": names(POSITIONS),
    "meta_context": (*names(META_CONTEXT), "allow_pre_round_buys"),
    "sweet_spot": names(SWEET_SPOT),
    "duration_pred": names(DURATION_PRED),
    "rug_prediction": names(RUG_PREDICTION),
}
TRADER = tuple(name for group in TRADER_GROUPS.values() for name in group)

OBSERVATIONS: dict[str, NumericObservation] = {
    "policy": NumericObservation(POLICY, doc="what a player sees at a decision, without identities and executions"),
    "recorded": NumericObservation(RECORDED, doc="everything that is stored of a decision, in every data set"),
    "market": NumericObservation(MARKET, doc="the player's view with the crowd's trades and leaderboard"),
    "trader": NumericObservation(
        TRADER,
        {block: len(group) for block, group in TRADER_GROUPS.items()},
        "a trading desk's view: the last rounds, the open lots, indicators, predictions",
    ),
}


def bits(needs: str) -> int:
    """Give what must be known as bits of `known`."""
    return sum(1 << KNOWLEDGE.index(word) for word in needs.split())


NEEDS: Mapping[str, tuple[int, ...]] = {
    name: tuple(bits(ENTRIES[feature].needs) for feature in numbers.features) for name, numbers in OBSERVATIONS.items()
}
"""By set, for each feature the bits of `known` without which it is unknown and holds its fill value."""
FILLS: Mapping[str, tuple[float, ...]] = {
    name: tuple(ENTRIES[feature].fill for feature in numbers.features) for name, numbers in OBSERVATIONS.items()
}

_MEMORYLESS = "left out: the rug is memoryless, so nothing of the kind can exist, and no plan defines it"
PREDICTOR_INPUTS: Mapping[str, str] = {
    "tick percentile": "left out: 1 - 0.995^tick, a function of `tick` alone",
    "z-score": "`z_score_20`",
    "IQR position": "left out: the place of `tick` between the quartiles of all durations, a function of `tick` alone",
    "volatility ratio": "`volatility_ratio`",
    "momentum": "`log_return_10`",
    "intensity": "`volatility_last_10`",
    "acceleration": "`price_acceleration`",
    "spike frequency": "`big_moves_10`",
    "spike spacing": "`ticks_since_big_move`",
    "death-spike score": _MEMORYLESS,
    "theta factor": _MEMORYLESS,
    "sequence feasibility": _MEMORYLESS,
    "cooldown status": "`ticks_until_sidebet`: when the next sidebet may be placed",
    "pattern signal": _MEMORYLESS,
}
"""What became of the 14 inputs that an old plan lists for the rug predictor."""


_INTRODUCTION = """\
# Features of the crash game

Generated from the table in `playproof.games.crash.features.table` by `to_markdown()`; do not edit.

An observation is a float32 row: one place for each feature of a set, in the set's order. Money is in
coins, prices are multipliers of the start price 1, time is in ticks of 250 ms. t is the tick of the row.
A row holds what could be known at its moment: the leaderboard comes with the tick's own message, a
trade stamped with a tick comes after it. No row holds anything of the round's outcome before the rug.
What is not known yet holds its fill value and is told apart by the set's mask (`NEEDS`).
Rows are raw; networks see them through the fixed scales (`playproof.policies.scaling`).
Where a window reaches back before the round's start, or over missed ticks, it holds what was seen.

## Sets
"""

_COUNTS = """\
## Why 37, 40 and 96

The plans that these sets come from count 36, 45 and 89. Their own lists add up to other numbers, and
the length of a set is always that of its list:
"""

_POLICY_TEXT = """\
## What `policy` leaves out

`policy` is `recorded` without {left_out}.
The first is an identity, by which a model could learn rounds by heart. The others are known only
after an action: as inputs they give away the label, and two of them are identities as well.
The {count} features in `policy`:
"""

_PREDICTOR_TEXT = """\
## The predictor's 14 inputs

An old plan lists these inputs for a predictor of the rug. In the published game the rug is memoryless:
no input can help, and a predictor that seems to is wrong. They serve worlds in which it is not.
"""

_PLANNED: Mapping[str, tuple[int, Mapping[str, int]]] = {
    "recorded": (36, {group: len(GROUPS[group]) for group in RECORDED_GROUPS}),
    "market": (45, {group: len(members) for group, members in MARKET_GROUPS.items()}),
    "trader": (89, {group: len(members) for group, members in TRADER_GROUPS.items()}),
}


def to_table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Write a Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def describe_counts() -> str:
    """Write how the planned counts compare with the lists."""
    return to_table(
        ("set", "planned", "really", "as listed"),
        (
            (
                f"`{name}`",
                str(planned),
                str(sum(groups.values())),
                " + ".join(f"{n} {group}" for group, n in groups.items()),
            )
            for name, (planned, groups) in _PLANNED.items()
        ),
    )


def describe_group(group: str) -> str:
    """Write the table of one group."""
    rows = (
        (
            f"`{row.name}`",
            row.unit,
            row.source,
            row.how,
            f"{row.fill:.6g}",
            f"`{SCALES.get(row.name, 'linear:1')}`",
            ", ".join(name for name, numbers in OBSERVATIONS.items() if row.name in numbers.features),
        )
        for row in GROUPS[group]
    )
    return f"### {group}\n\n" + to_table(("name", "unit", "source", "how", "fill", "scale", "sets"), rows)


def to_markdown() -> str:
    """Write docs/reference/features.md."""
    left_out = ", ".join(f"`{name}`" for name in RECORDED if name not in POLICY)
    sets = to_table(
        ("set", "features", "what it is"),
        ((f"`{name}`", str(len(numbers.features)), numbers.doc) for name, numbers in OBSERVATIONS.items()),
    )
    parts = (
        _INTRODUCTION + "\n" + sets + "\nThe first is the default. `trader` is shown as a Dict of its blocks.",
        _COUNTS + "\n" + describe_counts(),
        _POLICY_TEXT.format(left_out=left_out, count=len(POLICY))
        + "\n"
        + ", ".join(f"`{name}`" for name in POLICY)
        + ".",
        "## All features",
        *(describe_group(group) for group in GROUPS),
        _PREDICTOR_TEXT + "\n" + to_table(("input", "here"), PREDICTOR_INPUTS.items()),
    )
    return "\n\n".join(part.strip() for part in parts) + "\n"
