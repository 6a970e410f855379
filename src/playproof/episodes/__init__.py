"""Episodes: recorded events, cut by window and player, with every decision point in them."""

from playproof.episodes.segment import Segmented, segment, segment_session
from playproof.game.laid import LeftOut

__all__ = ["LeftOut", "Segmented", "segment", "segment_session"]
