"""Outcomes that come from outside: what a market of one's own did in a window, checked, written whole, correctable.

`read_posted` reads one window's outcomes from JSON and refuses what cannot be right, by field and reason.
`write_posted` writes them inside somebody's transaction: the same content again changes nothing, other content is
refused unless it comes as a correction with a reason; then the rows of before go to the table of revisions. A change is
always computed from the prices; one that was stated and differs by more than its own rounding is noted.
Leaves out: HTTP (http), files (record.imports.outcome_files), and reading outcomes back (outcomes).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select

from playproof.errors import DecodeError, InputError, RefusedRecord
from playproof.game import WindowRules
from playproof.game.markets import CURRENCY, MarketDeclaration
from playproof.json_types import Json
from playproof.money import UNIT
from playproof.record.trajectories.windows import is_closed
from playproof.store.db import MarketOutcome, OutcomeRevision
from playproof.store.db.columns import LARGEST, plain

ASSET_FIELDS = ("asset", "start_price", "end_price", "change", "sentiment", "news_ids", "volume")
QUESTION_FIELDS = ("question_id", "question", "outcome", "final_probability", "volume")
BODY_FIELDS = ("window_id", "currency", "assets", "questions", "market", "reason")
LONGEST_NAME, LONGEST_QUESTION, MOST_NEWS = 200, 2_000, 1_000
_ANSWERS: Mapping[object, str] = {"yes": "yes", "no": "no", "true": "yes", "false": "no"}
_COMPARED = tuple(column.key for column in MarketOutcome.__table__.columns if column.key != "created_at")


class InvalidField(InputError):
    """Tell which field of some outcomes is wrong, and why."""

    def __init__(self, name: str, reason: str) -> None:
        self.field, self.explanation = name, reason
        super().__init__(f"{name}: {reason}")


@dataclass(frozen=True)
class PostedOutcomes:
    """The outcomes of one window, checked, as rows of the table."""

    window_id: str
    market: str
    rows: tuple[Json, ...]
    notes: tuple[str, ...] = ()
    """What was stated and is not what was computed."""
    reason: str | None = field(default=None, compare=False)
    """Why a correction is made; None for outcomes that are new."""


def read_posted(
    payload: object, windows: WindowRules, now: datetime, market: MarketDeclaration | None = None
) -> PostedOutcomes:
    """Check one window's outcomes, given as the body of POST /v1/outcomes."""
    body = _fields(payload, BODY_FIELDS, "body")
    window_id = read_window_id(body.get("window_id"), windows)
    check_market(body.get("market"), windows)
    currency = read_currency(body.get("currency"), market)
    rows: list[Json] = []
    notes: list[str] = []
    for name, read in (("assets", read_asset), ("questions", read_question)):
        items = body.get(name, [])
        if not isinstance(items, list):
            raise InvalidField(name, f"expected a list, found {_shown(items)}")
        for index, item in enumerate(items):
            row, said = read(item, f"{name}.{index}")
            rows.append(row)
            notes += said
    reason = body.get("reason")
    if reason is not None and (not isinstance(reason, str) or not 0 < len(reason.strip()) <= LONGEST_QUESTION):
        raise InvalidField("reason", f"expected why the outcomes are corrected, found {_shown(reason)}")
    return collect_rows(window_id, currency, rows, windows, now, market, notes, reason)


def collect_rows(
    window_id: str,
    currency: str,
    rows: Sequence[Mapping[str, Any]],
    windows: WindowRules,
    now: datetime,
    market: MarketDeclaration | None,
    notes: Iterable[str] = (),
    reason: str | None = None,
) -> PostedOutcomes:
    """Check the rows of one window against each other, the clock and the market's declaration."""
    if not rows:
        raise InvalidField("assets", f"expected at least one asset or question of {window_id}, found none")
    seen: set[tuple[str, str]] = set()
    for row in rows:
        key = (row["kind"], row["subject"])
        if key in seen:
            raise InvalidField(_list_of(row), f"expected {row['subject']!r} once in {window_id}, found it twice")
        seen.add(key)
    if market is not None:
        for kind, declared in (("asset", market.assets), ("market", market.questions)):
            for row in rows:
                if declared and row["kind"] == kind and row["subject"] not in declared:
                    raise InvalidField(
                        _list_of(row),
                        f"expected one of {', '.join(declared)}, which market {market.name} declares, found "
                        f"{row['subject']!r}",
                    )
        missing = [name for name in market.assets if ("asset", name) not in seen]
        if missing:
            raise InvalidField(
                "assets", f"expected every declared asset of market {market.name}, found none of {', '.join(missing)}"
            )
    hours = round((windows.length or timedelta(hours=1)) / timedelta(hours=1))
    if not is_closed(window_id, hours, windows, now, timedelta(0)):
        raise RefusedRecord(
            "open_window", f"expected a window that has closed, found {window_id} open; send its outcomes after its end"
        )
    common = {"window_id": window_id, "market": windows.market, "currency": currency}
    whole = ({**dict.fromkeys(_COMPARED), **row, **common} for row in rows)
    ordered = tuple(sorted(whole, key=lambda row: (row["kind"], row["subject"])))
    return PostedOutcomes(window_id, windows.market, ordered, tuple(notes), reason)


def read_window_id(text: object, windows: WindowRules) -> str:
    """Read a window id into its one form."""
    try:
        if not isinstance(text, str):
            raise DecodeError(f"expected a window id such as {windows.examples[0]}, found {_shown(text)}")
        return windows.parse(text).window_id
    except DecodeError as error:
        raise InvalidField("window_id", str(error)) from None


def check_market(name: object, windows: WindowRules) -> None:
    """Refuse outcomes of another market than the one that is recorded here."""
    if name is not None and name != windows.market:
        here = f"market {windows.market}" if windows.market else "a game that is not a declared market"
        raise InvalidField("market", f"expected {windows.market or 'none'}, as {here} is recorded here, found {name!r}")


def read_currency(currency: object, market: MarketDeclaration | None) -> str:
    """Read the currency, which must be named and be the market's."""
    if not isinstance(currency, str) or not CURRENCY.fullmatch(currency):
        raise InvalidField("currency", f"expected the currency of the prices, such as USD, found {_shown(currency)}")
    if market is not None and currency != market.currency:
        raise InvalidField("currency", f"expected {market.currency} of market {market.name}, found {currency}")
    return currency


def read_asset(payload: object, path: str) -> tuple[Json, list[str]]:
    """Read what a window did with one asset; give its row and what was stated otherwise."""
    item = _fields(payload, ASSET_FIELDS, path)
    subject = _text(item.get("asset"), f"{path}.asset", LONGEST_NAME)
    start = _price(item.get("start_price"), f"{path}.start_price")
    end = _price(item.get("end_price"), f"{path}.end_price")
    change = (end - start) / start
    notes = []
    if item.get("change") is not None:
        stated = _decimal(item["change"], f"{path}.change")
        exponent = stated.as_tuple().exponent
        assert isinstance(exponent, int)
        # Half of the last digit that was written, and what prices of two decimals cannot tell.
        rounding = Decimal(5).scaleb(exponent - 1) + Decimal("1e-9")
        exact = Decimal(end - start) / Decimal(start)
        if abs(stated - exact) > rounding:
            notes.append(f"{path}.change: {subject} was stated to change by {stated}, its prices say {change:.9g}")
    news = item.get("news_ids")
    if news is not None and (
        not isinstance(news, list)
        or len(news) > MOST_NEWS
        or not all(isinstance(name, str) and 0 < len(name) <= LONGEST_NAME for name in news)
    ):
        raise InvalidField(f"{path}.news_ids", f"expected a list of at most {MOST_NEWS} ids, found {_shown(news)}")
    row = {
        "kind": "asset",
        "subject": subject,
        "start_price": start,
        "end_price": end,
        "change": change,
        "sentiment": _float(item.get("sentiment"), f"{path}.sentiment"),
        "news_ids": plain(news),
        "volume": _volume(item.get("volume"), f"{path}.volume"),
    }
    return row, notes


def read_question(payload: object, path: str) -> tuple[Json, list[str]]:
    """Read how one question was resolved; give its row, and no notes."""
    item = _fields(payload, QUESTION_FIELDS, path)
    subject = _text(item.get("question_id"), f"{path}.question_id", LONGEST_NAME)
    question = item.get("question")
    if question is not None:
        question = _text(question, f"{path}.question", LONGEST_QUESTION)
    said = item.get("outcome")
    answer = said if said is None else _ANSWERS.get(str(said).lower() if isinstance(said, str | bool) else said)
    if said is not None and answer is None:
        raise InvalidField(f"{path}.outcome", f"expected yes, no, true or false, found {_shown(said)}")
    probability = _float(item.get("final_probability"), f"{path}.final_probability")
    if probability is not None and not 0.0 <= probability <= 1.0:
        raise InvalidField(f"{path}.final_probability", f"expected a probability from 0 to 1, found {probability}")
    if answer is None and probability is None:
        raise InvalidField(f"{path}.outcome", f"expected an outcome or a final_probability of {subject!r}, found none")
    row = {
        "kind": "market",
        "subject": subject,
        "question": question,
        "outcome": answer,
        "final_probability": probability,
        "volume": _volume(item.get("volume"), f"{path}.volume"),
    }
    return row, []


def write_posted(connection: Connection, posted: PostedOutcomes, now: datetime) -> Json:
    """Write a window's outcomes in a transaction, or find them there; give the answer of the API.

    Nothing has changed where it raises.
    """
    mine = (MarketOutcome.window_id == posted.window_id, MarketOutcome.market == posted.market)
    known = [dict(row) for row in connection.execute(select(MarketOutcome.__table__).where(*mine)).mappings()]
    before = sorted(({name: row[name] for name in _COMPARED} for row in known), key=_subject)
    answer: Json = {"window_id": posted.window_id, "written": len(posted.rows), "again": False}
    if posted.notes:
        answer["notes"] = list(posted.notes)
    if known and before == list(posted.rows):
        return answer | {"again": True}
    if known and posted.reason is None:
        raise RefusedRecord(
            "has_outcomes",
            f"expected no outcomes or the same of {posted.window_id}, found others written on "
            f"{known[0]['created_at']:%Y-%m-%d %H:%M}Z; correct them with PUT /v1/outcomes/{posted.window_id} and a "
            "reason, or outcomes import --correct --reason",
        )
    if not known and posted.reason is not None:
        raise RefusedRecord(
            "unknown",
            f"expected outcomes of {posted.window_id} to correct, found none; send them as new (POST)",
        )
    if known:
        of = (OutcomeRevision.window_id == posted.window_id, OutcomeRevision.market == posted.market)
        last = connection.execute(select(func.max(OutcomeRevision.revision)).where(*of)).scalar() or 0
        revision = {"market": posted.market, "window_id": posted.window_id, "revision": last + 1}
        more = {"rows": plain(known), "reason": posted.reason, "replaced_at": now}
        connection.execute(insert(OutcomeRevision).values(**revision, **more))
        connection.execute(delete(MarketOutcome).where(*mine))
        answer["revision"] = last + 2
    connection.execute(insert(MarketOutcome), [{**row, "created_at": now} for row in posted.rows])
    return answer


def _subject(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["kind"], row["subject"]


def _list_of(row: Mapping[str, Any]) -> str:
    return "assets" if row["kind"] == "asset" else "questions"


def _fields(payload: object, names: Sequence[str], path: str) -> Mapping[str, Any]:
    if not isinstance(payload, Mapping):
        raise InvalidField(path, f"expected an object with {', '.join(names)}, found {_shown(payload)}")
    unknown = [str(name) for name in payload if name not in names]
    if unknown:
        where = unknown[0] if path == "body" else f"{path}.{unknown[0]}"
        raise InvalidField(where[:100], f"expected one of {', '.join(names)}, found a field of another name")
    return payload


def _text(text: object, path: str, longest: int) -> str:
    if not isinstance(text, str) or not 0 < len(text.strip()) <= longest or "\0" in text:
        raise InvalidField(path, f"expected a text of 1 to {longest} characters, found {_shown(text)}")
    return str(plain(text))


def _decimal(value: object, path: str) -> Decimal:
    """Read a number that may be written as a text; NaN and infinities are refused."""
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal) or len(str(value)) > 60:
            raise InvalidOperation
        number = Decimal(str(value).strip())
        if not number.is_finite() or abs(number.adjusted()) > 40:
            raise InvalidOperation
    except (InvalidOperation, ValueError):
        raise InvalidField(path, f"expected a finite number, found {_shown(value)}") from None
    return number


def _price(value: object, path: str) -> int:
    """Read a price as integers of 10^-9; it must be above 0 when so written."""
    number = _decimal(value, path)
    units = int((number * UNIT).to_integral_value())
    if number <= 0 or not 0 < units <= LARGEST:
        least = "1e-9" if number > 0 and units == 0 else "0"
        raise InvalidField(path, f"expected a price above {least} and at most {LARGEST // UNIT}, found {_shown(value)}")
    return units


def _volume(value: object, path: str) -> int | None:
    if value is None:
        return None
    number = _decimal(value, path)
    units = int((number * UNIT).to_integral_value())
    if number < 0 or units > LARGEST:
        raise InvalidField(path, f"expected a volume of 0 to {LARGEST // UNIT}, found {_shown(value)}")
    return units


def _float(value: object, path: str) -> float | None:
    return None if value is None else float(_decimal(value, path))


def _shown(value: object) -> str:
    """Write a value for an error message, cut."""
    return f"{value!r:.60}" if not isinstance(value, Mapping | list) else f"a {type(value).__name__} of {len(value)}"
