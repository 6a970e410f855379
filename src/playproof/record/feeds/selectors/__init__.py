"""Selector maps: where a page has its buttons and fields, and how its game tells what they led to.

A map is a TOML file: `game`, perhaps `socket` and `event`, a table `buttons` (button_id = { selector, key,
category, event }), a table `fields` (name = { selector }), a table `reading` (presses.PressRules), a table `view`.
`extends` takes everything that a map does not say itself from another one of this folder.
Leaves out: looking at a page (browser).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, TypedDict

from playproof.errors import ConfigError, UnknownName
from playproof.json_types import Json
from playproof.record.presses import PressRules

DEFAULT = "playproof"
EVENTS = ("click", "pointerdown", "pointerup", "mousedown", "mouseup")
_BUTTON = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PIECE = re.compile(r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|>>>|.""", re.DOTALL)
_TEXT = re.compile(r""":text\((?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)')\)\Z""")


class SelectorStep(TypedDict):
    """One part of a selector: an element of one document or of one shadow root."""

    css: str
    text: str | None
    """The element's whole text, where the selector asks for it."""


def split_selector(selector: str) -> list[SelectorStep]:
    """Split a selector at `>>>`, which leads into a shadow root or a frame; read `:text("...")` after a part."""
    parts = [""]
    for piece in _PIECE.findall(selector):
        if piece == ">>>":
            parts.append("")
        else:
            parts[-1] += piece
    steps: list[SelectorStep] = []
    for part in (part.strip() for part in parts):
        match = _TEXT.search(part)
        text = None
        if match:
            text = " ".join(re.sub(r"\\(.)", r"\1", match[1] if match[1] is not None else match[2]).split())
        css = part[: match.start()].strip() if match else part
        if not css and not text:
            raise ConfigError(f"expected a CSS selector on both sides of >>>, found {selector!r}")
        steps.append({"css": css or "*", "text": text})
    return steps


@dataclass(frozen=True)
class Button:
    """How one button is found: by a CSS selector, or by a key where there is nothing to select.

    Where a page turns a key into a click of the button, the click is what counts, and is counted once.
    """

    button_id: str
    category: str
    selector: str | None = None
    key: str | None = None
    """As KeyboardEvent.key says it, in lower case."""
    event: str = "click"
    """The event at which the page acts, one of EVENTS: a press is counted there, and only there."""


@dataclass(frozen=True)
class SelectorMap:
    """Everything that the browser recorder knows of one page."""

    game: str
    buttons: tuple[Button, ...]
    fields: Mapping[str, str]
    """CSS selector by the name under which the game's decoder takes the field's amount."""
    reading: PressRules
    socket: str = ""
    """Part of the address of the page's socket to record; empty for all."""
    view: Mapping[str, Any] = field(default_factory=dict)
    """Which columns the live view shows of a tick and of the player, and what it calls the phases."""


def known_maps() -> list[str]:
    """Name the maps that come with the product."""
    return sorted(
        path.name.removesuffix(".toml") for path in files(__package__).iterdir() if path.name.endswith(".toml")
    )


def load_map(name: str = DEFAULT) -> SelectorMap:
    """Read a map: one of the product's by its name, or a file by its path."""
    return _build(_tables(name), name)


def _tables(name: str) -> Json:
    """Read a map's tables, laid over those of the map that it extends."""
    if Path(name).suffix == ".toml":
        text, where = _read_file(Path(name)), name
    elif name in known_maps():
        text, where = (files(__package__) / f"{name}.toml").read_text(encoding="utf-8"), name
    else:
        raise UnknownName("selector map (or a path that ends in .toml)", name, known_maps())
    try:
        payload = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"expected a selector map in TOML at {where}, found: {error}") from None
    below = payload.pop("extends", None)
    return {**(_tables(str(below)) if below and below != name else {}), **payload}


def _read_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"expected a selector map at {path}, found: {error}") from None


def _build(payload: Mapping[str, Any], where: str) -> SelectorMap:
    game, buttons, fields = payload.get("game"), payload.get("buttons"), payload.get("fields", {})
    if not isinstance(game, str) or not isinstance(buttons, dict) or not isinstance(fields, dict):
        raise ConfigError(
            f"expected `game`, [buttons] and [fields] in the selector map {where}; see docs/guides/recording.md"
        )
    return SelectorMap(
        game,
        tuple(_button(name, one, where, payload.get("event", "click")) for name, one in buttons.items()),
        {name: _selector(name, one, where) for name, one in fields.items()},
        PressRules.read(payload.get("reading", {})),
        str(payload.get("socket", "")),
        payload.get("view", {}),
    )


def _button(name: str, payload: object, where: str, event: object) -> Button:
    known = payload if isinstance(payload, dict) else {}
    selector, key, category = known.get("selector"), known.get("key"), known.get("category")
    if not _BUTTON.fullmatch(name) or not isinstance(category, str) or not (selector or key):
        raise ConfigError(
            f"expected button {name!r} of {where} with a category, and a selector or a key, found {payload!r}"
        )
    event = known.get("event", event)
    if event not in EVENTS:
        raise ConfigError(f"expected the event of button {name!r} of {where} to be one of {EVENTS}, found {event!r}")
    if selector is not None:
        selector = _selector(name, payload, where)
    return Button(name, category, selector, key.lower() if isinstance(key, str) else None, str(event))


def _selector(name: str, payload: object, where: str) -> str:
    selector = payload.get("selector") if isinstance(payload, dict) else None
    if not isinstance(selector, str):
        raise ConfigError(f"expected a selector as text for {name!r} of {where}, found {payload!r}")
    split_selector(selector)  # a wrong one is refused here, not at the first press
    return selector
