"""One shell for all pages: a template, the stylesheet and the chart script, as one file or with links to files.

A report is one file that opens offline: style and scripts stand in it, and its content policy names their hashes, so
that nothing else can run. A served page links to the same files instead. Everything that somebody else wrote is escaped
by the templates.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from playproof.reports.chart import Chart

STATIC = Path(__file__).parent / "static"
"""The stylesheet and scripts, for servers that give them as files."""
CHART_SCRIPT, STYLE = "chart.js", "style.css"
DATA_BYTES = 600_000
"""What the charts of a page may weigh; their series are thinned to it."""


@dataclass(frozen=True)
class Toned:
    """A text with a meaning that its colour shows: good, bad, warn or dim."""

    text: str
    tone: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, kw_only=True)
class PageTable:
    """A table: the first columns hold words, the others figures."""

    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    words: int = 1
    """Columns of words, which stand left; figures stand right."""
    marked: Sequence[str] = ()
    """A class for each row: model, remark, or empty."""
    hide: int | None = None
    """A column that is left out on a phone."""


@dataclass(frozen=True)
class PageSection:
    """A titled part of a page: paragraphs, tables, charts, and sections of its own."""

    title: str
    parts: Sequence[str | PageTable | Chart | PageSection]
    folded: bool = False
    """Is it shown only when asked for?"""


def render(
    template: str,
    *,
    title: str,
    scripts: Sequence[str] = (CHART_SCRIPT,),
    static_url: str | None = None,
    **data: object,
) -> str:
    """Write a page; with `static_url` style and scripts are linked from there, else they stand in the file."""
    weight = sum(item.weight for chart in _charts(data) for item in chart.series)
    share = min(1.0, DATA_BYTES / weight) if weight else 1.0
    return _environment().get_template(template).render(
        title=title,
        static_url=static_url,
        script_names=scripts,
        policy=None if static_url is not None else Markup(_policy(scripts)),  # noqa: S704 - our own files' hashes
        style=Markup(_static(STYLE)),  # noqa: S704 - our own file
        scripts=[Markup(_static(name)) for name in scripts],  # noqa: S704 - our own files
        chart_data=partial(_chart_data, share=share),
        **data,
    )  # fmt: skip


def embed(payload: object) -> Markup:
    """Give data for a JSON block: nothing in it can end the block, and line separators cannot break a script."""
    text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - escaped above


def _chart_data(chart: Chart, share: float) -> Markup:
    return embed(chart.to_json(share))


def _charts(data: object) -> Iterator[Chart]:
    """Find the charts among a page's data."""
    if isinstance(data, Chart):
        yield data
    elif isinstance(data, PageSection):
        yield from _charts(data.parts)
    elif isinstance(data, Mapping):
        for value in data.values():
            yield from _charts(value)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from _charts(value)


@cache
def _static(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")


def _policy(scripts: Sequence[str]) -> str:
    """Allow the style and the scripts of the page by their hashes, and nothing else."""

    def allowed(names: Sequence[str]) -> str:
        digests = (base64.b64encode(hashlib.sha256(_static(name).encode()).digest()).decode() for name in names)
        return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"

    return (
        f"default-src 'none'; script-src {allowed(scripts)}; style-src {allowed((STYLE,))}; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
