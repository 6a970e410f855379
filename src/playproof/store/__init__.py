"""The event store: what it acknowledged is there."""
