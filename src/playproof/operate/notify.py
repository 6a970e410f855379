"""Tell people: by webhook (signed), by e-mail and on the desktop. Nothing ever waits for it, and no secret is logged.

In `playproof.toml` of the home:

    [notify]
    webhook = "https://example.invalid/hook"
    email = "ann@example.invalid"
    smtp = "localhost:25"
    sender = "playproof@example.invalid"
    desktop = true

Secrets come from the environment: PLAYPROOF_WEBHOOK_KEY signs (`X-Playproof-Signature: sha256=...` over the body),
PLAYPROOF_SMTP_USER and PLAYPROOF_SMTP_PASSWORD log in.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import shutil
import smtplib
import subprocess
import tomllib
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import orjson

from playproof.errors import ConfigError
from playproof.json_types import Json

FILE = "playproof.toml"
KEY, USER, PASSWORD = "PLAYPROOF_WEBHOOK_KEY", "PLAYPROOF_SMTP_USER", "PLAYPROOF_SMTP_PASSWORD"
TIMEOUT = 5.0
SIGNATURE = "X-Playproof-Signature"


@dataclass(frozen=True)
class NotifyConfig:
    """Who is told, and how; empty is not at all."""

    webhook: str = ""
    email: str = ""
    smtp: str = "localhost:25"
    sender: str = "playproof@localhost"
    desktop: bool = False

    def __post_init__(self) -> None:
        if self.webhook and not self.webhook.startswith(("http://", "https://")):
            raise ConfigError(f"expected notify.webhook to be an address of http or https, found {self.webhook!r}")


def read_config(home: Path) -> NotifyConfig:
    """Read the table `notify` of the home's playproof.toml."""
    path = home / FILE
    if not path.exists():
        return NotifyConfig()
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("notify", {})
        return NotifyConfig(**table)
    except (tomllib.TOMLDecodeError, TypeError) as error:
        raise ConfigError(f"expected a table [notify] with webhook, email, smtp, sender, desktop: {error}") from None


def notify(what: str, payload: Mapping[str, Any], home: Path) -> Json:
    """Tell everybody who is to be told; give what failed, by way. Never raises for a way that does not work."""
    config = read_config(home)
    body = orjson.dumps({"what": what, **payload}, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    ways: dict[str, Callable[[], None]] = {}
    if config.webhook:
        ways["webhook"] = lambda: post_signed(config.webhook, body)
    if config.email:
        ways["email"] = lambda: _send_mail(config, what, body)
    if config.desktop and shutil.which("notify-send"):
        ways["desktop"] = lambda: _show(what, body)
    result: Json = {}
    for name, way in ways.items():
        try:
            way()
            result[name] = "sent"
        except Exception as error:  # noqa: BLE001  # a notification is never a reason to stop
            result[name] = type(error).__name__  # the text may hold an address with a token
    return result


def signature(body: bytes, key: str) -> str:
    """Give the header's value for a body."""
    return "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()


def post_signed(url: str, body: bytes) -> None:
    """Post JSON to a webhook, signed where there is a key; raises where it was not taken."""
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get(KEY):
        headers[SIGNATURE] = signature(body, key)
    request = urllib.request.Request(url, body, headers, method="POST")  # noqa: S310 - http(s), as the config holds it
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310
        answer.read(1024)


def _send_mail(config: NotifyConfig, what: str, body: bytes) -> None:
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = f"playproof: {what}", config.sender, config.email
    message.set_content(body.decode())
    host, _, port = config.smtp.partition(":")
    with smtplib.SMTP(host, int(port or 25), timeout=TIMEOUT) as server:
        if user := os.environ.get(USER):
            server.starttls()
            server.login(user, os.environ.get(PASSWORD, ""))
        server.send_message(message)


def _show(what: str, body: bytes) -> None:
    subprocess.run(["notify-send", f"playproof: {what}", body.decode()[:200]], check=True, timeout=TIMEOUT)  # noqa: S603, S607
