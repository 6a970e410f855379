"""What every test stands on: a home of its own, the shared recordings, the browser, hypothesis profiles."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from postgres import Postgres, running_postgres

from playproof.record.feeds.chromium import find_chromium

ROOT = Path(__file__).resolve().parents[1]

settings.register_profile("ci", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def project() -> Path:
    """Give the folder of this checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Give the folder of real recordings, or skip where it is not there."""
    path = ROOT.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip("the recordings in ../shared/data are not here")
    return path


@pytest.fixture(scope="session")
def chromium() -> Path:
    """Give the browser; without one skip, or fail where PLAYPROOF_REQUIRE_CHROMIUM=1, as in CI."""
    path = find_chromium()
    if path is None:
        reason = "BROWSER TEST NOT RUN: no Chromium; run: make setup"
        if os.environ.get("PLAYPROOF_REQUIRE_CHROMIUM") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return path


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Give a running PostgreSQL, the same to all tests of a session; `new()` makes an empty schema in it."""
    with running_postgres() as server:
        yield server


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every test a home folder of its own."""
    path = tmp_path / "home"
    monkeypatch.setenv("PLAYPROOF_HOME", str(path))
    return path


LONGEST = (
    "test_studio_ring.py",
    "test_lookahead.py",
    "test_import_legacy.py",
    "test_store_faults.py",
    "test_readme.py",
    "test_wheel.py",
    "test_typescript_package.py",
    "test_crash_parity.py",
    "test_ppo.py",
    "test_validate.py",
    "test_crash_worlds.py",
    "test_reward_checks.py",
)
"""Files that take long, longest first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no core waits at the end for the other one."""
    indices = {name: index for index, name in enumerate(LONGEST)}
    items.sort(key=lambda item: indices.get(item.path.name, len(indices)))
