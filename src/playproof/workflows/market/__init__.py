"""A market of one's own: declared, recorded and ranked, not simulated."""
