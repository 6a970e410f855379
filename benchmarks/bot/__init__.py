"""The bench of bots: from a tick to the order on the wire."""

from benchmarks.bot.latency import run

__all__ = ["run"]
