"""The Game record, the contract and its mutants, loading, and the pages that describe them."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import playproof.game as surface
from playproof.errors import ConfigError, ContractError, UnknownName
from playproof.events import Event
from playproof.game import (
    WAIT,
    AccountSnapshot,
    ActionSet,
    Baseline,
    Choice,
    Column,
    Display,
    EpisodeRecord,
    Fact,
    Frame,
    Game,
    Message,
    MessageObservation,
    NumericObservation,
    Outcome,
    Policy,
    Terms,
    Window,
    broken_clauses,
    check_game,
    game_names,
    load_attribute,
    load_game,
)
from playproof.game.checks import CLAUSES
from playproof.game.play import PlayerConfig, play
from playproof.games.arena.game import arena_game
from playproof.money import UNIT
from playproof.policies import Constant, Uniform
from playproof.testing import coin
from playproof.testing.altered import altered
from playproof.testing.strategies import events, frames

COIN = coin.game()


def changed(**parts: Any) -> Game:
    return altered(COIN, **parts)


# Mutants: each breaks one clause, and the checker names that clause and no other.


def with_column(name: str, **parts: Any) -> Game:
    return changed(
        columns=tuple(replace(column, **parts) if column.name == name else column for column in COIN.columns)
    )


def with_feature(name: str, **parts: Any) -> Game:
    return changed(
        features=tuple(replace(feature, **parts) if feature.name == name else feature for feature in COIN.features)
    )


def with_actions(**parts: Any) -> Game:
    return changed(actions={"bets": replace(COIN.actions["bets"], **parts)})


def missing_module() -> Display:
    from playproof.nowhere import DISPLAY  # type: ignore[import-not-found]

    return DISPLAY


def with_fold(**parts: Any) -> Game:
    return changed(fold=replace(COIN.recording().fold, **parts))


def with_ledger(**methods: Any) -> Game:
    return changed(ledger=type("Mutant", (coin.CoinLedger,), methods))


def with_decoder(decode: Callable[[Frame], tuple[Fact, ...]]) -> Game:
    return changed(decoder=lambda: decode)


def with_reward(component: Callable[..., Any]) -> Game:
    return changed(presets={"profit": replace(COIN.rewards().presets["profit"], components={"profit": component})})


def money_as_float(frame: Frame) -> tuple[Fact, ...]:
    return tuple(
        replace(fact, columns={**fact.columns, "cash": fact.columns["cash"] / UNIT}) if "cash" in fact.columns else fact
        for fact in coin.decode(frame)
    )


def undeclared_column(frame: Frame) -> tuple[Fact, ...]:
    return tuple(replace(fact, columns={**fact.columns, "secret": 1}) for fact in coin.decode(frame))


def raising_decoder(frame: Frame) -> tuple[Fact, ...]:
    fields = json.loads(frame.payload)
    return coin.decode(frame) if isinstance(fields, dict) else ()


def trusting_decoder(frame: Frame) -> tuple[Fact, ...]:
    """Takes any number for money: a huge one gets through."""
    try:
        fields = json.loads(frame.payload)
        if fields["event"] == "cash" and isinstance(fields["cash"], int):
            return (Fact("cash", "player_action", {"cash": fields["cash"]}, fields["window"], coin.PLAYER),)
    except (ValueError, TypeError, KeyError, RecursionError):
        return ()
    return coin.decode(frame)


class Sticky:
    """A decoder that any bad frame puts out of step."""

    def __init__(self) -> None:
        self.confused = False

    def __call__(self, frame: Frame) -> tuple[Fact, ...]:
        facts = coin.decode(frame)
        self.confused |= not facts
        return () if self.confused else facts


def shared_decoder() -> Callable[[Frame], tuple[Fact, ...]]:
    seen: list[int] = []

    def decode(frame: Frame) -> tuple[Fact, ...]:
        seen.append(1)
        return tuple(
            replace(fact, columns={**fact.columns, "stake": len(seen)}) if "stake" in fact.columns else fact
            for fact in coin.decode(frame)
        )

    return decode


@dataclass
class More(coin.CoinState):
    """What CoinGame's player knows, and one thing more, added to the flips left."""

    more: float = 0.0
    row: Any = None

    @staticmethod
    def observe(known: More, out: Any) -> None:
        coin.observe(known, out)
        out[3] += 0.0 if known.left is None else known.more


def peeking_fold() -> Game:
    """Remembers how each window went, and shows it the next time."""
    memory: dict[tuple[str | None, Any], float] = {}

    def apply(known: More, event: Event) -> None:
        coin.apply(known, event)
        index = (event.window_id, event.columns.get("flip"))
        if event.event_name == "flip":
            memory[index] = float(event.columns["side"] or 0)
        known.more = memory.get(index, 0.5)

    return with_fold(start=More, apply=apply, observe={"table": More.observe})


def rewriting_fold() -> Game:
    """Keeps the row that it wrote and corrects it when it knows better."""

    def apply(known: More, event: Event) -> None:
        coin.apply(known, event)
        if event.event_name == "flip" and known.row is not None:
            known.row[0] = 2 * int(event.columns["side"] or 0) - 1

    def observe(known: More, out: Any) -> None:
        coin.observe(known, out)
        known.row = out

    return with_fold(start=More, apply=apply, observe={"table": observe})


def looking_fold() -> Game:
    def observe(known: More, out: Any) -> None:
        known.more += 1
        More.observe(known, out)

    return with_fold(start=More, observe={"table": observe})


def one_state() -> Game:
    known = coin.CoinState()
    return with_fold(start=lambda: known)


def lazy_fold() -> Game:
    def observe(known: coin.CoinState, out: Any) -> None:
        row = np.zeros(5, np.float32)
        coin.observe(known, row)
        out[[0, 1, 2, 4]] = row[[0, 1, 2, 4]]

    return with_fold(observe={"table": observe})


def leaking_hint() -> Game:
    """The table writes the outcome into its opening, and the fold shows it."""

    def decode(frame: Frame) -> tuple[Fact, ...]:
        facts = coin.decode(frame)
        return tuple(replace(fact, columns={"sides": "HHT"}) if fact.event_name == "open" else fact for fact in facts)

    def apply(known: More, event: Event) -> None:
        coin.apply(known, event)
        if "sides" in event.columns:
            known.more = len(str(event.columns["sides"]))

    return altered(with_fold(start=More, apply=apply, observe={"table": More.observe}), decoder=lambda: decode)


def paid_for_nothing(steps: Any, outcome: Outcome) -> list[float]:
    return [value + 1e-6 for value in coin.profit(steps, outcome)]


def moody_reward() -> Callable[..., list[float]]:
    calls: list[int] = []

    def component(steps: Any, outcome: Outcome) -> list[float]:
        calls.append(1)
        return [value * len(calls) for value in coin.profit(steps, outcome)]

    return component


def fresh_rng_baseline() -> Baseline:
    shared = np.random.default_rng(3)
    return Baseline("one generator for all", "table", "bets", lambda _: Uniform((3,), shared))


def minting(self: Any, amount: int) -> None:
    self.cash -= amount
    self.house += amount + (amount < 0)


def floating(self: Any, amount: int) -> None:
    self.cash -= amount / 1
    self.house += amount / 1


def unlimited_init(self: Any, terms: Terms) -> None:
    coin.CoinLedger.__init__(self, replace(terms, stake=None))


def doubling(self: Any, action: Any) -> tuple[Fact, ...]:
    """Bets on after the reserved stake is gone, twice as much each time."""
    payload = coin.CoinLedger.act(self, action)
    if payload and self.cash > 300 * coin.STAKE // 10:
        self._pay(min(self.cash, 30 * coin.STAKE))
    return payload


def silent(self: Any, action: Any) -> tuple[Fact, ...]:
    coin.CoinLedger.act(self, action)
    return ()


def charging(self: Any, action: Any) -> tuple[Fact, ...]:
    payload = coin.CoinLedger.act(self, action)
    if not payload and self.cash:
        self._pay(1)
    return payload


def overdraft(self: Any, action: Any) -> tuple[Fact, ...]:
    payload = coin.CoinLedger.act(self, action)
    if payload:
        self._pay(self.cash + 1)
    return payload


def padded(self: Any) -> AccountSnapshot:
    return AccountSnapshot(self.cash, self.cash + 5, self.opened)


def half_outcome(events: Any) -> Outcome:
    return coin.read_outcome(events) or Outcome(events[0].window_id, {"sides": "", "heads": 0})


def lax_parse(text: str) -> Window:
    return Window(text)


def drifting_parse(text: str) -> Window:
    return Window(f"coin-{(int(coin.parse_window(text).window_id[5:]) + 1) % 10**6:06d}")


def naive_parse(text: str) -> Window:
    return replace(coin.parse_window(text), start=datetime(2025, 1, 1))  # noqa: DTZ001


def no_messages(known: Any, out: Any) -> None:
    return None


def wrong_role(known: Any, out: Any) -> None:
    out.append(Message("robot", "beep"))  # type: ignore[arg-type]


def nan_row(known: coin.CoinState, out: Any) -> None:
    coin.observe(known, out)
    out[1] = np.nan if known.last is None else out[1]


def unfilled_row(known: coin.CoinState, out: Any) -> None:
    coin.observe(known, out)
    out[4] = 0.25 if known.cash is None else out[4]


def reads_anything(text: str) -> Choice:
    return Choice(WAIT)


def reads_or_raises(text: str) -> Choice:
    payload = json.loads(text)
    return Choice(WAIT) if payload == "wait" else Choice(WAIT, rejected="not understood")


def rejects_all(text: str) -> Choice:
    return Choice(WAIT, rejected="no")


def with_text(read: Callable[[str], Choice], examples: tuple[str, ...] = ('"wait"',)) -> Game:
    text = ActionSet((("WAIT",),), '"wait"', lambda _: None, read, examples)
    return changed(actions={**COIN.actions, "text": text})


def failing_decoder(frame: Frame) -> tuple[Fact, ...]:
    raise LookupError(frame.payload)


def nameless(frame: Frame) -> tuple[Fact, ...]:
    return tuple(replace(fact, doc_type="thing") if fact.event_name == "close" else fact for fact in coin.decode(frame))  # type: ignore[arg-type]


def two_players(frame: Frame) -> tuple[Fact, ...]:
    facts = coin.decode(frame)
    return tuple(replace(fact, player_id="other") if fact.event_name == "placed" else fact for fact in facts)


def infinite_speed() -> Game:
    """Declares a float column and lets infinity through."""

    def decode(frame: Frame) -> tuple[Fact, ...]:
        facts = coin.decode(frame)
        return tuple(
            replace(fact, columns={"speed": math.inf}) if fact.event_name == "open" else fact for fact in facts
        )

    return changed(decoder=lambda: decode, columns=(*COIN.columns, Column("speed", "float", "m/s", "of the coin")))


def moody_outcome() -> Callable[..., Outcome | None]:
    calls: list[int] = []

    def outcome(events: Any) -> Outcome | None:
        calls.append(1)
        result = coin.read_outcome(events)
        return result and replace(result, values={**result.values, "heads": len(calls)})

    return outcome


def hours_off() -> Game:
    """Finds the window of a time one hour too early."""

    def parse(text: str) -> Window:
        number = int(coin.parse_window(text).window_id[5:])
        return Window(text, datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=number - 1))

    def at(moment: datetime) -> str:
        return f"coin-{int((moment - datetime(2024, 1, 1, tzinfo=UTC)) / timedelta(hours=1)):06d}"

    return changed(windows=replace(COIN.windows, parse=parse, at=at, length=timedelta(hours=1)))


WAIT_BASELINE = COIN.baselines["wait"]

MUTANTS: Mapping[str, tuple[Callable[[], Game], set[str]]] = {
    "a name with a space": (lambda: changed(name="coin game"), {"names"}),
    "no version": (lambda: changed(version=""), {"names"}),
    "a column twice": (lambda: changed(columns=(*COIN.columns, COIN.columns[0])), {"names"}),
    "a feature twice": (lambda: changed(features=(*COIN.features, COIN.features[0])), {"names"}),
    "an outcome twice": (lambda: changed(outcomes=(*COIN.outcomes, COIN.outcomes[0])), {"names"}),
    "a reward under another name": (lambda: changed(presets={"gain": COIN.rewards().presets["profit"]}), {"names"}),
    "a label under another name": (lambda: changed(labels={"tails": COIN.labels["heads"]}), {"names"}),
    "no world": (lambda: changed(worlds={}), {"names"}),
    "no reward": (lambda: changed(presets={}), {"names"}),
    "a capability that cannot be imported": (lambda: changed(display=missing_module), {"capabilities"}),
    "a capability of another kind": (lambda: changed(display=coin.rewards), {"capabilities"}),
    "a column of no kind": (lambda: with_column("flip", kind="decimal"), {"columns"}),
    "a column without unit": (lambda: with_column("flip", unit=""), {"columns"}),
    "money declared as float": (lambda: with_column("cash", kind="float"), {"columns", "ledger"}),
    "a count declared as money": (lambda: with_column("flip", kind="money"), {"columns"}),
    "money decoded as float": (lambda: with_decoder(money_as_float), {"columns"}),
    "an undeclared column": (lambda: with_decoder(undeclared_column), {"columns", "decode"}),
    "a feature that says no source": (lambda: with_feature("hint", source=""), {"features"}),
    "a fill value of NaN": (lambda: with_feature("hint", fill=float("nan")), {"features", "observations"}),
    "one window": (lambda: changed(sample=lambda: next(coin.deal("fair", 1, 1, lambda: "HEADS"))), {"sample"}),
    "an empty sample": (lambda: changed(sample=lambda: ()), {"sample", "decode"}),
    "a sample without a player": (
        lambda: changed(sample=lambda: tuple(f for w in coin.deal("fair", 1, 2, lambda: WAIT) for f in w)),
        {"sample"},
    ),
    "two players in one recording": (lambda: with_decoder(two_players), {"sample"}),
    "a sample that cannot be decoded": (lambda: with_decoder(failing_decoder), {"sample", "decode"}),
    "an event of no known kind": (lambda: with_decoder(nameless), {"decode", "sample"}),
    "infinity in a column": (infinite_speed, {"columns", "decode"}),
    "no decision points": (lambda: changed(decides=lambda event: False), {"sample", "labels"}),
    "a player's event as decision point": (
        lambda: changed(decides=lambda event: event.event_name in ("hint", "cash")),
        {"sample", "labels"},
    ),
    "recorded choices outside the set": (lambda: with_actions(recorded=lambda event: (9,)), {"sample"}),
    "recorded choices that are not read": (lambda: with_actions(recorded=lambda event: None), {"sample"}),
    "a decoder that raises": (lambda: with_decoder(raising_decoder), {"decode"}),
    "a decoder that trusts numbers": (lambda: with_decoder(trusting_decoder), {"decode"}),
    "a decoder that junk puts out of step": (lambda: changed(decoder=Sticky), {"decode"}),
    "decoders with one memory": (lambda: with_decoder(shared_decoder()), {"decode"}),
    "window ids that anything passes for": (
        lambda: changed(windows=replace(COIN.windows, parse=lax_parse)),
        {"windows"},
    ),
    "window ids that do not round-trip": (
        lambda: changed(windows=replace(COIN.windows, parse=drifting_parse)),
        {"windows", "columns", "decode", "ledger"},
    ),
    "window starts without a zone": (lambda: changed(windows=replace(COIN.windows, parse=naive_parse)), {"windows"}),
    "no examples of window ids": (lambda: changed(windows=replace(COIN.windows, examples=())), {"windows"}),
    "windows by time without length": (
        lambda: changed(windows=replace(COIN.windows, at=lambda moment: "coin-000001")),
        {"windows"},
    ),
    "a time outside its window": (hours_off, {"windows"}),
    "no WAIT": (lambda: with_actions(heads=(("PASS", "HEADS", "TAILS"),)), {"actions", "baselines"}),
    "wait that does not wait": (lambda: with_actions(wait=(1,)), {"actions", "ledger", "rewards"}),
    "an action twice": (lambda: with_actions(heads=(("WAIT", "HEADS", "HEADS"),)), {"actions"}),
    "a text set that takes anything": (lambda: with_text(reads_anything), {"actions", "sample", "ledger", "rewards"}),
    "a text set that raises": (lambda: with_text(reads_or_raises), {"actions", "sample", "ledger", "rewards"}),
    "a text set without examples": (lambda: with_text(rejects_all, ()), {"actions", "sample", "ledger", "rewards"}),
    "a text set that understands nothing": (lambda: with_text(rejects_all), {"actions", "sample", "ledger", "rewards"}),
    "a feature that is not in the table": (
        lambda: changed(features=COIN.features[1:]),
        {"observations"},
    ),
    "a set that the fold cannot write": (
        lambda: changed(observations={**COIN.observations, "more": COIN.observations["table"]}),
        {"observations", "fold", "future", "outcome"},
    ),
    "an observation of nothing": (
        lambda: replace(
            with_fold(observe={**COIN.recording().fold.observe, "empty": no_messages}),
            observations={**COIN.observations, "empty": NumericObservation(())},
        ),
        {"observations"},
    ),
    "blocks of another size": (
        lambda: changed(observations={"table": replace(COIN.observations["table"], blocks={"a": 2, "b": 2})}),
        {"observations"},
    ),
    "NaN in an observation": (lambda: with_fold(observe={"table": nan_row}), {"observations"}),
    "unknown without its fill value": (lambda: with_fold(observe={"table": unfilled_row}), {"observations"}),
    "no messages": (
        lambda: replace(
            with_fold(observe={**COIN.recording().fold.observe, "text": no_messages}),
            observations={**COIN.observations, "text": MessageObservation("nothing")},
        ),
        {"observations"},
    ),
    "a message of no role": (
        lambda: replace(
            with_fold(observe={**COIN.recording().fold.observe, "text": wrong_role}),
            observations={**COIN.observations, "text": MessageObservation("beeps")},
        ),
        {"observations"},
    ),
    "a fold that remembers other runs": (peeking_fold, {"fold", "future", "outcome"}),
    "a fold with one state for all": (one_state, {"fold", "future"}),
    "a fold that looking changes": (looking_fold, {"fold"}),
    "a fold that leaves a place unwritten": (lazy_fold, {"fold", "observations"}),
    "a fold that rewrites the past": (rewriting_fold, {"future"}),
    "an observation of the outcome": (leaking_hint, {"outcome"}),
    "an outcome as feature": (
        lambda: changed(features=(*COIN.features, replace(COIN.features[0], name="heads"))),
        {"outcome"},
    ),
    "an outcome of half a window": (lambda: changed(outcome=half_outcome), {"outcome"}),
    "an outcome that changes": (lambda: changed(outcome=moody_outcome()), {"outcome"}),
    "no outcome": (lambda: changed(outcome=lambda events: None), {"outcome", "labels"}),
    "an undeclared outcome": (lambda: changed(outcomes=COIN.outcomes[:1]), {"outcome"}),
    "an outcome of another kind": (
        lambda: changed(outcomes=(COIN.outcomes[0], replace(COIN.outcomes[1], kind="float"))),
        {"outcome"},
    ),
    "a house that mints money": (lambda: with_ledger(_pay=minting), {"ledger"}),
    "money in floats": (lambda: with_ledger(_pay=floating), {"ledger"}),
    "a stake that is not kept": (lambda: with_ledger(__init__=unlimited_init, act=doubling), {"ledger"}),
    "money that moves in silence": (lambda: with_ledger(act=silent), {"ledger"}),
    "a charge for waiting": (lambda: with_ledger(act=charging), {"ledger", "rewards"}),
    "negative cash": (lambda: with_ledger(act=overdraft), {"ledger"}),
    "equity from nowhere": (lambda: with_ledger(standing=padded), {"ledger"}),
    "a reward for doing nothing": (lambda: with_reward(paid_for_nothing), {"rewards"}),
    "a reward of another length": (lambda: with_reward(lambda steps, outcome: [0.0]), {"rewards"}),
    "an infinite reward": (lambda: with_reward(lambda steps, outcome: [float("inf")] * len(steps)), {"rewards"}),
    "a reward that changes": (lambda: with_reward(moody_reward()), {"rewards"}),
    "a label without horizon": (
        lambda: changed(labels={"heads": replace(COIN.labels["heads"], horizon=0)}),
        {"labels"},
    ),
    "a label that is never defined": (
        lambda: changed(labels={"heads": replace(COIN.labels["heads"], value=lambda outcome, event: None)}),
        {"labels"},
    ),
    "a label of NaN": (
        lambda: changed(labels={"heads": replace(COIN.labels["heads"], value=lambda outcome, event: float("nan"))}),
        {"labels"},
    ),
    "no baseline that waits": (lambda: changed(baselines={"heads": COIN.baselines["heads"]}), {"baselines"}),
    "a wait that bets": (
        lambda: changed(baselines={"wait": replace(WAIT_BASELINE, make=lambda _: Constant((1,)))}),
        {"baselines"},
    ),
    "a baseline outside its set": (
        lambda: changed(
            baselines={"wait": WAIT_BASELINE, "far": replace(WAIT_BASELINE, make=lambda _: Constant((-1,)))}
        ),
        {"baselines"},
    ),
    "a baseline of an unknown set": (
        lambda: changed(baselines={"wait": replace(WAIT_BASELINE, observation="nothing")}),
        {"baselines"},
    ),
    "a baseline with a generator of its own": (
        lambda: changed(baselines={"wait": WAIT_BASELINE, "random": fresh_rng_baseline()}),
        {"baselines"},
    ),
    "a world without a sentence": (lambda: changed(worlds={**COIN.worlds, "fair": ""}), {"worlds"}),
    "a negative ceiling": (lambda: changed(ceiling=lambda world: -1.0), {"worlds"}),
    "a ceiling for any name": (lambda: changed(ceiling=lambda world: 0.0), {"worlds"}),
}


def test_the_coin_game_keeps_the_contract() -> None:
    check_game(COIN)


@pytest.mark.parametrize("name", MUTANTS)
def test_each_mutant_breaks_its_clauses_and_no_other(name: str) -> None:
    make, clauses = MUTANTS[name]
    problems = broken_clauses(make())
    assert {problem.clause for problem in problems} == clauses, "\n".join(map(str, problems))


def test_every_clause_has_a_mutant_and_a_rule() -> None:
    assert {clause for _, clauses in MUTANTS.values() for clause in clauses} == set(CLAUSES)
    assert all((clause.__doc__ or "").endswith(".") for clause in CLAUSES.values())


def test_every_broken_clause_is_told_at_once() -> None:
    broken = changed(version="", ceiling=lambda world: -1.0, baselines={})
    with pytest.raises(ContractError) as result:
        check_game(broken)
    assert re.findall(r"^- (\w+):", str(result.value), re.MULTILINE) == [
        "names",
        "baselines",
        "worlds",
        "worlds",
        "worlds",
    ]


def test_a_clause_that_raises_does_not_hide_the_others() -> None:
    def explode(*_: object) -> Any:
        raise ZeroDivisionError("boom")

    problems = broken_clauses(changed(ceiling=explode, outcome=explode, version=""))
    assert {"names", "worlds", "outcome"} <= {problem.clause for problem in problems}
    assert any("ZeroDivisionError: boom" in problem.what for problem in problems)


# The record itself.


def test_the_surface_is_sorted_and_there() -> None:
    assert surface.__all__ == sorted(
        surface.__all__, key=lambda name: (not name.isupper(), not name[0].isupper(), name)
    )
    assert all(hasattr(surface, name) for name in surface.__all__)


def test_records_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        COIN.name = "other"  # type: ignore[misc]


def test_a_users_reference_is_imported() -> None:
    assert load_attribute("playproof.money:UNIT") == UNIT
    for text in ("playproof.money:NOTHING", "playproof.nothing:UNIT", "UNIT", ":", ""):
        with pytest.raises(ContractError, match="expected module:attribute"):
            load_attribute(text)


def test_an_episode_refuses_arrays_that_do_not_fit() -> None:
    seat = PlayerConfig("table", Terms("bets"))
    [episode, *_] = play(COIN, lambda _: Constant((1,)), coin_events(), seat)
    with pytest.raises(ContractError, match="expected 11 observations for 10 steps, found 10"):
        replace(episode, observations=episode.observations[:-1])
    with pytest.raises(ContractError, match="expected 10 decisions"):
        replace(episode, decisions=())


def sample_events(game: Game) -> tuple[Event, ...]:
    payload = zip(game.recording().sample(), game.decode(game.recording().sample()), strict=True)
    facts = [(frame, fact) for frame, of in payload for fact in of]
    return tuple(fact.event(frame.ts, "s", seq, direction=frame.direction) for seq, (frame, fact) in enumerate(facts))


@cache
def coin_events() -> tuple[Event, ...]:
    return sample_events(COIN)


# Play.


def plays(policy: Policy, stake: int | None = None, windows: tuple[str, ...] | None = None) -> list[EpisodeRecord]:
    seat = PlayerConfig("table", Terms("bets", stake=stake))
    return list(play(COIN, lambda _: policy, coin_events(), seat, windows))


def test_play_counts_what_the_coin_did() -> None:
    for episode in plays(Constant((1,))):
        assert episode.outcome is not None
        heads = episode.outcome.values["heads"]
        assert isinstance(heads, int)
        assert episode.pnl == (2 * heads - coin.FLIPS) * coin.STAKE
        assert episode.opened == coin.FLIPS
        assert [step.end for step in episode.steps] == [None] * 9 + ["terminated"]


def test_each_window_is_played_with_fresh_money_and_only_if_named() -> None:
    assert [episode.window_id for episode in plays(Constant((1,)), windows=("coin-000001",))] == ["coin-000001"]
    episodes = plays(Constant((1,)), windows=("coin-000001", "coin-000000"))
    assert [episode.window_id for episode in episodes] == ["coin-000000", "coin-000001"]
    assert [episode.steps[0].before.cash for episode in episodes] == [UNIT, UNIT]


def test_a_stake_stops_a_losing_player() -> None:
    for episode in plays(Constant((1,)), stake=coin.STAKE):
        assert episode.pnl >= -coin.STAKE
    assert any(not step.effect for episode in plays(Constant((1,)), stake=coin.STAKE) for step in episode.steps)


def test_the_player_sees_his_own_money_and_not_the_recorded_ones() -> None:
    [episode, *_] = plays(Constant((2,)))
    balances = [float(np.asarray(row)[4]) for row in episode.observations]
    assert balances == [float(np.float32(step.before.cash / UNIT)) for step in episode.steps] + balances[-1:]


def test_sessions_are_not_mixed() -> None:
    several = [replace(event, session_id=f"s{event.seq % 2}") for event in coin_events()]
    with pytest.raises(ContractError, match="one session"):
        list(play(COIN, lambda _: Constant((0,)), several, PlayerConfig("table", Terms("bets"))))


@given(st.lists(st.sampled_from([(0,), (1,), (2,)]), min_size=30, max_size=30), st.integers(0, 5))
def test_money_is_conserved_whatever_is_played(choices: list[tuple[int, ...]], seed: int) -> None:
    ledger = coin.CoinLedger(Terms("bets", cash=3 * coin.STAKE))
    events = [event for event in coin_events() if event.player_id is None]
    for event in events:
        ledger.apply_world(event)
        for _ in range(1 + seed % 2):
            if coin.decides(event):
                ledger.act(choices[int(event.columns["flip"] or 0)])
        assert ledger.total == 3 * coin.STAKE
        assert ledger.cash >= 0


@given(frames())
def test_decoders_take_anything(frame: Frame) -> None:
    for game in (COIN, arena_game()):
        game.recording().decoder()(frame)


@given(events())
def test_strategies_give_events(event: Event) -> None:
    assert event.event_id == f"{event.session_id}/{event.seq}"


def test_the_biased_coin_falls_as_hinted_as_often_as_it_should() -> None:
    for world, p in coin.WORLDS.items():
        said = [json.loads(f.payload) for window in coin.deal(world, 3, 200, lambda: WAIT) for f in window]
        hints = [item["side"] for item in said if item["event"] == "hint"]
        flips = [item["side"] for item in said if item["event"] == "flip"]
        hits = np.mean(np.equal(hints, flips))
        assert abs(hits - p) < 4 * np.sqrt(p * (1 - p) / len(flips))
        assert abs(np.mean(hints) - 0.5) < 4 * 0.5 / np.sqrt(len(hints))


def test_ceilings() -> None:
    assert coin.ceiling("fair") == 0.0
    assert coin.ceiling("biased") == pytest.approx(0.2)
    with pytest.raises(UnknownName, match="use one of: biased, fair"):
        coin.ceiling("rigged")
    with pytest.raises(UnknownName):
        next(coin.deal("rigged", 1, 1, lambda: WAIT))


# Loading.


def test_the_installed_games_are_listed_and_load() -> None:
    assert "arena" in game_names()
    assert load_game("arena").name == "arena"
    with pytest.raises(UnknownName, match=r"expected a known game, found 'chess'; use one of: arena"):
        load_game("chess")


def points(monkeypatch: pytest.MonkeyPatch, *values: str) -> None:
    entry_points = [EntryPoint("coin", value, "playproof.games") for value in values]
    monkeypatch.setattr("playproof.game.game.entry_points", lambda group: entry_points)


def test_a_game_of_another_package_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    points(monkeypatch, "playproof.testing.coin:game", "playproof.testing.coin:game")
    assert load_game("coin").name == "coin"


@pytest.mark.parametrize("value", ["playproof.nowhere:game", "playproof.testing.coin:nothing", "playproof.money:show"])
def test_an_entry_point_that_gives_no_game_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    points(monkeypatch, value)
    with pytest.raises(ContractError, match="expected a function giving a Game"):
        load_game("coin")


def test_another_games_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    points(monkeypatch, "playproof.games.arena.game:arena_game")
    with pytest.raises(ContractError, match="expected the game 'coin'"):
        load_game("coin")


def test_two_games_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    points(monkeypatch, "playproof.testing.coin:game", "playproof.games.arena.game:arena_game")
    with pytest.raises(ConfigError, match="uninstall one"):
        game_names()


def test_loading_games_stays_light() -> None:
    code = (
        "import sys; from playproof.game import game_names, load_game; load_game('arena'); game_names();"
        "print(sorted({'numba', 'torch', 'polars', 'gymnasium', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_strategies_say_which_extra_they_need() -> None:
    code = "import sys; sys.modules['hypothesis'] = None; import playproof.testing, playproof.testing.strategies"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install -e '.[dev]'" in done.stderr, "in a clone the clone's own"


# The arena; its own rules are tested beside it.


def test_the_arena_keeps_the_contract() -> None:
    check_game(load_game("arena"))


# The pages.


def blocks(path: Path) -> str:
    return "\n\n".join(re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))


def test_the_page_on_adding_a_game_runs(project: Path) -> None:
    code = blocks(project / "docs" / "dev" / "adding-a-game.md")
    assert code.count("check_game") >= 2
    exec(compile(code, "docs/dev/adding-a-game.md", "exec"), {"__name__": "page"})


def test_the_page_on_adding_a_game_lists_every_clause(project: Path) -> None:
    text = (project / "docs" / "dev" / "adding-a-game.md").read_text(encoding="utf-8")
    for name, clause in CLAUSES.items():
        assert f"| {name} | {(clause.__doc__ or '').splitlines()[0].rstrip('.')} |" in text


def test_the_vocabulary_has_every_word_once(project: Path) -> None:
    text = (project / "docs" / "dev" / "vocabulary.md").read_text(encoding="utf-8")
    words = re.findall(r"^\| \*\*(\w+)\*\* \|", text, re.MULTILINE)
    expected = "event player session window episode step observation action evidence outcome reward judgement group"
    assert [word for word in words if word in expected.split()] == expected.split()
    assert len(set(words)) == len(words)
