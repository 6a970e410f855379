"""Commands that operate what was built: models, experiments, jobs and their worker, the dashboard."""
