"""The type of JSON objects, whose values are known only where they are read."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
"""A JSON object: a configuration, a result that is printed or kept, a manifest, a line of a log."""
