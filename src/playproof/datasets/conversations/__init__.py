"""Conversations for training language models: groups, ART trajectories and used windows."""
