"""The crash game's data API under its public name: observations, episodes and training data from your own events."""

from playproof.games.crash.api import *  # noqa: F403
from playproof.games.crash.api import __all__  # noqa: F401
