"""kill -9 of agents and servers, and the immediate stop of PostgreSQL: what was acknowledged is there once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from postgres import running_postgres
from trajectory_proofs import Nursery, kill_agents, kill_servers

from playproof.store.db import opened, upgrade

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    with Nursery(tmp_path_factory.mktemp("nursery")) as nursery:
        yield nursery


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_killed_agents_lose_nothing_acknowledged(kind: str, tmp_path: Path, request: Any, nursery: Nursery) -> None:
    url = f"sqlite:///{tmp_path / 'tables.db'}" if kind == "sqlite" else request.getfixturevalue("postgres").new()
    with opened(url=url) as engine:
        upgrade(engine)
        kill_agents(nursery, engine, url, 5, seed=1)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_killed_servers_lose_nothing_and_double_nothing(
    kind: str, tmp_path: Path, request: Any, nursery: Nursery
) -> None:
    url = f"sqlite:///{tmp_path / 'tables.db'}" if kind == "sqlite" else request.getfixturevalue("postgres").new()
    with opened(url=url) as engine:
        upgrade(engine)
        kill_servers(nursery, engine, url, tmp_path, 3, seed=2)


def test_a_killed_postgresql_loses_nothing(tmp_path: Path, nursery: Nursery) -> None:
    with running_postgres() as database:
        url = database.new()
        with opened(url=url) as engine:
            upgrade(engine)
            kill_servers(nursery, engine, url, tmp_path, 4, seed=3, database=database)
