"""Clauses about what play brings: the ledger, rewards, labels, baselines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from playproof.events import Event
from playproof.game.checks.case import Anything, ConstantPolicy, GameCase, misfits
from playproof.game.game import Game
from playproof.game.types import WAIT, AccountSnapshot, Action, Baseline, EpisodeRecord, Fact, Ledger, Terms

_SEEDS = range(4)


def check_ledger(case: GameCase) -> Iterator[str]:
    """Money is in integers and conserved, WAIT changes nothing, and a window loses no more than its stake."""
    for name in case.game.actions:
        for seed in _SEEDS:
            yield from (f"{name}: {what}" for what in _audited(case, name, seed))


def _audited(case: GameCase, name: str, seed: int) -> list[str]:
    """Play the sample at random with watched ledgers, every other time with a stake of a tenth of the money."""
    actions, audits = case.game.actions[name], list[Audit]()
    stake = max(1, case.game.recording().ledger(Terms(name)).standing().cash // 10) if seed % 2 else None

    def watched(terms: Terms) -> Ledger:
        audits.append(Audit(case.game, replace(terms, stake=stake)))
        return audits[-1]

    case.play(lambda window: Anything(actions, np.random.default_rng([seed, window])), name, ledger=watched)
    return [what for audit in audits for what in audit.breaches]


class Audit:
    """A ledger that watches another one and notes every breach."""

    def __init__(self, game: Game, terms: Terms) -> None:
        self.game, self.terms, self.wait = game, terms, game.actions[terms.actions].wait
        self.ledger = game.recording().ledger(terms)
        self.total, self.start = self.ledger.total, self.ledger.standing()
        self.breaches: list[str] = []
        if self.start.equity != self.start.cash:
            self.breaches.append(f"expected equity to be cash at the start, found {self.start}")

    def standing(self) -> AccountSnapshot:
        """Pass the question on."""
        return self.ledger.standing()

    def apply_world(self, event: Event) -> tuple[Fact, ...]:
        """Pass an event on and look at the books."""
        return self._watched(lambda: self.ledger.apply_world(event), f"seeing {event.event_name!r}")

    def act(self, action: Action) -> tuple[Fact, ...]:
        """Pass an action on and look at the books."""
        before = self.ledger.standing()
        watched = self._watched(lambda: self.ledger.act(action), f"acting {action!r:.60}")
        after = self.ledger.standing()
        moved = (after.cash, after.equity, after.opened) != (before.cash, before.equity, before.opened)
        if action == self.wait and (watched or moved):
            self.breaches.append(f"expected {WAIT} to change nothing, found {before} become {after}")
        elif moved and not watched:
            self.breaches.append(f"expected the player to be told when money moves, found {action!r:.60} silent")
        return watched

    def _watched(self, call: Callable[[], tuple[Fact, ...]], what: str) -> tuple[Fact, ...]:
        payload = call()
        now, total = self.ledger.standing(), self.ledger.total
        amounts = {"cash": now.cash, "equity": now.equity, "total": total}
        self.breaches += [
            f"expected {name} in integers, found {amount!r}"
            for name, amount in amounts.items()
            if type(amount) is not int
        ]
        if total != self.total:
            self.breaches.append(f"expected {self.total} in all, found {total} after {what}")
        if now.cash < 0:
            self.breaches.append(f"expected cash of at least 0, found {now.cash} after {what}")
        lost = self.start.equity - now.equity
        if self.terms.stake is not None and lost > self.terms.stake:
            self.breaches.append(f"expected at most the stake {self.terms.stake} to be lost, found {lost} after {what}")
        self.breaches += [text for fact in payload for text in misfits(self.game, fact)]
        return payload


def check_rewards(case: GameCase) -> Iterator[str]:
    """Rewards give finite values, the same every time, one a step; WAIT throughout earns 0 beside the benchmark."""
    for name in case.game.actions:
        idle, busy = _idle(case, name), _busy(case, name)
        for episode in (*idle, *busy):
            yield from (f"{name}: {what}" for what in _misrewarded(case.game, episode))
        for episode in idle:
            yield from (f"{name}: {what}" for what in _unearned(case.game, episode))
        yield from (f"{name}: {what}" for what in _bent(case.game, idle, busy))


def _idle(case: GameCase, actions: str) -> list[EpisodeRecord]:
    """Play the sample with nothing but WAIT."""
    return case.play(lambda _: ConstantPolicy(case.game.actions[actions].wait), actions)


def _busy(case: GameCase, actions: str) -> list[EpisodeRecord]:
    """Play the sample at random."""
    return case.play(lambda window: Anything(case.game.actions[actions], np.random.default_rng(window)), actions)


def _misrewarded(game: Game, episode: EpisodeRecord) -> Iterator[str]:
    """Tell what is wrong with the form of an episode's rewards."""
    if episode.outcome is None:
        return
    for reward in game.rewards().presets.values():
        parts = reward.compute(episode.steps, episode.outcome)
        for part, values in parts.items():
            if len(values) != len(episode.steps):
                yield f"{reward.name}.{part}: expected {len(episode.steps)} values, found {len(values)}"
            if not all(math.isfinite(value) for value in values):
                yield f"{reward.name}.{part}: expected finite values, found others"
        if reward.compute(episode.steps, episode.outcome) != parts:
            yield f"{reward.name}: expected the same rewards for the same steps, found others the second time"


def _unearned(game: Game, episode: EpisodeRecord) -> Iterator[str]:
    """Tell which components pay, or cost, for doing nothing."""
    if episode.outcome is None:
        return
    for reward in game.rewards().presets.values():
        for part, values in reward.compute(episode.steps, episode.outcome).items():
            if any(values) and part != reward.benchmark:
                yield f"{reward.name}.{part}: expected 0 for an episode of {WAIT}, found other values"


def _bent(game: Game, idle: Sequence[EpisodeRecord], busy: Sequence[EpisodeRecord]) -> Iterator[str]:
    """Tell which benchmarks are no component, or change with what the player does."""
    for reward in game.rewards().presets.values():
        if reward.benchmark is not None and reward.benchmark not in reward.components:
            yield f"{reward.name}: expected the benchmark to be a component, found {reward.benchmark!r}"
            continue
        for one, other in zip(idle, busy, strict=True):
            if reward.benchmark is None or one.outcome is None or other.outcome is None:
                continue
            parts = [
                reward.compute(item.steps, item.outcome)[reward.benchmark] for item in (one, other) if item.outcome
            ]
            if sum(parts[0]) != sum(parts[1]):
                yield f"{reward.name}: expected the same benchmark whatever is done, found it changed by actions"


def check_labels(case: GameCase) -> Iterator[str]:
    """Labels look at least one step ahead, and are finite or undefined."""
    outcome, decides = case.game.recording().outcome, case.game.recording().decides
    for label in case.game.labels.values():
        if label.horizon < 1:
            yield f"{label.name}: expected a horizon of at least 1, found {label.horizon}"
        results: list[float | None] = []
        for events in case.windows.values():
            known = outcome(events)
            if known is not None:
                results += [label.value(known, event) for event in events if decides(event)]
        if all(value is None for value in results):
            yield f"{label.name}: expected a value somewhere in the sample, found none"
        if not all(math.isfinite(value) for value in results if value is not None):
            yield f"{label.name}: expected finite values, found others"


def check_baselines(case: GameCase) -> Iterator[str]:
    """Baselines act within their action set, alike for the same seed; one of them is `wait`."""
    game = case.game
    if "wait" not in game.baselines:
        yield f"expected a baseline called wait, found {', '.join(game.baselines) or 'none'}"
    for name, baseline in game.baselines.items():
        if baseline.observation not in game.observations or baseline.actions not in game.actions:
            yield f"{name}: expected known sets, found {baseline.observation!r} and {baseline.actions!r}"
            continue
        actions, chosen = game.actions[baseline.actions], _chosen(case, baseline)
        outside = [action for action in chosen if not actions.holds(action)]
        if outside:
            yield f"{name}: expected actions of {baseline.actions!r}, found {outside[0]!r:.80}"
        elif name == "wait" and not all(actions.waits(action) for action in chosen):
            yield f"wait: expected nothing but {WAIT}, found another action"
        if _chosen(case, baseline) != chosen:
            yield f"{name}: expected the same actions for the same seed, found others"


def _chosen(case: GameCase, baseline: Baseline) -> list[Action]:
    """Give what a baseline chooses over the sample."""
    make = baseline.make
    episodes = case.play(
        lambda window: make(np.random.default_rng([7, window])), baseline.actions, baseline.observation
    )
    return [step.action for episode in episodes for step in episode.steps]
