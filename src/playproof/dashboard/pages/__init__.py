"""The pages of the dashboard, a module for each section: functions from a context and an address to a Page."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from playproof.dashboard.context import DashboardContext
from playproof.dashboard.pages import (
    agents,
    bots,
    data_sets,
    front,
    jobs,
    models,
    proof,
    recordings,
    runs,
    settings,
    store,
)
from playproof.dashboard.shell import Page
from playproof.dashboard.tables import TableSource

PAGES: tuple[tuple[str, Callable[[DashboardContext, Mapping[str, str]], Page]], ...] = (
    ("/", front.home_page),
    ("/recordings", recordings.recordings_page),
    ("/recordings/{session}", recordings.session_page),
    ("/store", store.store_page),
    ("/store/query", store.query_page),
    ("/datasets", data_sets.datasets_page),
    ("/datasets/compare", data_sets.compare_page),
    ("/datasets/{label}", data_sets.dataset_page),
    ("/runs", runs.runs_page),
    ("/runs/compare", runs.compare_page),
    ("/runs/{name}", runs.run_page),
    ("/proof", proof.proof_page),
    ("/proof/trials", proof.trials_page),
    ("/proof/{report}", proof.report_page),
    ("/agents", agents.agents_page),
    ("/agents/trajectories", agents.trajectories_page),
    ("/agents/search", agents.search_page),
    ("/agents/review", agents.review_page),
    ("/agents/trajectories/{trajectory}", agents.trajectory_page),
    ("/models", models.models_page),
    ("/models/{model}", models.model_page),
    ("/experiments", models.experiments_page),
    ("/experiments/{experiment}", models.experiment_page),
    ("/bots", bots.bots_page),
    ("/bots/{account}", bots.bot_page),
    ("/jobs", jobs.jobs_page),
    ("/jobs/{job}", jobs.job_page),
    ("/settings", settings.settings_page),
)
"""By address; the first that fits counts."""

TABLES: Mapping[str, TableSource] = {
    source.name: source
    for source in (
        recordings.SESSIONS,
        data_sets.DATASETS,
        runs.RUNS,
        proof.REPORTS,
        proof.TRIALS,
        agents.TRAJECTORIES,
        models.MODELS,
        jobs.JOBS,
    )
}
