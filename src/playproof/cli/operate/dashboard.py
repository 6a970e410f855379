"""Open the dashboard: everything of the home on one page, live."""

from __future__ import annotations

from typing import Annotated

import typer

from playproof.cli.output import note
from playproof.home import home

PORT = 8780

app = typer.Typer(help=__doc__.partition("\n")[0])


@app.command()
def dashboard(
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.", min=0, max=65535)] = PORT,
    worker: Annotated[bool, typer.Option(help="Run a worker beside it, which does the jobs.")] = True,
    role: Annotated[str, typer.Option(help="Whom the first link is for: viewer, operator or admin.")] = "admin",
    links: Annotated[int, typer.Option(help="How many links to print.", min=1, max=100)] = 1,
    seconds: Annotated[float | None, typer.Option(help="Stop after so many seconds; default: never.")] = None,
) -> None:
    """Open the dashboard until Ctrl-C. The link that is printed lets one browser in, once.

    Example: playproof dashboard --port 0 --seconds 60
    """
    import subprocess
    import sys

    from playproof.dashboard.access import ROLES, DashboardSessions
    from playproof.dashboard.app import dashboard_app
    from playproof.dashboard.context import DashboardContext
    from playproof.errors import UnknownName
    from playproof.net.access import is_loopback
    from playproof.net.listening import bind, listen
    from playproof.store.db import opened, ready

    chosen = next((item for item in ROLES if item == role), None)
    if chosen is None:
        raise UnknownName("role", role, ROLES)
    root, sessions = home(), DashboardSessions()
    root.mkdir(parents=True, exist_ok=True)
    if not is_loopback(host):
        note(f"{host} can be reached by others, and nothing is encrypted: put a proxy with TLS before it")
    with opened(root) as engine:
        context = DashboardContext(root, ready(engine))
        taken = bind(host, port)
        name, number, *_ = taken.getsockname()
        shown = f"[{name}]" if ":" in name else name
        working = None
        if worker:
            import os

            words = [sys.executable, "-P", "-m", "playproof", "worker", "--parent", str(os.getpid())]
            working = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603 - our own
        try:
            for _ in range(links):
                note(f"dashboard of {root}: http://{shown}:{number}/enter?once={sessions.link(chosen)}")
            listen(dashboard_app(context, sessions, loopback=is_loopback(host)), taken, seconds=seconds)
        finally:
            if working is not None:
                working.terminate()
                working.wait()
