"""Size and power of experiments in their three modes, looked at after every unit.

Real play is the material: two policies of the crash game on the same windows, two players of words in copies of the
same arena windows. An experiment draws its windows from this pool. For a null, A and B change sides by a coin in each
window: the difference has mean 0 then, whatever the players are, and keeps its shape. For a planted difference nothing
is changed.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer
from numpy.typing import NDArray

from playproof.cli.output import emit, note
from playproof.evaluate.rollout import rollout
from playproof.game import load_game
from playproof.money import UNIT
from playproof.operate.experiments.feeds import forked_units
from playproof.operate.experiments.plan import ExperimentArm, ExperimentPlan
from playproof.provenance import commit
from playproof.stats.sequential import SequentialTerms, bankroll, naive_ps
from playproof.validate.examine import load_subject

Floats = NDArray[np.float64]
Mode = Literal["shadow", "split", "forks"]
app = typer.Typer(help=__doc__.partition("\n")[0])
FIRST_LOOK = 10
"""Windows before which a naive test is not looked at: with fewer its p-value is nobody's."""


@dataclass(frozen=True)
class PairPool:
    """What two players earned in the same windows, in coins or USD, and the limits they played under."""

    name: str
    a: Floats
    b: Floats
    loss: float
    gain: float


@dataclass(frozen=True)
class StudyRow:
    """One line of the table."""

    mode: Mode
    pool: str
    null: bool
    experiments: int
    budget: int
    """Units of an experiment at most."""
    ended_a: float
    ended_b: float
    naive: float
    """Share in which a naive test, looked at after every unit, once said p < 0.05."""
    median: int | None
    """Units to the right ending, over experiments that reached it."""
    ninety: int | None
    """Units after which 90 % of the experiments had ended; None if fewer did."""
    seconds: float


def crash_pool(world: str, a: str, b: str, windows: int, stake: float, seed: int) -> PairPool:
    """Let two baselines of the crash game play the same windows."""
    game = load_game("crash")
    subjects = [load_subject(game, name) for name in (a, b)]
    played = [
        rollout(game, who.player, world, windows, seed, stake=round(stake * UNIT), name=who.name, options=who.options)
        for who in subjects
    ]
    return PairPool(f"{a} and {b} in {world}", played[0].pnl / UNIT, played[1].pnl / UNIT, stake, stake)


def arena_pool(world: str, a: str, b: str, windows: int, loss: int, seed: int) -> PairPool:
    """Let two scripted players play copies of the same windows, under order limits."""
    plan = ExperimentPlan(
        name="study",
        mode="forks",
        game="arena",
        a=ExperimentArm(a, f"a {a}", a),
        b=ExperimentArm(b, f"b {b}", b),
        loss_limit=loss * UNIT,
        gain_cap=loss * UNIT,
        budget=windows,
        on=world,
        seed=seed,
        options={"leverage": 5, "decisions": 4, "prompt": "short", "max_tokens": 1},
    )
    units = [unit for chunk in forked_units(plan, load_game("arena")) for unit in chunk]
    pnl = np.array([(unit.pnl_a or 0, unit.pnl_b or 0) for unit in units]) / UNIT
    return PairPool(f"{a} and {b} in {world}", pnl[:, 0], pnl[:, 1], loss, loss)


def run_mode(pool: PairPool, mode: Mode, null: bool, experiments: int, budget: int, seed: int) -> StudyRow:
    """Run experiments side by side, each looked at after every unit."""
    began = time.monotonic()
    rng = np.random.default_rng([seed, len(mode), null])
    drawn = rng.integers(len(pool.a), size=(experiments, budget))
    a, b = np.minimum(pool.a, pool.gain)[drawn], np.minimum(pool.b, pool.gain)[drawn]
    if null:
        swapped = rng.random(drawn.shape) < 0.5
        a, b = np.where(swapped, b, a), np.where(swapped, a, b)
    if mode == "split":  # every unit is played by one of the two, half of them by each
        gap, bound = np.where(rng.random(drawn.shape) < 0.5, 2 * a, -2 * b), 2 * max(pool.loss, pool.gain)
    else:
        gap, bound = a - b, pool.loss + pool.gain
    x = gap / bound
    threshold = SequentialTerms(1.0).threshold
    first_a, first_b = _first(bankroll(x) >= threshold), _first(bankroll(-x) >= threshold)
    wins_a, wins_b = first_a < first_b, first_b < first_a
    ended = np.minimum(first_a, first_b)
    better = wins_a if (pool.a - pool.b).mean() > 0 else wins_b
    right = ended[better & (ended < math.inf)]
    share = float((ended < math.inf).mean())
    return StudyRow(
        mode,
        pool.name,
        null,
        experiments,
        budget,
        float(wins_a.mean()),
        float(wins_b.mean()),
        float((naive_ps(x)[:, FIRST_LOOK:] < 0.05).any(axis=1).mean()),
        None if null or not len(right) else int(np.median(right)),
        None if null or share < 0.9 else int(np.sort(ended)[math.ceil(0.9 * experiments) - 1]),
        time.monotonic() - began,
    )


def _first(hits: NDArray[np.bool_]) -> Floats:
    """Give after how many units each experiment first hit; infinite where it never did."""
    first: Floats = np.where(hits.any(axis=1), hits.argmax(axis=1) + 1.0, math.inf)
    return first


def run_study(nulls: int, planted: int, seed: int = 1, small: bool = False) -> tuple[list[PairPool], list[StudyRow]]:
    """Play the pools and run every line of the table."""
    windows = (512, 24) if small else (16_384, 480)
    budgets = (60, 24) if small else (400, 120)
    note("playing the pools")
    pools = {
        "fair": crash_pool("fair", "random", "hold-40", windows[0], 0.01, seed),
        "planted": crash_pool("drift", "wait", "hold-40", windows[0], 0.002, seed),
        "arena": arena_pool("clear", "informed", "random", windows[1], 400, seed),
        "alike": arena_pool("clear", "informed", "informed:0.8", windows[1], 400, seed),
    }
    lines: list[tuple[str, Mode, bool, int]] = [
        ("fair", "shadow", True, budgets[0]),
        ("planted", "shadow", True, budgets[0]),
        ("fair", "split", True, budgets[0]),
        ("planted", "split", True, budgets[0]),
        ("arena", "forks", True, budgets[1]),
        ("arena", "split", True, budgets[1]),
        ("planted", "shadow", False, budgets[0]),
        ("planted", "split", False, budgets[0]),
        ("arena", "forks", False, budgets[1]),
        ("arena", "split", False, 4 * budgets[1]),
        ("alike", "forks", False, 8 * budgets[1]),
        ("alike", "split", False, 8 * budgets[1]),
    ]
    rows = []
    for number, (name, mode, null, budget) in enumerate(lines):
        rows.append(run_mode(pools[name], mode, null, nulls if null else planted, budget, seed + number))
        note(f"{mode}, {'null' if null else 'planted'}, {pools[name].name}")
    return list(pools.values()), rows


@app.command()
def main(
    *,
    nulls: Annotated[int, typer.Option(help="Null experiments of each line.")] = 2_000,
    planted: Annotated[int, typer.Option(help="Experiments with a planted difference of each line.")] = 500,
    seed: Annotated[int, typer.Option(help="Same seed, same table.")] = 1,
    small: Annotated[bool, typer.Option("--small", help="Few windows, for a test.")] = False,
    page: Annotated[Path | None, typer.Option(help="Markdown file whose table is replaced.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure size and power of experiments in their three modes.

    Example: python -m studies.experiments --page docs/results/experiments.md
    """
    pools, rows = run_study(nulls, planted, seed, small)
    text = to_markdown(pools, rows, seed)
    if page is not None:
        write_table(page, text)
    emit({"rows": [asdict(row) for row in rows]}, as_json, text)


BEGIN, END = "<!-- study: begin -->", "<!-- study: end -->"


def to_markdown(pools: list[PairPool], rows: list[StudyRow], seed: int) -> str:
    """Write the tables of the results page."""
    today = datetime.now(UTC).strftime("%d %B %Y").lstrip("0")
    lines = [f"`python -m studies.experiments --seed {seed}`, {today}, commit {commit()[:7]}.", ""]
    lines += ["| pool | windows | A less B | spread | loss limit and gain cap |", "|---|---|---|---|---|"]
    for pool in pools:
        gap = pool.a - pool.b
        named = f"A {pool.name.replace(' and ', ', B ')}"
        lines.append(f"| {named} | {len(gap):,} | {gap.mean():+.4g} | {gap.std():.3g} | {pool.loss:g} |")
    lines += ["", "| mode | pool | experiments | budget | ended for A | for B | wrong in all | naive, peeking |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for row in rows:
        if row.null:
            lines.append(
                f"| {row.mode} | {row.pool} | {row.experiments:,} null | {row.budget} | {row.ended_a:.2%} |"
                f" {row.ended_b:.2%} | {row.ended_a + row.ended_b:.2%} | {row.naive:.1%} |"
            )
    lines += ["", "| mode | pool | experiments | budget | ended for A | for B | units: median | 90 % ended by |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for row in rows:
        if not row.null:
            median, ninety = ("-" if value is None else f"{value:,}" for value in (row.median, row.ninety))
            lines.append(
                f"| {row.mode} | {row.pool} | {row.experiments:,} planted | {row.budget} | {row.ended_a:.1%} |"
                f" {row.ended_b:.1%} | {median} | {ninety} |"
            )
    return "\n".join(lines)


def write_table(page: Path, text: str) -> None:
    """Replace the part of a page between its marks."""
    whole = page.read_text(encoding="utf-8")
    before, _, rest = whole.partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")
