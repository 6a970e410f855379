"""The event store: what it acknowledged is there, once.

`EventLog` writes one hot log, `compact` moves whole windows of it into Parquet parts, `EventStore` reads both as
one, `verify` checks every byte.
"""

from __future__ import annotations

from playproof.store.compaction import compact
from playproof.store.log import EventLog, log_names
from playproof.store.parts import PartFiles
from playproof.store.read import EventStore
from playproof.store.verification import Finding, Verification, verify

__all__ = ["EventLog", "EventStore", "Finding", "PartFiles", "Verification", "compact", "log_names", "verify"]
