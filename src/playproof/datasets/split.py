"""Split windows in time order, with a gap between the splits. There is no other split.

Leaves out: walk-forward folds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from playproof.errors import ConfigError

GAP = "gap"
"""The split of the windows that are left out between two others."""


def split_windows(windows: Sequence[str], shares: Mapping[str, float], gap: int) -> dict[str, str]:
    """Give each window its split: consecutive stretches in the order given, `gap` windows apart."""
    if len(set(windows)) != len(windows):
        raise ConfigError("expected each window once, found some twice")
    if not shares or min(shares.values()) <= 0 or gap < 0 or GAP in shares:
        raise ConfigError(
            f"expected positive shares, none called {GAP}, and a gap >= 0, found {dict(shares)} and {gap}"
        )
    usable = len(windows) - gap * (len(shares) - 1)
    split, taken, passed = [GAP] * len(windows), 0, 0.0
    for index, (name, share) in enumerate(shares.items()):
        passed += share
        end = round(usable * passed / sum(shares.values()))
        if end <= taken:
            raise ConfigError(f"expected windows enough for {name!r}, found {len(windows)} in all and a gap of {gap}")
        split[taken + index * gap : end + index * gap] = [name] * (end - taken)
        taken = end
    return dict(zip(windows, split, strict=True))
