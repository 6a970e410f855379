"""Serve a trained model: language models as OpenAI-compatible chats, policies of numbers as /act."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from playproof.cli.output import note
from playproof.cli.targets import find_model, find_registered, open_registry
from playproof.errors import ConfigError

if TYPE_CHECKING:
    from playproof.serve.serving import ServedApp

app = typer.Typer(help=__doc__.partition("\n")[0])


@app.command()
def serve(
    checkpoint: Annotated[
        str,
        typer.Argument(
            metavar="CHECKPOINT",
            help="A checkpoint's folder, a run, a model (NAME, NAME:VERSION), or NAME@ALIAS, which is followed.",
        ),
    ] = "",
    *,
    experiment: Annotated[
        str, typer.Option(help="Serve both versions of a running split instead, each unit by its arm.")
    ] = "",
    host: Annotated[
        str, typer.Option(help="Address to listen on; others than this machine's own need a key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 8000,
    name: Annotated[str, typer.Option(help="Name that clients ask for; default: the checkpoint's.")] = "",
    key_variable: Annotated[
        str, typer.Option(help="Environment variable that holds the key which clients must show.")
    ] = "PLAYPROOF_SERVE_KEY",
    batch: Annotated[int, typer.Option(help="Chats that grow side by side.")] = 32,
    waiting: Annotated[int, typer.Option(help="Chats that may wait; more are refused with 429.")] = 256,
    max_tokens: Annotated[int, typer.Option(help="Longest answer that a client may ask for.")] = 1_024,
    look: Annotated[
        float, typer.Option(min=0.01, help="Seconds between two looks at an alias that is followed.")
    ] = 0.5,
    seconds: Annotated[float | None, typer.Option(help="Stop after so many seconds; default: never.")] = None,
) -> None:
    """Serve a model until Ctrl-C; what an alias stands for is followed without a pause.

    Example: playproof serve runs/my-grpo/checkpoint --port 8000

    Example: playproof serve trader@practice --port 8000

    Example: playproof serve --experiment talk-split --port 8000

    Example: playproof serve smollm2 --port 0 --seconds 60
    """
    from playproof.net.listening import bind, listen
    from playproof.serve.batching import ServeLimits
    from playproof.serve.serving import behind_door, prepare

    limits = ServeLimits(batch=batch, waiting=waiting, max_tokens=max_tokens)
    if bool(checkpoint) == bool(experiment):
        raise ConfigError("expected either a CHECKPOINT or --experiment, found both or none")

    def load(path: str, called: str) -> ServedApp:
        return prepare(path, limits, called)

    chosen = _arms(experiment, load) if experiment else _prepared(checkpoint, name, look, load)
    with chosen as served:
        door = behind_door(served.app, host, os.environ.get(key_variable) or None)
        taken = bind(host, port)
        text = "/v1" if served.kind == "chat" else "/act"
        note(f"serving {served.name} at http://{host}:{taken.getsockname()[1]}{text}")
        listen(door, taken, seconds=seconds)


@contextmanager
def _arms(experiment: str, load: Callable[[str, str], ServedApp]) -> Iterator[ServedApp]:
    """Give both versions of a split that runs, behind one application that knows every unit's arm."""
    from playproof.home import home
    from playproof.operate.experiments.ledger import ExperimentLedger
    from playproof.serve.serving import ServedApp
    from playproof.serve.versions import ServedVersion, VersionSwitch
    from playproof.store.db import opened, ready

    with opened(home()) as engine:
        registered = ExperimentLedger(ready(engine)).find(experiment)
    plan = registered.plan
    if plan.mode != "split" or registered.ended_at is not None:
        state = f"ended: {registered.ending}" if registered.ended_at is not None else f"of mode {plan.mode}"
        raise ConfigError(f"expected a split that runs, found {experiment!r}, which is {state}")
    loaded = [load(find_model(arm.load), experiment) for arm in (plan.a, plan.b)]
    versions = [ServedVersion(app.app, arm.label) for app, arm in zip(loaded, (plan.a, plan.b), strict=True)]
    try:
        for app in loaded:
            app.canary()
        yield ServedApp(experiment, loaded[0].kind, VersionSwitch(*versions, experiment, plan.share))
    finally:
        for app in loaded:
            app.close()


@contextmanager
def _prepared(what: str, name: str, look: float, load: Callable[[str, str], ServedApp]) -> Iterator[ServedApp]:
    """Give what is served: a checkpoint as it is, or an alias and whatever it will stand for."""
    target = find_registered(what) if "@" in what else None
    if target is None:
        served = load(find_model(what), name)
        try:
            yield served
        finally:
            served.close()
        return
    from playproof.serve.following import follow_alias

    model, _, alias = what.partition("@")

    def load_version(path: Path) -> ServedApp:
        return load(str(path), name or what)

    with open_registry() as registry:
        served, follower = follow_alias(registry, model, alias, load_version, note)
        follower.start(look)
        try:
            yield served
        finally:
            served.close()
