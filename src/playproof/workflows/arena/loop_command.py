"""Run the continuous cycle of the arena: collect, outcomes, score, train, benchmark, keep or discard."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playproof.cli.output import AsJson, emit, note
from playproof.errors import ConfigError
from playproof.game import lookup
from playproof.home import folder, safe_join
from playproof.json_types import Json

if TYPE_CHECKING:
    from playproof.workflows.arena.benchmark import Contestant
    from playproof.workflows.arena.loop import LoopPlan, LoopSteps, TrainRequest


def loop(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Model to begin with; not needed to go on with a loop.")
    ] = "",
    *,
    name: Annotated[str, typer.Option(help="Name of the loop; its folder in runs.")] = "loop",
    once: Annotated[bool, typer.Option("--once", help="One cycle, then stop; for cron.")] = False,
    cycles: Annotated[int, typer.Option(help="Cycles to run; 0: until stopped.")] = 0,
    pause: Annotated[float, typer.Option(help="Seconds between two cycles.")] = 60.0,
    status: Annotated[bool, typer.Option("--status", help="Only tell how the loop stands.")] = False,
    preset: Annotated[
        str,
        typer.Option(help="tiny: all settings but name and seed; without a MODEL, one is made and taught first."),
    ] = "",
    seed: Annotated[int, typer.Option(help="Same seed, same windows.")] = 1,
    decisions: Annotated[int, typer.Option(help="Decisions in a window; a divisor of 60.")] = 4,
    prompt: Annotated[str, typer.Option(help="full, short, or brief for models of a few million parameters.")] = "full",
    agents: Annotated[int, typer.Option(help="Scripted agents beside the model while play is collected.")] = 4,
    own_agents: Annotated[int, typer.Option(help="Agents that the model plays then.")] = 2,
    windows: Annotated[int, typer.Option(help="Windows that are collected in a cycle.")] = 2,
    bench_windows: Annotated[int, typer.Option(help="Windows of a cycle that a candidate is benchmarked on.")] = 40,
    max_tokens: Annotated[int, typer.Option(help="Longest answer of the model.")] = 24,
    reward: Annotated[str, typer.Option(help="computed or judge; default: the judge if JUDGE_MODEL is set.")] = "",
    iterations: Annotated[int, typer.Option(help="GRPO iterations of a cycle.")] = 2,
    windows_per_iteration: Annotated[int, typer.Option(help="Forked windows of an iteration.")] = 4,
    forks: Annotated[int, typer.Option(help="Copies of each window.")] = 8,
    learning_rate: Annotated[float, typer.Option(help="Step size of GRPO.")] = 5e-6,
    track: Annotated[
        list[str] | None, typer.Option(help="tensorboard, wandb or mlflow; may be given more than once.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Go through the cycle again and again; a loop that was killed goes on where it was.

    Example: playproof arena loop runs/my-sft/checkpoint --once

    Example: playproof arena loop --preset tiny --once

    Example: playproof arena loop --status
    """
    from playproof.workflows.arena.loop import Loop, LoopPlan, alone, read_state
    from playproof.workflows.arena.loop import status as told_status

    path = safe_join(folder("runs"), name)
    if status:
        emit({"state": read_state(path), "status": told_status(path)}, as_json, "\n".join(told_status(path)))
        return
    training = {
        "iterations": iterations,
        "windows": windows_per_iteration,
        "forks": forks,
        "learning_rate": learning_rate,
    }
    plan = LoopPlan(
        model, seed, decisions, prompt, "news", agents, own_agents, windows, bench_windows, max_tokens, reward, training
    )
    if preset:
        plan = preset_plan(preset, path, model, seed, reward)
    with alone(path) as free, _tracked(path, name, track) as noted:
        if not free:
            note(f"{name} is running already")
            return
        going = Loop(path, _joints(noted, track, name), plan if model or preset else None)
        wanted = 1 if once else cycles
        ended: list[Json] = []
        while not wanted or len(ended) < wanted:
            if ended:
                time.sleep(pause)
            ended.append(dict(going.cycle(lambda step, payload: note(f"{step}: {_line(payload)}"))))
        emit({"cycles": ended, "in_use": going.state["in_use"]}, as_json, lambda: "\n".join(told_status(path)))


def preset_plan(preset: str, path: Path, model: str, seed: int, reward: str) -> LoopPlan:
    """Give the plan of a preset, with the model that it begins with; without one, teach one in the loop's folder."""
    from playproof.workflows.arena.loop import LoopPlan
    from playproof.workflows.arena.presets import PRESETS

    payload = lookup(PRESETS, preset, "preset")
    base = model or _taught(path / "taught", payload.teach, seed)
    return LoopPlan(base, seed, reward=reward, train=dict(payload.train), **payload.loop)


def _taught(path: Path, settings: Mapping[str, Any], seed: int) -> str:
    """Teach a model by SFT, from where an earlier attempt stood; give its checkpoint."""
    from playproof.games.arena.game import arena_game

    if not (path / "result.json").exists():
        from playproof.train.language.config import SFTConfig
        from playproof.train.language.sft import train_sft

        train_sft(
            arena_game(), SFTConfig(game="arena", seed=seed, **settings), path, resume=(path / "config.json").exists()
        )
        note(f"taught: {path / 'checkpoints' / 'sft'}")
    return str(path / "checkpoints" / "sft")


def _line(payload: Mapping[str, Any]) -> str:
    shown = {name: item for name, item in payload.items() if isinstance(item, str | int | float | bool)}
    return ", ".join(f"{name} {item}" for name, item in shown.items()) or "done"


def _joints(noted: Callable[[int, Mapping[str, Any]], None], track: list[str] | None, name: str) -> LoopSteps:
    from playproof.workflows.arena.loop import LoopSteps

    return LoopSteps(
        lambda lesson: grpo(lesson, track, name),
        collect,
        sync_outcomes,
        score,
        contestant_of,
        lambda candidate, why, report: promote_candidate(name, candidate, why, report),
        lambda: model_in_use(name),
        noted,
    )


IN_USE = "in-use"
"""Alias of a loop's model in the registry, which has the loop's name."""


def promote_candidate(name: str, candidate: str, why: str, report: Path) -> str | None:
    """Add a candidate to the registry and promote it; give its files there, None if its gate or a rival refused it.

    What is no checkpoint, such as a scripted player, has no version and is in use for the loop alone.
    """
    from playproof.cli.targets import open_registry
    from playproof.models.changing import promote
    from playproof.models.gates import PromotionRefused
    from playproof.models.registry import PointerConflict
    from playproof.policies.checkpoint import CARD

    if not (Path(candidate) / CARD).exists():
        return candidate
    with open_registry() as registry:
        version, _ = registry.add(Path(candidate), name)
        if registry.pointer(name, IN_USE).version != version.version:  # else an earlier attempt got here
            try:
                done = promote(registry, version, IN_USE, who=f"arena loop {name}", why=why, report=report)
            except (PromotionRefused, PointerConflict) as error:
                note(f"{version.label} is not promoted: {error}")
                return None
            for problem in done.problems:
                note(f"a hook failed; the change stands: {problem}")
        return str(registry.open(version))


def model_in_use(name: str) -> str | None:
    """Give the files of the version that the loop's alias stands for; empty after a rollback to before the first."""
    from playproof.cli.targets import open_registry

    with open_registry() as registry:
        pointer = registry.pointer(name, IN_USE)
        if not pointer.generation:
            return None
        return "" if pointer.version is None else str(registry.open(registry.version(name, pointer.version)))


@contextmanager
def _tracked(path: Path, name: str, track: list[str] | None) -> Iterator[Callable[[int, Mapping[str, Any]], None]]:
    """Give what shows a cycle's numbers to the trackers that were asked for."""
    if not track:
        yield lambda cycle, payload: None  # noqa: ARG005
        return
    from playproof.cli.train.group import tracking
    from playproof.train.run import Run

    index = path / "tracked"
    where = tracking(track, name)
    made = (
        Run.resume(index, "loop", where) if (index / "config.json").exists() else Run.create(index, "loop", {}, where)
    )

    def noted(cycle: int, payload: Mapping[str, Any]) -> None:
        made.note("cycle", cycle, payload)
        made.save_state(cycle, {}, {})

    try:
        yield noted
    finally:
        made.close()


def collect(plan: LoopPlan, model: str, run: str) -> Mapping[str, Any]:
    """Record windows that the model plays among scripted agents."""
    from playproof.games.arena.agents.archetypes import ARCHETYPES
    from playproof.games.arena.agents.runner import ArenaRun, RunPlan, scripted
    from playproof.games.arena.market.world import WorldSettings
    from playproof.workflows.arena.commands import books

    with _players(plan, model) as own, books(record=True, durable=model not in ARCHETYPES) as kept:
        kept.run = run
        begins = kept.first_window("", plan.windows, 1)
        settings = WorldSettings(plan.world, plan.seed, begins)
        running = ArenaRun(RunPlan(settings, plan.windows, plan.decisions), [*scripted(plan.agents), *own])
        kept.attach(running, 1)
        closed = list(running.windows())
    return {"run": run, "windows": [item.window for item in closed], "agents": plan.agents + len(own)}


@contextmanager
def _players(plan: LoopPlan, model: str) -> Iterator[list[Any]]:
    """Give the agents that the model plays, serving it if it is a checkpoint."""
    from playproof.games.arena.agents.archetypes import ARCHETYPES
    from playproof.games.arena.agents.runner import ScriptedAgent
    from playproof.workflows.arena.commands import language_players

    if model in ARCHETYPES:
        yield [ScriptedAgent(f"own-{at + 1}", ARCHETYPES[model]) for at in range(plan.own_agents)]
        return
    if model.startswith(("http://", "https://")):
        url, _, named = model.partition("#")
        yield language_players(url, named, plan.own_agents, "balanced", plan.max_tokens, plan.prompt)
        return
    from playproof.serve.serving import prepare, serving

    served = prepare(model)
    with serving(served) as url:
        yield language_players(f"{url}/v1", served.name, plan.own_agents, "balanced", plan.max_tokens, plan.prompt)


@contextmanager
def _tables() -> Iterator[Any]:
    from playproof.store.db import opened, ready

    with opened() as engine:
        yield ready(engine)


def sync_outcomes() -> Mapping[str, Any]:
    """Write the outcomes of closed windows that have none."""
    from playproof.games.arena.game import arena_game
    from playproof.record.trajectories.outcomes import sync
    from playproof.workflows.arena.outcomes_command import prices

    with _tables() as engine:
        done = sync(
            engine, lambda windows: prices(engine, windows), arena_game().windows, datetime.now(UTC), hours=168.0
        )
    return {
        "written": len(done.written),
        "known": len(done.known),
        "open": len(done.open),
        "missing": len(done.missing),
    }


def score(plan: LoopPlan, run: str) -> Mapping[str, Any]:
    """Score the windows of a run by the reward that the loop learns from; judgements are stored."""
    from sqlalchemy import select

    from playproof.judge.computed import computed
    from playproof.judge.group import read_groups
    from playproof.store.db import Trajectory

    with _tables() as engine:
        with engine.connect() as connection:
            windows = set(connection.scalars(select(Trajectory.window_id).where(Trajectory.batch_id == run)))
        groups = read_groups(engine, sorted(windows))
        if _reward(plan) == "computed":
            scores = [computed(group) for group in groups]
            new = 0
        else:
            judge = _judge(engine)
            judged = judge.score_all(groups)
            from playproof.judge.judging import store

            new = store(engine, judge, judged)
            scores = [item.scores for item in judged if item.scores is not None]
    values = [value for item in scores for value in item.values.values()]
    ends = {"lowest": min(values), "mean": sum(values) / len(values), "highest": max(values)} if values else {}
    return {"reward": _reward(plan), "groups": len(groups), "scored": len(scores), "judgements": new, **ends}


def _reward(plan: LoopPlan) -> str:
    return plan.reward or ("judge" if os.environ.get("JUDGE_MODEL") else "computed")


def _judge(engine: Any) -> Any:
    from playproof.judge.judging import configured

    settings = configured()
    if settings is None:
        raise ConfigError("expected a judge for the reward judge, found none; set JUDGE_MODEL")
    from playproof.judge.judging import Judge

    return Judge(settings, engine=engine)


def contestant_of(model: str, plan: LoopPlan) -> Contestant:
    """Make who is benchmarked of a model."""
    from playproof.workflows.arena.benchmark import contestant

    return contestant(model, plan.max_tokens, 0.0)


def grpo(lesson: TrainRequest, track: list[str] | None, name: str) -> Mapping[str, Any]:
    """Train by GRPO on fresh forked windows, from where an earlier attempt of this cycle stood."""
    from playproof.cli.train.group import tracking
    from playproof.games.arena.game import arena_game
    from playproof.judge.judging import reward_function
    from playproof.train.language.config import GRPOConfig
    from playproof.train.language.grpo import train_grpo

    plan = lesson.plan
    settings = GRPOConfig(
        game="arena",
        base=lesson.base,
        world=plan.world,
        seed=lesson.seed,
        decisions=plan.decisions,
        prompt=plan.prompt,
        max_tokens=plan.max_tokens,
        reward=_reward(plan),
        **plan.train,
    )
    with _tables() as engine:
        judge = _judge(engine) if settings.reward == "judge" else None
        result = train_grpo(
            arena_game(),
            settings,
            lesson.path,
            engine,
            reward=reward_function(settings.reward, judge),
            resume=(lesson.path / "config.json").exists(),
            tracking=tracking(track, f"{name}-{lesson.cycle}"),
        )
    return {name: result.get(name) for name in ("checkpoint", "iterations", "stopped", "flat_groups")}
