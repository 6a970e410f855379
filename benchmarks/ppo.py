"""Measure PPO where theory knows the best: profit, time against the plan's set-up, and how fast its policy acts.

| section | shows |
|---|---|
| edge | share of the best stationary policy's profit on fresh windows, three seeds |
| clone | that a clone goes on learning: never below itself, and to nine tenths of the best in half the steps |
| null | that PPO learns not to play, or that its return holds 0 with ever smaller stakes, three seeds |
| speed | time of learning, evaluations left out, until a fixed profit, here and as the plan had it |
| latency | time from a row, and from an event, to an action; beside stable-baselines3's predict |

Times of learning are those of the processor, one thread: on an idle machine they are those of the clock.

The game is the installed one that knows the best policies of its worlds. Leaves out: other methods.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import Goal, Measurement
from playproof.cli.output import note
from playproof.evaluate.rollout import Rollout, rollout
from playproof.game import Game, NumericObservation, first
from playproof.games.crash.game import crash_game
from playproof.games.crash.players.optimum import best_policy
from playproof.home import folder
from playproof.money import UNIT
from playproof.policies.checkpoint import CARD, load_policy, save_checkpoint
from playproof.policies.network import BatchPlayer
from playproof.policies.scaling import scale_rows
from playproof.provenance import commit
from playproof.train.ppo.config import PPOConfig, fine_tuned, plan_preset
from playproof.train.ppo.loop import VALIDATION, TrainSetup, build, weights_of
from playproof.train.ppo.loop import PPOResult as Trained
from playproof.train.ppo.restarts import PLAN, discarded, discarded_steps, train_best
from playproof.train.run import CONFIG, RESULT, read_config, read_log

EDGE, NULL = "drift", "published"
"""The worlds: one whose best stationary policy is known, and one in which nothing wins."""
SEEDS = (51, 52, 53)
"""Seeds that no setting was chosen by."""
SHARE_GOAL = 0.9
FASTER_GOAL = 10.0
NETWORK_GOAL, BUILDER_GOAL = 50.0, 200.0
"""Microseconds to an action, at the median."""
CLONED = 40
"""Windows that a clone learns from: few, so that something is left to learn (a hundred leave a thousandth)."""
FRESH = 900_001
"""Seed of the windows that scores are measured on; training and validation never see them."""
WINDOWS = 8192
STAKE = UNIT // 2
"""Reserved for a window: well above the cap on open cost, so that only blunders touch it."""
TARGET = 0.02
"""Coins a window to which the race is run: a bit more than half of the best."""
STEPS = 6_000_000
EVERY = 15
"""Rollouts between evaluations."""
SURE = 2.576
"""Standard errors of a 99 % interval."""

Found = tuple[list[Measurement], list[Goal]]


def known_game() -> Game:
    """Give the installed game that knows its best policies."""
    return crash_game()


def configuration(game: Game, world: str, seed: int, quick: bool) -> PPOConfig:
    """Give the training that is measured: the defaults, in one world."""
    config = PPOConfig(
        game=game.name, worlds=((world, 1.0),), seed=seed, steps=STEPS, stake=STAKE, evaluate_every=EVERY
    )
    if not quick:
        return config
    return replace(config, lanes=64, rollout=16, batch=512, steps=4096, evaluate_windows=32)


def trained(name: str, game: Game, config: PPOConfig, source: Path | None = None) -> Trained:
    """Train, or go on with a training of this bench that was interrupted."""
    path = _place(name, config, source)
    resume = (path / CONFIG).exists() or (path / PLAN).exists()

    def show(step: int, payload: Any) -> None:
        if "pnl" in payload:
            note(f"  {name}: {step:,} steps, {payload['seconds']:.0f} s, {payload['pnl'] / UNIT:+.5f} coins a window")

    return train_best(game, config, path, source=source, resume=resume, show=show, clock=time.process_time)


def _place(name: str, config: PPOConfig, source: Path | None = None) -> Path:
    return folder("runs") / "bench-train" / f"{name}-{_fingerprint(config, source)}"


def _fingerprint(config: PPOConfig, source: Path | None) -> str:
    """Tell trainings of other settings, or from another policy, apart."""
    payload = json.dumps([asdict(config), source and source.as_posix()], sort_keys=True, default=str)
    return hashlib.sha256(payload.encode()).hexdigest()[:8]


def fresh(game: Game, path: Path, world: str, windows: int) -> Rollout:
    """Play a checkpoint greedily over windows that its training has not seen."""
    policy = load_policy(path, game)
    return rollout(game, BatchPlayer(policy), world, windows, FRESH, stake=STAKE)  # type: ignore[arg-type]


def tag(config: PPOConfig, quick: bool) -> str:
    """Name a training of the bench."""
    return f"{'quick-' if quick else ''}{config.world}-{config.preset}-{config.seed}"


def edge(quick: bool) -> Found:
    """Measure PPO against the best stationary policy, on the same fresh windows."""
    game, windows = known_game(), 64 if quick else WINDOWS
    best = rollout(game, best_policy(EDGE), EDGE, windows, FRESH, stake=STAKE)
    results = [Measurement("best stationary policy", best.pnl.mean() / UNIT, "coins a window")]
    shares = []
    for seed in SEEDS:
        config = configuration(game, EDGE, seed, quick)
        done = trained(tag(config, quick), game, config)
        assert done.best is not None
        result = fresh(game, done.best, EDGE, windows)
        shares.append(float(result.pnl.sum() / best.pnl.sum()))
        results += [
            Measurement(f"PPO in {EDGE}, seed {seed}: share of the best profit", shares[-1], ""),
            Measurement(f"PPO in {EDGE}, seed {seed}: profit", result.pnl.mean() / UNIT, "coins a window"),
            Measurement(f"PPO in {EDGE}, seed {seed}: time of learning", _learning(done), "CPU s"),
        ]
    return results, [Goal.at_least(f"PPO's share of the best profit in {EDGE}, worst seed", min(shares), SHARE_GOAL)]


def null(quick: bool) -> Found:
    """Measure what PPO does where nothing wins: the last policy, since that is where it ends."""
    game, windows = known_game(), 64 if quick else WINDOWS
    results, honest = [], []
    for seed in SEEDS:
        config = configuration(game, NULL, seed, quick)
        done = trained(tag(config, quick), game, config)
        table = TrainSetup.from_config(game, config)
        policy = table.policy(done.weights)
        result = rollout(game, BatchPlayer(policy), NULL, windows, FRESH, stake=STAKE)
        low, high = interval(result)
        most, last = stakes(done.path)
        honest.append(result.opened.sum() == 0 or (low <= 0.0 <= high and last < most))
        results += [
            Measurement(f"PPO in {NULL}, seed {seed}: positions a window", float(result.opened.mean()), ""),
            Measurement(f"PPO in {NULL}, seed {seed}: return on the stake, lower bound", low, ""),
            Measurement(f"PPO in {NULL}, seed {seed}: return on the stake, upper bound", high, ""),
            Measurement(f"PPO in {NULL}, seed {seed}: staked at most", most / UNIT, "coins a window"),
            Measurement(f"PPO in {NULL}, seed {seed}: staked at last", last / UNIT, "coins a window"),
        ]
    return results, [Goal.at_least(f"seeds that end not playing in {NULL}, or at 0 with less at stake",
                                   float(sum(honest)), float(len(SEEDS)))]  # fmt: skip


def clone(quick: bool) -> Found:
    """Go on from a clone of the best policy: in half the steps, and never below the clone on the same windows."""
    game, windows = known_game(), 64 if quick else WINDOWS
    best = rollout(game, best_policy(EDGE), EDGE, windows, FRESH, stake=STAKE)
    origin = cloned(game, 12 if quick else CLONED)
    start = float(fresh(game, origin, EDGE, windows).pnl.sum() / best.pnl.sum())
    results = [Measurement(f"clone of {CLONED} windows in {EDGE}: share of the best profit", start, "")]
    shares, falls, halves = [], [], []
    for seed in SEEDS:
        scratch = configuration(game, EDGE, seed, quick)
        config = fine_tuned(replace(scratch, steps=scratch.steps // 2), origin, game)
        done = trained(f"{tag(config, quick)}-clone", game, config, origin)
        assert done.best is not None
        shares.append(float(fresh(game, done.best, EDGE, windows).pnl.sum() / best.pnl.sum()))
        falls.append(_deepest_fall(done.path))
        if not (_place(tag(scratch, quick), scratch) / RESULT).exists():
            trained(tag(scratch, quick), game, scratch)
        alone = _steps_to(_place(tag(scratch, quick), scratch), game, scratch)
        taken, begun = _steps_to(done.path, game, config), (scratch.steps + discarded_steps(scratch)) - scratch.steps
        halves.append(taken / (alone + begun))
        named = f"PPO from a clone in {EDGE}, seed {seed}"
        results += [
            Measurement(f"{named}: share of the best profit", shares[-1], ""),
            Measurement(f"{named}: lowest evaluation against the clone's", falls[-1], "standard errors"),
            Measurement(f"{named}: steps to {SHARE_GOAL} of the best", taken, "steps"),
            Measurement(f"the same from scratch, seed {seed}", alone + begun, "steps"),
            Measurement(f"of these in beginnings that were given up, seed {seed}", begun, "steps"),
        ]
    return results, [
        Goal.at_least(f"PPO's share of the best profit in {EDGE} from a clone, worst seed", min(shares), SHARE_GOAL),
        Goal.at_least("lowest evaluation against the clone's, standard errors, worst seed", min(falls), -SURE),
        Goal.at_most(f"steps to {SHARE_GOAL} of the best over those from scratch, worst seed", max(halves), 0.5),
    ]


def cloned(game: Game, rounds: int) -> Path:
    """Clone the best policy from few windows of its play, or give the clone that there is."""
    from playproof.train.bc import card_of
    from playproof.train.bc import clone as imitate
    from playproof.train.config import BcConfig
    from playproof.train.demonstrations import DemonstrationConfig, demonstrate

    path = folder("runs") / "bench-train" / f"clone-{rounds}"
    if (path / CARD).exists():
        return path
    observation, actions = first(game.observations), first(game.actions)
    steps = demonstrate(game, best_policy(EDGE), EDGE, rounds, 1, DemonstrationConfig(stake=STAKE))
    settings = BcConfig(activation="relu", exclusive=False, learning_rate=2e-3)
    made = imitate(game, steps, settings, observation=observation, actions=actions)
    card = card_of(game, made, observation=observation, actions=actions, clock="tick", stake=STAKE, data_hash=None,
                   world=EDGE, commit=commit(), metrics={})  # fmt: skip
    save_checkpoint(path, card, made.weights)
    return path


def _deepest_fall(path: Path) -> float:
    """Give the lowest paired difference between an evaluation and the first policy, in its standard errors."""
    notes = [note for note in read_log(path) if note["kind"] == "evaluation"]
    return min((note["gain"] / note["gain_se"] for note in notes if note["gain_se"] > 0), default=0.0)


def _steps_to(path: Path, game: Game, config: PPOConfig) -> float:
    """Give the step of the first evaluation at nine tenths of the best profit on its windows; at worst the last."""
    own = read_config(path)["config"]["seed"]  # of the beginning that went on
    seed, windows = own + VALIDATION, config.evaluate_windows
    best = rollout(game, best_policy(EDGE), EDGE, windows, seed, stake=STAKE).pnl.mean()
    notes = [note for note in read_log(path) if note["kind"] == "evaluation"]
    return float(next((note["step"] for note in notes if note["pnl"] >= SHARE_GOAL * best), notes[-1]["step"]))


def _learning(done: Trained) -> float:
    """Give the time of learning, that of the beginnings which were given up included."""
    return done.progress.seconds + sum(item.seconds for item in discarded(done.path))


def interval(result: Rollout) -> tuple[float, float]:
    """Give the 95 % interval of the return on the reserved stake."""
    assert result.stake is not None
    returns = result.pnl / result.stake
    error = 1.96 * float(returns.std(ddof=1)) / math.sqrt(len(returns))
    return float(returns.mean()) - error, float(returns.mean()) + error


def stakes(path: Path) -> tuple[float, float]:
    """Give what was staked a validation window when the training had just begun, and at its end."""
    staked = [note["staked"] for note in read_log(path) if note["kind"] == "evaluation"]
    return max(staked), staked[-1]


def speed(quick: bool) -> Found:
    """Race to a fixed profit against the plan's set-up; the plan is stopped when it is too late to win."""
    game = known_game()
    target = -1.0 if quick else TARGET
    ours = replace(configuration(game, EDGE, 11, quick), until=target, evaluate_every=4, restarts=1)
    fast = _reached(trained(f"{tag(ours, quick)}-race", game, ours))
    plan = replace(plan_preset(configuration(game, EDGE, 11, quick)), until=target, steps=10**9)
    if quick:
        plan = replace(plan, rollout=64, batch=64, epochs=1, evaluate_windows=32)
    slow, came = _plan_time(game, plan, FASTER_GOAL * 1.05 * fast)
    results = [
        Measurement(f"time of learning to {TARGET} coins a window in {EDGE}", fast, "CPU s"),
        Measurement("the same as the plan had it" + ("" if came else ", stopped before it came there"), slow, "CPU s"),
    ]
    return results, [
        Goal.at_least(f"faster to {TARGET} coins a window than the plan's set-up", slow / fast, FASTER_GOAL)
    ]


def _reached(done: Trained) -> float:
    """Give the time of learning to the wanted profit; infinite where it was not reached."""
    return done.progress.reached["seconds"] if done.progress.reached else math.inf


def _plan_time(game: Game, config: PPOConfig, longest: float) -> tuple[float, bool]:
    """Learn as the plan had it until the wanted profit or the end of patience; give the time, and whether it came."""
    table = TrainSetup.from_config(game, config)
    model, _ = build(table)
    spent = 0.0
    while spent < longest:
        start = time.process_time()
        model.learn(config.lanes * config.rollout, reset_num_timesteps=False)
        spent += time.process_time() - start
        result = table.evaluate(table.policy(weights_of(model)), config.world)
        note(f"  plan: {model.num_timesteps:,} steps, {spent:.0f} s, {result.pnl.mean() / UNIT:+.5f} coins a window")
        if config.until is not None and result.pnl.mean() / UNIT >= config.until:
            return spent, True
    return spent, False


def microseconds(act: Callable[[int], object], turns: int) -> tuple[float, float]:
    """Give the median and the 99th percentile of the time that a call takes."""
    times = np.empty(turns)
    for turn in range(turns):
        start = time.perf_counter_ns()
        act(turn)
        times[turn] = time.perf_counter_ns() - start
    return float(np.median(times)) / 1e3, float(np.percentile(times, 99)) / 1e3


def latency(quick: bool) -> Found:
    """Measure the time to an action: the network alone, from an event on, and stable-baselines3 beside it."""
    game, turns = known_game(), 200 if quick else 20_000
    config = configuration(game, EDGE, 1, quick=True)
    table = TrainSetup.from_config(game, config)
    model, _ = build(table)
    path = folder("runs") / "bench-train" / "latency"
    save_checkpoint(path, table.card({}), model.policy.weights())
    policy = load_policy(path, game)
    events, rows = _walk(game, table.observation)
    alone = microseconds(lambda turn: policy.act(rows[turn % len(rows)]), turns)
    whole = microseconds(_builder(game, table.observation, events, policy), turns)
    scaled = scale_rows(np.stack(rows), table.scaling)
    theirs = microseconds(
        lambda turn: model.predict(scaled[turn % len(rows)], deterministic=True), max(200, turns // 20)
    )
    results = [
        Measurement("network alone, median", alone[0], "us"),
        Measurement("network alone, 99th percentile", alone[1], "us"),
        Measurement("from event to action, median", whole[0], "us"),
        Measurement("from event to action, 99th percentile", whole[1], "us"),
        Measurement("stable-baselines3 predict, median", theirs[0], "us"),
        Measurement("stable-baselines3 predict, 99th percentile", theirs[1], "us"),
    ]
    return results, [
        Goal.at_most("network alone, median us", alone[0], NETWORK_GOAL),
        Goal.at_most("from event to action, median us", whole[0], BUILDER_GOAL),
    ]


def _walk(game: Game, observation: str) -> tuple[list[Any], list[Any]]:
    """Give the game's sample as events at which one decides, in the fold's form, and the rows there."""
    fold, decides = game.recording().fold, game.recording().decides
    shown = game.observations[observation]
    assert isinstance(shown, NumericObservation)
    frames = game.recording().sample()
    events = [
        fact.event(frame.ts, "bench", number)
        for number, (frame, facts) in enumerate(zip(frames, game.decode(frames), strict=True))
        for fact in facts
    ]
    state, rows, decisions = fold.start(), [], []
    for event in events:
        fold.apply(state, fold.encode(event))
        if decides(event):
            row = np.empty(len(shown.features), np.float32)
            fold.observe[observation](state, row)
            rows.append(row)
            decisions.append(event)
    return decisions, rows


def _builder(game: Game, observation: str, events: Sequence[Any], policy: Any) -> Callable[[int], object]:
    """Give the way from an event to an action: encode, fold, observe, choose."""
    fold = game.recording().fold
    encode, apply, observe, state = fold.encode, fold.apply, fold.observe[observation], fold.start()
    row = np.empty(len(policy.features), np.float32)

    def act(turn: int) -> object:
        apply(state, encode(events[turn % len(events)]))
        observe(state, row)
        return policy.act(row)

    return act
