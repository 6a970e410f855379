"""Benchmark models in the arena on fixed, held-out forked windows, and write the leaderboard."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playproof.cli.output import AsJson, emit, note, progress
from playproof.errors import ConfigError
from playproof.game import resolve
from playproof.home import folder

if TYPE_CHECKING:
    from rich.console import RenderableType

    from playproof.workflows.arena.benchmark import BenchPlan, Contestant, ContestantFigures, Results


def bench(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL",
            help="Checkpoints, models by name, addresses as http://host/v1#model, or scripted players.",
        ),
    ] = None,
    *,
    windows: Annotated[int, typer.Option(help="Windows of each scenario.")] = 40,
    scenario: Annotated[
        list[str] | None, typer.Option(help="held-out, bull, bear, scandal, pump-and-dump; default: these. Or clear.")
    ] = None,
    decisions: Annotated[int, typer.Option(help="Decisions in a window; a divisor of 60.")] = 6,
    prompt: Annotated[str, typer.Option(help="full, short, or brief for models of a few million parameters.")] = "full",
    persona: Annotated[str, typer.Option(help="Archetype that models are asked to be; empty: none.")] = "balanced",
    max_tokens: Annotated[int, typer.Option(help="Longest answer of a model.")] = 120,
    temperature: Annotated[float, typer.Option(help="How freely models answer; 0: the likeliest tokens.")] = 0.0,
    against: Annotated[
        str, typer.Option(help="Who the plan's criteria compare with; default: the first of several models, or random.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option(help="Folder for leaderboard.html and .json; default: in reports.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Let models play the same forked windows as random, hold, momentum and informed, and rank them by money.

    What was played is kept, so that a benchmark that was stopped goes on, and the next model joins those before it.

    Example: playproof arena bench --windows 60

    Example: playproof arena bench runs/my-grpo/checkpoint smollm2 --windows 20 --max-tokens 24
    """
    from playproof.games.arena.market.scenarios import SEED, STAKE, chosen
    from playproof.money import UNIT
    from playproof.reports.leaderboard import page
    from playproof.workflows.arena.benchmark import BenchPlan, criteria, figures

    plan = BenchPlan(tuple(chosen(scenario or [])), windows, decisions, prompt, {"persona": persona})
    if windows < 2:
        raise ConfigError(f"expected at least 2 windows of a scenario, found {windows}")
    everybody, own = _contestants(models or [], max_tokens, temperature)
    _check_unseen(plan)
    place = out or folder("reports") / "arena-bench"
    results = _played(everybody, plan, place)
    told = figures(results)
    reference = against or (own[0] if len(own) > 1 else "random")
    if reference not in results:
        raise ConfigError(f"expected to compare with one of {', '.join(results)}, found {reference!r}")
    measured = {name: criteria(told, name, reference) for name in own if name != reference}
    commit: Callable[[], str] = resolve("playproof.provenance:commit")
    facts = {
        "seed": SEED,
        "plan": plan.hash,
        "windows": windows,
        "scenarios": len(plan.scenarios),
        "decisions": decisions,
        "stake": STAKE / UNIT,
        "against": reference,
        "commit": commit(),
    }
    data = facts | {
        "models": own,
        "figures": [asdict(it) for it in told],
        "criteria": {name: [asdict(it) for it in each] for name, each in measured.items()},
        "page": str(place / "leaderboard.html"),
    }
    place.mkdir(parents=True, exist_ok=True)
    (place / "leaderboard.html").write_text(page(told, own, measured, facts), encoding="utf-8")
    (place / "leaderboard.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    emit(data, as_json, lambda: _table(told, measured, reference))
    note(f"leaderboard: {place / 'leaderboard.html'}")


def _contestants(models: Sequence[str], max_tokens: int, temperature: float) -> tuple[list[Contestant], list[str]]:
    """Give everybody who plays, and the names of the models."""
    from playproof.workflows.arena.benchmark import BASELINES, DUMMY, ScriptedContestant, contestant

    known = (*BASELINES, DUMMY)
    own = [contestant(it, max_tokens, temperature) for it in models if it not in known]
    names = [it.name for it in own]
    if len(set(names)) < len(names):
        raise ConfigError(f"expected models of different names, found {', '.join(names)}")
    return [*own, *(ScriptedContestant(it) for it in known)], names


def _check_unseen(plan: BenchPlan) -> None:
    """Refuse windows that the ledger of used windows knows."""
    from playproof.games.arena.market.scenarios import check_unseen

    opened: Callable[..., Any] = resolve("playproof.store.db:opened")
    ready: Callable[..., Any] = resolve("playproof.store.db:ready")
    used_window: Any = resolve("playproof.store.db:UsedWindow")
    from sqlalchemy import select

    with opened() as engine, ready(engine).connect() as connection:
        used = list(connection.scalars(select(used_window.window_id).where(used_window.purpose == "train").distinct()))
    for it in plan.scenarios:
        check_unseen(used, it.terms(plan.decisions), plan.windows)


def _played(everybody: Sequence[Contestant], plan: BenchPlan, place: Path) -> Results:
    """Let everybody play, with a progress bar."""
    from playproof.workflows.arena.benchmark import play

    with progress() as bar:
        task = bar.add_task("playing", total=len(everybody) * len(plan.scenarios) * plan.windows)
        return {
            who.name: {
                it.name: play(who, plan, it, place / "played", lambda done: bar.advance(task, done))
                for it in plan.scenarios
            }
            for who in everybody
        }


def _table(told: Sequence[ContestantFigures], measured: Any, reference: str) -> RenderableType:
    from rich.console import Group
    from rich.table import Table

    columns = ("scenario", "who", "P&L", "95 % interval", "alpha", "wins", "drawdown", "valid", "errors", "timing")
    table = Table(*columns, "e-value", title="USD a window", title_justify="left")
    for column in table.columns[2:]:
        column.justify = "right"
    for it in told:
        table.add_row(
            it.scenario,
            it.name,
            f"{it.pnl:+.2f}",
            f"{it.pnl_interval[0]:+.2f} to {it.pnl_interval[1]:+.2f}",
            f"{it.alpha:+.3%}",
            f"{it.win_rate:.0%}",
            f"{it.drawdown:.0f}",
            f"{it.valid:.0%}",
            f"{it.errors:.1%}",
            "-" if it.timing is None else f"{it.timing:.0%}",
            f"{it.e_value:.3g}",
        )
    plan = Table("the plan's criteria", "wanted", "model", "dummy", title=f"against {reference}", title_justify="left")
    for name, each in measured.items():
        for it in each:
            plan.add_row(f"{name}: {it.name}", f"{it.wanted:.4g}", _met(it.value, it.met), _met(it.dummy, it.dummy_met))
    return Group(table, plan) if measured else table


def _met(value: float, met: bool) -> str:
    return f"{value:.4g} {'met' if met else 'not met'}"
