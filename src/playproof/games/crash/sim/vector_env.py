"""Many players of the crash game at once, as the stages know them: the lanes of the Game record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof._numba import compiler
from playproof.errors import InputError
from playproof.events import Event
from playproof.game.vector_env import Actions, Chosen, FinishedEpisodes, Ints, ReplayTape, Rows, StepResult, VectorTerms
from playproof.games.crash.features.table import OBSERVATIONS
from playproof.games.crash.recording import columns as c
from playproof.games.crash.rules.windows import Phase
from playproof.games.crash.sim import layout, orders
from playproof.games.crash.sim.arrays import Records
from playproof.games.crash.sim.lanes import COMPILED_SETS, CrashConfig, KernelLanes, make_tape
from playproof.json_types import Json

compiled = compiler(__file__)
_QTY, _TICK, _FLAGS, _EQUITY, _OPENED, _INVESTED, _NO_EFFECT = (
    layout.FACTS.index(name)
    for name in (
        "position_qty",
        "tick",
        "flags",
        "equity",
        "positions_opened",
        "total_invested",
        "no_effect_actions",
    )
)
_KEEPS = layout.F_BET | layout.F_NO_EFFECT


@compiled
def follow(
    facts: Ints, last: Ints, ended: Ints, chosen: Ints, opened: Chosen, bets: Ints, held: Chosen, payload: Ints
) -> None:
    """Tell where a position was held while time passed, and what the rounds that ended came to.

    `payload` gets equity, positions and bets, money paid in and choices without effect of each round that ended. A
    position sold in part on the last tick counts as sold.
    """
    for index in range(len(ended)):
        lane, flags = ended[index], last[index, _FLAGS]
        bets[lane] += (flags & layout.F_BET) != 0
        payload[0, index] = last[index, _EQUITY]
        payload[1, index] = last[index, _OPENED] + bets[lane]
        payload[2, index] = last[index, _INVESTED]
        payload[3, index] = last[index, _NO_EFFECT]
        kept = opened[lane] and (chosen[lane] == 0 or (flags & _KEEPS) != 0)
        held[lane] = (flags & layout.F_BOUGHT) != 0 or kept
        opened[lane] = facts[lane, _QTY] > 0
        bets[lane] = -1  # counted
    for lane in range(len(facts)):
        if bets[lane] < 0:
            bets[lane] = 0
            continue
        flags = facts[lane, _FLAGS]
        opened[lane] = facts[lane, _QTY] > 0
        held[lane] = opened[lane] and facts[lane, _TICK] > 0 and (flags & layout.F_ADVANCED) != 0
        bets[lane] += (flags & layout.F_BET) != 0


@compiled
def mark_orders(lanes: Records, config: Records, out: Chosen) -> None:
    """Write into columns 1 and 3 whether a buy, and a sidebet, would be taken with some adjustment of the bet."""
    cfg = config[0]
    for i in range(len(lanes)):
        lane = lanes[i]
        buys, bets = False, False
        for button in range(len(orders.FACTORS)):
            amount = orders.adjusted_bet(lane.bet, lane.cash, button)
            buys |= orders.may_buy(lane, cfg, amount)
            bets |= orders.may_bet(lane, cfg, amount)
        out[i, 1] = buys
        out[i, 3] = bets


@compiled
def drop_refused(lanes: Records, config: Records, actions: Actions) -> None:
    """Put a wait in place of a buy or a sidebet that would not be taken after the adjustment of the same step."""
    cfg = config[0]
    for i in range(len(lanes)):
        lane, main, button = lanes[i], actions[i, 0], actions[i, 1]
        if not 0 <= button < len(orders.FACTORS):
            continue  # the step refuses it, and says why
        amount = orders.adjusted_bet(lane.bet, lane.cash, button)
        buys, bets = orders.may_buy(lane, cfg, amount), orders.may_bet(lane, cfg, amount)
        if (main == 1 and not buys) or (main == 3 and not bets):
            actions[i, 0] = 0


@lru_cache(maxsize=2)
def _warmed(world: str, seed: tuple[int, ...], count: int) -> tuple[Records, Records]:
    """Key lanes and play their warm-up rounds; once for all players of the same windows."""
    lanes = KernelLanes(CrashConfig(world=world), count)
    keys = np.random.SeedSequence(seed).generate_state(count, np.uint64)
    lanes.seed(keys.tolist(), np.ones(count, np.bool_))
    return lanes.lanes, lanes.sites


class CrashVectorGame:
    """Lanes of one round an episode, each round with a fresh balance."""

    def __init__(self, terms: VectorTerms, count: int) -> None:
        self.settings = to_settings(terms)
        self._seed = terms.seed
        self._seats = count
        self._sit()

    def _sit(self) -> None:
        """Take a lane for every seat."""
        self._lanes = KernelLanes(self.settings, self._seats)
        self._all = np.ones(self._seats, np.bool_)
        self._open = np.zeros(self._seats, np.bool_)
        self._bets = np.zeros(self._seats, np.int64)

    @property
    def count(self) -> int:
        """Give how many lanes there are."""
        return self._lanes.count

    @property
    def heads(self) -> tuple[int, ...]:
        """Give how many choices each head of the action set has."""
        return self.settings.heads

    @property
    def features(self) -> tuple[str, ...]:
        """Name the places of a row."""
        return OBSERVATIONS[self.settings.observation].features

    def start(self) -> Rows:
        """Seat a player in round 0 of every lane, those included that were left."""
        if self.count < self._seats:
            self._sit()
        self._lanes.lanes[:], self._lanes.sites[:] = _warmed(self.settings.world, self._seed, self.count)
        self._open[:] = False
        self._bets[:] = 0
        rows: Rows = self._lanes.reset(self._all)[0]
        return rows

    def step(self, actions: Actions) -> StepResult:
        """Take an action in every lane."""
        taken = np.ascontiguousarray(actions, np.int64)
        rows, rewards, _, truncated, facts, ended = self._lanes.step(taken)
        ended, held, payload = ended.copy(), np.empty(self.count, np.bool_), np.empty((4, len(ended)), np.int64)
        follow(facts, self._lanes.final_facts, ended, taken[:, 0], self._open, self._bets, held, payload)
        equity, opened, staked, no_effect = payload
        last = self._lanes.final_obs[: len(ended)].copy()
        over = FinishedEpisodes(
            ended, last, truncated[ended], equity - self.settings.balance, opened, staked, no_effect
        )
        return StepResult(rows, rewards, held, over, self._lanes.components(rewards))

    def keep(self, kept: Ints) -> None:
        """Go on with these lanes alone."""
        self._lanes = self._lanes.only(kept)
        self._all, self._open, self._bets = self._all[kept], self._open[kept], self._bets[kept]

    def masks(self) -> Chosen:
        """Tell which choices can have an effect now, an order with some adjustment of the bet or with none.

        The environment's own masks speak of each choice alone; but the bet field is adjusted before the order of
        the same step, and a learner that is forbidden to buy while nothing stands there never finds that step.
        """
        chosen: Chosen = self._lanes.masks()
        if self.settings.actions != "trader":
            mark_orders(self._lanes.lanes, self._lanes.config, chosen)
        return chosen

    def settle(self, actions: Actions) -> Actions:
        """Put a wait in place of a buy or a sidebet that would not be taken with the adjustment chosen beside it."""
        if self.settings.actions == "trader":
            return actions
        settled = np.array(actions, np.int64)
        drop_refused(self._lanes.lanes, self._lanes.config, settled)
        return settled

    def fork(self, rng: np.random.Generator) -> Chosen:
        """Give every lane whose round goes on another future; past and present stay."""
        return self._lanes.fork(rng)

    def save(self) -> tuple[dict[str, NDArray[np.generic]], Records]:
        """Give copies of the whole state."""
        return {name: array.copy() for name, array in self.arrays().items()}, self._lanes.tape

    def restore(self, saved: tuple[dict[str, NDArray[np.generic]], Records]) -> None:
        """Write a saved state back."""
        arrays, tape = saved
        for name, array in self.arrays().items():
            array[...] = arrays[name]
        self._lanes.use_tape(tape)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Give the whole state as the arrays it lives in."""
        lanes = self._lanes
        state = {"lanes": lanes.lanes, "states": lanes.states, "sites": lanes.sites, "lots": lanes.lots}
        remembered = {} if lanes.purse is None else {"reward_memory": lanes.purse.memory}
        return state | {"open": self._open, "bets": self._bets} | remembered


def to_settings(terms: VectorTerms) -> CrashConfig:
    """Read the terms as settings of the environment."""
    asked: Json = {
        "observation": terms.observation,
        "actions": terms.actions,
        "reward": terms.reward,
        "clock": terms.clock,
        "balance": terms.balance,
        "stake": terms.stake,
    }
    if isinstance(terms.source, str):
        asked["world"] = terms.source
    else:
        asked["tape"] = terms.source.rounds
    settings = CrashConfig(**{name: value for name, value in asked.items() if value is not None}, **terms.options)
    if settings.observation not in COMPILED_SETS or settings.rounds != 1:
        raise InputError(
            f"expected observation {' or '.join(COMPILED_SETS)} and one round an episode for many lanes, "
            f"found {settings.observation} and {settings.rounds}"
        )
    return settings


def make_vector_game(terms: VectorTerms, count: int) -> CrashVectorGame:
    """Make the lanes of the Game record."""
    return CrashVectorGame(terms, count)


def tape_of(windows: Iterable[tuple[str, Sequence[Event]]]) -> ReplayTape:
    """Lay recorded rounds on a tape; each must have been received tick by tick, from 0 to the rug."""
    names, rounds, countdowns = [], [], []
    for name, events in windows:
        prices, timers = _ticks(name, events)
        names.append(name)
        rounds.append(prices)
        countdowns.append(timers)
    return ReplayTape(tuple(names), make_tape(rounds, names, countdowns))


def _ticks(name: str, events: Sequence[Event]) -> tuple[list[float], list[int]]:
    """Read a round's prices by tick, the rug's last, and the countdown shown with each."""
    seen: dict[int, tuple[float, int]] = {}
    rugs: dict[int, float] = {}
    for event in events:
        payload: Any = event.columns
        if event.event_name not in (c.TICK, c.LATE_TICK):
            continue
        if payload.get("game_phase") == Phase.ACTIVE:
            seen.setdefault(payload["tick"], (payload["price"], int(payload.get("cooldown_timer_ms") or 0) // 250))
        elif payload.get("game_phase") == Phase.RUGGED:
            rugs[payload["tick"]] = payload["price"]
    end = min(rugs, default=0)
    if not end or any(tick not in seen for tick in range(end)):
        raise InputError(f"expected round {name} from tick 0 to its rug, found {len(seen)} ticks; leave it out")
    return [*(seen[tick][0] for tick in range(end)), rugs[end]], [*(seen[tick][1] for tick in range(end)), 0]
