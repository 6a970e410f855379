"""The validator, validated: what it says of thousands of policies whose worth is known.

| part | what | wanted |
|---|---|---|
| null | from windows to verdict, the choice among players included, where nothing can be earned | EDGE SHOWN <= 5 % |
| edge | the same with an edge, on as many windows as the first report said are needed | EDGE SHOWN >= 90 % |
| ppo | the same with a player that PPO trains, in every world | as null and edge |
| leak | pipelines with a leak planted, and clean ones | each caught >= 95 %, clean ones <= 5 % |
| mutant, honest | rewards wrong on purpose, and right ones | all found, right ones <= 5 % |
| size | tests on fair games: t-test, e-process, SPA | as known |

The theoretical ceiling is withheld, since it would decide alone. A run is a pure function of its part, name, number
and the study's seed; what is done is written line by line with its commit and what it took, so that a study goes on
wherever it was stopped, and one that was done by several commits shows it.
Leaves out: the page (study_page).
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof.errors import ConfigError, InputError
from playproof.evaluate.rollout import Score
from playproof.evaluate.trials import Kind, Trial, weigh_selection
from playproof.game import Game, load_game
from playproof.game.vector_env import ActivityProfile, RolloutStats
from playproof.rewards import check_reward
from playproof.rewards.discount import WINDOWS
from playproof.rewards.plays import Plays
from playproof.stats.evidence import REJECT, e_process
from playproof.stats.selection import superior_ability
from playproof.validate.examine import EvaluationSet, judge
from playproof.validate.gates import Verdict
from playproof.validate.leaks import (
    HoldoutScores,
    Samples,
    check_features,
    check_permuted,
    check_untouched,
    check_windows,
)
from playproof.validate.pipeline import learn_and_score, train_rows
from studies.validator.crash import STUDY
from studies.validator.worlds import Learnable, SimulatedWindows, StudyGame

Floats = NDArray[np.float64]
STREAM = int.from_bytes(b"study")
WHEN = datetime(2026, 1, 1, tzinfo=UTC)
RANDOM = "random P&L"
DRAWS = 300
"""Of SPA."""
LEAKS = ("future feature", "row split", "scaler over test", "round id", "rug tick", "clean")
PLAYERS = 50
BEST = f"best of {PLAYERS}"
SIZES = ("one-tick holds", "one-tick holds, peeking", "fair sidebets, peeking", BEST)
WINDOWS_OF_SIZES = 1000
SAMPLES = 50
"""Samples of a run that tests fair games."""
FIRST_LOOK = 40
"""Who peeks looks after every window from this one on."""
MOST = 250_000
"""Windows that are played at most because a report asks for them; one that asks for more counts as not found."""
ONE_SIDED = 1.645
"""The t statistic above which a one-sided test of 5 % rejects."""


@dataclass(frozen=True)
class StudyConfig:
    """How large a study is."""

    game: str
    nulls: int = 400
    """Runs in each world without an edge."""
    edges: int = 100
    leaks: int = 60
    rewards: int = 3
    """Seeds with which right rewards are checked; wrong ones are checked once."""
    sizes: int = 400
    ppo: int = 10
    """Trainings in each world."""
    ppo_steps: int = 2_000_000
    train: int = 200
    validation: int = 300
    test: int = 300
    pilot: int = 1000
    """Test windows of the first report where there is an edge; doubled until the report names a number."""
    opened: int = 3
    """Players that are looked at on the test windows; the best of them makes the claim."""
    zoo_windows: int = 24_000
    seed: int = 1

    @classmethod
    def small(cls, game: str) -> StudyConfig:
        """Give a study of less than two minutes."""
        return cls(
            game,
            nulls=12,
            edges=4,
            leaks=2,
            rewards=1,
            sizes=20,
            ppo=0,
            train=100,
            validation=150,
            test=150,
            pilot=600,
            zoo_windows=0,
        )

    @property
    def hash(self) -> str:
        """Name the study by what makes it another than others."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Unit:
    """One run."""

    part: str
    name: str
    number: int

    @property
    def key(self) -> str:
        """Name it."""
        return f"{self.part}/{self.name}/{self.number}"


@dataclass(frozen=True)
class StudyTask:
    """One run of one study, as it is sent to workers."""

    config: StudyConfig
    unit: Unit


def units(config: StudyConfig) -> list[Unit]:
    """List all runs, part by part, the dearest part last."""
    studying = find_studying(load_game(config.game))
    wrong, right = studying.rewards()
    groups = [
        *(("null", world, config.nulls) for world in (*studying.nulls, RANDOM)),
        *(("edge", world, config.edges) for world in studying.edges),
        *(("leak", leak, config.leaks) for leak in LEAKS),
        *(("mutant", name, 1) for name in wrong),
        *(("honest", name, config.rewards) for name in right),
        *(("size", name, config.sizes) for name in SIZES),
        *(("ppo", world, config.ppo) for world in (*studying.nulls, *studying.edges)),
    ]
    return [Unit(part, name, number) for part, name, count in groups for number in range(count)]


STUDIED: Mapping[str, StudyGame] = {"crash": STUDY}
"""Games that take part in studies."""


def first_studying() -> str:
    """Name the first game that takes part in studies."""
    return next(iter(STUDIED))


def find_studying(game: Game) -> StudyGame:
    """Give a game's part in studies."""
    if game.name not in STUDIED:
        raise ConfigError(f"expected a game that takes part in studies, found {game.name!r}, which does not")
    return STUDIED[game.name]


def run_unit(task: StudyTask) -> dict[str, Any]:
    """Do one run; give what came of it."""
    config, unit = task.config, task.unit
    payload = PARTS[unit.part](config, unit)
    return {"part": unit.part, "name": unit.name, "number": unit.number, **payload}


def timed_unit(task: StudyTask) -> dict[str, Any]:
    """Do one run; give what came of it, and its processor seconds."""
    start = time.process_time()
    unit = run_unit(task)
    return unit | {"seconds": round(time.process_time() - start, 3)}


def _seed(config: StudyConfig, unit: Unit) -> tuple[int, ...]:
    return (STREAM, config.seed, int.from_bytes(hashlib.sha256(unit.name.encode()).digest()[:4]), unit.number)


# from windows to verdict


def run_null(config: StudyConfig, unit: Unit) -> dict[str, Any]:
    """Choose among players where nothing can be earned, and claim the best."""
    seed = _seed(config, unit)
    if unit.name == RANDOM:
        return told_of(claim_random(config, seed))
    return told_of(claim(config, unit.name, seed, config.test)[0])


def run_edge(config: StudyConfig, unit: Unit) -> dict[str, Any]:
    """Choose where there is an edge; then play as many fresh windows as the report says are needed."""
    seed, windows = _seed(config, unit), config.pilot
    larger = replace(config, validation=2 * config.validation)
    while True:
        first, chosen = claim(larger, unit.name, seed, windows, weigh=True)
        if first.windows_needed is not None or windows >= 8 * config.pilot:
            break
        windows *= 2
    payload = {"first": first.name, "pilot": windows, "chosen": chosen, "needed": first.windows_needed}
    if first.windows_needed is None or first.windows_needed > MOST:
        return payload | left_at(first)
    again, _ = claim(larger, unit.name, seed, first.windows_needed, again=1)
    return payload | told_of(again)


def left_at(first: Verdict) -> dict[str, Any]:
    """Give what is kept of a run that ends with its first report: it named no number of windows, or too large a one."""
    named = "no number named" if first.windows_needed is None else "too many windows"
    return {"verdict": named, "failed": list(first.failed)}


def run_trained(config: StudyConfig, unit: Unit) -> dict[str, Any]:
    """Do the same with players that PPO trains: the checkpoints of one training are what is chosen among."""
    from studies.validator.ppo import run_ppo

    seed = int(np.random.SeedSequence(_seed(config, unit)).generate_state(1)[0]) % 10**8
    edge = unit.name in find_studying(load_game(config.game)).edges
    return run_ppo(
        config.game,
        unit.name,
        seed,
        WHEN,
        steps=config.ppo_steps,
        validation=config.validation,
        windows=config.pilot if edge else config.test,
        follow=edge,
    )


def told_of(verdict: Verdict) -> dict[str, Any]:
    """Give what is kept of a verdict."""
    return {
        "verdict": verdict.name,
        "failed": list(verdict.failed),
        "roi": verdict.roi,
        "e_value": min(verdict.e_value, 1e12),
    }


def claim(
    config: StudyConfig, world: str, seed: tuple[int, ...], windows: int, *, weigh: bool = False, again: int = 0
) -> tuple[Verdict, str]:
    """Learn, choose on validation windows, look at the best on test windows, and have the very best judged.

    `again` plays the same choice on other test windows. Gives the verdict, and who was chosen.
    """
    game = load_game(config.game)
    studying, stake = find_studying(game), game.defaults.stake
    train, chosen_on = (studying.deal(world, count, (*seed, index)) for index, count in _early(config))
    tested_on = studying.deal(world, windows, (*seed, 2 + again))
    players = studying.learn(train, config.seed)
    seen = [
        _trial(name, studying.play(player, chosen_on), chosen_on, "validation", stake)
        for name, player in players.items()
    ]
    best = sorted(seen, key=lambda trial: -trial.roi)[: config.opened]
    played = {trial.policy_hash: studying.play(players[trial.policy_hash], tested_on) for trial in best}
    looked = [_trial(name, item, tested_on, "test", stake) for name, item in played.items()]
    claimed = max(looked, key=lambda trial: trial.roi)
    name = claimed.policy_hash
    own = players[name]
    rivals = studying.rivals(_habits(played[name], stake), config.seed)
    looks = EvaluationSet(
        _score(name, played[name], tested_on, stake),
        dict(zip(("WAIT", "BUY", "SELL", "SIDEBET"), played[name].decisions.sum(axis=0).tolist(), strict=True)),
        int(played[name].no_effect.sum()),
        {other: studying.play(rival, tested_on).pnl / stake for other, rival in rivals.items()},
        {terms: studying.play(own, tested_on, delay=item).pnl / stake for terms, item in game.defaults.worse.items()},
        weigh_selection(claimed, [*seen, *looked], config.seed, draws=DRAWS),
    )
    return judge(looks, None, config.seed, weigh=weigh)[0], name


def _early(config: StudyConfig) -> tuple[tuple[int, int], ...]:
    return (0, config.train), (1, config.validation)


def _score(name: str, played: RolloutStats, dealt: SimulatedWindows, stake: int) -> Score:
    return Score(name, dealt.windows, tuple(played.pnl.tolist()), tuple(played.opened.tolist()), stake)


def _trial(name: str, played: RolloutStats, dealt: SimulatedWindows, kind: Kind, stake: int) -> Trial:
    pnl = tuple(played.pnl.tolist())
    return Trial("study", name, f"{dealt.windows[0]} {len(dealt)}", kind, kind, WHEN, dealt.windows, pnl, stake)


def _habits(played: RolloutStats, stake: int) -> ActivityProfile:
    opened, steps = int(played.opened.sum()), max(1, int(played.steps.sum()))
    shares = (played.decisions.sum(axis=0) / steps).tolist()
    mix = dict(zip(("WAIT", "BUY", "SELL", "SIDEBET"), shares, strict=True))
    bet = int(played.staked.sum()) // opened if opened else 0
    return ActivityProfile(mix, bet, float(played.in_market.sum()) / opened if opened else 1.0, stake)


def claim_random(config: StudyConfig, seed: tuple[int, ...], players: int = 25) -> Verdict:
    """Do the same with players whose profits are luck alone: skewed, alike, and 0 on average."""
    rng, stake = np.random.default_rng(seed), 10**9
    windows = config.validation + config.test

    def earn(count: int) -> Floats:
        common, own = rng.normal(size=(count, 1)), rng.normal(size=(count, players))
        spread = np.linspace(0.2, 1.0, players)
        drawn = spread * (0.5 * common + np.sqrt(0.75) * own)
        floats: Floats = 0.5 * (np.exp(drawn - spread**2 / 2) - 1)
        return floats

    names = tuple(f"hour-{index}" for index in range(windows))
    first, last = names[: config.validation], names[config.validation :]
    early, late = earn(len(first)), earn(len(last))
    seen = [_luck(index, early, first, "validation", stake) for index in range(players)]
    best = sorted(range(players), key=lambda index: -seen[index].roi)[: config.opened]
    looked = [_luck(index, late, last, "test", stake) for index in best]
    claimed = max(looked, key=lambda trial: trial.roi)
    own = late[:, int(claimed.policy_hash)]
    score = Score(claimed.policy_hash, last, claimed.pnl, (1,) * len(last), stake)
    worse = {name: own + rng.normal(0, 0.02, len(own)) for name in ("late", "slipped")}
    rival = late[:, (int(claimed.policy_hash) + 1) % players]
    selection = weigh_selection(claimed, [*seen, *looked], config.seed, draws=DRAWS)
    return judge(
        EvaluationSet(score, {"BUY": len(last)}, 0, {"random": rival}, worse, selection), None, 1, weigh=False
    )[0]


def _luck(index: int, earned: Floats, windows: tuple[str, ...], kind: Kind, stake: int) -> Trial:
    pnl = tuple(np.rint(earned[:, index] * stake).astype(np.int64).tolist())
    return Trial("study", str(index), kind, kind, kind, WHEN, windows, pnl, stake)


# leaks


def run_leak(config: StudyConfig, unit: Unit) -> dict[str, Any]:
    """Plant one leak in a pipeline, and ask D1 and D2."""
    game, rng = load_game(config.game), np.random.default_rng(_seed(config, unit))
    studying = find_studying(game)
    dealt = studying.deal(studying.nulls[0], 120, _seed(config, unit))
    result = studying.rows(dealt)
    samples, known = planted(unit.name, result, rng)
    by_row, by_all = unit.name == "row split", unit.name == "scaler over test"

    def pipeline(given: Samples) -> HoldoutScores:
        return learn_and_score(given, by_row=by_row, scale_all=by_all)

    split = _split_of(samples, by_row)
    findings = [
        check_windows(split),
        check_features(samples, {"the window's end": result.ends}, known),
        check_permuted(pipeline, samples, rng),
        check_untouched(pipeline, samples, rng),
    ]
    return {"caught": [finding.check for finding in findings if not finding.passed]}


def planted(leak: str, learnable: Learnable, rng: np.random.Generator) -> tuple[Samples, tuple[str, ...]]:
    """Give samples with one feature too many, and the features that the game's own fold vouches for."""
    names = np.unique(learnable.windows)
    extra = {
        "future feature": ("signal", learnable.later),
        "round id": ("id", rng.permutation(len(names))[np.searchsorted(names, learnable.windows)].astype(float)),
        "rug tick": ("length", np.array([learnable.ends[str(name)] for name in learnable.windows])),
    }.get(leak)
    rows = learnable.rows if extra is None else np.column_stack([learnable.rows, extra[1]])
    own = learnable.names if extra is None else (*learnable.names, extra[0])
    return Samples(rows, learnable.labels, learnable.windows, own), learnable.names


def _split_of(samples: Samples, by_row: bool) -> dict[str, list[str]]:
    train = train_rows(samples, by_row=by_row)
    return {"train": samples.windows[train].tolist(), "test": samples.windows[~train].tolist()}


# rewards


def run_mutant(config: StudyConfig, unit: Unit) -> dict[str, Any]:
    """Check a reward that is wrong on purpose; R8 is asked where the others say nothing."""
    game = load_game(config.game)
    reward = find_studying(game).rewards()[0][unit.name]
    plays = _plays(config.game, config.seed)
    failed = check_reward(game, reward, config.seed, plays=plays, zoo_windows=0).failed
    if not failed:
        windows = max(config.zoo_windows, WINDOWS)
        failed = check_reward(game, reward, config.seed, plays=plays, zoo_windows=windows).failed
    return {"failed": list(failed)}


def run_honest(config: StudyConfig, unit: Unit) -> dict[str, Any]:
    """Check a right reward."""
    game = load_game(config.game)
    reward = find_studying(game).rewards()[1][unit.name]
    seed = config.seed + unit.number
    plays = _plays(config.game, seed)
    return {"failed": list(check_reward(game, reward, seed, plays=plays, zoo_windows=config.zoo_windows).failed)}


@lru_cache(maxsize=4)
def _plays(game: str, seed: int) -> Plays:
    """Play what checks look at, once for all rewards."""
    return Plays(load_game(game), seed)


# known sizes of tests


def run_size(config: StudyConfig, unit: Unit) -> dict[str, Any]:
    """Test fair games in ways whose errors are known; counts rejections among some samples."""
    rng = np.random.default_rng(_seed(config, unit))
    if unit.name == BEST:
        return _best_of_many(rng, config.seed)
    draw = _fair_sidebets if unit.name.startswith("fair sidebets") else _fair_holds
    peeks = unit.name.endswith("peeking")
    testeds = [_tested(draw(rng, WINDOWS_OF_SIZES), peeks) for _ in range(SAMPLES)]
    payload = {name: sum(item[name] for item in testeds) for name in testeds[0]}
    if not peeks:
        payload["t100"] = sum(bool(_t(draw(rng, 100))[-1] > ONE_SIDED) for _ in range(SAMPLES))
    return payload | {"samples": SAMPLES}


def _tested(returns: Floats, peeks: bool) -> dict[str, bool]:
    """Test one sample, at its end or after every window from some on."""
    values, e = _t(returns), e_process(returns)
    if not peeks:
        return {"t": bool(values[-1] > ONE_SIDED), "e": e.value >= REJECT}
    return {"t": bool((values[FIRST_LOOK - 1 :] > ONE_SIDED).any()), "e": e.crossed is not None}


def _best_of_many(rng: np.random.Generator, seed: int) -> dict[str, Any]:
    """Take the best of players who each place fair sidebets in rounds of their own, and test it as if it were one."""
    table = _fair_sidebets(rng, PLAYERS * WINDOWS_OF_SIZES).reshape(WINDOWS_OF_SIZES, PLAYERS)
    best = table[:, table.mean(axis=0).argmax()]
    p = superior_ability(table, seed, draws=DRAWS).p
    return {"t": bool(_t(best)[-1] > ONE_SIDED), "spa": p < 0.05, "e": e_process(best).value >= REJECT}


def _fair_holds(rng: np.random.Generator, count: int) -> Floats:
    """Draw holds of one tick in the fair game: a rug takes nearly all, else a little is gained on average."""
    hazard, kept = 0.005, 0.1115
    gain = hazard * (1 - kept) / (1 - hazard)
    big = np.where(rng.random(count) < 0.125, rng.choice([-1.0, 1.0], count) * rng.uniform(0.15, 0.25, count), 0.0)
    moved = gain + np.where(big != 0, big, rng.uniform(-0.025, 0.025, count))
    floats: Floats = np.where(rng.random(count) < hazard, kept - 1, moved)
    return floats


def _fair_sidebets(rng: np.random.Generator, count: int) -> Floats:
    """Draw sidebets that pay exactly what they are worth."""
    chance = 1 - 0.995**40
    floats: Floats = np.where(rng.random(count) < chance, 1 / chance - 1, -1.0)
    return floats


def _t(returns: Floats) -> Floats:
    """Give the t statistic after every window."""
    count = np.arange(1, len(returns) + 1)
    mean = np.cumsum(returns) / count
    spread = np.sqrt(np.maximum(np.cumsum(returns**2) / count - mean**2, 1e-12) / np.maximum(count - 1, 1))
    floats: Floats = mean / spread
    return floats


PARTS: Mapping[str, Callable[[StudyConfig, Unit], dict[str, Any]]] = {
    "null": run_null,
    "edge": run_edge,
    "ppo": run_trained,
    "leak": run_leak,
    "mutant": run_mutant,
    "honest": run_honest,
    "size": run_size,
}


# keeping what is done


@dataclass(frozen=True)
class StudyNotes:
    """What was done so far, one line for each run; a line that a crash cut off counts for nothing."""

    path: Path

    def read(self) -> dict[str, dict[str, Any]]:
        """Give the runs that are done, by key."""
        if not self.path.exists():
            return {}
        text = self.path.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]
        if whole != text:
            os.truncate(self.path, len(whole))
        result = {}
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                payload = json.loads(line)
                result[Unit(payload["part"], payload["name"], payload["number"]).key] = payload
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(
                    f"expected a run on line {number} of {self.path}, found: {error}; remove the file"
                ) from error
        return result

    def write(self, payload: Sequence[Mapping[str, Any]]) -> None:
        """Append runs."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(b"".join(json.dumps(item, sort_keys=True).encode() + b"\n" for item in payload))
            file.flush()
            os.fsync(file.fileno())


def left(config: StudyConfig, done: Mapping[str, Any], parts: Sequence[str] = ()) -> Iterator[StudyTask]:
    """Give the runs that are still to be done."""
    for unit in units(config):
        if unit.key not in done and (not parts or unit.part in parts):
            yield StudyTask(config, unit)


ENOUGH = 100
"""Runs from which on a rate is taken at its word."""


@dataclass(frozen=True)
class TargetRate:
    """What a rate should be."""

    text: str
    low: float
    high: float
    known: bool = False
    """Measured before, elsewhere: as far as luck goes in these runs, another figure is the same."""


@dataclass(frozen=True)
class Share:
    """How often something happened, and how often it should."""

    part: str
    name: str
    hits: int
    runs: int
    wanted: TargetRate

    @property
    def met(self) -> bool:
        """Tell whether it is as wanted: known figures, and few runs, as far as the interval does not rule it out."""
        exact = self.runs >= ENOUGH and not self.wanted.known
        low, high = (self.rate, self.rate) if exact else self.interval
        return self.runs > 0 and low <= self.wanted.high and high >= self.wanted.low

    @property
    def rate(self) -> float:
        """Give the share."""
        return self.hits / self.runs if self.runs else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Give Wilson's 95 % interval."""
        if not self.runs:
            return 0.0, 1.0
        z, n, p = 1.96, self.runs, self.rate
        middle = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
        return max(0.0, middle - half), min(1.0, middle + half)


def summarise(done: Mapping[str, Mapping[str, Any]]) -> tuple[Share, ...]:
    """Count what came of all runs, group by group."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for payload in done.values():
        groups.setdefault((payload["part"], payload["name"]), []).append(payload)
    shares: list[Share] = []
    for (part, name), runs in groups.items():
        shares += _shares(part, name, runs)
    order = {part: index for index, part in enumerate(PARTS)}
    return tuple(sorted(shares, key=lambda item: order[item.part]))


def _shares(part: str, name: str, runs: list[Mapping[str, Any]]) -> list[Share]:
    if part == "size":
        samples = sum(run.get("samples", 1) for run in runs)
        return [
            Share(part, f"{name}: {TESTS[test]}", sum(run[test] for run in runs), samples, known)
            for test, known in KNOWN[name].items()
        ]
    if part == "ppo" and any("needed" in run for run in runs):
        followed = [run for run in runs if "roi" in run]
        return [Share(part, name, sum(_hit(item) for item in followed), len(followed), WANTED["edge"])]
    return [Share(part, name, sum(_hit(run) for run in runs), len(runs), RARE if name == "clean" else WANTED[part])]


def _hit(payload: Mapping[str, Any]) -> bool:
    """Tell whether a run's edge was shown, its leak caught, or its reward refused."""
    if "verdict" in payload:
        return bool(payload["verdict"] == "EDGE SHOWN")
    return bool(payload["caught"] if "caught" in payload else payload["failed"])


RARE = TargetRate("<= 5 %", 0.0, 0.05)
WANTED: Mapping[str, TargetRate] = {
    "null": RARE,
    "ppo": RARE,
    "edge": TargetRate(">= 90 %", 0.9, 1.0),
    "leak": TargetRate(">= 95 %", 0.95, 1.0),
    "mutant": TargetRate("100 %", 1.0, 1.0),
    "honest": RARE,
}
TESTS = {"t": "t-test", "t100": "t-test of 100", "e": "e-process", "spa": "SPA"}
SKEWED = TargetRate("7 to 11 %", 0.065, 0.115, known=True)
KNOWN: Mapping[str, Mapping[str, TargetRate]] = {
    "one-tick holds": {"t": SKEWED, "t100": SKEWED, "e": RARE},
    "one-tick holds, peeking": {"t": TargetRate("37 to 43 %", 0.365, 0.435, known=True), "e": RARE},
    "fair sidebets, peeking": {"t": TargetRate("about 26 %", 0.24, 0.28, known=True), "e": RARE},
    BEST: {
        "t": TargetRate("86 to 91 %", 0.855, 0.915, known=True),
        "spa": TargetRate("2 to 5 %", 0.015, 0.055, known=True),
        "e": TargetRate("any: chosen in hindsight", 0.0, 1.0),
    },
}
"""By game and test: what is known of it, in whole percents; "about" is two of them to each side."""


def costs(done: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, int, float]]:
    """Give for each part how many runs it has and how many processor seconds they took, as far as they were noted."""
    groups: dict[str, list[float]] = {}
    for payload in done.values():
        groups.setdefault(payload["part"], []).append(float(payload.get("seconds", 0.0)))
    return [(part, len(groups[part]), sum(groups[part])) for part in PARTS if part in groups]


def commits(done: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Count the runs by the commit that did them."""
    return dict(Counter(str(payload.get("commit", "unknown")) for payload in done.values()))
