"""List rewards, check one, and search for ways to earn it without money."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from playproof.cli.output import AsJson, emit, progress
from playproof.errors import ConfigError, GateFailed
from playproof.game import first, game_names, load_game

if TYPE_CHECKING:
    from rich.console import RenderableType

    from playproof.game import Game
    from playproof.rewards import ExploitReport, RewardReport

app = typer.Typer(no_args_is_help=True, help=__doc__)

REWARD = Annotated[str, typer.Argument(help='Name, YAML or TOML file, "module:attribute" or "file.py:attribute".')]
GAME = Annotated[str, typer.Option("--game", help="The game; by default the first installed.")]
SEED = Annotated[int, typer.Option("--seed", help="Of all plays and windows.")]
GAMMA = Annotated[float, typer.Option("--gamma", help="Discount of the training to come.")]
MARKS = {"passed": "[green]passed[/]", "failed": "[bold red]FAILED[/]", "skipped": "[yellow]skipped[/]"}


def _game(name: str) -> Game:
    """Give the game asked for, or the one that has components to configure."""
    if name:
        game = load_game(name)
        if game.windows.market:
            raise ConfigError(
                f"market {name} is recorded, not simulated: rewards of steps need an installed game; the market's own "
                f"reward is in: playproof market show {name}"
            )
        return game
    games = [load_game(game_name) for game_name in game_names()]
    return next((game for game in games if game.rewards().components is not None), games[0])


@app.command("ls")
def list_rewards(*, game: GAME = "", as_json: AsJson = False) -> None:
    """List a game's rewards, and the components that a configuration can put together.

    Example: playproof reward ls
    """
    result = _game(game)
    rewards = result.rewards()
    table = {} if rewards.components is None else rewards.components.table
    payload = {
        "game": result.name,
        "default": first(rewards.presets),
        "rewards": [
            {
                "name": reward.name,
                "version": reward.version,
                "hash": reward.hash,
                "components": list(reward.components),
                "doc": reward.doc,
            }
            for reward in rewards.presets.values()
        ],
        "components": [
            {
                "name": item.name,
                "kind": item.kind,
                "pays_without_money": item.pays_without_money,
                "settings": {"weight": 1.0, **item.settings},
                "reads": list(item.reads),
                "doc": item.doc,
            }
            for item in table.values()
        ],
    }
    emit(payload, as_json, lambda: _listing(payload))


def _listing(payload: dict[str, Any]) -> RenderableType:
    from rich.console import Group
    from rich.table import Table

    rewards = Table("reward", "version", "components", "pays", title=f"rewards of {payload['game']}")
    for item in payload["rewards"]:
        rewards.add_row(item["name"], item["version"], ", ".join(item["components"]), item["doc"])
    parts = Table("component", "kind", "settings", "pays", title="components")
    for item in payload["components"]:
        settings = ", ".join(f"{name} {value}" for name, value in item["settings"].items())
        kind = f"[yellow]{item['kind']}[/]" if item["pays_without_money"] else item["kind"]
        parts.add_row(item["name"], kind, settings, item["doc"])
    return Group(rewards, parts) if payload["components"] else rewards


@app.command()
def check(
    reward: REWARD,
    *,
    game: GAME = "",
    seed: SEED = 1,
    gamma: GAMMA = 0.99,
    windows: Annotated[int, typer.Option("--windows", min=0, help="Windows of R8; 0 skips it.")] = 24_000,
    as_json: AsJson = False,
) -> None:
    """Check a reward by R1 to R5 and R8; exit code 2 if one fails.

    Example: playproof reward check minimal
    """
    from playproof.rewards import check_reward, load_reward

    result = _game(game)
    report = check_reward(result, load_reward(result, reward), seed, gamma=gamma, zoo_windows=windows)
    emit(report.to_json(), as_json, lambda: _findings(report))
    if not report.passed:
        raise GateFailed(f"reward {report.reward!r} fails {', '.join(report.failed)}")


def _findings(report: RewardReport) -> RenderableType:
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table

    title = f"{report.reward} ({report.hash[:12]}), discount {report.gamma:g}, {report.steps} steps"
    table = Table("check", "rule", "result", "example", title=title)
    for finding in report.findings:
        table.add_row(finding.check, finding.rule, MARKS[finding.status], escape(finding.detail))
    notes = [f"[yellow]warning:[/] {escape(text)}" for text in report.warnings]
    if report.clipped:
        notes.append(f"[yellow]warning:[/] {report.clipped} of {report.steps} steps were clipped")
    return Group(table, *notes)


@app.command()
def exploit(
    reward: REWARD,
    *,
    game: GAME = "",
    seed: SEED = 1,
    gamma: GAMMA = 0.99,
    budget: Annotated[int, typer.Option("--budget", min=400, help="Windows to be played.")] = 12_000,
    world: Annotated[str, typer.Option("--world", help="By default one in which nothing can be earned.")] = "",
    thorough: Annotated[bool, typer.Option("--thorough", help="Search for networks even if the zoo succeeds.")] = False,
    as_json: AsJson = False,
) -> None:
    """Search for ways to earn a reward without money; exit code 2 if there is one.

    Example: playproof reward exploit minimal
    """
    from playproof.rewards import find_exploits, load_reward

    result = _game(game)
    wanted = load_reward(result, reward)
    with progress() as bar:
        task = bar.add_task("windows", total=budget)
        report = find_exploits(
            result,
            wanted,
            seed,
            budget,
            gamma=gamma,
            world=world or None,
            thorough=thorough,
            progress=lambda done: bar.advance(task, done),
        )
    emit(report.to_json(), as_json, lambda: _stories(report))
    if not report.passed:
        raise GateFailed(f"reward {report.reward!r} can be earned without money: {report.exploits[0].name}")


def _stories(report: ExploitReport) -> RenderableType:
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        "policy", "reward", "money", "ROI", "positions", "no effect", title=f"best of {report.budget} windows"
    )
    for item in report.exploits or report.best:
        row = (
            f"{item.reward:+.4g}",
            f"{item.pnl:+.4g}",
            f"{item.roi:+.1%}",
            f"{item.positions:.3g}",
            f"{item.no_effect:.0%}",
        )
        table.add_row(escape(item.name), *row)
    if report.exploits:
        worst = report.exploits[0]
        verdict = f"[bold red]EXPLOIT[/] in world {report.world}: it {escape(worst.story)}"
    else:
        verdict = (
            report.note or f"[green]nothing found[/]: none out-earns the honest {report.honest:+.4g} without money"
        )
    return Group(table, verdict, f"[dim]{report.seconds:.1f} s[/]")
