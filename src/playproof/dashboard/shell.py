"""What a page of the dashboard is made of, and the one template that draws it.

Everything is plain records; texts of players and agents are escaped by the template, whatever they hold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from playproof.reports import page as reports_page
from playproof.reports.chart import Chart
from playproof.reports.page import STATIC as REPORTS_STATIC
from playproof.reports.page import PageSection, PageTable, embed

FOLDER = Path(__file__).parent
STATIC = FOLDER / "static"
NAVIGATION = (
    ("/", "Home"),
    ("/recordings", "Recordings"),
    ("/store", "Store"),
    ("/datasets", "Data sets"),
    ("/runs", "Runs"),
    ("/proof", "Proof"),
    ("/agents", "Agents"),
    ("/models", "Models"),
    ("/experiments", "Experiments"),
    ("/bots", "Bots"),
    ("/jobs", "Jobs"),
    ("/settings", "Settings"),
)


@dataclass(frozen=True)
class Link:
    """A text that leads somewhere."""

    text: str
    href: str
    tone: str = ""
    key: str = ""
    """A key that follows it."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field of a form."""

    name: str
    label: str
    value: str = ""
    kind: str = "text"
    """text, number, search, textarea, select, hidden or checkbox."""
    options: Sequence[str] = ()
    hint: str = ""
    required: bool = False


@dataclass(frozen=True, kw_only=True)
class Form:
    """A form; what changes something is posted and carries the session's token."""

    action: str
    submit: str
    fields: Sequence[Field] = ()
    title: str = ""
    text: str = ""
    method: str = "post"
    tone: str = ""
    """danger: what cannot be taken back."""
    inline: bool = False
    role: str = "operator"
    """Who may send it; others do not see it."""
    key: str = ""
    """A key that presses its button."""


@dataclass(frozen=True, kw_only=True)
class FactList:
    """Names and values, side by side."""

    pairs: Sequence[tuple[str, object]]
    kind: str = "facts"


@dataclass(frozen=True, kw_only=True)
class TextBlock:
    """A long text as it stands, such as a log."""

    text: str
    kind: str = "pre"


@dataclass(frozen=True, kw_only=True)
class Talk:
    """A conversation, drawn as a trajectory's page draws it."""

    before: Sequence[Mapping[str, Any]]
    steps: Sequence[Mapping[str, Any]]
    kind: str = "talk"


@dataclass(frozen=True, kw_only=True)
class DataView:
    """A page of a table whose query stands in the URL."""

    name: str
    columns: Sequence[tuple[str, str, bool]]
    """Name, heading, whether it is words."""
    rows: Sequence[Mapping[str, object]]
    sort: str
    descending: bool
    sortable: frozenset[str]
    filters: Sequence[Field]
    query: Mapping[str, str]
    """What the URL says, the cursor apart."""
    first: str
    following: str | None
    """The URL of the next page; None where this is the last."""
    links: Sequence[tuple[str, str]]
    """CSV and JSON by the same query."""
    heads: Mapping[str, str] = field(default_factory=dict)
    """By column: the URL that sorts by it."""
    empty: str = "Nothing is here yet."
    kind: str = "data"


Part = str | Link | Chart | PageTable | PageSection | Form | FactList | TextBlock | Talk | DataView


@dataclass(frozen=True)
class Block:
    """A part of a page that is sent again when it has changed."""

    name: str
    parts: Sequence[Part]
    title: str = ""
    folded: bool = False


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page: its blocks, and what on disk it depends on."""

    title: str
    blocks: Sequence[Block]
    lead: str = ""
    topics: Sequence[str] = ()
    """What is watched: see `live`; none for a page that stands still."""
    trail: Sequence[Link] = ()


def render_page(page: Page, *, path: str, role: str, csrf: str, allowed: frozenset[str], said: str = "") -> str:
    """Draw a whole page."""
    shown = [(block, render_block(block, csrf=csrf, allowed=allowed)) for block in page.blocks]
    return (
        _environment()
        .get_template("page.html")
        .render(
            page=page,
            title=f"{page.title} · Playproof",
            policy=None,
            static_url=f"/static/{asset_stamp()}/",
            script_names=(),
            blocks=shown,
            path=path,
            section="/" + path.split("?", maxsplit=1)[0].strip("/").split("/")[0],
            role=role,
            csrf=csrf,
            said=said,
            kills="operator" in allowed,
            navigation=NAVIGATION,
            cursor=cursor_of([html for _, html in shown]),
        )
    )


def render_block(block: Block, *, csrf: str, allowed: frozenset[str]) -> str:
    """Draw the inside of one block."""
    return _environment().get_template("block.html").render(block=block, csrf=csrf, allowed=allowed)


def cursor_of(blocks: Sequence[str]) -> str:
    """Give a cursor for what a page shows: a short hash of each block."""
    return ".".join(hashlib.sha256(text.encode()).hexdigest()[:12] for text in blocks)


@cache
def asset_stamp() -> str:
    """Give a hash of our scripts and styles, so that a browser may keep them for ever."""
    digest = hashlib.sha256()
    for path in sorted([*STATIC.iterdir(), *REPORTS_STATIC.iterdir()]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _chart_data(chart: Chart) -> Markup:
    weight = sum(item.weight for item in chart.series)
    return embed(chart.to_json(min(1.0, CHART_BYTES / weight) if weight else 1.0))


CHART_BYTES = 60_000
"""What one chart may weigh; its series are thinned to it on the server."""


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=ChoiceLoader(
            [
                FileSystemLoader(FOLDER / "templates"),
                FileSystemLoader(Path(reports_page.__file__).parent / "templates"),
            ]
        ),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["chart_data"] = _chart_data
    return environment
