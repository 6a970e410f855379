"""Run the study: `python -m studies.experiments`."""

from playproof.cli.app import run_app
from studies.experiments.study import app

raise SystemExit(run_app(app, "studies.experiments"))
