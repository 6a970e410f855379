"""Settings of the offline methods, behaviour cloning and the predictor: plain records that import no torch.

The commands make their options from these records (cli.configs): a field's docstring is the option's help, and
`Ge` and `Le` are its limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from playproof.errors import ConfigError

ACTIVATION_NAMES = ("tanh", "relu")

Count = Annotated[int, Ge(1)]
Seed = Annotated[int, Ge(0)]
Share = Annotated[float, Ge(0), Le(1)]


@dataclass(frozen=True)
class TrainingPace:
    """How long and in which portions to learn."""

    epochs: int = 20
    batch: int = 512
    seed: int = 0

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch < 1:
            raise ConfigError(f"expected at least 1 epoch and 1 row a batch, found {self.epochs} and {self.batch}")


@dataclass(frozen=True)
class BcConfig:
    """How to clone a player."""

    hidden: tuple[int, ...] = (64, 64)
    """Units of each hidden layer."""
    activation: str = "tanh"
    """tanh or relu."""
    frames: Count = 1
    """Rows that the network sees at once."""
    knots: int = 0
    """Pieces that a feature is cut into; 0: none, rows go into the trunk as they are scaled."""
    watched: tuple[str, ...] = ()
    """Features whose changes from row to row are cut into pieces too; needs frames."""
    screen: bool = False
    """Leave out features that stand still all through a window and tell nothing: they would only name the window."""
    members: Count = 1
    """Networks that are averaged into one, each from its own initial weights."""
    dropout: float = 0.0
    """Share of the units that are left out at random while learning."""
    learning_rate: float = 1e-3
    """Largest learning rate, of a one-cycle schedule."""
    weight_decay: float = 1e-2
    """Of AdamW."""
    class_weights: bool = False
    """Weigh choices by their rarity while learning; acting takes it back, so that the mix stays the player's."""
    masked: bool = False
    """Choose only among what can have an effect. People do press buttons without effect: off to clone them."""
    exclusive: bool = True
    """Never act with two heads in one step, as on the clock of presses."""
    epochs: Count = 30
    """Passes over the steps."""
    batch: Count = 512
    """Steps of one update."""
    seed: Seed = 0
    """Same seed, same result."""

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATION_NAMES:
            raise ConfigError(f"expected activation {' or '.join(ACTIVATION_NAMES)}, found {self.activation!r}")
        if self.knots and self.activation != "relu":
            raise ConfigError(f"expected activation relu with knots, found {self.activation!r}")
        if self.watched and (self.frames < 2 or not self.knots):
            raise ConfigError("expected frames of at least 2 and knots to watch changes, found fewer")

    @property
    def pace(self) -> TrainingPace:
        """Give how long to learn."""
        return TrainingPace(self.epochs, self.batch, self.seed)


@dataclass(frozen=True)
class ForestConfig:
    """How one of the models of a tree clone is grown."""

    leaves: int = 16
    learning_rate: float = 0.05
    trees: int = 400
    """At most."""
    least: int = 30
    """Rows in a leaf."""
    inputs: float = 0.7
    """Share of the inputs that a tree may look at."""
    rows: float = 0.8
    """Share of the rows that a tree is grown on."""
    calm: float = 5.0
    """By how much leaves of few rows are drawn to 0 (L2)."""
    eager: float | None = 1.1
    """How many trees are grown on all windows, of those that were best on the held-out ones. More rows bear more
    trees; rare choices bear fewer. None: as many as there may be, since a fifth of the windows could not tell."""


@dataclass(frozen=True)
class TreesConfig:
    """How to clone a player with trees."""

    frames: Count = 5
    """Rows that are seen to tell whether he acts."""
    close_frames: Count = 2
    """Rows that are seen to tell what he does."""
    watched: tuple[str, ...] = ()
    """Features whose changes from row to row are looked at; none: all that move within windows."""
    acts: ForestConfig = ForestConfig(leaves=16, least=50, inputs=0.5, rows=0.7)
    """The model of whether he acts."""
    does: ForestConfig = ForestConfig(leaves=8, least=10, inputs=0.7, rows=0.7, eager=0.7)
    """The model of what he then does."""
    seldom: ForestConfig = ForestConfig(
        leaves=4, learning_rate=0.1, trees=40, least=10, inputs=0.7, rows=0.7, eager=None
    )
    """The model of a rare choice."""
    rare: float = 0.05
    """A choice that is less than this share of all that he does by its head has a model of its own."""
    enough: int = 20
    """How often a rare choice must have been shown to have a model of its own."""
    members: Count = 4
    """Forests that are averaged, each grown on other rows and inputs."""
    screen: bool = True
    """Leave out features that stand still all through a window and tell nothing."""
    patience: Count = 20
    """Trees without a better log loss after which to stop."""
    seed: Seed = 0
    """Same seed, same result."""

    def __post_init__(self) -> None:
        if self.frames < 1 or self.members < 1:
            raise ConfigError(f"expected at least 1 frame and 1 member, found {self.frames} and {self.members}")


@dataclass(frozen=True, kw_only=True)
class OfflineConfig:
    """What conservative and implicit Q-learning are both asked for."""

    gamma: Share = 0.98
    """Discount of a step."""
    reward_scale: float = 100.0
    """What rewards are multiplied by: a step's money is a thousandth of a coin."""
    hidden: tuple[int, ...] = (64, 64)
    """Units of each hidden layer."""
    activation: str = "relu"
    """tanh or relu."""
    learning_rate: float = 2e-3
    """Falls linearly to a hundredth of it, which takes the noise out of the values."""
    masked: bool = True
    """Choose, and value what comes, only among what can have an effect."""
    epochs: Count = 3
    """Passes over the steps."""
    batch: Count = 1024
    """Steps of one update."""
    seed: Seed = 0
    """Same seed, same result."""

    @property
    def pace(self) -> TrainingPace:
        """Give how long to learn."""
        return TrainingPace(self.epochs, self.batch, self.seed)

    @property
    def masks_targets(self) -> bool:
        """Tell whether the next step is valued only among choices with an effect; V(s) needs no choice."""
        return False


@dataclass(frozen=True, kw_only=True)
class CqlConfig(OfflineConfig):
    """How to learn conservatively."""

    alpha: float = 5.0
    """Weight of the conservative term. Where a step's gain is far below its noise, values alone choose at random:
    large enough, what was mostly played is played unless money clearly speaks against it."""
    huber: float = 0.0
    """Errors from which on the loss grows linearly; 0: never."""
    target_interval: Count = 200
    """Updates after which the target takes the network's parameters over."""

    @property
    def masks_targets(self) -> bool:
        """Tell that the best next choice is looked for among those with an effect."""
        return self.masked


@dataclass(frozen=True, kw_only=True)
class IqlConfig(OfflineConfig):
    """How to learn implicitly."""

    expectile: float = 0.8
    """tau: 0.5 is the mean of what was played, towards 1 the best of it."""
    beta: float = 1.0
    """How much better actions count more in the policy: the inverse of the advantages' noise."""
    follow: float = 0.005
    """Share by which the copies move to the critics at every update."""


@dataclass(frozen=True)
class RugPredictorConfig:
    """How to grow the trees: few leaves, large ones, since rows of a window say the same over and over."""

    leaves: int = 4
    """Leaves of a tree."""
    trees: Count = 400
    """At most; the judging windows say when to stop."""
    learning_rate: float = 0.3
    """Not small: what is left to learn after some trees must not fall below the least gain."""
    leaf_share: float = 0.03
    """Least share of the rows in a leaf."""
    patience: Count = 30
    """Trees without a better log loss after which to stop."""
    stride: Count = 40
    """Every so many rows of a window are learned from: rows closer to each other than the label's horizon say the
    same, and would let a long window pass for many."""
    least_gain: float = 15.0
    """Of a split, in log likelihood; a smaller one is chance, rows of a window being alike."""
    margin: float = 0.05
    """Least expected profit of a bet that the policy places, per unit staked."""
    seed: Seed = 0
    """Same seed, same result."""

    def __post_init__(self) -> None:
        if self.leaves < 2 or self.trees < 1 or self.stride < 1 or not 0 < self.leaf_share < 0.5:
            raise ConfigError(
                "expected at least 2 leaves, 1 tree, a stride of 1 and leaves of less than half of the rows, "
                f"found {self.leaves}, {self.trees}, {self.stride} and {self.leaf_share}"
            )
