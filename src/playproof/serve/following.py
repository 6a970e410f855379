"""Follow an alias: load what it stands for beside what is served, ask it a canary batch, then swap one reference.

A version that cannot be loaded, or whose files were changed, is not served: the old one goes on, and the table of
deployments and the server's messages say why.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from playproof.errors import PlayproofError
from playproof.models.deployments import DeploymentLog
from playproof.models.registry import ModelPointer, Registry
from playproof.serve.serving import ServedApp
from playproof.serve.versions import ServedVersion, VersionSwitch

SECONDS = 0.5
"""Between two looks at the alias."""
BEAT = timedelta(seconds=5)
"""Between two heartbeats in the table of deployments."""

Load = Callable[[Path], ServedApp]


class AliasFollower:
    """Keeps a switch at what an alias stands for."""

    def __init__(
        self, registry: Registry, name: str, alias: str, load: Load, notify: Callable[[str], None] = lambda _: None
    ) -> None:
        self.registry, self.name, self.alias = registry, name, alias
        self.load, self.notify = load, notify
        self.switch = VersionSwitch()
        self.generation = 0
        """Of the last change that was looked at, whether or not its version could be loaded."""
        self.problem: str | None = None
        self._version: int | None = None
        self._loaded: ServedApp | None = None
        self._log = DeploymentLog(registry.engine, f"{socket.gethostname()}:{os.getpid()}", registry.clock)
        self._beaten = registry.clock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.look()
        if self.problem is not None:
            raise PlayproofError(self.problem)

    def look(self) -> bool:
        """Look at the alias once; tell whether another version or generation is served from now on."""
        try:
            pointer = self.registry.pointer(self.name, self.alias)
            if pointer.generation == self.generation:
                if self.registry.clock() - self._beaten >= BEAT:
                    self._beat()
                return False
            self.generation = pointer.generation
            return self._follow(pointer)
        except SQLAlchemyError as error:  # the database is away: what is served goes on
            self._say(f"expected to read {self.name}@{self.alias}, found: {str(error).splitlines()[0][:200]}")
            return False

    def _follow(self, pointer: ModelPointer) -> bool:
        """Serve what the pointer stands for, if it can be loaded and answers."""
        if pointer.version is None:
            self.switch.swap(None)
            self._version = self._loaded = self.problem = None
            self._beat(ended=True)
            self.notify(f"{pointer.label} stands for nothing (generation {pointer.generation}); requests get 503")
            return True
        version = self.registry.version(pointer.name, pointer.version)
        if pointer.version == self._version and self._loaded is not None:
            loaded = self._loaded
        else:
            try:
                loaded = self.load(self.registry.open(version))
            except Exception as error:  # noqa: BLE001 - whatever a damaged model raises, the old one goes on
                self._refuse(pointer, error)
                return False
            try:
                loaded.canary()
            except Exception as error:  # noqa: BLE001 - as above
                loaded.close()
                self._refuse(pointer, error)
                return False
        kept = loaded is self._loaded
        if kept and self.switch.current is not None:
            self.switch.current.close = lambda: None  # the same model goes on under a new generation
        self.switch.swap(ServedVersion(loaded.app, version.label, pointer.generation, loaded.close))
        self._version, self._loaded, self.problem = pointer.version, loaded, None
        self._log.begin(pointer.name, pointer.version, pointer.alias, pointer.generation)
        self.notify(f"serving {version.label} as {pointer.label}, generation {pointer.generation}")
        return True

    def _refuse(self, pointer: ModelPointer, error: Exception) -> None:
        self._beaten -= BEAT  # the next look notes why
        stays = self.switch.current.label if self.switch.current is not None else "nothing"
        what = str(error) if isinstance(error, PlayproofError) else f"{type(error).__name__}: {error}"
        self._say(f"{pointer.name}:{pointer.version} cannot be served, {stays} goes on: {what[:400]}")

    def _say(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            self.notify(problem)

    def _beat(self, *, ended: bool = False) -> None:
        self._beaten = self.registry.clock()
        answers = self.switch.current.answers if self.switch.current is not None else 0
        self._log.beat(answers, self.problem, ended=ended)

    def start(self, seconds: float = SECONDS) -> None:
        """Look again and again in a thread of its own."""

        def work() -> None:
            while not self._stop.wait(seconds):
                self.look()

        self._thread = threading.Thread(target=work, name="playproof-follow", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop looking, note the end, and close what is served."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        try:
            self._beat(ended=True)
        except SQLAlchemyError as error:
            self.notify(f"the end could not be noted: {str(error).splitlines()[0][:200]}")
        self.switch.swap(None)


def follow_alias(
    registry: Registry, name: str, alias: str, load: Load, notify: Callable[[str], None] = lambda _: None
) -> tuple[ServedApp, AliasFollower]:
    """Give the application that serves what an alias stands for, and its follower, which is not started yet."""
    follower = AliasFollower(registry, name, alias, load, notify)
    kind = "act" if follower._loaded is None else follower._loaded.kind
    return ServedApp(f"{name}@{alias}", kind, follower.switch, follower.close), follower
