"""Recorded play of the arena: columns, feed, ledger, replay and ranking."""
