"""Rewards: finding them, checking them, and looking for ways to earn them without money."""

from __future__ import annotations

from playproof.rewards.load import load_reward

__all__ = ["load_reward"]
