"""Strategies for hypothesis: events and frames, good and hostile."""

from __future__ import annotations

from datetime import UTC, datetime

from playproof.errors import MissingExtra
from playproof.events import DIRECTIONS, DOC_TYPES, SOURCES, Event, Value
from playproof.game import Frame
from playproof.game.checks.case import JUNK

try:
    from hypothesis import strategies as st
except ImportError as error:
    raise MissingExtra("hypothesis", "dev") from error

IDS = st.text("abcXYZ019_-", min_size=1, max_size=12)
MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
VALUES: st.SearchStrategy[Value] = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)


def events() -> st.SearchStrategy[Event]:
    """Give any event that an envelope holds."""
    return st.builds(
        Event,
        ts=MOMENTS,
        source=st.sampled_from(SOURCES),
        doc_type=st.sampled_from(DOC_TYPES),
        session_id=IDS,
        seq=st.integers(0, 2**40),
        event_name=IDS,
        server_ts=st.none() | MOMENTS,
        direction=st.sampled_from(DIRECTIONS),
        window_id=st.none() | IDS,
        player_id=st.none() | IDS,
        raw=st.none() | TEXTS,
        columns=st.dictionaries(IDS, VALUES, max_size=4),
    )


def frames() -> st.SearchStrategy[Frame]:
    """Give any frame, most of them no game's."""
    json_text = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=8,
    ).map(_json)
    payloads = st.text(max_size=60) | st.binary(max_size=60) | json_text | st.sampled_from(JUNK)
    return st.builds(Frame, ts=MOMENTS, payload=payloads, direction=st.sampled_from(DIRECTIONS))


def _json(value: object) -> str:
    import json

    return json.dumps(value)
