"""Play a frozen policy, its rivals and itself under worse terms over the same windows, and ask every gate.

Replaying recorded windows is valid where a player's orders do not move the prices. Everything is drawn
from one seed: the same inputs give the same examination. Leaves out: pages (report) and commands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from playproof.errors import ConfigError
from playproof.evaluate.rollout import Rollout, RolloutOptions, rollout
from playproof.evaluate.score import Score
from playproof.evaluate.trials import Selection, Trial, record_trial, trial_of, trials, weigh_selection
from playproof.game import Game
from playproof.game.vector_env import ActivityProfile, BatchPolicy, ControlPolicy, ReplayTape, Target
from playproof.notebook import facts_table
from playproof.stats.evidence import Claim, RequiredWindows, e_process, sample_needed
from playproof.stats.metrics import Metrics, measure_all
from playproof.validate import gates
from playproof.validate.gates import RULES, Gate, skipped
from playproof.validate.leaks import altered_events, check_future, fold_rows
from playproof.validate.subject import Subject
from playproof.validate.verdict import Verdict, conclude

if TYPE_CHECKING:
    from sqlalchemy import Engine

Floats = NDArray[np.float64]
STREAM = int.from_bytes(b"valid")
IDLE = "do nothing"
CUTS = 10
"""Moments after which the future is cut, altered and added to."""
TARGET_WINDOWS = 1180
"""Windows on which targets of older plans are measured: 20 stretches of 59."""


@dataclass(frozen=True)
class EvalPlan:
    """On what a policy is examined."""

    source: str | ReplayTape
    """A world, or recorded windows."""
    name: str
    """What the report calls it."""
    data_hash: str
    split: str
    rounds: int
    seed: int = 0
    balance: int | None = None
    ceiling: float | None = None
    """The best expected ROI; None: unknown or withheld."""
    provenance: tuple[Gate, ...] = ()
    """What D1 and D3 said of the data."""
    draws: int = 2000


@dataclass(frozen=True)
class Examination:
    """All that was found, in money per window."""

    subject: Subject
    plan: EvalPlan
    played: Rollout
    rivals: Mapping[str, tuple[str, Rollout]]
    """By name: in words, and what it earned on the same windows."""
    stressed: Mapping[str, Rollout]
    hindsight: NDArray[np.int64] | None
    """Profit of each window that knowing the future would have made; nobody can."""
    metrics: Mapping[str, Metrics]
    selection: Selection
    needed: RequiredWindows
    verdict: Verdict
    targets: tuple[Target, ...] = ()
    """What older plans wanted, each with the score of a dummy."""
    e_logs: Floats = field(default_factory=lambda: np.zeros(0))

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {"verdict": self.verdict.sentence, "windows": len(self.played), "on": self.plan.name}
        facts |= {f"gate {gate.gate}": f"{gate.status}: {gate.finding}" for gate in self.verdict.gates}
        return facts_table(f"{self.subject.name}: {self.verdict.name}", facts)

    @property
    def returns(self) -> Floats:
        """Give the policy's profit per unit reserved, window by window."""
        return self.played.score().returns


Notify = Callable[[str], None]


def examine(
    game: Game,
    subject: Subject,
    plan: EvalPlan,
    engine: Engine,
    now: datetime,
    *,
    reward_gates: Sequence[Gate] = (),
    notify: Notify = lambda _: None,
) -> Examination:
    """Play and judge; the look at the windows is written into the trial ledger before anything is said of it."""
    notify(subject.name)
    played = play_plan(game, subject, plan)
    if subject.stake <= 0 or not len(played):
        raise ConfigError(f"expected windows and a stake above 0, found {len(played)} and {subject.stake}")
    hindsight, idle = _watch(game, subject, plan)
    rivals = _play_rivals(game, subject, plan, played, idle, notify)
    stressed = {
        name: _stressed(game, subject, plan, name, delay, notify) for name, delay in game.defaults.worse.items()
    }
    trial = ledger_trial(subject, plan, played, now, "playproof validate")
    record_trial(engine, trial)
    looks = EvaluationSet(
        played.score(),
        _decisions(played),
        int(played.no_effect.sum()),
        {name: rival.score().returns for name, (_, rival) in rivals.items() if name != IDLE},
        {name: result.score().returns for name, result in stressed.items()},
        weigh_selection(trial, trials(engine), plan.seed),
    )
    before = (
        *plan.provenance,
        look_ahead(game, plan.seed),
        *(reward_gates or (skipped("R1-R5, R8", RULES["R1-R5, R8"], "the policy was not trained on a reward"),)),
        gates.divergence(subject.card.metrics.get("alarms") if subject.card else None),
    )
    verdict, needed = judge(looks, plan.ceiling, plan.seed, before=before, after=(calibrated(subject),))
    shown = {subject.name: looks.score.returns, **{name: rival.score().returns for name, (_, rival) in rivals.items()}}
    return Examination(
        subject=subject,
        plan=plan,
        played=played,
        rivals=rivals,
        stressed=stressed,
        hindsight=hindsight,
        metrics=measure_all(shown, lambda: _draws(plan.seed)),
        selection=looks.selection,
        needed=needed,
        verdict=verdict,
        targets=_targets(game, subject, plan),
        e_logs=e_process(looks.score.returns).logs,
    )


@dataclass(frozen=True)
class EvaluationSet:
    """What a policy did on unseen windows, beside its rivals and under worse terms."""

    score: Score
    decisions: Mapping[str, int]
    """How often each choice was taken."""
    no_effect: int
    others: Mapping[str, Floats]
    """Returns of the rivals that do something."""
    worse: Mapping[str, Floats]
    selection: Selection


def judge(
    looks: EvaluationSet,
    ceiling: float | None,
    seed: int,
    *,
    before: Sequence[Gate] = (),
    after: Sequence[Gate] = (),
    weigh: bool = True,
) -> tuple[Verdict, RequiredWindows]:
    """Ask every gate about money; `weigh` tells whether to find out how many windows would be needed."""
    rng, returns = _draws(seed), looks.score.returns
    intervals = gates.money_intervals(returns, looks.others, rng)
    asked = (
        *before,
        gates.activity(np.asarray(looks.score.opened, np.int64)),
        gates.collapse(looks.decisions, looks.no_effect),
        *gates.money(returns, intervals),
        gates.selection(looks.selection.superior, looks.selection.deflated),
        *gates.robust(returns, looks.worse),
        gates.plausible(returns, ceiling, rng),
        *after,
    )
    claim = Claim(returns, looks.others, looks.worse, looks.selection.deflated.bar)
    needed = sample_needed(claim, rng) if weigh else RequiredWindows(None, 0.0, {})
    return conclude(looks.score, asked, ceiling, needed.windows, intervals[gates.OWN]), needed


def _draws(seed: int) -> np.random.Generator:
    """Draw anew from a seed, so that the same returns have the same interval wherever it is shown."""
    return np.random.default_rng([STREAM, seed])


def play_plan(game: Game, subject: Subject, plan: EvalPlan, options: RolloutOptions | None = None) -> Rollout:
    """Play a policy over a plan's windows, by its own options unless others are given."""
    return rollout(
        game,
        subject.player,
        plan.source,
        plan.rounds,
        plan.seed,
        stake=subject.stake,
        balance=plan.balance,
        name=subject.name,
        options=subject.options if options is None else options,
    )


def ledger_trial(subject: Subject, plan: EvalPlan, played: Rollout, now: datetime, origin: str) -> Trial:
    """Give the look of a policy at a plan's windows as the trial ledger keeps it."""
    return trial_of(
        played.score(),
        family=subject.family,
        policy_hash=subject.policy_hash,
        data_hash=plan.data_hash,
        split=plan.split,
        kind="test",
        now=now,
        origin=origin,
    )


def _stressed(game: Game, subject: Subject, plan: EvalPlan, name: str, delay: int, notify: Notify) -> Rollout:
    notify(f"{subject.name}, {name}")
    return play_plan(game, subject, plan, replace(subject.options, delay=delay))


def habits(played: Rollout) -> ActivityProfile:
    """Tell how a policy played."""
    opened = int(played.opened.sum())
    bet = int(played.staked.sum()) // opened if opened else 0
    held = float(played.in_market.sum()) / opened if opened else 1.0
    return ActivityProfile(played.mix, bet, held, played.stake or 0)


def _rivals(game: Game, played: Rollout) -> Sequence[tuple[str, ControlPolicy]]:
    controls = game.simulated().controls
    return () if controls is None else tuple(controls(habits(played)).items())


def _play_rivals(
    game: Game, subject: Subject, plan: EvalPlan, played: Rollout, idle: Rollout | None, notify: Notify
) -> dict[str, tuple[str, Rollout]]:
    """Play the rivals; two that are the same play once, and who watched for hindsight has done nothing already."""
    result: dict[str, tuple[str, Rollout]] = {}
    known: list[tuple[BatchPolicy, Rollout]] = []
    for name, rival in _rivals(game, played):
        again = next(
            (item for player, item in known if type(player) is type(rival.player) and player == rival.player), None
        )
        if again is None and name == IDLE:
            again = idle
        if again is None:
            notify(name)
            again = play_plan(game, replace(subject, player=rival.player), plan, RolloutOptions())
        known.append((rival.player, again))
        result[name] = (rival.doc, replace(again, name=name))
    return result


def _watch(game: Game, subject: Subject, plan: EvalPlan) -> tuple[NDArray[np.int64] | None, Rollout | None]:
    """Wait through all windows; give what hindsight would have earned, and what waiting did."""
    oracle = game.simulated().hindsight
    if oracle is None:
        return None, None
    watching = oracle()
    idle = play_plan(game, replace(subject, player=watching), plan, RolloutOptions())
    return watching.best(plan.rounds, subject.stake), idle


def _targets(game: Game, subject: Subject, plan: EvalPlan) -> tuple[Target, ...]:
    """Measure what older plans wanted, of the policy and of dummies."""
    targets = game.simulated().targets
    if targets is None:
        return ()
    some = replace(plan, rounds=min(plan.rounds, TARGET_WINDOWS))

    def play(player: BatchPolicy, options: RolloutOptions, windows: int = TARGET_WINDOWS) -> Rollout:
        fewer = replace(some, rounds=min(windows, some.rounds))
        return play_plan(game, replace(subject, player=player), fewer, options)

    return targets(subject.player, subject.options, play)


def _decisions(played: Rollout) -> dict[str, int]:
    return dict(zip(played.choices, played.decisions.sum(axis=0).tolist(), strict=True))


def look_ahead(game: Game, seed: int) -> Gate:
    """D2: do the features that policies see stay when everything after a moment is cut, altered or added?"""
    from playproof.game import NumericObservation

    shown = next((name for name, kind in game.observations.items() if isinstance(kind, NumericObservation)), None)
    if shown is None:
        return skipped("D2", RULES["D2"], "observations are messages")
    rng = np.random.default_rng([STREAM, seed, 2])
    frames = game.recording().sample()
    facts = [fact for of in game.decode(frames) for fact in of]
    events = [fact.event(frames[0].ts, "sample", index) for index, fact in enumerate(facts)]
    cuts = sorted(rng.choice(len(events), size=min(CUTS, len(events)), replace=False).tolist())
    future = check_future(fold_rows(game, shown), events, lambda late: altered_events(late, game.columns, rng), cuts)
    return Gate("D2", future.passed, future.finding, RULES["D2"])


def calibrated(subject: Subject) -> Gate:
    """C1: are the predictor's probabilities better than a constant?"""
    metrics: Mapping[str, Any] = subject.card.metrics if subject.card else {}
    tested = metrics.get("tested")
    if tested is None:
        return skipped("C1", RULES["C1"], "the policy predicts nothing")
    low, high = tested["interval"]
    off = "" if metrics.get("skilled") else "; switched off: it predicts the constant"
    text = f"Brier skill {tested['skill']:+.4f}, {low:+.4f} to {high:+.4f}, on windows it never met{off}"
    return Gate("C1", low > 0 and bool(metrics.get("skilled")), text, RULES["C1"])


def reward_gates(game: Game, subject: Subject, *, search: bool = True) -> tuple[Gate, ...]:
    """R1 to R6 and R8, of the reward that a policy was trained on."""
    from playproof.rewards import check_reward, find_exploits, load_reward

    if subject.card is None:
        return ()
    stamp = subject.card.reward
    if stamp.get("failed_checks"):
        return (
            Gate("R1-R5, R8", False, f"trained on {stamp.get('name')}, which failed its checks", RULES["R1-R5, R8"]),
        )
    if stamp.get("name") not in game.rewards().presets:
        return (skipped("R1-R5, R8", RULES["R1-R5, R8"], f"passed before training: {stamp.get('name')}"),)
    reward = load_reward(game, stamp["name"])
    report = check_reward(game, reward, 0)
    result = (
        "; ".join(f"{finding.check}: {finding.detail}" for finding in report.findings if finding.status == "failed")
        or "all passed"
    )
    checked = Gate("R1-R5, R8", report.passed, result, RULES["R1-R5, R8"])
    if not search:
        return (checked, skipped("R6", RULES["R6"], "not searched"))
    exploits = find_exploits(game, reward, 0)
    worst = exploits.exploits[0].story if exploits.exploits else f"none in {exploits.budget:,} windows"
    return (checked, Gate("R6", exploits.passed, worst, RULES["R6"]))
