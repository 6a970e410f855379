"""Play scripts through a game's ledger and compute a reward over the steps.

Nothing is observed here: a script knows beforehand what it does at each decision point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from playproof.errors import ConfigError
from playproof.events import Event
from playproof.game import AccountSnapshot, Action, ActionSet, Game, Outcome, Reward, Step, Terms
from playproof.game.play import spans
from playproof.game.rewards import ComposedReward, Kind, Play, Probes

Values = NDArray[np.float64]


@dataclass(frozen=True)
class ScoredPlay:
    """A play with what it paid."""

    play: Play
    steps: tuple[Step, ...]
    parts: dict[str, Values]
    """By component, (steps,) each; the benchmark, which no action changes, is left out."""
    wait: Action
    """The action that does nothing."""

    @property
    def rewards(self) -> Values:
        """Give the reward of each step."""
        summed = np.zeros(len(self.steps))
        for values in self.parts.values():
            summed += values
        return summed

    @property
    def money(self) -> Values:
        """Give the change in equity of each step, in the smallest unit."""
        return np.array([step.after.equity - step.before.equity for step in self.steps], np.float64)

    @property
    def pnl(self) -> int:
        """Give the change in equity, in the smallest unit."""
        return self.steps[-1].after.equity - self.steps[0].before.equity


def discounted(values: Values, gamma: float) -> float:
    """Sum values up, each step worth gamma of the one before."""
    return float(values @ gamma ** np.arange(len(values)))


def walk(game: Game, play: Play, actions: str) -> tuple[Step, ...]:
    """Carry a script out in its window; give the steps."""
    ledger, decides = game.recording().ledger(Terms(actions)), game.recording().decides
    wait = game.actions[actions].wait
    taken: list[tuple[Action, bool, AccountSnapshot]] = []
    for event in play.events:
        ledger.apply_world(event)
        if decides(event):
            action = play.actions[len(taken)] if len(taken) < len(play.actions) else wait
            before = ledger.standing()
            ledger.act(action)
            taken.append((action, ledger.standing() != before, before))
    afters = [*(before for _, _, before in taken[1:]), ledger.standing()]
    return tuple(
        Step(number, 0, action, effect, before, after, game.windows.end if number == len(taken) - 1 else None)
        for number, ((action, effect, before), after) in enumerate(zip(taken, afters, strict=True))
    )


@dataclass(frozen=True)
class ReplayedPlay:
    """A play that was carried out; it is the same for every reward."""

    play: Play
    steps: tuple[Step, ...]
    outcome: Outcome
    wait: Action

    def score(self, reward: Reward) -> ScoredPlay:
        """Compute a reward over it."""
        parts = {
            name: np.asarray(values, np.float64)
            for name, values in reward.compute(self.steps, self.outcome).items()
            if name != reward.benchmark
        }
        return ScoredPlay(self.play, self.steps, parts, self.wait)


@dataclass(frozen=True)
class Plays:
    """Everything that checks on plays look at; made once, it serves any number of rewards."""

    game: Game
    seed: int
    windows: int = 24
    """How many scripts that do anything are drawn."""

    def rng(self, what: str) -> np.random.Generator:
        """Give the random numbers of one kind of plays."""
        return np.random.default_rng([self.seed, *what.encode()])

    def _walk(self, play: Play, actions: str) -> ReplayedPlay:
        outcome = self.game.recording().outcome(play.events) or Outcome(play.events[0].window_id or "", {})
        return ReplayedPlay(play, walk(self.game, play, actions), outcome, self.game.actions[actions].wait)

    @property
    def probes(self) -> Probes | None:
        """Give what the game makes up for rewards, if it does."""
        return self.game.rewards().probes

    @cached_property
    def spam(self) -> list[ReplayedPlay]:
        """Play windows with nothing but one action each."""
        dealt = deal(self.game, self.rng("spam"), 4)
        return [
            self._walk(Play(name, events, (action,) * len(events)), actions)
            for actions in number_sets(self.game)
            for name, action in spams(self.game.actions[actions])
            for events in dealt
        ]

    @cached_property
    def idle(self) -> list[ReplayedPlay]:
        """Play windows with nothing but WAIT."""
        dealt = deal(self.game, self.rng("idle"), 6)
        return [self._walk(Play("WAIT", events, ()), actions) for actions in number_sets(self.game) for events in dealt]

    @cached_property
    def anything(self) -> list[ReplayedPlay]:
        """Play windows with scripts that do anything."""
        rng, sets, walked = self.rng("anything"), number_sets(self.game), []
        for number, events in enumerate(deal(self.game, rng, self.windows)):
            actions = sets[number % len(sets)]
            script = any_script(self.game.actions[actions], rng, len(events))
            walked.append(self._walk(Play(f"script {number}", events, script), actions))
        return walked

    @cached_property
    def ladders(self) -> list[list[ReplayedPlay]]:
        """Play the same actions at better and better exit prices."""
        made = () if self.probes is None else self.probes.ladders(self.rng("ladders"))
        return [[self._walk(play, self._probed) for play in ladder] for ladder in made]

    @cached_property
    def cycles(self) -> list[ReplayedPlay]:
        """Play in circles."""
        made = () if self.probes is None else self.probes.cycles(self.rng("cycles"))
        return [self._walk(play, self._probed) for play in made]

    @property
    def _probed(self) -> str:
        assert self.probes is not None
        return self.probes.actions


def sample_windows(game: Game) -> list[tuple[Event, ...]]:
    """Give the windows of the game's sample as the world told them."""
    frames = game.recording().sample()
    facts = [(frame, fact) for frame, of in zip(frames, game.decode(frames), strict=True) for fact in of]
    events = [fact.event(frame.ts, "sample", seq) for seq, (frame, fact) in enumerate(facts) if fact.player_id is None]
    return list(spans(events).values())


def deal(game: Game, rng: np.random.Generator, count: int) -> list[tuple[Event, ...]]:
    """Give windows to play scripts in: dealt by the game, or those of its sample."""
    probes = game.rewards().probes
    if probes is not None:
        return list(probes.windows(rng, count))
    windows = sample_windows(game)
    if not windows:
        raise ConfigError(f"expected windows in the sample of game {game.name!r}, found none")
    return [windows[number % len(windows)] for number in range(count)]


def number_sets(game: Game) -> list[str]:
    """Name the action sets whose actions are numbers."""
    return [name for name, actions in game.actions.items() if isinstance(actions.wait, tuple)]


def spams(actions: ActionSet) -> list[tuple[str, Action]]:
    """Give every choice of the first head but WAIT, the other heads at rest and all at their last choice."""
    wait = actions.wait
    assert isinstance(wait, tuple)
    ends = tuple(len(head) - 1 for head in actions.heads[1:])
    rests = dict.fromkeys((wait[1:], ends))
    return [
        (f"nothing but {name}", (index, *rest))
        for index, name in enumerate(actions.heads[0])
        for rest in rests
        if index != wait[0]
    ]


def any_script(actions: ActionSet, rng: np.random.Generator, length: int) -> tuple[Action, ...]:
    """Draw a script that waits more or less often and else does anything."""
    wait = actions.wait
    assert isinstance(wait, tuple)
    idle = rng.choice([0.3, 0.8, 0.95])
    script: list[Action] = []
    for _ in range(length):
        main = wait[0] if rng.random() < idle else int(rng.integers(len(actions.heads[0])))
        rest = [
            int(rng.integers(len(head))) if rng.random() < 0.1 else at_rest
            for head, at_rest in zip(actions.heads[1:], wait[1:], strict=True)
        ]
        script.append((main, *rest))
    return tuple(script)


def kinds(reward: Reward) -> dict[str, Kind]:
    """Tell what each component declares itself to be."""
    if not isinstance(reward, ComposedReward):
        return dict.fromkeys(reward.components, "undeclared")
    return {part.component.name: part.component.kind for part in reward.parts}


def money_weight(scored: Sequence[ScoredPlay]) -> float:
    """Estimate what one of the smallest unit is worth in reward: the median over steps in which money changed."""
    rewards, money = (np.concatenate([getattr(item, name) for item in scored]) for name in ("rewards", "money"))
    changed = money != 0.0
    return float(np.median(rewards[changed] / money[changed])) if changed.any() else 0.0
