"""Benchmark models in the arena on fixed, held-out forked windows, and write the leaderboard."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playproof.cli.output import AsJson, emit, note, progress
from playproof.errors import ConfigError
from playproof.home import folder
from playproof.json_types import Json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from playproof.workflows.arena.benchmark import BenchPlan, Contestant, ContestantFigures, Results


def bench(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL",
            help="Checkpoints, runs, models (NAME@ALIAS), addresses as http://host/v1#model, or scripted players.",
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
    loss: Annotated[
        int, typer.Option(min=1, help="USD that a window may lose; the market refuses orders beyond it.")
    ] = 3_500,
    leverage: Annotated[
        int, typer.Option(min=1, max=100, help="Least leverage of perps: their margin bounds what they lose.")
    ] = 1,
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
    from playproof.workflows.arena.benchmark import BenchPlan, criteria, figures, policy_hashes
    from playproof.workflows.arena.leaderboard import page

    options: Json = {"persona": persona}
    if (loss * UNIT, leverage) != (STAKE, 1):
        options |= {"stake": loss * UNIT, "leverage": leverage}
    plan = BenchPlan(tuple(chosen(scenario or [])), windows, decisions, prompt, options)
    if windows < 2:
        raise ConfigError(f"expected at least 2 windows of a scenario, found {windows}")
    everybody, own = _contestants(models or [], max_tokens, temperature)
    _check_unseen(plan)
    index = out or folder("reports") / "arena-bench"
    results = _played(everybody, plan, index)
    payload = figures(results, limit=plan.limit)
    reference = against or (own[0] if len(own) > 1 else "random")
    if reference not in results:
        raise ConfigError(f"expected to compare with one of {', '.join(results)}, found {reference!r}")
    measured = {name: criteria(payload, name, reference) for name in own if name != reference}
    from playproof.provenance import commit

    facts = {
        "seed": SEED,
        "plan": plan.hash,
        "windows": windows,
        "scenarios": len(plan.scenarios),
        "decisions": decisions,
        "stake": loss,
        "leverage": leverage,
        "against": reference,
        "commit": commit(),
    }
    data = facts | {
        "models": own,
        "policies": policy_hashes({item.name: item for item in everybody}),
        "figures": [asdict(item) for item in payload],
        "criteria": {name: [asdict(item) for item in items] for name, items in measured.items()},
        "page": str(index / "leaderboard.html"),
    }
    index.mkdir(parents=True, exist_ok=True)
    (index / "leaderboard.html").write_text(page(payload, own, measured, facts), encoding="utf-8")
    (index / "leaderboard.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    emit(data, as_json, lambda: _table(payload, measured, reference))
    note(f"leaderboard: {index / 'leaderboard.html'}")


def _contestants(models: Sequence[str], max_tokens: int, temperature: float) -> tuple[list[Contestant], list[str]]:
    """Give everybody who plays, and the names of the models."""
    from playproof.workflows.arena.benchmark import BASELINES, DUMMY, ScriptedContestant, contestant

    known = (*BASELINES, DUMMY)
    own = [contestant(_model(item), max_tokens, temperature) for item in models if item not in known]
    names = [item.name for item in own]
    if len(set(names)) < len(names):
        raise ConfigError(f"expected models of different names, found {', '.join(names)}")
    return [*own, *(ScriptedContestant(item) for item in known)], names


def _model(text: str) -> str:
    """Give the checkpoint behind a run or a registered model; addresses and scripted players stay as they are."""
    from playproof.cli.targets import find_model

    return text if text.startswith(("http://", "https://")) else find_model(text)


def _check_unseen(plan: BenchPlan) -> None:
    """Refuse windows that the ledger of used windows knows."""
    from sqlalchemy import select

    from playproof.games.arena.market.scenarios import check_unseen
    from playproof.store.db import UsedWindow, opened, ready

    with opened() as engine, ready(engine).connect() as connection:
        used = list(connection.scalars(select(UsedWindow.window_id).where(UsedWindow.purpose == "train").distinct()))
    for scenario in plan.scenarios:
        check_unseen(used, scenario.terms(plan.decisions), plan.windows)


def _played(everybody: Sequence[Contestant], plan: BenchPlan, path: Path) -> Results:
    """Let everybody play, with a progress bar."""
    from playproof.workflows.arena.benchmark import play

    with progress() as bar:
        task = bar.add_task("playing", total=len(everybody) * len(plan.scenarios) * plan.windows)
        return {
            who.name: {
                scenario.name: play(who, plan, scenario, path / "played", lambda done: bar.advance(task, done))
                for scenario in plan.scenarios
            }
            for who in everybody
        }


def _table(rows: Sequence[ContestantFigures], measured: Any, reference: str) -> RenderableType:
    from rich.console import Group
    from rich.table import Table

    columns = ("scenario", "who", "P&L", "95 % interval", "alpha", "wins", "drawdown", "valid", "errors", "timing")
    table = Table(*columns, "e-value", title="USD a window", title_justify="left")
    for column in table.columns[2:]:
        column.justify = "right"
    for entry in rows:
        table.add_row(
            entry.scenario,
            entry.name,
            f"{entry.pnl:+.2f}",
            f"{entry.pnl_interval[0]:+.2f} to {entry.pnl_interval[1]:+.2f}",
            f"{entry.alpha:+.3%}",
            f"{entry.win_rate:.0%}",
            f"{entry.drawdown:.0f}",
            f"{entry.valid:.0%}",
            f"{entry.errors:.1%}",
            "-" if entry.timing is None else f"{entry.timing:.0%}",
            f"{entry.e_value:.3g}",
        )
    plan = Table("the plan's criteria", "wanted", "model", "dummy", title=f"against {reference}", title_justify="left")
    for name, item in measured.items():
        for entry in item:
            plan.add_row(
                f"{name}: {entry.name}",
                f"{entry.wanted:.4g}",
                _met(entry.value, entry.met),
                _met(entry.dummy, entry.dummy_met),
            )
    return Group(table, plan) if measured else table


def _met(value: float, met: bool) -> str:
    return f"{value:.4g} {'met' if met else 'not met'}"
