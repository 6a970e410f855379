"""Serve the trajectory recorder or the recording proxy, and look at what was recorded.

Leaves out: the recorder itself (playproof.record).
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playproof.cli.output import AsJson, emit, note
from playproof.cli.targets import choose_game
from playproof.errors import ConfigError
from playproof.home import home

if TYPE_CHECKING:
    from rich.table import Table

    from playproof.game import Game
    from playproof.net.access import AccessPolicy
    from playproof.store.db.trajectories import StoredTrajectory

PORT, PROXY_PORT = 8790, 8791

app = typer.Typer(no_args_is_help=True, help=__doc__.partition("\n")[0])

GameName = Annotated[
    str | None,
    typer.Option("--game", "--market", help="Game or declared market whose windows they are; else the only one."),
]
Host = Annotated[str, typer.Option(help="Address to listen on.")]
Port = Annotated[int, typer.Option(help="Port; 0 for a free one.", min=0, max=65535)]
TokenFile = Annotated[
    Path | None, typer.Option("--tokens", help="File of tokens, made if it is missing; needed beyond this machine.")
]
Seconds = Annotated[float | None, typer.Option(help="Stop after this long.", show_default=False)]


@app.command()
def serve(
    *,
    host: Host = "127.0.0.1",
    port: Port = PORT,
    game: GameName = None,
    tokens: TokenFile = None,
    seconds: Seconds = None,
) -> None:
    """Take trajectories over HTTP, durable when answered. The API is described at /openapi.json.

    Example: playproof trajectories serve --port 8790 --game my-market
    """
    from playproof.game.markets import find_market
    from playproof.net.listening import bind, listen
    from playproof.record.trajectories.http import forget_requests, trajectory_api
    from playproof.record.trajectories.recorder import TrajectoryRecorder

    door = _door(host, tokens)
    taken = bind(host, port)
    rules = clock_game(game).windows
    market = find_market(rules.market) if rules.market else None
    with TrajectoryRecorder(windows=rules) as recorder:
        forget_requests(recorder)
        _tell_address("trajectories", taken, "")
        listen(trajectory_api(recorder, door, market), taken, seconds=seconds)


@app.command()
def proxy(
    *,
    upstream: Annotated[str | None, typer.Option(help="The base_url to go on to; else $OPENAI_BASE_URL.")] = None,
    ask_logprobs: Annotated[
        bool, typer.Option("--ask-logprobs", help="Ask for log-probabilities in any case.")
    ] = False,
    host: Host = "127.0.0.1",
    port: Port = PROXY_PORT,
    game: GameName = None,
    tokens: TokenFile = None,
    seconds: Seconds = None,
) -> None:
    """Forward OpenAI requests and record them: set an agent's base_url to ADDRESS/agents/NAME/v1.

    Where $OPENAI_API_KEY is set it goes to the upstream, and agents need no key of their own.

    Example: playproof trajectories proxy --upstream http://127.0.0.1:8000/v1
    """
    from playproof.net.listening import bind, listen
    from playproof.record.trajectories.proxy import Proxy, Upstream, proxy_role
    from playproof.record.trajectories.recorder import TrajectoryRecorder

    address = upstream or os.environ.get("OPENAI_BASE_URL")
    if not address:
        raise ConfigError("expected an upstream, found none; use --upstream or set OPENAI_BASE_URL")
    door = _door(host, tokens)
    door.roles = proxy_role
    taken = bind(host, port)
    with TrajectoryRecorder(windows=clock_game(game).windows) as recorder:
        forwarding = Proxy(recorder, Upstream(address, os.environ.get("OPENAI_API_KEY") or None, ask_logprobs))
        _tell_address("proxy", taken, "/agents/NAME/v1")
        listen(forwarding.app(door), taken, forwarding.close, seconds)
    counts = forwarding.counts
    note(f"forwarded {counts.forwarded}, stored {counts.stored}, not stored {counts.not_stored}")


def clock_game(name: str | None) -> Game:
    """Give a game by name, or the one whose windows are named by the clock."""
    return choose_game(name, lambda game: name is not None or game.windows.at is not None, "has windows by the clock")


def _door(host: str, tokens: Path | None) -> AccessPolicy:
    from playproof.net.access import AccessPolicy, RoleTokens, check_address, is_loopback, read_tokens

    held = read_tokens(tokens) if tokens else RoleTokens()
    check_address(host, held)
    return AccessPolicy(held, loopback=is_loopback(host))


def _tell_address(what: str, taken: Any, path: str) -> None:
    host, port, *_ = taken.getsockname()
    shown = f"[{host}]" if ":" in host else host
    note(f"{what} at http://{shown}:{port}{path}")


@app.command(name="ls")
def list_stored(
    *,
    window: Annotated[str | None, typer.Option("--window", help="Only this window.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="Only this agent.")] = None,
    limit: Annotated[int, typer.Option(help="How many, the latest first.", min=1)] = 30,
    as_json: AsJson = False,
) -> None:
    """List trajectories, the latest first.

    Example: playproof trajectories ls --window 2025-01-15T10:00Z
    """
    from playproof.store.db import opened, ready
    from playproof.store.db.trajectories import list_trajectories

    with opened(home()) as engine:
        result = list_trajectories(ready(engine), window_id=window, agent_id=agent, limit=limit)
    payload = [
        {name: value for name, value in asdict(item).items() if name not in ("steps", "calls")} for item in result
    ]
    emit({"trajectories": payload}, as_json, lambda: _listing(result))


@app.command()
def show(
    trajectory_id: Annotated[str, typer.Argument(metavar="ID", help="The trajectory's id.")],
    *,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a page with the conversation to this file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show every step of a trajectory: what the agent saw, thought and did, and its money beside it.

    Example: playproof trajectories show 0194699ebda4145cf31e287f92da2fae --html trajectory.html
    """
    from playproof.store.db import opened, ready
    from playproof.store.db.trajectories import read_trajectory

    with opened(home()) as engine:
        result = read_trajectory(ready(engine), trajectory_id)
    if html is not None:
        from playproof.reports.trajectory import trajectory_page

        html.write_text(trajectory_page(result), encoding="utf-8")
        note(f"written to {html}")
    emit(asdict(result), as_json, lambda: _steps(result))


def _listing(stored_trajectories: tuple[StoredTrajectory, ...]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table("trajectory", "agent", "window", "started", "status", "trades", "P&L", title_justify="left")
    table.columns[0].min_width, table.columns[-1].justify = 32, "right"
    for item in stored_trajectories:
        started = item.start_time.strftime("%Y-%m-%d %H:%M:%SZ")
        cells = (item.trajectory_id, item.agent_id, item.window_id, started, item.final_status)
        trades = "" if item.trades_executed is None else str(item.trades_executed)
        table.add_row(*(Text(cell) for cell in (*cells, trades, money(item.final_pnl))))
    return table


def _steps(trajectory: StoredTrajectory) -> Table:
    from rich.table import Table
    from rich.text import Text

    title = (
        f"{trajectory.agent_id} in {trajectory.window_id}: {trajectory.final_status}, P&L {money(trajectory.final_pnl)}"
    )
    table = Table("step", "balance", "P&L", "saw", "answered", "did", title=title, title_justify="left")
    for step in trajectory.steps:
        calls = trajectory.calls_of(step.number)
        saw = calls[0].prompt[-1]["content"] if calls and calls[0].prompt else step.accesses
        answered = " / ".join(call.response or call.error or "" for call in calls) or step.action_reasoning or ""
        did = (
            f"{step.action_type or '...'}{'' if step.action_success is not False else f' refused: {step.action_error}'}"
        )
        row = (str(step.number), money(step.state.get("balance")), money(step.state.get("pnl")))
        table.add_row(*(Text(cell) for cell in (*row, _cut(str(saw), 300), _cut(answered, 200), _cut(did, 120))))
    return table


def money(units: object) -> str:
    """Write money for a screen, two decimals."""
    return f"{units / 1e9:,.2f}" if isinstance(units, int) and not isinstance(units, bool) else ""


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
