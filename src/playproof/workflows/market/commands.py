"""Declare a market of your own, and rank the agents that were recorded in it.

A market is recorded, not simulated: its windows, outcomes and trajectories come from your own system.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playproof.cli.output import AsJson, emit, note
from playproof.errors import GateFailed, InputError
from playproof.game.markets import (
    PNL_MINUS_HOLD,
    MarketDeclaration,
    add_market,
    declared_markets,
    find_market,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from playproof.workflows.market.ranking import MarketRanking

app = typer.Typer(no_args_is_help=True, help=__doc__.partition("\n")[0])
MarketName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the market.")]
Names = list[str] | None
NEEDS = (
    ("record over HTTP", "playproof trajectories serve --game {name}"),
    ("import your tables", "playproof import studio postgresql://... --market {name}"),
    ("write outcomes", "playproof outcomes import FILE --game {name}"),
    ("see what is ready", "playproof windows --game {name}"),
    ("rank agents", "playproof market agents {name}"),
    ("judge", "playproof judge run --game {name}"),
    ("imitate", "playproof train sft --recorded --game {name}"),
    ("learn on policy", "playproof train grpo --source recorded --game {name}"),
    ("replay", "playproof replay WINDOW --game {name}"),
)
"""What works on a market, and by which command."""


@app.command()
def add(
    name: MarketName,
    *,
    window_hours: Annotated[int, typer.Option(help="Length of a window in hours; a divisor of 24.")] = 1,
    zone: Annotated[str, typer.Option(help="Zone from whose midnight windows are cut.")] = "UTC",
    asset: Annotated[Names, typer.Option(help="An asset with a price; may be given again.")] = None,
    question: Annotated[Names, typer.Option(help="Id of a yes/no question; may be given again. Default: any.")] = None,
    currency: Annotated[str, typer.Option(help="Currency of prices and money.")] = "USD",
    unit: Annotated[str, typer.Option(help="Smallest amount of money, such as 0.01 or 1e-6.")] = "0.01",
    action: Annotated[Names, typer.Option(help="A type of action; may be given again. Default: any.")] = None,
    reward: Annotated[
        str, typer.Option(help="pnl-minus-hold (P&L over starting equity minus buy-and-hold), or judge-only.")
    ] = PNL_MINUS_HOLD,
    usable_step: Annotated[
        str, typer.Option(help="What a step needs to count: action, with prompt, answer, logprobs.")
    ] = "action+prompt+answer",
    as_json: AsJson = False,
) -> None:
    """Declare a market in playproof.toml of the home; the same declaration again changes nothing.

    Example: playproof market add my-market --asset BTC --asset ETH --action BUY --action SELL --action HOLD
    """
    from playproof.game import game_names

    if name in game_names() and name not in declared_markets():
        raise InputError(f"expected a new name, found {name!r}, which is an installed game")
    market = MarketDeclaration(
        name=name,
        window_hours=window_hours,
        zone=zone,
        assets=tuple(asset or ()),
        questions=tuple(question or ()),
        currency=currency,
        unit=unit,
        actions=tuple(action or ()),
        reward=reward,
        usable_step=usable_step,
    )
    path = add_market(market)
    note(f"declared in {path}")
    emit(asdict(market), as_json, lambda: _market(market))


@app.command(name="ls")
def list_markets(*, as_json: AsJson = False) -> None:
    """List the declared markets.

    Example: playproof market ls
    """
    markets = list(declared_markets().values())
    emit({"markets": [asdict(market) for market in markets]}, as_json, lambda: _markets(markets))


@app.command()
def show(name: MarketName, *, as_json: AsJson = False) -> None:
    """Show how a market is declared, and which commands take it.

    Example: playproof market show my-market
    """
    market = find_market(name)
    emit(asdict(market), as_json, lambda: _market(market))


@app.command()
def agents(
    name: MarketName,
    *,
    hours: Annotated[
        float | None, typer.Option("--hours", help="Only windows that began in the last so many hours.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same intervals.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Rank every recorded agent with 95 % intervals over windows; exit code 2 where none can be ranked.

    Example: playproof market agents my-market --hours 168
    """
    from playproof.store.db import opened, ready
    from playproof.workflows.market.ranking import rank_market

    market = find_market(name)
    since = "" if hours is None else market.window_id(datetime.now(UTC) - timedelta(hours=hours))
    with opened() as engine:
        ranking = rank_market(ready(engine), market, since, seed)
    emit(ranking.to_json(), as_json, lambda: _ranking(ranking, market))
    if not ranking.agents and not ranking.judged:
        reasons = ", ".join(f"{count} because {why}" for why, count in ranking.left_out.items())
        raise GateFailed(f"expected agents to rank in market {name}, found none: {reasons}")


def _market(market: MarketDeclaration) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table("", "", title=f"market {market.name}: recorded, not simulated", title_justify="left")
    table.show_header = False
    for field in fields(market):
        value = getattr(market, field.name)
        shown = ", ".join(value) or "any" if isinstance(value, tuple) else str(value)
        table.add_row(field.name.replace("_", " "), Text(shown))
    table.add_section()
    for what, command in NEEDS:
        table.add_row(what, Text(command.format(name=market.name)))
    return table


def _markets(markets: list[MarketDeclaration]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table("market", "window", "assets", "currency", "reward")
    for market in markets:
        hours = f"{market.window_hours} h, {market.zone}"
        table.add_row(market.name, hours, Text(", ".join(market.assets) or "any"), market.currency, market.reward)
    return table if markets else "no market is declared; declare one with: playproof market add NAME --asset ..."


def _ranking(ranking: MarketRanking, market: MarketDeclaration) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from playproof.cli.ranking import ranked_table

    parts: list[Any] = []
    if ranking.agents:
        span = f"{len(ranking.windows)} windows from {ranking.windows[0]} to {ranking.windows[-1]}"
        parts.append(ranked_table(ranking.agents, f"{span}; {market.currency} a window, 95 % intervals over windows"))
    if ranking.judged:
        table = Table("agent", "windows", "judge's score, 95 % interval")
        for agent in ranking.judged:
            low, high = agent.score_interval
            span = f" ({low:.3f} {high:.3f})" if isfinite(low) and isfinite(high) else ""
            table.add_row(Text(agent.agent), str(agent.windows), f"{agent.score:.3f}{span}")
        parts.append(table)
    parts += [Text(f"{count} trajectories are left out: {why}") for why, count in ranking.left_out.items()]
    return Group(*parts)
