"""The calls by which an agent records a trajectory, the same for every recorder.

A recorder says what it does with each fact: store it (recorder), keep it for later (bulk) or send it (client).
Leaves out: what the facts hold (facts).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime
from typing import Any, Generic, TypeVar

from playproof.record.trajectories.facts import Access, ActionTaken, Call, End, Json, Start, StepEnd, StepStart

Number = TypeVar("Number")
"""What a recorder knows of a step: its number, or nothing."""
CallId = TypeVar("CallId")


class TrajectoryCalls(ABC, Generic[Number, CallId]):
    """Turn an agent's calls into facts."""

    def start_trajectory(
        self,
        agent_id: str,
        window_id: str | None = None,
        scenario_id: str | None = None,
        metadata: Json | None = None,
        **more: Any,
    ) -> str:
        """Begin a trajectory and give its id; `more` are further fields of `Start`."""
        return self.put_start(Start(agent_id, window_id, scenario_id, metadata, **more))

    def start_step(self, trajectory_id: str, state: Json) -> Number:
        """Begin a step and give its number."""
        return self.put_step(trajectory_id, StepStart(state, self.fact_time()))

    def log_provider_access(
        self, trajectory_id: str, provider: str, data: Any = None, purpose: str | None = None
    ) -> None:
        """Note what the agent looked at in the open step."""
        self.put_access(trajectory_id, Access(provider, data, purpose, self.fact_time()))

    def log_llm_call(self, trajectory_id: str, call: Call) -> CallId:
        """Note a call of a language model and give its id."""
        return self.put_call(trajectory_id, call)

    def complete_step(
        self, trajectory_id: str, action: ActionTaken, reward: float | None = None, *, done: bool = False
    ) -> Number:
        """End the open step with what the agent did, and give its number."""
        return self.put_action(trajectory_id, StepEnd(action, reward, done, self.fact_time()))

    def end_trajectory(
        self, trajectory_id: str, final_balance: int | None = None, final_pnl: int | None = None, **more: Any
    ) -> None:
        """End a trajectory; `more` are further fields of `End`."""
        self.put_end(trajectory_id, End(final_balance, final_pnl, **({"time": self.fact_time()} | more)))

    @abstractmethod
    def fact_time(self) -> datetime | None:
        """Give the time of a fact that comes without one; None where it is set when the fact is stored."""

    @abstractmethod
    def put_start(self, start: Start) -> str:
        """Take a start; give the trajectory's id."""

    @abstractmethod
    def put_step(self, trajectory_id: str, step: StepStart) -> Number:
        """Take a step's beginning."""

    @abstractmethod
    def put_access(self, trajectory_id: str, access: Access) -> None:
        """Take what the agent looked at."""

    @abstractmethod
    def put_call(self, trajectory_id: str, call: Call) -> CallId:
        """Take a model call."""

    @abstractmethod
    def put_action(self, trajectory_id: str, end: StepEnd) -> Number:
        """Take a step's end."""

    @abstractmethod
    def put_end(self, trajectory_id: str, end: End) -> None:
        """Take a trajectory's end."""
