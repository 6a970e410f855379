"""Import the PostgreSQL tables of a studio's own system into a declared market: trajectories, calls and outcomes.

The tables are `trajectories`, `llm_call_logs` and `market_outcomes`; their columns may be written as snake_case or as
quoted camelCase, as an ORM writes them, with or without window_id and window_hours. They are read in one read-only
transaction through a server-side cursor, and stored by COPY, some hundred trajectories and the position of the import
in one transaction: a killed import goes on where it was, and what is there already is left as it is.
Money in floating-point dollars becomes whole units; every rounding is counted. A row that cannot be read is reported by
its id, and the others come in. The calls inside steps_json and those of llm_call_logs are matched, not doubled.
Leaves out: training_batches, trained_models and model_deployments, which describe models that are not here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import orjson
from sqlalchemy import Engine, delete, insert, make_url, select
from sqlalchemy.exc import ArgumentError

from playproof.errors import ConfigError, InputError, MissingExtra, PlayproofError, RefusedRecord
from playproof.game.markets import MarketDeclaration
from playproof.json_types import Json
from playproof.money import UNIT
from playproof.record.trajectories.bulk import TrajectoryDraft, drafts_columns, insert_agents
from playproof.record.trajectories.facts import PURPOSES, Access, ActionTaken, Call, End, Start, StepEnd, StepStart
from playproof.record.trajectories.posted_outcomes import (
    InvalidField,
    PostedOutcomes,
    collect_rows,
    read_asset,
    read_question,
    write_posted,
)
from playproof.record.trajectories.secrets import SecretScrubber
from playproof.record.trajectories.writes import ResolvedStart
from playproof.store.db import ImportCursor, LlmCall, Trajectory, metadata, writing
from playproof.store.db.bulk import insert_columns
from playproof.store.db.columns import LARGEST

if TYPE_CHECKING:
    import psycopg

TABLES: Mapping[str, tuple[str, ...]] = {
    "trajectories": ("trajectories", "Trajectories", "trajectory", "Trajectory"),
    "llm_call_logs": ("llm_call_logs", "llmCallLogs", "LlmCallLogs", "LlmCallLog", "LLMCallLog"),
    "market_outcomes": ("market_outcomes", "marketOutcomes", "MarketOutcomes", "MarketOutcome"),
}
"""Names under which a table is looked for."""
NEEDED: Mapping[str, tuple[str, ...]] = {
    "trajectories": ("trajectory_id", "agent_id", "start_time", "steps_json", "final_status"),
    "llm_call_logs": ("trajectory_id", "step_id", "call_id", "model", "response"),
    "market_outcomes": ("window_id",),
}
STATUSES: Mapping[str, str] = {"completed": "completed", "terminated": "cut", "timeout": "cut", "error": "failed"}
"""How the studio's final_status is called here; the original word stays in the metadata."""
TOGETHER = 400
"""Trajectories of one transaction."""
MOST_TEXT = 64 << 20
"""Characters of steps_json that are read; a longer one is reported."""
TOGETHER_TEXT = 32 << 20
"""Characters of steps_json that are stored in one transaction, but for a single one that is longer."""
MOST_STEPS = 100_000
OVERLAP = timedelta(minutes=10)
"""How far before its position an import begins again: rows may be committed later than their own time."""
_SAFE = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_LAST_NUMBER = re.compile(r"(\d+)$", re.ASCII)


@dataclass(frozen=True, slots=True)
class RowProblem:
    """Why one row of the studio's tables was not imported."""

    table: str
    row: str
    """Its id."""
    reason: str


@dataclass
class MoneyRounding:
    """How much floating-point money was changed to become whole units."""

    size: int
    """The market's smallest amount, in units of 10^-9."""
    values: int = 0
    count: int = 0
    largest: float = 0.0
    """Largest difference, in the currency."""

    def units(self, value: object, name: str) -> int | None:
        """Give money as whole units of 10^-9, rounded to the market's smallest amount; None stays None."""
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
            raise InputError(f"expected {name} as money, found {value!r:.60}")
        self.values += 1
        if type(value) is float and -1e6 < value < 1e6:
            # Below a million both products are exact to the last unit, so that no Decimal is needed.
            units = round(value * UNIT / self.size) * self.size
            if units / UNIT != value:
                self._note(abs(units / UNIT - value))
            return units
        try:
            exact = Decimal(str(value)) * UNIT
            units = int((exact / self.size).to_integral_value()) * self.size
        except (InvalidOperation, ValueError, OverflowError):
            raise InputError(f"expected {name} as a finite amount of money, found {value!r:.60}") from None
        if abs(units) > LARGEST:
            raise InputError(f"expected {name} of at most {LARGEST // UNIT}, found {value!r:.60}")
        if units != exact:
            self._note(float(abs(units - exact) / UNIT))
        return units

    def _note(self, difference: float) -> None:
        self.count += 1
        self.largest = max(self.largest, difference)


@dataclass
class StudioImport:
    """What came from a studio's tables, what was rounded, and what it can be used for."""

    source: str
    """The address, without its password."""
    market: str
    spelling: str = ""
    """snake_case or camelCase."""
    resumed_from: str | None = None
    read: int = 0
    """Trajectories that were read."""
    trajectories: int = 0
    """New ones, which were stored."""
    known: int = 0
    """There already, left as they are."""
    steps: int = 0
    calls: int = 0
    calls_in_both: int = 0
    """Calls that stand in steps_json and in llm_call_logs, stored once."""
    calls_by_time: int = 0
    """Calls of llm_call_logs whose step_id names no step, put to the step of their time."""
    purposes_unknown: int = 0
    ids_rewritten: int = 0
    """Ids of trajectories, agents and calls that had other characters than letters, digits, - and _."""
    windows_from_start: int = 0
    """Trajectories without a window_id, put into the window of their start."""
    outcome_windows: int = 0
    """Windows whose outcomes are new."""
    outcome_rows: int = 0
    outcome_windows_known: int = 0
    models: dict[str, int] = field(default_factory=dict)
    """Calls of each model."""
    statuses: dict[str, int] = field(default_factory=dict)
    """Trajectories by the studio's own word for how they ended."""
    money_values: int = 0
    money_rounded: int = 0
    money_largest_rounding: float = 0.0
    unit: str = ""
    without_exchange: int = 0
    """New trajectories without a step that has an action, its prompt and its answer: nothing to imitate."""
    notes: list[str] = field(default_factory=list)
    problems: list[RowProblem] = field(default_factory=list)

    @property
    def limits(self) -> list[str]:
        """Say what cannot be trained on what came, and how to get it."""
        said = []
        if self.trajectories:
            said.append(
                f"GRPO: none of the {self.trajectories} trajectories can give gradients, since the tables hold no token"
                " ids and log-probabilities; they can be imitated (SFT), judged and ranked. To get them, send the"
                " agents' calls through `playproof trajectories proxy`, or record an endpoint that returns them"
            )
        if self.without_exchange:
            said.append(
                f"SFT: {self.without_exchange} trajectories have no step with an action, its prompt and its answer"
            )
        return said

    def to_json(self) -> Json:
        """Give the report as one object."""
        return asdict(self) | {"limits": self.limits}


@dataclass
class _Batch:
    """Rows of trajectories that are stored together, and the calls that are logged for them."""

    rows: list[Json] = field(default_factory=list)
    text: int = 0


Show = Callable[[int], None]


def import_studio(
    engine: Engine,
    url: str,
    market: MarketDeclaration,
    now: datetime,
    *,
    since: datetime | None = None,
    clean: SecretScrubber | None = None,
    show: Show = lambda count: None,  # noqa: ARG005
) -> StudioImport:
    """Read a studio's tables into a market; from where the last import stopped, or from `since` on."""
    import psycopg

    report = StudioImport(_shown_url(url), market.name, unit=market.unit)
    rounding = MoneyRounding(market.unit_size)
    source = hashlib.sha256(f"{report.source} {market.name}".encode()).hexdigest()
    try:
        with psycopg.connect(_plain_url(url), application_name="playproof import studio") as connection:
            connection.read_only = True
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.execute("SET TIME ZONE 'UTC'")
            tables = find_tables(connection)
            report.spelling = (
                "camelCase" if tables["trajectories"]["trajectory_id"] != "trajectory_id" else "snake_case"
            )
            reader = _StudioReader(connection, tables, engine, market, rounding, report, clean or SecretScrubber())
            position = None if since is not None else _position(engine, source)
            for batch in reader.batches(since, position):
                reader.store(batch, source, now)
                show(report.read)
            reader.store_outcomes(now, since)
    except psycopg.Error as error:
        raise InputError(f"expected to read the tables of {report.source}, found: {str(error).strip()}") from error
    report.money_values, report.money_rounded = rounding.values, rounding.count
    report.money_largest_rounding = rounding.largest
    if not report.read and report.resumed_from is None:
        asked = f" since {since.isoformat()}" if since else ""
        raise InputError(f"expected trajectories{asked} in the tables of {report.source}, found none")
    return report


def _plain_url(url: str) -> str:
    """Give a URL as libpq reads it."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise MissingExtra("psycopg, which speaks to PostgreSQL", "postgres") from None
    scheme, _, rest = url.partition("://")
    if scheme not in ("postgresql", "postgres", "postgresql+psycopg") or not rest:
        raise ConfigError("expected the tables' address as postgresql://user@host/name, found another kind of address")
    return f"postgresql://{rest}"


def _shown_url(url: str) -> str:
    try:
        return make_url(_plain_url(url)).difference_update_query(["password"]).render_as_string(hide_password=True)
    except ArgumentError:
        raise ConfigError(
            "expected an address such as postgresql://user@host/name, found one that cannot be read"
        ) from (None)


def _position(engine: Engine, source: str) -> Json | None:
    with engine.connect() as connection:
        return connection.execute(select(ImportCursor.position).where(ImportCursor.source == source)).scalar()


def find_tables(connection: psycopg.Connection[Any]) -> dict[str, dict[str, str]]:
    """Find the studio's tables; give for each the names of its columns as they are written, by their plain names."""
    written = connection.execute(
        "SELECT table_name, column_name, table_schema FROM information_schema.columns"
        " WHERE table_schema = ANY (current_schemas(false)) ORDER BY table_name, ordinal_position"
    ).fetchall()
    result: dict[str, dict[str, str]] = {}
    for table, names in TABLES.items():
        there = next((name for name in names if any(row[0] == name for row in written)), None)
        if there is None:
            if table == "trajectories":
                listed = ", ".join(sorted({row[0] for row in written})[:10]) or "no table"
                raise InputError(f"expected a table called trajectories, found {listed}; check the address and schema")
            continue
        columns = {_squeezed(row[1]): row[1] for row in written if row[0] == there}
        known = {name: columns[_squeezed(name)] for name in COLUMNS[table] if _squeezed(name) in columns}
        missing = [name for name in NEEDED[table] if name not in known]
        if missing:
            raise InputError(f"expected the columns {', '.join(missing)} in table {there}, found {', '.join(columns)}")
        result[table] = known | {"": there}
    return result


COLUMNS: Mapping[str, tuple[str, ...]] = {
    "trajectories": (
        *("trajectory_id", "agent_id", "start_time", "end_time", "window_id", "window_hours", "episode_id"),
        *("scenario_id", "batch_id", "steps_json", "reward_components_json", "metrics_json", "metadata_json"),
        *("total_reward", "final_status", "final_balance", "final_pnl", "trades_executed", "posts_created"),
        *("ai_judge_reward", "ai_judge_reasoning", "judged_at", "is_training_data", "is_evaluation"),
        *("used_in_training", "trained_in_batch", "created_at", "updated_at"),
    ),
    "llm_call_logs": (
        *("trajectory_id", "step_id", "call_id", "timestamp", "latency_ms", "model", "purpose", "action_type"),
        *("system_prompt", "user_prompt", "messages_json", "response", "reasoning", "temperature", "max_tokens"),
        *("top_p", "prompt_tokens", "completion_tokens"),
    ),
    "market_outcomes": (
        *("window_id", "stock_ticker", "start_price", "end_price", "change_percent", "volume", "sentiment"),
        *("news_events", "prediction_market_id", "question", "outcome", "final_probability"),
    ),
}
"""Columns that are read, by their plain names."""
_TEXTS = frozenset({"steps_json", "reward_components_json", "metrics_json", "metadata_json", "messages_json"})
"""Columns of JSON, which may be kept as text, json or jsonb."""


def _squeezed(name: str) -> str:
    return name.replace("_", "").lower()


class _StudioReader:
    """One import: reads rows, makes drafts, stores them."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        tables: dict[str, dict[str, str]],
        engine: Engine,
        market: MarketDeclaration,
        rounding: MoneyRounding,
        report: StudioImport,
        clean: SecretScrubber,
    ) -> None:
        self.connection, self.tables, self.engine = connection, tables, engine
        self.market, self.rounding, self.report, self.clean = market, rounding, report, clean
        self.windows = market.windows
        self._windows: dict[str, str] = {}

    def _select(self, table: str) -> tuple[str, list[str]]:
        """Give the list of columns of a table for a SELECT, and their plain names."""
        columns = {name: written for name, written in self.tables[table].items() if name}
        shown = []
        for name, written in columns.items():
            quoted = _quoted(written)
            if name == "steps_json":
                shown.append(f"CASE WHEN length({quoted}::text) <= {MOST_TEXT} THEN {quoted}::text END")
            else:
                shown.append(f"{quoted}::text" if name in _TEXTS else quoted)
        return ", ".join(shown), list(columns)

    def batches(self, since: datetime | None, position: Mapping[str, Any] | None) -> Iterator[_Batch]:
        """Read trajectories in the order in which they changed, some at a time."""
        columns = self.tables["trajectories"]
        shown, names = self._select("trajectories")
        clock = next(columns[name] for name in ("updated_at", "created_at", "start_time") if name in columns)
        ordered = f"{_quoted(clock)}, {_quoted(columns['trajectory_id'])}"
        where, values = [], {}
        if since is not None:
            where.append(f"{_quoted(columns['start_time'])} >= %(since)s")
            values["since"] = since
        elif position is not None:
            self.report.resumed_from = str(position["time"])
            where.append(f"{_quoted(clock)} >= %(position)s")
            values["position"] = datetime.fromisoformat(position["time"]) - OVERLAP
        condition = f" WHERE {' AND '.join(where)}" if where else ""
        statement = f"SELECT {shown}, {_quoted(clock)} FROM {_quoted(columns[''])}{condition} ORDER BY {ordered}"  # noqa: S608
        batch = _Batch()
        with self.connection.cursor(name="playproof_trajectories") as cursor:
            cursor.itersize = 200
            for row in cursor.execute(statement.encode(), values):
                named = dict(zip((*names, "clock"), row, strict=True))
                batch.rows.append(named)
                batch.text += len(named["steps_json"] or "")
                if len(batch.rows) >= TOGETHER or batch.text >= TOGETHER_TEXT:
                    yield batch
                    batch = _Batch()
        if batch.rows:
            yield batch

    def store(self, batch: _Batch, source: str, now: datetime) -> None:
        """Store a batch and the position behind it in one transaction."""
        report = self.report
        report.read += len(batch.rows)
        identities = {str(row["trajectory_id"]): self._identity(str(row["trajectory_id"])) for row in batch.rows}
        query = select(Trajectory.trajectory_id, Trajectory.market)
        with self.engine.connect() as connection:
            stored = connection.execute(query.where(Trajectory.trajectory_id.in_(list(identities.values()))))
            there = dict(stored.all())
        fresh = []
        for row in batch.rows:
            kept = there.get(identities[str(row["trajectory_id"])])
            if kept is None:
                fresh.append(row)
            elif kept == self.market.name:
                report.known += 1
            else:
                where = f"market {kept}" if kept else "a game that is no declared market"
                self._problem(row, f"expected a new trajectory, found its id in {where}")
        logged = self._logged([str(row["trajectory_id"]) for row in fresh])
        drafts: list[TrajectoryDraft] = []
        extras: list[Json] = []
        for row in fresh:
            before = replace(self.rounding)
            try:
                draft, extra = self._draft(row, logged.get(str(row["trajectory_id"]), []))
            except PlayproofError as error:
                self.rounding.__dict__.update(before.__dict__)
                self._problem(row, str(error))
                continue
            drafts.append(draft)
            extras.append(extra)
        drafts, extras = self._without_taken_calls(drafts, extras)
        tables = drafts_columns(drafts, self.clean)
        columns = tables[metadata.tables[Trajectory.__tablename__]]
        # What the studio says of a trajectory as a whole goes before what its steps add up to.
        for name in extras[0] if extras else ():
            stated = [extra[name] for extra in extras]
            if any(value is not None for value in stated):
                summed = columns.get(name, [None] * len(stated))
                columns[name] = [old if new is None else new for new, old in zip(stated, summed, strict=True)]
        last = _aware(batch.rows[-1]["clock"])
        with writing(self.engine) as connection:
            insert_agents(connection, drafts)
            for table, rows in tables.items():
                insert_columns(connection, table, rows)
            if last is not None:
                connection.execute(delete(ImportCursor).where(ImportCursor.source == source))
                position = {"time": last.isoformat()}
                connection.execute(insert(ImportCursor).values(source=source, position=position, updated_at=now))
        self._count(drafts)

    def _count(self, drafts: Sequence[TrajectoryDraft]) -> None:
        report = self.report
        for draft in drafts:
            report.trajectories += 1
            report.steps += len(draft.steps)
            report.calls += len(draft.calls)
            for _, _, call, _ in draft.calls:
                report.models[call.model] = report.models.get(call.model, 0) + 1
            report.without_exchange += not any(
                call.response and (call.messages or call.user_prompt) and at is not None
                for _, at, call, _ in draft.calls
            )

    def _window(self, written: str) -> str:
        """Read a window id; those of one hour come in thousands."""
        if written not in self._windows:
            self._windows[written] = self.windows.parse(written).window_id
        return self._windows[written]

    def _problem(self, row: Mapping[str, Any], reason: str) -> None:
        self.report.problems.append(RowProblem("trajectories", str(row["trajectory_id"])[:200], reason))

    def _identity(self, text: str) -> str:
        """Give an id that this package takes: the same, or one made from it."""
        if _SAFE.fullmatch(text):
            return text
        return f"{re.sub(r'[^A-Za-z0-9_-]', '_', text)[:40]}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def _logged(self, identities: Sequence[str]) -> dict[str, list[Json]]:
        """Read the logged calls of some trajectories, in the order of time."""
        if "llm_call_logs" not in self.tables or not identities:
            return {}
        columns = self.tables["llm_call_logs"]
        shown, names = self._select("llm_call_logs")
        mine = _quoted(columns["trajectory_id"])
        time = f"{_quoted(columns['timestamp'])}, " if "timestamp" in columns else ""
        rows = self.connection.execute(
            f"SELECT {shown} FROM {_quoted(columns[''])} WHERE {mine} = ANY (%s)"  # noqa: S608
            f" ORDER BY {mine}, {time}{_quoted(columns['call_id'])}".encode(),
            [list(identities)],
        )
        named = (dict(zip(names, row, strict=True)) for row in rows)
        return {name: list(of) for name, of in groupby(named, itemgetter("trajectory_id"))}

    def _draft(self, row: Mapping[str, Any], logged: Sequence[Mapping[str, Any]]) -> tuple[TrajectoryDraft, Json]:
        """Make the trajectory of one row, or raise what is wrong with it."""
        report, identity = self.report, self._identity(str(row["trajectory_id"]))
        agent = self._identity(str(row["agent_id"]))
        rewritten = (identity != row["trajectory_id"]) + (agent != row["agent_id"])
        start = _aware(row["start_time"])
        if start is None:
            raise InputError("expected a start_time, found none")
        status = str(row["final_status"])
        if status.lower() not in STATUSES:
            raise InputError(f"expected final_status to be one of {', '.join(STATUSES)}, found {status[:40]!r}")
        steps = _steps(row["steps_json"])
        hours = row.get("window_hours")
        if hours is not None and hours != self.market.window_hours:
            raise InputError(
                f"expected window_hours {self.market.window_hours} of market {self.market.name}, found {hours}"
            )
        written = row.get("window_id")
        window = self._window(str(written)) if written else self.market.window_id(start)
        details = _object(row.get("metadata_json"), "metadata_json")
        archetype = details.get("archetype")
        more = {"studio_status": status} | ({"studio_agent_id": row["agent_id"]} if agent != row["agent_id"] else {})
        named = ResolvedStart(identity, window, self.market.window_hours, start, self.market.name)
        draft = TrajectoryDraft(
            Start(
                agent,
                window,
                _name(row.get("scenario_id")) if row.get("scenario_id") != written else None,
                details | more,
                identity,
                archetype if isinstance(archetype, str) and 0 < len(archetype) <= 200 else None,
                _name(row.get("episode_id")),
                _name(row.get("batch_id")),
                row.get("is_training_data") is not False,
                row.get("is_evaluation") is True,
                start,
            ),
            named,
        )
        counts = self._add_steps(draft, steps, logged, start)
        end = _aware(row.get("end_time")) or (draft.steps[-1][4] if draft.steps else None) or start
        balance = self.rounding.units(row.get("final_balance"), "final_balance")
        pnl = self.rounding.units(row.get("final_pnl"), "final_pnl")
        metrics = _object(row.get("metrics_json"), "metrics_json") or None
        draft.finish(End(balance, pnl, STATUSES[status.lower()], metrics, max(end, start)), max(end, start))
        components = _object(row.get("reward_components_json"), "reward_components_json") or None
        extra = {
            "total_reward": _number(row.get("total_reward"), "total_reward"),
            "reward_components": None if components is None else str(self.clean.json(components)),
            "trades_executed": _whole(row.get("trades_executed"), "trades_executed"),
            "posts_created": _whole(row.get("posts_created"), "posts_created"),
            "judge_reward": _number(row.get("ai_judge_reward"), "ai_judge_reward"),
            "judge_reasoning": self.clean.text(text) if (text := row.get("ai_judge_reasoning")) else None,
            "judged_at": _aware(row.get("judged_at")),
            "used_in_training": row.get("used_in_training") is True,
            "trained_in_batch": _name(row.get("trained_in_batch")),
        }
        report.statuses[status] = report.statuses.get(status, 0) + 1
        report.ids_rewritten += rewritten
        report.windows_from_start += not written
        for name, count in counts.items():
            setattr(report, name, getattr(report, name) + count)
        return draft, extra

    def _add_steps(
        self,
        draft: TrajectoryDraft,
        steps: Sequence[Mapping[str, Any]],
        logged: Sequence[Mapping[str, Any]],
        start: datetime,
    ) -> dict[str, int]:
        """Put the steps and their calls into a draft; give what was counted on the way."""
        counts = {"calls_in_both": 0, "calls_by_time": 0, "purposes_unknown": 0, "ids_rewritten": 0}
        keys: dict[str, int] = {}
        for index, step in enumerate(steps):
            for key in (step.get("stepId"), step.get("step_id"), step.get("stepNumber", index)):
                if isinstance(key, str | int):
                    keys.setdefault(str(key), index)
        times = [_moment(step.get("timestamp"), start) for step in steps]
        of_step: dict[int | None, list[Mapping[str, Any]]] = {}
        for call in logged:
            number, by_time = _step_of(call, keys, times)
            counts["calls_by_time"] += by_time
            of_step.setdefault(number, []).append(call)
        for call in of_step.get(None, ()):
            self._log(draft, call, start, counts)
        for index, step in enumerate(steps):
            time = times[index]
            draft.start_step(StepStart(self._state(step.get("environmentState")), time), time)
            for access in _list(step.get("providerAccesses"), f"providerAccesses of step {index}"):
                name, purpose = access.get("providerName"), access.get("purpose")
                draft.access(Access(_name(name) or "unknown", access.get("data"), _name(purpose), time))
            self._add_calls(draft, step, of_step.get(index, ()), time, counts)
            action = step.get("action")
            if action is None:
                if index + 1 < len(steps):
                    raise InputError(f"expected an action of step {index}, found none before the last step")
                continue
            if not isinstance(action, Mapping):
                raise InputError(f"expected the action of step {index} as an object, found {action!r:.60}")
            done = times[index + 1] if index + 1 < len(steps) else time
            ended = StepEnd(
                _action(action, index),
                _number(step.get("reward"), f"reward of step {index}"),
                step.get("done") is True,
                max(time, done),
            )
            draft.complete_step(ended, max(time, done))
        return counts

    def _add_calls(
        self,
        draft: TrajectoryDraft,
        step: Mapping[str, Any],
        logged: Sequence[Mapping[str, Any]],
        time: datetime,
        counts: dict[str, int],
    ) -> None:
        """Put the calls of a step into a draft: those that stand in it and in the log once, then the log's others."""
        waiting = list(logged)
        index = len(draft.steps) - 1
        for call in _list(step.get("llmCalls"), f"llmCalls of step {index}"):
            same = next((item for item in waiting if _is_same(item, call)), None)
            if same is not None:
                waiting.remove(same)
                self._log(draft, same, time, counts)
                counts["calls_in_both"] += 1
            else:
                made = f"{draft.trajectory_id} {index} {len(draft.calls)}"
                self._log(draft, _snake(call), time, counts, hashlib.sha256(made.encode()).hexdigest()[:32])
        for call in waiting:
            self._log(draft, call, time, counts)

    def _state(self, state: object) -> Json:
        """Give an environment's state with its money as whole units."""
        if state is None:
            return {}
        if not isinstance(state, Mapping):
            raise InputError(f"expected environmentState as an object, found {state!r:.60}")
        result = dict(state)
        for name, plain in (("agentBalance", "balance"), ("agentPnL", "pnl")):
            if name in result:
                result[plain] = self.rounding.units(result.pop(name), name)
        if "openPositions" in result:
            result["open_positions"] = result.pop("openPositions")
        return result

    def _log(
        self,
        draft: TrajectoryDraft,
        call: Mapping[str, Any],
        step_time: datetime,
        counts: dict[str, int],
        made: str | None = None,
    ) -> None:
        """Put one call into a draft, at the step that is open."""
        identity = made or self._identity(str(call["call_id"]))
        counts["ids_rewritten"] += made is None and identity != call["call_id"]
        purpose = str(call.get("purpose") or "action")
        if purpose not in PURPOSES:
            counts["purposes_unknown"] += 1
            purpose = "reasoning"
        messages = call.get("messages_json")
        time = _aware(call["timestamp"]) if isinstance(call.get("timestamp"), datetime) else step_time
        assert time is not None
        draft.call(
            identity,
            Call(
                _name(call.get("model")) or "unknown",
                purpose,
                _messages(messages),
                _text(call.get("system_prompt"), "system_prompt"),
                _text(call.get("user_prompt"), "user_prompt"),
                _text(call.get("response"), "response"),
                _text(call.get("reasoning"), "reasoning"),
                None,
                _number(call.get("latency_ms"), "latency_ms"),
                _number(call.get("temperature"), "temperature"),
                _whole(call.get("max_tokens"), "max_tokens"),
                _number(call.get("top_p"), "top_p"),
                _whole(call.get("prompt_tokens"), "prompt_tokens"),
                _whole(call.get("completion_tokens"), "completion_tokens"),
                call_id=identity,
                time=time,
            ),
            time,
        )

    def _without_taken_calls(
        self, drafts: list[TrajectoryDraft], extras: list[Json]
    ) -> tuple[list[TrajectoryDraft], list[Json]]:
        """Leave out, and report, trajectories with a call id that another one has."""
        wanted = [identity for draft in drafts for identity, *_ in draft.calls]
        taken: set[str] = set()
        with self.engine.connect() as connection:
            for start in range(0, len(wanted), 5_000):
                query = select(LlmCall.call_id).where(LlmCall.call_id.in_(wanted[start : start + 5_000]))
                taken |= set(connection.scalars(query))
        if not taken and len(set(wanted)) == len(wanted):
            return drafts, extras
        kept: list[tuple[TrajectoryDraft, Json]] = []
        for draft, extra in zip(drafts, extras, strict=True):
            mine = [identity for identity, *_ in draft.calls]
            double = next((name for index, name in enumerate(mine) if name in taken or name in mine[:index]), None)
            if double is not None:
                self._problem(
                    {"trajectory_id": draft.trajectory_id}, f"expected a call_id of its own, found {double} taken"
                )
                continue
            taken |= set(mine)
            kept.append((draft, extra))
        return [draft for draft, _ in kept], [extra for _, extra in kept]

    def store_outcomes(self, now: datetime, since: datetime | None) -> None:
        """Store the outcomes of every window that has none, each window by itself."""
        if "market_outcomes" not in self.tables:
            self.report.notes.append("the tables hold no market_outcomes: write outcomes with outcomes import")
            return
        columns = self.tables["market_outcomes"]
        shown, names = self._select("market_outcomes")
        windows: dict[str, list[Json]] = {}
        first = "" if since is None else self.market.window_id(since)
        with self.connection.cursor(name="playproof_outcomes") as cursor:
            statement = f"SELECT {shown} FROM {_quoted(columns[''])} ORDER BY {_quoted(columns['window_id'])}"  # noqa: S608
            for row in cursor.execute(statement.encode()):
                named = dict(zip(names, row, strict=True))
                try:
                    window = self.windows.parse(str(named["window_id"])).window_id
                except InputError as error:
                    self._outcome_problem(str(named["window_id"]), str(error))
                    continue
                if window >= first:
                    windows.setdefault(window, []).append(named)
        ready: list[PostedOutcomes] = []
        for window, rows in sorted(windows.items()):
            try:
                read = [_outcome(row) for row in rows]
                notes = [f"{window} {note}" for _, said in read for note in said]
                checked = [row for row, _ in read]
                ready.append(collect_rows(window, self.market.currency, checked, self.windows, now, self.market, notes))
            except (InvalidField, RefusedRecord) as error:
                self._outcome_problem(window, str(error))
        with writing(self.engine) as connection:
            for posted in ready:
                try:
                    answer = write_posted(connection, posted, now)
                except RefusedRecord as error:
                    self._outcome_problem(posted.window_id, str(error))
                    continue
                self.report.outcome_windows_known += answer["again"]
                if not answer["again"]:
                    self.report.outcome_windows += 1
                    self.report.outcome_rows += answer["written"]
                    self.report.notes += answer.get("notes", [])

    def _outcome_problem(self, window: str, reason: str) -> None:
        self.report.problems.append(RowProblem("market_outcomes", window[:200], reason))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _aware(moment: object) -> datetime | None:
    """Read a time of the tables; one without a zone is UTC."""
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        raise InputError(f"expected a time, found {moment!r:.60}")
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _moment(value: object, start: datetime) -> datetime:
    """Read a step's time, in milliseconds since 1970; the trajectory's start where there is none."""
    if value is None:
        return start
    try:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError
        return datetime.fromtimestamp(value / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        raise InputError(f"expected a step's timestamp in milliseconds, found {value!r:.60}") from None


def _steps(text: object) -> list[Mapping[str, Any]]:
    if text is None:
        raise InputError(f"expected steps_json of at most {MOST_TEXT} characters, found none or more")
    try:
        steps = orjson.loads(str(text))
    except orjson.JSONDecodeError as error:
        raise InputError(f"expected JSON in steps_json, found: {error}") from None
    if not isinstance(steps, list) or len(steps) > MOST_STEPS:
        shape = f"{len(steps)} steps" if isinstance(steps, list) else f"a {type(steps).__name__}"
        raise InputError(f"expected steps_json as a list of at most {MOST_STEPS} steps, found {shape}")
    for index, step in enumerate(steps):
        if not isinstance(step, dict):
            raise InputError(f"expected step {index} of steps_json as an object, found {step!r:.60}")
    return steps


def _object(text: object, name: str) -> Json:
    """Read a JSON column that holds an object; empty where there is none."""
    if text is None or text == "":
        return {}
    try:
        value = orjson.loads(str(text))
    except orjson.JSONDecodeError as error:
        raise InputError(f"expected JSON in {name}, found: {error}") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError(f"expected an object in {name}, found a {type(value).__name__}")
    return value


def _list(value: object, name: str) -> list[Mapping[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise InputError(f"expected {name} as a list of objects, found {value!r:.60}")
    return value


def _messages(text: object) -> list[Json] | None:
    if text is None or text == "":
        return None
    try:
        value = orjson.loads(str(text))
    except orjson.JSONDecodeError as error:
        raise InputError(f"expected JSON in messages_json, found: {error}") from None
    if value is not None and not (isinstance(value, list) and all(isinstance(item, dict) for item in value)):
        raise InputError(f"expected a list of messages in messages_json, found {value!r:.60}")
    return value


def _name(value: object) -> str | None:
    """Give a name of the tables, cut to what fits; None where there is none."""
    return None if value is None or value == "" else str(value)[:200]


def _text(value: object, name: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise InputError(f"expected {name} as a text, found {value!r:.60}")
    return value


def _number(value: object, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise InputError(f"expected {name} as a number, found {value!r:.60}")
    number = float(value)
    if number - number != 0.0:
        raise InputError(f"expected {name} as a finite number, found {value}")
    return number


def _whole(value: object, name: str) -> int | None:
    number = _number(value, name)
    if number is not None and number != int(number):
        raise InputError(f"expected {name} as a whole number, found {value}")
    return None if number is None else int(number)


def _action(action: Mapping[str, Any], index: int) -> ActionTaken:
    kind = action.get("actionType")
    if not isinstance(kind, str) or not kind:
        raise InputError(f"expected the actionType of step {index}, found {kind!r:.60}")
    parameters, result = action.get("parameters"), action.get("result")
    success = action.get("success")
    return ActionTaken(
        kind[:200],
        parameters if isinstance(parameters, dict) or parameters is None else {"value": parameters},
        success if isinstance(success, bool) else None,
        result if isinstance(result, dict) or result is None else {"value": result},
        _flat(action.get("error")),
        _flat(action.get("reasoning")),
    )


def _flat(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else orjson.dumps(value).decode()


def _step_of(call: Mapping[str, Any], keys: Mapping[str, int], times: Sequence[datetime]) -> tuple[int | None, bool]:
    """Find the step that a logged call belongs to: by its step_id, else by time; tell whether it was by time."""
    named = str(call.get("step_id") or "")
    if named in keys:
        return keys[named], False
    number = _LAST_NUMBER.search(named)
    if number is not None and str(int(number[1])) in keys:
        return keys[str(int(number[1]))], False
    moment = _aware(call.get("timestamp"))
    before = [index for index, time in enumerate(times) if moment is None or time <= moment]
    return (before[-1] if before else (0 if times else None)), True


def _is_same(logged: Mapping[str, Any], call: Mapping[str, Any]) -> bool:
    """Tell whether a logged call is the one that stands in a step."""
    same = logged.get("response") == call.get("response") and logged.get("model") == call.get("model")
    prompts = (logged.get("user_prompt"), call.get("userPrompt"))
    return same and (None in prompts or prompts[0] == prompts[1])


_CALL_NAMES = {
    "systemPrompt": "system_prompt",
    "userPrompt": "user_prompt",
    "maxTokens": "max_tokens",
    "latencyMs": "latency_ms",
    "topP": "top_p",
    "promptTokens": "prompt_tokens",
    "completionTokens": "completion_tokens",
}


def _snake(call: Mapping[str, Any]) -> Json:
    """Give a call of steps_json under the names of the table; its own time is none."""
    named = {_CALL_NAMES.get(name, name): value for name, value in call.items() if name != "timestamp"}
    messages = named.pop("messages", None)
    return named | ({"messages_json": orjson.dumps(messages).decode()} if messages is not None else {})


def _outcome(row: Mapping[str, Any]) -> tuple[Json, list[str]]:
    """Read one row of market_outcomes: of a stock, or of a prediction market."""
    ticker, question = row.get("stock_ticker"), row.get("prediction_market_id")
    if (ticker is None) == (question is None):
        both = "both" if ticker is not None else "neither"
        raise InvalidField("stock_ticker", f"expected either stock_ticker or prediction_market_id, found {both}")
    if question is not None:
        names = ("question", "outcome", "final_probability", "volume")
        return read_question({"question_id": question} | {name: row.get(name) for name in names}, "question")
    stated = row.get("change_percent")
    change = None if stated is None else Decimal(str(stated)).scaleb(-2)
    names = ("start_price", "end_price", "sentiment", "volume")
    news = row.get("news_events")
    if isinstance(news, str):
        try:
            news = orjson.loads(news)
        except orjson.JSONDecodeError as error:
            raise InvalidField("news_events", f"expected JSON, found: {error}") from None
    ids = [_news_id(item) for item in news] if isinstance(news, list) else None
    given = {name: row.get(name) for name in names}
    return read_asset({"asset": ticker, "change": change, "news_ids": ids} | given, str(ticker))


def _news_id(item: object) -> str:
    if isinstance(item, Mapping):
        item = item.get("id") or item.get("newsId") or orjson.dumps(item).decode()
    return str(item)[:200]
