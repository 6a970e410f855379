"""Recorded trajectories as episodes: windows and how ready they are, outcomes, and a page to read one."""
