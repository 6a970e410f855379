"""Jobs under a thousand kills of workers and of the jobs themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from job_proofs import job_bench, survive_kills

from playproof.store.db import connect, upgrade

pytestmark = pytest.mark.torture


def test_a_thousand_kills(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    engine = connect(url=url)
    upgrade(engine)
    with job_bench(tmp_path / "a", engine, url) as bench:
        assert survive_kills(bench, kills=1_000, jobs=50, seed=1) >= 1_000
    engine.dispose()
