"""Data sets at length: a hundred thousand futures, and the same hash on a Ray cluster of two nodes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import recordings as r
import test_lookahead as lookahead

from playproof.datasets import DatasetConfig, build, open_dataset
from playproof.parallel import Ray
from playproof.store import EventStore

pytestmark = pytest.mark.torture
PAIRS = 100_000
GROUP = 1_000
CONFIG = DatasetConfig("mixed", "policy", "buttons-share", "minimal")


@pytest.mark.timeout(0)
@pytest.mark.parametrize("tenth", range(10))
def test_a_hundred_thousand_steps_do_not_depend_on_what_comes_after_them(tenth: int) -> None:
    """A thousand cuts of each of a hundred groups of sessions, ten groups a test."""
    rng = np.random.default_rng((11, tenth))
    groups = PAIRS // GROUP // 10
    for seed in range(tenth * groups, (tenth + 1) * groups):
        played = [r.played(1000 + 3 * seed + at, 1, float(rng.uniform(0.05, 0.5)))[1] for at in range(3)]
        watched = r.dealt_events(r.dealt("watch", 100 + seed, 3))
        lookahead.compare_pairs([lookahead.Recorded.of(events) for events in (*played, watched)], GROUP, rng)


def recorded(home: Path) -> EventStore:
    """Give a store of two players and two spectators."""
    r.store(home, [*r.played(31, 4)[1], *r.played(33, 4, 0.4)[1]])
    watched = [*r.dealt_events(r.dealt("watch-1", 5, 40)), *r.dealt_events(r.dealt("watch-2", 6, 40))]
    r.store(home, watched, log="other")
    return EventStore(home, r.crash().columns)


def hash_of(store: EventStore, home: Path, engine: Any = None) -> str:
    return str(open_dataset(build(r.crash(), store, CONFIG, home, engine)).manifest["hash"])


def test_a_ray_of_ones_own_gives_the_same_hash(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    store = recorded(tmp_path / "home")
    assert hash_of(store, tmp_path / "ray", Ray(workers=1)) == hash_of(store, tmp_path / "here")


def test_a_cluster_of_two_nodes_gives_the_same_hash(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    store = recorded(tmp_path / "home")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        assert hash_of(store, tmp_path / "ray", Ray(cluster.address)) == hash_of(store, tmp_path / "here")
    finally:
        cluster.shutdown()
