"""Training: one readable file a method."""
