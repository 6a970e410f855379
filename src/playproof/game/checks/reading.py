"""Clauses about what comes in: the sample, the decoder, the ids of windows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from playproof.errors import DecodeError
from playproof.game.checks.case import JUNK, GameCase, misfits
from playproof.game.game import Game
from playproof.game.types import ActionSet, Decoder, Frame

_NO_WINDOWS = ("", " ", "..", "../x", "\0", "a" * 500, "2025-13-45T99:00Z", "\ud800")


def check_sample(case: GameCase) -> Iterator[str]:
    """The sample exercises the game: two windows, decision points in each, and one player who acts."""
    decides = case.game.recording().decides
    if len(case.windows) < 2:
        yield f"expected at least two windows, found {len(case.windows)}"
    for window, events in case.windows.items():
        points = [event for event in events if decides(event)]
        if not points:
            yield f"expected decision points in {window}, found none"
        if any(event.player_id is not None for event in points):
            yield f"expected decision points to be events of the world, found a player's own in {window}"
    players = {event.player_id for event in case.events} - {None}
    if len(players) != 1:
        yield f"expected one recorded player, found {len(players)}"
    for name, actions in case.game.actions.items():
        yield from (f"{name}: {what}" for what in _unread(case, actions))


def _unread(case: GameCase, actions: ActionSet) -> Iterator[str]:
    """Tell whether the recorded player's choices can be read as actions of a set."""
    own = [event for event in case.events if event.player_id is not None]
    chosen = [action for action in map(actions.recorded, own) if action is not None]
    foreign = [action for action in chosen if not actions.holds(action)]
    if actions.read is None and foreign:
        yield f"expected actions of the set, found {foreign[0]!r:.80}"
    if all(actions.waits(action) for action in chosen if actions.holds(action)):
        yield f"expected the recorded player to act, found no choice among {len(own)} events of his own"


def check_decode(case: GameCase) -> Iterator[str]:
    """A decoder is a pure function of the frames so far, and takes any bytes."""
    game, frames = case.game, case.frames
    clean = game.decode(frames)
    if game.decode(frames) != clean:
        yield "expected the same facts from the same frames, found others the second time"
    one, other = game.recording().decoder(), game.recording().decoder()
    if any((one(frame), other(frame)) != (payload, payload) for frame, payload in zip(frames, clean, strict=True)):
        yield "expected two decoders side by side not to disturb each other, found other facts"
    junk = [Frame(frames[0].ts, payload) for payload in JUNK]
    disturbed = game.recording().decoder()
    for number, (frame, fields) in enumerate(zip(frames, clean, strict=True)):
        yield from _undigested(game, disturbed, junk[number % len(junk)])
        if disturbed(frame) != fields:
            yield "expected junk between frames to change nothing, found other facts"
    fresh = game.recording().decoder()
    for frame in (*junk, *(bad for good in frames for bad in spoiled(good))):
        yield from _undigested(game, fresh, frame)


def _undigested(game: Game, decoder: Decoder, frame: Frame) -> Iterator[str]:
    """Feed a bad frame; tell what should not have come of it."""
    try:
        facts = decoder(frame)
    except Exception as error:  # noqa: BLE001 - whatever the game's code raises here is the breach
        yield f"expected any frame to be taken, found {type(error).__name__} for {frame.payload[:60]!r}"
        return
    for fact in facts:
        yield from (f"{text}, from the frame {frame.payload[:60]!r}" for text in misfits(game, fact))


def spoiled(frame: Frame) -> Iterator[Frame]:
    """Give a good frame cut short, with other bytes, with spoiled numbers and with spoiled texts."""
    payload = frame.payload if isinstance(frame.payload, str) else frame.payload.decode("latin-1")
    yield replace(frame, payload=payload[: len(payload) // 2])
    yield replace(frame, payload=payload.encode()[:-1] + b"\xff")
    for bad in ("NaN", "1e999", "-7", "null", '"7"', "[1]", "9" * 30):
        yield replace(frame, payload=re.sub(r"(?<=[:,\s])-?\d+(\.\d+)?(?=[,}\]])", bad, payload))
    for bad in ('""', "null", "3", '"../x"', '"\\\\ud800"', '{"a":[]}'):
        yield replace(frame, payload=re.sub(r'(?<=:)\s*"[^"]*"', bad, payload))


def check_windows(case: GameCase) -> Iterator[str]:
    """Window ids round-trip, what is none is refused, and a time belongs to exactly one window."""
    windows = case.game.windows
    parse = windows.parse
    if not windows.examples:
        yield "expected examples of window ids, found none"
    for text in (*windows.examples, *case.windows):
        window = parse(text)
        if parse(window.window_id) != window:
            yield f"expected {text!r} to round-trip, found {window} read back as {parse(window.window_id)}"
        if window.start is not None and window.start.utcoffset() != timedelta(0):
            yield f"expected the start of {text!r} as aware UTC, found {window.start!r}"
    for text in _NO_WINDOWS:
        try:
            yield f"expected {text[:40]!r} to be refused as a window id, found {parse(text)}"
        except DecodeError:
            continue
    if windows.at is not None:
        yield from _misplaced(case)


def _misplaced(case: GameCase) -> Iterator[str]:
    """Tell which times are not inside the window that they are given."""
    windows = case.game.windows
    assert windows.at is not None
    at, parse = windows.at, windows.parse
    for seconds in (0, 1, 3599, 3600, 86_399, 86_400, 1_700_000_123):
        moment = datetime(2024, 2, 28, tzinfo=UTC) + timedelta(seconds=seconds)
        window = parse(at(moment))
        if window.start is None or windows.length is None:
            yield "expected windows that are found by time to have a start and a length, found neither"
        elif not window.start <= moment < window.start + windows.length or at(window.start) != window.window_id:
            yield f"expected {moment.isoformat()} inside its window, found {window}"
