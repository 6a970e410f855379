"""What a version must show before an alias may stand for it.

| alias | policy of numbers | language model |
|---|---|---|
| `practice`, `paper`, `try-...` | nothing | nothing |
| `live` | EDGE SHOWN for this policy, measured less than 7 days ago | the same; there is no override |
| any other | EDGE SHOWN for this policy | the paired benchmark |

The paired benchmark is on held-out windows against random, hold, momentum and the model in use; the lower bound of
each difference must lie above 0.

A report counts only if its own hash fits its content and its look stands in the trial ledger, which also says when it
was measured: a report file says nothing of its age. Leaves out: how a verdict is reached (validate).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import Engine, select

from playproof.errors import GateFailed, InputError
from playproof.home import folder
from playproof.json_types import Json
from playproof.models.benchmarks import Benchmark, read_benchmark
from playproof.models.registry import ModelPointer, ModelVersion, PromotionGround, Registry
from playproof.store.db import TrialRow

LIVE = "live"
PRACTICE = ("practice", "paper")
PRACTICE_PREFIX = "try-"
EDGE_SHOWN = "EDGE SHOWN"
LIVE_AGE = timedelta(days=7)
REPORT = "report.json"
RIVALS = ("random", "hold", "momentum")
"""Who a language model must out-earn, beside the model in use."""


class PromotionRefused(GateFailed):
    """Tell which gate keeps a version from an alias, and what would open it."""

    def __init__(self, gate: str, message: str) -> None:
        self.gate = gate
        super().__init__(f"gate {gate}: {message}")


def is_practice(alias: str) -> bool:
    """Tell whether an alias stands for practice, which asks for no verdict."""
    return alias in PRACTICE or alias.startswith(PRACTICE_PREFIX)


def ask_gate(
    registry: Registry, version: ModelVersion, pointer: ModelPointer, report: Path | None, now: datetime
) -> PromotionGround:
    """Give the ground on which a version may be promoted to an alias; raise PromotionRefused if there is none."""
    if is_practice(pointer.alias):
        return PromotionGround(f"practice: {pointer.alias} asks for no verdict")
    if pointer.alias == LIVE or version.kind == "policy":
        return _ask_verdict(registry.engine, version, pointer.alias, report, now)
    return _ask_benchmark(registry, version, pointer, report)


def _ask_verdict(
    engine: Engine, version: ModelVersion, alias: str, path: Path | None, now: datetime
) -> PromotionGround:
    gate = LIVE if alias == LIVE else "verdict"
    report = _read_report(path) if path is not None else newest_report(engine, version.policy_hash)
    if report is None:
        raise PromotionRefused(
            gate,
            f"expected a report of `playproof validate` on {version.label}, found none; run"
            f" `playproof validate {version.label}`, or name its report with --report",
        )
    policy = str(report["policy"]["hash"])
    if policy != version.policy_hash:
        raise PromotionRefused(
            gate, f"expected a report on policy {version.policy_hash[:12]}, found one on {policy[:12]}: another policy"
        )
    if report["verdict"] != EDGE_SHOWN:
        raise PromotionRefused(
            gate, f"expected {EDGE_SHOWN} for {alias}, found {report['verdict']}: {report['sentence']}"
        )
    measured = _measured_at(engine, report)
    if measured is None:
        raise PromotionRefused(
            gate,
            "expected the report's look in the trial ledger of this database, found none; validate the version here",
        )
    if alias == LIVE and now - measured >= LIVE_AGE:
        raise PromotionRefused(
            gate,
            f"expected a verdict measured less than {LIVE_AGE.days} days ago, found one of {measured:%Y-%m-%d %H:%M}"
            " UTC; validate on newer windows",
        )
    when = f"{measured:%Y-%m-%d %H:%M} UTC"
    return PromotionGround(f"{gate}: {EDGE_SHOWN} on {report['data']['name']}, measured {when}", report["report_hash"])


def newest_report(engine: Engine, policy_hash: str, root: Path | None = None) -> Json | None:
    """Give the report on a policy whose look is the newest in the ledger, among the home's reports."""
    dated = [
        (_measured_at(engine, report), report)
        for report in _reports(folder("reports", root))
        if report["policy"]["hash"] == policy_hash
    ]
    known = [(when, report) for when, report in dated if when is not None]
    if not known:
        return dated[0][1] if dated else None
    return max(known, key=lambda item: item[0])[1]


def _reports(path: Path) -> Iterator[Json]:
    """Give the readable verdicts of a folder of reports; others stand there too."""
    for file in sorted(path.glob(f"*/{REPORT}")):
        try:
            yield _read_report(file)
        except InputError:
            continue


def _read_report(path: Path) -> Json:
    """Read what `validate` wrote; refuse one whose content does not fit its own hash."""
    file = path / REPORT if path.is_dir() else path
    try:
        payload: Json = json.loads(file.read_text(encoding="utf-8"))
        claimed = payload.pop("report_hash")
        parts = (payload["verdict"], payload["sentence"], payload["policy"]["hash"], payload["data"]["name"])
        payload["data"]["hash"], payload["data"]["split"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"expected the {REPORT} of a validation at {file}, found: {error!r:.80}") from None
    digest = hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()
    if digest != claimed or not all(isinstance(part, str) for part in parts):
        raise InputError(f"expected {file} as `playproof validate` wrote it, found it changed: its hash does not fit")
    return payload | {"report_hash": claimed}


def _measured_at(engine: Engine, report: Json) -> datetime | None:
    """Give when the look that a report tells of was made."""
    query = select(TrialRow.created_at).where(
        TrialRow.policy_hash == report["policy"]["hash"],
        TrialRow.data_hash == report["data"]["hash"],
        TrialRow.split == report["data"]["split"],
        TrialRow.kind == "test",
    )
    with engine.connect() as connection:
        return connection.scalar(query)


def _ask_benchmark(
    registry: Registry, version: ModelVersion, pointer: ModelPointer, path: Path | None
) -> PromotionGround:
    in_use = None if pointer.version is None else registry.version(version.name, pointer.version)
    if path is None:
        raise PromotionRefused(
            "benchmark",
            f"expected the paired benchmark of {version.label}, found none; run `playproof arena bench {version.label}"
            f"{f' {in_use.label}' if in_use else ''}` and give its leaderboard.json as --report",
        )
    benchmark = read_benchmark(path)
    own = benchmark.name_of(version.policy_hash)
    if own is None:
        raise PromotionRefused("benchmark", f"expected {version.label} in {path}, found only {_names(benchmark)}")
    rivals = dict.fromkeys(RIVALS, "")
    if in_use is not None and in_use.policy_hash != version.policy_hash:
        known = benchmark.name_of(in_use.policy_hash)
        if known is None:
            raise PromotionRefused(
                "benchmark", f"expected the model in use, {in_use.label}, in {path}, found only {_names(benchmark)}"
            )
        rivals[known] = " (in use)"
    for rival, remark in rivals.items():
        gap = benchmark.versus(own, rival)
        if gap is None:
            raise PromotionRefused("benchmark", f"expected {own} against {rival} in {path}, found no such pair")
        if not gap.low > 0:
            raise PromotionRefused(
                "benchmark",
                f"expected more than {rival}{remark} with a lower bound above 0, found {gap.difference:+.2f} a window"
                f" ({gap.low:+.2f} to {gap.high:+.2f})",
            )
    beaten = ", ".join(f"{rival}{remark}" for rival, remark in rivals.items())
    return PromotionGround(
        f"benchmark: more than {beaten} on {benchmark.windows} held-out windows", benchmark.report_hash
    )


def _names(benchmark: Benchmark) -> str:
    return ", ".join(sorted(benchmark.policies)) or "no model with a checkpoint"
