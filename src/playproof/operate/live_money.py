"""What live money needs: all of it, or nothing leaves. There is no override, and nothing here sends an order."""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from playproof.errors import ConfigError, GateFailed
from playproof.money import show
from playproof.operate.limits import SHARE, OrderLimits
from playproof.operate.notify import FILE

VARIABLE = "PLAYPROOF_LIVE_MONEY"
VALUE = "yes"
YOUNGEST_DAYS = 7
VERDICT = "EDGE SHOWN"


@dataclass(frozen=True)
class LiveRequest:
    """Somebody who wants to play for money."""

    policy_hash: str
    bankroll: int
    """In units."""
    limits: OrderLimits
    phrase: str
    """What the person typed."""
    report: Path | None
    """report.json of a validation."""


def live_phrase(bankroll: int, limits: OrderLimits) -> str:
    """Give the phrase to type: it names the largest loss that the limits allow."""
    return f"I may lose {show(bankroll * limits.total_loss // SHARE)} coins"


def missing_for_live(
    asked: LiveRequest, home: Path, now: datetime, environ: Mapping[str, str] | None = None
) -> list[str]:
    """Name everything that is missing; empty only where all of it is there."""
    environ = os.environ if environ is None else environ
    missing = []
    if _mode(home) != "live":
        missing.append(f'[bot] mode = "live" in {home / FILE}')
    if environ.get(VARIABLE) != VALUE:
        missing.append(f"the environment variable {VARIABLE}={VALUE}")
    phrase = live_phrase(asked.bankroll, asked.limits)
    if asked.phrase != phrase:
        missing.append(f"the typed phrase {phrase!r}")
    return missing + _missing_of_report(asked, now)


def _missing_of_report(asked: LiveRequest, now: datetime) -> list[str]:
    if asked.report is None or not asked.report.exists():
        return [f"a validation report (report.json) with the verdict {VERDICT}"]
    try:
        payload: dict[str, Any] = json.loads(asked.report.read_text(encoding="utf-8"))
        verdict, policy, stated = payload["verdict"], payload["policy"]["hash"], payload.pop("report_hash")
        written = datetime.fromtimestamp(asked.report.stat().st_mtime, UTC)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return [f"a validation report that can be read; {asked.report}: {type(error).__name__}: {error}"]
    missing = []
    if hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest() != stated:
        missing.append("a report as it was written; its own hash does not fit")
    if verdict != VERDICT:
        missing.append(f"the verdict {VERDICT}; the report says {verdict}")
    if policy != asked.policy_hash:
        missing.append(f"a report on this policy, {asked.policy_hash[:12]}; it is on {str(policy)[:12]}")
    if not timedelta(0) <= now - written <= timedelta(days=YOUNGEST_DAYS):
        missing.append(f"a report younger than {YOUNGEST_DAYS} days; its file is of {written.isoformat()}")
    return missing


def check_live(asked: LiveRequest, home: Path, now: datetime) -> None:
    """Refuse live money unless everything is there; exit code 2."""
    missing = missing_for_live(asked, home, now)
    if missing:
        raise GateFailed("live money is refused; missing: " + "; ".join(missing))


def _mode(home: Path) -> str:
    path = home / FILE
    if not path.exists():
        return "paper"
    try:
        return str(tomllib.loads(path.read_text(encoding="utf-8")).get("bot", {}).get("mode", "paper"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"expected TOML in {path}, found: {error}") from None


def read_limits(home: Path) -> OrderLimits:
    """Read [bot.limits] of the home's playproof.toml over the defaults; unknown names are refused."""
    path = home / FILE
    if not path.exists():
        return OrderLimits()
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("bot", {}).get("limits", {})
        limits = OrderLimits(**table)
    except (tomllib.TOMLDecodeError, TypeError) as error:
        raise ConfigError(f"expected [bot.limits] with fields of OrderLimits in {path}, found: {error}") from None
    wrong = [
        name for name, value in table.items() if type(value) is not type(getattr(OrderLimits(), name)) or value < 0
    ]
    if wrong:
        raise ConfigError(
            f"expected whole numbers from 0 on in [bot.limits] of {path}, found others: {', '.join(wrong)}"
        )
    return limits
