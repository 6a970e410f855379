"""Recording: frames in, acknowledged events out."""
