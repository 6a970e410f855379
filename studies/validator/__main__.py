"""Run the study: `python -m studies.validator`."""

from playproof.cli.app import run_app
from studies.validator.command import app

raise SystemExit(run_app(app, "studies.validator"))
