"""Markets that users declare: recorded by their own agents, not simulated here.

A market stands in `playproof.toml` of the home, one table each:

    [markets.mine]
    window_hours = 1
    assets = ["BTC", "ETH"]
    currency = "USD"
    unit = "0.01"
    actions = ["BUY", "SELL", "HOLD"]
    reward = "pnl-minus-hold"

`load_game` gives it as a Game without simulation, so that every stage that needs none takes it by name. Money is stored
in integers of 10^-9 of the currency, as everywhere; `unit` is the smallest amount that the market knows, to which
imported floating-point money is rounded.
Leaves out: what is recorded (record.trajectories).
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path
from typing import NoReturn
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from playproof.errors import ConfigError, DecodeError, UnknownName
from playproof.game.game import Display, Game, Rewards
from playproof.game.types import WAIT, ActionSet, Column, MessageObservation, Window, WindowRules
from playproof.home import home
from playproof.json_types import Json
from playproof.money import UNIT

FILE = "playproof.toml"
LENGTHS = (1, 2, 3, 4, 6, 8, 12, 24)
"""Hours that a window may last, so that days are cut alike."""
PNL_MINUS_HOLD, JUDGE_ONLY = "pnl-minus-hold", "judge-only"
STEP_PARTS = ("action", "prompt", "answer", "logprobs")
"""What a usable step may be asked to have."""
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}", re.ASCII)
CURRENCY = re.compile(r"[A-Z][A-Z0-9]{1,9}", re.ASCII)
_WINDOW = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2})(?::00(?:\.000)?)?(Z?)", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class MarketDeclaration:
    """A market as its owner declares it."""

    name: str
    window_hours: int = 1
    zone: str = "UTC"
    """Zone from whose midnight windows are cut, and in which window ids without one are read."""
    assets: tuple[str, ...] = ()
    """Assets whose prices every window's outcomes hold; empty: any."""
    questions: tuple[str, ...] = ()
    """Questions that outcomes may answer; empty: any."""
    currency: str = "USD"
    unit: str = "0.01"
    """Smallest amount of money, in the currency."""
    actions: tuple[str, ...] = ()
    """Types of actions; a step with another one is not usable. Empty: any."""
    reward: str = PNL_MINUS_HOLD
    usable_step: str = "action+prompt+answer"

    def __post_init__(self) -> None:
        def check(right: bool, field: str, expected: str) -> None:
            if not right:
                value = getattr(self, field)
                raise ConfigError(f"expected {field} of market {self.name!r} to be {expected}, found {value!r}")

        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ConfigError(f"expected a market's name such as my-market (a-z, 0-9, - and _), found {self.name!r}")
        whole = isinstance(self.window_hours, int) and not isinstance(self.window_hours, bool)
        check(whole and self.window_hours in LENGTHS, "window_hours", f"one of {', '.join(map(str, LENGTHS))}")
        check(_is_zone(self.zone), "zone", "a zone such as UTC or Europe/Paris")
        for field in ("assets", "questions", "actions"):
            names = getattr(self, field)
            check(all(isinstance(name, str) and 0 < len(name) <= 200 for name in names), field, "a list of names")
            check(len({name.upper() for name in names}) == len(names), field, "names that differ, whatever their case")
        check(isinstance(self.currency, str) and bool(CURRENCY.fullmatch(self.currency)), "currency", "such as USD")
        check(_unit(self.unit) is not None, "unit", "a text such as 0.01 or 1e-6, a whole number of 10^-9, at most 1")
        check(self.reward in (PNL_MINUS_HOLD, JUDGE_ONLY), "reward", f"{PNL_MINUS_HOLD} or {JUDGE_ONLY}")
        parts = self.usable_step.split("+") if isinstance(self.usable_step, str) else []
        right = "action" in parts and set(parts) <= set(STEP_PARTS) and len(set(parts)) == len(parts)
        check(right, "usable_step", f"action, and what else a step must have of {', '.join(STEP_PARTS)}, joined by +")
        if self.reward == PNL_MINUS_HOLD and not self.assets:
            raise ConfigError(
                f"expected assets for the reward {PNL_MINUS_HOLD} of market {self.name!r}, found none; declare them "
                f"(--asset), or choose the reward {JUDGE_ONLY}"
            )

    @property
    def unit_size(self) -> int:
        """Give the smallest amount of money in units of 10^-9."""
        size = _unit(self.unit)
        assert size is not None
        return size

    def window_id(self, moment: datetime) -> str:
        """Give the id of the window that holds an aware time: its start in UTC, such as 2025-01-15T10:00Z."""
        if moment.utcoffset() is None:
            raise DecodeError(f"expected an aware time, found {moment.isoformat()} without a zone")
        there = moment.astimezone(ZoneInfo(self.zone))
        start = there.replace(hour=there.hour - there.hour % self.window_hours, minute=0, second=0, microsecond=0)
        return start.astimezone(UTC).strftime("%Y-%m-%dT%H:%MZ")

    def parse_window(self, text: str) -> Window:
        """Read a window id; one without the Z is read in the market's zone. It must be the start of a window."""
        shape = _WINDOW.fullmatch(text)
        try:
            written = datetime.strptime(shape[1], "%Y-%m-%dT%H:%M") if shape else None  # noqa: DTZ007
        except ValueError:
            written = None
        if shape is None or written is None:
            raise DecodeError(f"expected a window id such as 2025-01-15T10:00Z, found {text[:80]!r}")
        zone = UTC if shape[2] else ZoneInfo(self.zone)
        start = written.replace(tzinfo=zone).astimezone(UTC)
        identity = start.strftime("%Y-%m-%dT%H:%MZ")
        if self.window_id(start) != identity:
            raise DecodeError(
                f"expected the start of a window of {self.window_hours} h in {self.zone}, found {text!r}, which lies "
                f"in the window {self.window_id(start)}"
            )
        return Window(identity, start)

    @property
    def windows(self) -> WindowRules:
        """Give how its windows are named, and what makes a step of them usable."""
        example = self.window_id(datetime(2025, 1, 15, 12, tzinfo=UTC))
        return WindowRules(
            self.parse_window,
            "truncated",
            (example,),
            timedelta(hours=self.window_hours),
            self.window_id,
            self.name,
            tuple(self.usable_step.split("+")),
            self.actions,
        )

    def game(self) -> Game:
        """Give the market as a game that is recorded, not simulated."""
        money = f"10^-9 {self.currency}"
        return Game(
            name=self.name,
            version="1",
            doc=f"A market of your own: {self.window_hours} h windows, {', '.join(self.assets) or 'any assets'}.",
            money=money,
            columns=(),
            features=(),
            observations={"messages": MessageObservation("what the agents' models were shown")},
            actions={"decision": ActionSet(((WAIT, *self.actions),), (0,), lambda _event: None)},
            labels={},
            windows=self.windows,
            outcomes=(
                Column("start_price", "money", money, "an asset's price at the window's start"),
                Column("end_price", "money", money, "an asset's price at the window's end"),
                Column("outcome", "text", "yes or no", "how a question was resolved"),
            ),
            worlds={},
            recording=partial(_no_frames, self.name),
            rewards=_no_presets,
            display=self._display,
        )

    def _display(self) -> Display:
        from playproof.game.markets.replay import market_replay

        return Display(replay=market_replay(self.name, self.currency))


def _no_frames(name: str) -> NoReturn:
    raise ConfigError(
        f"market {name} is recorded as trajectories, not as frames of a feed: this needs an installed game; for a "
        f"market use windows, outcomes, judge run, train sft --recorded and train grpo --source recorded with "
        f"--game {name}"
    )


def _no_presets() -> Rewards:
    return Rewards(presets={})


def _is_zone(name: object) -> bool:
    try:
        return isinstance(name, str) and ZoneInfo(name) is not None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False


def _unit(text: object) -> int | None:
    """Give the units of 10^-9 in an amount; None if it is not a whole number of them, or above 1."""
    try:
        size = Decimal(text).scaleb(9) if isinstance(text, str) else Decimal("NaN")
    except InvalidOperation:
        return None
    return int(size) if size.is_finite() and size == size.to_integral_value() and 1 <= size <= UNIT else None


def declared_markets(root: Path | None = None) -> dict[str, MarketDeclaration]:
    """Read the markets of the home, in the order of the file."""
    path = (root or home()) / FILE
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"expected a readable {path}, found: {error}") from None
    try:
        tables = tomllib.loads(text).get("markets", {})
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"expected TOML in {path}, found: {error}; correct the line") from None
    if not isinstance(tables, dict):
        raise ConfigError(f"expected tables such as [markets.mine] in {path}, found markets = {tables!r:.60}")
    return {name: from_table(name, table) for name, table in tables.items()}


def from_table(name: str, table: object) -> MarketDeclaration:
    """Read one declaration; unknown keys are refused."""
    names = [field.name for field in fields(MarketDeclaration) if field.name != "name"]
    if not isinstance(table, Mapping) or set(table) - set(names):
        wrong = ", ".join(sorted(set(table) - set(names))) if isinstance(table, Mapping) else repr(table)[:60]
        raise ConfigError(f"expected [markets.{name}] with {', '.join(names)}, found {wrong}")
    given: Json = dict(table)
    for key in ("assets", "questions", "actions"):
        if key in given:
            if not isinstance(given[key], list | tuple):
                raise ConfigError(f"expected {key} of market {name!r} as a list, found {given[key]!r:.60}")
            given[key] = tuple(given[key])
    return MarketDeclaration(name=name, **given)


def find_market(name: str, root: Path | None = None) -> MarketDeclaration:
    """Give a declared market by its name."""
    markets = declared_markets(root)
    if name not in markets:
        raise UnknownName("market", name, markets)
    return markets[name]


def add_market(market: MarketDeclaration, root: Path | None = None) -> Path:
    """Write a declaration into the home's file behind what stands there; give the file.

    The same declaration again changes nothing; another one under the same name is refused.
    """
    folder = root or home()
    path = folder / FILE
    known = declared_markets(root).get(market.name)
    if known == market:
        return path
    if known is not None:
        raise ConfigError(
            f"expected a new market, found {market.name!r} declared otherwise in {path}; edit it there, or use another"
            " name"
        )
    folder.mkdir(parents=True, exist_ok=True)
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = [f"[markets.{market.name}]"]
    for field in fields(MarketDeclaration):
        if field.name != "name":
            value = getattr(market, field.name)
            lines.append(f"{field.name} = {json.dumps(list(value) if isinstance(value, tuple) else value)}")
    text = before + ("\n" if before and not before.endswith("\n\n") else "") + "\n".join(lines) + "\n"
    # A reader sees the old file or the new one, never half of one.
    draft = path.with_name(f".{FILE}.{os.getpid()}.tmp")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
    return path
