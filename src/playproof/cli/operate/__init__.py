"""Commands that operate what was built: jobs, their worker, the dashboard."""
