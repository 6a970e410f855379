"""Playproof: record play of market games, train on it, and prove, or refuse to claim, an edge."""

from playproof.game.environments import register_when_imported

__all__ = ["__version__"]

__version__ = "0.2.0"

register_when_imported()
