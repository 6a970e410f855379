"""Models and experiments: versions, what stands for them, promotions and history; A against B with e-values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from playproof.dashboard.actions import once_field
from playproof.dashboard.context import DashboardContext
from playproof.dashboard.pages.shown import moment, money, state
from playproof.dashboard.shell import Block, FactList, Field, Form, Link, Page, Part
from playproof.dashboard.tables import Row, TableSource, matches, page_of, view
from playproof.models.deployments import list_deployments
from playproof.models.registry import Registry
from playproof.operate.experiments.ledger import Experiment, ExperimentLedger
from playproof.operate.experiments.page import experiment_json
from playproof.reports.chart import Chart, ChartAxis, LevelLine, Series
from playproof.reports.page import PageTable

ALIASES = ("practice", "paper", "live")
SHOWN = 100


def registry_of(context: DashboardContext) -> Registry:
    """Give the registry of the home."""
    return Registry(context.engine, context.root, context.clock)


def _rows(context: DashboardContext) -> list[Row]:
    registry = registry_of(context)
    aliases: dict[tuple[str, int], list[str]] = {}
    for pointer in registry.pointers():
        if pointer.version is not None:
            aliases.setdefault((pointer.name, pointer.version), []).append(pointer.alias)
    return [
        {
            "label": item.label,
            "name": item.name,
            "version": item.version,
            "aliases": " ".join(aliases.get((item.name, item.version), [])),
            "method": item.method,
            "game": item.game,
            "verdict": item.verdict,
            "created_at": item.created_at,
        }
        for item in registry.versions()
    ]


MODELS = TableSource(
    name="models",
    columns=(
        ("label", "version", True),
        ("aliases", "stands for", True),
        ("method", "method", True),
        ("game", "game", True),
        ("verdict", "verdict", True),
        ("created_at", "added at (UTC)", True),
    ),
    read=lambda context, query: page_of([row for row in _rows(context) if matches(row, query.filters)], query, "label"),
    sort="created_at",
    sortable=frozenset({"label", "created_at", "verdict"}),
    filters=("label", "game", "verdict"),
    empty="No model is kept yet. Keep a run's checkpoint below.",
    show=lambda row: {
        **row,
        "label": Link(row["label"], f"/models/{row['name']}"),
        "verdict": state(row["verdict"]),
        "created_at": moment(row["created_at"]),
    },
)


def models_page(context: DashboardContext, values: Mapping[str, str]) -> Page:
    """Show every version, and what the aliases stand for."""
    pointers = [item for item in registry_of(context).pointers() if item.version is not None]
    adding = Form(
        action="/do/models/add",
        submit="Keep it",
        text="A worker keeps the run's best checkpoint as the next version; the same files again are one version.",
        fields=[
            once_field(),
            Field(name="run", label="run", required=True),
            Field(name="name", label="name of the model"),
        ],
    )
    table = PageTable(
        head=("alias", "version", "changes"),
        rows=[(Link(item.label, f"/models/{item.name}"), item.version, item.generation) for item in pointers],
    )
    return Page(
        title="Models",
        blocks=[
            Block("pointers", [table] if pointers else ["No alias stands for a version yet."], "What serves"),
            Block(
                "models", [view(MODELS, context, values, "/models", [Field(name="label", label="name")])], "Versions"
            ),
            Block("add", [adding], "Keep a run as a model", folded=True),
        ],
        topics=("db",),
    )


def model_page(context: DashboardContext, values: Mapping[str, str]) -> Page:
    """Show one model: versions, history, where it serves; promote and roll back."""
    registry = registry_of(context)
    name = values["model"]
    newest = registry.find(name).version
    versions = registry.versions(name)
    table = PageTable(
        head=("version", "method", "verdict", "policy", "data", "added at (UTC)"),
        rows=[
            (
                item.version,
                item.method,
                state(item.verdict),
                item.policy_hash[:12],
                (item.data_hash or "")[:12],
                moment(item.created_at),
            )
            for item in reversed(versions)
        ],
        words=6,
    )
    history = registry.history(name)
    changes = PageTable(
        head=("when (UTC)", "alias", "what", "from", "to", "who", "why", "gate"),
        rows=[
            (
                moment(item.changed_at),
                item.alias,
                item.kind,
                item.from_version,
                item.to_version,
                item.who,
                item.why,
                item.gate,
            )
            for item in list(history)[-SHOWN:][::-1]
        ],
        words=8,
    )
    serving = list_deployments(context.engine, name)
    deployed = PageTable(
        head=("server", "version", "alias", "since (UTC)", "last sign", "answers", "ended"),
        rows=[
            (
                item.server,
                item.version,
                item.alias,
                moment(item.began_at),
                moment(item.heartbeat_at),
                f"{item.answers:,}",
                moment(item.ended_at),
            )
            for item in serving[:SHOWN]
        ],
        words=2,
    )
    hidden = Field(name="name", label="", kind="hidden", value=name)
    doing: list[Part] = [
        Form(
            action="/do/models/promote",
            title="Promote",
            submit="Promote",
            role="admin",
            text="The alias's gate is asked first: live needs a verdict, practice and paper do not.",
            fields=[
                hidden,
                Field(name="version", label="version", kind="number", value=str(newest.version)),
                Field(name="alias", label="to", value="practice", options=ALIASES),
                Field(name="why", label="why", required=True),
            ],
        ),
        Form(
            action="/do/models/rollback",
            title="Roll back",
            submit="Roll back",
            role="admin",
            tone="danger",
            fields=[
                hidden,
                Field(name="alias", label="alias", value="practice", options=ALIASES),
                Field(name="why", label="why", required=True),
            ],
        ),
    ]
    facts = [("versions", len(versions)), ("newest", newest.label), ("game", newest.game), ("method", newest.method)]
    return Page(
        title=name,
        trail=[Link("Models", "/models")],
        blocks=[
            Block("facts", [FactList(pairs=facts)]),
            Block("versions", [table], "Versions"),
            Block("doing", doing),
            Block("history", [changes] if history else ["It was never promoted."], "History"),
            Block("serving", [deployed] if serving else ["Nothing serves it."], "Where it serves"),
        ],
        topics=("db",),
    )


def experiments_page(context: DashboardContext, values: Mapping[str, str]) -> Page:  # noqa: ARG001
    """Show every experiment."""
    experiments = ExperimentLedger(context.engine, context.clock).all()
    table = PageTable(
        head=("experiment", "mode", "A", "B", "registered (UTC)", "ending"),
        rows=[
            (
                Link(item.plan.name, f"/experiments/{item.plan.name}"),
                item.plan.mode,
                _arm(item, "a"),
                _arm(item, "b"),
                moment(item.registered_at),
                item.ending or "goes on",
            )
            for item in reversed(experiments)
        ],
        words=6,
    )
    return Page(
        title="Experiments",
        lead="A against B on the same windows. What counts is fixed before it starts; looking often costs nothing.",
        blocks=[Block("experiments", [table] if experiments else ["No experiment is registered: playproof ab --help"])],
        topics=("db",),
    )


def _arm(experiment: Experiment, name: str) -> str:
    arm = getattr(experiment.plan, name)
    return str(getattr(arm, "label", None) or getattr(arm, "name", None) or arm)


def experiment_page(context: DashboardContext, values: Mapping[str, str]) -> Page:
    """Show one experiment: e-values as they grow, the difference with its confidence sequence."""
    ledger = ExperimentLedger(context.engine, context.clock)
    experiment = ledger.find(values["experiment"])
    verdict = ledger.look(values["experiment"])
    payload: Mapping[str, Any] = experiment_json(experiment, verdict)
    facts = [
        ("ending", str(payload["ending"])),
        ("units", verdict.windows),
        ("A less B a unit", f"{verdict.mean:+.6g}"),
        ("confidence sequence", f"{verdict.interval[0]:+.4g} to {verdict.interval[1]:+.4g}"),
        ("needed in all", verdict.needed),
    ]
    times = list(range(1, len(verdict.logs_a) + 1))
    chart = Chart(
        title="Evidence: log e-value after each unit",
        x=ChartAxis(title="units"),
        y=ChartAxis(title="log e-value"),
        series=[
            Series(name="A earns more", x=times, y=[float(value) for value in verdict.logs_a]),
            Series(name="B earns more", x=times, y=[float(value) for value in verdict.logs_b]),
        ],
        levels=[LevelLine(value=3.0, name="20 to 1")],
        wide=True,
    )
    return Page(
        title=experiment.plan.name,
        lead=str(payload["sentence"]),
        trail=[Link("Experiments", "/experiments")],
        blocks=[
            Block("facts", [FactList(pairs=facts)]),
            Block("evidence", [chart] if times else ["No unit was played yet."]),
            Block(
                "plan",
                [
                    PageTable(
                        head=("setting", "value"),
                        words=2,
                        rows=[(key, str(value)[:200]) for key, value in experiment.plan.to_json().items()],
                    )
                ],
                "What was fixed before it started",
                folded=True,
            ),
        ],
        topics=("db",),
    )


def bots_rows(items: Sequence[Any]) -> list[tuple[object, ...]]:
    """Give a row for each limit of an account."""
    return [
        (
            item.name,
            money(item.used, signed=False) if item.unit == "units" else item.used,
            money(item.most, signed=False) if item.unit == "units" else item.most,
            f"{item.used / item.most:.0%}" if item.most else None,
        )
        for item in items
    ]
