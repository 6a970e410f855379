"""Score recorded episodes by a judge, and check whether a judge can be trusted.

A judge is any model behind an OpenAI-compatible address. Leaves out: training on scores (train grpo).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playproof.cli.output import AsJson, emit, note, progress
from playproof.cli.targets import recorded_game
from playproof.errors import ConfigError, GateFailed, InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from playproof.game import Game
    from playproof.judge.asking import Budget, JudgeSettings
    from playproof.judge.gates import Check
    from playproof.judge.group import JudgedGroup
    from playproof.judge.judging import GroupJudgement, Judge

app = typer.Typer(no_args_is_help=True, help=__doc__.partition("\n")[0])

LOCAL_SECONDS = 1_800.0
"""For one answer of a model on this machine, which may be busy."""
Model = Annotated[str, typer.Option(help="Model that judges; else $JUDGE_MODEL. local: the packaged model.")]
BaseUrl = Annotated[str, typer.Option(help="OpenAI-compatible address; else $OPENAI_BASE_URL.")]
Calls = Annotated[int, typer.Option(help="Hard budget: the most calls.")]
Tokens = Annotated[int, typer.Option(help="Hard budget: the most tokens, questions and answers; 0: no limit.")]
Usd = Annotated[float, typer.Option(help="Hard budget in USD; needs the prices; 0: no limit.")]
PriceIn = Annotated[float, typer.Option(help="USD for a million tokens of questions.")]
PriceOut = Annotated[float, typer.Option(help="USD for a million tokens of answers.")]
MaxTokens = Annotated[int, typer.Option(help="Longest answer in tokens.")]
Attempts = Annotated[int, typer.Option(help="How often a question is asked before it counts as refused.")]
Parallel = Annotated[int, typer.Option(help="Questions at a time.")]


@app.callback()
def group() -> None:
    """Score recorded episodes by a judge, and check whether a judge can be trusted."""


@app.command("check")
def check_(
    *,
    model: Model = "",
    base_url: BaseUrl = "",
    game: Annotated[str, typer.Option(help="Game whose golden groups are judged; else the one with some.")] = "",
    groups: Annotated[int, typer.Option(help="Golden groups.")] = 4,
    members: Annotated[int, typer.Option(help="Episodes of a group, 3 to 8.")] = 8,
    decisions: Annotated[int, typer.Option(help="Decisions of an episode.")] = 1,
    seed: Annotated[int, typer.Option(help="Same seed, same golden groups and orders.")] = 1,
    max_calls: Calls = 1_000,
    max_tokens_total: Tokens = 0,
    max_usd: Usd = 0.0,
    price_in: PriceIn = 0.0,
    price_out: PriceOut = 0.0,
    max_tokens: MaxTokens = 1_500,
    attempts: Attempts = 2,
    as_json: AsJson = False,
) -> None:
    """Run the judge gates on the computed reward and, if one is named, on a judge (exit code 2 if one is not passed).

    Example: playproof judge check

    Example: playproof judge check --model gpt-5-mini --price-in 0.25 --price-out 2 --max-usd 3
    """
    from playproof.judge.gates import check, computed_scorer, judge_scorer

    golden = _golden(game, groups, members, decisions, seed)
    checks = [check("computed", computed_scorer, golden, seed)]
    spent: dict[str, Any] = {}
    limits = _budget(max_calls, max_tokens_total, max_usd)
    if model or os.environ.get("JUDGE_MODEL"):
        prices = (price_in, price_out)
        with _judge(model, base_url, limits, prices, max_tokens, 1, attempts=attempts) as judge:
            checks.append(check(judge.settings.model, judge_scorer(judge), golden, seed))
            spent = _spent(judge)
    emit(
        {"checks": [asdict(item) | {"passed": item.passed} for item in checks], "judge": spent},
        as_json,
        lambda: _check_table(checks, spent),
    )
    failed = [item.scorer for item in checks if not item.passed]
    if failed:
        raise GateFailed(f"expected every judge gate to be passed, found some failed by {', '.join(failed)}")


@app.command("run")
def run(
    *,
    model: Model = "",
    base_url: BaseUrl = "",
    game: Annotated[str, typer.Option(help="Game or market whose windows are judged; else the only one.")] = "",
    hours: Annotated[float, typer.Option(help="Windows that began in the last so many hours.")] = 168.0,
    min_agents: Annotated[int, typer.Option(help="Least number of agents of a window.")] = 2,
    permutations: Annotated[int, typer.Option(help="Orders in which every group is shown, at least 2.")] = 2,
    max_calls: Calls = 1_000,
    max_tokens_total: Tokens = 0,
    max_usd: Usd = 0.0,
    price_in: PriceIn = 0.0,
    price_out: PriceOut = 0.0,
    max_tokens: MaxTokens = 1_500,
    parallel: Parallel = 4,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the estimate and ask nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Judge the groups of closed windows and store the scores; a question that was asked before is not asked again.

    Example: playproof judge run --model gpt-5-mini --game my-market --hours 24 --dry-run

    Example: playproof judge run --model gpt-5-mini --hours 24 --price-in 0.25 --price-out 2 --max-usd 1
    """
    from playproof.judge.judging import store

    limits = _budget(max_calls, max_tokens_total, max_usd)
    with _judge(model, base_url, limits, (price_in, price_out), max_tokens, parallel, permutations) as judge:
        engine = judge.cache.engine
        assert engine is not None
        recorded = _recorded(engine, game, hours, min_agents)
        estimate = judge.estimate(recorded)
        note(
            f"{len(recorded)} groups: at most {estimate.calls} calls, {estimate.tokens} tokens, "
            f"{estimate.usd:.4f} USD; "
            f"{estimate.known} answers are stored already"
        )
        judged = [] if dry_run else _with_bar(judge, recorded)
        new = store(engine, judge, judged)
        data = {"estimate": asdict(estimate), "new": new, "groups": [_group_row(item) for item in judged]} | _spent(
            judge
        )
        emit(data, as_json, lambda: _run_table(judged, data))


def _with_bar(judge: Judge, judged_groups: list[JudgedGroup]) -> list[GroupJudgement]:
    with progress() as bar:
        bar.add_task("judging", total=None)
        return judge.score_all(judged_groups)


def _budget(calls: int, tokens: int, usd: float) -> Budget:
    from playproof.judge.asking import Budget

    return Budget(calls, tokens or None, usd or None)


@contextmanager
def _judge(
    model: str,
    base_url: str,
    budget: Budget,
    prices: tuple[float, float],
    max_tokens: int,
    parallel: int,
    permutations: int = 2,
    attempts: int = 2,
) -> Iterator[Judge]:
    """Make the judge that was asked for, with its answers kept in the home's tables."""
    from playproof.judge.asking import JudgeSettings
    from playproof.judge.judging import Judge
    from playproof.store.db import opened, ready

    name = model or os.environ.get("JUDGE_MODEL", "")
    if not name:
        raise ConfigError("expected a judge, found none; use --model or set JUDGE_MODEL")
    if budget.usd is not None and not any(prices):
        raise ConfigError("expected prices beside a budget in USD, found none; use --price-in and --price-out")
    with _address(name, base_url) as (url, named, key), opened() as engine:
        settings: JudgeSettings = JudgeSettings(
            named,
            url,
            key,
            permutations=permutations,
            attempts=attempts,
            timeout=LOCAL_SECONDS if name == "local" else JudgeSettings.timeout,
            retries=0 if name == "local" else JudgeSettings.retries,
            max_tokens=max_tokens,
            parallel=parallel,
            price_in=prices[0],
            price_out=prices[1],
        )
        yield Judge(settings, engine=ready(engine), budget=budget)


@contextmanager
def _address(model: str, base_url: str) -> Iterator[tuple[str | None, str, str | None]]:
    """Give the judge's address, name and key, serving the packaged model if it is asked for."""
    if model != "local":
        key = os.environ.get("OPENAI_API_KEY") or ("none" if base_url else None)
        yield base_url or os.environ.get("OPENAI_BASE_URL") or None, model, key
        return
    from playproof.serve.serving import packaged

    with packaged() as (url, named):
        yield url, named, "none"


def _golden(game: str, groups: int, members: int, decisions: int, seed: int) -> list[JudgedGroup]:
    from playproof.judge.group import from_ranked

    language = _language_game(game).language
    assert language is not None
    golden = language().golden
    assert golden is not None
    made = golden(groups, members, decisions, seed)
    return [from_ranked(item, number) for number, item in enumerate(made)]


def _language_game(name: str) -> Game:
    """Give the game that was named, or the first that has golden groups."""
    from playproof.game import game_names, load_game

    names = [name] if name else list(game_names())
    if name and load_game(name).windows.market:
        raise ConfigError(f"market {name} is recorded, not simulated: groups of known order need a simulation")
    for game in map(load_game, names):
        if game.language is not None and game.language().golden is not None:
            return game
    raise InputError(f"expected a game with golden groups, found none in {', '.join(names)}")


def _recorded(engine: Any, game: str, hours: float, min_agents: int) -> list[JudgedGroup]:
    """Read the groups of closed windows that have outcomes."""
    from playproof.judge.group import read_groups
    from playproof.record.trajectories.windows import survey

    windows = recorded_game(game or None).windows
    result = survey(engine, windows, datetime.now(UTC), hours=hours, min_agents=min_agents, min_actions=1)
    usable = [
        window.window_id
        for window in result.windows
        if window.closed and window.has_outcomes and window.agents >= min_agents
    ]
    groups = read_groups(engine, usable, windows.market)
    if not groups:
        raise InputError(
            f"expected closed windows with outcomes and {min_agents} agents in the last {hours:g} hours, found none in "
            f"{len(result.windows)} windows; record some, or write their outcomes"
        )
    return groups


def _spent(judge: Judge) -> dict[str, Any]:
    purse = judge.purse
    return {
        "model": judge.settings.model,
        "version": judge.version,
        "calls": purse.calls,
        "from_cache": judge.from_cache,
        "accepted": judge.accepted,
        "refusals": dict(sorted(judge.refusals.items())),
        "tokens": purse.prompt_tokens + purse.completion_tokens,
        "usd": purse.usd,
    }


def _group_row(judged: GroupJudgement) -> dict[str, Any]:
    return {
        "group": judged.group_id,
        "scores": None if judged.scores is None else dict(judged.scores.values),
        "no_variance": judged.no_variance,
        "failure": None if judged.failure is None else str(judged.failure),
    }


def _check_table(checks: list[Check], payload: dict[str, Any]) -> RenderableType:
    from rich.console import Group as Lines
    from rich.table import Table

    table = Table("gate", "rule")
    for check in checks:
        table.add_column(check.scorer, justify="right")
    for rows in zip(*(item.gates for item in checks), strict=True):
        shown = [f"{'-' if gate.value is None else f'{gate.value:.3f}'} {_word(gate.passed)}" for gate in rows]
        table.add_row(rows[0].name, rows[0].rule, *shown)
    table.add_row("", "answers that could not be used", *(f"{item.unusable} of {item.asked}" for item in checks))
    ties = ["-" if item.tie_share is None else f"{item.tie_share:.1%}" for item in checks]
    table.add_row("", "ties between two episodes", *ties)
    lines: list[Any] = [table]
    if payload:
        refused = ", ".join(f"{count} {reason}" for reason, count in payload["refusals"].items()) or "none"
        lines.append(f"{payload['calls']} calls, {payload['from_cache']} from the cache; answers refused: {refused}")
    return Lines(*lines)


def _word(passed: bool) -> str:
    return "passed" if passed else "FAILED"


def _run_table(judged: list[GroupJudgement], data: dict[str, Any]) -> RenderableType:
    from rich.console import Group as Lines
    from rich.table import Table

    table = Table("group", "episodes", "lowest", "highest", "", title_justify="left")
    for item in judged:
        values = list(item.scores.values.values()) if item.scores else []
        ends = (f"{min(values):.3f}", f"{max(values):.3f}") if values else ("-", "-")
        remark = "no variance: dropped" if item.no_variance else "" if item.scores else f"refused: {item.failure}"
        table.add_row(item.group_id, str(len(values)), *ends, remark)
    refused = ", ".join(f"{count} {reason}" for reason, count in data["refusals"].items()) or "none"
    summary = f"{data['new']} judgements stored; {data['calls']} calls, {data['usd']:.4f} USD; refused: {refused}"
    return Lines(table, summary) if judged else summary
