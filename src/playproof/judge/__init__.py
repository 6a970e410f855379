"""Scores of language agents' episodes: computed from money alone, or given by a judge; the two are never mixed."""
