"""Make the tables of agents, trajectories, outcomes, judgements, training, trials and requests."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from playproof.store.db.columns import Moment

revision = "0001_first_tables"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make every table; those that others point to come first."""
    _agent()
    _market_outcome()
    _request()
    _training_batch()
    _trial()
    _trained_model()
    _trajectory()
    _judgement()
    _llm_call()
    _step()


def _agent() -> None:
    op.create_table(
        "agent",
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=True),
        sa.Column("archetype", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("model_version", sa.Text(), nullable=True),
        sa.Column("settings", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("agent_id", name=op.f("pk_agent")),
    )


def _market_outcome() -> None:
    op.create_table(
        "market_outcome",
        sa.Column("window_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("start_price", sa.BigInteger(), nullable=True),
        sa.Column("end_price", sa.BigInteger(), nullable=True),
        sa.Column("change", sa.Double(), nullable=True),
        sa.Column("sentiment", sa.Double(), nullable=True),
        sa.Column("news_ids", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("question", sa.Text(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("final_probability", sa.Double(), nullable=True),
        sa.Column("volume", sa.BigInteger(), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.CheckConstraint("kind IN ('asset', 'market')", name=op.f("ck_market_outcome_kind")),
        sa.PrimaryKeyConstraint("window_id", "kind", "subject", name=op.f("pk_market_outcome")),
    )


def _request() -> None:
    op.create_table(
        "request",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("body_hash", sa.Text(), nullable=False),
        sa.Column("answer", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_request")),
    )
    op.create_index("ix_request_created", "request", ["created_at"], unique=False)


def _training_batch() -> None:
    op.create_table(
        "training_batch",
        sa.Column("batch_id", sa.Text(), nullable=False),
        sa.Column("trajectory_ids", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("window_ids", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("rewards", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("rankings", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("base_model", sa.Text(), nullable=False),
        sa.Column("model_version", sa.Text(), nullable=True),
        sa.Column("loss", sa.Double(), nullable=True),
        sa.Column("metrics", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("finished_at", Moment(), nullable=True),
        sa.CheckConstraint(
            "status IN ('pending', 'training', 'completed', 'failed')", name=op.f("ck_training_batch_status")
        ),
        sa.PrimaryKeyConstraint("batch_id", name=op.f("pk_training_batch")),
    )
    op.create_index("ix_training_batch_status", "training_batch", ["status"], unique=False)


def _trial() -> None:
    op.create_table(
        "trial",
        sa.Column("trial_id", sa.Text(), nullable=False),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("policy_hash", sa.Text(), nullable=False),
        sa.Column("data_hash", sa.Text(), nullable=False),
        sa.Column("split", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("windows", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("pnl", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("stake", sa.BigInteger(), nullable=False),
        sa.Column("metric", sa.Double(), nullable=True),
        sa.Column("result", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("origin", sa.Text(), nullable=True),
        sa.CheckConstraint("kind IN ('validation', 'test')", name=op.f("ck_trial_kind")),
        sa.PrimaryKeyConstraint("trial_id", name=op.f("pk_trial")),
    )
    op.create_index("ix_trial_family_created", "trial", ["family", "created_at"], unique=False)
    op.create_index("ix_trial_policy_data", "trial", ["policy_hash", "data_hash", "split"], unique=False)


def _trained_model() -> None:
    op.create_table(
        "trained_model",
        sa.Column("model_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("base_model", sa.Text(), nullable=False),
        sa.Column("batch_id", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("storage_path", sa.Text(), nullable=True),
        sa.Column("benchmark_score", sa.Double(), nullable=True),
        sa.Column("metrics", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("used_by", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("inferences", sa.BigInteger(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("deployed_at", Moment(), nullable=True),
        sa.CheckConstraint(
            "status IN ('training', 'ready', 'deployed', 'archived')", name=op.f("ck_trained_model_status")
        ),
        sa.ForeignKeyConstraint(["batch_id"], ["training_batch.batch_id"], name=op.f("fk_trained_model_batch_id")),
        sa.PrimaryKeyConstraint("model_id", name=op.f("pk_trained_model")),
    )


def _trajectory() -> None:
    op.create_table(
        "trajectory",
        sa.Column("trajectory_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("archetype", sa.Text(), nullable=True),
        sa.Column("window_id", sa.Text(), nullable=False),
        sa.Column("window_hours", sa.Integer(), nullable=False),
        sa.Column("scenario_id", sa.Text(), nullable=False),
        sa.Column("episode_id", sa.Text(), nullable=True),
        sa.Column("batch_id", sa.Text(), nullable=True),
        sa.Column("start_time", Moment(), nullable=False),
        sa.Column("end_time", Moment(), nullable=True),
        sa.Column("duration_ms", sa.BigInteger(), nullable=True),
        sa.Column("total_reward", sa.Double(), nullable=True),
        sa.Column("reward_components", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("metrics", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("metadata", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("episode_length", sa.Integer(), nullable=False),
        sa.Column("final_status", sa.Text(), nullable=False),
        sa.Column("final_balance", sa.BigInteger(), nullable=True),
        sa.Column("final_pnl", sa.BigInteger(), nullable=True),
        sa.Column("trades_executed", sa.Integer(), nullable=True),
        sa.Column("posts_created", sa.Integer(), nullable=True),
        sa.Column("judge_reward", sa.Double(), nullable=True),
        sa.Column("judge_reasoning", sa.Text(), nullable=True),
        sa.Column("judged_at", Moment(), nullable=True),
        sa.Column("is_training_data", sa.Boolean(), nullable=False),
        sa.Column("is_evaluation", sa.Boolean(), nullable=False),
        sa.Column("used_in_training", sa.Boolean(), nullable=False),
        sa.Column("trained_in_batch", sa.Text(), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.CheckConstraint(
            "final_status IN ('running', 'completed', 'failed', 'cut')", name=op.f("ck_trajectory_status")
        ),
        sa.ForeignKeyConstraint(["agent_id"], ["agent.agent_id"], name=op.f("fk_trajectory_agent_id")),
        sa.PrimaryKeyConstraint("trajectory_id", name=op.f("pk_trajectory")),
    )
    op.create_index("ix_trajectory_agent_start", "trajectory", ["agent_id", "start_time"], unique=False)
    op.create_index("ix_trajectory_batch", "trajectory", ["batch_id"], unique=False)
    op.create_index("ix_trajectory_scenario_created", "trajectory", ["scenario_id", "created_at"], unique=False)
    op.create_index("ix_trajectory_training_used", "trajectory", ["is_training_data", "used_in_training"], unique=False)
    op.create_index("ix_trajectory_window_agent", "trajectory", ["window_id", "agent_id"], unique=False)


def _judgement() -> None:
    op.create_table(
        "judgement",
        sa.Column("judgement_id", sa.Text(), nullable=False),
        sa.Column("trajectory_id", sa.Text(), nullable=False),
        sa.Column("judge_model", sa.Text(), nullable=False),
        sa.Column("judge_version", sa.Text(), nullable=True),
        sa.Column("prompt_hash", sa.Text(), nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("components", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("rank", sa.Integer(), nullable=True),
        sa.Column("group_id", sa.Text(), nullable=True),
        sa.Column("reasoning", sa.Text(), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(
            ["trajectory_id"], ["trajectory.trajectory_id"], name=op.f("fk_judgement_trajectory_id")
        ),
        sa.PrimaryKeyConstraint("judgement_id", name=op.f("pk_judgement")),
    )
    op.create_index("ix_judgement_group", "judgement", ["group_id"], unique=False)
    op.create_index("ix_judgement_trajectory", "judgement", ["trajectory_id"], unique=False)


def _llm_call() -> None:
    op.create_table(
        "llm_call",
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("trajectory_id", sa.Text(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=True),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("time", Moment(), nullable=False),
        sa.Column("latency_ms", sa.Double(), nullable=True),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("model_version", sa.Text(), nullable=True),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("system_prompt", sa.Text(), nullable=True),
        sa.Column("user_prompt", sa.Text(), nullable=True),
        sa.Column("messages", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("response", sa.Text(), nullable=True),
        sa.Column("reasoning", sa.Text(), nullable=True),
        sa.Column("temperature", sa.Double(), nullable=True),
        sa.Column("max_tokens", sa.Integer(), nullable=True),
        sa.Column("top_p", sa.Double(), nullable=True),
        sa.Column("prompt_tokens", sa.Integer(), nullable=True),
        sa.Column("completion_tokens", sa.Integer(), nullable=True),
        sa.Column("prompt_token_ids", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("token_ids", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("logprobs", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["trajectory_id"], ["trajectory.trajectory_id"], name=op.f("fk_llm_call_trajectory_id")
        ),
        sa.PrimaryKeyConstraint("call_id", name=op.f("pk_llm_call")),
    )
    op.create_index("ix_llm_call_trajectory_step", "llm_call", ["trajectory_id", "step"], unique=False)


def _step() -> None:
    op.create_table(
        "step",
        sa.Column("trajectory_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("time", Moment(), nullable=False),
        sa.Column("state", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("accesses", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("completed_at", Moment(), nullable=True),
        sa.Column("action_type", sa.Text(), nullable=True),
        sa.Column("action_parameters", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("action_success", sa.Boolean(), nullable=True),
        sa.Column("action_result", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("action_error", sa.Text(), nullable=True),
        sa.Column("action_reasoning", sa.Text(), nullable=True),
        sa.Column("reported_reward", sa.Double(), nullable=True),
        sa.Column("done", sa.Boolean(), nullable=True),
        sa.ForeignKeyConstraint(["trajectory_id"], ["trajectory.trajectory_id"], name=op.f("fk_step_trajectory_id")),
        sa.PrimaryKeyConstraint("trajectory_id", "number", name=op.f("pk_step")),
    )
