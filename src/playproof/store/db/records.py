"""The relational tables: agents, their trajectories, steps and model calls, outcomes, judgements, training, trials.

One class a table; `metadata` holds them all. Money is integers of the game's smallest unit, times are aware UTC, and
what is unknown is None. Facts are written once; what a row may still gain (an end, an action, a judge's score) is
None until then. Outcomes stand in a table of their own, which nothing that builds a policy's view reads.
Leaves out: how rows are written (record) and grouped (episodes).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, Boolean, CheckConstraint, Double, ForeignKey, Index, Integer, MetaData, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from playproof.store.db.columns import MONEY, Moment

STATUSES = ("running", "completed", "failed", "cut")
"""How a trajectory stands: still open, ended by its agent, ended by an error, or closed for an agent that vanished."""
BATCH_STATUSES = ("pending", "training", "completed", "failed")
OUTCOME_KINDS = ("asset", "market")
"""An asset has a price at both ends of a window; a market has a question that resolves."""
TRIAL_KINDS = ("validation", "test")
WINDOW_USES = ("train", "holdout")


def _one_of(column: str, values: tuple[str, ...], name: str) -> CheckConstraint:
    return CheckConstraint(f"{column} IN ({', '.join(repr(value) for value in values)})", name=name)


class TableRow(DeclarativeBase):
    """Stand at the root of every table."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012
        str: Text(),
        int: Integer(),
        float: Double(),
        bool: Boolean(),
        datetime: Moment(),
        dict[str, Any]: JSON(none_as_null=True),
        list[Any]: JSON(none_as_null=True),
    }


class AgentRow(TableRow):
    """Who chooses: a person, a language model, a policy or a baseline."""

    __tablename__ = "agent"

    agent_id: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str | None]
    """human, llm, policy or baseline."""
    archetype: Mapped[str | None]
    name: Mapped[str | None]
    model: Mapped[str | None]
    model_version: Mapped[str | None]
    settings: Mapped[dict[str, Any] | None]
    created_at: Mapped[datetime]


class Trajectory(TableRow):
    """One agent's way through one window, as it was recorded."""

    __tablename__ = "trajectory"
    __table_args__ = (
        Index("ix_trajectory_agent_start", "agent_id", "start_time"),
        Index("ix_trajectory_window_agent", "window_id", "agent_id"),
        Index("ix_trajectory_scenario_created", "scenario_id", "created_at"),
        Index("ix_trajectory_training_used", "is_training_data", "used_in_training"),
        Index("ix_trajectory_batch", "batch_id"),
        Index("ix_trajectory_market_window", "market", "window_id"),
        Index("ix_trajectory_start", "start_time", "trajectory_id"),
        _one_of("final_status", STATUSES, "status"),
    )

    trajectory_id: Mapped[str] = mapped_column(primary_key=True)
    agent_id: Mapped[str] = mapped_column(ForeignKey("agent.agent_id"))
    archetype: Mapped[str | None]
    window_id: Mapped[str]
    """The window it started in, also where it goes on into the next."""
    window_hours: Mapped[int]
    scenario_id: Mapped[str]
    """The window's id unless another was given; forks of one window share a scenario."""
    episode_id: Mapped[str | None]
    batch_id: Mapped[str | None]
    """The run it was recorded in."""
    market: Mapped[str] = mapped_column(server_default="")
    """The declared market it was recorded in; empty for games that are installed."""
    start_time: Mapped[datetime]
    end_time: Mapped[datetime | None]
    duration_ms: Mapped[int | None] = mapped_column(MONEY)
    total_reward: Mapped[float | None]
    """The sum of what the agent reported; the training reward is computed when a data set is built."""
    reward_components: Mapped[dict[str, Any] | None]
    metrics: Mapped[dict[str, Any] | None]
    extra: Mapped[dict[str, Any] | None] = mapped_column("metadata")
    """What the agent's owner wrote beside it."""
    episode_length: Mapped[int]
    """Steps, an open one included."""
    final_status: Mapped[str]
    final_balance: Mapped[int | None] = mapped_column(MONEY)
    final_pnl: Mapped[int | None] = mapped_column(MONEY)
    trades_executed: Mapped[int | None]
    posts_created: Mapped[int | None]
    judge_reward: Mapped[float | None]
    judge_reasoning: Mapped[str | None]
    judged_at: Mapped[datetime | None]
    is_training_data: Mapped[bool]
    is_evaluation: Mapped[bool]
    used_in_training: Mapped[bool]
    trained_in_batch: Mapped[str | None]
    created_at: Mapped[datetime]


class StepRow(TableRow):
    """One decision of a trajectory; its action is None while the agent is still choosing."""

    __tablename__ = "step"

    trajectory_id: Mapped[str] = mapped_column(ForeignKey("trajectory.trajectory_id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    time: Mapped[datetime]
    state: Mapped[dict[str, Any]]
    """The environment as the agent stood in it: balance, pnl, open_positions and whatever else it was told."""
    accesses: Mapped[list[Any]]
    """What the agent looked at: provider, purpose, data, time."""
    completed_at: Mapped[datetime | None]
    action_type: Mapped[str | None]
    action_parameters: Mapped[dict[str, Any] | None]
    action_success: Mapped[bool | None]
    action_result: Mapped[dict[str, Any] | None]
    action_error: Mapped[str | None]
    action_reasoning: Mapped[str | None]
    reported_reward: Mapped[float | None]
    done: Mapped[bool | None]


class LlmCall(TableRow):
    """One call of a language model: what it was told, what it answered, and what training on it needs."""

    __tablename__ = "llm_call"
    __table_args__ = (Index("ix_llm_call_trajectory_step", "trajectory_id", "step"),)

    call_id: Mapped[str] = mapped_column(primary_key=True)
    trajectory_id: Mapped[str] = mapped_column(ForeignKey("trajectory.trajectory_id"))
    step: Mapped[int | None]
    """Number of the step that was open; None before the first."""
    position: Mapped[int] = mapped_column("place", key="position")
    """Order of the call in its trajectory, from 0."""
    time: Mapped[datetime]
    latency_ms: Mapped[float | None]
    model: Mapped[str]
    model_version: Mapped[str | None]
    purpose: Mapped[str]
    system_prompt: Mapped[str | None]
    user_prompt: Mapped[str | None]
    messages: Mapped[list[Any] | None]
    """The whole conversation where it is more than the two prompts."""
    response: Mapped[str | None]
    reasoning: Mapped[str | None]
    temperature: Mapped[float | None]
    max_tokens: Mapped[int | None]
    top_p: Mapped[float | None]
    prompt_tokens: Mapped[int | None]
    completion_tokens: Mapped[int | None]
    prompt_token_ids: Mapped[list[Any] | None]
    token_ids: Mapped[list[Any] | None]
    """Ids of the sampled tokens."""
    logprobs: Mapped[list[Any] | None]
    """Log-probabilities of the sampled tokens under the model that sampled them."""
    error: Mapped[str | None]


class MarketOutcome(TableRow):
    """What a window did with one asset or one market; written when the window has closed, changed by a correction."""

    __tablename__ = "market_outcome"
    __table_args__ = (_one_of("kind", OUTCOME_KINDS, "kind"),)

    window_id: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(primary_key=True)
    subject: Mapped[str] = mapped_column(primary_key=True)
    """Name of the asset, or id of the market."""
    market: Mapped[str] = mapped_column(primary_key=True, server_default="")
    """The declared market of the window; empty for games that are installed."""
    currency: Mapped[str | None]
    """Of the prices; None where the game has only one."""
    start_price: Mapped[int | None] = mapped_column(MONEY)
    end_price: Mapped[int | None] = mapped_column(MONEY)
    change: Mapped[float | None]
    """End over start, minus 1."""
    sentiment: Mapped[float | None]
    news_ids: Mapped[list[Any] | None]
    question: Mapped[str | None]
    outcome: Mapped[str | None]
    """yes or no; None while the market is open."""
    final_probability: Mapped[float | None]
    volume: Mapped[int | None] = mapped_column(MONEY)
    created_at: Mapped[datetime]


class OutcomeRevision(TableRow):
    """The outcomes of a window as they stood before a correction."""

    __tablename__ = "outcome_revision"

    market: Mapped[str] = mapped_column(primary_key=True)
    window_id: Mapped[str] = mapped_column(primary_key=True)
    revision: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    """Counted from 1, the outcomes that were written first."""
    rows: Mapped[list[Any]]
    reason: Mapped[str]
    """Why they were replaced."""
    replaced_at: Mapped[datetime]


class ImportCursor(TableRow):
    """How far a source of another system has been imported."""

    __tablename__ = "import_cursor"

    source: Mapped[str] = mapped_column(primary_key=True)
    """Hash of the address without its password, and of the market."""
    position: Mapped[dict[str, Any]]
    updated_at: Mapped[datetime]


class Judgement(TableRow):
    """A judge's score of one trajectory."""

    __tablename__ = "judgement"
    __table_args__ = (
        Index("ix_judgement_trajectory", "trajectory_id"),
        Index("ix_judgement_group", "group_id"),
    )

    judgement_id: Mapped[str] = mapped_column(primary_key=True)
    trajectory_id: Mapped[str] = mapped_column(ForeignKey("trajectory.trajectory_id"))
    judge_model: Mapped[str]
    judge_version: Mapped[str | None]
    prompt_hash: Mapped[str]
    score: Mapped[float]
    components: Mapped[dict[str, Any] | None]
    rank: Mapped[int | None]
    group_id: Mapped[str | None]
    reasoning: Mapped[str | None]
    created_at: Mapped[datetime]


class JudgeCall(TableRow):
    """One question to a judge and what it answered, whether or not the answer could be used."""

    __tablename__ = "judge_call"
    __table_args__ = (Index("ix_judge_call_group", "group_id"),)

    key: Mapped[str] = mapped_column(primary_key=True)
    """Hash of the judge, the prompt and everything that was shown, but for the random ids."""
    judge_model: Mapped[str]
    judge_version: Mapped[str | None]
    prompt_hash: Mapped[str]
    group_id: Mapped[str]
    labels: Mapped[list[Any]] = mapped_column("places", key="labels")
    """The random ids in the order shown."""
    nonce: Mapped[str]
    answer: Mapped[str]
    refused: Mapped[str | None]
    """Why the answer was not used, one word; None if it was."""
    prompt_tokens: Mapped[int | None]
    completion_tokens: Mapped[int | None]
    cost: Mapped[float | None]
    created_at: Mapped[datetime]


class TrainingBatch(TableRow):
    """What one training iteration learned from, and how it ended."""

    __tablename__ = "training_batch"
    __table_args__ = (
        Index("ix_training_batch_status", "status"),
        _one_of("status", BATCH_STATUSES, "status"),
    )

    batch_id: Mapped[str] = mapped_column(primary_key=True)
    trajectory_ids: Mapped[list[Any]]
    window_ids: Mapped[list[Any] | None]
    rewards: Mapped[list[Any] | None]
    rankings: Mapped[list[Any] | None]
    base_model: Mapped[str]
    model_version: Mapped[str | None]
    loss: Mapped[float | None]
    metrics: Mapped[dict[str, Any] | None]
    status: Mapped[str]
    error: Mapped[str | None]
    created_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]


class UsedWindow(TableRow):
    """A window that a line of models has learned from, or that is kept from it."""

    __tablename__ = "used_window"
    __table_args__ = (
        Index("ix_used_window_iteration", "lineage", "iteration"),
        _one_of("purpose", WINDOW_USES, "purpose"),
    )

    lineage: Mapped[str] = mapped_column(primary_key=True)
    """The run, and those that go on from its models."""
    window_id: Mapped[str] = mapped_column(primary_key=True)
    purpose: Mapped[str]
    iteration: Mapped[int]
    settled: Mapped[bool]
    """Are the weights that learned from it saved? Until then the window is only reserved."""
    model_version: Mapped[str | None]
    """The version that learning from it made."""
    created_at: Mapped[datetime]


class TrialRow(TableRow):
    """One look at data by one policy: what the honest statistics count."""

    __tablename__ = "trial"
    __table_args__ = (
        Index("ix_trial_family_created", "family", "created_at"),
        Index("ix_trial_policy_data", "policy_hash", "data_hash", "split"),
        _one_of("kind", TRIAL_KINDS, "kind"),
    )

    trial_id: Mapped[str] = mapped_column(primary_key=True)
    family: Mapped[str]
    policy_hash: Mapped[str]
    data_hash: Mapped[str]
    split: Mapped[str]
    kind: Mapped[str]
    created_at: Mapped[datetime]
    windows: Mapped[list[Any]]
    pnl: Mapped[list[Any]]
    """Profit of each window, in the smallest unit."""
    stake: Mapped[int] = mapped_column(MONEY)
    metric: Mapped[float | None]
    result: Mapped[dict[str, Any] | None]
    origin: Mapped[str | None]


class Request(TableRow):
    """A request that was carried out under an idempotency key, and its answer."""

    __tablename__ = "request"
    __table_args__ = (Index("ix_request_created", "created_at"),)

    key: Mapped[str] = mapped_column(primary_key=True)
    """The client's key, behind a hash of the token it came with."""
    body_hash: Mapped[str]
    answer: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]


metadata = TableRow.metadata
