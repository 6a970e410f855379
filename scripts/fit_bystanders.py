"""Fit the constants of `playproof.games.crash.sim.crowd` to recordings, and compare model with data.

    python scripts/fit_bystanders.py ../shared/data             # constants, with the samples behind them
    python scripts/fit_bystanders.py ../shared/data --compare   # the table of docs/concepts/crowd-model.md
    python scripts/fit_bystanders.py --highest                  # HIGHEST_TODAY, by simulation; some minutes

Leaves out: writing the constants into the module; a person reads them first.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, pairwise
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from playproof.games.crash.rules.worlds import WORLDS, counter_round
from playproof.games.crash.sim.crowd import (
    CONNECTED_PLAYERS,
    CONNECTED_STEP,
    FARM_AMOUNT,
    FARM_LEVEL,
    FARM_SHARE,
    GRID,
    HIGHEST_TODAY,
    ROUNDS_PER_DAY,
    RUGPOOL_MEAN,
    STRETCH,
    TRADE_FEED_LEAST,
    TRADE_FEED_TICKS,
    Bystander,
    crowd,
    next_level,
    quantile,
)
from playproof.money import from_units

CAPTURES = ("socket-capture-public", "socket-capture-cdp")
PRACTICE = "0xPractice"
BURST = 12
"""So many trades on one tick are accounts acting together."""
QUIET = 10
"""Fewer trades than this on one tick are people acting alone."""
EDGES = (5, 10, 20, 40, 80, 160, 320, 640)

Floats = npt.NDArray[np.float64]
Message = Mapping[str, Any]


@dataclass(frozen=True)
class Curve:
    """The trade counter of one recorded round."""

    started: str
    counts: Mapping[int, int]
    """Trades so far, by tick, before the rug."""
    rug_tick: int | None
    rug_count: int | None
    """The counter in the first rugged message."""

    def step(self, tick: int) -> int | None:
        """Give the trades of one tick; None if it or the one before was not recorded."""
        if tick in self.counts and tick - 1 in self.counts:
            return self.counts[tick] - self.counts[tick - 1]
        return None

    def steps(self, first: int, last: int) -> list[int]:
        """Give the trades of each recorded tick of a range."""
        return [step for tick in range(first, last) if (step := self.step(tick)) is not None]

    @property
    def open_at_rug(self) -> int | None:
        """Give the positions that the rug sold, which the counter jumps by."""
        if self.rug_tick is None or self.rug_count is None or self.rug_tick - 1 not in self.counts:
            return None
        return self.rug_count - self.counts[self.rug_tick - 1]


@dataclass
class Recordings:
    """What the recordings say about other people."""

    curves: list[Curve] = field(default_factory=list)
    states: dict[str, list[Message]] = field(default_factory=dict)
    """gameStateUpdate payloads, by capture."""
    history: dict[str, dict[str, Message]] = field(default_factory=dict)
    """Finished rounds by id, by capture."""
    trades: list[Message] = field(default_factory=list)
    trade_times: list[list[float]] = field(default_factory=list)
    """Arrival of every newTrade in seconds, by capture."""
    entries: set[tuple[int, float]] = field(default_factory=set)
    """Instarugs so far and the coins that players have entries in the rugpool for."""


def read_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read the rows of the older recorder with the name of their file; skip what is not JSON."""
    with tarfile.open(path) as archive:
        for member in archive:
            handle = archive.extractfile(member) if member.name.endswith(".jsonl") else None
            for line in handle or ():
                try:
                    row = json.loads(line)
                except ValueError:
                    continue
                if isinstance(row, dict) and row.get("type") == "tick" and "game_id" in row:
                    yield member.name, row


def to_curve(rows: Sequence[Mapping[str, Any]]) -> Curve:
    """Turn the rows of one round into its trade counter."""
    counts: dict[int, int] = {}
    for row in rows:
        if row["rugged"]:
            return Curve(rows[0]["timestamp"], counts, row["tick"], row["trade_count"])
        if row["active"]:
            counts.setdefault(row["tick"], row["trade_count"])
    return Curve(rows[0]["timestamp"], counts, None, None)


def read_curves(path: Path) -> list[Curve]:
    """Read the rounds that were seen from their first tick, in order of time."""
    rounds: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for _, row in read_rows(path):
        rounds[row["game_id"]].append(row)
    curves = [to_curve(rows) for rows in rounds.values()]
    return sorted((curve for curve in curves if curve.step(1) is not None), key=lambda curve: curve.started)


def payload(data: Any) -> Any:
    """Take the payload of an event that may have a trace before it."""
    return data[-1] if isinstance(data, list) else data


def read_recordings(folder: Path) -> Recordings:
    """Read all recordings of the crash game below a data folder."""
    recordings = Recordings(curves=read_curves(folder / "crash" / "legacy-recordings.tar.gz"))
    for name in CAPTURES:
        states, times = recordings.states.setdefault(name, []), []
        with gzip.open(folder / "crash" / f"{name}.jsonl.gz", "rt") as lines:
            for row in map(json.loads, lines):
                if row["event"] == "gameStateUpdate":
                    states.append(payload(row["data"]))
                if row["event"] == "standard/newTrade":
                    times.append(datetime.fromisoformat(row["ts"]).timestamp())
                    if "price" in payload(row["data"]):
                        recordings.trades.append(payload(row["data"]))
                if row["event"] == "gameStatePlayerUpdate" and "totalEntries" in (
                    pool := row["data"].get("rugpool", {})
                ):
                    recordings.entries.add(
                        (pool["instarugCount"], round(pool["totalEntries"] * pool["solPerEntry"], 3))
                    )
        recordings.trade_times.append(times)
        recordings.history[name] = {entry["id"]: entry for state in states for entry in state.get("gameHistory", ())}
    return recordings


def weighted_quantiles(values: Sequence[float], weights: Sequence[float], at: Sequence[float]) -> Floats:
    """Give quantiles of weighted values; with equal weights those of numpy."""
    order = np.argsort(values, kind="stable")
    value, weight = np.asarray(values, float)[order], np.asarray(weights, float)[order]
    below = (np.cumsum(weight) - weight) / (weight.sum() - weight[-1])
    result: Floats = np.interp(at, below, value)
    return result


def table(values: Sequence[float], digits: int = 0, at: Sequence[float] = GRID) -> tuple[float, ...]:
    """Give the quantiles of values at the points of a table."""
    return tuple(round(float(q), digits) for q in np.quantile(np.asarray(values, float), at))


def connected_moves(recordings: Recordings) -> list[int]:
    """Give how far connected_players moved from the start of a round to the start of the next."""
    moves = []
    for states in recordings.states.values():
        first = {state["gameId"]: state["connectedPlayers"] for state in reversed(states)}
        starts = list(reversed(first.values()))
        moves += [abs(b - a) for a, b in pairwise(starts)]
    return moves


def connected(recordings: Recordings) -> tuple[tuple[float, ...], float, int, int]:
    """Fit connected_players: both captures weigh the same, however many messages they hold."""
    values, weights, moves = [], [], connected_moves(recordings)
    for states in recordings.states.values():
        counts = [state["connectedPlayers"] for state in states]
        values += counts
        weights += [1 / len(counts)] * len(counts)
    quantiles = weighted_quantiles(values, weights, np.linspace(0, 1, 9).tolist())
    step = 2 * float(np.mean(moves)) / (max(values) - min(values))
    return tuple(float(round(q)) for q in quantiles), round(step, 2), len(values), len(moves)


def pace(recordings: Recordings) -> tuple[float, float, int]:
    """Fit seconds per tick and seconds between rounds to the times of successive rugs."""
    pairs = []
    for entries in recordings.history.values():
        rounds = sorted(entries.values(), key=lambda entry: entry["timestamp"])
        pairs += [(len(b["prices"]) - 1, (b["timestamp"] - a["timestamp"]) / 1000) for a, b in pairwise(rounds)]
    ticks, seconds = np.array(pairs, float).T
    slope, offset = np.polyfit(ticks, seconds, 1)
    return float(slope), float(offset), len(pairs)


def rugpools(recordings: Recordings) -> list[tuple[int, float]]:
    """Give every rugpool state that was shown: instarugs so far and amount."""
    pools = [state["rugpool"] for states in recordings.states.values() for state in states if "rugpool" in state]
    return sorted({(pool["instarugCount"], pool["rugpoolAmount"]) for pool in pools})


def autocorrelation(values: Sequence[float], lag: int) -> float:
    """Correlate a series with itself; NaN marks what is unknown."""
    a, b = np.asarray(values[:-lag], float), np.asarray(values[lag:], float)
    known = ~np.isnan(a) & ~np.isnan(b)
    return float(np.corrcoef(a[known], b[known])[0, 1])


def best_block(values: Sequence[float], lags: Sequence[int]) -> int:
    """Choose how many rounds share one draw: then the correlation at lag k is 1 - k / block, at least 0."""
    seen = [autocorrelation(values, lag) for lag in lags]

    def miss(block: int) -> float:
        return sum((max(0.0, 1 - lag / block) - r) ** 2 for lag, r in zip(lags, seen, strict=True))

    return min(range(1, 65), key=miss)


def first_burst(curve: Curve) -> tuple[int, int] | None:
    """Find the first tick on which many accounts trade at once, and how many trades it has."""
    for tick in range(2, 61):
        if (step := curve.step(tick)) is not None and step >= BURST:
            return tick, step
    return None


def quiet_rate(curve: Curve) -> float:
    """Give the trades a tick of people acting alone; NaN for a round too short to tell."""
    steps = [step for step in curve.steps(10, 5000) if step < QUIET]
    return float(np.mean(steps)) if len(steps) >= 50 else float("nan")


def band_rates(curves: Sequence[Curve]) -> list[tuple[float, int]]:
    """Give trades a tick between the EDGES, and from how many ticks."""
    bands = []
    for first, last in pairwise(EDGES):
        steps = [step for curve in curves for step in curve.steps(first, last) if step < QUIET]
        bands.append((float(np.mean(steps)), len(steps)))
    return bands


@dataclass
class Stakes:
    """What leaderboards and the trade feed tell about single players."""

    level: dict[str, int] = field(default_factory=dict)
    costs: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Costs of the positions seen, by player."""
    holds: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Ticks that completed positions bought in the round were held, by player."""
    presale_holds: list[int] = field(default_factory=list)


def phase_tick(state: Message) -> int | None:
    """Give the tick of a message, -1 before the round, None at and after the rug."""
    if state.get("rugged"):
        return None
    return int(state["tickCount"]) if state.get("active") else -1


def follow(stakes: Stakes, player: str, seen: Sequence[tuple[int, float, float]]) -> None:
    """Read one player's positions in one round from (tick, quantity, cost) in order of time."""
    started: int | None = None
    before = 0.0
    for tick, qty, cost in seen:
        if before == 0 and qty > 0:
            started = tick
            stakes.costs[player].append(cost)
        if before > 0 and qty == 0 and started is not None:
            if started < 0:
                stakes.presale_holds.append(tick)
            elif stakes.level[player] != FARM_LEVEL:
                stakes.holds[player].append(tick - started)
        before = qty


def read_stakes(recordings: Recordings) -> Stakes:
    """Follow every player who does not play with practice tokens through the leaderboards."""
    stakes = Stakes()
    for states in recordings.states.values():
        seen: dict[tuple[str, str], list[tuple[int, float, float]]] = defaultdict(list)
        for state in states:
            tick = phase_tick(state)
            for entry in state["leaderboard"] if tick is not None else ():
                if tick is not None and not entry.get("selectedCoin"):
                    stakes.level[entry["id"]] = entry["level"]
                    qty = entry["positionQty"]
                    seen[state["gameId"], entry["id"]].append((tick, qty, qty * entry["avgCost"]))
        for (_, player), rows in seen.items():
            follow(stakes, player, rows)
    for trade in recordings.trades:
        stakes.level[trade["playerId"]] = trade["level"]
        if trade["type"] == "buy":
            stakes.costs[trade["playerId"]].append(trade["amount"])
    return stakes


def large_share(recordings: Recordings) -> tuple[float, int]:
    """Give the share of people who stake more than the farm before a round, and of how many.

    The last leaderboard before a round holds the ten largest stakes, so it is complete from the farm's up.
    People are the buyers without the farm's usual share of them.
    """
    large, people = 0, 0.0
    for name, states in recordings.states.items():
        buyers = {id_: c.counts[1] for id_, c in state_curves(recordings, name).items() if 1 in c.counts}
        boards = {state["gameId"]: state["leaderboard"] for state in states if phase_tick(state) == -1}
        for game in buyers.keys() & boards.keys():
            own = [entry["positionQty"] for entry in boards[game] if entry["level"] != FARM_LEVEL]
            large += sum(qty > FARM_AMOUNT[-1] for qty in own)
            people += buyers[game] * (1 - FARM_SHARE[GRID.index(0.5)])
    return large / people, round(people)


def stake_table(stakes: Sequence[float], large: float) -> tuple[float, ...]:
    """Give quantiles of stakes, in logarithms, with the share of those above the farm's set right.

    Leaderboards prefer large stakes; taken as they come, too many would be large.
    """
    above = sum(stake > FARM_AMOUNT[-1] for stake in stakes)
    weights = [large / above if stake > FARM_AMOUNT[-1] else (1 - large) / (len(stakes) - above) for stake in stakes]
    logs = weighted_quantiles(np.log(stakes).tolist(), weights, GRID)
    return tuple(round(float(stake), 3) for stake in np.exp(logs))


def by_player(groups: Mapping[str, Sequence[float]]) -> tuple[list[float], list[float]]:
    """Flatten values so that every player weighs the same."""
    values = [value for group in groups.values() for value in group]
    weights = [1 / len(group) for group in groups.values() for _ in group]
    return values, weights


@dataclass(frozen=True)
class Bet:
    """One sidebet of the history."""

    capture: str
    game: str
    player: str
    tick: int
    amount: float


def read_bets(recordings: Recordings) -> list[Bet]:
    """Read every sidebet once; presale bets stand in the history by their result alone."""
    bets: dict[tuple[str, str, int], Bet] = {}
    for capture, entries in recordings.history.items():
        for game, entry in entries.items():
            for row in entry["globalSidebets"]:
                tick = row["startedAtTick"] if row["type"] == "placed" else row["startTick"]
                if row["coinAddress"] != PRACTICE:
                    key = (game, row["playerId"], tick)
                    bets.setdefault(key, Bet(capture, game, row["playerId"], tick, row["betAmount"]))
    return list(bets.values())


def usual_share(bets: Sequence[Bet]) -> tuple[float, int]:
    """Give the share of bets equal to the player's most frequent one, of players with 5 bets or more."""
    amounts: dict[str, list[float]] = defaultdict(list)
    for bet in bets:
        amounts[bet.player].append(bet.amount)
    many = [group for group in amounts.values() if len(group) >= 5]
    usual = sum(Counter(group).most_common(1)[0][1] for group in many)
    return usual / sum(map(len, many)), sum(map(len, many))


def bet_rates(recordings: Recordings, bets: Sequence[Bet]) -> dict[str, tuple[float, float, int]]:
    """Give presale bets a round, later bets a tick, and rounds, by capture."""
    rates = {}
    for capture, entries in recordings.history.items():
        presale = sum(bet.capture == capture and bet.tick == 0 for bet in bets)
        later = sum(bet.capture == capture and bet.tick > 0 for bet in bets)
        ticks = sum(len(entry["prices"]) - 1 for entry in entries.values())
        rates[capture] = (presale / len(entries), later / ticks, len(entries))
    return rates


def state_curves(recordings: Recordings, capture: str) -> dict[str, Curve]:
    """Read the trade counter of the rounds in a socket capture, by round."""
    rounds: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for state in recordings.states[capture]:
        if state.get("tradeCount") is not None and (state.get("active") or state.get("rugged")):
            row = {"timestamp": "", "tick": state["tickCount"], "trade_count": state["tradeCount"]}
            rounds[state["gameId"]].append({**row, "active": state["active"], "rugged": state["rugged"]})
    return {game: to_curve(rows) for game, rows in rounds.items()}


def sidebet_shares(recordings: Recordings, bets: Sequence[Bet]) -> tuple[float, ...]:
    """Give later sidebets for each later buyer, by capture."""
    rates = bet_rates(recordings, bets)
    trades = {
        name: [r for c in state_curves(recordings, name).values() if not isnan(r := quiet_rate(c))] for name in rates
    }
    return tuple(round(rates[name][1] / (float(np.mean(trades[name])) / 2), 2) for name in rates)


def hold_table(mean: float, quick: float) -> tuple[float, ...]:
    """Give holding times: a share within 3 ticks, an exponential tail that makes up the mean."""

    def at(tail: float) -> list[float]:
        rest = [min(0.998, (u - quick) / (1 - quick)) for u in GRID]
        return [
            1 + 2 * u / quick if u < quick else 3 - tail * float(np.log1p(-r)) for u, r in zip(GRID, rest, strict=True)
        ]

    low, high = 1.0, 1000.0
    while high - low > 0.01:
        tail = (low + high) / 2
        low, high = (tail, high) if np.trapezoid(at(tail), GRID) - 0.5 < mean else (low, tail)
    return tuple(round(hold, 1) for hold in at(low))


def fit_site(recordings: Recordings) -> Iterator[str]:
    """Fit what rolls from round to round."""
    quantiles, step, messages, moves = connected(recordings)
    yield f"CONNECTED_PLAYERS = {quantiles}  # {messages} messages of {len(recordings.states)} captures"
    yield f"CONNECTED_STEP = {step}  # {moves} changes from round to round"
    tick, between, pairs = pace(recordings)
    day = 86400 / (between + 200 * tick)
    yield f"ROUNDS_PER_DAY = {day:.0f}  # {tick:.4f} s a tick, {between:.2f} s between rounds, {pairs} pairs of rugs"
    pools = rugpools(recordings)
    rate = sum(amount for _, amount in pools) / sum(count for count, _ in pools)
    yield f"RUGPOOL_MEAN = {rate:.3f}  # states (instarugs, amount) seen: {pools}"
    yield f"# rugpool entries seen (instarugs, coins they were given for): {sorted(recordings.entries)}"


def fit_counts(recordings: Recordings) -> Iterator[str]:
    """Fit how many trade, and when."""
    curves = recordings.curves
    presale = [float(curve.counts[1]) for curve in curves]
    rates = [quiet_rate(curve) for curve in curves]
    known = [rate for rate in rates if not isnan(rate)]
    yield f"PRESALE_BUYERS = {table(presale)}  # {len(presale)} rounds"
    yield f"PRESALE_BLOCK = {best_block(presale, (1, 2, 5, 10, 20))}"
    busy = table([rate / float(np.mean(known)) for rate in known], 2)
    yield f"BUSY = {busy}  # {len(known)} rounds of 60 ticks or more"
    yield f"BUSY_BLOCK = {best_block(rates, (1, 2, 3, 5))}"
    long = [curve for curve in curves if curve.rug_tick is not None and curve.rug_tick > 60]
    bursts = [(curve, burst) for curve in long if (burst := first_burst(curve))]
    yield f"FARM_CHANCE = {len(bursts) / len(long):.2f}  # {len(bursts)} of {len(long)} rounds longer than 60 ticks"
    shares = [min(1.0, size / curve.counts[1]) for curve, (_, size) in bursts if curve.counts[1]]
    yield f"FARM_SHARE = {table(shares, 2)}  # of the presale buyers"
    yield f"FARM_EXIT = {table([tick for _, (tick, _) in bursts])}"
    bands = band_rates(curves)
    ticks = sum(n for _, n in bands)
    yield f"BUY_RATES = {tuple(round(rate / 2, 3) for rate, _ in bands)}  # half of all trades, {ticks} ticks"
    left = [curve.open_at_rug for curve in curves if curve.open_at_rug is not None and (curve.rug_tick or 0) >= 40]
    hold = float(np.mean(left) / (np.mean(known) / 2))
    yield f"# open at a rug from tick 40 on: {np.mean(left):.1f}, {len(left)} rounds; so held {hold:.1f} (Little's law)"
    values, weights = by_player(read_stakes(recordings).holds)
    quick = sum(weight for value, weight in zip(values, weights, strict=True) if value <= 3) / sum(weights)
    yield f"HOLD = {hold_table(hold, quick)}  # {quick:.0%} of players within 3 ticks; {len(values)} positions"


def fit_players(recordings: Recordings) -> Iterator[str]:
    """Fit what single players stake, and how long they hold."""
    stakes, bets = read_stakes(recordings), read_bets(recordings)
    people = {p: c for p, c in stakes.costs.items() if stakes.level[p] != FARM_LEVEL}
    usual = [float(np.median(costs)) for costs in people.values()]
    share, stakers = large_share(recordings)
    yield f"AMOUNT = {stake_table(usual, share)}  # {len(usual)} players; {share:.2f} of {stakers} above the farm"
    farm = [float(np.median(c)) for p, c in stakes.costs.items() if stakes.level[p] == FARM_LEVEL]
    yield f"FARM_AMOUNT = {table(farm, 3)}  # {len(farm)} players of level {FARM_LEVEL}"
    levels = [level for level in stakes.level.values() if level != FARM_LEVEL]
    yield f"LEVEL = {table(levels)}  # {len(levels)} players"
    yield f"PRESALE_HOLD = {table(stakes.presale_holds)}  # {len(stakes.presale_holds)} completed presale positions"
    share, many = usual_share(bets)
    yield f"USUAL_SHARE = {share:.2f}  # {many} sidebets"
    players = len({bet.player for bet in bets})
    yield f"SIDEBET_AMOUNT = {table([bet.amount for bet in bets], 3)}  # {len(bets)} sidebets of {players} players"
    for capture, (presale, later, rounds) in bet_rates(recordings, bets).items():
        yield f"# {capture}: {presale:.1f} presale sidebets a round, {later:.3f} a tick later, {rounds} rounds"
    yield f"SIDEBET_SHARE = {sidebet_shares(recordings, bets)}  # of the later buyers, by capture"
    gaps = np.concatenate([np.diff(times) for times in recordings.trade_times])
    yield f"# {len(gaps)} gaps between newTrade events: {table(gaps.tolist(), 2, (0, 0.1, 0.5, 0.9, 1))} s"
    yield (
        f"# smallest newTrade amount {min(trade['amount'] for trade in recordings.trades)}, of {len(recordings.trades)}"
    )


def fit_highest(rounds: int = 20_000) -> Iterator[str]:
    """Simulate the day's highest peak at a random time of day, by world."""
    chooser = np.random.default_rng(1)
    for world in WORLDS.values():
        peaks = np.array([counter_round(world, 1, number).peak for number in range(rounds)])
        played = chooser.integers(0, ROUNDS_PER_DAY, 20_000)
        highest = [max(1.0, *chooser.choice(peaks, count)) if count else 1.0 for count in played.tolist()]
        shown = tuple(float(f"{q:.3g}") for q in np.quantile(highest, np.linspace(0, 1, 17)))
        yield f"HIGHEST_TODAY[{world.code}] = {shown}  # {world.name}, {rounds} rounds"


@dataclass(frozen=True)
class Row:
    """One line of the comparison: quantiles 10, 50, 90 % of a measure in data and model."""

    name: str
    data: Sequence[float]
    model: Sequence[float]
    digits: int = 0

    def show(self) -> str:
        """Write the line as Markdown."""
        cells = [" / ".join(f"{q:.{self.digits}f}" for q in quantiles(values)) for values in (self.data, self.model)]
        return f"| {self.name} | {cells[0]} | {len(self.data)} | {cells[1]} |"


def quantiles(values: Sequence[float]) -> Floats:
    """Give the quantiles 10, 50, 90 %."""
    result: Floats = np.quantile(np.asarray(values, float), (0.1, 0.5, 0.9))
    return result


@dataclass(frozen=True)
class Simulated:
    """One round of the published game with its crowd."""

    prices: Sequence[float]
    rows: Sequence[Bystander]

    @property
    def rug_tick(self) -> int:
        """Give the tick of the rug."""
        return len(self.prices) - 1

    def trades(self, tick: int) -> int:
        """Count the trades up to a tick before the rug."""
        return sum(row.entry_tick <= tick for row in self.rows) + sum(row.exit_tick <= tick for row in self.rows)

    def open(self, tick: int) -> int:
        """Count the positions held after a tick."""
        return sum(row.entry_tick <= tick < row.exit_tick for row in self.rows)

    def leaderboard(self, tick: int) -> list[tuple[float, float]]:
        """Give (position at its price, invested) of the ten players with the best P&L."""
        worth: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        for row in self.rows:
            if row.entry_tick <= tick:
                qty = from_units(row.amount) / self.prices[max(row.entry_tick, 0)]
                entry = worth[row.player]
                entry[0] += qty * self.prices[min(row.exit_tick, tick)] - from_units(row.amount)
                entry[1] += qty * self.prices[tick] if row.exit_tick > tick else 0.0
                entry[2] += from_units(row.amount)
        best = sorted(worth.values(), reverse=True)[:10]
        return [(entry[1], entry[2]) for entry in best]


def simulate(seeds: int, rounds: int) -> list[Simulated]:
    """Play some rounds of some seeds, with all the people who come in time to trade."""
    world = WORLDS["published"]
    games = []
    for seed in range(seeds):
        for number in range(rounds):
            prices = counter_round(world, seed, number).prices
            rows = [row for stretch in range(1 + len(prices) // STRETCH) for row in crowd(seed, number, stretch)]
            games.append(Simulated(prices, rows))
    return games


def shown_trades(game: Simulated) -> int:
    """Count the trades that the feed broadcasts in a round."""
    ticks = [max(row.entry_tick, 0) for row in game.rows if row.amount >= TRADE_FEED_LEAST]
    ticks += [row.exit_tick for row in game.rows if row.amount >= TRADE_FEED_LEAST]
    shown, last = 0, -TRADE_FEED_TICKS
    for tick in sorted(tick for tick in ticks if tick < game.rug_tick):
        if tick >= last + TRADE_FEED_TICKS:
            shown, last = shown + 1, tick
    return shown


def compare_counts(recordings: Recordings, games: Sequence[Simulated]) -> Iterator[Row]:
    """Compare how many trade, and when."""
    curves = recordings.curves
    yield Row("presale buyers", [c.counts[1] for c in curves], [game.trades(0) for game in games])
    for tick in (20, 80, 320):
        seen = [curve.counts[tick] for curve in curves if tick in curve.counts]
        yield Row(f"trades up to tick {tick}", seen, [game.trades(tick) for game in games if game.rug_tick > tick])
    for first, last in ((1, 4), (10, 20), (40, 80), (160, 320)):
        seen = [c.open_at_rug for c in curves if first <= (c.rug_tick or 0) < last and c.open_at_rug is not None]
        model = [game.open(game.rug_tick - 1) for game in games if first <= game.rug_tick < last]
        yield Row(f"positions open at a rug on tick {first} to {last - 1}", seen, model)
    rates = [rate for curve in curves if not isnan(rate := quiet_rate(curve))]
    long = [game for game in games if game.rug_tick > 60]
    model_rates = [(g.trades(g.rug_tick - 1) - g.trades(30)) / (g.rug_tick - 31) for g in long]
    yield Row("trades a tick, single people", rates, model_rates, 2)


def board_ticks(states: Sequence[Message]) -> Iterator[Message]:
    """Give one message of every 20th tick of the rounds."""
    seen = set()
    for state in states:
        tick = phase_tick(state)
        if tick and tick > 0 and tick % 20 == 0 and (state["gameId"], tick) not in seen:
            seen.add((state["gameId"], tick))
            yield state


def compare_players(recordings: Recordings, games: Sequence[Simulated]) -> Iterator[Row]:
    """Compare what single players stake and what the leaderboard shows."""
    bets = read_bets(recordings)
    rows = [row for game in games for row in game.rows]
    yield Row(
        "sidebet stake", [b.amount for b in bets], [from_units(r.sidebet_amount) for r in rows if r.sidebet_amount], 3
    )
    rounds = [
        (game, len(entry["prices"]) - 1) for entries in recordings.history.values() for game, entry in entries.items()
    ]
    starts = Counter((bet.game, bet.tick == 0) for bet in bets)
    yield Row(
        "presale sidebets",
        [starts[game, True] for game, _ in rounds],
        [sum(row.sidebet_tick == -1 for row in game.rows) for game in games],
    )
    yield Row(
        "later sidebets a tick, rounds of 60 ticks or more",
        [starts[game, False] / ticks for game, ticks in rounds if ticks >= 60],
        [
            sum(0 <= (row.sidebet_tick if row.sidebet_tick is not None else -1) < game.rug_tick for row in game.rows)
            / game.rug_tick
            for game in games
            if game.rug_tick >= 60
        ],
        3,
    )
    boards = [state for states in recordings.states.values() for state in board_ticks(states)]
    model = [game.leaderboard(tick) for game in games[::5] for tick in range(20, game.rug_tick, 20)]
    own = [([e for e in s["leaderboard"] if not e.get("selectedCoin")], s["price"]) for s in boards]
    yield Row(
        "holding, of the 10 on the leaderboard",
        [sum(e["positionQty"] > 0 for e in b) for b, _ in own],
        [sum(w > 0 for w, _ in b) for b in model],
    )
    yield Row(
        "their positions, at price",
        [sum(e["positionQty"] * p for e in b) for b, p in own],
        [sum(w for w, _ in b) for b in model],
        3,
    )
    yield Row(
        "their totalInvested",
        [sum(e["totalInvested"] for e in b) for b, _ in own],
        [sum(i for _, i in b) for b in model],
        3,
    )
    gaps = [float(gap) for times in recordings.trade_times for gap in np.diff(times) if gap < 10]
    yield Row(
        "seconds between trades in the feed",
        gaps,
        [game.rug_tick * 0.25 / shown_trades(game) for game in games if game.rug_tick > 60],
        2,
    )


def compare_site(recordings: Recordings) -> Iterator[Row]:
    """Compare what rolls from round to round."""
    chooser = np.random.default_rng(1)
    levels = chooser.random(20_000)
    moved = [next_level(level, CONNECTED_STEP, u) for level, u in zip(levels, chooser.random(20_000), strict=True)]
    players = [int(quantile(CONNECTED_PLAYERS, level)) for level in levels]
    later = [int(quantile(CONNECTED_PLAYERS, level)) for level in moved]
    seen = [[state["connectedPlayers"] for state in states][:189] for states in recordings.states.values()]
    yield Row("connected_players (189 messages of each capture)", list(chain(*seen)), players)
    yield Row(
        "its change to the next round, absolute",
        connected_moves(recordings),
        [abs(b - a) for a, b in zip(players, later, strict=True)],
    )
    peaks = np.array([counter_round(WORLDS["published"], 7, number).peak for number in range(3000)])
    windows = np.lib.stride_tricks.sliding_window_view(peaks, 100)
    full = [state for states in recordings.states.values() for state in states if "averageMultiplier" in state]
    stats = {(s["averageMultiplier"], s["count2x"], s["count10x"], s["count50x"], s["count100x"]) for s in full}
    yield Row("average_multiplier", [s[0] for s in stats], windows.mean(axis=1).tolist(), 2)
    for column, least in ((1, 2), (2, 10), (3, 50), (4, 100)):
        yield Row(f"count_{least}x", [s[column] for s in stats], (windows >= least).sum(axis=1).tolist())
    highest = {state["highestToday"] for state in full if "highestToday" in state}
    world = HIGHEST_TODAY[WORLDS["published"].code]
    yield Row("highest_today", list(highest), [quantile(world, u) for u in chooser.random(20_000)])


def compare(recordings: Recordings) -> Iterator[str]:
    """Write the table of data against model."""
    games = simulate(40, 20)
    yield "| measure (10 / 50 / 90 %) | data | sample | model |"
    yield "|---|---|---|---|"
    for rows in (compare_site(recordings), compare_counts(recordings, games), compare_players(recordings, games)):
        yield from (row.show() for row in rows)
    yield f"# presale stakes of a model round: mean {np.mean(presale_stakes(games)):.2f}"
    yield f"RUGPOOL_STEP = {rugpool_table(presale_stakes(games))}"


def presale_stakes(games: Sequence[Simulated]) -> list[float]:
    """Give what is staked before each round."""
    return [sum(from_units(row.amount) for row in game.rows if row.entry_tick < 0) for game in games]


def rugpool_table(stakes: Sequence[float]) -> tuple[float, ...]:
    """Give what an instarug pays in: spread like the presale stakes, with the mean of the recordings."""
    spread = np.quantile(stakes, np.linspace(0, 1, 9))
    mean = np.trapezoid(spread, dx=1 / 8)
    return tuple(round(RUGPOOL_MEAN * float(q / mean), 3) for q in spread)


def answers(options: argparse.Namespace) -> Iterator[str]:
    """Give the lines that were asked for."""
    if options.highest:
        return fit_highest()
    recordings = read_recordings(options.data)
    return (
        compare(recordings)
        if options.compare
        else chain(fit_site(recordings), fit_counts(recordings), fit_players(recordings))
    )


def main(arguments: Sequence[str]) -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", default=Path("../shared/data"))
    parser.add_argument("--compare", action="store_true", help="print model against data")
    parser.add_argument("--highest", action="store_true", help="simulate the day's highest peak, by world")
    options = parser.parse_args(arguments)
    for line in answers(options):
        sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
