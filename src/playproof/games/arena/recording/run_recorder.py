"""Write a run down as trajectories, one for each agent and window, and read it back to run it again.

The recorder is given: anything with the methods of the trajectory SDK. Every decision is a step with
what the agent saw, the prompt and the answer, scripted agents' too. Outcomes go elsewhere (closing).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from playproof.errors import InputError
from playproof.game import Choice
from playproof.games.arena.agents.runner import (
    AgentView,
    ArenaAgent,
    ArenaRun,
    ClosedWindow,
    ModelCall,
    Reply,
    RunPlan,
    TapedAgent,
)
from playproof.games.arena.market.world import DecisionResult, MarketWorld, WorldSettings
from playproof.json_types import Json

_TYPES = {"WAIT": "hold", "CREATE_POST": "create_post"}


class TrajectorySink(Protocol):
    """The part of the trajectory SDK that a run needs."""

    def start_trajectory(
        self,
        agent_id: str,
        window_id: str | None = None,
        scenario_id: str | None = None,
        metadata: Json | None = None,
        **more: object,
    ) -> str:
        """Begin a trajectory."""

    def start_step(self, trajectory_id: str, state: Json) -> int:
        """Begin a step."""

    def log_provider_access(
        self, trajectory_id: str, provider: str, data: object = None, purpose: str | None = None
    ) -> None:
        """Note what the agent looked at."""

    def log_llm_call(self, trajectory_id: str, call: object) -> str:
        """Note a model call."""

    def complete_step(
        self, trajectory_id: str, action: object, reward: float | None = None, *, done: bool = False
    ) -> int:
        """End a step."""

    def end_trajectory(
        self, trajectory_id: str, final_balance: int | None = None, final_pnl: int | None = None, **more: object
    ) -> None:
        """End a trajectory."""


@dataclass(frozen=True)
class RecordTypes:
    """The records that the recorder takes."""

    call: Callable[..., Any]
    action: Callable[..., Any]


class TrajectoryRunSink:
    """Records a run through a trajectory recorder."""

    def __init__(
        self,
        recorder: TrajectorySink,
        forms: RecordTypes,
        run: str,
        closed: Callable[[ClosedWindow], object] | None = None,
    ) -> None:
        self.recorder, self.forms, self.run, self.closed = recorder, forms, run, closed
        self._open: dict[str, tuple[str, int]] = {}

    def begin(self, world: MarketWorld, agents: Sequence[ArenaAgent], plan: RunPlan) -> None:
        """Start a trajectory for every agent."""
        metadata = {
            "run": self.run,
            "settings": plan.settings.to_json(),
            "decisions": plan.decisions,
            "agents": [agent.name for agent in agents],
        }
        for agent in agents:
            identity = self.recorder.start_trajectory(
                agent.name,
                world.window,
                metadata=metadata,
                archetype=agent.archetype,
                batch_id=self.run,
                time=world.now,
            )
            self._open[agent.name] = (identity, world.exchange.equity(agent.name))

    def turn(self, world: MarketWorld, taken: Sequence[tuple[AgentView, Reply, DecisionResult]]) -> None:  # noqa: ARG002
        """Record a step of every agent."""
        for sight, reply, done in taken:
            self._step(sight, reply, done)

    def _step(self, sight: AgentView, reply: Reply, done: DecisionResult) -> None:
        identity, start = self._open[sight.agent]
        equity = sight.known.equity()
        self.recorder.start_step(
            identity,
            {
                "tick": sight.tick,
                "balance": sight.known.own.cash,
                "equity": equity,
                "pnl": None if equity is None else equity - start,
                "open_positions": len(sight.known.own.perps) + len(sight.known.own.shares),
            },
        )
        for provider, data in sight.providers().items():
            self.recorder.log_provider_access(identity, provider, data, "decide")
        self.recorder.log_llm_call(identity, self._call(sight, reply))
        self.recorder.complete_step(identity, self._action(reply.text, done))

    def _call(self, sight: AgentView, reply: Reply) -> Any:
        """Give the model call, or what it would have been for a scripted agent."""
        call = reply.call or ModelCall("scripted", sight.messages(), reply.text)
        texts = {message.role: message.content for message in call.messages}
        return self.forms.call(
            call.model,
            system_prompt=texts.get("system"),
            user_prompt=texts.get("user"),
            response=call.response,
            error=call.error,
            latency_ms=call.latency_ms,
            model_version=call.model_version,
            temperature=call.temperature,
            max_tokens=call.max_tokens,
            prompt_tokens=call.prompt_tokens,
            completion_tokens=call.completion_tokens,
            prompt_token_ids=_list(call.prompt_token_ids),
            token_ids=_list(call.token_ids),
            logprobs=_list(call.logprobs),
        )

    def _action(self, text: str, done: DecisionResult) -> Any:
        choice, fill = done.choice, done.fill
        names = ("order", "amount", "fee", "units", "shares")
        result = None if fill is None else {name: getattr(fill, name) for name in names}
        return self.forms.action(
            action_type(choice),
            {"text": text, "order": choice.kind, **choice.arguments},
            success=done.refused is None,
            result=result,
            error=done.refused,
        )

    def end(self, world: MarketWorld, closed: ClosedWindow) -> None:  # noqa: ARG002
        """End every agent's trajectory, then let the outcomes be written."""
        for tally in closed.tallies:
            identity, start = self._open.pop(tally.agent)
            metrics = {
                "start_equity": start,
                "end_equity": tally.end_equity,
                "fees": tally.fees,
                "decisions": tally.decisions,
                "rejected": tally.rejected,
                "refused": tally.refused,
            }
            self.recorder.end_trajectory(identity, tally.end_cash, tally.pnl, metrics=metrics, time=closed.end)
        if self.closed is not None:
            self.closed(closed)


def action_type(choice: Choice) -> str:
    """Give how an action is counted: trade, hold, create_post or rejected."""
    return "rejected" if choice.rejected is not None else _TYPES.get(choice.kind, "trade")


def _list(values: Sequence[object] | None) -> list[Any] | None:
    return None if values is None else list(values)


@dataclass(frozen=True)
class RecordedTrajectory:
    """One trajectory as it was read back."""

    agent: str
    archetype: str
    window: str
    metadata: Mapping[str, Any]
    answers: Mapping[int, str]
    """By tick."""
    final_balance: int | None
    final_pnl: int | None


def run_again(recorded: Iterable[RecordedTrajectory]) -> list[ClosedWindow]:
    """Run a recorded run again from its answers alone; every window must be there, from the first on."""
    result = list(recorded)
    if not result:
        raise InputError("expected at least one trajectory of the run, found none")
    payload = result[0].metadata
    windows = sorted({entry.window for entry in result})
    answers: dict[str, dict[tuple[str, int], str]] = {name: {} for name in payload["agents"]}
    for item in result:
        answers[item.agent] |= {(item.window, tick): text for tick, text in item.answers.items()}
    kinds = {entry.agent: entry.archetype for entry in result}
    plan = RunPlan(WorldSettings.from_json(payload["settings"]), len(windows), payload["decisions"])
    again = ArenaRun(plan, [TapedAgent(name, kinds.get(name, "taped"), answers[name]) for name in payload["agents"]])
    closed = list(again.windows())
    if [entry.window for entry in closed] != windows:
        raise InputError(f"expected every window of the run from {closed[0].window} on, found {windows[0]} first")
    return closed


def differences(recorded: Iterable[RecordedTrajectory], closed: Iterable[ClosedWindow]) -> list[str]:
    """Tell where a recording and the same run again differ in money, to the last unit."""
    result = {(item.window, item.agent): item for item in recorded}
    lines = []
    for tally in (tally for window in closed for tally in window.tallies):
        was = result.get((tally.window, tally.agent))
        if was is None:
            lines.append(f"{tally.window} {tally.agent}: not recorded")
        elif (was.final_balance, was.final_pnl) != (tally.end_cash, tally.pnl):
            lines.append(
                f"{tally.window} {tally.agent}: recorded {was.final_balance} and {was.final_pnl}, "
                f"again {tally.end_cash} and {tally.pnl}"
            )
    return lines
