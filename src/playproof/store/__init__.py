"""The event store: what it acknowledged is there, once.

`EventLog` writes one hot log, `compact` moves whole windows of it into Parquet parts, `EventStore` reads both as
one, `verify` checks every byte.
"""

from __future__ import annotations

from playproof.store.log.compaction import compact
from playproof.store.log.parts import PartFiles
from playproof.store.log.read import EventStore
from playproof.store.log.schema import log_names
from playproof.store.log.verification import Damage, Verification, verify
from playproof.store.log.writer import EventLog

__all__ = ["Damage", "EventLog", "EventStore", "PartFiles", "Verification", "compact", "log_names", "verify"]
