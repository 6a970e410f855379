"""Commands that put models to work."""
