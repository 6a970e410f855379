"""1,000 promotions and rollbacks by 8 processes against a served alias under load, on both databases."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from models_kit import linear_policy, open_registry
from swapping import check_history, swap_under_load

from playproof.models.registry import PromotionGround

pytestmark = pytest.mark.torture


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_thousand_changes_by_eight_processes(
    database: str, home: Path, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{home / 'x.db'}" if database == "sqlite" else str(request.getfixturevalue("postgres").new())
    engine, registry = open_registry(url, home)
    for number in range(4):
        registry.add(linear_policy(tmp_path / f"p{number}", 2 + number, number, head=1), "m")
    for version in (1, 2, 3, 4):
        ground = PromotionGround("practice")
        registry.promote("m", version, "try-load", who="me", why="x", ground=ground)
    report = swap_under_load(registry, url, home, processes=8, changes=1_000, clients=4)
    check_history(report, registry)
    assert len(report.made) == 1_000
    assert not report.mixed
    assert not report.lost
    lines = [
        f"{database}: {len(report.made):,} changes by 8 processes, {report.conflicts:,} conflicts told,",
        f"{len(report.swaps):,} swaps served, {report.answers:,} answers over {len(report.generations):,} generations,",
        f"{len(report.lost)} lost, {len(report.mixed)} mixed; p99 {report.p99(swapping=True):.1f} ms within 50 ms of",
        f"a swap, {report.p99(swapping=False):.1f} ms elsewhere",
    ]
    with capsys.disabled():
        sys.stdout.write(f"\n{' '.join(lines)}\n")
    engine.dispose()
