"""A thousand kills of agents, servers and PostgreSQL under the trajectory recorder.

Five kinds in five slices of forty kills, so that a run can be taken up again: -k "slice2 and servers".
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from postgres import running_postgres
from trajectory_proofs import Nursery, kill_agents, kill_servers

from playproof.store.db import opened, upgrade

pytestmark = [
    pytest.mark.torture,
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.parametrize("seed", range(5), ids=lambda seed: f"slice{seed}"),
]
KILLS = 40


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    with Nursery(tmp_path) as nursery:
        yield nursery


def test_agents_on_sqlite(tmp_path: Path, nursery: Nursery, seed: int) -> None:
    url = f"sqlite:///{tmp_path / 'tables.db'}"
    with opened(url=url) as engine:
        upgrade(engine)
        assert kill_agents(nursery, engine, url, KILLS, seed) > KILLS


def test_servers_on_sqlite(tmp_path: Path, nursery: Nursery, seed: int) -> None:
    url = f"sqlite:///{tmp_path / 'tables.db'}"
    with opened(url=url) as engine:
        upgrade(engine)
        assert kill_servers(nursery, engine, url, tmp_path / "spool", KILLS, seed) > KILLS


@pytest.mark.parametrize("what", ["agents", "servers", "database"])
def test_on_postgresql(what: str, tmp_path: Path, nursery: Nursery, seed: int) -> None:
    with running_postgres() as database:
        url = database.new()
        with opened(url=url) as engine:
            upgrade(engine)
            if what == "agents":
                assert kill_agents(nursery, engine, url, KILLS, seed) > KILLS
            else:
                under = database if what == "database" else None
                assert kill_servers(nursery, engine, url, tmp_path / "spool", KILLS, seed, under) > KILLS
