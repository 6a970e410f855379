"""Operating: what goes on while nobody looks, such as jobs."""
