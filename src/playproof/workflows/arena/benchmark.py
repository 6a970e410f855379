"""Benchmark players of words on the same forked windows: money, alpha, wins, errors, timing, each with its interval.

Every contestant plays every window in a copy of its own, so that differences are paired. Results are kept window by
window, and a benchmark that was cut off goes on where it stopped. Errors are answers that are no decision, decisions
that the market refused, and calls without an answer. Leaves out: which windows (scenarios), the page (bench_page).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from playproof.errors import ContractError, MissingExtra
from playproof.game.forks import Prompt
from playproof.games.arena.agents.decisions import read_decision
from playproof.games.arena.learning.forks import ArenaForks
from playproof.games.arena.market.scenarios import STAKE, BenchScenario
from playproof.money import UNIT
from playproof.policies.checkpoint import CARD

BASELINES = ("random", "hold", "momentum", "informed")
DUMMY = "wait"
"""Does nothing; its score stands beside every criterion."""
ALL = "all"
CHUNK = 8
"""Windows that are played side by side."""
VERSION = 2
"""Of what is noted of a window; results of another one are not used."""
_ODD = re.compile(r"[^A-Za-z0-9._-]+")
_CHANCE = int.from_bytes(b"bench")


class Contestant(Protocol):
    """Who is benchmarked."""

    @property
    def name(self) -> str:
        """Give the name on the leaderboard."""

    @property
    def version(self) -> str:
        """Give what results are kept under; another policy has another one."""

    def answers(self, tables: Sequence[ArenaForks], indices: Sequence[int]) -> list[str | None]:
        """Answer at every table, None where no answer came; `place` seeds what is drawn."""


@dataclass(frozen=True)
class ScriptedContestant:
    """A scripted player."""

    name: str

    @property
    def version(self) -> str:
        """Give the name; scripted players do not change."""
        return f"scripted-{self.name}"

    def answers(self, tables: Sequence[ArenaForks], indices: Sequence[int]) -> list[str | None]:
        """Order what it wants most."""
        return [
            table.scripted(self.name, np.random.default_rng([_CHANCE, *indices, at]))[0]
            for at, table in enumerate(tables)
        ]


@dataclass(frozen=True)
class EndpointContestant:
    """A model behind an OpenAI-compatible address."""

    name: str
    model: str
    complete: Callable[..., Any]
    """The client's method that asks for a completion."""
    errors: tuple[type[Exception], ...]
    max_tokens: int = 120
    temperature: float = 0.0
    parallel: int = 8

    @property
    def version(self) -> str:
        """Give name and settings."""
        return f"{self.model}-{self.max_tokens}-{self.temperature:g}"

    def answers(self, tables: Sequence[ArenaForks], indices: Sequence[int]) -> list[str | None]:  # noqa: ARG002
        """Ask side by side."""
        with ThreadPoolExecutor(self.parallel) as pool:
            return list(pool.map(self._ask, [table.prompts()[0] for table in tables]))

    def _ask(self, prompt: Prompt) -> str | None:
        messages = [{"role": item.role, "content": item.content} for item in prompt]
        try:
            payload = self.complete(
                model=self.model, messages=messages, max_tokens=self.max_tokens, temperature=self.temperature
            )
            return payload.choices[0].message.content or ""
        except self.errors:
            return None


@dataclass(frozen=True)
class LocalContestant:
    """A language model on this machine."""

    name: str
    model: Any
    version: str
    max_tokens: int = 120
    temperature: float = 0.0
    policy_hash: str = ""
    """Of the checkpoint's card, by which the model registry knows it; empty for a model that is no checkpoint."""

    def answers(self, tables: Sequence[ArenaForks], indices: Sequence[int]) -> list[str | None]:
        """Answer at all tables at once."""
        from playproof.train.language.rollout import model_player

        exchanges = model_player(self.model, self.max_tokens, [_CHANCE, *indices], self.temperature)(tables)
        return [exchange[0].answer for exchange in exchanges]


def contestant(text: str, max_tokens: int, temperature: float) -> Contestant:
    """Make a contestant of a scripted player's name, an address with #model, a checkpoint or a model's name."""
    from playproof.games.arena.agents.archetypes import ARCHETYPES

    if text in ARCHETYPES or text == DUMMY:
        return ScriptedContestant(text)
    if text.startswith(("http://", "https://")):
        return _endpoint(text, max_tokens, temperature)
    from playproof.train.language.model import load_language_model

    result = load_language_model(text)
    name = result.version if result.card is not None else Path(result.name).name
    weights = ",".join(sorted((result.card.files if result.card is not None else {}).values()))
    digest = hashlib.sha256(f"{name} {weights} {max_tokens} {temperature}".encode()).hexdigest()[:16]
    card = Path(text) / CARD
    policy_hash = hashlib.sha256(card.read_bytes()).hexdigest() if card.exists() else ""
    return LocalContestant(name, result, digest, max_tokens, temperature, policy_hash)


def policy_hashes(everybody: Mapping[str, Contestant]) -> dict[str, str]:
    """Give the card hashes of those contestants that are checkpoints."""
    return {
        name: who.policy_hash for name, who in everybody.items() if isinstance(who, LocalContestant) and who.policy_hash
    }


def _endpoint(text: str, max_tokens: int, temperature: float) -> EndpointContestant:
    try:
        import openai
    except ImportError:
        raise MissingExtra("the openai client", "llm") from None
    url, _, model = text.partition("#")
    client = openai.OpenAI(base_url=url, api_key=os.environ.get("OPENAI_API_KEY", "none"))
    errors = (openai.OpenAIError, OSError, ValueError, AttributeError, IndexError)
    return EndpointContestant(
        model or "default", model or "default", client.chat.completions.create, errors, max_tokens, temperature
    )


@dataclass(frozen=True)
class BenchPlan:
    """What everybody plays."""

    scenarios: tuple[BenchScenario, ...]
    windows: int = 40
    """Of each scenario."""
    decisions: int = 6
    prompt: str = "full"
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the market; `stake` and `leverage` are the order limits."""

    @property
    def limit(self) -> int:
        """Give what the order limits allow a window to lose, in the smallest unit."""
        return int(self.options.get("stake", STAKE))

    @property
    def hash(self) -> str:
        """Give one hash over everything that decides what is played, the number of windows left out."""
        lines = [VERSION, STAKE, self.decisions, self.prompt, sorted(self.options.items())]
        return hashlib.sha256(json.dumps(lines, default=str).encode()).hexdigest()[:12]


@dataclass
class WindowResult:
    """How one window went for one contestant; money in the smallest unit."""

    number: int
    pnl: int
    alpha: float
    decisions: int
    valid: int
    refused: int
    failed: int
    """Calls without an answer."""
    trades: int
    drawdown: int
    """Largest fall of the equity between two decisions of the window."""
    opened: int = 0
    """Perps opened, whose timing is measured."""
    hits: int = 0
    """Of these, how many companies' values moved in favour by the end of the window, orders' impact left out."""
    captured: float = 0.0
    """Sum of those moves, in favour positive."""


@dataclass
class _TableNotes:
    """What is noted at one table while a window is played."""

    number: int
    table: ArenaForks
    bets: list[tuple[str, int, int]] = field(default_factory=list)
    """Market, side and fundamental value of every perp that was opened: orders move prices, never values."""
    equities: list[int] = field(default_factory=list)
    failed: int = 0

    def act(self, answer: str | None) -> None:
        """Carry an answer out."""
        lane = self.table._lanes[0]
        if not self.equities:
            self.equities.append(lane.equity)
        trades, choice = lane.trades, read_decision(answer or "")
        market = str(choice.arguments.get("market"))
        value = self._values().get(market) if choice.kind in ("OPEN_LONG", "OPEN_SHORT") else None
        self.failed += answer is None
        self.table.act([answer or ""])
        if value and lane.trades > trades:
            self.bets.append((market, 1 if choice.kind == "OPEN_LONG" else -1, value))
        self.equities.append(lane.equity)

    def _values(self) -> dict[str, int]:
        """Give what each company is worth by itself."""
        listings = self.table._lanes[0].world.exchange.listings
        return {market: listing.fundamental for market, listing in listings.items()}

    def close(self) -> WindowResult:
        """Give how the window went."""
        end = self.table.ends()[0]
        last = self._values()
        moves = [side * (last[market] / value - 1) for market, side, value in self.bets]
        curve = np.array(self.equities)
        fall = int((np.maximum.accumulate(curve) - curve).max())
        return WindowResult(
            self.number,
            end.pnl,
            end.reward,
            end.decisions,
            end.valid,
            end.refused,
            self.failed,
            end.trades,
            fall,
            len(moves),
            sum(move > 0 for move in moves),
            float(sum(moves)),
        )


def play_windows(
    who: Contestant, plan: BenchPlan, scenario: BenchScenario, numbers: Sequence[int]
) -> list[WindowResult]:
    """Let a contestant play some windows side by side."""
    terms = scenario.terms(plan.decisions, plan.prompt, plan.options)
    seats = [_TableNotes(number, ArenaForks(terms, number, 1)) for number in numbers]
    turn = 0
    while not seats[0].table.over:
        index = (numbers[0], turn, *scenario.name.encode())
        for seat, answer in zip(seats, who.answers([item.table for item in seats], index), strict=True):
            seat.act(answer)
        turn += 1
    return [seat.close() for seat in seats]


def play(
    who: Contestant, plan: BenchPlan, scenario: BenchScenario, kept: Path, show: Callable[[int], None] = lambda _: None
) -> list[WindowResult]:
    """Play all windows of a scenario, those that are kept from before left out; `kept` is a folder."""
    kept.mkdir(parents=True, exist_ok=True)
    name = f"{_ODD.sub('-', who.name)[:60]}-{hashlib.sha256(who.version.encode()).hexdigest()[:12]}"
    file = kept / f"{name}-{scenario.name}-{scenario.seed}-{plan.hash}.jsonl"
    index = {item.number: item for item in _read(file)}
    missing = [number for number in range(plan.windows) if number not in index]
    show(plan.windows - len(missing))
    for start in range(0, len(missing), CHUNK):
        played = play_windows(who, plan, scenario, missing[start : start + CHUNK])
        _append(file, played)
        index |= {item.number: item for item in played}
        show(len(played))
    return [index[number] for number in range(plan.windows)]


def _read(file: Path) -> Iterator[WindowResult]:
    """Read kept windows; a torn last line is read over."""
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        try:
            yield WindowResult(**json.loads(line))
        except (ValueError, TypeError):
            continue


def _append(file: Path, played: Sequence[WindowResult]) -> None:
    torn = file.exists() and file.stat().st_size and not file.read_bytes().endswith(b"\n")
    with file.open("ab") as out:
        out.write(b"\n" if torn else b"")
        out.write("".join(json.dumps(asdict(item)) + "\n" for item in played).encode())
        out.flush()
        os.fsync(out.fileno())


@dataclass(frozen=True)
class PairedResult:
    """One contestant against another on the same windows; USD a window."""

    difference: float
    interval: tuple[float, float]
    e_value: float
    """Of the claim that it earns more; gains above the limit on losses count as the limit."""


@dataclass(frozen=True)
class ContestantFigures:
    """One contestant's figures over some windows; money in USD a window."""

    name: str
    scenario: str
    windows: int
    pnl: float
    pnl_interval: tuple[float, float]
    alpha: float
    alpha_interval: tuple[float, float]
    win_rate: float
    """Windows with a profit."""
    drawdown: float
    """Largest fall of the running profit over the windows, in USD."""
    window_drawdown: float
    """Mean of the largest falls inside a window, in USD."""
    valid: float
    """Share of answers that were decisions."""
    errors: float
    """Share of turns with an error of any kind."""
    failed: int
    trades: float
    timing: float | None
    """Share of opened perps whose company's value moved in favour; None without any."""
    captured: float | None
    """Mean of these moves, in favour positive."""
    e_value: float
    """Of the claim that it earns money."""
    versus: Mapping[str, PairedResult] = field(default_factory=dict)


Results = Mapping[str, Mapping[str, Sequence[WindowResult]]]
"""By contestant and scenario."""


def figures(results: Results, seed: int = 1, limit: int = STAKE) -> list[ContestantFigures]:
    """Give everybody's figures for each scenario and for all together, the most profitable first.

    `limit` is what the order limits allow a window to lose: e-values bet on profits relative to it.
    """
    scenarios = list(next(iter(results.values())))
    result = []
    for scenario in (ALL, *scenarios):
        played = {who: _windows(of, scenario) for who, of in results.items()}
        rows = [_figures(who, scenario, played, seed, limit / UNIT) for who in played]
        result += sorted(rows, key=lambda item: -item.pnl)
    return result


def _windows(of: Mapping[str, Sequence[WindowResult]], scenario: str) -> list[WindowResult]:
    return [result for name, results in of.items() if scenario in (ALL, name) for result in results]


def _figures(
    who: str, scenario: str, played: Mapping[str, list[WindowResult]], seed: int, limit: float
) -> ContestantFigures:
    own = played[who]
    pnl = _pnl(own)
    alpha = np.array([item.alpha for item in own])
    decisions, opened = max(1, sum(item.decisions for item in own)), sum(item.opened for item in own)
    running = np.concatenate([[0.0], np.cumsum(pnl)])
    wrong = sum(item.decisions - item.valid + item.refused for item in own)
    return ContestantFigures(
        who,
        scenario,
        len(own),
        float(pnl.mean()),
        _interval(pnl, seed),
        float(alpha.mean()),
        _interval(alpha, seed),
        float((pnl > 0).mean()),
        float((np.maximum.accumulate(running) - running).max()),
        float(np.mean([item.drawdown for item in own])) / UNIT,
        sum(item.valid for item in own) / decisions,
        wrong / decisions,
        sum(item.failed for item in own),
        sum(item.trades for item in own) / len(own),
        sum(item.hits for item in own) / opened if opened else None,
        sum(item.captured for item in own) / opened if opened else None,
        _e_value(_within(pnl, limit) / limit),
        {name: _versus(pnl, _pnl(other), seed, limit) for name, other in played.items() if name != who},
    )


def _pnl(played: Sequence[WindowResult]) -> NDArray[np.float64]:
    return np.array([item.pnl for item in played]) / UNIT


def _versus(pnl: NDArray[np.float64], other: NDArray[np.float64], seed: int, limit: float) -> PairedResult:
    difference = pnl - other
    bounded = (_within(pnl, limit) - _within(other, limit)) / (2 * limit)
    return PairedResult(float(difference.mean()), _interval(difference, seed), _e_value(bounded))


def _within(pnl: NDArray[np.float64], limit: float) -> NDArray[np.float64]:
    """Count gains up to the limit on losses; a loss beyond it means that the market did not keep the limit."""
    if len(pnl) and float(pnl.min()) < -limit - 1e-9:
        raise ContractError(f"expected no window to lose more than {limit:.2f} USD, found {pnl.min():+.2f}")
    return np.minimum(pnl, limit)


def _interval(values: NDArray[np.float64], seed: int) -> tuple[float, float]:
    from playproof.stats.evidence import bootstrap_interval

    low, high = bootstrap_interval(values, np.random.default_rng(seed))
    return float(low), float(high)


def _e_value(returns: NDArray[np.float64]) -> float:
    from playproof.stats.sequential import bankroll

    return math.exp(min(700.0, float(bankroll(returns)[-1]))) if len(returns) else 1.0


@dataclass(frozen=True)
class Criterion:
    """One of the plan's criteria for a better model, and what a player that does nothing scores on it."""

    name: str
    value: float
    wanted: float
    met: bool
    dummy: float
    dummy_met: bool


def criteria(rows: Sequence[ContestantFigures], model: str, against: str) -> list[Criterion]:
    """Hold a model against another by the plan's criteria, over all scenarios."""
    by_name = {item.name: item for item in rows if item.scenario == ALL}
    own, reference, dummy = by_name[model], by_name[against], by_name[DUMMY]
    bar = reference.pnl + 0.1 * abs(reference.pnl)
    return [
        Criterion("P&L 10 % better", own.pnl, bar, own.pnl >= bar, dummy.pnl, dummy.pnl >= bar),
        Criterion(
            "win rate better",
            own.win_rate,
            reference.win_rate,
            own.win_rate > reference.win_rate,
            dummy.win_rate,
            dummy.win_rate > reference.win_rate,
        ),
        Criterion(
            "fewer errors",
            own.errors,
            reference.errors,
            own.errors < reference.errors,
            dummy.errors,
            dummy.errors < reference.errors,
        ),
    ]
