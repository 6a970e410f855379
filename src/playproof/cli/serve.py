"""Serve a trained model: language models as OpenAI-compatible chats, policies of numbers as /act."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from playproof.cli.output import note
from playproof.cli.targets import find_model

app = typer.Typer(help=__doc__.partition("\n")[0])


@app.command()
def serve(
    checkpoint: Annotated[
        str,
        typer.Argument(
            metavar="CHECKPOINT",
            help="Folder of a checkpoint or of a model, a run's folder or name, or a model by name.",
        ),
    ],
    *,
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
    seconds: Annotated[float | None, typer.Option(help="Stop after so many seconds; default: never.")] = None,
) -> None:
    """Serve a model until Ctrl-C.

    Example: playproof serve runs/my-grpo/checkpoint --port 8000

    Example: playproof serve smollm2 --port 0 --seconds 60
    """
    from playproof.net.listening import bind, listen
    from playproof.serve.batching import ServeLimits
    from playproof.serve.serving import behind_door, prepare

    served = prepare(find_model(checkpoint), ServeLimits(batch=batch, waiting=waiting, max_tokens=max_tokens), name)
    try:
        door = behind_door(served.app, host, os.environ.get(key_variable) or None)
        taken = bind(host, port)
        text = "/v1" if served.kind == "chat" else "/act"
        note(f"serving {served.name} at http://{host}:{taken.getsockname()[1]}{text}")
        listen(door, taken, seconds=seconds)
    finally:
        served.close()
