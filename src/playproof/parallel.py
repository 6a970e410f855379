"""Map a pure function over parts: in this process, on its threads or its own processes, or on a Ray cluster.

Whoever maps gives a function of a module and items that can be sent elsewhere; results come back in the order of the
items, so that nothing depends on where and when they were made.
"""

from __future__ import annotations

import contextlib
import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from playproof.errors import ConfigError, MissingExtra

Item = TypeVar("Item")
Made = TypeVar("Made")
EngineName = Literal["local", "ray"]
AHEAD = 2
"""Items for each worker that are under way at once; more would only pile up results."""


class Engine(Protocol):
    """Where a map runs."""

    @property
    def is_remote(self) -> bool:
        """Tell whether items leave this process."""

    def map(self, function: Callable[[Item], Made], items: Iterable[Item]) -> Iterator[Made]:
        """Give the function's value for each item, in order."""


@dataclass(frozen=True)
class LocalEngine:
    """This machine: one worker in this process by default."""

    workers: int = 1
    processes: bool = False
    """Processes in place of threads."""

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ConfigError(f"expected at least one worker, found {self.workers}")

    @property
    def is_remote(self) -> bool:
        """Tell whether items leave this process."""
        return self.processes and self.workers > 1

    def map(self, function: Callable[[Item], Made], items: Iterable[Item]) -> Iterator[Made]:
        """Give the function's value for each item, in order."""
        if self.workers == 1:
            yield from map(function, items)
            return
        with self._pool() as pool:
            yield from _in_order(lambda item: pool.submit(function, item), _result, items, self.workers * AHEAD)

    def _pool(self) -> Executor:
        if not self.processes:
            return ThreadPoolExecutor(self.workers)
        return ProcessPoolExecutor(self.workers, mp_context=multiprocessing.get_context("spawn"))


@dataclass(frozen=True)
class Ray:
    """A Ray cluster: one of this process's own, or the one at an address."""

    address: str = "local"
    """Never found by itself: `local` starts one here and ends it afterwards."""
    workers: int | None = None
    """Processors of a cluster that is started here; None: all."""

    @property
    def is_remote(self) -> bool:
        """Tell whether items leave this process."""
        return True

    def map(self, function: Callable[[Item], Made], items: Iterable[Item]) -> Iterator[Made]:
        """Give the function's value for each item, in order."""
        with self._connected() as ray:
            remote = ray.remote(function)
            ahead = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
            yield from _in_order(remote.remote, ray.get, items, ahead)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        try:
            import ray
        except ImportError as error:
            raise MissingExtra("Ray", "ray") from error
        mine = not ray.is_initialized()
        if mine:
            own = {"num_cpus": self.workers, "include_dashboard": False} if self.address == "local" else {}
            ray.init(address=self.address, log_to_driver=False, logging_level="error", **own)
        try:
            yield ray
        finally:
            if mine:
                ray.shutdown()


def _result(future: Future[Made]) -> Made:
    return future.result()


def _in_order(
    send: Callable[[Item], object], receive: Callable[[Any], Made], items: Iterable[Item], ahead: int
) -> Iterator[Made]:
    """Keep so many items under way, and give results in the order of the items."""
    waiting: deque[Any] = deque()
    for item in items:
        waiting.append(send(item))
        if len(waiting) >= ahead:
            yield receive(waiting.popleft())
    while waiting:
        yield receive(waiting.popleft())


def make_engine(name: EngineName = "local", workers: int = 1, address: str | None = None) -> Engine:
    """Give the engine that a command line asks for."""
    if name == "ray":
        return Ray(address or "local", workers if workers > 1 else None)
    if name != "local":
        raise ConfigError(f"expected an engine local or ray, found {name!r}")
    if address is not None:
        raise ConfigError("expected an address with the engine ray alone; add --engine ray")
    return LocalEngine(workers)
