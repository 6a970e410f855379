"""Recordings as the older recorder left them, of simulated rounds: JSON Lines, a file a round."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from playproof.games.crash.rules import prices as fair

START = datetime(2025, 10, 29, 18, tzinfo=UTC)


def rows(game_id: str, prices: list[float], start: datetime) -> list[dict[str, Any]]:
    """Write a round as the older recorder did: the presale, every tick, and the rug."""
    last = len(prices) - 1

    def row(number: int, **fields: Any) -> dict[str, Any]:
        moment = (start + timedelta(milliseconds=250 * number)).replace(tzinfo=None).isoformat()
        payload = {"type": "tick", "timestamp": moment, "game_id": game_id, "tick": max(number, 0), "price": 1.0}
        payload |= {"phase": "ACTIVE_GAMEPLAY", "active": True, "rugged": False, "cooldown_timer": 0, "trade_count": 1}
        return payload | fields

    presale = row(-4, phase="PRESALE", active=False, cooldown_timer=1000, trade_count=0)
    ticks = [row(number, price=price, rugged=number == last) for number, price in enumerate(prices)]
    return [presale, *ticks]


def write_recordings(folder: Path, rounds: int, seed: str = "seed") -> list[int]:
    """Write a folder of simulated rounds in the older format, one of them cut off; give the rug ticks of the others."""
    folder.mkdir(parents=True)
    lengths = []
    for number in range(rounds):
        game_id = f"20251029-{number:016x}"
        prices = list(fair.play_round(f"{seed}-{number}", game_id).prices)
        payload = rows(game_id, prices, START + timedelta(minutes=5 * number))
        if number == rounds // 2:
            payload = payload[:-1]
        else:
            lengths.append(len(prices) - 1)
        (folder / f"game_{number:03d}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in payload))
    return lengths
