"""The relational tables: agents, trajectories, outcomes, judgements, training, trials; SQLite, or PostgreSQL by URL.

`connect` opens them, `upgrade` brings them to this package's version, `check` tells how they stand, `writing` gives a
transaction. Leaves out: what is recorded and how it is grouped.
"""

from __future__ import annotations

from playproof.store.db.bots import BotAccount, BotAudit, BotOrder, BotSession
from playproof.store.db.engine import connect, database_url, opened, shown_url, writing
from playproof.store.db.group_commit import GroupWriter
from playproof.store.db.job_records import JOB_STATUSES, JobRow, ReviewMark
from playproof.store.db.model_records import (
    DeploymentRow,
    ExperimentRow,
    ExperimentUnitRow,
    ModelPointerRow,
    ModelRow,
    ModelVersionRow,
    PointerChangeRow,
)
from playproof.store.db.records import (
    AgentRow,
    ImportCursor,
    JudgeCall,
    Judgement,
    LlmCall,
    MarketOutcome,
    OutcomeRevision,
    Request,
    StepRow,
    TableRow,
    TrainingBatch,
    Trajectory,
    TrialRow,
    UsedWindow,
    metadata,
)
from playproof.store.db.versions import SchemaStatus, check, ready, upgrade

__all__ = [
    "JOB_STATUSES",
    "AgentRow",
    "BotAccount",
    "BotAudit",
    "BotOrder",
    "BotSession",
    "DeploymentRow",
    "ExperimentRow",
    "ExperimentUnitRow",
    "GroupWriter",
    "ImportCursor",
    "JobRow",
    "JudgeCall",
    "Judgement",
    "LlmCall",
    "MarketOutcome",
    "ModelPointerRow",
    "ModelRow",
    "ModelVersionRow",
    "OutcomeRevision",
    "PointerChangeRow",
    "Request",
    "ReviewMark",
    "SchemaStatus",
    "StepRow",
    "TableRow",
    "TrainingBatch",
    "Trajectory",
    "TrialRow",
    "UsedWindow",
    "check",
    "connect",
    "database_url",
    "metadata",
    "opened",
    "ready",
    "shown_url",
    "upgrade",
    "writing",
]
