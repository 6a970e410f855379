"""Play a frozen policy, its rivals and itself under worse terms over the same windows, and ask every gate.

A subject is named by a checkpoint's folder, by the name of a baseline of the game, or by "module:attribute", which
gives a batch policy of one's own. A plan is the windows of a world, or the recorded ones of a data set; replaying those
is valid where a player's orders do not move the prices. Everything is drawn from one seed: the same inputs give the
same examination.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from playproof.errors import ConfigError, UnknownName
from playproof.evaluate.rollout import Rollout, RolloutOptions, Score, rollout
from playproof.evaluate.trials import Selection, Trial, record_trial, trial_of, trials, weigh_selection
from playproof.game import Game, first, lookup
from playproof.game.vector_env import ActivityProfile, BatchPolicy, ControlPolicy, ReplayTape, Target
from playproof.notebook import facts_table
from playproof.policies.checkpoint import CARD, Card, load_checkpoint, load_policy
from playproof.policies.ensemble import batch_player
from playproof.policies.network import BatchPlayer
from playproof.stats.evidence import Claim, RequiredWindows, e_process, sample_needed
from playproof.stats.metrics import Metrics, measure_all
from playproof.validate import gates
from playproof.validate.causality import causality
from playproof.validate.gates import RULES, Gate, Verdict, conclude, skipped
from playproof.validate.leaks import altered_events, check_future, fold_rows

if TYPE_CHECKING:
    from sqlalchemy import Engine


@dataclass(frozen=True)
class Subject:
    """A policy that is not going to change any more."""

    name: str
    player: BatchPolicy
    policy_hash: str
    family: str
    """What it was chosen among: the trial ledger counts its relatives."""
    stake: int
    options: RolloutOptions = field(default_factory=RolloutOptions)
    card: Card | None = None
    """None for what was never trained."""


def load_subject(game: Game, what: str, *, stake: int | None = None, sample: bool = False) -> Subject:
    """Find a policy by its checkpoint's folder, a baseline's name or "module:attribute"."""
    path = Path(what)
    if (path / CARD).exists():
        return from_checkpoint(game, path, stake, sample)
    if ":" in what and not path.exists():
        return _own(what, stake or game.defaults.stake)
    result = game.baselines.get(what)
    if result is None:
        raise UnknownName("policy (a checkpoint's folder, module:attribute, or baseline)", what, game.baselines)
    if result.batch is None:
        raise ConfigError(f"expected a baseline that plays many lanes, found {what!r}, which does not")
    identity = hashlib.sha256(f"{game.name} {game.version} baseline {what}".encode()).hexdigest()
    options = RolloutOptions(result.observation, result.actions)
    return Subject(what, result.batch(), identity, f"baseline {what}", stake or game.defaults.stake, options)


def from_checkpoint(game: Game, path: Path, stake: int | None = None, sample: bool = False) -> Subject:
    """Read a checkpoint; its card gives stake, clock, actions and observation."""
    checkpoint = load_checkpoint(path, game)
    card = checkpoint.card
    if stake is not None and stake != card.stake:
        raise ConfigError(
            f"expected the stake that the policy's file fixes, {card.stake}, found {stake}; leave --stake out"
        )
    policy: Any = load_policy(path, game)
    chance = sample or card.method == "bc"
    player = BatchPlayer(policy, sample=chance) if hasattr(policy, "act_batch") else batch_player(path, game)
    options = RolloutOptions(card.observation, card.actions, card.clock or None)
    family = f"{card.game} {card.method} {card.data_hash or card.world or ''}".strip()
    name = f"{card.method} {path.name}" if card.method not in path.name else path.name
    return Subject(name, player, checkpoint.hash, family, card.stake, options, card)


def _own(what: str, stake: int) -> Subject:
    """Import a batch policy, or a function that makes one; its source is its identity."""
    module, _, attribute = what.partition(":")
    try:
        result = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"expected a policy at {what!r}, found: {error}") from error
    player = result() if callable(result) else result
    try:
        source = inspect.getsource(import_module(module))
    except OSError:
        source = what
    identity = hashlib.sha256(f"{what}\n{source}".encode()).hexdigest()
    options = getattr(player, "options", RolloutOptions())
    return Subject(attribute, player, identity, what, stake, options)


Floats = NDArray[np.float64]
STREAM = int.from_bytes(b"valid")
IDLE = "do nothing"
SAMPLED = datetime(2025, 1, 15, 12, tzinfo=UTC)
"""When the facts of a game's sample are taken to have come, all at once: D2 asks for their order alone."""
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
    ceiling_reason: str = ""
    """Why recorded windows are held to it, or are not."""
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


def stake_returns(examination: Examination) -> dict[str, float | None]:
    """Give for each player the profit per unit that it staked, which is what a trader calls a return.

    The ROI of gates is per unit reserved, staked or not: only that is fixed before a window starts. None: no stake.
    """
    players = {examination.subject.name: examination.played}
    players |= {name: rival for name, (_, rival) in examination.rivals.items()}
    return {
        name: float(played.pnl.sum() / played.staked.sum()) if played.staked.sum() else None
        for name, played in players.items()
    }


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
        causality(game, subject, plan.source, plan.rounds, plan.seed, plan.balance),
        *(reward_gates or (skipped("R1-R5, R8", RULES["R1-R5, R8"], "the policy was not trained on a reward"),)),
        gates.divergence(subject.card.metrics.get("alarms") if subject.card else None),
    )
    verdict, needed = judge(
        looks, plan.ceiling, plan.seed, before=before, after=(calibrated(subject),), ceiling_reason=plan.ceiling_reason
    )
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
    ceiling_reason: str = "",
) -> tuple[Verdict, RequiredWindows]:
    """Ask every gate about money; `weigh` tells whether to find out how many windows would be needed."""
    rng, returns = _draws(seed), looks.score.returns
    intervals = gates.money_intervals(returns, looks.others, rng)
    asked = (
        *before,
        gates.activity(np.asarray(looks.score.opened, np.int64)),
        gates.collapse(looks.decisions, looks.no_effect, intervals[gates.OWN][0]),
        *gates.money(returns, intervals),
        gates.selection(looks.selection.chosen, looks.selection.deflated),
        *gates.robust(returns, looks.worse),
        gates.plausible(returns, ceiling, rng, ceiling_reason),
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
    recording = game.recording()
    facts = recording.facts() if recording.facts else [fact for of in game.decode(recording.sample()) for fact in of]
    events = [fact.event(SAMPLED, "sample", index) for index, fact in enumerate(facts)]
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
    if not stamp.get("name"):
        return (skipped("R1-R5, R8", RULES["R1-R5, R8"], "its card names no reward: it was not trained on one"),)
    if stamp["name"] not in game.rewards().presets:
        return (skipped("R1-R5, R8", RULES["R1-R5, R8"], f"passed before training: {stamp['name']}"),)
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


def world_plan(game: Game, world: str | None, rounds: int | None, seed: int) -> EvalPlan:
    """Plan a simulation."""
    name = world or first(game.worlds)
    lookup(game.worlds, name, "world")
    windows = rounds or game.defaults.windows
    identity = hashlib.sha256(f"{game.name} {game.version} {name} {seed} {windows}".encode()).hexdigest()
    about = Gate("D3", True, f"the claim is about the simulated world {name!r} alone", RULES["D3"])
    split = skipped("D1", RULES["D1"], "simulated windows that no training saw: their seeds are kept apart")
    return EvalPlan(
        name,
        f"world {name}, {windows:,} windows",
        identity,
        "test",
        windows,
        seed,
        ceiling=game.simulated().ceiling(name),
        provenance=(split, about),
    )


def data_plan(game: Game, data: str, split: str, rounds: int | None, seed: int) -> EvalPlan:
    """Plan a replay of recorded windows."""
    from playproof.datasets import open_dataset
    from playproof.datasets.registry import find_dataset
    from playproof.validate.recorded_windows import data_gates, label_gate, recorded_tape, verified_ceiling

    dataset = open_dataset(find_dataset(data))
    tape = recorded_tape(game, dataset, split)
    windows = min(rounds or len(tape), len(tape))
    manifest: Any = dataset.manifest
    ceiling, why = verified_ceiling(game, dataset, seed)
    return EvalPlan(
        tape,
        f"data set {manifest['name']}, split {split}, {windows:,} recorded windows",
        manifest["hash"],
        split,
        windows,
        seed,
        ceiling=ceiling,
        ceiling_reason=why,
        provenance=(*data_gates(game, dataset), label_gate(game, dataset, seed)),
    )
