"""What forms of the dashboard do: put jobs in, mark trajectories, cancel and retry, give links.

An action that cannot be taken back gives a second page first, which names what will happen; its form carries `sure`.
Every job is a command line that the job queue checks again.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from playproof.dashboard.access import ROLES, DashboardRole, DashboardSession
from playproof.dashboard.context import DashboardContext
from playproof.dashboard.marks import mark_trajectory
from playproof.dashboard.shell import Block, Field, Form, Link, Page
from playproof.errors import InputError, UnknownName
from playproof.home import check_id
from playproof.models import changing
from playproof.models.registry import Registry
from playproof.operate import state as bots
from playproof.operate.jobs import queue
from playproof.operate.state import read_bots

LIVE = "live"
"""The alias that plays for money: its name has to be typed."""


@dataclass(frozen=True)
class ActionRequest:
    """A form that was sent by somebody who may."""

    context: DashboardContext
    session: DashboardSession
    values: Mapping[str, str]
    link: Callable[[DashboardRole], str]
    now: datetime

    def text(self, name: str, default: str = "") -> str:
        """Give a field, trimmed."""
        return self.values.get(name, default).strip()

    @property
    def sure(self) -> bool:
        """Tell whether this is the second page's form."""
        return self.text("sure") == "yes"


@dataclass(frozen=True)
class Redirection:
    """Where to go afterwards, and what to say there."""

    to: str
    text: str = ""


@dataclass(frozen=True)
class FormAction:
    """One thing that a form does."""

    role: DashboardRole
    run: Callable[[ActionRequest], Redirection | Page]


def start(asked: ActionRequest, words: Sequence[str]) -> Redirection:
    """Put a job in; a form that is sent twice makes one job."""
    once = asked.text("once")
    identity = once if re.fullmatch(r"[0-9a-f]{16}", once) else None
    context = asked.context
    job = queue.enqueue(context.engine, context.root, list(words), asked.session.role, asked.now, identity)
    return Redirection(f"/jobs/{job.job_id}", f"asked for: {job.command}")


def once_field() -> Field:
    """Give the hidden field that makes a form that is sent twice one job."""
    return Field(name="once", label="", kind="hidden", value=secrets.token_hex(8))


def options(asked: ActionRequest, *names: str) -> list[str]:
    """Give the options whose fields are filled in."""
    words: list[str] = []
    for name in names:
        value = asked.text(name)
        if value:
            words += [f"--{name.replace('_', '-')}", value]
    return words


def _record(asked: ActionRequest) -> Redirection:
    kind = asked.text("kind") or "socket"
    if kind not in ("socket", "browser"):
        raise UnknownName("way to record", kind, ("socket", "browser"))
    headless = ["--headless"] if kind == "browser" and asked.text("headless") else []
    words = ["record", kind, asked.text("url"), *options(asked, "seconds", "rounds", "session", "log"), *headless]
    return start(asked, [*words, "--json"])


def _perform(asked: ActionRequest) -> Redirection:
    return start(asked, ["perform", _name(asked.text("game")), *options(asked, "rounds", "speed"), "--no-browser"])


def _build(asked: ActionRequest) -> Redirection:
    name = asked.text("name")
    words = ["dataset", "build", _name(name), *options(asked, "reward", "split", "gap", "world", "session")]
    return start(asked, words)


def _train(asked: ActionRequest) -> Redirection:
    method = asked.text("method") or "ppo"
    settings = [part for line in asked.text("settings").split() for part in ("--set", line)]
    fields = options(asked, "game", "world", "dataset", "player", "steps", "rounds", "seed", "model")
    return start(asked, ["train", method, "--name", _name(asked.text("name")), *fields, *settings])


def _resume(asked: ActionRequest) -> Redirection:
    return start(asked, ["train", asked.text("method"), "--name", _name(asked.text("name")), "--resume"])


def _validate(asked: ActionRequest) -> Redirection:
    fields = options(asked, "world", "data", "rounds", "seed", "game")
    return start(asked, ["validate", _name(asked.text("policy")), *fields])


def _compare(asked: ActionRequest) -> Redirection:
    policies = asked.text("policies").split()
    if len(policies) < 2:
        raise InputError(f"expected at least two policies to compare, found {len(policies)}")
    return start(asked, ["compare", *map(_name, policies), *options(asked, "world", "rounds", "seed")])


def _check(asked: ActionRequest) -> Redirection:
    return start(asked, ["dataset", "check", _name(asked.text("name"))])


def _verify(asked: ActionRequest) -> Redirection:
    return start(asked, ["store", "verify", "--json"])


def _compact(asked: ActionRequest) -> Redirection | Page:
    if not asked.sure:
        return sure_page(
            "Move the logs into Parquet",
            "store/compact",
            asked,
            (
                "Whole windows of every log are moved into Parquet parts. A log that is being written is refused and no"
                " event is lost. It cannot be taken back."
            ),
        )
    return start(asked, ["store", "compact"])


def _cancel(asked: ActionRequest) -> Redirection | Page:
    job = queue.read_job(asked.context.engine, asked.context.root, asked.text("job"))
    if not asked.sure and job.status == "running":
        return sure_page(
            "End a running job",
            "jobs/cancel",
            asked,
            (
                f"{job.command} is interrupted as by Ctrl-C. A recording keeps what it has; a training keeps its resume"
                " point and can be begun again from there."
            ),
        )
    queue.cancel(asked.context.engine, asked.context.root, job.job_id, asked.now)
    return Redirection(f"/jobs/{job.job_id}", "asked to end")


def _retry(asked: ActionRequest) -> Redirection:
    job = queue.retry(asked.context.engine, asked.context.root, asked.text("job"))
    return Redirection(f"/jobs/{job.job_id}", "begun again")


def _mark(asked: ActionRequest) -> Redirection:
    verdict = asked.text("verdict")
    if verdict not in ("", "accepted", "rejected", "clear"):
        raise UnknownName("mark", verdict, ("accepted", "rejected", "clear"))
    tags = [tag for tag in re.split(r"[,\s]+", asked.text("tags")) if tag]
    identity = asked.text("trajectory")
    mark_trajectory(
        asked.context.engine,
        identity,
        verdict=None if verdict == "clear" else verdict or "keep",
        tags=tags if "tags" in asked.values else None,
        note=asked.text("note") if "note" in asked.values else None,
        who=asked.session.role,
        now=asked.now,
    )
    queue.ring(asked.context.root)
    if asked.text("next") == "queue":
        return Redirection(f"/agents/review?after={quote(identity)}")
    return Redirection(f"/agents/trajectories/{quote(identity)}", "marked")


def _add_model(asked: ActionRequest) -> Redirection:
    return start(asked, ["models", "add", _name(asked.text("run")), *options(asked, "name")])


def _promote(asked: ActionRequest) -> Redirection | Page:
    registry = Registry(asked.context.engine, asked.context.root, asked.context.clock)
    version = registry.find(f"{_name(asked.text('name'))}:{asked.text('version')}").version
    alias, why = _name(asked.text("alias")), asked.text("why")
    if not asked.sure:
        before = registry.pointer(version.name, alias).version
        present = "nothing" if before is None else f"version {before}"
        text = (
            f"{version.name}@{alias} stands for {present} and will stand for"
            f" version {version.version} (verdict: {version.verdict or 'none'}). Whoever serves the alias changes over."
        )
        return sure_page(
            f"Promote {version.label}", "models/promote", asked, text, typed=version.name * (alias == LIVE)
        )
    if alias == LIVE:
        _check_typed(asked, version.name)
    changing.promote(registry, version, alias, who=f"dashboard {asked.session.role}", why=why)
    return Redirection(f"/models/{quote(version.name)}", f"{version.name}@{alias} is version {version.version} now")


def _rollback(asked: ActionRequest) -> Redirection | Page:
    registry = Registry(asked.context.engine, asked.context.root, asked.context.clock)
    name, alias = _name(asked.text("name")), _name(asked.text("alias"))
    if not asked.sure:
        present = registry.pointer(name, alias).version
        text = f"{name}@{alias} stands for version {present} and goes back to what stood before it. No gate is asked."
        return sure_page(f"Roll {name}@{alias} back", "models/rollback", asked, text)
    changing.rollback(registry, name, alias, who=f"dashboard {asked.session.role}", why=asked.text("why"))
    return Redirection(f"/models/{quote(name)}", f"{name}@{alias} went back")


def _start_bot(asked: ActionRequest) -> Redirection:
    fields = options(asked, "account", "rounds", "seconds")
    return start(asked, ["bot", "run", _name(asked.text("policy")), asked.text("url"), "--paper", *fields, "--json"])


def _kill(asked: ActionRequest) -> Redirection:
    """Kill one bot, or all of them; at once, without a second page."""
    context, account = asked.context, asked.text("account")
    known = [bot.account.account for bot in read_bots(context.engine, context.root, 0)]
    names = [check_id(account, "an account's name")] if account else known
    for name in names:
        bots.kill(context.root, name, f"the dashboard's button, pressed by an {asked.session.role}")
    said = f"killed: {', '.join(names)}" if names else "there is no bot to kill"
    return Redirection(f"/bots/{quote(account)}" if account else "/bots", said)


def _take_over(asked: ActionRequest) -> Redirection:
    account = check_id(asked.text("account"), "an account's name")
    bots.take_over(asked.context.root, account)
    return Redirection(f"/bots/{quote(account)}", "you play until the round ends")


def _reset(asked: ActionRequest) -> Redirection | Page:
    account, why = check_id(asked.text("account"), "an account's name"), asked.text("why")
    if not why:
        raise InputError("expected a reason for the reset, found none; say why it may trade again")
    if not asked.sure:
        text = f"Kill and latch are taken off account {account}: after a reconciliation its bot may send orders again."
        return sure_page(f"Reset {account}", "bots/reset", asked, text, typed=account)
    _check_typed(asked, account)
    bots.reset(asked.context.engine, asked.context.root, account, why, asked.now)
    return Redirection(f"/bots/{quote(account)}", "kill and latch were taken off")


def _check_typed(asked: ActionRequest, name: str) -> None:
    if asked.text("typed") != name:
        raise InputError(f"expected {name} to be typed, found {asked.text('typed')[:60]!r}; nothing was changed")


def _link(asked: ActionRequest) -> Page:
    role = asked.text("role") or "viewer"
    chosen = next((item for item in ROLES if item == role), None)
    if chosen is None:
        raise UnknownName("role", role, ROLES)
    token = asked.link(chosen)
    text = f"Good once, for ten minutes, on the address that you have open: /enter?once={token}"
    return Page(
        title=f"A link for a {chosen}", blocks=[Block("link", [text, Link("Back to the settings", "/settings")])]
    )


def sure_page(title: str, action: str, asked: ActionRequest, text: str, *, typed: str = "") -> Page:
    """Give the second page of an action: it says what will happen and asks again; `typed` is a name to type."""
    fields = [Field(name=name, label="", kind="hidden", value=value) for name, value in asked.values.items()]
    fields.append(Field(name="sure", label="", kind="hidden", value="yes"))
    if typed:
        fields.append(Field(name="typed", label=f"Type {typed} to go on", required=True))
    form = Form(action=f"/do/{action}", submit=title, fields=fields, text=text, tone="danger", role="viewer")
    return Page(title=title, blocks=[Block("sure", [form, Link("No, go back", "/")])])


def _name(text: str) -> str:
    """Refuse what is empty or would be read as an option."""
    if not text or text.startswith("-"):
        raise InputError(f"expected a name, found {text[:40]!r}; fill the field in")
    return text


ACTIONS: Mapping[str, FormAction] = {
    "record": FormAction("operator", _record),
    "perform": FormAction("operator", _perform),
    "datasets/build": FormAction("operator", _build),
    "datasets/check": FormAction("operator", _check),
    "train": FormAction("operator", _train),
    "train/resume": FormAction("operator", _resume),
    "validate": FormAction("operator", _validate),
    "compare": FormAction("operator", _compare),
    "store/verify": FormAction("operator", _verify),
    "store/compact": FormAction("admin", _compact),
    "models/add": FormAction("operator", _add_model),
    "models/promote": FormAction("admin", _promote),
    "models/rollback": FormAction("admin", _rollback),
    "bots/start": FormAction("operator", _start_bot),
    "bots/kill": FormAction("operator", _kill),
    "bots/takeover": FormAction("operator", _take_over),
    "bots/reset": FormAction("admin", _reset),
    "jobs/cancel": FormAction("operator", _cancel),
    "jobs/retry": FormAction("operator", _retry),
    "mark": FormAction("operator", _mark),
    "link": FormAction("admin", _link),
}
