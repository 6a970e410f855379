"""The arena end to end: collect play, benchmark models, and the continuous training loop."""
