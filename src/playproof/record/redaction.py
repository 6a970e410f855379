"""Take secrets and other players' names out of a frame's text before anything durable is made of it.

The text is changed where it must be and nowhere else: no number is rewritten, no key is moved, and
text that is no JSON is searched all the same. Redaction comes before decoding, so that what is
stored decodes to exactly the events that were stored with it.
Leaves out: chat texts and other prose, in which anybody can write anything.

Secrets become "[redacted]": the values of secret keys, the whole body of a connect frame that the
client sent, and whatever looks like a signed token, an API key or a private key. Names and ids of players
become keyed hashes, the same for the same player in every session of a home; the recorded player's
own stay. An `id` is a player's where a name stands beside it and no other player id does.
"""

from __future__ import annotations

import hashlib
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

REDACTED = "[redacted]"
KEY_FILE = "redaction.key"
KEY_BYTES = 32

_SECRETS = """
token accessToken access_token refreshToken refresh_token idToken id_token authToken auth_token jwt auth
authorization cookie cookies set-cookie password passwd passphrase secret clientSecret client_secret apiKey
api_key api-key x-api-key privateKey private_key secretKey secret_key mnemonic seedPhrase seed_phrase sid
sessionId session_id sessionToken session_token csrf csrfToken csrf_token
"""
_NAMES = "username userName user_name displayName display_name nickname playerName player_name"
_IDS = "playerId player_id userId user_id walletAddress wallet_address wallet publicKey public_key did"
SECRET_KEYS, NAME_KEYS, ID_KEYS = (frozenset(keys.lower().split()) for keys in (_SECRETS, _NAMES, _IDS))
"""In lower case: keys whose values are never stored, keys of players' names, keys of their ids."""


def _spellings(keys: str) -> set[str]:
    """Give keys in the spellings in which feeds write them."""
    return {spelt for key in keys.split() for spelt in (key, key.lower(), key.upper(), key[0].upper() + key[1:])}


def _either(words: Set[str]) -> str:
    """Write a pattern for some words, grouped by their first letters, which is many times faster than a list."""
    rest: dict[str, set[str]] = {}
    for word in words - {""}:
        rest.setdefault(word[0], set()).add(word[1:])
    parts = "|".join(re.escape(letter) + _either(tails) for letter, tails in sorted(rest.items()))
    return "" if not rest else f"(?:{parts}){'?' if '' in words else ''}"


_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
_WANTED = _either(_spellings(f"{_SECRETS} {_NAMES} {_IDS} id"))
_KEY = rf'"(?:{_WANTED}|[^"\\]*+\\.[^"\\]*+(?:\\.[^"\\]*+)*+)"\s*+:'
"""A key that matters, or one that is written with escapes and may."""
_TOKEN = re.compile(
    rf'(?:[^"{{}}\[\]]++|(?!{_KEY}){_STRING})*+'
    rf"(?:(?P<key>{_KEY})\s*+(?:(?P<text>{_STRING})|(?P<number>-?[0-9][0-9.eE+-]*+))?"
    r"|(?P<open>[{\[])|(?P<shut>[}\]])|\Z)",
    re.DOTALL,
)
"""Everything up to the next key that matters, bracket or end."""
BASE_58 = "[1-9A-HJ-NP-Za-km-z]{87,88}"
"""A private key in base 58."""
_API_KEYS = (
    (("sk-",), re.compile(r"\bsk-[A-Za-z0-9_-]{16,}")),
    (("hf_",), re.compile(r"\bhf_[A-Za-z0-9]{24,}")),
    (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), re.compile(r"\bgh[pousr]_[A-Za-z0-9]{30,}")),
    (("xox",), re.compile(r"\bxox[abprs]-[A-Za-z0-9-]{10,}")),
    (("AKIA",), re.compile(r"\bAKIA[A-Z0-9]{16}\b")),
    (("AIza",), re.compile(r"\bAIza[A-Za-z0-9_-]{30,}")),
    (("PRIVATE KEY",), re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^\"]*")),
)
"""What API keys and private keys hold, and how they look."""
_TOKENS = (
    (("eyJ",), re.compile(r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}")),
    (("earer ",), re.compile(r"[Bb]earer +[A-Za-z0-9._~+/=-]{8,}")),
)
"""Signed tokens, and what follows Bearer."""
SECRET_SIGNS = tuple(sign for signs, _ in (*_API_KEYS, *_TOKENS) for sign in signs)
"""What every text with such a secret holds."""
_QUOTED_BASE_58 = re.compile(rf'"{BASE_58}"')
_BARE_BASE_58 = re.compile(rf"(?<![0-9A-Za-z]){BASE_58}(?![0-9A-Za-z])")
_INTERESTING = re.compile(rf'"{_WANTED}"\s*+:|\\u00')
_HASHED = re.compile(r"anon-[0-9a-f]{16}")
_CONNECT = re.compile(r"40(?:/[^,\[{]{0,200},)?(?=[\[{\"])")

_SECRET, _NAME, _ID, _PLAIN = range(4)
_CONTAINERS = frozenset((dict, list))
_KINDS: dict[str, int] = {}
"""What keys stand for, as far as they were met; keys of feeds are few."""

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


class Redaction:
    """Redact the texts of one recording."""

    def __init__(self, key: bytes, *, keep_names: bool = False, own: Iterable[str] = (), prose: bool = False) -> None:
        self.keep_names = keep_names
        self.prose = prose
        """Private keys may stand anywhere, not only between quotes: for prompts and answers."""
        self.own: Set[str] = frozenset(own)
        """Names and ids of the recorded player, which stay."""
        self.pseudonym: Callable[[str], str] = lru_cache(maxsize=8192)(lambda name: _pseudonym(key, name))

    def learn(self, names: Iterable[str]) -> None:
        """Take names as the recorded player's own."""
        self.own = self.own | set(names)

    def clean(self, text: str, direction: Direction = "received") -> str:
        """Give a frame's text without secrets and without other players' names."""
        connect = _CONNECT.match(text) if direction == "sent" else None
        if connect:
            return f'{connect[0]}{{"auth":"{REDACTED}"}}'
        text = _without(text, _API_KEYS)
        if self.prose:
            text = _BARE_BASE_58.sub(REDACTED, text)
        if _INTERESTING.search(text):
            text = _replace(text, self._spots(text))
        text = _without(text, _TOKENS)
        return _QUOTED_BASE_58.sub(f'"{REDACTED}"', text)

    def clean_message(self, name: str, data: str) -> tuple[str, object]:
        """Give the frame and the payload of a received message without secrets and names.

        This is `clean` for messages whose payload is at hand, and faster: the payload is read as JSON and, where it
        holds a secret or a name, written anew. Its numbers keep their values, not their texts. A payload that cannot
        be read is searched as text and is None.
        """
        frame = f"42[{orjson.dumps(name).decode()}{',' if data else ''}{data}]"
        try:
            value = orjson.loads(data) if data else None
        except orjson.JSONDecodeError:
            return self.clean(frame), None
        if self._clean_value(value):
            frame = f"42{orjson.dumps([name, value]).decode()}"
        cleaned = self._without_tokens(frame)
        if cleaned != frame:  # a token in a text: what is read must be what is kept
            value = orjson.loads(cleaned[2:])[-1]
        return cleaned, value

    def _without_tokens(self, text: str) -> str:
        for sign in SECRET_SIGNS:
            if sign in text:
                text = _without(_without(text, _API_KEYS), _TOKENS)
                break
        return _QUOTED_BASE_58.sub(f'"{REDACTED}"', text)

    def _clean_value(self, value: object) -> bool:  # noqa: PLR0912  (one pass over every value: hot)
        """Redact a value read from JSON in its own lists and objects; tell whether anything was changed."""
        changed, names, has_other_id = False, list[str](), False
        if type(value) is list:
            for item in value:
                if type(item) in _CONTAINERS and self._clean_value(item):
                    changed = True
        elif type(value) is dict:
            for key, item in value.items():
                kind = _KINDS.get(key)
                if kind is None:
                    kind = _KINDS[key] = _kind_of(key)
                if kind == _SECRET:
                    value[key], changed = REDACTED, True
                elif type(item) in _CONTAINERS:
                    changed |= self._clean_value(item)
                elif kind != _PLAIN:
                    names.append(key)
                    has_other_id |= kind == _ID
        if self.keep_names or not names or type(value) is not dict:
            return changed
        if "id" in value and not has_other_id:
            names.append("id")
        texts = {key: value[key] if isinstance(value[key], str) else str(value[key]) for key in names}
        if any(text in self.own for text in texts.values()):
            return changed
        for key, text in texts.items():
            if isinstance(value[key], str) or (isinstance(value[key], int | float) and value[key] is not True):
                value[key] = self.pseudonym(text)
                changed = True
        return changed

    def _spots(self, text: str) -> Iterator[Spot]:
        """Find what has to be replaced, in no order."""
        levels, key, key_end = [_Level()], "", -1
        for match in _TOKEN.finditer(text):
            kind = match.lastgroup
            if kind == "open":
                is_secret = match.start("open") == key_end and key in SECRET_KEYS
                levels.append(_Level(match.start("open") if is_secret else None))
            elif kind == "shut":
                yield from self._close(levels, match.end())
            elif kind is not None:
                key, key_end = _unquoted(match["key"][:-1].rstrip()).lower(), match.end()
                if kind != "key":
                    yield from self._value(levels[-1], key, *match.span(kind), match[kind])
        for level in levels:
            yield from self._close([level, level], len(text))

    def _value(self, level: _Level, key: str, start: int, end: int, value: str) -> Iterator[Spot]:
        """Take one value: a secret goes at once, a name when its object is known."""
        if key in SECRET_KEYS:
            yield start, end, f'"{REDACTED}"'
        elif self.keep_names:
            return
        elif key in NAME_KEYS or key in ID_KEYS:
            level.names.append((start, end, _unquoted(value)))
            level.has_other_id |= key in ID_KEYS
        elif key == "id":
            level.identity = (start, end, _unquoted(value))

    def _close(self, levels: list[_Level], end: int) -> Iterator[Spot]:
        """Give the names of an object that ends here; all of them stay if it is the recorded player's."""
        level = levels.pop() if len(levels) > 1 else levels[0]
        if level.secret_from is not None:
            yield level.secret_from, end, f'"{REDACTED}"'
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
    return _SECRET if small in SECRET_KEYS else _NAME if small in NAME_KEYS else _ID if small in ID_KEYS else _PLAIN


def _without(text: str, shapes: Iterable[tuple[tuple[str, ...], re.Pattern[str]]]) -> str:
    """Take secrets of some shapes out; a pattern is tried only where a text holds its sign."""
    for signs, pattern in shapes:
        if any(sign in text for sign in signs):
            text = pattern.sub(REDACTED, text)
    return text


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


def _replace(text: str, spots: Iterable[Spot]) -> str:
    """Put replacements into a text."""
    pieces, done = [], 0
    for start, end, instead in sorted(spots):
        if start >= done:
            pieces += [text[done:start], instead]
            done = end
    return "".join([*pieces, text[done:]])
