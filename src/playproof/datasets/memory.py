"""Keep memory that was freed, while much of the same size is freed and taken again.

The C library gives large blocks back to the kernel when they are freed, and the kernel zeroes them page by page when
they are asked for again: a quarter of the time that it took to build a data set. Only glibc can be told not to;
elsewhere nothing happens. Leaves out: Arrow's own pool, which is not used for what is read (sources).
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Numbers of the settings in malloc.h."""
KEPT, LARGEST, USUAL = 1 << 30, 32 << 20, 128 << 10
"""Bytes that may be free at the end of the heap; blocks that are larger come from the kernel in any case; what the C
library starts with for both."""


def keep_freed() -> None:
    """Keep what is freed from now on, in this process."""
    _set(KEPT, LARGEST)


@contextlib.contextmanager
def kept_memory() -> Iterator[None]:
    """Keep what is freed within, and give it back at the end."""
    keep_freed()
    try:
        yield
    finally:
        _set(USUAL, USUAL)
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)


def _set(kept: int, largest: int) -> None:
    with contextlib.suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        library.mallopt(TRIM_THRESHOLD, kept)
        library.mallopt(MMAP_THRESHOLD, largest)
