"""R8: where no money can be earned, does any simple policy earn reward at the training discount?

A reward can be the exact profit of every episode and still invite to play: if it is paid before the
loss is booked, a learner that discounts prefers the pay now to the loss later. An open bet marked at
its stake is such a reward. The zoo is played in a world whose ceiling is 0; the policies that look
best are played again in fresh windows, and only there it counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from playproof.game import Game, Reward
from playproof.rewards.report import Exploit, RewardFinding
from playproof.rewards.zoo import ThresholdRule, ZooSetup

RULE = "where no money can be earned, no policy of the zoo earns reward at the training discount"
WINDOWS = 24_000
"""Windows that shares of heats are taken of, unless told otherwise."""
HEATS = ((1, 480), (12, 48), (2, 2))
"""How many of the best go on (the first heat takes all), and which share of the windows each of them plays."""
LUCK = (0.0, 0.0, 0.5)
"""Standard errors above 0 that a policy must have earned to go on."""
SIGMAS = 3.3
"""One false alarm in 2000, for each policy of the last heat."""


def worthless_world(game: Game) -> str | None:
    """Name the first world in which nothing can be earned; None if there is none."""
    if game.simulation is None:
        return None
    ceiling = game.simulation().ceiling
    return next((world for world in game.worlds if (most := ceiling(world)) is not None and most <= 0.0), None)


def check_discount(game: Game, reward: Reward, seed: int, gamma: float, windows: int = WINDOWS) -> RewardFinding:
    """Play the zoo in three heats, each in fresh windows: all of it, the best of it, the very best.

    Only the last heat counts: the best of many look better than they are.
    """
    world = worthless_world(game)
    if game.simulation is None or world is None:
        why = "has no lanes" if game.simulation is None else "has no world in which nothing can be earned"
        return RewardFinding("R8", RULE, "skipped", f"game {game.name!r} {why}")
    windows = round(windows * game.defaults.effort)
    ground = ZooSetup(game, reward, world, seed, gamma, 0.0)
    zoo = left = ground.zoo()
    tried: list[Exploit] = []
    for number, (best, share) in enumerate(HEATS):
        left = left if number == 0 else _best(left, tried, best, LUCK[number])
        if not left:
            break
        tried = ground.try_rules(left, max(16, windows // share), 2, number)
    for item in tried if left else ():
        if item.discounted > max(SIGMAS * item.discounted_se, 1e-12):
            return RewardFinding(
                "R8",
                RULE,
                "failed",
                f"{item.name} earns {item.discounted:+.4g} (± {1.96 * item.discounted_se:.2g}) a window at discount "
                f"{gamma} "
                f"in world {world}, where its money is {item.pnl:+.3g} a window (ROI {item.roi:+.1%})",
            )
    return RewardFinding("R8", RULE, "passed", f"{len(zoo)} policies in world {world}")


def _best(rules: Sequence[ThresholdRule], tried: Sequence[Exploit], count: int, luck: float) -> list[ThresholdRule]:
    """Give the rules that earned most for sure, of those that earned anything to speak of."""
    surest = sorted(
        zip(tried, rules, strict=True), key=lambda item: -item[0].discounted / (item[0].discounted_se or 1e-300)
    )
    return [rule for item, rule in surest if item.discounted > max(1e-12, luck * item.discounted_se)][:count]
