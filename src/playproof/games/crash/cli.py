"""Verify, simulate and serve the crash game, and play its baselines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from playproof.cli.output import AsJson, emit, note, progress
from playproof.errors import ConfigError, GateFailed
from playproof.json_types import Json

if TYPE_CHECKING:
    from rich.table import Table

    from playproof.games.crash.players.tournament import TournamentScore
    from playproof.games.crash.sim.simulate import SimulatedRounds

app = typer.Typer(no_args_is_help=True, help="Verify, simulate and serve the crash game, and play its baselines.")

World = Annotated[str, typer.Option(help="published, fair, hazard, drift or instarug.")]
Seed = Annotated[int, typer.Option(help="Same seed, same rounds.")]


def rows(title: str, columns: list[str], values: list[list[str]]) -> Table:
    """Lay rows out as a table whose first column is a name."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    for row in values:
        table.add_row(*row)
    return table


@app.command()
def verify(
    file: Annotated[Path | None, typer.Argument(help="JSONL or JSONL.gz of revealed rounds.")] = None,
    server_seed: Annotated[str, typer.Option(help="The revealed seed of one round.")] = "",
    game_id: Annotated[str, typer.Option(help="The round's id.")] = "",
    version: Annotated[str, typer.Option(help="Version of the price algorithm: v1, v2 or v3.")] = "v3",
    seed_hash: Annotated[str, typer.Option("--hash", help="The promised SHA-256 of the seed, to compare with.")] = "",
    peak: Annotated[float | None, typer.Option(help="The published peak, to compare with.")] = None,
    rug_tick: Annotated[int | None, typer.Option(help="The published rug tick, to compare with.")] = None,
    world: World = "published",
    prices: Annotated[bool, typer.Option("--prices", help="Print all prices of the round too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Replay a round from its revealed seed, or check a whole file of them (exit code 2 on any difference).

    A round is compared with the hash, peak and rug tick that are given; without any there is nothing to compare with.

    Example: playproof crash verify --server-seed SEED --game-id 20251215-ece018bd34bb4acc --json

    Example: playproof crash verify seeded-games.jsonl.gz
    """
    if file is not None:
        verify_file(file, world, as_json)
        return
    if not server_seed or not game_id:
        raise ConfigError("expected a FILE, or --server-seed with --game-id, found neither")
    from playproof.games.crash.rules.prices import server_seed_hash
    from playproof.games.crash.rules.verify import check_seed, compare_round, replay

    check_seed(server_seed)
    result = replay(server_seed, game_id, version, world)
    data: Json = {
        "game_id": game_id,
        "version": version,
        "world": world,
        "rug_tick": result.rug_tick,
        "peak": result.peak,
        "rug_price": result.rug_price,
        "server_seed_hash": server_seed_hash(server_seed),
    }
    published = {"server_seed_hash": seed_hash or None, "peak": peak, "rug_tick": rug_tick}
    differences = compare_round(published, data)
    compared = [name for name, value in published.items() if value is not None]
    data["compared"] = compared
    data["differences"] = differences
    data["result"] = "differs" if differences else "matches" if compared else "computed, nothing to compare with"
    shown = [[name, ", ".join(value) if isinstance(value, list) else str(value)] for name, value in data.items()]
    if prices:
        data["prices"] = list(result.prices)
    emit(data, as_json, lambda: rows("round", ["what", "value"], shown))
    if differences:
        raise GateFailed(f"the round is not what its seed gives: {'; '.join(differences)}")


def verify_file(file: Path, world: str, as_json: bool) -> None:
    """Check a file and say how many of its rounds are as their seeds give them."""
    from playproof.games.crash.rules.verify import check_file

    checked = list(check_file(file, world))
    wrong = [one for one in checked if one.difference is not None]
    data = {
        "file": str(file),
        "verified": len(checked) - len(wrong),
        "total": len(checked),
        "differences": [{"line": w.line, "game_id": w.game_id, "difference": w.difference} for w in wrong],
    }
    title = f"verified {data['verified']} of {data['total']} rounds"
    shown = [[str(w.line), w.game_id, w.difference or ""] for w in wrong]
    emit(data, as_json, lambda: rows(title, ["line", "round", "first difference"], shown) if wrong else title)
    if wrong:
        raise GateFailed(f"{len(wrong)} of {len(checked)} rounds are not what their seeds give")


@app.command()
def simulate(
    rounds: Annotated[int, typer.Option(help="How many rounds.")] = 1_000_000,
    world: World = "published",
    seed: Seed = 1,
    as_json: AsJson = False,
) -> None:
    """Play rounds without a player and set survival and the return of holding beside theory.

    Example: playproof crash simulate --rounds 1000000 --world published --seed 1 --json
    """
    result = run_simulation(rounds, world, seed)
    emit(result.to_json(), as_json, lambda: simulation_table(result))


def run_simulation(rounds: int, world: str, seed: int) -> SimulatedRounds:
    """Simulate with a progress bar."""
    from playproof.games.crash.rules.worlds import get_world
    from playproof.games.crash.sim.simulate import simulate as run

    with progress() as bar:
        task = bar.add_task(f"simulating {world}", total=rounds)
        return run(get_world(world), seed, rounds, progress=lambda done: bar.update(task, completed=done))


def simulation_table(result: SimulatedRounds) -> Table:
    """Lay a simulation out beside theory."""
    values = []
    for what, table in (("survives tick", result.survival), ("holding to tick", result.hold)):
        for ticks, row in table.items():
            values.append(
                [f"{what} {ticks}", f"{row.mean:+.4%}", f"{row.se:.4%}", f"{row.theory:+.4%}", f"{row.sigmas:.1f}"]
            )
    title = f"{result.rounds:,} rounds of world {result.world}, seed {result.seed}"
    return rows(title, ["", "measured", "standard error", "theory", "errors apart"], values)


@app.command()
def baselines(
    rounds: Annotated[int, typer.Option(help="How many rounds each of them plays.")] = 2000,
    world: World = "published",
    seed: Seed = 1,
    only: Annotated[list[str] | None, typer.Option(help="A baseline by name; may be given several times.")] = None,
    as_json: AsJson = False,
) -> None:
    """Play the baselines over the same rounds and tell what they made of their stakes.

    Example: playproof crash baselines --rounds 2000 --world hazard --only sidebet --only hold-20
    """
    scores = run_baselines(only, world, rounds, seed)
    data = {"world": world, "seed": seed, "rounds": rounds, "baselines": [score.to_json() for score in scores]}
    emit(data, as_json, lambda: baselines_table(scores, world))


def run_baselines(names: list[str] | None, world: str, rounds: int, seed: int) -> list[TournamentScore]:
    """Play the named baselines, or all of them, with a progress bar."""
    from playproof.games.crash.players.baselines import BASELINES, make_baseline
    from playproof.games.crash.players.tournament import play

    scores = []
    with progress() as bar:
        for name in bar.track(names or list(BASELINES), description=f"playing {world}"):
            scores.append(play(name, make_baseline(name), world, rounds, seed))
    return scores


def baselines_table(scores: list[TournamentScore], world: str) -> Table:
    """Lay the scores of baselines out."""
    values = [
        [
            s.name,
            f"{s.positions:,}",
            f"{s.staked:,.3f}",
            f"{s.pnl:+,.4f}",
            f"{s.roi:+.2%}",
            f"{s.interval[0]:+.2%} to {s.interval[1]:+.2%}",
            f"{s.no_effect / s.decisions:.0%}" if s.decisions else "-",
        ]
        for s in scores
    ]
    title = f"baselines in world {world}, {scores[0].rounds:,} rounds each"
    columns = ["baseline", "positions", "staked", "profit", "return", "95 % interval", "no effect"]
    return rows(title, columns, values)


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="Folder for the page.")] = Path("demo-output"),
    rounds: Annotated[int, typer.Option(help="Rounds to simulate.")] = 1_000_000,
    played: Annotated[int, typer.Option(help="Rounds that each baseline plays.")] = 2000,
    seed: Seed = 1,
    as_json: AsJson = False,
) -> None:
    """Show the game: verify revealed rounds, simulate beside theory, play baselines, and write a page with plots.

    Example: playproof crash demo --output demo-output
    """
    from playproof.games.crash.server.demo import Findings, verify_published, write_page
    from playproof.provenance import commit

    verified = verify_published()
    published, fair = (run_simulation(rounds, world, seed) for world in ("published", "fair"))
    scores = run_baselines(None, "published", played, seed)
    findings = Findings(verified, published, fair, scores)
    path = write_page(findings, output, commit())
    if not as_json:
        for simulation in (published, fair):
            emit(None, False, simulation_table(simulation))
        emit(None, False, baselines_table(scores, "published"))
    data = {
        "verified": verified,
        "simulations": [simulation.to_json() for simulation in (published, fair)],
        "baselines": [score.to_json() for score in scores],
        "found": findings.sentences(),
        "page": str(path),
    }
    emit(
        data, as_json, "\n".join(["What was found:", *(f"- {line}" for line in findings.sentences()), f"Page: {path}"])
    )


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on; another than 127.0.0.1 needs --token-file.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8777,
    speed: Annotated[float, typer.Option(help="How many times faster than the real game.")] = 1.0,
    world: World = "published",
    seed: Annotated[int | None, typer.Option(help="Same seed, same rounds; random if left out.")] = None,
    token_file: Annotated[Path | None, typer.Option(help="File with the access token, mode 0600.")] = None,
) -> None:
    """Serve the game over Socket.IO, with the page to play it in a browser; Ctrl-C ends it.

    Example: playproof crash serve --speed 2
    """
    from playproof.games.crash.server.app import ServeConfig
    from playproof.games.crash.server.app import serve as run

    config = ServeConfig(host=host, port=port, speed=speed, world=world, seed=seed, token_file=token_file)
    run(config, announce=lambda url: note(f"serving world {world} on {url} (Ctrl-C ends)"))
