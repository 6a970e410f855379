"""Gymnasium environments of the crash game: one player, or thousands at once.

`gymnasium.make("playproof/Crash-v1", ...)` and `gymnasium.make_vec("playproof/Crash-v1", ...)`; the
keywords are the fields of `Settings`. Amounts in `info` are integers of 10^-9.
A rug terminates; the end of a session of several rounds truncates; bankruptcy terminates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from playproof.errors import ConfigError, InputError
from playproof.games.crash.features import table
from playproof.games.crash.sim import layout
from playproof.games.crash.sim.arrays import Floats, Ints, Marks
from playproof.games.crash.sim.lanes import COMPILED_SETS, CrashConfig, KernelLanes, PriceTape, SingleLane, make_tape
from playproof.json_types import Json
from playproof.money import show

if TYPE_CHECKING:
    from playproof.games.crash.sim.crowd_observation import CrowdObserver

ENV_ID = "playproof/Crash-v1"
SEED_LIMIT = 2**63

Obs: TypeAlias = NDArray[np.float32]
Observation: TypeAlias = Obs | dict[str, Obs]
"""A row, or the named blocks of one."""
Info: TypeAlias = Json

_HIGHEST = float(np.finfo(np.float32).max)
_FACTS = layout.FACTS
_FLAGS = _FACTS.index("flags")
PHASE_NAMES = ("COOLDOWN", "PRESALE", "ACTIVE", "RUGGED")
_CLIENT = ("trade_id_hash", "client_timestamp", "latency_ms")
_EXECUTION = ("execution_tick", "execution_price")


def to_settings(options: Info) -> CrashConfig:
    """Read keyword arguments as settings; a list of rounds is laid on a tape."""
    tape = options.get("tape")
    if tape is not None and not isinstance(tape, PriceTape):
        options = {**options, "tape": make_tape(tape)}
    unknown = sorted(set(options) - set(CrashConfig.__dataclass_fields__))
    if unknown:
        raise ConfigError(f"expected {', '.join(CrashConfig.__dataclass_fields__)}, found {', '.join(unknown)}")
    return CrashConfig(**options)


def box(width: int) -> spaces.Box:
    """Give the space of some features; they are raw, so only float32 bounds them."""
    return spaces.Box(-_HIGHEST, _HIGHEST, (width,), np.float32)


def observation_space(name: str) -> spaces.Space[Any]:
    """Give the space of an observation set: a row, or a Dict of the set's blocks."""
    shown = table.OBSERVATIONS[name]
    if shown.blocks:
        return spaces.Dict({block: box(width) for block, width in shown.blocks.items()})
    return box(len(shown.features))


def to_blocks(row: Obs, blocks: Mapping[str, int]) -> dict[str, Obs]:
    """Cut a row into its named blocks."""
    parts: dict[str, Obs] = {}
    start = 0
    for block, width in blocks.items():
        parts[block] = row[start : start + width]
        start += width
    return parts


def to_info(facts: list[int]) -> Info:
    """Tell the facts of one lane."""
    return dict(zip(_FACTS, facts, strict=True))


def to_infos(facts: Ints) -> Info:
    """Tell the facts of all lanes, one array a fact."""
    return dict(zip(_FACTS, facts.T))  # noqa: B905


PLAN_ROUNDS = 10


class FinalInfo(Mapping[str, Ints]):
    """The facts of the lanes that finished, by name; 0 in the lanes that did not.

    Written out only when asked for: few lanes finish in a step, and few readers look.
    """

    def __init__(self, rows: Ints, facts: Ints, lanes: int) -> None:
        self._rows, self._facts, self._lanes = rows, facts, lanes

    def __getitem__(self, name: str) -> Ints:
        if name not in _FACTS:
            raise KeyError(name)
        column = np.zeros(self._lanes, np.int64)
        column[self._rows] = self._facts[:, _FACTS.index(name)]
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(_FACTS)

    def __len__(self) -> int:
        return len(_FACTS)


class CrashEnv(gymnasium.Env[Observation, Ints]):
    """One player at a table of the crash game."""

    metadata = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012  (as Gymnasium declares it)

    def __init__(self, render_mode: str | None = None, **options: object) -> None:
        self.settings = to_settings(options)
        self.render_mode = render_mode
        self._lanes = SingleLane(self.settings)
        self._seeded = False
        self._over = True
        self._facts: list[int] = [0] * len(_FACTS)
        self._chosen = np.ones(1, np.bool_)
        self.action_space = spaces.MultiDiscrete(list(self.settings.heads))
        self.observation_space = observation_space(self.settings.observation)
        self._blocks = table.OBSERVATIONS[self.settings.observation].blocks
        self._may_miss = self.settings.observation != "policy"
        self._watcher: CrowdObserver | None = None
        if self.settings.observation not in COMPILED_SETS:
            from playproof.games.crash.sim.crowd_observation import CrowdObserver

            self._watcher = CrowdObserver(self._lanes, self.settings.observation)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Observation, Info]:
        """Start an episode; `options={"round": n}` deals that round of the seed."""
        super().reset(seed=seed)
        number = (options or {}).get("round")
        if seed is not None or number is not None or not self._seeded:
            if seed is None:
                seed = int(self._lanes.lanes["seed"][0]) if self._seeded else int(self.np_random.integers(SEED_LIMIT))
            self._lanes.seed([seed], self._chosen, number or 0)
            self._seeded = True
            if self._watcher is not None:
                self._watcher.seed()
        self._over = False
        obs, facts = self._lanes.reset(self._chosen)
        row = obs[0].copy() if self._watcher is None else self._watcher.start()
        return self._shown(row), self._info(facts[0].tolist())

    def _shown(self, row: Obs) -> Observation:
        return to_blocks(row, self._blocks) if self._blocks else row

    def step(self, action: Sequence[int] | Ints) -> tuple[Observation, float, bool, bool, Info]:
        """Take one action: an index for each head."""
        if self._over:
            raise InputError("expected a running episode, found one that is over; call reset first")
        obs, reward, code, facts = self._lanes.step_one(action)
        self._over = code != 0
        shown = obs if self._watcher is None else self._shown(self._watcher.follow(facts[_FLAGS]))
        return shown, reward, code == layout.TERMINATED, code == layout.TRUNCATED, self._info(facts)

    def _info(self, facts: list[int]) -> Info:
        self._facts = facts
        info: Info = dict(zip(_FACTS, facts))  # noqa: B905  (equal by construction, and twice as quick)
        info["missing"] = self._missing() if self._may_miss else ()
        return info

    def _missing(self) -> tuple[str, ...]:
        """Name the features that hold their fill value."""
        if self._watcher is not None:
            return self._watcher.missing()
        known = self._lanes.states["execution_price"][0] > 0.0
        return _CLIENT if known else (*_EXECUTION, *_CLIENT)

    @property
    def clipped_steps(self) -> int:
        """Give how many steps so far had their reward clipped."""
        return self._lanes.clipped

    def action_masks(self) -> Marks:
        """Give which choices can have an effect now, the heads side by side."""
        mask: Marks = self._lanes.masks()[0]
        return mask

    def render(self) -> str | None:
        """Write the table as one line of text."""
        if self.render_mode != "ansi":
            return None
        fact = dict(zip(_FACTS, self._facts, strict=True))
        return (
            f"round {fact['round']} {PHASE_NAMES[fact['phase']]} tick {fact['tick']} "
            f"price {self._lanes.lanes['price'][0]:.4f} cash {show(fact['cash'])} "
            f"position {show(fact['position_qty'])} equity {show(fact['equity'])} bet {show(fact['bet_amount'])}"
        )


class RugsMultiGameEnv(CrashEnv):
    """One player through ten rounds in a row, by the name and with the action space of the plan.

    Actions are pairs of MultiDiscrete([4, 9]): WAIT BUY SELL SIDEBET, and a button of the bet field or none.
    """

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        super().__init__(render_mode, **{"rounds": PLAN_ROUNDS, "actions": "buttons"} | options)


class CrashVectorEnv(VectorEnv[Any, Any, Any]):
    """Thousands of players, each at a table of their own; a finished lane restarts in the same step."""

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012  (as Gymnasium declares it)

    def __init__(self, num_envs: int = 1, render_mode: str | None = None, **options: object) -> None:
        self.settings = to_settings(options)
        if self.settings.observation not in COMPILED_SETS:
            raise ConfigError(
                f"expected observation policy or recorded for many lanes, found {self.settings.observation}; "
                "use gymnasium.make, or make_vec with vectorization_mode='sync'"
            )
        self.num_envs = num_envs
        self.render_mode = render_mode
        self._lanes = KernelLanes(self.settings, num_envs)
        self._seeded = False
        self._all = np.ones(num_envs, np.bool_)
        self.single_action_space = spaces.MultiDiscrete(list(self.settings.heads))
        self.single_observation_space = observation_space(self.settings.observation)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)

    def reset(self, *, seed: int | list[int | None] | None = None, options: Info | None = None) -> tuple[Obs, Info]:
        """Start an episode in every lane, or in those of `options["reset_mask"]`; lane i has seed + i."""
        if isinstance(seed, int) or seed is None:
            super().reset(seed=seed)
        chosen = np.asarray((options or {}).get("reset_mask", self._all), np.bool_)
        if chosen.shape != (self.num_envs,):
            raise InputError(f"expected a reset_mask of {self.num_envs} booleans, found shape {chosen.shape}")
        self._seed(seed, chosen)
        obs, facts = self._lanes.reset(chosen)
        return obs, to_infos(facts)

    def _seed(self, seed: int | list[int | None] | None, chosen: Marks) -> None:
        if seed is None and self._seeded:
            return
        if seed is None:
            seed = int(self.np_random.integers(SEED_LIMIT))
        if isinstance(seed, int):
            seeds: list[int | None] = [seed + i for i in range(self.num_envs)]
        else:
            seeds = seed
        if len(seeds) != self.num_envs:
            raise InputError(f"expected {self.num_envs} seeds, found {len(seeds)}")
        keyed = chosen & np.array([value is not None for value in seeds])
        self._lanes.seed([value or 0 for value in seeds], keyed)
        self._seeded = True

    def step(self, actions: Ints) -> tuple[Obs, Floats, Marks, Marks, Info]:
        """Take one action a lane, shape (lanes, heads)."""
        rows = np.ascontiguousarray(actions, np.int64)
        if rows.ndim != 2 or len(rows) != self.num_envs:
            raise InputError(f"expected actions for {self.num_envs} lanes, found shape {rows.shape}")
        obs, rewards, terminated, truncated, facts, ended = self._lanes.step(rows)
        infos = to_infos(facts)
        if len(ended):
            self._add_finals(infos, ended, terminated | truncated)
        return obs, rewards, terminated, truncated, infos

    def _add_finals(self, infos: Info, rows: Ints, over: Marks) -> None:
        """Tell the last observation and facts of the lanes that finished in this step."""
        final_obs = np.empty(self.num_envs, dtype=object)
        for row, last in zip(rows.tolist(), self._lanes.final_obs[: len(rows)].copy(), strict=True):
            final_obs[row] = last
        infos["final_obs"] = final_obs
        infos["_final_obs"] = over
        infos["final_info"] = FinalInfo(rows.copy(), self._lanes.final_facts[: len(rows)].copy(), self.num_envs)
        infos["_final_info"] = over

    @property
    def clipped_steps(self) -> int:
        """Give how many steps so far had their reward clipped."""
        return self._lanes.clipped

    def action_masks(self) -> Marks:
        """Give which choices can have an effect now, shape (lanes, all heads side by side)."""
        return self._lanes.masks()
