"""Rewards: finding them, checking them, and looking for ways to earn them without money."""

from __future__ import annotations

from playproof.rewards.checks import check_reward
from playproof.rewards.exploits import find_exploits
from playproof.rewards.load import load_reward
from playproof.rewards.report import Exploit, ExploitReport, RewardFinding, RewardReport

__all__ = [
    "Exploit",
    "ExploitReport",
    "RewardFinding",
    "RewardReport",
    "check_reward",
    "find_exploits",
    "load_reward",
]
