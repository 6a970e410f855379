"""Episodes: recorded events, cut by window and player, with every decision point in them."""

from playproof.episodes.segment import LeftOut, Segmented, segment

__all__ = ["LeftOut", "Segmented", "segment"]
