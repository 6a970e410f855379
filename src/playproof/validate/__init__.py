"""Validation: prove, or refuse to claim, an edge."""

from playproof.validate.gates import Gate, Verdict, give_verdict

__all__ = ["Gate", "Verdict", "give_verdict"]
