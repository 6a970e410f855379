"""A player's own event store, as small as it can be: what the documents and the pictures are made from."""

from __future__ import annotations

from pathlib import Path

from recordings import random_script

from playproof.game import load_game
from playproof.games.crash.recording.sample import record
from playproof.record.session import RecordingSession
from tests.reference.event_store_writer import rows_of, write_store

ADJUSTMENTS = ("INC_001", "HALF", "CLEAR")


def write_own_store(folder: Path, rounds: int, seed: int = 5) -> Path:
    """Write one evening of a scripted player into `folder`, in the Parquet format of a player's own program."""
    session = RecordingSession(load_game("crash"), lambda _: None, "own", "cdp")
    recording = record(seed, random_script(seed, rounds, 0.08, ADJUSTMENTS), rounds, crowded=False)
    written = write_store(folder.parent, rows_of(session.take(recording.frames), f"evening-{seed}"))
    return written.rename(folder)
