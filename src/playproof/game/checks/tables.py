"""Clauses about what a game declares: names, columns, features, actions, worlds."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

from playproof.errors import InputError
from playproof.game.checks.case import JUNK, GameCase, misfits, twice
from playproof.game.game import Display, Language, Recording, Rewards, Simulation
from playproof.game.types import KINDS, WAIT, ActionSet, Fact

_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")


def check_names(case: GameCase) -> Iterator[str]:
    """Names are well formed and unique, and tables are keyed by them."""
    game = case.game
    if not _NAME.fullmatch(game.name):
        yield f"expected a game name of lower-case letters, digits and -, found {game.name!r}"
    for text, what in ((game.version, "version"), (game.doc, "doc"), (game.money, "unit of money")):
        if not text:
            yield f"expected a {what}, found an empty text"
    for names, what in (
        ([column.name for column in game.columns], "column"),
        ([column.name for column in game.outcomes], "outcome"),
        ([feature.name for feature in game.features], "feature"),
    ):
        yield from (f"expected {what} names to be unique, found {name!r} twice" for name in twice(names))
    called = [(key, reward.name) for key, reward in game.rewards().presets.items()]
    called += [(key, label.name) for key, label in game.labels.items()]
    yield from (f"expected the name {key!r}, as in the table, found {name!r}" for key, name in called if key != name)
    for table, what in (
        (list(game.observations), "observation set"),
        (list(game.actions), "action set"),
        (list(game.rewards().presets), "reward"),
        (list(game.worlds), "world"),
    ):
        if not table:
            yield f"expected at least one {what}, found none"


def check_capabilities(case: GameCase) -> Iterator[str]:
    """Every capability can be imported and gives its record."""
    given: dict[str, tuple[Callable[[], object] | None, type]] = {
        "recording": (case.game.recording, Recording),
        "rewards": (case.game.rewards, Rewards),
        "simulation": (case.game.simulation, Simulation),
        "display": (case.game.display, Display),
        "language": (case.game.language, Language),
    }
    for name, (make, kind) in given.items():
        if make is None:
            continue
        try:
            record = make()
        except (ImportError, AttributeError, TypeError) as error:
            yield f"expected {name}() to give a {kind.__name__}, found: {error}"
            continue
        if not isinstance(record, kind):
            yield f"expected {name}() to give a {kind.__name__}, found {type(record).__name__}"


def check_columns(case: GameCase) -> Iterator[str]:
    """Columns have a kind and a unit; money is declared, and comes, in integers of the game's unit."""
    money = case.game.money
    for column in (*case.game.columns, *case.game.outcomes):
        if column.kind not in KINDS:
            yield f"expected column {column.name!r} of a kind among {', '.join(KINDS)}, found {column.kind!r}"
        elif (column.unit == money) != (column.kind == "money"):
            text = f"{column.name!r} of kind {column.kind} in {column.unit!r}"
            yield f"expected columns in {money!r}, and only those, to be of kind money, found {text}"
        if not column.unit or not column.doc:
            yield f"expected column {column.name!r} to have a unit and a doc"
    for event in case.events:
        yield from misfits(case.game, Fact(event.event_name, event.doc_type, event.columns, event.window_id))


def check_features(case: GameCase) -> Iterator[str]:
    """Features say their unit, source and making, and are filled with a finite value."""
    for feature in case.game.features:
        for text, what in ((feature.unit, "unit"), (feature.source, "source"), (feature.how, "making")):
            if not text:
                yield f"expected feature {feature.name!r} to say its {what}"
        if not math.isfinite(feature.fill):
            yield f"expected feature {feature.name!r} to have a finite fill value, found {feature.fill}"


def check_actions(case: GameCase) -> Iterator[str]:
    """Every action set has WAIT in its first head, unique names, and reads any text without raising."""
    for name, actions in case.game.actions.items():
        if not actions.heads or WAIT not in actions.heads[0]:
            yield f"{name}: expected {WAIT} in the first head, found {actions.heads[:1]}"
        elif not actions.holds(actions.wait) or not actions.waits(actions.wait):
            yield f"{name}: expected `wait` to be an action that says {WAIT}, found {actions.wait!r}"
        for head in actions.heads:
            yield from (f"{name}: expected each name of a head once, found {item!r} twice" for item in twice(head))
        if actions.read is not None:
            yield from _misread(name, actions)


def _misread(name: str, actions: ActionSet) -> Iterator[str]:
    """Tell where an action set misunderstands decisions in text."""
    assert actions.read is not None
    if not actions.examples:
        yield f"{name}: expected examples of decisions in text, found none"
    for text in actions.examples:
        if not actions.holds(text):
            yield f"{name}: expected the example to be understood, found {text!r:.80} rejected"
    for junk in JUNK:
        text = junk if isinstance(junk, str) else junk.decode("latin-1")
        choice = actions.read(text)
        if choice.rejected is None or choice.kind != WAIT:
            yield f"{name}: expected {text[:40]!r} to be rejected, found {choice.kind}"


def check_worlds(case: GameCase) -> Iterator[str]:
    """Every world has a sentence and a ceiling, finite or unknown; a name that is none is refused."""
    ceiling = case.game.simulated().ceiling
    for world, doc in case.game.worlds.items():
        best = ceiling(world)
        if not doc:
            yield f"{world}: expected a sentence that describes it, found none"
        if best is not None and not 0 <= best < math.inf:
            yield f"{world}: expected a ceiling of at least 0, as one need not play, found {best}"
    try:
        yield f"expected a world that does not exist to be refused, found a ceiling of {ceiling('no such world')}"
    except InputError:
        return
