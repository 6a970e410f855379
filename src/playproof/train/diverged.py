"""The error of a training that went wrong. Leaves out: finding out that it did."""

from __future__ import annotations

from playproof.errors import GateFailed


class Diverged(GateFailed):
    """Tell that training went wrong: numbers that are not finite, too far a move, or money lost; and what is kept."""
