"""A policy that looks its action up in a table, and its file.

The file is JSON: features, the WAIT action, the stake it was made for, and one row for each
situation.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from playproof.errors import DecodeError
from playproof.game import Action, Observation
from playproof.json_types import Json

Situation = tuple[float, ...]


@dataclass(frozen=True)
class TablePolicy:
    """Choose by what the watched features show; wait in every situation that the table does not hold."""

    observation: str
    actions: str
    features: tuple[str, ...]
    """Names of the watched features."""
    columns: tuple[int, ...]
    """Where they stand in the observation."""
    wait: tuple[int, ...]
    stake: int
    """Money reserved for each window, fixed before the policy is evaluated."""
    table: Mapping[Situation, tuple[int, ...]]
    data_hash: str
    """The data set it was learned from."""

    def act(self, observation: Observation) -> Action:
        """Look the situation up."""
        row = np.asarray(observation)
        return self.table.get(tuple(float(row[index]) for index in self.columns), self.wait)

    def to_json(self) -> str:
        """Write the policy's file; equal policies give equal texts."""
        rows = sorted([list(situation), list(action)] for situation, action in self.table.items())
        return json.dumps(vars(self) | {"table": rows}, sort_keys=True, indent=1) + "\n"

    @property
    def policy_hash(self) -> str:
        """Give the identity of this policy in verdicts and ledgers."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @classmethod
    def from_json(cls, text: str) -> TablePolicy:
        """Read a policy's file."""
        try:
            payload: Json = json.loads(text)
            rows = {tuple(map(float, row)): tuple(map(int, action)) for row, action in payload["table"]}
            lists: Json = {name: tuple(payload[name]) for name in ("features", "columns", "wait")}
            return cls(**payload | lists | {"table": rows})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DecodeError(f"expected the file of a table policy, found: {error}") from None
