"""Rewards of the crash game: terms, presets, broken ones to test the checks, and probe rounds."""
