"""Check revealed rounds against the published algorithm.

A file holds one JSON object a line (plain or .gz): id, provablyFair.serverSeed and, where they are
there, gameVersion, serverSeedHash, peakMultiplier and prices.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from playproof.errors import DecodeError, InputError, UnknownName
from playproof.games.crash.rules.prices import VERSIONS, Round, Version, play_round, server_seed_hash
from playproof.games.crash.rules.worlds import get_world, site_round
from playproof.json_types import Json

TOLERANCE = 1e-9
SHOWN_TOLERANCE = 0.0051
"""Relative: peaks are often copied from a page that shows two decimals."""
SEED = re.compile(r"[0-9a-fA-F]{64}")
COMPILE_FROM = 200
"""Below so many rounds plain Python is quicker than loading compiled code."""

PUBLISHED_ROUNDS = (
    ("787ca98847edfd5a2b495ffb6356a40eec1ce20d0668865eaffbbc2088c389e0", "20251215-ece018bd34bb4acc", 13, 1.291133344055508),  # noqa: E501
    ("43f168487d9d3191630322880c1b3eab03120dec0546985b0ed6b834535040bb", "20251207-60eadfaad3934e72", 86, 1.7116540575489452),  # noqa: E501
    ("42ab78482924971e44db8b15d511786e6f7a8952c05ee290a5a8980eae64d676", "20251212-0f8cc5fc8e864519", 126, 1.6117655596141522),  # noqa: E501
    ("1863902da72537808441650745c94dacf11653dd39ebad534a40ea716f6ffa17", "20251215-09af2a6fc8af4acb", 252, 29.7175705842902),  # noqa: E501
    ("b3a13fe6c9b47a060247edb3beeb814e52c9f9239659288847090b39af7201ce", "20251207-591d94f81da4432d", 1137, 7.384555885937261),  # noqa: E501
)  # fmt: skip
"""Rounds that the site played and revealed: server seed, game id, rug tick, peak."""


def check_version(name: str) -> Version:
    """Refuse a version of the algorithm that there is not."""
    if name not in get_args(Version):
        raise UnknownName("version", name, VERSIONS)
    return name  # type: ignore[return-value]


def replay(server_seed: str, game_id: str, version: str = "v3", world: str = "published") -> Round:
    """Play a revealed round again."""
    if world == "published":
        return play_round(server_seed, game_id, check_version(version))
    return site_round(get_world(world), server_seed, game_id, check_version(version))


def check_seed(server_seed: str) -> None:
    """Refuse a text that is no server seed: 64 hexadecimal digits."""
    if not SEED.fullmatch(server_seed):
        raise InputError(
            f"expected a server seed of 64 hexadecimal digits, found {len(server_seed)} characters:"
            f" {server_seed[:20]!r}; copy it from the round's provably-fair panel"
        )


def compare_round(published: Mapping[str, object], computed: Mapping[str, object]) -> list[str]:
    """Say in which published values a round differs from what its seed gives; None says nothing."""
    differences = []
    for name, value in published.items():
        own = computed[name]
        same = value is None or value == own
        if isinstance(value, float) and isinstance(own, float):
            same = abs(value - own) <= max(TOLERANCE, SHOWN_TOLERANCE * own)
        elif isinstance(value, str):
            same = value.strip().lower() == own
        if not same:
            differences.append(f"{name}: published {value}, the seed gives {own}")
    return differences


@dataclass(frozen=True)
class RoundCheck:
    """One round of a file and the first difference found, if any."""

    line: int
    game_id: str
    difference: str | None


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Give the numbered lines of a text file, packed or not."""
    if not path.is_file():
        raise InputError(f"expected a file of revealed rounds, found nothing at {path}")
    with path.open("rb") as probe:
        packed = probe.read(2) == b"\x1f\x8b"
    try:
        with gzip.open(path, "rt", encoding="utf-8") if packed else path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield number, line
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DecodeError(f"expected lines of text in {path}, found damage: {error}") from None


def first_difference(payload: Json, result: Round, seed: str) -> str | None:
    """Compare what the site told with what its seed gives."""
    promised = payload.get("provablyFair", {}).get("serverSeedHash")
    if promised is not None and promised != server_seed_hash(seed):
        return f"seed hash: promised {promised}, the seed gives {server_seed_hash(seed)}"
    peak = payload.get("peakMultiplier")
    if peak is not None and not abs(peak - result.peak) <= TOLERANCE:
        return f"peak: told {peak}, the seed gives {result.peak}"
    prices = payload.get("prices")
    if prices is None:
        return None
    for tick, (shown, price) in enumerate(zip(prices, result.prices, strict=False)):
        if not abs(shown - price) <= TOLERANCE:
            return f"tick {tick}: told {shown}, the seed gives {price}"
    if len(prices) != len(result.prices):
        return f"length: told {len(prices)} prices, the seed gives {len(result.prices)}"
    return None


def check_line(number: int, line: str, world: str, compiled: bool) -> RoundCheck:
    """Check one line; what cannot be read is a difference too."""
    game_id = "?"
    try:
        payload = json.loads(line)
        game_id = str(payload["id"])
        seed = payload["provablyFair"]["serverSeed"]
        version = check_version(payload.get("gameVersion", "v3"))
        if compiled and world == "published":
            from playproof.games.crash.sim import prices_nb

            result = prices_nb.site_round(seed, game_id, version)
        else:
            result = replay(seed, game_id, version, world)
        return RoundCheck(number, game_id, first_difference(payload, result, seed))
    except (ValueError, TypeError, KeyError, AttributeError, InputError) as error:
        return RoundCheck(number, game_id, f"expected a revealed round, found {type(error).__name__}: {error}")


def check_file(path: Path, world: str = "published") -> Iterable[RoundCheck]:
    """Check every round of a file, in order."""
    lines = list(read_lines(path))
    compiled = len(lines) >= COMPILE_FROM
    return (check_line(number, line, world, compiled) for number, line in lines)
