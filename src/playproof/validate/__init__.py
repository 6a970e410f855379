"""Validation: prove, or refuse to claim, an edge."""

from playproof.validate.gates import Gate
from playproof.validate.verdict import Verdict, give_verdict

__all__ = ["Gate", "Verdict", "give_verdict"]
