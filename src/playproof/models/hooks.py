"""Tell others that a pointer was moved: webhooks that are signed, and commands.

They stand in `playproof.toml` of the home:

    [[models.hooks]]
    url = "https://example.org/hook"
    secret_variable = "PLAYPROOF_HOOK_SECRET"

    [[models.hooks]]
    command = ["./restart-bot", "--graceful"]
    seconds = 20

A webhook gets the change as JSON with `X-Playproof-Time` and `X-Playproof-Signature: sha256=...`, the HMAC of time, a
dot and the body. A command gets the same JSON on its standard input and is run without a shell. A hook that fails is
reported; the change stays, and the other hooks are still called. Secrets stand in environment variables only.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import subprocess
import tomllib
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import orjson

from playproof.errors import ConfigError
from playproof.game.markets.declaration import FILE
from playproof.home import home
from playproof.models.registry import PointerChange

TIME_HEADER, SIGNATURE_HEADER = "X-Playproof-Time", "X-Playproof-Signature"
SECONDS = 10.0
MOST_SECONDS = 300.0
_KEYS = ("url", "secret_variable", "command", "seconds")


@dataclass(frozen=True)
class ChangeHook:
    """Who is told of a change: an address or a command."""

    url: str = ""
    secret_variable: str = ""
    """Environment variable with the key of the signature."""
    command: tuple[str, ...] = ()
    seconds: float = SECONDS
    """After which it counts as failed."""

    @property
    def label(self) -> str:
        """Give what messages call it: no path or query, which may hold a secret."""
        if self.command:
            return self.command[0]
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname}"


@dataclass(frozen=True)
class HookResult:
    """What became of one hook."""

    hook: str
    problem: str | None
    """None if it took the change."""


def read_hooks(root: Path | None = None) -> tuple[ChangeHook, ...]:
    """Read the hooks of a home; none where it declares none."""
    path = (root or home()) / FILE
    if not path.exists():
        return ()
    try:
        payload = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"expected TOML in {path}, found: {error}; correct it") from None
    models = payload.get("models", {})
    tables = models.get("hooks", []) if isinstance(models, Mapping) else None
    if not isinstance(tables, list):
        raise ConfigError(f"expected tables [[models.hooks]] in {path}, found {tables!r:.60}")
    return tuple(_hook(table, path) for table in tables)


def _hook(table: object, path: Path) -> ChangeHook:
    def check(right: bool, expected: str) -> None:
        if not right:
            raise ConfigError(f"expected [[models.hooks]] in {path} to have {expected}, found {table!r:.120}")

    check(isinstance(table, Mapping) and set(table) <= set(_KEYS), f"only {', '.join(_KEYS)}")
    assert isinstance(table, Mapping)
    url, command, seconds = table.get("url", ""), table.get("command", []), table.get("seconds", SECONDS)
    secret = table.get("secret_variable", "")
    check(bool(url) != bool(command), "either url or command")
    check(isinstance(command, list) and all(isinstance(word, str) for word in command), "command as a list of words")
    check(isinstance(url, str) and isinstance(secret, str), "url and secret_variable as texts")
    check(not url or urlsplit(url).scheme in ("http", "https"), "an http or https url")
    check(bool(secret) == bool(url), "secret_variable with a url, and only there")
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    check(number and 0 < seconds <= MOST_SECONDS, f"seconds up to {MOST_SECONDS:.0f}")
    return ChangeHook(url, secret, tuple(command), float(seconds))


def call_hooks(
    hooks: Sequence[ChangeHook], change: PointerChange, environment: Mapping[str, str] | None = None
) -> tuple[HookResult, ...]:
    """Call every hook with a change that is committed; whatever goes wrong with one is its result."""
    known = os.environ if environment is None else environment
    body = orjson.dumps({"event": "pointer", **vars(change)})
    return tuple(HookResult(hook.label, _call(hook, change, body, known)) for hook in hooks)


def _call(hook: ChangeHook, change: PointerChange, body: bytes, environment: Mapping[str, str]) -> str | None:
    """Call one hook; give what went wrong."""
    try:
        if hook.command:
            subprocess.run(  # noqa: S603 - the owner's own words, without a shell
                hook.command, input=body, capture_output=True, timeout=hook.seconds, check=True
            )
            return None
        secret = environment.get(hook.secret_variable, "")
        if not secret:
            return f"expected a secret in {hook.secret_variable}, found none: nothing was sent"
        time = change.changed_at.isoformat()
        headers = {
            "Content-Type": "application/json",
            TIME_HEADER: time,
            SIGNATURE_HEADER: f"sha256={sign(secret, time, body)}",
        }
        request = urllib.request.Request(hook.url, body, headers, method="POST")  # noqa: S310 - checked when read
        with _OPENER.open(request, timeout=hook.seconds):
            return None
    except (subprocess.SubprocessError, OSError, ValueError) as error:
        return _problem(hook, error)


def _problem(hook: ChangeHook, error: Exception) -> str:
    """Say what went wrong; an address is not repeated, since it may hold a secret."""
    match error:
        case subprocess.CalledProcessError():
            return f"ended with exit code {error.returncode}"
        case subprocess.TimeoutExpired():
            return f"did not end within {hook.seconds:g} s"
        case urllib.error.HTTPError():
            error.close()
            return f"answered {error.code}"
        case urllib.error.URLError():
            return f"cannot be reached: {error.reason}"[:200]
    return f"{type(error).__name__}: {getattr(error, 'strerror', None) or error}"[:200]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follow nobody elsewhere: a signed body is for the address that was configured."""

    def redirect_request(self, *_args: object, **_named: object) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


def sign(secret: str, time: str, body: bytes) -> str:
    """Give the signature of a change, as a receiver computes it again."""
    return hmac.new(secret.encode(), time.encode() + b"." + body, hashlib.sha256).hexdigest()
