"""Experiments between two versions: registered before they start, looked at as often as one likes, five endings."""
