"""Promotions and rollbacks by several processes while a served alias is asked under load; what came of it.

Version n chooses n + 1 in the second head, always, so that an answer shows which version made it.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playproof.models.registry import Registry
from playproof.serve.following import follow_alias
from playproof.serve.serving import prepare, serving

PROGRAM = """
import json, os, sys
from pathlib import Path
import numpy as np
from playproof.errors import InputError
from playproof.models.registry import PointerConflict, PromotionGround, Registry
from playproof.store.db import connect

url, home, who, changes = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
registry, rng = Registry(connect(url=url), home), np.random.default_rng(int(who))
made, conflicts = [], 0
while len(made) < changes:
    try:
        if rng.random() < 0.3:
            change = registry.rollback("m", "try-load", who=who, why="torture")
        else:
            version = int(rng.integers(1, 5))
            ground = PromotionGround("practice")
            change = registry.promote("m", version, "try-load", who=who, why="torture", ground=ground)
    except PointerConflict:
        conflicts += 1
        continue
    except InputError as error:  # everything was taken back already
        assert "none left" in str(error)
        continue
    made.append([change.generation, change.kind, change.from_version, change.to_version])
registry.engine.dispose()
print(json.dumps({"made": made, "conflicts": conflicts}))
"""


@dataclass
class SwapReport:
    """What was changed, answered and measured."""

    made: list[tuple[int, str, int | None, int | None]] = field(default_factory=list)
    """Changes that were acknowledged, of all processes."""
    conflicts: int = 0
    answers: int = 0
    mixed: list[Any] = field(default_factory=list)
    """Answers whose action, body and headers do not belong to one version and generation."""
    lost: list[str] = field(default_factory=list)
    """Requests without an answer."""
    generations: set[int] = field(default_factory=set)
    """That answers carried."""
    seconds: list[tuple[float, float]] = field(default_factory=list)
    """When each request began, and how long it took."""
    swaps: list[float] = field(default_factory=list)
    """When the served version changed."""

    def p99(self, *, swapping: bool) -> float:
        """Give the 99th percentile of answers that began within 50 ms of a swap, or of all others, in ms."""
        times = sorted(self.swaps)

        def near(moment: float) -> bool:
            from bisect import bisect_left

            at = bisect_left(times, moment)
            return any(abs(times[i] - moment) < 0.05 for i in (at - 1, at) if 0 <= i < len(times))

        chosen = sorted(took for began, took in self.seconds if near(began) == swapping)
        return 1000 * chosen[int(0.99 * (len(chosen) - 1))] if chosen else float("nan")


def swap_under_load(registry: Registry, url: str, home: Path, processes: int, changes: int, clients: int) -> SwapReport:
    """Serve m@try-load, ask it from some threads, and let processes change it so many times in all."""
    report, stop, lock = SwapReport(), threading.Event(), threading.Lock()
    served, follower = follow_alias(registry, "m", "try-load", lambda path: prepare(str(path)))

    def look() -> None:
        while not stop.is_set():
            if follower.look():
                report.swaps.append(time.monotonic())
            stop.wait(0.002)

    def ask(address: str, width: int) -> None:
        host, _, port = address.partition("//")[2].partition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        body = json.dumps({"rows": [[0.0] * width] * 3}).encode()
        while not stop.is_set():
            began = time.monotonic()
            try:
                connection.request("POST", "/act", body, {"content-type": "application/json"})
                response = connection.getresponse()
                text = response.read()
            except OSError as error:
                with lock:
                    report.lost.append(repr(error))
                connection.close()
                continue
            took = time.monotonic() - began
            if response.status == 429:  # the guard limits each client's rate; it says so, and nothing is lost
                stop.wait(0.05)
                continue
            with lock:
                report.seconds.append((began, took))
                report.answers += 1
                _check(report, response.status, dict(response.getheaders()), text)
        connection.close()

    with serving(served) as address:
        host, _, port = address.partition("//")[2].partition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        connection.request("GET", "/card")
        width = len(json.loads(connection.getresponse().read())["features"])
        connection.close()
        threads = [threading.Thread(target=look)]
        threads += [threading.Thread(target=ask, args=(address, width)) for _ in range(clients)]
        for thread in threads:
            thread.start()
        share = [changes // processes + (number < changes % processes) for number in range(processes)]
        running = [
            subprocess.Popen(
                [sys.executable, "-c", PROGRAM, url, str(home), str(number), str(count)], stdout=subprocess.PIPE
            )
            for number, count in enumerate(share)
        ]
        for process in running:
            output, _ = process.communicate()
            assert process.returncode == 0
            payload = json.loads(output)
            report.made += [tuple(item) for item in payload["made"]]
            report.conflicts += payload["conflicts"]
        wanted = registry.pointer("m", "try-load").generation
        while follower.generation != wanted:
            time.sleep(0.01)
        stop.set()
        for thread in threads:
            thread.join()
    return report


def _check(report: SwapReport, status: int, headers: dict[str, str], text: bytes) -> None:
    if status == 503:  # everything was rolled back for a moment
        return
    payload = json.loads(text)
    if status != 200:
        report.lost.append(f"{status} {payload}")
        return
    lower = {name.lower(): value for name, value in headers.items()}
    stamps = {(payload["version"], payload["generation"])}
    stamps.add((lower["x-playproof-version"], int(lower["x-playproof-generation"])))
    number = int(payload["version"].partition(":")[2])
    actions = {action[1] for action in payload["actions"]}
    if len(stamps) != 1 or actions != {number + 1}:
        report.mixed.append((stamps, actions))
    report.generations.add(payload["generation"])


def check_history(report: SwapReport, registry: Registry) -> None:
    """Hold what processes were told against the history: nothing lost or twice, every step from the one before."""
    history = registry.history("m", "try-load")
    assert [change.generation for change in history] == list(range(1, len(history) + 1))
    before = None
    for change in history:
        assert change.from_version == before
        before = change.to_version
    known = {change.generation: change for change in history}
    assert len(report.made) == len({item[0] for item in report.made})
    for generation, kind, old, new in report.made:
        change = known[generation]
        assert (change.kind, change.from_version, change.to_version) == (kind, old, new)
    setup = len(history) - len(report.made)
    assert setup == 4
    assert registry.pointer("m", "try-load").version == history[-1].to_version
