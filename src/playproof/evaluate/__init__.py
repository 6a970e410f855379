"""Evaluation: play policies over windows, and weigh what they earned."""

from playproof.evaluate.evidence import EProcess, bootstrap_interval, e_process
from playproof.evaluate.score import Score, play_windows

__all__ = ["EProcess", "Score", "bootstrap_interval", "e_process", "play_windows"]
