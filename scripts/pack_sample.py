"""Write the facts of the crash game's small recording into the package; run it after a change of the decoder.

Run it from the project's root: python scripts/pack_sample.py.
"""

from __future__ import annotations

import sys

from playproof.game import load_game
from playproof.games.crash.recording.sample_facts import FILE, pack


def main() -> int:
    """Record, decode, write."""
    game = load_game("crash")
    facts = [fact for of in game.decode(game.recording().sample()) for fact in of]
    FILE.write_bytes(pack(facts))
    sys.stdout.write(f"{len(facts)} facts, {FILE.stat().st_size:,} bytes: {FILE}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
