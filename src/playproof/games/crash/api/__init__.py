"""The crash game's data by the names of its plan: observations, episodes and training data from a user's own events.

Everything here is thin over the product: features come from the game's one fold, money from its ledger, rewards from
its table. Data sets on disk, with splits and checks, are made by `playproof dataset build`.
"""

from playproof.games.crash.api.episodes import Episode, EpisodeSegmenter
from playproof.games.crash.api.observation import FEATURE_COUNT, FEATURE_NAMES, Observation, ObservationBuilder
from playproof.games.crash.api.sequences import Action, BetAdjustment, extract_bet_adjustment, sequence_to_training_pair
from playproof.games.crash.api.training import AlignedSample, Batch, Sample, TrainingData, TrainingDataGenerator
from playproof.games.crash.rules.actions import CATEGORIES as BUTTON_CATEGORIES
from playproof.games.crash.rules.actions import LABELS as BUTTONS
from playproof.games.crash.sim.env import RugsMultiGameEnv
from playproof.record.presses import ActionSequence, ButtonEvent

__all__ = [
    "BUTTONS",
    "BUTTON_CATEGORIES",
    "FEATURE_COUNT",
    "FEATURE_NAMES",
    "Action",
    "ActionSequence",
    "AlignedSample",
    "Batch",
    "BetAdjustment",
    "ButtonEvent",
    "Episode",
    "EpisodeSegmenter",
    "Observation",
    "ObservationBuilder",
    "RugsMultiGameEnv",
    "Sample",
    "TrainingData",
    "TrainingDataGenerator",
    "extract_bet_adjustment",
    "sequence_to_training_pair",
]
