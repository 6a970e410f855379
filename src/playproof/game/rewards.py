"""Rewards that are put together from a game's components by a configuration.

A component is a pure function of one step's facts: arrays (n,) of what stood before the action and
before the next decision, nothing later. So the same function pays the steps of a recorded episode
(n steps laid out side by side) and the lanes of an environment while it trains (n lanes, one step
each). What a component would have to remember, such as the highest equity so far, is a fact too.
Leaves out: the components themselves (the game's), and whether a reward can be exploited (rewards).

A configuration is a mapping, in YAML or TOML:

    global: {reward_clip: 1000.0, enabled_components: [financial, bankruptcy]}
    financial: {weight: 1.0}
    bankruptcy: {penalty: -10.0, threshold: 0.001}

Sections of components that are not enabled are read, checked and left aside.
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
import sys
import tomllib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from playproof.errors import ConfigError, ContractError, UnknownName
from playproof.events import Event
from playproof.game.game import load_attribute
from playproof.game.types import AccountSnapshot, Action, Outcome, Reward, Step
from playproof.json_types import Json

Kind: TypeAlias = Literal["money", "terminal", "cost", "shaping", "bonus", "undeclared"]
"""What a component claims to be.

money: the change in money, settled or marked. terminal: paid once, at the end. cost: never positive.
shaping: gamma phi(s') - phi(s). bonus: pays without a change in money. undeclared: a function of the user's.
"""
Values: TypeAlias = NDArray[np.float64]
Settings: TypeAlias = Mapping[str, Any]
CLIP = "clip"
"""The column that makes the sum of components the clipped reward."""
GLOBAL = "global"
_GLOBAL = {"reward_clip", "enabled_components", "name", "version", "doc"}
_EMPTY: Mapping[str, Any] = MappingProxyType({})


class Facts(Mapping[str, NDArray[Any]]):
    """What one step did, in n lanes or n steps: arrays (n,) by name.

    `x_before` is x when the action was chosen, `x_after` when the next one is; money in the smallest unit.
    A fact may be given as a function, which is called when somebody first looks.
    """

    def __init__(
        self,
        count: int,
        arrays: Mapping[str, NDArray[Any] | Callable[[], NDArray[Any]]],
        readable: Sequence[str] | None = None,
    ) -> None:
        self.count = count
        """n."""
        self._arrays = dict(arrays) if readable is None else arrays
        self._readable = readable

    def __getitem__(self, name: str) -> NDArray[Any]:
        if self._readable is not None and name not in self._readable:
            raise ContractError(f"expected a component to read only the facts it declares, found {name!r}")
        array = self._arrays[name]
        if callable(array):
            array = array()
            assert isinstance(self._arrays, dict)
            self._arrays[name] = array
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def only(self, names: Sequence[str]) -> Facts:
        """Give the same facts, of which only the named ones can be read."""
        return Facts(self.count, self._arrays, names)


Pay: TypeAlias = Callable[[Facts, Settings], Values]


@dataclass(frozen=True)
class Component:
    """One term that a reward can be made of."""

    name: str
    kind: Kind
    doc: str
    reads: tuple[str, ...]
    """The facts it reads; it can reach no others."""
    settings: Settings
    """What a configuration may set, with the defaults; `weight` multiplies whatever is paid."""
    pay: Pay
    """Give what each of the n steps pays, before the weight."""

    @property
    def pays_without_money(self) -> bool:
        """Tell whether it can pay where no money has changed: an invitation to earn reward instead of money."""
        return self.kind in ("bonus", "undeclared")


@dataclass(frozen=True)
class RewardTerm:
    """A component with its settings."""

    component: Component
    settings: Settings

    def pay(self, facts: Facts) -> Values:
        """Give what each step pays."""
        component = self.component
        seen = facts.only(component.reads) if component.kind != "undeclared" else facts
        paid = np.asarray(component.pay(seen, self.settings), np.float64)
        if paid.shape != (facts.count,):
            raise ContractError(
                f"expected component {component.name!r} to pay {facts.count} values, found {paid.shape}"
            )
        weight = float(self.settings["weight"])
        return paid if weight == 1.0 else weight * paid


@dataclass(frozen=True)
class Components:
    """What a game's rewards can be made of."""

    table: Mapping[str, Component]
    lay_out: Callable[[Sequence[Step]], Facts]
    """Lay the steps of one episode out side by side."""
    exclusive: tuple[tuple[str, str, str], ...] = ()
    """Pairs of components that may not stand together, and why."""


@dataclass(frozen=True)
class ComposedReward(Reward):
    """A reward made of components, for recorded steps and for lanes alike."""

    parts: tuple[RewardTerm, ...] = ()
    clip: float | None = None
    """No step pays more than this, nor less than its negative."""
    lay_out: Callable[[Sequence[Step]], Facts] | None = None

    def pay(self, facts: Facts) -> dict[str, Values]:
        """Give what each component pays; with a clip, the last entry is what it takes away again."""
        paid = {part.component.name: part.pay(facts) for part in self.parts}
        if self.clip is not None:
            raw = total(paid)
            paid[CLIP] = np.clip(raw, -self.clip, self.clip) - raw
        return paid

    def compute(self, steps: Sequence[Step], outcome: Outcome) -> dict[str, tuple[float, ...]]:  # noqa: ARG002
        """Give each component's values, one for each step; the outcome is not looked at."""
        if self.lay_out is None:
            raise ContractError(f"expected reward {self.name!r} to say how steps are laid out, found nothing")
        if not steps:
            return dict.fromkeys(self.columns, ())
        return {name: tuple(values.tolist()) for name, values in self.pay(self.lay_out(steps)).items()}

    @property
    def columns(self) -> tuple[str, ...]:
        """Name what `pay` gives, in order."""
        names = tuple(part.component.name for part in self.parts)
        return names if self.clip is None else (*names, CLIP)

    @property
    def config(self) -> Json:
        """Give the canonical configuration: every setting of every enabled component."""
        enabled = [part.component.name for part in self.parts]
        return {
            GLOBAL: {"reward_clip": self.clip, "enabled_components": enabled},
            **{part.component.name: dict(sorted(part.settings.items())) for part in self.parts},
        }

    @property
    def identity(self) -> Json:
        """Give what the hash is over: name and version are labels, components and settings are the reward."""
        kinds = {part.component.name: _code(part.component) for part in self.parts}
        return {"config": self.config, "undeclared": {name: code for name, code in kinds.items() if code}}

    @property
    def warnings(self) -> tuple[str, ...]:
        """Name the components that can pay without a change in money."""
        return tuple(
            f"{part.component.name} can pay without a change in money: {part.component.doc}"
            for part in self.parts
            if part.component.pays_without_money and float(part.settings["weight"]) != 0.0
        )


def _code(component: Component) -> str:
    """Give a hash of what a user's own function computes; empty for components of a game."""
    if component.kind != "undeclared":
        return ""
    code = getattr(component.pay, "__code__", None)
    text = repr(component.pay) if code is None else f"{code.co_code.hex()} {code.co_consts!r} {code.co_names!r}"
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class _OverSteps:
    """One component over the steps of an episode."""

    part: RewardTerm
    lay_out: Callable[[Sequence[Step]], Facts]

    def __call__(self, steps: Sequence[Step], outcome: Outcome) -> list[float]:  # noqa: ARG002
        paid: list[float] = self.part.pay(self.lay_out(steps)).tolist() if steps else []
        return paid


@dataclass(frozen=True)
class Play:
    """One window to try a reward on: its events, and what is done at its decision points."""

    name: str
    events: tuple[Event, ...]
    actions: tuple[Action, ...]
    """One for each decision point, in order; WAIT where they run out."""


@dataclass(frozen=True)
class Probes:
    """Windows that a game makes up to try rewards on, by relations that must hold between them."""

    actions: str
    """The action set of the plays."""
    windows: Callable[[np.random.Generator, int], Sequence[tuple[Event, ...]]]
    """Deal so many windows of the game's first world, one of events each."""
    ladders: Callable[[np.random.Generator], Sequence[tuple[Play, ...]]]
    """Groups of plays with the same actions, each ending at a better price than the one before it."""
    cycles: Callable[[np.random.Generator], Sequence[Play]]
    """Plays that come back to where they were, over and over, in a world that stands still."""
    state: Callable[[AccountSnapshot], Hashable]
    """Give what of a standing must be the same again for a play to have come back to where it was."""


def total(paid: Mapping[str, Values]) -> Values:
    """Add the components up, in their order."""
    values = iter(paid.values())
    summed = next(values, np.zeros(0)).copy()
    for value in values:
        summed += value
    return summed


def compose(components: Components, config: Mapping[str, object], name: str) -> ComposedReward:
    """Make the reward that a configuration describes; refuse what it cannot mean."""
    general = _section(config, GLOBAL)
    _refuse_unknown(GLOBAL, general, _GLOBAL)
    enabled = general.get("enabled_components")
    if not isinstance(enabled, list) or not enabled or len(set(enabled)) != len(enabled):
        raise ConfigError(f"expected global.enabled_components to list components once each, found {enabled!r}")
    for section in (*enabled, *(key for key in config if key != GLOBAL)):
        if section not in components.table:
            raise UnknownName("reward component", str(section), components.table)
    parts = {key: RewardTerm(item, _settings(item, _section(config, key))) for key, item in components.table.items()}
    for one, other, why in components.exclusive:
        if one in enabled and other in enabled:
            raise ConfigError(f"expected {one} or {other}, found both: {why}")
    return ComposedReward(
        name=str(general.get("name", name)),
        version=str(general.get("version", "1")),
        doc=str(general.get("doc", "the sum of " + ", ".join(enabled))),
        components={key: _OverSteps(parts[key], components.lay_out) for key in enabled},
        parts=tuple(parts[key] for key in enabled),
        clip=_clip(general.get("reward_clip")),
        lay_out=components.lay_out,
    )


def _section(config: Mapping[str, object], name: str) -> Mapping[str, Any]:
    result = config.get(name, _EMPTY)
    if not isinstance(result, Mapping):
        raise ConfigError(f"expected {name} to be a section of settings, found {result!r}")
    return result


def _refuse_unknown(section: str, given: Mapping[str, object], known: set[str]) -> None:
    if unknown := sorted(set(given) - known):
        raise ConfigError(f"expected {section} to set {', '.join(sorted(known))}, found {', '.join(unknown)}")


def _clip(value: Any) -> float | None:
    if value is None:
        return None
    if not _is_number(value) or not value > 0:
        raise ConfigError(f"expected global.reward_clip above 0, found {value!r}")
    return float(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _settings(component: Component, given: Mapping[str, object]) -> Settings:
    """Fill in the defaults; a setting keeps the kind of its default."""
    known = {"weight": 1.0, **component.settings}
    _refuse_unknown(component.name, given, set(known))
    for key, value in given.items():
        default = known[key]
        if isinstance(default, str) != isinstance(value, str) or not (isinstance(value, str) or _is_number(value)):
            wanted = "a text" if isinstance(default, str) else "a finite number"
            raise ConfigError(f"expected {component.name}.{key} to be {wanted}, found {value!r}")
    return {key: value if isinstance(value, str) else float(value) for key, value in {**known, **given}.items()}


def read_config(path: Path) -> Mapping[str, Any]:
    """Read a configuration from a YAML or TOML file."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        config = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"expected a reward in YAML or TOML at {path}, found: {error}") from error
    if not isinstance(config, Mapping):
        raise ConfigError(f"expected sections of settings in {path}, found {type(config).__name__}")
    return config


def find_reward(
    rewards: Mapping[str, Reward], components: Components | None, what: str | Path | Mapping[str, object] | Reward
) -> Reward:
    """Give the reward that a name, a configuration, a file or a "module:attribute" stands for."""
    if isinstance(what, Reward):
        return what
    if isinstance(what, str) and what in rewards:
        return rewards[what]
    if isinstance(what, str) and ":" in what:
        return _as_reward(components, _attribute(what), what)
    if isinstance(what, str) and not what.endswith((".yaml", ".yml", ".toml")):
        raise UnknownName("reward", what, [*rewards, "FILE.yaml", "FILE.toml", "module:attribute"])
    if components is None:
        raise ConfigError("expected one of the game's own rewards: this game has no components to configure")
    if isinstance(what, Mapping):
        return compose(components, what, "configured")
    return compose(components, read_config(Path(what)), Path(what).stem)


def _attribute(reference: str) -> Any:
    """Reach what "module:attribute" or "file.py:attribute" names."""
    index, _, attribute = reference.rpartition(":")
    if not index.endswith(".py"):
        return load_attribute(reference)
    spec = importlib.util.spec_from_file_location(f"reward_file_{Path(index).stem}", index)
    if spec is None or spec.loader is None or not Path(index).is_file():
        raise ConfigError(f"expected a Python file at {index}, found none")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for the module they stand in
    spec.loader.exec_module(module)
    if not hasattr(module, attribute):
        raise ConfigError(f"expected {attribute} in {index}, found nothing of that name")
    return getattr(module, attribute)


def _as_reward(components: Components | None, result: object, reference: str) -> Reward:
    """Take a Reward, a configuration, or a function of facts."""
    if isinstance(result, Reward):
        return result
    if components is None:
        raise ConfigError(f"expected a Reward at {reference}: this game has no facts that a function could read")
    name = reference.rpartition(":")[2]
    if isinstance(result, Mapping):
        return compose(components, result, name)
    if not callable(result):
        raise ConfigError(
            f"expected a Reward, a configuration or a function of facts at {reference}, found {type(result).__name__}"
        )
    return from_function(components, result, name)


def from_function(components: Components, function: Callable[[Facts], Values], name: str) -> ComposedReward:
    """Make a reward of a function of facts; nothing is known of what it pays for."""
    doc = (function.__doc__ or "a function of the user's").strip().partition("\n")[0]

    def pay(facts: Facts, settings: Settings) -> Values:  # noqa: ARG001
        return function(facts)

    part = RewardTerm(Component(name, "undeclared", doc, (), {}, _Wrapped(function, pay)), {"weight": 1.0})
    return ComposedReward(
        name=name,
        version="1",
        doc=doc,
        components={name: _OverSteps(part, components.lay_out)},
        parts=(part,),
        lay_out=components.lay_out,
    )


@dataclass(frozen=True)
class _Wrapped:
    """A user's function in the place of a component's; its code is what the hash is over."""

    function: Callable[[Facts], Values]
    call: Pay = field(compare=False)

    def __call__(self, facts: Facts, settings: Settings) -> Values:
        return self.call(facts, settings)

    @property
    def __code__(self) -> Any:
        return getattr(self.function, "__code__", None)
