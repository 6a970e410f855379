"""Serve the crash game, record a scripted player over its socket, and count what was stored."""

from collections import Counter

import playproof
from playproof.cli.data.performing import record_performance

summary = record_performance("crash", rounds=2, speed=40.0, seed=3, use_browser=False)
print("session", summary["session_id"])

store = playproof.open_store()
counts = Counter(event.event_name for event in store.events())
for name, count in counts.most_common(5):
    print(f"{count:6} {name}")
