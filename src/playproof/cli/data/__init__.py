"""Commands that record, import, store and build data."""
