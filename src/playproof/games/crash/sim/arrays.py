"""The types of what compiled code is handed: arrays, and records whose fields it reads as attributes."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Records: TypeAlias = NDArray[np.void]
"""A structured array: its elements are records."""
Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Marks: TypeAlias = NDArray[np.bool_]
Rows: TypeAlias = NDArray[np.float32]
"""Observations, one a row."""
Keys: TypeAlias = NDArray[np.uint64]
"""Seeds, and the keys of random streams."""
Array: TypeAlias = NDArray[Any]
"""A column of numbers of any kind."""


class Record:
    """One element of a structured array, as compiled code reads and writes it: `lane.cash -= amount`.

    Only a type: numba compiles the attributes, and outside of compiled code a record is an np.void. An np.record will
    not do as the type, since it has attributes of its own, `flags` and `base`, which are fields here.
    """

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(name)
