"""Play recorded rounds again in the environment, with the policy that played them live.

What the site shows of itself (bystanders, statistics of past rounds) the environment draws on its own; here it is
taken from the feed, so that the policy sees in both what was really there. All else is the environment's: prices of
the tape, money, masks, clocks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from playproof.errors import ContractError, InputError
from playproof.events import Event
from playproof.game.vector_env import MaskedPolicy, VectorTerms
from playproof.games.crash.features.table import OBSERVATIONS
from playproof.games.crash.sim.lanes import COMPILED_SETS
from playproof.games.crash.sim.vector_env import CrashVectorGame, tape_of
from playproof.validate.examine import Subject
from playproof.workflows.crash.live_player import STREAM, LiveDecision, Row, SettledRound

SITE = (
    *("connected_players", "rugpool_amount", "rugpool_threshold", "instarug_count", "rugpool_ratio"),
    *("average_multiplier", "count_2x", "count_10x", "count_50x", "count_100x", "highest_today", "game_id_hash"),
)
"""Features that the site shows of itself."""


@dataclass(frozen=True)
class EnvironmentRound:
    """One round as the environment played it."""

    window_id: str
    actions: tuple[tuple[int, ...], ...]
    observations: tuple[Row, ...]
    pnl: int
    opened: int


def environment_round(
    subject: Subject,
    events: Sequence[Event],
    decisions: Sequence[LiveDecision],
    settled: SettledRound,
    *,
    world: str = "published",
    seed: int = 0,
    executed: Sequence[tuple[int, ...]] | None = None,
) -> EnvironmentRound:
    """Play one recorded round; `events` are the round's ticks, `decisions` give what the site showed.

    The policy decides anew from the environment's observations; it is not told what was decided live. Where a gate or
    a venue let less be done than was decided, `executed` says what was carried out at each step.
    """
    options = subject.options
    observation, actions = options.observation or "policy", options.actions or "buttons"
    if observation not in COMPILED_SETS:
        raise InputError(f"expected observation {' or '.join(COMPILED_SETS)} to compare, found {observation!r}")
    if not settled.complete:
        raise InputError(f"expected a whole round to play again, found {settled.window_id} incomplete; leave it out")
    terms = VectorTerms(
        tape_of([(settled.window_id, events)]),
        (seed,),
        observation,
        actions,
        clock=options.clock or None,
        balance=settled.first_cash,
        stake=subject.stake,
        options={"first_bet": settled.first_bet, "world": world},
    )
    lanes, player = CrashVectorGame(terms, 1), _SiteOverlay(subject, decisions, observation)
    state = subject.player.start(1, _window_rng(seed, settled.window_id))
    rows = lanes.start()
    chosen: list[tuple[int, ...]] = []
    seen: list[Row] = []
    while True:
        row = player.overlay(rows[0], len(chosen))
        action = _choose(subject, lanes, row, state)
        seen.append(row)
        chosen.append(tuple(action[0].tolist()))
        done = executed[len(chosen) - 1] if executed is not None and len(chosen) <= len(executed) else None
        moved = lanes.step(action if done is None else np.array([done], np.int64))
        rows = moved.rows
        if len(moved.ended.lanes):
            pnl, opened = int(moved.ended.pnl[0]), int(moved.ended.opened[0])
            return EnvironmentRound(settled.window_id, tuple(chosen), tuple(seen), pnl, opened)


def _choose(subject: Subject, lanes: CrashVectorGame, row: Row, state: Any) -> Any:
    player: Any = subject.player
    if isinstance(player, MaskedPolicy):
        return lanes.settle(np.array(player.act_masked(row[None, :], lanes.masks(), state), np.int64))
    return np.array(player.act(row[None, :], state), np.int64)


def _window_rng(seed: int, window: str) -> np.random.Generator:
    return np.random.default_rng([STREAM, seed, int(hashlib.sha256(window.encode()).hexdigest()[:12], 16)])


class _SiteOverlay:
    """Lay what the site showed over the environment's rows."""

    def __init__(self, subject: Subject, decisions: Sequence[LiveDecision], observation: str) -> None:
        names = OBSERVATIONS[observation].features
        self._columns = [index for index, name in enumerate(names) if name in SITE]
        self._shown = [decision.observation for decision in decisions]
        if not self._shown:
            raise ContractError(f"expected decisions of {subject.name}, found none")

    def overlay(self, row: Row, step: int) -> Row:
        """Give the row of a step as the feed showed it."""
        shown = self._shown[min(step, len(self._shown) - 1)]
        result = row.copy()
        result[self._columns] = shown[self._columns]
        return result
