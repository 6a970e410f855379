"""Shadow on a live feed: both versions decide on the same rounds of a real socket, settled on paper, paired."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import numpy as np

from playproof.evaluate.rollout import rollout
from playproof.game import load_game
from playproof.games.crash.server.app import RunningServer, ServeConfig
from playproof.money import UNIT
from playproof.operate.experiments.ledger import ExperimentLedger
from playproof.operate.experiments.plan import ExperimentArm, ExperimentPlan, ExperimentUnit
from playproof.store.db import opened, ready
from playproof.validate.examine import load_subject
from playproof.workflows.crash.live_player import SettledRound
from playproof.workflows.crash.shadow import RoundPairs, shadow_rounds

GAME = load_game("crash")


def plan(on: str) -> ExperimentPlan:
    arms = [ExperimentArm(name, hashlib.sha256(name.encode()).hexdigest(), name) for name in ("wait", "hold-40")]
    stake = UNIT // 10
    return ExperimentPlan(
        name="live",
        mode="shadow",
        game="crash",
        a=arms[0],
        b=arms[1],
        loss_limit=stake,
        gain_cap=stake,
        budget=3,
        on=on,
    )


def test_both_are_settled_in_the_same_rounds_of_a_socket(home: Path) -> None:
    """The experiment itself stops the feed when its budget is used; `wait` earns exactly nothing."""
    subjects = [load_subject(GAME, name) for name in ("wait", "hold-40")]

    async def play(server: RunningServer, ledger: ExperimentLedger) -> int:
        registered = ledger.register(plan(server.url)).plan
        stop = asyncio.Event()

        def take(units: list[ExperimentUnit]) -> bool:
            ledger.add("live", units)
            ledger.look("live")
            return ledger.find("live").ended_at is None

        task = asyncio.create_task(shadow_rounds(registered, *subjects, take, stop))
        while not task.done():
            await asyncio.to_thread(server.step, 20)
            await asyncio.sleep(0.001)
        return task.result()

    config = ServeConfig(port=0, seed=12, manual=True)
    with RunningServer(config) as server, opened(home) as engine:
        ledger = ExperimentLedger(ready(engine))
        asyncio.run(asyncio.wait_for(play(server, ledger), 240))
        units = ledger.units("live")
        assert ledger.find("live").ending == "budget used"
    assert len(units) == len({unit.unit for unit in units}) == 3
    assert all(unit.pnl_a == 0 for unit in units)
    assert any(unit.pnl_b for unit in units)


def settled(window: str, pnl: int, complete: bool = True) -> SettledRound:
    return SettledRound(window, pnl, 1, 1, 1, UNIT, 0, UNIT, complete)


def test_rounds_pair_whoever_settles_first_and_torn_ones_do_not_count() -> None:
    pairs = RoundPairs()
    assert pairs.add(0, settled("w1", 5)) is None
    assert pairs.add(1, settled("w1", 7)) == ExperimentUnit("w1", 5, 7)
    assert pairs.add(1, settled("w2", 1)) is None
    assert pairs.add(1, settled("w3", 2)) is None
    assert pairs.add(0, settled("w3", 3)) == ExperimentUnit("w3", 3, 2)
    assert pairs.add(0, settled("w2", 9, complete=False)) is None
    assert pairs.left_out == 1


def test_the_limit_is_kept_by_the_environment() -> None:
    """What the plan says a window can lose is what the environment enforces: the stake."""
    stake = UNIT // 100
    subject = load_subject(GAME, "random", stake=stake)
    played = rollout(GAME, subject.player, "published", 512, 1, stake=stake, options=subject.options)
    assert int(np.min(played.pnl)) >= -stake
