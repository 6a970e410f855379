"""Runs of appends beside compactions, for the tests of the store: undirected threads, and the events they store."""

from __future__ import annotations

import random
import shutil
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from store_proofs import COLUMNS, numbered

from playproof.events import DOC_TYPES, Event
from playproof.store import EventLog, EventStore, PartFiles, verify
from playproof.store.log.compaction import compact_log, compaction_steps


def fill_in_while_compacting(home: Path, total: int, late: int, seed: int) -> int:
    """Store `total` events of which some come late, while another thread compacts in a loop; give the doubled ones.

    Every event must be there once; a missing or a changed one fails at once.
    """
    rng = random.Random(seed)
    missing = set(rng.sample(range(total), late))
    stop = threading.Event()
    failures: list[BaseException] = []
    with EventLog.open(home, COLUMNS) as log:
        log.append([numbered(seq) for seq in range(total) if seq not in missing])

        def compact() -> None:
            try:
                while not stop.is_set():
                    log.compact()
            except BaseException as error:  # noqa: BLE001
                failures.append(error)

        thread = threading.Thread(target=compact)
        thread.start()
        try:
            waiting = rng.sample(sorted(missing), late)
            while waiting:
                size = rng.choice((1, 1, 3, 10))
                batch, waiting = waiting[:size], waiting[size:]
                log.append([numbered(seq) for seq in batch])
        finally:
            stop.set()
            thread.join()
        assert not failures, failures
        log.compact()
    counts = Counter(event.seq for event in EventStore(home).events())
    assert set(counts) == set(range(total)), f"{total - len(counts)} events are missing"
    assert verify(home).damage == ()
    return sum(count > 1 for count in counts.values())


def interleavings(compaction: int) -> list[str]:
    """Give every order of two appends (A, B), the steps of one compaction (C) and at most one crash (X).

    A compaction does not go on after the crash. Reads are not in the orders: `run_order` reads after every step.
    """
    orders = set()
    for first in range(compaction + 1):
        for second in range(compaction + 1):
            for appends in ("AB", "BA"):
                steps = ["C"] * compaction
                low, high = sorted((first, second))
                steps.insert(high, appends[1])
                steps.insert(low, appends[0])
                orders.add("".join(steps))
    cuts = range(compaction + 3)
    crashed = {order[:cut] + "X" + order[cut:].replace("C", "") for order in orders for cut in cuts}
    return sorted(orders | crashed)


@dataclass
class Interleaving:
    """One home, and what must be read from it."""

    home: Path
    first: Sequence[Event]
    appends: Mapping[str, Sequence[Event]]
    seen: set[str]
    """Beginnings of orders that were read already: the same steps give the same home."""

    def run(self, order: str) -> int:
        """Run one order; read after every step, and finish every read that was begun at an earlier one at the end.

        Give the steps that the compaction had.
        """
        model = {event.seq: event for event in self.first}
        log = EventLog.open(self.home, COLUMNS)
        log.append(self.first)
        with log.compacting:
            steps = self._steps(log)
            held, taken = [self._begin(model)], 0
            for number, step in enumerate(order, 1):
                if step == "C":
                    taken += next(steps, None) is not None
                elif step == "X":
                    log = self._crash(log)
                else:
                    log.append(self.appends[step])
                    model |= {event.seq: event for event in self.appends[step]}
                if order[:number] not in self.seen:
                    self.seen.add(order[:number])
                    self._check(model, order)
                held.append(self._begin(model))
        for events, expected in held:
            assert list(events) == expected, f"{order}: a read that was begun earlier"
        for _ in range(2):
            compact_log(log, final=True, grace=0.0)
            self._check(model, order)
        log.close()
        assert verify(self.home).findings == (), order
        return taken

    def _steps(self, log: EventLog) -> Iterator[str]:
        return compaction_steps(log, PartFiles.at(self.home), Counter(), True, 0.0, lambda: 1.0)

    def _begin(self, model: Mapping[int, Event]) -> tuple[Iterator[Event], list[Event]]:
        """Take manifest and hot rows now; files are opened when the events are asked for."""
        return EventStore(self.home).events(), [model[seq] for seq in sorted(model)]

    def _check(self, model: Mapping[int, Event], order: str) -> None:
        store = EventStore(self.home)
        read = [event.seq for event in store.events()]
        assert read == sorted(model), f"{order}: {Counter(read) - Counter(model.keys())} doubled"
        assert store.problems == (), f"{order}: {store.problems}"

    def _crash(self, log: EventLog) -> EventLog:
        """Put the files as they are now into the home's place, as a killed process leaves them, and open them."""
        image = self.home.with_suffix(".image")
        shutil.copytree(self.home, image)
        log.close()
        shutil.rmtree(self.home)
        image.rename(self.home)
        return EventLog.open(self.home, COLUMNS)


def two_late_appends(home: Path, seen: set[str], parts: int = 1) -> Interleaving:
    """Give a session of even numbers, and two appends that fill it in, overlap, and send again what is there."""

    def event(seq: int) -> Event:
        return replace(numbered(seq), doc_type=DOC_TYPES[seq // 2 % parts], window_id=f"w{seq // 4}")

    first = [event(seq) for seq in range(0, 12, 2)]
    appends = {
        "A": [event(seq) for seq in (1, 3, 2, 7)],
        "B": [event(seq) for seq in (5, 3, 0, 10, 13)],
    }
    return Interleaving(home, first, appends, seen)
