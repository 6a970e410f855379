"""One person's recorded play in figures: money by the exact ledger and by the feed, choices, timing, outcomes.

Everything is computed from a data set and the stored events behind it; nothing is chosen or trained here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from playproof.datasets import Dataset
from playproof.events import Event
from playproof.game import Game
from playproof.record.presses import ActionSequence, PressRules, action_sequences
from playproof.stats.evidence import bootstrap_interval, e_process, ratio_interval
from playproof.stats.metrics import max_drawdown

Floats = NDArray[np.float64]
LEAST_WINDOWS = 20
"""Windows below which an interval says little, and a review says so first."""


@dataclass(frozen=True)
class RoundReview:
    """What one window came to for the player."""

    session_id: str
    window_id: str
    pnl: int
    """By the exact ledger, in the smallest unit."""
    staked: int
    orders: int
    corrected: int
    """How often the feed told other money than the ledger held."""


@dataclass(frozen=True)
class SettledSession:
    """One session's money twice: by the ledger, and as the feed told it."""

    session_id: str
    ledger: int
    """Sum over its windows."""
    feed: int | None
    """Change of cash from the first to the last message; None if the feed told none."""

    @property
    def difference(self) -> int | None:
        """Give what the two differ by; None if the feed told nothing."""
        return None if self.feed is None else self.ledger - self.feed


@dataclass(frozen=True)
class PlayReview:
    """Everything that is said of a player's own play."""

    rounds: tuple[RoundReview, ...]
    sessions: tuple[SettledSession, ...]
    roi: float | None
    """Profit over what was staked; None if nothing was."""
    roi_interval: tuple[float, float] | None
    mean_interval: tuple[float, float] | None
    """Of the profit a window, in the smallest unit."""
    e_value: float
    """Of the claim that the play earns money, per unit of the cash held before each window."""
    drawdown: float
    mix: Mapping[str, int]
    """Steps by what was chosen."""
    adjustments: Mapping[str, int]
    holding: tuple[int, ...]
    """Ticks that positions were held."""
    latency: tuple[float, ...]
    """Milliseconds from a press to its answer."""
    gaps: tuple[int, ...]
    """Ticks from one action to the next in a window."""
    outcomes: Mapping[str, int]
    """Sequences of presses by what came of them."""
    sequences: tuple[ActionSequence, ...]

    @property
    def pnl(self) -> int:
        """Give the profit of all windows."""
        return sum(item.pnl for item in self.rounds)

    @property
    def best(self) -> RoundReview:
        """Give the window that earned most."""
        return max(self.rounds, key=lambda item: item.pnl)

    @property
    def worst(self) -> RoundReview:
        """Give the window that lost most."""
        return min(self.rounds, key=lambda item: item.pnl)

    @property
    def played(self) -> tuple[RoundReview, ...]:
        """Give the windows in which an order was sent."""
        return tuple(item for item in self.rounds if item.orders)


def review_play(
    game: Game, dataset: Dataset, events: Mapping[str, Sequence[Event]], rules: PressRules, rng: np.random.Generator
) -> PlayReview:
    """Look over the play in a data set; `events` are the stored events of its sessions."""
    heads: Sequence[Sequence[str]] = dataset.manifest["actions"]["heads"]
    rounds: list[RoundReview] = []
    sessions: list[SettledSession] = []
    mix, adjustments = Counter[str](), Counter[str]()
    holding, gaps, latency = list[int](), list[int](), list[float]()
    sequences: list[ActionSequence] = []
    reserves: list[float] = []
    for session_id, tables in dataset.sessions.items():
        corrected = {episode["window_id"]: int(episode["corrected"]) for episode in tables.episodes}
        taken, paid, seen = tables["actions"], tables["rewards"], tables["observations"].filter(~pl.col("final"))
        mix.update(heads[0][code] for code in taken["head_0"].to_list())
        if len(heads) > 1:
            adjustments.update(heads[1][code] for code in taken["head_1"].to_list() if code)
        for (window,), money in paid.group_by(["window_id"], maintain_order=True):
            chosen = taken.filter(pl.col("window_id") == window)
            rows = seen.filter(pl.col("window_id") == window)
            rounds.append(
                RoundReview(
                    session_id,
                    str(window),
                    int(money["next_equity"][-1] - money["equity"][0]),
                    _staked(chosen, money, heads[0], rules),
                    int((chosen["head_0"] != 0).sum()),
                    corrected.get(str(window), 0),
                )
            )
            reserves.append(float(max(money["equity"][0], 1)))
            gaps += _gaps(chosen, rows, game)
        own = events.get(session_id, ())
        sessions.append(_settled(session_id, rounds, own, rules))
        latency += (float(ms) for event in own if isinstance(ms := event.columns.get("latency_ms"), int | float))
        holding += _holding(own, rules)
        sequences += action_sequences(own, rules)
    pnl = np.array([item.pnl for item in rounds], np.float64)
    staked = np.array([item.staked for item in rounds], np.float64)
    returns = np.maximum(pnl / np.array(reserves, np.float64), -1.0) if len(pnl) else pnl
    return PlayReview(
        rounds=tuple(rounds),
        sessions=tuple(sessions),
        roi=float(pnl.sum() / staked.sum()) if staked.sum() else None,
        roi_interval=ratio_interval(pnl, staked, rng) if (staked > 0).sum() > 1 else None,
        mean_interval=bootstrap_interval(pnl, rng) if len(pnl) > 1 else None,
        e_value=e_process(returns).value,
        drawdown=max_drawdown(pnl),
        mix=dict(mix),
        adjustments=dict(adjustments),
        holding=tuple(holding),
        latency=tuple(latency),
        gaps=tuple(gaps),
        outcomes=dict(Counter(str(sequence.outcome or sequence.final_action) for sequence in sequences)),
        sequences=tuple(sequences),
    )


def _staked(chosen: pl.DataFrame, money: pl.DataFrame, names: Sequence[str], rules: PressRules) -> int:
    """Give what was paid in: the bet of every order that opened something, or else what left the cash."""
    opening = [rules.trades.buy_button] if rules.trades else []
    opening += [rules.bets.button] if rules.bets else []
    if opening and "bet_amount" in chosen.columns:
        codes = [names.index(name) for name in opening if name in names]
        orders = chosen.filter(pl.col("effect") & pl.col("head_0").is_in(codes))
        return int(orders["bet_amount"].sum())
    return int(-np.minimum(np.diff(money["cash"].to_numpy(), append=money["cash"][-1]), 0).sum())


def _gaps(chosen: pl.DataFrame, rows: pl.DataFrame, game: Game) -> Iterable[int]:
    """Give the ticks between the actions of a window."""
    card = game.display().card
    if card is None or card.clock not in rows.columns:
        return ()
    ticks = rows[card.clock].to_numpy()[(chosen["head_0"] != 0).to_numpy()]
    return (int(gap) for gap in np.diff(ticks))


def _settled(
    session_id: str, rounds: Sequence[RoundReview], events: Sequence[Event], rules: PressRules
) -> SettledSession:
    """Compare the ledger's money of a session with the first and the last cash that the feed told."""
    own = [item for item in rounds if item.session_id == session_id]
    states = [event for event in events if event.doc_type == "server_state" and event.player_id is not None]
    cash = [value for event in states if isinstance(value := event.columns.get(rules.balance), int)]
    return SettledSession(session_id, sum(item.pnl for item in own), cash[-1] - cash[0] if cash else None)


def _holding(events: Sequence[Event], rules: PressRules) -> Iterable[int]:
    """Give the ticks that positions were held: from the fill that opened them to the one that closed them."""
    trades, opened, held = rules.trades, None, 0
    if trades is None:
        return
    for event in events:
        if event.player_id is None:
            continue
        tick, qty = event.columns.get("tick"), event.columns.get(trades.qty)
        if not isinstance(tick, int) or not isinstance(qty, int):
            continue
        if trades.buy.holds(event):
            opened, held = (tick if opened is None else opened), held + qty
        elif trades.sell.holds(event) and opened is not None:
            held -= qty
            if held <= 0:
                yield max(0, tick - opened)
                opened, held = None, 0
