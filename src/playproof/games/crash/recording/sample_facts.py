"""The facts of the small recording (`sample`), as its decoder reads them, kept in a file beside this module.

Checks that alter events need no server and no decoder this way. `scripts/pack_sample.py` writes the file; a test
compares it with the decoded recording, fact by fact.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import orjson

from playproof.game import Fact

FILE = Path(__file__).with_name("sample_facts.json.gz")


def pack(facts: Iterable[Fact]) -> bytes:
    """Write facts as compressed JSON; the same facts give the same bytes."""
    rows = [
        [fact.event_name, fact.doc_type, dict(fact.columns), fact.window_id, fact.player_id, fact.server_ts]
        for fact in facts
    ]
    return gzip.compress(orjson.dumps(rows), mtime=0)


def sample_facts() -> tuple[Fact, ...]:
    """Read the facts of the recording."""
    rows = orjson.loads(gzip.decompress(FILE.read_bytes()))
    return tuple(
        Fact(name, doc_type, columns, window, player, None if moment is None else datetime.fromisoformat(moment))
        for name, doc_type, columns, window, player, moment in rows
    )
