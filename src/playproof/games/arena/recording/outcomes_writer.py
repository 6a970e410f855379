"""What is written of a window once it has closed: one row for each perp and each prediction market.

Prices are those of the window's own ends. Nothing that an agent sees is made from these rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from playproof.games.arena.agents.runner import ClosedWindow
from playproof.games.arena.market.pools import SIDES, LiquidityPool
from playproof.json_types import Json

Row = Json


def outcome_rows(closed: ClosedWindow) -> list[Row]:
    """Give the rows of a closed window, named as the table of outcomes names its columns."""
    return [*_assets(closed), *_markets(closed)]


def _assets(closed: ClosedWindow) -> list[Row]:
    news: dict[str, list[tuple[str, float]]] = {}
    headlines = [fact.columns for fact in closed.facts if fact.event_name == "headline"]
    for number, headline in enumerate(headlines):
        news.setdefault(str(headline["market"]), []).append((f"{closed.window}#{number}", _float(headline["mood"])))
    return [
        _row(closed, "asset", market)
        | {
            "start_price": start,
            "end_price": end,
            "change": end / start - 1,
            "sentiment": sum(mood for _, mood in of) / len(of) if (of := news.get(market, [])) else None,
            "news_ids": [name for name, _ in news.get(market, [])],
        }
        for market, (start, end) in closed.prices.items()
    ]


def _markets(closed: ClosedWindow) -> list[Row]:
    asked = {
        str(fact.columns["market"]): str(fact.columns["text"]) for fact in closed.facts if fact.event_name == "question"
    }
    answers = {fact.columns["market"]: fact.columns["answer"] for fact in closed.facts if fact.event_name == "resolved"}
    pools: dict[Any, Mapping[str, Any]] = {
        fact.columns["market"]: fact.columns for fact in closed.facts if fact.event_name == "pool"
    }
    return [
        _row(closed, "market", market)
        | {
            "question": text,
            "outcome": SIDES[int(str(answers[market]))] if market in answers else None,
            "final_probability": LiquidityPool(pools[market]["yes"], pools[market]["no"]).probability,
        }
        for market, text in asked.items()
    ]


def _row(closed: ClosedWindow, kind: str, subject: str) -> Row:
    empty: Row = dict.fromkeys(("start_price", "end_price", "change", "sentiment", "news_ids", "question", "outcome"))
    named = {"window_id": closed.window, "kind": kind, "subject": subject, "volume": closed.volume.get(subject, 0)}
    return empty | {"final_probability": None} | named


def _float(value: object) -> float:
    return float(str(value))
