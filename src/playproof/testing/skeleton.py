"""The whole ring in one call: CoinGame from a recording to a verdict, by the thinnest honest stages.

record -> store -> episodes -> data set -> train -> evaluate -> verdict, in both worlds of the game.
It needs the base dependencies only; `python -m playproof.testing.skeleton` runs it in a folder of
its own and prints the verdicts.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from playproof.datasets import DatasetConfig, build, open_dataset
from playproof.evaluate import Score, play_windows
from playproof.evaluate.rollout import PolicyPlayer
from playproof.events import Event
from playproof.game import Game
from playproof.home import folder
from playproof.policies import TablePolicy
from playproof.record.session import RecordingSession
from playproof.store import EventLog, EventStore
from playproof.testing import coin
from playproof.testing.tabular import TableConfig, learn
from playproof.validate import Verdict, give_verdict

WINDOWS = 330
GROUP = 500
"""Frames that are committed together."""
CONFIG = DatasetConfig("skeleton", "table", "bets", "profit", {"train": 0.4, "test": 0.6}, gap=2)
TABLE = TableConfig(("hint",), coin.RESERVED)


@dataclass(frozen=True)
class WorldResult:
    """What came of one world."""

    events: tuple[Event, ...]
    """As they were acknowledged."""
    dataset: Path
    data_hash: str
    policy: TablePolicy
    score: Score
    baselines: tuple[Score, ...]
    verdict: Verdict


@dataclass(frozen=True)
class SkeletonResult:
    """What came of each world."""

    worlds: Mapping[str, WorldResult]


def run(home: Path, seed: int, worlds: Sequence[str] = ("fair", "biased"), windows: int = WINDOWS) -> SkeletonResult:
    """Take CoinGame through every stage in each world, each in its own folder of the home."""
    game = coin.game()
    return SkeletonResult({world: _run_world(game, home / world, world, seed, windows) for world in worlds})


def _run_world(game: Game, home: Path, world: str, seed: int, windows: int) -> WorldResult:
    acknowledged = record(game, home, world, seed, windows)
    events = tuple(EventStore(home).events())
    dataset = open_dataset(build(game, events, CONFIG, home))
    policy = learn(dataset, TABLE, wait=(0,))
    score, baselines = evaluate(game, policy, events, dataset.windows("test"), seed)
    verdict = give_verdict(
        score, baselines, game.simulated().ceiling(world), np.random.default_rng([int.from_bytes(b"verdict"), seed])
    )
    _keep(home, policy, verdict)
    return WorldResult(acknowledged, dataset.path, dataset.manifest["hash"], policy, score, baselines, verdict)


def record(game: Game, home: Path, world: str, seed: int, windows: int) -> tuple[Event, ...]:
    """Record a scripted player, group by group; give the events that were acknowledged."""
    chooser = coin.random_chooser(np.random.default_rng([int.from_bytes(b"record"), seed]))
    frames = [frame for window in coin.deal(world, seed, windows, chooser) for frame in window]
    groups = range(0, len(frames), GROUP)
    with EventLog.open(home, game.columns) as log:
        session = RecordingSession(game, log.append, f"skeleton-{world}", "public_ws")
        return tuple(event for start in groups for event in session.take(frames[start : start + GROUP]))


def evaluate(
    game: Game, policy: TablePolicy, events: Sequence[Event], windows: Sequence[str], seed: int
) -> tuple[Score, tuple[Score, ...]]:
    """Score the policy and every baseline on the same unseen windows and the same stake."""
    players = [PolicyPlayer("table", lambda _: policy, policy.observation, policy.actions)]
    players += [
        PolicyPlayer(name, baseline.make, baseline.observation, baseline.actions)
        for name, baseline in game.baselines.items()
    ]
    score, *baselines = [
        play_windows(game, player, events, windows, stake=policy.stake, seed=seed) for player in players
    ]
    return score, tuple(baselines)


def _keep(home: Path, policy: TablePolicy, verdict: Verdict) -> None:
    """Write the policy's file and the verdict."""
    (folder("runs", home) / "policy.json").write_text(policy.to_json(), encoding="utf-8")
    payload = asdict(verdict) | {"policy_hash": policy.policy_hash, "data_hash": policy.data_hash}
    (folder("reports", home) / "verdict.json").write_text(json.dumps(payload, indent=1) + "\n", encoding="utf-8")


def main(seed: int = 1) -> int:
    """Run the ring, print one line for each world, and give exit code 2 if a verdict is not what theory says."""
    with tempfile.TemporaryDirectory() as home:
        verdicts = {world: result.verdict for world, result in run(Path(home), seed).worlds.items()}
    for world, verdict in verdicts.items():
        sys.stdout.write(f"{world}: {verdict.name}. {verdict.sentence}\n")
    right = all((verdict.name == "EDGE SHOWN") == ((verdict.ceiling or 0) > 0) for verdict in verdicts.values())
    return 0 if right else 2


if __name__ == "__main__":
    sys.exit(main())
