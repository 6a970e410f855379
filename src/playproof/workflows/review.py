"""From a folder of recordings to a verdict about the player: import, data set, checks, audit, review, clone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from playproof.datasets import Dataset, open_dataset
from playproof.datasets.build import DatasetConfig, build
from playproof.datasets.check import check_dataset
from playproof.errors import InputError
from playproof.events import Event
from playproof.game import Game, first
from playproof.game.importers import ImportSettings
from playproof.json_types import Json
from playproof.record.feeds.selectors import known_maps, load_map
from playproof.record.imports.importing import ImportReport, ImportSink
from playproof.record.imports.recognise import import_path
from playproof.record.presses import PressRules
from playproof.record.redaction import Redaction, load_key
from playproof.reports import review as reporting
from playproof.reports.replay import replay_page
from playproof.store import EventLog, EventStore
from playproof.validate.audit import AuditReport
from playproof.validate.audit import audit as weigh
from playproof.validate.replay import replay_dataset
from playproof.validate.review import PlayReview, review_play

LOG = "import"
SPLIT_WINDOWS = 10
"""Whole windows below which the data set is not split."""
CLONE_WINDOWS = 10
"""Played windows below which no clone is trained."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class ReviewResult:
    """What a review made."""

    review: PlayReview
    payload: Json
    page: Path
    replay: Path | None
    dataset: Path


class _NotedSessions:
    """A log that notes which sessions were written to it."""

    def __init__(self, log: ImportSink) -> None:
        self._log = log
        self.sessions: set[str] = set()

    @property
    def failure(self) -> str | None:
        """Tell why the log takes nothing more."""
        return self._log.failure

    def submit(self, events: Sequence[Event]) -> Future[None]:
        """Hand events on."""
        self.sessions |= {event.session_id for event in events}
        return self._log.submit(events)


def review_recordings(
    given: str,
    game: Game,
    home: Path,
    output: Path,
    *,
    zone: Callable[[str], ImportSettings] | None = None,
    refuse: Callable[[ImportReport], None] = lambda report: None,  # noqa: ARG005
    name: str | None = None,
    seed: int = 1,
    say: Say = lambda text: None,  # noqa: ARG005
) -> ReviewResult:
    """Review the recordings under a path: what was played, what it earned, and what can be claimed of it."""
    key = load_key(home)
    settings = zone or (lambda own: _settings(own, key))
    say("reading the recordings")
    with EventLog.open(home, game.columns, log=LOG) as log:
        noted = _NotedSessions(log)
        report = import_path(given, game, settings, noted)
    refuse(report)
    if not noted.sessions:
        raise InputError(f"expected sessions at {given}, found none")
    sessions = sorted(noted.sessions)
    store = EventStore(home, game.columns)
    say("building the data set")
    label = name or f"review-{hashlib.sha256(' '.join(sessions).encode()).hexdigest()[:8]}"
    few = report.rounds - report.incomplete < SPLIT_WINDOWS
    shares = {"train": 1.0} if few else {"train": 0.6, "validation": 0.2, "test": 0.2}
    names = (first(game.observations), first(game.actions), first(game.rewards().presets))
    config = DatasetConfig(label, *names, shares=shares, gap=0)
    path = build(game, store, config, home, sessions=sessions)
    dataset = open_dataset(path)
    rng = np.random.default_rng(seed)
    say("checking the data set")
    checks = [(item.check, item.passed, item.detail) for item in check_dataset(dataset, store, rng)]
    say("settling the play again")
    events = {session: list(store.events(session_id=session)) for session in dataset.sessions}
    review = review_play(game, dataset, events, press_rules(game), np.random.default_rng(seed))
    say("auditing the rounds")
    audit = _audit(game, dataset, seed)
    say("cloning the player")
    clone = _clone(game, dataset, review)
    output.mkdir(parents=True, exist_ok=True)
    replay = None
    if review.played:
        replay = output / "replay.html"
        replay.write_text(replay_page(replay_dataset(game, dataset, None, None)), encoding="utf-8")
    counts = {key: value for key, value in asdict(report).items() if key not in ("problems", "kinds")}
    text = reporting.page(
        review,
        dataset,
        game,
        source=Path(given).name or given,
        audit=audit,
        checks=[(check, bool(passed), detail) for check, passed, detail in checks],
        clone=clone,
        report=counts | {"problems": len(report.problems)},
        replay=replay.name if replay else None,
    )
    page = output / "review.html"
    page.write_text(text, encoding="utf-8")
    payload = reporting.to_json(
        review,
        checks={check: passed for check, passed, _ in checks},
        audit=None if audit is None else audit.answer,
        clone=clone,
        imported=counts,
        problems=report.problems,
        dataset=str(path),
        page=str(page),
        replay=str(replay) if replay else None,
    )
    return ReviewResult(review, payload, page, replay, path)


def _settings(own: str, key: bytes) -> ImportSettings:
    from zoneinfo import ZoneInfo

    return ImportSettings(ZoneInfo(own), lambda: Redaction(key))


def press_rules(game: Game) -> PressRules:
    """Give how a game's events tell presses, from the selector map of its page."""
    maps = (load_map(name) for name in known_maps())
    return next((item.reading for item in maps if item.game == game.name), PressRules())


def _audit(game: Game, dataset: Dataset, seed: int) -> AuditReport | None:
    """Audit the rounds themselves; None where they are too few."""
    import polars as pl

    rules = game.display().audit
    if rules is None:
        return None
    rows = pl.concat([tables["observations"] for tables in dataset.sessions.values()])
    try:
        return weigh(game.name, rules, rules.from_rows(rows), np.random.default_rng(seed))
    except (InputError, ValueError, ZeroDivisionError):
        return None


def _clone(game: Game, dataset: Dataset, review: PlayReview) -> Json:
    """Clone the player where there is enough play; say what is missing where there is not."""
    played = len(review.played)
    if played < CLONE_WINDOWS:
        return {"text": f"A clone needs at least {CLONE_WINDOWS} rounds with orders; these recordings hold {played}."}
    from playproof.train.bc_trees import clone_habits
    from playproof.train.config import TreesConfig

    train = dataset.transitions("train")
    made = clone_habits(game, train, TreesConfig(), observation=dataset.manifest["observation"])
    unseen = dataset.transitions("test")
    scores = [score.to_json() for score in made.likeness(unseen, train, dataset.manifest["actions"]["heads"])]
    text = f"Trained on {len(set(train.windows))} rounds, scored on {len(set(unseen.windows))} later ones."
    return {"text": text, "heads": scores}
