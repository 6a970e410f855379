"""Compare policies in pairs on the same windows: differences to the first with intervals, and one chart."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from playproof.cli.output import AsJson, emit, note
from playproof.cli.targets import StakeOption, find_data, find_policy, policy_game, stake_units
from playproof.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from playproof.validate.compare import Comparison

app = typer.Typer()


@app.command()
def compare(
    policies: Annotated[
        list[str],
        typer.Argument(
            metavar="A B",
            help="Checkpoints' folders, runs, baselines or module:attribute; the others are compared with the first.",
        ),
    ],
    *,
    data: Annotated[str | None, typer.Option(help="A data set: its recorded windows are played again.")] = None,
    split: Annotated[str, typer.Option(help="Which split of the data set.")] = "test",
    world: Annotated[str | None, typer.Option(help="A world to simulate; default: the game's first.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Windows to play; default: as many as validate.")] = None,
    game: Annotated[str | None, typer.Option(help="The game; default: the first policy's own.")] = None,
    stake: StakeOption = None,
    seed: Annotated[int, typer.Option(help="Same seed, same windows, same result.")] = 0,
    sample: Annotated[bool, typer.Option(help="Let policies choose by chance rather than greedily.")] = False,
    output: Annotated[Path | None, typer.Option(help="File of the page; default: in reports/ of the home.")] = None,
    as_json: AsJson = False,
) -> None:
    """Play policies over the same windows and weigh their differences to the first, all comparisons together.

    Every evaluation is written into the trial ledger.

    Example: playproof compare hold-40 take-profit wait --world published --rounds 2000
    """
    from datetime import UTC, datetime

    from playproof.home import home
    from playproof.store.db import opened, ready
    from playproof.validate.compare import compare as weigh
    from playproof.validate.examine import data_plan, load_subject, world_plan

    if data and world:
        raise ConfigError("expected either --data or --world, found both")
    policies, data = [find_policy(name) for name in policies], str(find_data(data)) if data else None
    result = policy_game(policies, game, data, world)
    subjects = [load_subject(result, name, stake=stake_units(stake), sample=sample) for name in policies]
    plan = data_plan(result, data, split, rounds, seed) if data else world_plan(result, world, rounds, seed)
    with opened(home()) as engine:
        seen = weigh(result, subjects, plan, ready(engine), datetime.now(UTC), note)
    path = _write(seen, output)
    emit(seen.to_json() | {"page": str(path)}, as_json, lambda: shown(seen, path))


def _write(seen: Comparison, output: Path | None) -> Path:
    import hashlib

    from playproof.home import folder, write_durably
    from playproof.reports.compare import compare_page

    payload = " ".join([*(row.subject.policy_hash for row in seen.rows), seen.plan.data_hash])
    path = output or folder("reports") / f"compare-{hashlib.sha256(payload.encode()).hexdigest()[:12]}.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, compare_page(seen).encode())
    return path


def shown(seen: Comparison, path: Path) -> RenderableType:
    """Lay a comparison out for a terminal."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from playproof.reports.compare import share, span

    first = seen.rows[0].subject.name
    table = Table("policy", "ROI", "95 % interval", f"to {first}", "all at once, 95 %", "", title_justify="left")
    table.title = f"{seen.plan.name}, seed {seen.plan.seed}"
    colours = {"better": "green", "worse": "red"}
    for row in seen.rows:
        item, gap = row.metrics, row.difference
        own = (row.subject.name, share(item.roi), span(item.interval))
        if gap is None:
            table.add_row(*own, "", "", "")
        else:
            word = Text(gap.finding, style=colours.get(gap.finding, "dim"))
            table.add_row(*own, share(gap.mean), span(gap.together), word)
    if seen.plan.ceiling is not None:
        table.add_row("theory: the best possible", f"{seen.plan.ceiling:+.2%}", "", "", "", "")
    many = f"{len(seen.rows) - 1} comparisons at once" if len(seen.rows) > 2 else "one comparison"
    return Group(
        table,
        Text(seen.sentence),
        Text(
            f"{many}: that no difference exists has p = {seen.joint.p:.3g}; that none is better than {first}, "
            f"p = {seen.superior.p:.3g} (SPA). Looks at these windows in the trial ledger: {seen.looks}."
        ),
        Text(f"Page: {path}"),
    )
