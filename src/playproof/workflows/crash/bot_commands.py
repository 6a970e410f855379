"""Let a policy play behind the order gate: run, kill, reset, audit, report."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playproof.cli.output import AsJson, emit, note
from playproof.errors import ConfigError, GateFailed

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(
    no_args_is_help=True, help="Let a policy play behind the order gate: run, kill, reset, audit, report."
)
audit_app = typer.Typer(no_args_is_help=True, help="Check the audit log of a bot's session.")
app.add_typer(audit_app, name="audit")

Account = Annotated[str, typer.Argument(help="The account, as playproof bot ls names it.")]
SessionId = Annotated[str, typer.Argument(help="A session's id, an account for its last one, or last.")]


@app.command()
def run(
    policy: Annotated[str, typer.Argument(help="A model's name or alias, a run, a checkpoint's folder, a baseline.")],
    url: Annotated[str, typer.Argument(help="Address of the Socket.IO server or of the page.")] = "",
    on: Annotated[str, typer.Option(help="Where to play: socket or browser, with the address behind it.")] = "socket",
    paper: Annotated[
        bool, typer.Option("--paper", help="Send nothing; settle by our own ledger (the default).")
    ] = False,
    practice: Annotated[bool, typer.Option("--practice", help="Send orders, with practice tokens.")] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Play for money; needs everything that the guide names.")
    ] = False,
    phrase: Annotated[str, typer.Option(help="With --live: the phrase that names the largest loss.")] = "",
    report_file: Annotated[str, typer.Option("--report", help="With --live: report.json of the validation.")] = "",
    account: Annotated[str, typer.Option(help="Whose limits and money; made if it is new.")] = "",
    world: Annotated[str, typer.Option(help="Rules of the table: published, fair, drift ...")] = "published",
    rounds: Annotated[int, typer.Option(help="End after so many whole rounds; 0 for no limit.")] = 0,
    seconds: Annotated[float, typer.Option(help="End after so many seconds; 0 for no limit.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Of a policy that chooses by chance.")] = 0,
    headless: Annotated[bool, typer.Option("--headless", help="Show no browser window.")] = False,
    speed: Annotated[float, typer.Option(help="Without an address: serve a table of our own, this much faster.")] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Play a live feed behind the order gate: on paper, or with practice tokens.

    Every decision is recorded like a person's play and stands in the audit log. Ctrl-C ends it; `playproof bot kill`
    stops it for good. Without an address a table of our own is served for the time.

    Example: playproof bot run hold-40 --on socket http://127.0.0.1:8777 --paper --rounds 5

    Example: playproof bot run take-profit --on browser http://127.0.0.1:8777 --practice --seconds 60
    """
    from playproof.game import load_game
    from playproof.home import home
    from playproof.operate.live_money import LiveRequest, check_live, read_limits
    from playproof.workflows.crash.bot_run import BotPlan, run_bot

    if practice + paper + live > 1:
        raise ConfigError("expected one of --paper, --practice and --live, found several")
    if on not in ("socket", "browser"):
        raise ConfigError(f"expected --on socket or browser, found {on!r}")
    game, limits = load_game("crash"), read_limits(home())
    subject = find_subject(policy, game)
    if live:
        path = Path(report_file) if report_file else None
        check_live(LiveRequest(subject.policy_hash, game_balance(), limits, phrase, path), home(), datetime.now(UTC))
        raise GateFailed("live money is refused: no venue of real money is known to this package")
    plan = BotPlan(
        subject, url, "browser" if on == "browser" else "socket", "practice" if practice else "paper", account, rounds,
        seconds, world=world, seed=seed, headless=headless, limits=limits,
    )  # fmt: skip
    if url:
        summary = run_bot(plan)
    elif speed > 0:
        summary = _run_at_own_table(plan, speed)
    else:
        raise ConfigError(
            "expected the address of a table, such as http://127.0.0.1:8777, or --speed for one of our own"
        )
    emit(summary, as_json, lambda: run_table(summary))
    if str(summary["ended"]).startswith("halted"):
        raise GateFailed(f"the gate stopped the bot: {summary['ended']}; see playproof bot ls")


def _run_at_own_table(plan: Any, speed: float) -> dict[str, Any]:
    from dataclasses import replace

    from playproof.games.crash.server.app import RunningServer, ServeConfig
    from playproof.workflows.crash.bot_run import run_bot

    with RunningServer(ServeConfig(port=0, speed=speed, seed=plan.seed, world=plan.world)) as server:
        note(f"serving a table at {server.url}, {speed:g} times faster")
        return run_bot(replace(plan, url=server.url))


def find_subject(what: str, game: Any) -> Any:
    """Give the policy of a name: a run, a checkpoint's folder, a baseline or module:attribute."""
    from playproof.cli.targets import find_policy
    from playproof.validate.examine import load_subject

    return load_subject(game, find_policy(what, game.name))


def game_balance() -> int:
    """Give the bankroll that a new account starts with."""
    from playproof.money import UNIT

    return UNIT


def run_table(summary: dict[str, Any]) -> Table:
    """Lay the summary of a run out."""
    from rich.table import Table

    table = Table("", "", title=f"bot {summary['policy']}", title_justify="left", show_header=False)
    for name, value in summary.items():
        table.add_row(name, ", ".join(map(str, value)) if isinstance(value, list) else str(value))
    return table


@app.command("ls")
def ls(as_json: AsJson = False) -> None:
    """List the accounts of bots: gate, money, limits used, last session.

    Example: playproof bot ls
    """
    from dataclasses import asdict

    from playproof.home import home
    from playproof.money import show
    from playproof.operate.live_money import read_limits
    from playproof.operate.state import read_bots
    from playproof.store.db import connect, ready

    bots = read_bots(ready(connect(home())), home(), int(datetime.now(UTC).timestamp() * 1000), read_limits(home()))

    def table() -> Table:
        from rich.table import Table

        result = Table("account", "gate", "cash", "open", "last session", title="bots", title_justify="left")
        for bot in bots:
            gate = f"{bot.account.state} {bot.account.reason}" + (" (kill file)" if bot.kill_file else "")
            result.add_row(
                bot.account.account, gate.strip(), show(bot.account.cash), str(bot.account.open_positions),
                f"{bot.session_id} {bot.ended or 'running'}",
            )  # fmt: skip
        return result

    emit([asdict(bot) for bot in bots], as_json, table)


@app.command()
def kill(
    account: Account,
    why: Annotated[str, typer.Option(help="Why; it stands in the file.")] = "by hand",
) -> None:
    """Stop a bot for good: no new order, what is open is closed, and only `bot reset` lets it trade again.

    Example: playproof bot kill paper-hold-40 --why "odd fills"
    """
    from playproof.home import home
    from playproof.operate.state import kill as write_kill

    note(f"wrote {write_kill(home(), account, why)}; the gate of the account looks for it all the time")


@app.command("take-over")
def take_over(account: Account) -> None:
    """Play by hand until the round ends; the bot watches, and what you do is recorded as an intervention.

    Example: playproof bot take-over paper-hold-40
    """
    from playproof.home import home
    from playproof.operate.state import take_over as write_file

    note(f"wrote {write_file(home(), account)}; the bot is yours until the round ends")


@app.command()
def reset(
    account: Account,
    why: Annotated[str, typer.Option(help="What a person looked at before.")],
    as_json: AsJson = False,
) -> None:
    """Let a stopped account trade again, with a person's reason; the gate opens after it has reconciled.

    Example: playproof bot reset paper-hold-40 --why "looked at the fills, the feed had a gap"
    """
    from dataclasses import asdict

    from playproof.home import home
    from playproof.operate.state import reset as take_latch_off
    from playproof.store.db import connect, ready

    state = take_latch_off(ready(connect(home())), home(), account, why, datetime.now(UTC))
    emit(asdict(state), as_json, lambda: f"{account}: {state.state}, {state.reason}")


@audit_app.command()
def verify(
    session: SessionId,
    head: Annotated[str, typer.Option(help="The head's hash as a report or notification gave it.")] = "",
    as_json: AsJson = False,
) -> None:
    """Walk a session's audit log; exit code 2 where a line was changed, removed, moved or added.

    Example: playproof bot audit verify last
    """
    from dataclasses import asdict

    from playproof.home import home
    from playproof.operate.audit import verify_audit
    from playproof.operate.state import find_session
    from playproof.store.db import connect, ready

    engine = ready(connect(home()))
    result = verify_audit(engine, find_session(engine, session), head or None)
    emit(asdict(result), as_json, lambda: f"{result.lines} lines, head {result.head}")
    if not result.sound:
        raise GateFailed("the audit log is not as it was written: " + "; ".join(result.problems))


@app.command()
def report(
    session: SessionId,
    policy: Annotated[str, typer.Option(help="The policy that played, where its name does not tell.")] = "",
    output: Annotated[Path | None, typer.Option(help="Folder for report.html and report.json.")] = None,
    as_json: AsJson = False,
) -> None:
    """Play a session again in the environment and list every difference by cause, as a page and as JSON.

    Example: playproof bot report last
    """
    from playproof.game import load_game
    from playproof.home import folder, home
    from playproof.operate.state import find_session
    from playproof.store.db import connect, ready
    from playproof.workflows.crash.bot_page import write_report
    from playproof.workflows.crash.bot_report import compare_session
    from playproof.workflows.crash.bot_run import read_session

    session = find_session(ready(connect(home())), session)
    kept = read_session(home(), session)
    subject = find_subject(policy or kept["summary"]["policy"], load_game("crash"))
    comparison = compare_session(home(), session, subject)
    target = output or folder("reports") / session
    write_report(comparison, target)
    emit({**comparison.to_dict(), "output": str(target)}, as_json, lambda: difference_table(comparison, target))


def difference_table(comparison: Any, target: Path) -> Table:
    """Lay the causes out."""
    from rich.table import Table

    table = Table("cause", "differences", title=f"live beside paper, in {target}", title_justify="left")
    for cause, count in comparison.causes.items():
        table.add_row(cause, str(count))
    if not comparison.causes:
        table.add_row("none", "0")
    return table
