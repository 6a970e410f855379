"""Assign units (windows, agents) to the arms of an experiment by hash: the same unit always gets the same arm.

The hash is salted by the experiment's name, so that two experiments divide the same units independently.
"""

from __future__ import annotations

import hashlib
from typing import Literal

Arm = Literal["a", "b"]


def assign_arm(experiment: str, unit: str, share: float = 0.5) -> Arm:
    """Give the arm of a unit; `share` of all units get B, the challenger."""
    digest = hashlib.sha256(f"{experiment}\0{unit}".encode()).digest()
    return "b" if int.from_bytes(digest[:8]) < share * 2**64 else "a"
