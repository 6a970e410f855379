"""Workflows that run several stages for one game."""
