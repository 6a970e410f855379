"""A policy on a live crash feed: its decisions and its money are the environment's, bit for bit."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from playproof.evaluate.rollout import RolloutOptions
from playproof.events import Event
from playproof.game import load_game
from playproof.game.types import Terms
from playproof.game.vector_env import ReplayTape, VectorTerms
from playproof.games.crash.recording import columns as c
from playproof.games.crash.recording.sample import record
from playproof.games.crash.rules.windows import Phase
from playproof.games.crash.server.app import RunningServer, ServeConfig
from playproof.games.crash.sim.lanes import make_tape
from playproof.games.crash.sim.vector_env import CrashVectorGame
from playproof.money import UNIT
from playproof.record.recorder import Recorder, steady_clock
from playproof.record.redaction import Redaction
from playproof.store import EventLog
from playproof.validate.examine import Subject, load_subject
from playproof.workflows.crash.choice_masks import choice_masks, settled_choice
from playproof.workflows.crash.environment_play import EnvironmentRound, environment_round
from playproof.workflows.crash.live_feed import follow_feed
from playproof.workflows.crash.live_player import LiveDecision, LivePlayer, SettledRound

GAME = load_game("crash")
ROUNDS = 4


class MaskedRandom:
    """Choose by chance among what the masks allow; a policy that reads rows, masks and its own random numbers."""

    def __init__(self, heads: tuple[int, ...]) -> None:
        self.heads = heads

    def start(self, lanes: int, rng: np.random.Generator) -> np.random.Generator:
        return rng

    def begin(self, state: Any, chosen: Any) -> None:
        pass

    def act(self, obs: Any, state: Any) -> Any:
        raise AssertionError("a masked policy is asked with masks")

    def act_masked(self, obs: Any, masks: Any, state: np.random.Generator) -> Any:
        odds = state.random(masks.shape) * masks + (np.abs(obs).sum(dtype=np.float64) % 1.0) * 1e-9
        ends = np.cumsum(self.heads)
        return np.stack([odds[:, end - n : end].argmax(1) for n, end in zip(self.heads, ends, strict=True)], 1)


def masked(actions: str, clock: str) -> Subject:
    heads = tuple(map(len, GAME.actions[actions].heads))
    options = RolloutOptions("policy", actions, clock)
    return Subject(f"masked {actions} {clock}", MaskedRandom(heads), "0", "test", UNIT // 10, options)


SUBJECTS = [
    *(load_subject(GAME, name) for name in ("wait", "random", "hold-40", "take-profit", "sidebet", "human")),
    *(masked(*item) for item in itertools.product(("buttons", "buttons-share", "trader"), ("tick", "press"))),
]


@cache
def served(world: str = "published") -> tuple[Event, ...]:
    """Give the events of some rounds at the table, as a spectator's socket shows them."""
    frames = record(17, {}, ROUNDS, world=world).frames
    payload = zip(frames, GAME.decode(frames), strict=True)
    numbered = [(frame, fact) for frame, of in payload for fact in of]
    return tuple(fact.event(frame.ts, "test", seq) for seq, (frame, fact) in enumerate(numbered))


def follow(player: LivePlayer, events: Sequence[Event]) -> dict[str, tuple[list[LiveDecision], SettledRound]]:
    result: dict[str, tuple[list[LiveDecision], SettledRound]] = {}
    decisions: list[LiveDecision] = []
    for event in events:
        for item in player.take(event):
            if isinstance(item, SettledRound):
                result[item.window_id] = (decisions, item)
                decisions = []
            else:
                decisions.append(item)
    return result


def again(
    player: LivePlayer, events: Sequence[Event], played: tuple[list[LiveDecision], SettledRound]
) -> EnvironmentRound:
    window = [event for event in events if event.window_id == played[1].window_id]
    return environment_round(player.subject, window, *played, world=player.world, seed=player.seed)


def assert_same(player: LivePlayer, events: Sequence[Event], played: tuple[list[LiveDecision], SettledRound]) -> None:
    decisions, settled = played
    env = again(player, events, played)
    assert tuple(decision.action for decision in decisions) == env.actions
    for decision, row in zip(decisions, env.observations, strict=True):
        assert decision.observation.tobytes() == row.tobytes(), (decision.tick, decision.substep)
    assert (settled.pnl, settled.decisions) == (env.pnl, len(env.actions))


@pytest.mark.parametrize("carries", [False, True])
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_decisions_and_money_are_the_environments(subject: Subject, carries: bool) -> None:
    player = LivePlayer(subject, carries=carries, seed=3)
    rounds = follow(player, served())
    assert sum(settled.complete for _, settled in rounds.values()) == ROUNDS
    for played in rounds.values():
        assert_same(player, served(), played)
    cash = [settled.cash for _, settled in rounds.values()]
    begun = [settled.first_cash for _, settled in rounds.values()]
    assert begun == ([UNIT, *cash[:-1]] if carries else [UNIT] * ROUNDS)


@pytest.mark.parametrize("world", ["fair", "drift", "hazard"])
def test_other_worlds_too(world: str) -> None:
    for name in ("hold-40", "sidebet"):
        player = LivePlayer(load_subject(GAME, name), world)
        for played in follow(player, served(world)).values():
            assert_same(player, served(world), played)


def test_the_rounds_of_players_who_share_a_feed_are_the_same() -> None:
    one, two = (LivePlayer(load_subject(GAME, name)) for name in ("hold-40", "wait"))
    assert list(follow(one, served())) == list(follow(two, served()))


def test_a_round_joined_in_the_middle_is_watched_and_not_played() -> None:
    first = served()[0].window_id or next(str(event.window_id) for event in served() if event.window_id)
    late = [
        event
        for event in served()
        if event.window_id != first or event.columns.get("game_phase", Phase.ACTIVE) >= Phase.ACTIVE
    ]
    rounds = follow(LivePlayer(load_subject(GAME, "hold-40")), late)
    assert not rounds[first][0]
    assert not rounds[first][1].complete
    assert sum(settled.complete for _, settled in rounds.values()) == ROUNDS - 1


def test_a_lost_tick_makes_the_round_incomplete_and_its_money_stays_exact() -> None:
    gone = next(event for event in served() if event.event_name == c.TICK and event.columns["tick"] == 5)
    lost = [event for event in served() if event is not gone]
    gap = c.fact(c.GAP, {"missing_from": 5, "missing_to": 5}, gone.window_id).event(gone.ts, "test", 0)
    lost.insert(served().index(gone), gap)
    player = LivePlayer(load_subject(GAME, "hold-40"))
    settled = follow(player, lost)[str(gone.window_id)][1]
    whole = follow(LivePlayer(load_subject(GAME, "hold-40")), served())[str(gone.window_id)][1]
    assert not settled.complete
    assert settled.pnl == whole.pnl


@pytest.mark.parametrize("clock", ["tick", "press"])
@pytest.mark.parametrize("actions", ["buttons", "buttons-share", "trader"])
def test_masks_of_the_plain_ledger_are_the_lanes(actions: str, clock: str) -> None:
    """Random play through whole rounds in lanes and ledger side by side: the same masks before every step."""
    rng = np.random.default_rng(5)
    prices = [1.0, 1.2, 0.7, 2.5, 30.0, 0.02, *np.linspace(0.5, 3.0, 60).tolist(), 0.001]
    heads = tuple(map(len, GAME.actions[actions].heads))
    compared = 0
    for number in range(12):
        stake = [None, UNIT // 10, UNIT // 2][number % 3]
        tape = ReplayTape(("one",), make_tape([prices], ["one"]))
        lanes = CrashVectorGame(VectorTerms(tape, (1,), actions=actions, clock=clock, stake=stake), 1)
        lanes.start()
        ledger: Any = GAME.recording().ledger(Terms(actions, cash=UNIT, stake=stake))
        steps = [(Phase.PRESALE, 0, 1.0), *((Phase.ACTIVE, tick, price) for tick, price in enumerate(prices[:-1]))]
        for phase, tick, price in steps:
            payload = {"tick": tick, "price": price, "game_phase": int(phase)}
            ledger.apply_world(c.fact(c.TICK, payload, "one").event(datetime.now(UTC), "s", 0))
            adjustments = 0
            while True:
                mask = choice_masks(ledger, adjustments if clock == "press" else None)
                assert mask.tolist() == lanes.masks()[0].tolist()
                action = tuple(int(rng.integers(n)) for n in heads)
                settled = settled_choice(ledger, action)
                assert settled == tuple(lanes.settle(np.array([action]))[0].tolist())
                ledger.act(settled)
                ended = len(lanes.step(np.array([settled])).ended.lanes)
                compared += 1
                waits = clock == "press" and actions != "trader" and settled[0] == 0 and any(settled)
                if ended or not waits or adjustments >= 8:
                    break
                adjustments += 1
            if ended:
                break
    assert compared > 500


def test_two_players_follow_a_real_socket_and_are_recorded(home: Path) -> None:
    players = [LivePlayer(load_subject(GAME, name), seed=1) for name in ("hold-40", "random")]
    events: list[Event] = []
    decided: dict[int, list[LiveDecision]] = {0: [], 1: []}

    async def play(server: RunningServer, log: EventLog) -> dict[int, list[SettledRound]]:
        clock, stop = steady_clock(), asyncio.Event()
        recorder = Recorder(GAME, log, "shadow", "public_ws", redaction=Redaction(bytes(32)), clock=clock)
        recorder.subscribe("*", events.append)

        def note(player: LivePlayer, result: LiveDecision | SettledRound) -> None:
            if isinstance(result, LiveDecision):
                decided[players.index(player)].append(result)

        task = asyncio.create_task(follow_feed(server.url, recorder, clock, players, stop, note, {"name": "shadow"}))
        while recorder.last_tick is None:
            await asyncio.sleep(0.01)
            if task.done():
                task.result()
        while recorder.counts.windows <= 2:
            await asyncio.to_thread(server.step, 20)
        stop.set()
        settled = await task
        recorder.close()
        return settled

    config = ServeConfig(port=0, seed=12, manual=True)
    with RunningServer(config) as server, EventLog.open(home, GAME.columns) as log:
        settled = asyncio.run(asyncio.wait_for(play(server, log), 120))
    for index, player in enumerate(players):
        assert [item.complete for item in settled[index]] == [True, True]
        for item in settled[index]:
            mine = [decision for decision in decided[index] if decision.window_id == item.window_id]
            assert_same(player, events, (mine, item))
