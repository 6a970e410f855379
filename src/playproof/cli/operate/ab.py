"""Run experiments between two versions: registered first, looked at freely, ended by evidence."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from playproof.cli.output import AsJson, emit, note
from playproof.cli.targets import find_data, find_model, find_policy, find_registered, language_game, policy_game
from playproof.errors import ConfigError
from playproof.json_types import Json
from playproof.money import UNIT, to_units

if TYPE_CHECKING:
    from rich.table import Table

    from playproof.game import Game
    from playproof.operate.experiments.ledger import Experiment, ExperimentLedger
    from playproof.operate.experiments.plan import ExperimentArm, ExperimentPlan, ExperimentUnit, Mode
    from playproof.stats.sequential import SequentialVerdict
    from playproof.validate.examine import Subject

app = typer.Typer(no_args_is_help=True, help=__doc__.partition("\n")[0])
ARM = "A version (NAME:VERSION, NAME@ALIAS), a run, a checkpoint or a baseline."


@app.callback()
def group() -> None:
    """Run experiments between two versions: registered first, looked at freely, ended by evidence."""


@app.command()
def start(
    name: Annotated[str, typer.Argument(help="Name of the experiment.")],
    *,
    a: Annotated[str, typer.Option("--a", help=f"The version in use. {ARM}")],
    b: Annotated[str, typer.Option("--b", help=f"The challenger. {ARM}")],
    mode: Annotated[
        str, typer.Option(help="shadow: both on the same prices; forks: copies of one market; split: by hash.")
    ] = "shadow",
    on: Annotated[
        str, typer.Option(help="A world, a data set, the address of a live feed, or, for a split, `agents`.")
    ] = "",
    margin: Annotated[
        str, typer.Option(help="Coins or USD a unit that do not matter; 0: never conclude equality.")
    ] = "0",
    budget: Annotated[int, typer.Option(min=1, help="Units after which it ends in any case.")] = 2_000,
    loss: Annotated[
        str, typer.Option(help="What a unit may lose, enforced by the market; default: the stake of policy or game.")
    ] = "",
    gain: Annotated[
        str, typer.Option(help="Profit of a unit up to which it counts; default: as much as the loss.")
    ] = "",
    leverage: Annotated[int, typer.Option(min=0, max=100, help="Forks: least leverage of perps; 0: any.")] = 0,
    decisions: Annotated[int, typer.Option(help="Forks: decisions in a window.")] = 6,
    prompt: Annotated[str, typer.Option(help="Forks: which prompt is shown: full, short or brief.")] = "full",
    max_tokens: Annotated[int, typer.Option(help="Forks: longest answer of a model.")] = 120,
    share: Annotated[float, typer.Option(help="Split: share of units that B gets.")] = 0.5,
    seed: Annotated[int, typer.Option(help="Same seed, same windows.")] = 1,
    game: Annotated[str | None, typer.Option(help="The game; default: the versions' own.")] = None,
    units: Annotated[
        int, typer.Option(min=0, help="Play so many units now, then leave it running; 0: to its end.")
    ] = 0,
    register_only: Annotated[bool, typer.Option("--register-only", help="Play nothing yet.")] = False,
    as_json: AsJson = False,
) -> None:
    """Register an experiment and play until one of its endings; the same command again goes on where it was.

    Example: playproof ab start longer --a wait --b hold-40 --on drift --loss 0.01 --budget 2000

    Example: playproof ab start talk --a random --b informed --mode forks --on clear --loss 400 --leverage 5
    """
    from playproof.operate.experiments.plan import MODES

    modes: dict[str, Mode] = {item: item for item in MODES}
    if mode not in modes:
        raise ConfigError(f"expected a mode of {', '.join(MODES)}, found {mode!r}")
    forks = {"decisions": decisions, "prompt": prompt, "max_tokens": max_tokens}
    if leverage:
        forks["leverage"] = leverage
    with _ledger() as ledger:
        plan = _plan(name, modes[mode], a, b, on, (loss, gain, margin), budget, share, seed, forks, game)
        experiment = ledger.register(plan)
        if not register_only and experiment.ended_at is None:
            _play(ledger, plan, units or plan.budget)
        _finish(ledger, name, as_json)


def _ledger() -> _OpenLedger:
    return _OpenLedger()


class _OpenLedger:
    """Opens the experiments of the home's database for a `with`."""

    def __enter__(self) -> ExperimentLedger:
        from playproof.home import home
        from playproof.operate.experiments.ledger import ExperimentLedger
        from playproof.store.db import connect, ready

        self._engine = connect(home())
        return ExperimentLedger(ready(self._engine))

    def __exit__(self, *_: object) -> None:
        self._engine.dispose()


def _plan(
    name: str,
    mode: Mode,
    a: str,
    b: str,
    on: str,
    money: tuple[str, str, str],
    budget: int,
    share: float,
    seed: int,
    forks: Json,
    game: str | None,
) -> ExperimentPlan:
    """Give the plan that the options describe, every default filled in."""
    from playproof.game import first
    from playproof.operate.experiments.plan import ExperimentPlan

    loss, gain, margin = (_amount(text) for text in money)
    if mode == "forks" or on == AGENTS:
        played = language_game(game)
        arms, stake = [_language_arm(item) for item in (a, b)], played.defaults.stake
        options = dict(forks)
    else:
        arms, played, stake = _policy_arms(a, b, on, loss or None, game)
        options = {}
    limit = loss or stake
    return ExperimentPlan(
        name=name,
        mode=mode,
        game=played.name,
        a=arms[0],
        b=arms[1],
        loss_limit=limit,
        gain_cap=gain or limit,
        margin=margin,
        budget=budget,
        share=share,
        on=on or first(played.worlds),
        seed=seed,
        options=options,
    )


AGENTS = "agents"


def _amount(text: str) -> int:
    """Read coins or USD as units of 10^-9, exactly; nothing is 0."""
    units = to_units(text or "0")
    if units < 0:
        raise ConfigError(f"expected an amount from 0, found {text}")
    return units


def _policy_arms(a: str, b: str, on: str, stake: int | None, name: str | None) -> tuple[list[ExperimentArm], Game, int]:
    """Give both policies, their game, and the stake that both reserve for a window."""
    from playproof.operate.experiments.plan import ExperimentArm
    from playproof.validate.examine import load_subject

    loads = [find_policy(item) for item in (a, b)]
    data, world = _source(on)
    game = policy_game(loads, name, data, world)
    subjects = [load_subject(game, load, stake=stake) for load in loads]
    stakes = {subject.stake for subject in subjects}
    if len(stakes) > 1:
        raise ConfigError(
            f"expected versions that reserve the same stake, found {sorted(item / UNIT for item in stakes)}; the"
            " policy's file fixes it, so compare versions of one stake"
        )
    arms = [
        ExperimentArm(_label(text), subject.policy_hash, load)
        for text, load, subject in zip((a, b), loads, subjects, strict=True)
    ]
    return arms, game, stakes.pop()


def _label(text: str) -> str:
    target = None if text.startswith("baseline:") else find_registered(text)
    return text if target is None else target.version.label


def _language_arm(text: str) -> ExperimentArm:
    """Give a player of words: a model that is registered or a checkpoint, or a scripted player."""
    from hashlib import sha256

    from playproof.operate.experiments.plan import ExperimentArm
    from playproof.policies.checkpoint import CARD

    load = find_model(text)
    card = Path(load) / CARD
    digest = sha256(card.read_bytes() if card.exists() else f"player {load}".encode()).hexdigest()
    return ExperimentArm(_label(text), digest, load)


def _source(on: str) -> tuple[str | None, str | None]:
    """Tell a data set from a world."""
    from playproof.game import game_names, load_game

    if _is_feed(on):
        return None, None
    if not on or any(on in load_game(item).worlds for item in game_names()):
        return None, on or None
    return str(find_data(on)), None


def _is_feed(on: str) -> bool:
    return on.startswith(("http://", "https://", "ws://", "wss://"))


def _play(ledger: ExperimentLedger, plan: ExperimentPlan, wanted: int) -> None:
    """Add units until an ending is reached, or as many are added as were asked for."""
    if _is_feed(plan.on):
        _follow(ledger, plan, wanted)
        return
    added = 0
    for chunk in _units(ledger, plan, len(ledger.units(plan.name))):
        if (room := wanted - added) <= 0:
            break
        added += ledger.add(plan.name, chunk[:room])
        verdict = ledger.look(plan.name)
        note(f"{verdict.windows:,} units: {verdict.ending}")
        if ledger.find(plan.name).ended_at is not None:
            break


FOLLOWERS = "playproof.shadow"
"""Entry points: by game, what follows a live feed with two policies."""


def _follow(ledger: ExperimentLedger, plan: ExperimentPlan, wanted: int) -> None:
    """Let both decide on a live feed, round after round."""
    followers = {point.name: point for point in entry_points(group=FOLLOWERS)}
    if plan.mode == "forks" or plan.game not in followers:
        raise ConfigError(f"expected a live feed of {', '.join(followers)} in shadow or split, found {plan.game}")
    added = 0

    def take(units: list[ExperimentUnit]) -> bool:
        nonlocal added
        pairs = [(unit.unit, unit.pnl_a or 0, unit.pnl_b or 0) for unit in units]
        added += ledger.add(plan.name, [arm_unit(plan, *pair) for pair in pairs])
        verdict = ledger.look(plan.name)
        note(f"{verdict.windows:,} units: {verdict.ending}")
        return added < wanted and ledger.find(plan.name).ended_at is None

    from playproof.operate.experiments.feeds import arm_unit

    left_out = followers[plan.game].load()(plan, *_subjects(plan), take)
    if left_out:
        note(f"{left_out} rounds did not count: parts of them were not received")


def _subjects(plan: ExperimentPlan) -> tuple[Subject, Subject]:
    """Load both policies, as they were registered."""
    from playproof.game import load_game
    from playproof.validate.examine import load_subject

    game = load_game(plan.game)
    a, b = (load_subject(game, arm.load, stake=plan.loss_limit) for arm in (plan.a, plan.b))
    for arm, subject in ((plan.a, a), (plan.b, b)):
        if subject.policy_hash != arm.policy_hash:
            raise ConfigError(f"expected {arm.label} as it was registered, found another policy at {arm.load}")
    return a, b


def _units(ledger: ExperimentLedger, plan: ExperimentPlan, known: int) -> Iterator[list[ExperimentUnit]]:
    from playproof.operate.experiments import feeds

    if plan.on == AGENTS:
        yield feeds.agent_units(plan, ledger.engine, ledger.find(plan.name).registered_at)
        return
    from playproof.game import load_game
    from playproof.validate.examine import data_plan

    game = load_game(plan.game)
    if plan.mode == "forks":
        yield from feeds.forked_units(plan, game, known)
        return
    a, b = _subjects(plan)
    if plan.on in game.worlds:
        yield from feeds.simulated_units(plan, game, a, b, known)
        return
    tape = data_plan(game, str(find_data(plan.on)), "test", None, plan.seed).source
    if isinstance(tape, str):
        raise ConfigError(f"expected a data set with recorded windows, found {plan.on}")
    yield from feeds.recorded_units(plan, game, a, b, tape)


@app.command()
def status(
    name: Annotated[str, typer.Argument(help="Only this experiment; default: all.")] = "", *, as_json: AsJson = False
) -> None:
    """Look at experiments; looking costs nothing.

    Example: playproof ab status --json
    """
    from playproof.operate.experiments.page import experiment_json

    with _ledger() as ledger:
        names = [name] if name else [item.plan.name for item in ledger.all()]
        shown = []
        for item in names:
            verdict = ledger.look(item)
            shown.append(experiment_json(ledger.find(item), verdict))
    emit({"experiments": shown}, as_json, lambda: _status_table(shown))


@app.command()
def stop(
    name: Annotated[str, typer.Argument(help="Name of the experiment.")],
    *,
    why: Annotated[str, typer.Option(help="Reason, kept with it.")],
    as_json: AsJson = False,
) -> None:
    """End an experiment by hand; stopping shows nothing, and its looks still count in the trial ledger.

    Example: playproof ab stop longer --why "the game has changed"
    """
    with _ledger() as ledger:
        ledger.stop(name, why)
        _finish(ledger, name, as_json)


@app.command()
def report(
    name: Annotated[str, typer.Argument(help="Name of the experiment.")],
    *,
    output: Annotated[Path | None, typer.Option(help="Folder of the report; default: in reports/ of the home.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write the page of an experiment: e-values, confidence sequence, profits, and the naive p-value beside them.

    Example: playproof ab report longer
    """
    with _ledger() as ledger:
        _finish(ledger, name, as_json, output)


def _finish(ledger: ExperimentLedger, name: str, as_json: bool, output: Path | None = None) -> None:
    """Write the report and print where the experiment stands."""
    from playproof.home import folder
    from playproof.operate.experiments.page import experiment_json, write_experiment

    verdict = ledger.look(name)
    experiment = ledger.find(name)
    path = write_experiment(experiment, ledger.units(name), verdict, output or folder("reports") / f"ab-{name}")
    data = experiment_json(experiment, verdict) | {"report": str(path)}
    emit(data, as_json, lambda: _shown(experiment, verdict, data))


def _shown(experiment: Experiment, verdict: SequentialVerdict, data: Json) -> str:
    low, high = verdict.interval
    return "\n".join(
        [
            f"{str(data['ending']).upper()}  {experiment.plan.name}, {experiment.plan.mode}",
            str(data["sentence"]),
            f"e-values: A better {data['e_value_a']:.3g}, B better {data['e_value_b']:.3g}; "
            f"{data['e_value_needed']:.3g} end it",
            f"A less B: {verdict.mean:+.4g} a unit, {low:+.4g} to {high:+.4g} (confidence sequence, 95 %)",
            f"naive p {verdict.naive_p:.3g}, which is not to be looked at again and again",
            f"Report: {data['report']}",
        ]
    )


def _status_table(rows: list[Json]) -> Table:
    from rich.table import Table

    table = Table("experiment", "mode", "A", "B", "units", "e A", "e B", "ending", title_justify="left")
    table.title = f"{len(rows)} experiments"
    for row in rows:
        units = f"{row['units']:,} of {row['budget']:,}"
        evidence = (f"{row['e_value_a']:.3g}", f"{row['e_value_b']:.3g}")
        table.add_row(row["name"], row["mode"], row["a"], row["b"], units, *evidence, row["ending"])
    return table
