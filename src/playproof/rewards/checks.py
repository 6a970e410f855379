"""Check a reward by what it must do in plays whose money is known: R1 to R5, and R8 over the zoo.

| check | rule |
|---|---|
| R1 | an action without effect and with nothing held pays 0 or less |
| R2 | an episode of WAIT earns 0 |
| R3 | the same actions at a better exit price never earn less |
| R4 | what is not money is a cost, is paid once at the end, or is shaping that telescopes |
| R5 | coming back to the same state earns nothing |
| R8 | no policy of the zoo earns reward at the training discount where no money can be earned |

Rewards are checked as a learner sees them: after the clip, and at the training discount. Components
are checked by what they declare; of a function of the user's nothing is known, so whatever it pays
beyond money must be a cost or telescope as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from playproof.errors import ConfigError
from playproof.game import AccountSnapshot, Game, Reward
from playproof.game.rewards import CLIP, ComposedReward
from playproof.rewards.discount import WINDOWS, check_discount
from playproof.rewards.plays import Plays, ScoredPlay, discounted, kinds, money_weight
from playproof.rewards.report import RewardFinding, RewardReport

TOLERANCE = 1e-9
GAMMA = 0.99
RULES = {
    "R1": "with nothing held, an action without effect pays 0 or less",
    "R2": "an episode of WAIT earns 0",
    "R3": "the same actions at a better exit price never earn less",
    "R4": "beyond money there are only costs, terminal penalties and shaping that telescopes",
    "R5": "coming back to the same state earns nothing",
    "R8": "where no money can be earned, no policy of the zoo earns reward at the training discount",
}


@dataclass(frozen=True)
class RewardCase:
    """One reward under examination."""

    reward: Reward
    gamma: float
    plays: Plays

    @cached_property
    def ordinary(self) -> list[ScoredPlay]:
        """Give all plays of ordinary windows."""
        return [item.score(self.reward) for item in (*self.plays.anything, *self.plays.idle, *self.plays.spam)]


Breach = str
Check = Callable[[RewardCase], Iterator[Breach]]


def _near(value: float, scale: float = 1.0) -> bool:
    return abs(value) <= TOLERANCE * max(1.0, scale)


def check_no_position(case: RewardCase) -> Iterator[Breach]:
    """R1: look at every step without effect that began and ended with cash alone."""
    for scored in case.ordinary:
        for step, paid in zip(scored.steps, scored.rewards.tolist(), strict=True):
            before, after = step.before, step.after
            flat = before.cash == before.equity == after.cash == after.equity
            if flat and not step.effect and step.action != scored.wait and paid > TOLERANCE:
                yield (
                    f"{scored.play.name}: step {step.number}, action {step.action}, changes nothing, "
                    f"balance {before.cash} before and after, and pays {paid:+.6g}"
                )
                break


def check_waiting(case: RewardCase) -> Iterator[Breach]:
    """R2: add an idle episode up, with and without the discount."""
    for scored in (item.score(case.reward) for item in case.plays.idle):
        for gamma in (1.0, case.gamma):
            earned = discounted(scored.rewards, gamma)
            if not _near(earned):
                yield f"{len(scored.steps)} steps of WAIT earn {earned:+.6g} at discount {gamma}"
                break


def check_ladders(case: RewardCase) -> Iterator[Breach]:
    """R3: go up each ladder of exit prices."""
    for ladder in case.plays.ladders:
        rungs = [item.score(case.reward) for item in ladder]
        earned = [discounted(rung.rewards, case.gamma) for rung in rungs]
        for index in range(1, len(rungs)):
            lower, higher = earned[index - 1], earned[index]
            if higher < lower - TOLERANCE * max(1.0, abs(lower)):
                yield (
                    f"{ladder[index - 1].play.name} earns {lower:+.6g}, {ladder[index].play.name} only {higher:+.6g} "
                    f"(money {rungs[index - 1].pnl:+d} and {rungs[index].pnl:+d})"
                )
                break


def check_terms(case: RewardCase) -> Iterator[Breach]:
    """R4: hold every component to what it declares."""
    declared = kinds(case.reward)
    plays = case.ordinary
    money = [name for name, kind in declared.items() if kind == "money"]
    if money:
        yield from _money_terms(plays, money)
    for name, kind in declared.items():
        if kind == "cost":
            yield from _first(_positive(plays, name))
        elif kind == "terminal":
            yield from _first(_repeated(plays, name))
        elif kind == "shaping":
            yield from _first(_unbalanced(plays, name, case.gamma))
        elif kind == "bonus" and _weighs(case, name):
            yield f"{name} pays without a change in money, and is no shaping that telescopes"
    if "undeclared" in declared.values():
        yield from _first(_beyond_money(plays, case.gamma))


def _first(breaches: Iterator[Breach]) -> Iterator[Breach]:
    yield from (breach for breach, _ in zip(breaches, range(1), strict=False))


def _weighs(case: RewardCase, name: str) -> bool:
    """Tell whether a component has a weight other than 0."""
    assert isinstance(case.reward, ComposedReward)
    return any(part.component.name == name and part.settings["weight"] != 0.0 for part in case.reward.parts)


def _money_terms(plays: list[ScoredPlay], names: list[str]) -> Iterator[Breach]:
    """Tell where what is declared as money is not the profit times one weight."""
    paid = np.array([sum(float(play.parts[name].sum()) for name in names) for play in plays])
    pnl = np.array([play.pnl for play in plays], np.float64)
    if not pnl.any():
        return
    largest = int(np.abs(pnl).argmax())
    weight = paid[largest] / pnl[largest]
    if weight <= 0.0:
        worth = f"{paid[largest]:+.6g} for a profit of {pnl[largest]:+.0f} units"
        yield f"{' + '.join(names)} pay {worth}: the sign is wrong"
        return
    off = np.abs(paid - weight * pnl)
    worst = int(off.argmax())
    if off[worst] > TOLERANCE * max(1.0, float(np.abs(paid).max())):
        yield (
            f"{' + '.join(names)} pay {paid[worst]:+.6g} for a profit of {pnl[worst]:+.0f} units, where "
            f"{weight * pnl[worst]:+.6g} would be its worth: money is paid twice, or not at all"
        )


def _positive(plays: list[ScoredPlay], name: str) -> Iterator[Breach]:
    """Tell where a cost is paid out."""
    for scored in plays:
        most = float(scored.parts[name].max(initial=0.0))
        if most > TOLERANCE:
            yield f"{name} is declared a cost and pays {most:+.6g} in {scored.play.name}"


def _repeated(plays: list[ScoredPlay], name: str) -> Iterator[Breach]:
    """Tell where a terminal term is paid more than once, or paid out."""
    for scored in plays:
        paid = scored.parts[name]
        if np.count_nonzero(paid) > 1 or float(paid.max(initial=0.0)) > TOLERANCE:
            yield f"{name} is paid {np.count_nonzero(paid)} times in {scored.play.name}, {paid.sum():+.6g} in all"


def _unbalanced(plays: list[ScoredPlay], name: str, gamma: float) -> Iterator[Breach]:
    """Tell where shaping does not telescope to 0 from a potential that is never negative."""
    for scored in plays:
        paid = scored.parts[name]
        sums = np.cumsum(paid * gamma ** np.arange(len(paid)))
        scale = float(np.abs(paid).max(initial=0.0))
        if not _near(float(sums[-1]), scale):
            yield f"{name} adds up to {sums[-1]:+.6g} at discount {gamma} in {scored.play.name}, not to 0"
        elif float(sums.min()) < -TOLERANCE * max(1.0, scale):
            yield f"{name} comes from a potential below 0 in {scored.play.name}"


def _beyond_money(plays: list[ScoredPlay], gamma: float) -> Iterator[Breach]:
    """Tell where a reward of unknown terms pays more over an episode than its money is worth."""
    weight = money_weight(plays)
    if weight < 0.0:
        yield f"a profit of one unit is worth {weight:+.6g} in reward: the sign is wrong"
    for scored in plays:
        beyond = scored.rewards - max(weight, 0.0) * scored.money
        scale = float(np.abs(scored.rewards).max(initial=0.0))
        for at in (1.0, gamma):
            if discounted(beyond, at) > TOLERANCE * max(1.0, scale):
                yield f"{scored.play.name} earns {discounted(beyond, at):+.6g} beyond its money at discount {at}"
                break


def check_cycles(case: RewardCase) -> Iterator[Breach]:
    """R5: find where a play comes back to the same state, and add up what lies between."""
    assert case.plays.probes is not None
    state = case.plays.probes.state
    for walked in case.plays.cycles:
        yield from _first(_paid_cycles(walked.score(case.reward), state, case.gamma))


def _paid_cycles(scored: ScoredPlay, state: Callable[[AccountSnapshot], Hashable], gamma: float) -> Iterator[Breach]:
    """Tell which ways back to the same state are paid."""
    seen: dict[Hashable, int] = {}
    rewards = scored.rewards
    for number, step in enumerate(scored.steps):
        here = state(step.before)
        if here in seen:
            start = seen[here]
            earned = discounted(rewards[start:number], gamma)
            if earned > TOLERANCE:
                actions = [step.action for step in scored.steps[start:number]]
                yield f"{scored.play.name}: steps {start} to {number} ({_short(actions)}) earn {earned:+.6g}"
        seen[here] = number


def _short(actions: Sequence[object]) -> str:
    text = ", ".join(map(str, actions[:4]))
    return text if len(actions) <= 4 else f"{text}, ... {len(actions)} in all"


CHECKS: dict[str, tuple[Check, bool]] = {
    "R1": (check_no_position, False),
    "R2": (check_waiting, False),
    "R3": (check_ladders, True),
    "R4": (check_terms, False),
    "R5": (check_cycles, True),
}
"""The checks on plays, and whether they need windows that the game makes up."""


def _find(case: RewardCase, check: str) -> RewardFinding:
    run, needs_probes = CHECKS[check]
    if needs_probes and case.plays.probes is None:
        return RewardFinding(
            check, RULES[check], "skipped", f"game {case.plays.game.name!r} makes up no windows for it"
        )
    breaches = list(run(case))
    if breaches:
        more = f" (and {len(breaches) - 1} more)" if len(breaches) > 1 else ""
        return RewardFinding(check, RULES[check], "failed", breaches[0] + more)
    return RewardFinding(check, RULES[check], "passed", "")


def check_reward(
    game: Game,
    reward: Reward,
    seed: int,
    *,
    gamma: float = GAMMA,
    plays: Plays | None = None,
    zoo_windows: int = WINDOWS,
) -> RewardReport:
    """Run R1 to R5 and R8; `gamma` is the discount of the training to come.

    `plays` of the same game can be handed over to check many rewards; `zoo_windows` is how many windows the best
    of the zoo plays in the end, 0 skips R8.
    """
    if not 0.0 < gamma <= 1.0:
        raise ConfigError(f"expected a discount above 0 and at most 1, found {gamma}")
    case = RewardCase(reward, gamma, plays or Plays(game, seed))
    findings = [_find(case, check) for check in CHECKS]
    if zoo_windows:
        findings.append(check_discount(game, reward, seed, gamma, zoo_windows))
    else:
        findings.append(RewardFinding("R8", RULES["R8"], "skipped", "not asked for"))
    return RewardReport(
        game.name,
        reward.name,
        reward.hash,
        seed,
        gamma,
        tuple(findings),
        reward.warnings if isinstance(reward, ComposedReward) else (),
        sum(int(np.count_nonzero(item.parts.get(CLIP, 0.0))) for item in case.ordinary),
        sum(len(item.steps) for item in case.ordinary),
    )
