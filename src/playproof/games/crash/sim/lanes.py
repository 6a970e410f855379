"""The kernel with its arrays: settings in, lanes that can be seeded, reset and stepped out."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from playproof.errors import ConfigError, InputError, UnknownName
from playproof.game import Reward
from playproof.game.rewards import CLIP, ComposedReward, Facts, Values, total
from playproof.games.crash.features import state
from playproof.games.crash.features.state import id_hash
from playproof.games.crash.rewards.presets import is_minimal, to_reward
from playproof.games.crash.rewards.terms import to_facts
from playproof.games.crash.rules.money import MAX_MONEY, MIN_BET
from playproof.games.crash.rules.prices import MASK, MAX_TICKS
from playproof.games.crash.rules.worlds import INSTARUG_SHARE, INSTARUG_TICKS, get_world
from playproof.games.crash.sim import kernel, layout
from playproof.games.crash.sim.arrays import Array, Floats, Ints, Marks, Records, Rows
from playproof.games.crash.sim.kernel import seed_lanes
from playproof.money import UNIT

ObservationName = Literal["policy", "recorded", "market", "trader"]
ActionsName = Literal["buttons", "buttons-share", "trader"]
ClockName = Literal["tick", "press"]
Element = TypeVar("Element", bound=np.generic)

CLOCK_CODES = {"tick": layout.CLOCK_TICK, "press": layout.CLOCK_PRESS}
COMPILED_SETS = {"policy": (layout.POLICY, state.POLICY_COUNT), "recorded": (layout.RECORDED, state.FEATURE_COUNT)}


def addresses(*arrays: Array) -> Ints:
    """Give the addresses of arrays, in the order of the indices."""
    return np.array([array.__array_interface__["data"][0] for array in arrays], np.int64)


def look_up(kind: str, name: str, table: Mapping[str, int]) -> int:
    """Give a table's entry, or say which there are."""
    if name not in table:
        raise UnknownName(kind, name, table)
    return table[name]


@dataclass(frozen=True)
class PriceTape:
    """Recorded rounds, laid end to end for the kernel."""

    ticks: Records
    rounds: Records

    def __len__(self) -> int:
        return len(self.rounds)


def make_tape(
    rounds: Sequence[Sequence[float]],
    game_ids: Sequence[str] | None = None,
    countdowns: Sequence[Sequence[int]] | None = None,
) -> PriceTape:
    """Lay recorded rounds on a tape; each is its prices by tick, the last one the rug price."""
    if not rounds:
        raise InputError("expected at least one recorded round, found none")
    names = game_ids if game_ids is not None else [f"tape-{number}" for number in range(len(rounds))]
    if len(names) != len(rounds):
        raise InputError(f"expected {len(rounds)} game ids, found {len(names)}")
    table = np.zeros(len(rounds), layout.TAPE_ROUND)
    ticks = np.zeros(sum(len(prices) for prices in rounds), layout.TAPE)
    start = 0
    for number, prices in enumerate(rounds):
        values = np.asarray(prices, np.float64)
        if not 2 <= len(values) <= MAX_TICKS + 1 or values[0] != 1.0 or not np.all((values >= 0.0) & (values < 1e9)):
            raise InputError(
                f"expected round {number} to hold 2 to {MAX_TICKS + 1} prices from 1 on, below 10^9; "
                f"found {len(values)} beginning with {values[:3].tolist()}"
            )
        end = start + len(values)
        ticks["price"][start:end] = values
        if countdowns is not None:
            ticks["countdown"][start:end] = countdowns[number]
        table[number] = (start, values[:-1].max(), id_hash(names[number]), len(values) - 1)
        start = end
    return PriceTape(ticks, table)


NO_TAPE = PriceTape(np.zeros(1, layout.TAPE), np.zeros(0, layout.TAPE_ROUND))


@dataclass(frozen=True)
class CrashConfig:
    """What an environment of the crash game can be asked for."""

    world: str = "published"
    observation: ObservationName = "policy"
    actions: ActionsName = "buttons"
    reward: str | Path | Mapping[str, Any] | Reward = "minimal"
    """Name, configuration, file, "module:attribute" or the reward itself."""
    rounds: int = 1
    """Rounds of a session; with more than one the bankroll is carried over and the end truncates."""
    clock: ClockName = "tick"
    """press: an adjustment of the bet does not let the tick pass, at most 8 in a row."""
    balance: int = UNIT
    """Starting money, in units of 10^-9."""
    first_bet: int = MIN_BET
    """What stands in the bet field at first, in units of 10^-9."""
    stake: int | None = None
    """Reserved stake of a round, in units: open cost + open sidebet + realised loss may not pass it."""
    tape: PriceTape | None = None
    """Recorded rounds to play in place of the world's own."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reward", to_reward(self.reward))
        get_world(self.world)
        if self.rounds < 1:
            raise ConfigError(f"expected rounds >= 1, found {self.rounds}")
        for what, amount in (("balance", self.balance), ("first_bet", self.first_bet)):
            if not 0 <= amount <= MAX_MONEY:
                raise ConfigError(f"expected {what} of 0 to {MAX_MONEY} units of 10^-9, found {amount}")

    def to_record(self, lanes: int) -> Records:
        """Write the settings as the kernel reads them."""
        world = get_world(self.world)
        config = np.zeros(1, layout.CONFIG)
        config["world"] = world.code
        config["payout_numerator"] = world.payout.numerator
        config["payout_denominator"] = world.payout.denominator
        config["open_cost"] = MAX_MONEY if world.open_cost is None else world.open_cost
        config["stake"] = -1 if self.stake is None else self.stake
        config["balance"] = self.balance
        config["first_bet"] = self.first_bet
        config["rounds"] = self.rounds
        config["clock"] = look_up("clock", self.clock, CLOCK_CODES)
        config["actions"] = look_up("action set", self.actions, layout.ACTION_CODES)
        config["observation"] = COMPILED_SETS.get(self.observation, (layout.POLICY, 0))[0]
        config["taped"] = len(self.tape) if self.tape is not None else 0
        config["stride"] = lanes
        config["watched"] = not is_minimal(self.paying)
        return config

    @property
    def paying(self) -> ComposedReward:
        """Give the reward as it was found."""
        return to_reward(self.reward)

    @property
    def heads(self) -> tuple[int, ...]:
        """Give the number of choices of each head."""
        return tuple(int(n) for n in layout.HEADS[look_up("action set", self.actions, layout.ACTION_CODES)] if n)


class ArrayPool(Generic[Element]):
    """Hand out arrays of one shape, again as soon as nobody else holds them.

    A fresh array of this size costs page faults at every step, more than the step itself.
    """

    def __init__(self, shape: tuple[int, ...], dtype: type[Element]) -> None:
        self._shape, self._dtype = shape, dtype
        self._arrays: list[NDArray[Element]] = []

    def take(self) -> NDArray[Element]:
        """Give an array that nobody else holds; its values are left over."""
        for array in self._arrays:
            if sys.getrefcount(array) == _UNHELD:
                return array
        array = np.empty(self._shape, self._dtype)
        self._arrays = [array, *self._arrays[: _POOLED - 1]]
        return array


_FLAGS = layout.FACTS.index("flags")
_POOLED = 4
_UNHELD = 3
"""References to an array that only its pool holds: the list, the loop and the question."""


class RewardTracker:
    """Pay a reward that the kernel does not compute, from the moments that it writes before and after a step.

    `memory` holds what rewards remember of each lane: lowest wealth, highest equity, tick of entry.
    """

    def __init__(self, settings: CrashConfig, count: int) -> None:
        self.reward = settings.paying
        self.before, self.after = np.zeros(count, layout.MOMENT), np.zeros(count, layout.MOMENT)
        self.memory = np.zeros((3, count), np.int64)
        self._balance = settings.balance
        self._trader = settings.actions == "trader"
        self.paid: dict[str, Values] = {}

    def begin(self, chosen: Marks | Ints) -> None:
        """Forget the chosen lanes: a player sits down with a fresh balance."""
        self.memory[:2, chosen] = self._balance
        self.memory[2, chosen] = 0

    def pay(self, actions: Ints, flags: Ints, terminated: Marks) -> Values:
        """Give each lane's reward for the step it has just taken; its components stand in `paid`."""
        self.paid = self.reward.pay(self._facts(actions, flags, terminated))
        return total(self.paid)

    def _facts(self, actions: Ints, flags: Ints, terminated: Marks) -> Facts:
        before, after = self.before, self.after
        lowest, highest, entry = self.memory.copy()
        more = {
            "main": actions[:, 0],
            "effect": partial(self._effect, actions, flags),
            "terminated": terminated,
            "lowest": lowest,
            "highest": highest,
            "held": lambda: np.where(before["qty"] > 0, before["tick"] - entry, 0),
        }
        np.minimum(lowest, after["equity"] + after["sidebet_stake"], out=self.memory[0])
        np.maximum(highest, after["equity"], out=self.memory[1])
        np.copyto(self.memory[2], before["tick"], where=(before["qty"] == 0) & (after["qty"] > 0))
        return to_facts(before, after, more)

    def _effect(self, actions: Ints, flags: Ints) -> Marks:
        """Tell which actions changed anything; WAIT alone changes nothing."""
        asked = actions[:, 0] != 0 if self._trader else (actions != 0).any(axis=1)
        changed: Marks = asked & ((flags & (layout.F_NO_EFFECT | layout.F_ADJUSTED)) != layout.F_NO_EFFECT)
        return changed


class KernelLanes:
    """Hold the state of some lanes and move them."""

    def __init__(self, settings: CrashConfig, count: int) -> None:
        self.settings = settings
        self.count = count
        self.config = settings.to_record(count)
        self.width = COMPILED_SETS.get(settings.observation, COMPILED_SETS["policy"])[1]
        self.lanes = np.zeros(count, layout.LANE)
        self.lanes["seat"] = np.arange(count)
        self.states = state.new_state(count)
        self.sites = np.zeros(count, layout.SITE)
        self.lots = np.zeros(count, layout.LOTS)
        tape = settings.tape or NO_TAPE
        self.tape, self.tape_rounds = tape.ticks, tape.rounds
        self._obs = ArrayPool((count, self.width), np.float32)
        self._facts = ArrayPool((count, len(layout.FACTS)), np.int64)
        self.final_obs = np.zeros((count, self.width), np.float32)
        self.final_facts = np.zeros((count, len(layout.FACTS)), np.int64)
        self._ended = np.zeros(count, np.int64)
        self._finished = 0
        self._nothing = np.zeros(count)
        self._nothing.flags.writeable = False
        self.clip = settings.paying.clip
        self.clipped = 0
        """Steps so far whose reward was clipped."""
        self.purse = RewardTracker(settings, count) if self.config["watched"][0] else None
        self.use_tape(self.tape)

    def use_tape(self, tape: Records) -> None:
        """Read prices from this array from now on; the table of rounds stays."""
        self.tape = tape
        moments = (self.purse.before, self.purse.after) if self.purse else (self.lanes, self.lanes)
        self._addresses = addresses(
            self.lanes, self.states, self.sites, self.lots, self.config, self.tape_rounds, self.tape, *moments
        )

    def fork(self, rng: np.random.Generator) -> Marks:
        """Give every lane whose round goes on another future; tell which lanes have one.

        In a world the draws after this tick are keyed anew. A forced rug of world `instarug` was drawn at the start:
        it is drawn again from its law, given that it has not come yet. On a tape the rest of another recorded round
        that lasted longer than this tick is put in place of the lane's own, scaled to the lane's price.
        """
        lanes = self.lanes
        alive: Marks = (lanes["over"] == 0) & (lanes["done"] == 0) & (lanes["phase"] != state.RUGGED)
        if self.config["taped"][0]:
            return self._fork_tape(alive, rng)
        chosen = np.flatnonzero(alive)
        for name in ("price_key", "world_key"):
            lanes[name][chosen] = rng.integers(1 << 64, size=len(chosen), dtype=np.uint64)
        if self.settings.world == "instarug":
            for lane in chosen[lanes["tick"][chosen] < INSTARUG_TICKS].tolist():
                tick = int(lanes["tick"][lane])
                # Rejection: no forced rug, or one that is still to come.
                while True:
                    forced = 1 + int(INSTARUG_TICKS * rng.random()) if rng.random() < INSTARUG_SHARE else 0
                    if forced == 0 or forced > tick:
                        break
                lanes["instarug"][lane] = forced
        return alive

    def _fork_tape(self, alive: Marks, rng: np.random.Generator) -> Marks:
        """Put the rest of other rounds in place, at the end of a longer tape."""
        lanes, table = self.lanes, self.tape_rounds
        lasts = np.sort(table["last_tick"])
        order = np.argsort(table["last_tick"], kind="stable")
        forked = np.zeros(self.count, np.bool_)
        pieces, end = [self.tape], len(self.tape)
        for lane in np.flatnonzero(alive).tolist():
            tick, start = int(lanes["tick"][lane]), int(lanes["tape_start"][lane])
            longer = int(np.searchsorted(lasts, tick, side="right"))
            if longer >= len(order) - 1:  # itself alone
                continue
            donor = table[order[int(rng.integers(longer, len(order)))]]
            first, last = int(donor["start"]), int(donor["last_tick"])
            rest = self.tape[first + tick + 1 : first + last + 1].copy()
            before = float(self.tape["price"][first + tick])
            if before > 0:
                rest["price"] *= float(lanes["price"][lane]) / before
            piece = np.concatenate([self.tape[start : start + tick + 1], rest])
            lanes["tape_start"][lane], lanes["last_tick"][lane] = end, last
            lanes["tape_peak"][lane] = max(float(piece["price"][:-1].max()), float(lanes["peak"][lane]))
            pieces.append(piece)
            end += len(piece)
            forked[lane] = True
        if forked.any():
            self.use_tape(np.concatenate(pieces))
        return forked

    def only(self, kept: Ints) -> KernelLanes:
        """Give these lanes alone, as they stand."""
        kernel_lanes = KernelLanes(self.settings, len(kept))
        for name in ("lanes", "states", "sites", "lots", "final_obs", "final_facts"):
            getattr(kernel_lanes, name)[:] = getattr(self, name)[kept]
        kernel_lanes.config[:] = self.config  # a tape is still dealt to as many seats
        kernel_lanes.clipped = self.clipped
        if kernel_lanes.purse is not None and self.purse is not None:
            kernel_lanes.purse.memory[:] = self.purse.memory[:, kept]
        return kernel_lanes

    def seed(self, seeds: Sequence[int], chosen: Marks, first_round: int = 0) -> None:
        """Key the chosen lanes; their next round is the first."""
        keys = np.array([seed & MASK for seed in seeds], np.uint64)
        seed_lanes(self.lanes, self.sites, self.config, keys, first_round, chosen)

    def reset(self, chosen: Marks) -> tuple[Rows, Ints]:
        """Start a new episode in the chosen lanes; give observations and facts of all."""
        obs, facts = self._obs.take(), self._facts.take()
        kernel.reset(self.lanes, self.states, self.sites, self.config, self.tape_rounds, chosen, obs, facts)
        if self.purse is not None:
            self.purse.begin(chosen)
        return obs, facts

    def step(self, actions: Ints) -> tuple[Rows, Floats, Marks, Marks, Ints, Ints]:
        """Step every lane; give observations, rewards, terminated, truncated, facts and the lanes that finished.

        A finished lane starts its next episode; its last observation and facts stand in `final_obs` and
        `final_facts`, in the order of the lanes that finished.
        """
        obs, facts = self._obs.take(), self._facts.take()
        rewards = np.empty(self.count)
        terminated = np.empty(self.count, np.bool_)
        truncated = np.empty(self.count, np.bool_)
        finished = kernel.step(
            self._addresses,
            actions,
            obs,
            rewards,
            terminated,
            truncated,
            facts,
            self._ended,
            self.final_obs,
            self.final_facts,
        )
        if finished < 0:
            self._refuse(actions)
        self._finished = finished
        ended = self._ended[:finished]
        if self.purse is not None:
            flags = facts[:, _FLAGS].copy()
            flags[ended] = self.final_facts[:finished, _FLAGS]
            rewards = self._pay(self.purse, actions, flags, terminated)
            self.purse.begin(ended)
        elif self.clip is not None:
            rewards = self._clip(rewards)
        return obs, rewards, terminated, truncated, facts, ended

    def components(self, rewards: Floats) -> dict[str, Values]:
        """Split the rewards of the last step into what each component paid, (lanes,) each."""
        if self.purse is not None:
            return self.purse.paid
        ended = self._ended[: self._finished]
        flags = self.final_facts[: self._finished, _FLAGS]
        if not self._finished or not (flags & layout.F_BANKRUPT).any():
            return {"financial": rewards, "bankruptcy": self._nothing}
        broke = np.zeros(self.count)
        broke[ended] = np.where(flags & layout.F_BANKRUPT, kernel.BANKRUPTCY, 0.0) * (self.settings.balance >= MIN_BET)
        return {"financial": rewards - broke, "bankruptcy": broke}

    def _pay(self, purse: RewardTracker, actions: Ints, flags: Ints, terminated: Marks) -> Floats:
        """Pay what the kernel does not compute, and count what was clipped."""
        rewards = purse.pay(actions, flags, terminated)
        if self.clip is not None:
            self.clipped += int(np.count_nonzero(purse.paid[CLIP]))
        return rewards

    def _clip(self, rewards: Floats) -> Floats:
        """Clip what the kernel paid, and count it."""
        clip = float(self.clip or 0.0)
        self.clipped += int(np.count_nonzero(np.abs(rewards) > clip))
        return np.clip(rewards, -clip, clip)

    def _refuse(self, actions: Ints) -> None:
        """Say which action is not one of the action set."""
        heads = np.array(self.settings.heads)
        if actions.shape[1] != len(heads):
            raise InputError(f"expected {len(heads)} heads an action, found {actions.shape[1]}")
        lane = int(np.flatnonzero(((actions < 0) | (actions >= heads)).any(axis=1))[0])
        raise InputError(f"expected choices below {heads.tolist()}, found {actions[lane].tolist()} in lane {lane}")

    def masks(self) -> Marks:
        """Give which choices can have an effect now, the heads side by side."""
        out = np.empty((self.count, sum(self.settings.heads)), np.bool_)
        kernel.masks(self.lanes, self.config, out)
        return out


class SingleLane(KernelLanes):
    """One lane, stepped with as little as possible around it."""

    def __init__(self, settings: CrashConfig) -> None:
        super().__init__(settings, 1)
        self._heads = len(settings.heads)
        self._obs_one = np.zeros((1, self.width), np.float32)
        self._reward = np.zeros(1)
        self._facts_one = np.zeros((1, layout.FACT_COUNT), np.int64)
        self._row, self._told = self._obs_one[0], self._facts_one[0]

    def step_one(self, action: Sequence[int] | Ints) -> tuple[Rows, float, int, list[int]]:
        """Take an action, an index for each head; give observation, reward, done code and facts."""
        if len(action) != self._heads:
            self._refuse(np.atleast_2d(np.asarray(action)))
        third = int(action[2]) if self._heads == 3 else 0
        done: int = kernel.step_one(
            self._addresses, int(action[0]), int(action[1]), third, self._obs_one, self._reward, self._facts_one
        )
        if done < 0:
            self._refuse(np.atleast_2d(np.asarray(action)))
        if self.purse is not None:
            taken = np.array([action], np.int64).reshape(1, -1)
            over = np.array([done == layout.TERMINATED])
            self._reward[:] = self._pay(self.purse, taken, self._facts_one[:, _FLAGS], over)
        elif self.clip is not None:
            self._reward[:] = self._clip(self._reward)
        return self._row.copy(), self._reward.item(), done, self._told.tolist()
