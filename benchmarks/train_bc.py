"""Measure cloning on a scripted person whose every chance is known: how near a clone comes to the best possible one.

| section | shows |
|---|---|
| clone | balanced accuracy by demonstrated rounds, beside the Bayes limit and waiting; its mix when it plays |

The demonstrations are recorded: frames of sessions of one round each, taken by the recorder into the event store,
built into a data set. Held-out rounds and the clone's own play are on the game's lanes, on the clock of presses.
The limit is what somebody scores who knows the person's every chance and sees only rows and presses.
A game names its person in the entry-point group "playproof.scripted". Leaves out: other methods.
"""

from __future__ import annotations

import tempfile
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.report import Goal, Measurement
from playproof.cli.output import note
from playproof.errors import ContractError

if TYPE_CHECKING:
    from playproof.datasets import Transitions
    from playproof.game import Game
    from playproof.train.config import TreesConfig

GROUP = "playproof.scripted"
SEED = 25
"""Of rounds that no setting was chosen by."""
ROUNDS = 300
HELD_OUT = 600
PLAYED = 600
CURVE = (25, 50, 100, 200, 300)
LIKENESS_GOAL, MIX_GOAL = 0.95, 0.10
KEY = bytes(32)
"""Recordings of scripted persons hold nobody's name."""

Found = tuple[list[Measurement], list[Goal]]


def find_person() -> Any:
    """Give the scripted person of an installed game."""
    for point in entry_points(group=GROUP):
        return point.load()
    raise ContractError(f"expected an installed game with a scripted person in {GROUP!r}, found none")


def recorded(person: Any, game: Game, home: Path, seed: int, rounds: int) -> Transitions:
    """Record sessions into a store, build a data set of them, and give its steps on the clock of presses."""
    from playproof.datasets import DatasetConfig, build, open_dataset
    from playproof.game import first
    from playproof.record.feeds.selectors import load_map
    from playproof.record.recorder import Recorder, steady_clock
    from playproof.record.redaction import Redaction
    from playproof.store import EventLog, EventStore
    from playproof.train.demonstrations import on_press_clock

    reading, clock = load_map().reading, steady_clock()
    with EventLog.open(home, game.columns) as log:
        for number, frames in enumerate(person.sessions(seed, rounds)):
            session = f"{person.player}-{number:04d}"
            recorder = Recorder(game, log, session, "cdp", redaction=Redaction(KEY), clock=clock, reading=reading)
            for frame in frames:
                recorder.take(frame)
            recorder.close()
    observation = first(game.observations)
    config = DatasetConfig("person", observation, person.actions, first(game.rewards().presets), {"train": 1.0}, 0)
    dataset = open_dataset(build(game, EventStore(home), config, home))
    return on_press_clock(dataset.transitions("train", observation))


def settings(person: Any, seed: int) -> TreesConfig:
    """Give the clone that is measured: it remembers for some rows what a person sees move."""
    from playproof.train.config import TreesConfig

    return TreesConfig(frames=8, watched=person.watched, seed=seed)


def clone(quick: bool) -> Found:
    """Record, clone, score on held-out rounds, and let the clone play."""
    from playproof.datasets.dataset import first_windows, starts
    from playproof.game import load_game
    from playproof.train.bc_trees import clone_habits
    from playproof.train.demonstrations import DemonstrationConfig, demonstrate, find_player
    from playproof.train.imitation_metrics import likeness

    person = find_person()
    game = load_game(person.game)
    names = game.actions[person.actions].heads
    seed, rounds, held = SEED, 12 if quick else ROUNDS, 20 if quick else HELD_OUT
    with tempfile.TemporaryDirectory() as home:
        shown = recorded(person, game, Path(home), seed, rounds)
    note(f"  recorded {len(starts(shown))} rounds, {len(shown.rewards)} steps")
    sizes = tuple(map(len, names))
    terms = DemonstrationConfig(clock=person.clock)
    himself = find_player(game, person.player, person.world, sizes)
    unseen = demonstrate(game, himself, person.world, held, seed + 1000, terms)
    limit = likeness(
        person.chances(unseen.observations, unseen.actions, starts(unseen)), unseen.actions, shown.actions, names
    )
    results: list[Measurement] = []
    shares: tuple[float, ...] = ()
    made: Any = None
    for count in sorted({min(item, rounds) for item in CURVE}):
        made = clone_habits(game, first_windows(shown, count), settings(person, seed), actions=person.actions)
        scores = made.likeness(unseen, shown, names)
        shares = tuple(own.balanced / of.balanced for own, of in zip(scores, limit, strict=True))
        note(f"  {count} rounds: " + ", ".join(f"{share:.4f} of the limit" for share in shares))
        for head, own in enumerate(scores):
            results.append(Measurement(f"clone of {count} rounds, head {head}: balanced accuracy", own.balanced, ""))
    for head, (own, of) in enumerate(zip(scores, limit, strict=True)):
        results += [
            Measurement(f"Bayes limit, head {head}: balanced accuracy", of.balanced, ""),
            Measurement(f"always waiting, head {head}: balanced accuracy", 1 / max(1, len(of.scored)), ""),
            Measurement(f"clone, head {head}: accuracy", own.accuracy, ""),
            Measurement(f"Bayes limit, head {head}: accuracy", of.accuracy, ""),
            Measurement(f"always waiting, head {head}: accuracy", own.always_wait, ""),
            Measurement(f"clone, head {head}: log loss", own.log_loss, "nats"),
            Measurement(f"Bayes limit, head {head}: log loss", of.log_loss, "nats"),
            Measurement(f"his mix alone, head {head}: log loss", own.mix_loss, "nats"),
        ]
    mixes, distance = mix(game, person, made.policy, himself, 40 if quick else PLAYED)
    return results + mixes, [
        Goal.at_least("clone's share of the Bayes limit's balanced accuracy, worst head", min(shares), LIKENESS_GOAL),
        Goal.at_most("clone's action mix beside the player's, total variation over what is done", distance, MIX_GOAL),
    ]


def mix(game: Game, person: Any, policy: Any, himself: Any, windows: int) -> tuple[list[Measurement], float]:
    """Let clone and person play as many windows, by chance, on the clock of presses, and compare what they do.

    The distance is half the sum of the differences of the choices' shares, relative to all that the person does.
    """
    from playproof.policies.network import BatchPlayer
    from playproof.train.demonstrations import DemonstrationConfig, demonstrate
    from playproof.train.imitation_metrics import action_mix

    names, terms = game.actions[person.actions].heads, DemonstrationConfig(clock=person.clock)
    players = (BatchPlayer(policy, sample=True), himself)
    own, his = (
        action_mix(demonstrate(game, player, person.world, windows, seed, terms).actions, names)
        for player, seed in zip(players, (7001, 7002), strict=True)
    )
    done = sum(his.values())
    results = [
        Measurement(f"{name}: share of the steps, clone over player", own[name] / his[name], "")
        for name in his
        if his[name] > 0
    ]
    results.append(Measurement("steps in which something is done, player", done, ""))
    return results, sum(abs(own[name] - his[name]) for name in his) / 2 / done
