"""Validate a frozen policy: prove, or refuse to claim, that it has an edge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from playproof.cli.output import AsJson, emit, note
from playproof.cli.targets import POLICY, StakeOption, find_data, find_policy, policy_game, stake_units
from playproof.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from playproof.validate.examine import Examination

app = typer.Typer()
GATE_FAILED = 2


@app.command()
def validate(
    policy: Annotated[str, typer.Argument(help=POLICY)],
    *,
    data: Annotated[str | None, typer.Option(help="A data set: its recorded windows are replayed.")] = None,
    split: Annotated[str, typer.Option(help="Which split of the data set.")] = "test",
    world: Annotated[str | None, typer.Option(help="A world to simulate; default: the game's first.")] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Windows to play; default: as many as the game says.")
    ] = None,
    game: Annotated[str | None, typer.Option(help="The game; default: the policy's own.")] = None,
    stake: StakeOption = None,
    seed: Annotated[int, typer.Option(help="Same seed, same windows, same report.")] = 0,
    withhold_ceiling: Annotated[bool, typer.Option(help="Do not use what theory knows (for studies).")] = False,
    search: Annotated[bool, typer.Option(help="Search for exploits of the reward (R6).")] = True,
    sample: Annotated[bool, typer.Option(help="Let the policy choose by chance rather than greedily.")] = False,
    output: Annotated[Path | None, typer.Option(help="Folder of the report; default: reports/ of the home.")] = None,
    as_json: AsJson = False,
) -> None:
    """Play a frozen policy beside its rivals, ask every gate and write the report; exit code 2 if a gate fails.

    Example: playproof validate hold-40 --world published --rounds 2000
    """
    from datetime import UTC, datetime

    from playproof.home import folder, home
    from playproof.reports.validation import write_report
    from playproof.store.db import connect, ready
    from playproof.validate.examine import data_plan, examine, load_subject, reward_gates, world_plan

    if data and world:
        raise ConfigError("expected either --data or --world, found both")
    policy, data = find_policy(policy, game), str(find_data(data)) if data else None
    result = policy_game([policy], game, data, world)
    subject = load_subject(result, policy, stake=stake_units(stake), sample=sample)
    plan = data_plan(result, data, split, rounds, seed) if data else world_plan(result, world, rounds, seed)
    if withhold_ceiling:
        from dataclasses import replace

        plan = replace(plan, ceiling=None)
    asked = reward_gates(result, subject, search=search)
    engine = ready(connect(home()))
    seen = examine(result, subject, plan, engine, datetime.now(UTC), reward_gates=asked, notify=_notify)
    index = output or folder("reports") / f"validate-{subject.policy_hash[:12]}-{plan.data_hash[:12]}"
    path, payload = write_report(seen, index)
    # The profits window by window are in report.json alone: they would bury the figures here.
    figures = {name: value for name, value in payload.items() if name not in ("profits", "windows")}
    emit(figures | {"report": str(path)}, as_json, lambda: shown(seen, path))
    if seen.verdict.failed:
        raise typer.Exit(GATE_FAILED)


def percent(value: float | None) -> str:
    """Write a return; a dash where nothing was staked."""
    return "-" if value is None else f"{value:+.2%}"


def _notify(name: str) -> None:
    note(f"playing {name}")


def shown(examination: Examination, path: Path) -> RenderableType:
    """Lay the verdict out for a terminal."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from playproof.validate.examine import stake_returns
    from playproof.validate.gates import advice, shown_interval

    verdict = examination.verdict
    colour = {"EDGE SHOWN": "green", "NEGATIVE": "red", "SUSPECT": "yellow", "REWARD HACKED": "yellow"}
    gates = Table("gate", "", "found", title_justify="left", title="Gates")
    marks = {"passed": "[green]passed[/]", "failed": "[red]failed[/]", "skipped": "[dim]skipped[/]"}
    for gate in verdict.gates:
        gates.add_row(gate.title, marks[gate.status], gate.finding)
    rivals = Table(
        "who",
        "of stakes",
        "of the reserve",
        "95 % interval",
        "e-value",
        title_justify="left",
        title="On the same windows",
    )
    staked = stake_returns(examination)
    for name, metric in examination.metrics.items():
        rivals.add_row(
            name,
            percent(staked.get(name)),
            f"{metric.roi:+.2%}",
            shown_interval(metric.interval).removeprefix("95 % interval "),
            f"{metric.e_value:.3g}",
        )
    if verdict.ceiling is not None:
        rivals.add_row("theory: the best possible", "", f"{verdict.ceiling:+.2%}", "", "")
    return Group(
        gates,
        rivals,
        Text(verdict.name, style=f"bold {colour.get(verdict.name, 'white')}"),
        Text(verdict.sentence),
        Text(advice(verdict)),
        Text(f"Report: {path}"),
    )
