"""Make a selector map by pressing a page's buttons: every name is asked for, and the element pressed is its answer.

The page does not get the presses (pick.js), so naming BUY buys nothing. An element has several selectors, best first;
the first that still fits it alone a moment later is taken, so that marks which a page changes at every tick are left
out. A button in a shadow root or a frame gets the path to it, with `>>>` at every border.
Leaves out: reading maps (selectors) and recording (browser).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from playproof.errors import ConfigError
from playproof.json_types import Json
from playproof.record.feeds.documents import (
    BINDING,
    Drive,
    PageDocuments,
    find_page,
    go_to,
    import_playwright,
    open_browser,
)
from playproof.record.feeds.selectors import load_map, split_selector

SETTLE = 0.6
"""Seconds after which a selector must still fit its element."""
_PATHS_TO_OWNER = "function () { return globalThis.playproofPaths(this); }"


@dataclass(frozen=True)
class WantedElement:
    """A button or a field to be named by a press."""

    name: str
    category: str
    """Empty for a field."""

    @property
    def is_field(self) -> bool:
        """Tell whether it is a field."""
        return not self.category


@dataclass(frozen=True)
class PickedElement:
    """An element that was pressed, with the selector that leads to it."""

    wanted: WantedElement
    selector: str
    text: str


def wanted_elements(names: Sequence[str], fields: Sequence[str], base: str) -> list[WantedElement]:
    """Give what to ask for: NAME or NAME:category; without a category the one that the base map gives the name."""
    known = {button.button_id: button.category for button in load_map(base).buttons}
    wanted = []
    for name in names or list(known):
        button_id, _, category = name.partition(":")
        category = category or known.get(button_id, "")
        if not category:
            raise ConfigError(
                f"expected buttons of the map {base} ({', '.join(known)}) or NAME:category, found {name!r}; "
                "categories are action, bet_adjust and percentage"
            )
        wanted.append(WantedElement(button_id, category))
    wanted += [WantedElement(name, "") for name in fields]
    if len({one.name for one in wanted}) < len(wanted):
        raise ConfigError(f"expected every name once, found {', '.join(one.name for one in wanted)}")
    return wanted


@dataclass
class SelectorPicker:
    """One page whose elements are named until all are, until it is closed, or until told to stop."""

    url: str
    wanted: Sequence[WantedElement]
    headless: bool = False
    attach: str | None = None
    drive: Drive | None = None
    picked: list[PickedElement] = field(default_factory=list, init=False)
    skipped: list[str] = field(default_factory=list, init=False)
    _next: int = field(default=0, init=False)
    _work: list[asyncio.Future[PickedElement]] = field(default_factory=list, init=False)
    _asking: set[asyncio.Future[None]] = field(default_factory=set, init=False)
    _documents: PageDocuments | None = field(default=None, init=False)
    _all_named: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    async def run(self, stop: asyncio.Event) -> None:
        """Ask for every name."""
        playwright = import_playwright()
        from playwright.async_api import Error

        script = (files("playproof.record.feeds") / "pick.js").read_text(encoding="utf-8")
        script = script.replace("(CONFIG);", f"({json.dumps({'binding': BINDING})});")
        async with playwright() as driver:
            browser = await open_browser(driver, headless=self.headless, attach=self.attach)
            tasks: list[asyncio.Future[Any]] = []
            try:
                page = await find_page(browser, self.url, headless=self.headless, attach=self.attach)
                self._documents = PageDocuments(page, script, self._said)
                await self._documents.start()
                page.on("close", lambda _: stop.set())
                browser.on("disconnected", lambda _: stop.set())
                await go_to(page, self.url)
                tasks += [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(self._all_named.wait())]
                if self.drive is not None:
                    tasks.append(asyncio.ensure_future(self.drive(page)))
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
                self.picked += await asyncio.gather(*self._work)
                for frame_id in self._documents.frame_ids:  # a page that stays open gets its presses again
                    await self._documents.call(frame_id, "globalThis.playproofDone()")
                await self._documents.close()
            finally:
                for task in (*tasks, *self._asking):
                    task.cancel()
                await asyncio.gather(*tasks, *self._asking, return_exceptions=True)
                with contextlib.suppress(Error):
                    await browser.close()

    def _said(self, message: Json, frame_id: str) -> None:
        if message.get("hello"):
            self._ask(frame_id)
        elif self._next < len(self.wanted):
            wanted = self.wanted[self._next]
            self._next += 1
            if message.get("skip"):
                self.skipped.append(wanted.name)
            elif message.get("pick"):
                self._work.append(asyncio.ensure_future(self._choose(wanted, message, frame_id)))
            if self._next == len(self.wanted):
                self._all_named.set()
            assert self._documents is not None
            for known_frame in self._documents.frame_ids:
                self._ask(known_frame)

    def _ask(self, frame_id: str) -> None:
        """Show which element is wanted now."""
        if self._next >= len(self.wanted):
            return
        wanted = self.wanted[self._next]
        what = "field" if wanted.is_field else "button"
        text = (
            f"Press the {what} {wanted.name} ({self._next + 1} of {len(self.wanted)}). "
            "Esc: not on this page. Alt and press: use the page."
        )
        arguments = ", ".join(json.dumps(one) for one in (wanted.name, wanted.is_field, text))
        assert self._documents is not None
        task = asyncio.ensure_future(self._documents.call(frame_id, f"globalThis.playproofAsk({arguments})"))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _choose(self, wanted: WantedElement, message: Json, frame_id: str) -> PickedElement:
        """Take the first selector that still fits the element alone a moment later, with the path of its frames."""
        assert self._documents is not None
        outer: list[str] = []
        inner = frame_id
        while (answer := await self._documents.call_on_owner(inner, _PATHS_TO_OWNER)) is not None:
            paths, inner = answer
            outer.insert(0, paths[0])
        await asyncio.sleep(SETTLE)
        for path in message["paths"]:
            steps = json.dumps(split_selector(path))
            if await self._documents.call(frame_id, f"globalThis.playproofCount({steps})") == 1:
                return PickedElement(wanted, " >>> ".join([*outer, path]), message["text"])
        raise ConfigError(
            f"expected an element for {wanted.name} that stays, found that nothing leads to it {SETTLE} s after the "
            "press; press it again, or write its selector by hand"
        )


def map_text(picked: Sequence[PickedElement], base: str, url: str, event: str) -> str:
    """Write a selector map as TOML."""
    by_selector: dict[str, str] = {}
    for one in picked:
        other = by_selector.setdefault(one.selector, one.wanted.name)
        if other != one.wanted.name and not one.wanted.is_field:
            raise ConfigError(
                f"expected another element for {one.wanted.name}, found {other}'s: {one.selector}; run again, and skip "
                "with Esc what the page does not have"
            )
    lines = [
        f"# Buttons of {url}; written by: playproof record selectors",
        f"extends = {_toml(base)} # game and reading come from there",
        *([f"event = {_toml(event)} # the page acts at this event"] if event != "click" else []),
        *("", "[buttons]"),
        *(
            f"{one.wanted.name} = {{ selector = {_toml(one.selector)}, category = {_toml(one.wanted.category)} }}"
            for one in picked
            if not one.wanted.is_field
        ),
        *("", "[fields]"),
        *(f"{one.wanted.name} = {{ selector = {_toml(one.selector)} }}" for one in picked if one.wanted.is_field),
    ]
    return "\n".join(lines) + "\n"


def _toml(text: str) -> str:
    """Quote a text as TOML does: without escapes where it can be read so."""
    if "'" not in text and text.isprintable():
        return f"'{text}'" if '"' in text else f'"{text}"' if "\\" not in text else f"'{text}'"
    return json.dumps(text, ensure_ascii=False)


def write_map(path: Path, text: str) -> None:
    """Write a map's file whole, after reading it back as the recorder will."""
    tomllib.loads(text)
    draft = path.with_name(f".{path.stem}.draft.toml")
    try:
        draft.write_text(text, encoding="utf-8")
        load_map(str(draft))
        draft.replace(path)
    except OSError as error:
        raise ConfigError(f"expected to write the selector map {path}, found: {error}") from None
    finally:
        draft.unlink(missing_ok=True)
