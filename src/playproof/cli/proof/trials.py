"""Show the trial ledger: every look of a policy at data, which selection tests count."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from playproof.cli.output import AsJson, emit
from playproof.errors import UnknownName
from playproof.json_types import Json

if TYPE_CHECKING:
    from rich.table import Table

    from playproof.evaluate.trials import Trial

app = typer.Typer(no_args_is_help=True, help=__doc__.partition("\n")[0])


@app.callback()
def group() -> None:
    """Show the trial ledger: every look of a policy at data, which selection tests count."""


@app.command("ls")
def ls(
    *,
    family: Annotated[str | None, typer.Option(help="Only looks of this family of policies.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only looks of this kind: validation or test.")] = None,
    as_json: AsJson = False,
) -> None:
    """List every look of a policy at a split, the oldest first; the same policy on the same data counts once.

    Example: playproof trials ls --kind test --json
    """
    from playproof.evaluate.trials import KINDS, trials
    from playproof.home import home
    from playproof.store.db import connect, ready

    known = {name: name for name in KINDS}
    if kind is not None and kind not in known:
        raise UnknownName("kind of trial", kind, KINDS)
    result = trials(ready(connect(home())), family=family, kind=known[kind] if kind else None)
    counts = Counter(trial.kind for trial in result)
    data = {"trials": [row(trial) for trial in result], "counts": {name: counts[name] for name in KINDS}}
    emit(data, as_json, lambda: table(result))


def row(trial: Trial) -> Json:
    """Give one look as JSON, its windows counted."""
    return {
        "trial_id": trial.trial_id,
        "family": trial.family,
        "policy_hash": trial.policy_hash,
        "data_hash": trial.data_hash,
        "split": trial.split,
        "kind": trial.kind,
        "created_at": trial.created_at,
        "windows": len(trial.windows),
        "roi": trial.roi,
        "result": trial.result,
        "origin": trial.origin,
    }


def table(trials: tuple[Trial, ...]) -> Table:
    """Lay the looks out, a line each."""
    from rich.table import Table

    shown = Table("when", "family", "policy", "data", "split", "windows", "ROI", "from", title_justify="left")
    shown.title = f"{len(trials)} looks"
    for trial in trials:
        when, roi = trial.created_at.strftime("%Y-%m-%d %H:%M"), f"{trial.roi:+.2%}"
        shown.add_row(
            when,
            trial.family,
            trial.policy_hash[:12],
            trial.data_hash[:12],
            f"{trial.split} ({trial.kind})" if trial.split != trial.kind else trial.split,
            str(len(trial.windows)),
            roi,
            trial.origin or "",
        )
    return shown
