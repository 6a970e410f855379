"""Run benchmarks: `python -m benchmarks [NAME] [--json]`."""

from benchmarks import app
from playproof.cli.app import run_app

raise SystemExit(run_app(app, "benchmarks"))
