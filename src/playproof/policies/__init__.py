"""Policies: one way to choose, for one window.

`Policy` is the protocol that people's clones, networks, language models and baselines share.
"""

from playproof.game import Policy
from playproof.policies.checkpoint import (
    Card,
    Checkpoint,
    CheckpointRefused,
    load_checkpoint,
    load_policy,
    save_checkpoint,
)
from playproof.policies.network import BatchPlayer, NetworkPolicy, NetworkSingleEnv
from playproof.policies.simple import Constant, Uniform
from playproof.policies.table import TablePolicy

__all__ = [
    "BatchPlayer",
    "Card",
    "Checkpoint",
    "CheckpointRefused",
    "Constant",
    "NetworkPolicy",
    "NetworkSingleEnv",
    "Policy",
    "TablePolicy",
    "Uniform",
    "load_checkpoint",
    "load_policy",
    "save_checkpoint",
]
