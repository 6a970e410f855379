"""Evaluation: play policies over windows, and weigh what they earned."""

from playproof.evaluate.rollout import Score, play_windows
from playproof.stats.evidence import EProcess, bootstrap_interval, e_process

__all__ = ["EProcess", "Score", "bootstrap_interval", "e_process", "play_windows"]
