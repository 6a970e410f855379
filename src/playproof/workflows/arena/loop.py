"""The continuous cycle: collect play, write outcomes, score, train, benchmark, keep or discard; then again.

Each step is noted when it is done, and a loop that was killed goes on with the step that it was in. Steps can be begun
again without harm: windows are recorded under the attempt's own name, outcomes and judgements are written once, a
trainer goes on from its own resume point, and benchmarked windows are kept one by one. A candidate is kept only if it
earns more than the model in use on windows that nobody has seen, with a paired interval above 0, and more than random,
hold and momentum; every cycle benchmarks on windows of its own.
Leaves out: how a model is trained, which is a joint (`Train`), and serving the model that is kept.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from playproof.errors import ConfigError, DecodeError, PlayproofError
from playproof.games.arena.market.rng import draw
from playproof.games.arena.market.scenarios import SCENARIOS, BenchScenario
from playproof.home import write_durably
from playproof.json_types import Json
from playproof.workflows.arena.benchmark import (
    ALL,
    BASELINES,
    BenchPlan,
    Contestant,
    ContestantFigures,
    ScriptedContestant,
    figures,
    play_windows,
    policy_hashes,
)
from playproof.workflows.arena.benchmark import WindowResult as PlayedWindow

STEPS = ("collect", "outcomes", "score", "train", "benchmark", "decide")
STATE, LOCK, BENCHED = "state.json", "lock", "benchmarked.jsonl"
CHUNK = 4
RIVALS = tuple(name for name in BASELINES if name != "informed")
"""Who a candidate must out-earn; the informed player, which reads the news perfectly, is shown and need not be."""


@dataclass(frozen=True)
class LoopPlan:
    """What one cycle is made of; written when a loop begins, and never changed."""

    base: str
    """The model that the loop begins with."""
    seed: int = 1
    decisions: int = 4
    prompt: str = "full"
    world: str = "news"
    agents: int = 4
    """Scripted agents that play beside the model while play is collected."""
    own_agents: int = 2
    """Agents that the model plays then."""
    windows: int = 2
    """Windows that are collected."""
    bench_windows: int = 40
    """Windows that a candidate is benchmarked on, fresh ones every cycle."""
    max_tokens: int = 24
    reward: str = ""
    """computed or judge; empty: the judge if one is configured."""
    train: Mapping[str, Any] = field(default_factory=dict)
    """Further settings of the trainer."""


@dataclass(frozen=True)
class TrainRequest:
    """What a trainer is asked for."""

    cycle: int
    base: str
    """The model in use."""
    path: Path
    """Folder of this training; one that is there already is gone on with."""
    seed: int
    plan: LoopPlan


Train = Callable[[TrainRequest], Mapping[str, Any]]
"""Train a candidate; give at least `checkpoint`, its folder or name, or None if nothing was learned."""


@dataclass(frozen=True)
class LoopSteps:
    """What a loop reaches outside of itself."""

    train: Train
    collect: Callable[[LoopPlan, str, str], Mapping[str, Any]]
    """Record windows played by a model under a run's name."""
    outcomes: Callable[[], Mapping[str, Any]]
    score: Callable[[LoopPlan, str], Mapping[str, Any]]
    """Score the windows of a run."""
    contestant: Callable[[str, LoopPlan], Contestant]
    promote: Callable[[str, str, Path], str | None] = lambda candidate, why, report: candidate  # noqa: ARG005
    """Make a candidate the model in use, on the ground of its benchmark; give what to load it from, None if refused."""
    in_use: Callable[[], str | None] = lambda: None
    """Give the model in use as others see it: None where nobody but the loop knows, empty where none stands."""
    note: Callable[[int, Mapping[str, Any]], None] = lambda cycle, payload: None  # noqa: ARG005
    """Show a cycle's numbers to whoever tracks them."""
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)


class Loop:
    """One loop in its folder."""

    def __init__(self, path: Path, joints: LoopSteps, plan: LoopPlan | None = None) -> None:
        self.path, self.joints = path, joints
        path.mkdir(parents=True, exist_ok=True)
        state = read_state(path)
        if state is None:
            if plan is None:
                raise ConfigError(f"expected a loop at {path}, found none; name the model that it begins with")
            state = {"plan": asdict(plan), "in_use": plan.base, "cycle": 1, "done": {}, "attempts": {}, "history": []}
            write_state(path, state)
        self.state = state
        self.plan = LoopPlan(**state["plan"])
        if plan is not None and asdict(plan) != state["plan"]:
            raise ConfigError(
                f"expected the settings that the loop at {path} began with, found others; use another name"
            )

    def cycle(self, show: Callable[[str, Mapping[str, Any]], None] = lambda step, payload: None) -> Mapping[str, Any]:  # noqa: ARG005
        """Go through the steps that this cycle has left; give what became of it."""
        number = int(self.state["cycle"])
        if not self.state["done"]:  # a promotion or rollback by hand since the last cycle counts
            current = self.joints.in_use()
            if current is not None:
                self.state["in_use"] = current or self.plan.base
        for step in STEPS:
            if step in self.state["done"]:
                continue
            self.state["attempts"][step] = self.state["attempts"].get(step, 0) + 1
            write_state(self.path, self.state)
            fields = getattr(self, f"_{step}")(number)
            self.state["done"][step] = fields
            if step != "decide":
                write_state(self.path, self.state)
            show(step, fields)
        return self._close(number)

    def _close(self, number: int) -> Mapping[str, Any]:
        """Move the pointer to the model in use and begin the next cycle, in one write."""
        done, verdict = self.state["done"], self.state["done"]["decide"]
        if verdict["kept"]:
            promoted = self.joints.promote(verdict["candidate"], verdict["why"], self._report(number))
            if promoted is None:
                verdict |= {"kept": False, "why": f"{verdict['why']}; the registry refused its promotion"}
            else:
                self.state["in_use"] = promoted
        entry = {"cycle": number, "ended": self.joints.clock().isoformat(), **verdict}
        self.state["history"].append(entry)
        self.joints.note(number, _numbers(done))
        self.state |= {"cycle": number + 1, "done": {}, "attempts": {}}
        write_state(self.path, self.state)
        return entry

    def _run(self, number: int) -> str:
        """Name the run that this cycle's play is recorded under; another attempt has another name."""
        return f"{self.path.name}-{number}-{self.state['attempts']['collect']}"

    def _collect(self, number: int) -> Mapping[str, Any]:
        return dict(self.joints.collect(self.plan, self.state["in_use"], self._run(number)))

    def _outcomes(self, number: int) -> Mapping[str, Any]:  # noqa: ARG002
        return dict(self.joints.outcomes())

    def _score(self, number: int) -> Mapping[str, Any]:
        return _failure_told(lambda: self.joints.score(self.plan, self._run(number)))

    def _train(self, number: int) -> Mapping[str, Any]:
        seed = draw(self.plan.seed, number) % 2**31
        index = self.path / "training" / f"{self.path.name}-{number:04d}"
        lesson = TrainRequest(number, self.state["in_use"], index, seed, self.plan)
        return _failure_told(lambda: self.joints.train(lesson))

    def _benchmark(self, number: int) -> Mapping[str, Any]:
        """Let candidate, model in use and rivals play this cycle's own windows, those that are kept left out."""
        candidate = self.state["done"]["train"].get("checkpoint")
        if candidate is None:
            return {"skipped": "no candidate"}
        scenario, plan = self._fresh(number)
        everybody: dict[str, Contestant] = {
            "candidate": self.joints.contestant(candidate, self.plan),
            "in use": self.joints.contestant(self.state["in_use"], self.plan),
            **{name: ScriptedContestant(name) for name in (*BASELINES, "wait")},
        }
        kept = _WindowCache(self.path / BENCHED, number)
        results = {}
        for who, contestant in everybody.items():
            results[who] = {scenario.name: kept.play(who, contestant, plan, scenario)}
        rows = [figure for figure in figures(results) if figure.scenario == ALL]
        report = {"policies": policy_hashes(everybody), "figures": [asdict(row) for row in rows]}
        write_durably(self._report(number), (json.dumps(report, indent=1) + "\n").encode())
        payload = {row.name: _short(row) for row in rows}
        return {"windows": plan.windows, "figures": payload, "versus": _versus(rows)}

    def _report(self, number: int) -> Path:
        """Give the file of a cycle's benchmark, in the form that promotions read."""
        return self.path / f"benchmark-{number:04d}.json"

    def _fresh(self, number: int) -> tuple[BenchScenario, BenchPlan]:
        """Give this cycle's own windows: a scenario whose seed no other cycle has."""
        known = next(scenario for scenario in SCENARIOS.values() if scenario.world == self.plan.world)
        fresh = BenchScenario(f"cycle-{number}", known.world, known.doc, draw(self.plan.seed, number, 77) % 2**31)
        return fresh, BenchPlan((fresh,), self.plan.bench_windows, self.plan.decisions, self.plan.prompt)

    def _decide(self, number: int) -> Mapping[str, Any]:  # noqa: ARG002
        trained, benched = self.state["done"]["train"], self.state["done"]["benchmark"]
        candidate = trained.get("checkpoint")
        if candidate is None:
            why = trained.get("failed") or "training gave no candidate"
            return {"kept": False, "candidate": None, "why": why}
        beaten = {name: payload["low"] > 0 for name, payload in benched["versus"].items()}
        lost = [name for name in ("in use", *RIVALS) if not beaten[name]]
        gain = benched["versus"]["in use"]
        span = f"{gain['low']:+.2f} to {gain['high']:+.2f}"
        shown = f"{gain['difference']:+.2f} USD a window against the model in use ({span})"
        why = shown if not lost else f"{shown}; not shown to be better than {', '.join(lost)}"
        return {"kept": not lost, "candidate": candidate, "why": why, "gain": gain["difference"]}


class _WindowCache:
    """Benchmarked windows of one cycle, kept one by one."""

    def __init__(self, file: Path, cycle: int) -> None:
        self.file, self.cycle = file, cycle
        self._found: dict[tuple[str, int], PlayedWindow] = {}
        for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
            try:
                payload = json.loads(line)
                if payload.pop("cycle") == cycle:
                    self._found[payload.pop("who"), payload["number"]] = PlayedWindow(**payload)
            except (ValueError, TypeError, KeyError):
                continue  # a line that a kill has torn; its windows are played again

    def play(self, who: str, contestant: Contestant, plan: BenchPlan, scenario: BenchScenario) -> list[PlayedWindow]:
        """Play what is missing."""
        missing = [number for number in range(plan.windows) if (who, number) not in self._found]
        for start in range(0, len(missing), CHUNK):
            played = play_windows(contestant, plan, scenario, missing[start : start + CHUNK])
            with self.file.open("ab") as out:
                for item in played:
                    out.write(b"\n" + json.dumps({"cycle": self.cycle, "who": who, **asdict(item)}).encode())
                out.flush()
                os.fsync(out.fileno())
            self._found |= {(who, entry.number): entry for entry in played}
        return [self._found[who, number] for number in range(plan.windows)]


def _versus(rows: list[ContestantFigures]) -> dict[str, dict[str, float]]:
    """Give how much more the candidate earned than each other, in USD a window with its paired interval."""
    candidate = next(row for row in rows if row.name == "candidate")
    return {
        who: {"difference": pair.difference, "low": pair.interval[0], "high": pair.interval[1]}
        for who, pair in candidate.versus.items()
    }


def _short(contestant_figures: ContestantFigures) -> dict[str, float]:
    names = ("pnl", "alpha", "win_rate", "drawdown", "valid", "errors", "e_value")
    return {name: getattr(contestant_figures, name) for name in names}


def _failure_told(step: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """Carry a step out; what goes wrong on purpose is data of the cycle, not the end of the loop."""
    try:
        return dict(step())
    except PlayproofError as error:
        return {"failed": f"{type(error).__name__}: {error}"}


def _numbers(done: Mapping[str, Any]) -> dict[str, float]:
    """Give a cycle's numbers for whoever tracks them."""
    result: dict[str, float] = {"kept": float(done["decide"]["kept"])}
    for who, payload in done["benchmark"].get("figures", {}).items():
        result |= {f"{who.replace(' ', '_')}_{name}": float(value) for name, value in payload.items()}
    if "gain" in done["decide"]:
        result["gain"] = float(done["decide"]["gain"])
    return result


def read_state(path: Path) -> Json | None:
    """Read a loop's state; None where there is no loop."""
    file = path / STATE
    if not file.exists():
        return None
    try:
        payload = json.loads(file.read_text(encoding="utf-8"))
        return {name: payload[name] for name in ("plan", "in_use", "cycle", "done", "attempts", "history")}
    except (ValueError, KeyError, TypeError) as error:
        raise DecodeError(f"expected the state of a loop in {file}, found: {error}") from None


def write_state(path: Path, state: Mapping[str, Any]) -> None:
    """Write a loop's state so that after a kill either the old or the new one is there."""
    beside = path / f".{STATE}.{os.getpid()}"
    with beside.open("wb") as file:
        file.write((json.dumps(state, indent=1) + "\n").encode())
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path / STATE)
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def alone(path: Path) -> Iterator[bool]:
    """Hold a loop's lock; tell whether nobody else does. The lock goes with the process, however it ends."""
    path.mkdir(parents=True, exist_ok=True)
    with (path / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True


def status(path: Path) -> list[str]:
    """Tell how a loop stands, in a few lines."""
    state = read_state(path)
    if state is None:
        return [f"{path.name}: no loop yet"]
    with alone(path) as free:
        running = "waiting for the next start" if free else "running"
    done = [step for step in STEPS if step in state["done"]]
    step = STEPS[len(done)] if len(done) < len(STEPS) else "done"
    tries = state["attempts"].get(step, 0)
    again = f", attempt {tries}" if tries > 1 else ""
    kept = sum(entry["kept"] for entry in state["history"])
    lines = [
        f"{path.name}: {running}; cycle {state['cycle']}, {step}{again}",
        f"model in use: {state['in_use']}",
        f"{len(state['history'])} cycles done, {kept} candidates kept",
    ]
    lines += [
        f"  cycle {entry['cycle']} ({entry['ended'][:16]}): {'kept' if entry['kept'] else 'discarded'}; {entry['why']}"
        for entry in state["history"][-5:]
    ]
    return lines
