"""One round and its actions, through the real server and through the environment: the same money, bit for bit."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
import socketio

from playproof.games.crash.rules.money import MoneyLedger
from playproof.games.crash.rules.windows import Phase
from playproof.games.crash.server.app import CrashServer, ServeConfig, address, listen
from playproof.games.crash.server.protocol import TOP_UP
from playproof.games.crash.sim.env import CrashEnv
from playproof.games.crash.sim.lanes import make_tape
from tests.reference.crash_twin import ADJUST, MAIN, SHARE, adjusted

ROUNDS = 1000
ACTIONS_A_ROUND = 6
KINDS = {"BUY": "buyOrder", "SELL": "sellOrder", "SIDEBET": "requestSidebet"}


class Pair:
    """The same player at the server's table and, round by round, in the environment."""

    def __init__(self, server: CrashServer, client: socketio.AsyncClient) -> None:
        self.server, self.client = server, client
        self.bet, self.share = 10**6, 100
        self.over = False
        self.filled = self.refused = self.rounds = 0

    @property
    def ledger(self) -> MoneyLedger:
        (player,) = self.server.table.players.values()
        return player.ledger

    def deal(self) -> int:
        """Bring the table to its presale and the environment to the same round; give its last tick."""
        table = self.server.table
        self.pass_until(Phase.PRESALE)
        tape = make_tape([table.round.prices], [table.game_id], [table.round.countdown])
        self.env = CrashEnv(
            world=table.world.name, tape=tape, actions="buttons-share", balance=self.ledger.cash, first_bet=self.bet
        )
        self.env.reset(seed=1)
        self.share, self.over = 100, False
        self.rounds += 1
        return table.round.rug_tick

    async def act(self, action: tuple[int, int, int]) -> None:
        """Send what the page would send for the action; then let both sides pass the tick."""
        main, button, share = MAIN[action[0]], ADJUST[action[1]], SHARE[action[2]]
        self.bet = adjusted(self.bet, self.ledger.cash, button)
        self.share = share or self.share
        success = None
        if main != "WAIT":
            payload = {"percentage": self.share} if main == "SELL" else {"amount": self.bet / 1e9, "xPayout": 5}
            ack = await self.client.call(KINDS[main], payload)
            success = ack["success"]
        if self.server.table.phase is Phase.PRESALE:
            self.pass_until(Phase.ACTIVE)
        else:
            self.server.step()
        info = self.step(action)
        if success is not None:
            assert info["no_effect"] == (not success), (action, info)
            self.filled += success
            self.refused += not success
        self.compare(info)

    def step(self, action: tuple[int, int, int]) -> dict[str, Any]:
        *_, terminated, _, info = self.env.step(action)
        self.over = terminated
        return info

    def wait_until(self, tick: int) -> None:
        """Let ticks pass on both sides without an action."""
        at = int(self.env._lanes.lanes["tick"][0])
        for _ in range(tick - at):
            if self.over:
                return
            info = self.step((0, 0, 0))
        if tick > at and not self.over:
            self.pass_until(Phase.ACTIVE, tick)
            self.compare(info)

    def pass_until(self, phase: Phase, tick: int = 0) -> None:
        """Move the table to a phase and tick where nobody acts; what it says on the way is not sent."""
        table = self.server.table
        while not (table.phase is phase and table.tick >= tick):
            table.advance()

    def compare(self, info: dict[str, Any]) -> None:
        book = self.ledger
        assert (info["cash"], info["position_qty"]) == (book.cash, book.qty)
        assert (info["open_cost"], info["sidebet_stake"]) == (book.cost, book.open_stake)
        assert info["total_invested"] == book.invested


async def play_round(pair: Pair, rng: np.random.Generator) -> None:
    """Play one round with a few random actions at random ticks, the presale and the rug included."""
    last = pair.deal()
    await pair.act(tuple(rng.integers(0, (4, 9, 5)).tolist()) if rng.random() < 0.5 else (0, 0, 0))
    for tick in sorted(rng.choice(last, min(last, ACTIONS_A_ROUND), replace=False).tolist()):
        pair.wait_until(int(tick))
        if pair.over:
            break
        button = int(rng.choice(9, p=[0.3, 0.2, 0.15, 0.1, 0.05, 0.03, 0.12, 0.04, 0.01]))
        await pair.act((int(rng.integers(4)), button, int(rng.integers(5))))
    pair.wait_until(last - 1)
    if not pair.over:
        await pair.act((0, 0, 0))
        assert pair.server.table.phase is Phase.RUGGED
    pair.pass_until(Phase.RUGGED)
    if pair.ledger.cash < 10**6:
        ack = await pair.client.call(TOP_UP, {})
        assert ack["success"], ack


async def run(rounds: int, world: str, seed: int) -> Pair:
    """Play in lock step; server and client share one event loop and talk over a real socket."""
    server = CrashServer(ServeConfig(port=0, world=world, seed=seed, manual=True, crowded=False))
    listening, stop, ready = listen("127.0.0.1", 0), asyncio.Event(), asyncio.Event()
    serving = asyncio.create_task(server.run(listening, stop, ready.set))
    await ready.wait()
    client = socketio.AsyncClient()
    await client.connect(address(listening, "127.0.0.1"), transports=["websocket"], auth={"name": "parity"})
    pair = Pair(server, client)
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        await play_round(pair, rng)
    await client.disconnect()
    stop.set()
    await serving
    return pair


def test_server_and_environment_move_the_same_money() -> None:
    pair = asyncio.run(run(ROUNDS, "published", 5))
    assert pair.rounds == ROUNDS
    assert pair.filled > ROUNDS
    assert pair.refused > ROUNDS / 4


@pytest.mark.parametrize("world", ["fair", "drift", "hazard", "instarug"])
def test_other_worlds_too(world: str) -> None:
    assert asyncio.run(run(30, world, 6)).filled > 30
