"""Show the doctests below `Example:` in docstrings as code; Griffe, which reads the API, only knows `Examples:`."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension


class Examples(Extension):
    """Rename the section heading before the docstring is parsed."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Rename it in the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
