"""Run the arena, and look at its windows, outcomes and trajectories."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playproof.cli.data import trajectories
from playproof.cli.output import AsJson, emit, note, progress
from playproof.errors import ConfigError, GateFailed, UnknownName
from playproof.workflows.arena import (
    agents_command,
    benchmark_command,
    loop_command,
    outcomes_command,
    windows_command,
)

if TYPE_CHECKING:
    from rich.table import Table

    from playproof.games.arena.agents.runner import ArenaAgent, ClosedWindow, RunPlan
    from playproof.games.arena.recording.run_recorder import RecordedTrajectory
    from playproof.stats.ranking import RankedAgent

app = typer.Typer(no_args_is_help=True, help="Run the arena, and look at its windows, outcomes and trajectories.")

CHECK_SECONDS = 120.0
"""For one token of a model that may have to load first."""


@app.command()
def run(
    agents: Annotated[int, typer.Option(help="Scripted agents, the archetypes in turn.")] = 5,
    windows: Annotated[int, typer.Option(help="How many windows.")] = 3,
    seed: Annotated[int, typer.Option(help="Same seed and same answers, same run.")] = 1,
    window_hours: Annotated[int, typer.Option(help="Length of a window in hours.")] = 1,
    world: Annotated[str, typer.Option(help="news, null, bull, bear, scandal or pump.")] = "news",
    decisions: Annotated[int, typer.Option(help="Turns of every agent in an hour; a divisor of 60.")] = 6,
    speed: Annotated[float, typer.Option(help="Times faster than the market's clock; 0: as fast as it goes.")] = 0.0,
    start: Annotated[str, typer.Option(help="First window, as 2025-01-15T10:00Z; else the latest free ones.")] = "",
    llm: Annotated[
        str, typer.Option(help="OpenAI-compatible address of a language agent; local: the packaged model.")
    ] = "",
    model: Annotated[str, typer.Option(help="The model there.")] = "",
    max_tokens: Annotated[int, typer.Option(help="Longest answer of a language agent.")] = 120,
    llm_agents: Annotated[int, typer.Option(help="How many agents that model plays.")] = 1,
    persona: Annotated[str, typer.Option(help="Archetype that the model is asked to be.")] = "balanced",
    record: Annotated[bool, typer.Option(help="Record trajectories and outcomes into the home.")] = True,
    as_json: AsJson = False,
) -> None:
    """Let agents trade in one market, record every trajectory, write the outcomes, and rank the agents.

    Example: playproof arena run --agents 5 --windows 3 --seed 7

    Example: playproof arena run --agents 4 --windows 2 --llm http://127.0.0.1:8000/v1 --model my-model

    Example: playproof arena run --agents 4 --windows 2 --llm local
    """
    from playproof.games.arena.agents.runner import ArenaRun, RunPlan, scripted
    from playproof.games.arena.market.world import WorldSettings
    from playproof.games.arena.recording.ranking import rank

    with _address(llm, model) as (url, named), books(record, durable=bool(llm)) as kept:
        players = [*scripted(agents), *language_players(url, named, llm_agents, persona, max_tokens)]
        begins = kept.first_window(start, windows, window_hours)
        plan = RunPlan(WorldSettings(world, seed, begins, window_hours), windows, decisions, speed)
        running = ArenaRun(plan, players)
        kept.attach(running, window_hours)
        closed = _closed(running, plan)
    ranked = rank(closed, seed)
    data = {
        "run": kept.run,
        "world": world,
        "seed": seed,
        "windows": [item.window for item in closed],
        "recorded": record,
        "agents": [item.to_json() for item in ranked],
    }
    emit(data, as_json, lambda: _table(ranked, plan, closed))
    if record and not as_json:
        note(f"recorded as run {kept.run}")


def _closed(running: Any, plan: RunPlan) -> list[ClosedWindow]:
    """Run with a progress bar."""
    with progress() as bar:
        task = bar.add_task("running windows", total=plan.windows)
        closed = []
        for window in running.windows():
            closed.append(window)
            bar.advance(task)
    return closed


@contextmanager
def _address(llm: str, model: str) -> Iterator[tuple[str, str]]:
    """Give the address and name of the model, serving the packaged one if it is asked for."""
    if llm != "local":
        if llm:
            check_model(llm, model)
        yield llm, model
        return
    note("starting the packaged model; the first time it is unpacked, which takes a minute")
    from playproof.serve.serving import packaged

    with packaged() as served:
        yield served


def check_model(base_url: str, model: str) -> None:
    """Ask an address for its models, or for one token, before a window starts; refuse it if it does not answer."""
    import openai

    key = os.environ.get("OPENAI_API_KEY", "none")
    with openai.OpenAI(base_url=base_url, api_key=key, timeout=CHECK_SECONDS, max_retries=0) as client:
        try:
            known = [item.id for item in client.models.list()]
            if model and known and model not in known:
                raise UnknownName(f"model at {base_url}", model, known)
            if known:
                return
        except openai.APIStatusError:
            pass  # an address without a list of models may still answer chats
        except openai.OpenAIError as error:
            raise _no_answer(base_url, error) from error
        try:
            messages: Any = [{"role": "user", "content": "Answer with one word."}]
            client.chat.completions.create(model=model or "default", messages=messages, max_tokens=1)
        except openai.OpenAIError as error:
            raise _no_answer(base_url, error) from error


def _no_answer(base_url: str, error: Exception) -> ConfigError:
    what = f"{type(error).__name__}: {str(error)[:200]}"
    return ConfigError(f"expected a model that answers at {base_url}, found {what}; nothing was run or recorded")


def language_players(
    base_url: str, model: str, count: int, persona: str, max_tokens: int, prompt: str = "full"
) -> list[ArenaAgent]:
    """Make the language agents that were asked for."""
    if not base_url:
        return []
    from playproof.games.arena.agents.llm import ModelSettings, language_agent

    key = os.environ.get("OPENAI_API_KEY", "none")
    settings = ModelSettings(model or "default", base_url, key, persona=persona, max_tokens=max_tokens, prompt=prompt)
    return [language_agent(f"llm-{at + 1}", settings) for at in range(count)]


class _NullSink:
    """Where a run is written down: nowhere."""

    run: str | None = None

    def first_window(self, start: str, windows: int, hours: int) -> datetime:  # noqa: ARG002
        """Give when the first window begins."""
        from playproof.games.arena.market.windows import parse_window
        from playproof.games.arena.market.world import BEGINNING

        return (parse_window(start).start if start else None) or BEGINNING

    def attach(self, running: Any, hours: int) -> None:
        """Let a run be written down."""


class _DatabaseSink(_NullSink):
    """Where a run is written down: the relational tables of the home."""

    def __init__(self, engine: Any, durable: bool, now: datetime) -> None:
        self.engine, self.durable, self.now = engine, durable, now
        self.run = f"run-{now:%Y%m%dT%H%M%S}-{os.getpid()}"
        self.recorder: Any = None

    def first_window(self, start: str, windows: int, hours: int) -> datetime:
        """Give the start asked for, or that of the latest free stretch of windows before now."""
        if start:
            return super().first_window(start, windows, hours)
        from playproof.workflows.arena.collect import free_stretch

        return free_stretch(self.engine, self.now, windows, hours)

    def attach(self, running: Any, hours: int) -> None:
        """Record a run; in bulk if nobody else takes part who could be cut off."""
        from playproof.games.arena.game import arena_game
        from playproof.games.arena.market.windows import window_id
        from playproof.games.arena.recording.run_recorder import RecordTypes, TrajectoryRunSink
        from playproof.record.trajectories.bulk import BulkRecorder
        from playproof.record.trajectories.facts import ActionTaken, Call
        from playproof.record.trajectories.recorder import TrajectoryRecorder
        from playproof.workflows.arena.collect import write_outcomes

        kind = TrajectoryRecorder if self.durable else BulkRecorder
        spans = replace(arena_game().windows, length=timedelta(hours=hours), at=partial(window_id, hours=hours))
        self.recorder = kind(self.engine, lambda: running.world.now, windows=spans)
        running.scribe = TrajectoryRunSink(
            self.recorder,
            RecordTypes(Call, ActionTaken),
            str(self.run),
            lambda closed: write_outcomes(self.engine, self.recorder, closed),
        )


@contextmanager
def books(record: bool, durable: bool) -> Iterator[_NullSink]:
    """Open what a run is written into."""
    if not record:
        yield _NullSink()
        return
    from playproof.store.db import opened, ready

    with opened() as engine:
        books = _DatabaseSink(ready(engine), durable, datetime.now(UTC))
        try:
            yield books
        finally:
            for step in ("flush", "close"):
                getattr(books.recorder, step, lambda: None)()


def _table(ranked: list[RankedAgent], plan: RunPlan, closed: list[ClosedWindow]) -> Table:
    from playproof.cli.ranking import ranked_table

    title = (
        f"{len(closed)} windows of world {plan.settings.world}, {closed[0].window} to {closed[-1].window}, "
        f"seed {plan.settings.seed}; USD a window, 95 % intervals over windows"
    )
    return ranked_table(ranked, title)


@app.command()
def verify(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Id of a recorded run, as `arena run` prints it.")],
    as_json: AsJson = False,
) -> None:
    """Run a recorded run again from its answers and compare the money to the last unit (exit code 2 if it differs).

    Example: playproof arena verify run-20250115T101500-4242
    """
    from playproof.games.arena.recording.run_recorder import differences, run_again
    from playproof.store.db import opened
    from playproof.workflows.arena.collect import read_run

    with opened() as engine:
        recorded: list[RecordedTrajectory] = read_run(engine, run_id)
    payload = differences(recorded, run_again(recorded))
    data = {"run": run_id, "trajectories": len(recorded), "differences": payload}
    emit(data, as_json, f"{len(recorded)} trajectories run again: {len(payload)} differ")
    if payload:
        raise GateFailed(f"{len(payload)} of {len(recorded)} trajectories give other money, the first: {payload[0]}")


app.add_typer(agents_command.app, name="agents")
app.add_typer(windows_command.app, name="windows")
app.add_typer(outcomes_command.app, name="outcomes")
app.add_typer(trajectories.app, name="trajectories")
app.command("bench")(benchmark_command.bench)
app.command("loop")(loop_command.loop)
