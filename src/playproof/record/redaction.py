"""Take secrets and other players' names out of a frame's text before anything durable is made of it.

The text is changed where it must be and nowhere else: no number is rewritten, no key is moved, and
text that is no JSON is searched all the same. Redaction comes before decoding, so that what is
stored decodes to exactly the events that were stored with it.
Leaves out: chat texts and other prose, in which anybody can write anything.

Secrets become "[redacted]": the values of secret keys, the whole body of a connect frame that the
client sent, the arguments of an event that logs in, and whatever `secret_rules` take for one. Names and ids of players
become keyed hashes, the same for the same player in every session of a home; the recorded player's
own stay. An `id` is a player's where a name stands beside it and no other player id does.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import orjson

from playproof.errors import StoreError
from playproof.events import Direction
from playproof.record.secret_rules import REDACTED, is_secret_name, names_a_secret, without_secrets

KEY_FILE = "redaction.key"
KEY_BYTES = 32

_NAMES = "username userName user_name displayName display_name nickname playerName player_name"
_IDS = "playerId player_id userId user_id walletAddress wallet_address wallet publicKey public_key did"
NAME_KEYS, ID_KEYS = (frozenset(keys.lower().split()) for keys in (_NAMES, _IDS))
"""In lower case: keys of players' names, keys of their ids."""
PAIR_NAME_KEYS = frozenset(("name", "key", "header", "field", "k"))
PAIR_VALUE_KEYS = frozenset(("value", "val", "v"))
"""Keys of objects that are a name and its value, such as one header."""
_AUTH_EVENTS = """
auth authenticate authorize authorise login log-in signin sign-in logon reauth reauthenticate relogin
"""
AUTH_EVENTS = frozenset(_AUTH_EVENTS.split())
"""Last parts of events' names whose arguments are secrets."""


def _either(words: Set[str]) -> str:
    """Write a pattern for some words, grouped by their first letters, which is many times faster than a list."""
    rest: dict[str, set[str]] = {}
    for word in words - {""}:
        rest.setdefault(word[0], set()).add(word[1:])
    parts = "|".join(re.escape(letter) + _either(tails) for letter, tails in sorted(rest.items()))
    return "" if not rest else f"(?:{parts}){'?' if '' in words else ''}"


_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
_KEYS = re.compile(rf'(?:[^"]++|{_STRING}(?!\s*+:))*+(?:("[^"\\]*+(?:\\.[^"\\]*+)*+")\s*+:|\Z)', re.DOTALL)
"""Everything up to the next key of an object, or to the end."""


@lru_cache(maxsize=256)
def _token_pattern(keys: frozenset[str]) -> re.Pattern[str]:
    """Write the pattern of everything up to the next of some keys, bracket or end; feeds have few sets of keys."""
    key = rf"{_either({literal[:-1] for literal in keys})}\"\s*+:"
    return re.compile(
        rf'(?:[^"{{}}\[\]]++|(?!{key}){_STRING})*+'
        rf"(?:(?P<key>{key})\s*+(?:(?P<text>{_STRING})|(?P<number>-?[0-9][0-9.eE+-]*+))?"
        r"|(?P<open>[{\[])|(?P<shut>[}\]])|\Z)",
        re.DOTALL,
    )


_LIST_STRING = rf"{_STRING}(?!\s*+:)"
_LISTED_PAIR = re.compile(
    rf"(?<=[\[,])(?P<space>\s*+)(?P<name>{_LIST_STRING})(?P<between>\s*+,\s*+)"
    rf"(?P<value>{_LIST_STRING}|-?[0-9][0-9.eE+-]*+)"
)
"""Two neighbours in a list."""
_NESTED = re.compile(r'(?<=[:,\[])(\s*+)("(?:\s|\\[nrt])*+[\[{][^"\\]*+(?:\\.[^"\\]*+)*+")', re.DOTALL)
"""A string that may be JSON itself."""
MOST_NESTED = 8
"""Levels of JSON within strings of JSON that are read; deeper ones are searched as text."""
_EVENT = re.compile(r'(?P<head>4[2356](?:[0-9]+-)?(?:/[^,\["]{0,200},)?[0-9]*\[\s*+)(?P<name>"[^"\\]{1,100}")\s*+[,\]]')
_BETWEEN_STRINGS = b"0123456789.,:[]{}+- \t\r\n"
_IDENTIFIER = re.compile(r"[A-Za-z0-9_.-]+")
_ESCAPED_ASCII = re.compile(r"(?<!\\)((?:\\\\)*)\\u00([2-7][0-9a-fA-F])")
_HASHED = re.compile(r"anon-[0-9a-f]{16}")
_CONNECT = re.compile(r"40(?:/[^,\[{]{0,200},)?(?=[\[{\"])")

_PLAIN, _SECRET, _NAME, _ID, _PAIR_NAME, _PAIR_VALUE = range(6)
_CONTAINERS = frozenset((dict, list))
_SCALARS = frozenset((str, int, float))
_KINDS: dict[str, int] = {}
"""What keys stand for, as far as they were met; keys of feeds are few."""

_HARMLESS: set[str] = set()
"""Strings of feeds that hold no secret."""
_MARKED: set[str] = set()
"""Strings of feeds that are keys of a kind."""

Spot = tuple[int, int, str]
"""From, to, and what stands there instead."""


def load_key(home: Path) -> bytes:
    """Give the home's key for hashing names, made on first use and readable by its owner alone."""
    path = home / KEY_FILE
    try:
        home.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _make_key(path)
        key = path.read_bytes()
    except OSError as error:
        raise StoreError(f"expected a key for hashing names at {path}, found: {error.strerror}") from error
    if len(key) != KEY_BYTES:
        raise StoreError(f"expected {KEY_BYTES} bytes at {path}, found {len(key)}; remove it to make a new key")
    return key


def _make_key(path: Path) -> None:
    """Write a new key under its name at once, so that two recorders that start together share one."""
    made = path.with_name(f".{KEY_FILE}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, secrets.token_bytes(KEY_BYTES))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        os.link(made, path)
    except FileExistsError:
        pass
    finally:
        made.unlink()


def clean_url(url: str) -> str:
    """Give an address without user, password, query and fragment, which may hold secrets."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


@dataclass
class _Level:
    """One object or list that is open at this place of the text."""

    secret_from: int | None = None
    """Where it begins, if it is a secret as a whole."""
    names: list[tuple[int, int, str]] = field(default_factory=list)
    identity: tuple[int, int, str] | None = None
    """The value of `id`."""
    has_other_id: bool = False
    pair_name: bool = False
    """Whether one of its values is the name of a secret."""
    pair_values: list[tuple[int, int]] = field(default_factory=list)


class Redaction:
    """Redact the texts of one recording."""

    def __init__(self, key: bytes, *, keep_names: bool = False, own: Iterable[str] = (), prose: bool = False) -> None:
        self.keep_names = keep_names
        self.prose = prose
        """Private keys may stand anywhere, not only between quotes: for prompts and answers."""
        self.own: frozenset[str] = frozenset(own)
        """Names and ids of the recorded player, which stay."""
        self.pseudonym: Callable[[str], str] = lru_cache(maxsize=8192)(lambda name: _pseudonym(key, name))

    def learn(self, names: Iterable[str]) -> None:
        """Take names as the recorded player's own."""
        self.own = self.own | set(names)

    def clean(self, text: str, direction: Direction = "received") -> str:
        """Give a frame's text without secrets and without other players' names."""
        return self._cleaned(text, direction, 0)

    def _cleaned(self, text: str, direction: Direction, level: int) -> str:
        connect = _CONNECT.match(text) if direction == "sent" else None
        if connect:
            return f'{connect[0]}{{"auth":"{REDACTED}"}}'
        event = _EVENT.match(text)
        if event and _logs_in(_unquoted(event["name"])):
            return f'{event["head"]}{event["name"]},"{REDACTED}"]'
        parts = _string_parts(text)
        if parts is None:
            probe, suspicious = text, names_a_secret(text)
            keys = {key for key in set(_KEYS.findall(text)) - {""} if _kind_of_literal(key) != _PLAIN}
        else:
            probe, suspicious = _probe(parts)
            # Strings that are no keys do no harm here: the pattern asks for the colon.
            keys = {f'"{key}"' for key in parts & _MARKED}
        wanted = frozenset(key for key in keys if self._is_wanted(_kind_of_literal(key), suspicious))
        if wanted:
            text = _replace(text, self._spots(text, wanted))
        if suspicious:
            text = _without_listed(text)
        return self._without_texts(text, probe, level)

    def _is_wanted(self, kind: int, suspicious: bool) -> bool:
        """Tell whether keys of a kind matter in a text; pairs do only where some secret is named."""
        return kind != _PLAIN and (suspicious if kind in (_SECRET, _PAIR_NAME, _PAIR_VALUE) else not self.keep_names)

    def clean_message(self, name: str, data: str) -> tuple[str, object]:
        """Give the frame and the payload of a received message without secrets and names.

        This is `clean` for messages whose payload is at hand, and faster: the payload is read as JSON and, where it
        holds a secret or a name, written anew. Its numbers keep their values, not their texts. A payload that cannot
        be read is searched as text and is None.
        """
        written = orjson.dumps(name).decode()
        if _logs_in(name):
            return f'42[{written},"{REDACTED}"]', REDACTED
        frame = f"42[{written}{',' if data else ''}{data}]"
        try:
            value = orjson.loads(data) if data else None
        except orjson.JSONDecodeError:
            return self.clean(frame), None
        whole = [name, value] if data else [name]
        if self.clean_value(whole):
            frame = f"42{orjson.dumps(whole).decode()}"
        cleaned = self._without_texts(frame, _probe(_split(frame))[0] if "\\" not in frame else frame, 0)
        if cleaned is not frame and cleaned != frame:  # a secret in a text: what is read must be what is kept
            whole = orjson.loads(cleaned[2:])
        return cleaned, whole[1] if data else None

    def _without_texts(self, text: str, probe: str, level: int) -> str:
        """Take secrets out of the strings of a text: those that are JSON, those that are prose."""
        if '\\"' in text and level < MOST_NESTED:
            text = _NESTED.sub(lambda match: match[1] + self._without_nested(match[2], level), text)
        if "\\u00" in text:
            # Letters may be written as escapes; the text is changed only if that hid a secret.
            plain = _ESCAPED_ASCII.sub(_unescaped, text)
            cleaned = without_secrets(plain, prose=self.prose)
            return text if cleaned == plain else cleaned
        return without_secrets(text, probe, prose=self.prose)

    def _without_nested(self, literal: str, level: int) -> str:
        inner = _unquoted(literal)
        cleaned = self._cleaned(inner, "none", level + 1)
        return literal if cleaned == inner else _quoted(cleaned)

    def clean_value(self, value: object) -> bool:
        """Redact a value read from JSON in its own lists and objects; tell whether anything was changed."""
        changed = False
        if type(value) is list:
            types = set(map(type, value))  # most lists are prices, and need no look at each of them
            if not types.isdisjoint(_CONTAINERS):
                for item in value:
                    if type(item) in _CONTAINERS and self.clean_value(item):
                        changed = True
            if str in types and len(value) > 1:
                changed |= _clean_listed(value)
            return changed
        if type(value) is not dict:
            return False
        marked: list[tuple[int, str]] = []
        kinds, containers = _KINDS, _CONTAINERS
        for key, item in value.items():
            kind = kinds.get(key)
            if kind is None:
                kind = kinds[key] = _kind_of(key)
            if type(item) in containers and kind != _SECRET:
                if self.clean_value(item):
                    changed = True
            elif kind:
                marked.append((kind, key))
        return self._clean_marked(value, marked) or changed if marked else changed

    def _clean_marked(self, value: dict[str, object], marked: list[tuple[int, str]]) -> bool:  # noqa: PLR0912  (hot)
        """Redact the values of an object's keys of some kind; tell whether any was changed."""
        changed = pair_name = has_other_id = False
        names: list[str] = []
        for kind, key in marked:
            item = value[key]
            if kind == _SECRET:
                if item is not None and item is not True and item is not False:
                    value[key], changed = REDACTED, True
            elif type(item) not in _SCALARS:
                continue
            elif kind == _PAIR_NAME:
                pair_name |= type(item) is str and is_secret_name(item)
            elif kind != _PAIR_VALUE:
                names.append(key)
                has_other_id |= kind == _ID
        if pair_name:
            for kind, key in marked:
                if kind == _PAIR_VALUE and type(value[key]) in _SCALARS:
                    value[key], changed = REDACTED, True
        if self.keep_names or not names:
            return changed
        if not has_other_id and type(value.get("id")) in _SCALARS:
            names.append("id")
        texts = [str(value[key]) for key in names]
        if not self.own.isdisjoint(texts):
            return changed
        for key, text in zip(names, texts, strict=True):
            value[key] = self.pseudonym(text)
        return True

    def _spots(self, text: str, wanted: frozenset[str]) -> Iterator[Spot]:
        """Find what has to be replaced, in no order."""
        levels, kind_of_key, key_end = [_Level()], _PLAIN, -1
        for match in _token_pattern(wanted).finditer(text):
            kind = match.lastgroup
            if kind == "open":
                is_secret = match.start("open") == key_end and kind_of_key == _SECRET
                levels.append(_Level(match.start("open") if is_secret else None))
            elif kind == "shut":
                yield from self._close(levels, match.end())
            elif kind is not None:
                kind_of_key, key_end = _kind_of_literal(match["key"][:-1].rstrip()), match.end()
                if kind != "key":
                    is_id = _unquoted(match["key"][:-1].rstrip()) == "id"
                    yield from self._value(levels[-1], kind_of_key, is_id, *match.span(kind), match[kind])
        for level in levels:
            yield from self._close([level, level], len(text))

    def _value(self, level: _Level, kind: int, is_id: bool, start: int, end: int, value: str) -> Iterator[Spot]:
        """Take one value: a secret goes at once, a name or the value of a pair when its object is known."""
        if kind == _SECRET:
            yield start, end, f'"{REDACTED}"'
        elif kind == _PAIR_NAME:
            level.pair_name |= value.startswith('"') and is_secret_name(_unquoted(value))
        elif kind == _PAIR_VALUE:
            level.pair_values.append((start, end))
        elif self.keep_names:
            return
        elif is_id:
            level.identity = (start, end, _plain_text(value))
        elif kind in (_NAME, _ID):
            level.names.append((start, end, _plain_text(value)))
            level.has_other_id |= kind == _ID

    def _close(self, levels: list[_Level], end: int) -> Iterator[Spot]:
        """Give the names of an object that ends here; all of them stay if it is the recorded player's."""
        level = levels.pop() if len(levels) > 1 else levels[0]
        if level.secret_from is not None:
            yield level.secret_from, end, f'"{REDACTED}"'
        if level.pair_name:
            yield from ((start, stop, f'"{REDACTED}"') for start, stop in level.pair_values)
        names = list(level.names)
        if level.identity and names and not level.has_other_id:
            names.append(level.identity)
        if any(name in self.own for _, _, name in names):
            return
        for start, stop, name in names:
            yield start, stop, f'"{self.pseudonym(name)}"'


def _kind_of(key: str) -> int:
    """Tell what a key stands for."""
    small = key.lower()
    if len(_KINDS) > 10_000:  # keys that somebody made up
        _KINDS.clear()
    if is_secret_name(key):
        return _SECRET
    for kind, keys in (
        (_NAME, NAME_KEYS),
        (_ID, ID_KEYS),
        (_PAIR_NAME, PAIR_NAME_KEYS),
        (_PAIR_VALUE, PAIR_VALUE_KEYS),
    ):
        if small in keys:
            return kind
    return _PLAIN


@lru_cache(maxsize=10_000)
def _kind_of_literal(literal: str) -> int:
    """Tell what a key stands for as it is written, quotes and escapes included; `id` may be a player's."""
    key = _unquoted(literal)
    return _ID_ALONE if key == "id" else _kind_of(key)


_ID_ALONE = 6


def _split(json_text: str) -> set[str]:
    """Give the strings of a JSON text without escapes, in which every second part between quotes is one."""
    return set(json_text.split('"')[1::2])


def _string_parts(text: str) -> set[str] | None:
    """Give the strings of a text that holds nothing but JSON's signs, numbers and words beside them, else None."""
    if "\\" in text:
        return None
    parts = text.split('"')
    between = "".join(parts[0::2]).encode("utf-8", "replace").translate(None, _BETWEEN_STRINGS)
    if between and between.replace(b"true", b"").replace(b"false", b"").replace(b"null", b"").strip(b"eE"):
        return None
    return set(parts[1::2]) if len(parts) % 2 else None


def _probe(parts: set[str]) -> tuple[str, bool]:
    """Give the strings in which secrets may be, and whether the name of a secret is among them.

    Strings in which there is none are remembered: those of feeds are few, and looking at each of them again is dear.
    """
    fresh = parts - _HARMLESS
    if not fresh:
        return "", False
    if len(_HARMLESS) > 20_000:  # strings that come once, such as ids
        _HARMLESS.clear()
    left = [part for part in fresh if not _is_harmless(part)]
    probe = "\n".join(left)
    return probe, bool(left) and names_a_secret(f'{probe}"')


def _is_harmless(part: str) -> bool:
    """Tell whether a string neither is nor holds a secret, and remember it if so."""
    kind = _kind_of(part)
    if kind != _PLAIN or part == "id":
        if len(_MARKED) > 20_000:
            _MARKED.clear()
            _HARMLESS.clear()
        _MARKED.add(part)
    is_word = len(part) <= 64 and _IDENTIFIER.fullmatch(part) is not None
    if kind == _SECRET or (not is_word and names_a_secret(part)) or without_secrets(part, prose=True) != part:
        return False
    if len(part) <= 64:
        _HARMLESS.add(part)
    return True


def _logs_in(event: str) -> bool:
    """Tell whether an event carries what somebody logs in with."""
    return re.split(r"[/:. ]", event)[-1].lower().replace("_", "-") in AUTH_EVENTS


def _clean_listed(items: list[object]) -> bool:
    """Redact values that stand behind the name of a secret in a list; tell whether there were any."""
    changed = False
    for index, item in enumerate(items[1:], 1):
        before = items[index - 1]
        is_name = type(item) is str and (item == REDACTED or is_secret_name(item))
        if type(before) is str and type(item) in _SCALARS and is_secret_name(before) and not is_name:
            items[index], changed = REDACTED, True
    return changed


def _without_listed(text: str) -> str:
    """Take out values that stand behind the name of a secret in a list."""
    start, spots = 0, list[Spot]()
    while match := _LISTED_PAIR.search(text, start):
        value = _unquoted(match["value"])
        start = match.end("name")  # the value may be the name of the next one
        is_name = match["value"].startswith('"') and is_secret_name(value)
        if is_secret_name(_unquoted(match["name"])) and value != REDACTED and not is_name:
            spots.append((*match.span("value"), f'"{REDACTED}"'))
    return _replace(text, spots)


def _unescaped(match: re.Match[str]) -> str:
    """Write an escaped letter, digit or sign as itself; quotes and backslashes stay escaped."""
    letter = chr(int(match[2], 16))
    return match[0] if letter in '"\\\x7f' else match[1] + letter


def _pseudonym(key: bytes, name: str) -> str:
    """Hash a name with a key; what is hashed already, or empty, stays as it is."""
    if not name or _HASHED.fullmatch(name):
        return name
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), key=key, digest_size=8)
    return f"anon-{digest.hexdigest()}"


def _unquoted(literal: str) -> str:
    """Read a JSON text, or give what stands between its quotes if it is none."""
    if "\\" not in literal:
        return literal.strip('"')
    try:
        read = orjson.loads(literal)
    except orjson.JSONDecodeError:
        return literal.strip('"')
    return read if isinstance(read, str) else literal


def _plain_text(literal: str) -> str:
    """Give what a string or a number is as text, the same for all ways to write it."""
    if literal.startswith('"'):
        return _unquoted(literal)
    try:
        return str(orjson.loads(literal))
    except orjson.JSONDecodeError:
        return literal


def _quoted(text: str) -> str:
    """Write a JSON string; a lone surrogate, which no JSON text can hold as itself, stays an escape."""
    try:
        return orjson.dumps(text).decode()
    except orjson.JSONEncodeError:
        return json.dumps(text)


def _replace(text: str, spots: Iterable[Spot]) -> str:
    """Put replacements into a text."""
    pieces, done = [], 0
    for start, end, instead in sorted(spots):
        if start >= done:
            pieces += [text[done:start], instead]
            done = end
    return "".join([*pieces, text[done:]])
