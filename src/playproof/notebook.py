"""Show a record in a notebook: a small HTML table."""

from __future__ import annotations

import html
from collections.abc import Mapping

LONGEST = 120
"""Characters of a value that are shown."""


def facts_table(title: str, facts: Mapping[str, object]) -> str:
    """Write what a record holds as HTML, with everything escaped."""
    rows = []
    for name, value in facts.items():
        text = f"{value:.6g}" if isinstance(value, float) else str(value)
        text = text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
        rows.append(f"<tr><th style='text-align:left'>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>")
    return f"<h4>{html.escape(title)}</h4><table>{''.join(rows)}</table>"
