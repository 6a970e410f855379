"""Policies: one way to choose, for one window.

`Policy` is the protocol that people's clones, networks, language models and baselines share.
"""

from playproof.game import Policy
from playproof.policies.simple import Constant, Uniform
from playproof.policies.table import TablePolicy

__all__ = ["Constant", "Policy", "TablePolicy", "Uniform"]
