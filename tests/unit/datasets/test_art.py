"""ART's format there and back, views that cannot know outcomes, and what forbids training."""

from __future__ import annotations

import dataclasses
import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playproof.datasets.conversations import art
from playproof.datasets.conversations.art import (
    JudgeView,
    PolicyView,
    from_art,
    from_art_group,
    judge_view,
    policy_view,
    to_art,
    to_art_group,
    validate_compatibility,
)
from playproof.datasets.conversations.groups import Turn
from playproof.errors import DecodeError
from playproof.record.trajectories.outcomes import Outcomes
from playproof.store.db.trajectories import StoredCall, StoredStep, StoredTrajectory

NOW = datetime(2025, 1, 15, 10, tzinfo=UTC)
WINDOW = "2025-01-15T10:00Z"
GOLDEN = Path(__file__).parents[2] / "data" / "art_group.json"


def call(index: int, messages: list[dict[str, Any]], response: str | None, **more: Any) -> StoredCall:
    payload: dict[str, Any] = {field.name: None for field in dataclasses.fields(StoredCall)}
    payload |= {
        "call_id": f"c{index}",
        "step": index,
        "position": index,
        "time": NOW,
        "model": "m",
        "purpose": "action",
    }
    return StoredCall(**(payload | {"messages": messages, "response": response} | more))


def stored(calls: list[StoredCall], name: str = "t1", **more: Any) -> StoredTrajectory:
    payload: dict[str, Any] = {field.name: None for field in dataclasses.fields(StoredTrajectory)}
    payload |= {
        "trajectory_id": name,
        "agent_id": "a1",
        "archetype": "balanced",
        "window_id": WINDOW,
        "window_hours": 1,
    }
    payload |= {
        "scenario_id": WINDOW,
        "start_time": NOW,
        "end_time": NOW + timedelta(hours=1),
        "final_status": "completed",
    }
    payload |= {"final_balance": 10**13, "final_pnl": -5, "trades_executed": 2, "posts_created": 0, "duration_ms": 10}
    payload |= {"is_training_data": True, "is_evaluation": False, "used_in_training": False}
    return StoredTrajectory(**(payload | {"calls": tuple(calls), "steps": ()} | more))


def said(*texts: str) -> list[dict[str, Any]]:
    roles = ["system", *(["user", "assistant"] * len(texts))]
    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]


TOKENS: dict[str, Any] = {"token_ids": [5, 6], "logprobs": [-0.5, -1.25]}
ALONE = [call(n, said("sys", f"state {n}"), f"answer {n}", **TOKENS) for n in range(3)]
GROWING = [
    call(0, said("sys", "one"), "a1", **TOKENS),
    call(1, said("sys", "one", "a1", "two"), "a2", **TOKENS),
    call(2, said("other system", "three"), "a3"),
]


def test_calls_that_stand_alone_are_histories_of_their_own() -> None:
    payload = to_art(policy_view(stored(ALONE)))
    assert [message.get("role", "choice") for message in payload["messages_and_choices"]] == [
        "system",
        "user",
        "choice",
    ]
    assert len(payload["additional_histories"]) == 2
    assert payload["additional_histories"][1]["messages_and_choices"][1] == {"role": "user", "content": "state 2"}
    assert payload["metrics"]["final_pnl"] == -5
    assert payload["metadata"]["window_id"] == WINDOW
    assert all(isinstance(value, int | float) for value in payload["metrics"].values())


def test_a_conversation_that_goes_on_is_one() -> None:
    payload = to_art(policy_view(stored(GROWING)))
    kinds = [message.get("role", "choice") for message in payload["messages_and_choices"]]
    assert kinds == ["system", "user", "choice", "user", "choice"]
    (other,) = payload["additional_histories"]
    assert other["messages_and_choices"][-1] == {"role": "assistant", "content": "a3"}
    choice = payload["messages_and_choices"][2]
    assert choice["message"]["content"] == "a1"
    assert [item["token"] for item in choice["logprobs"]["content"]] == ["token_id:5", "token_id:6"]
    assert [item["logprob"] for item in choice["logprobs"]["content"]] == [-0.5, -1.25]


words = st.text(max_size=20)
turns = st.builds(Turn, st.sampled_from(["system", "user"]), words) | st.builds(
    lambda text, tokens: Turn("assistant", text, tuple(range(len(tokens))), tuple(tokens), sampled=True),
    words,
    st.lists(st.floats(-50, 0), max_size=4),
)
views = st.builds(
    PolicyView,
    st.lists(st.lists(turns, min_size=1, max_size=4).map(tuple), min_size=1, max_size=3).map(tuple),
    st.dictionaries(words, words | st.none() | st.booleans(), max_size=3),
    st.dictionaries(words, st.integers(-(2**60), 2**60) | st.floats(allow_nan=False), max_size=3),
    st.floats(-1e6, 1e6),
)


@settings(max_examples=60)
@given(st.lists(views, max_size=3))
def test_views_go_there_and_back(group: list[PolicyView]) -> None:
    payload = json.loads(json.dumps(to_art_group(group)))
    assert from_art_group(payload) == tuple(group)


CANARY = "CANARY-7f3a"


@settings(max_examples=60)
@given(
    st.integers(0, 3), st.text(max_size=30), st.sampled_from(["change", "sentiment", "outcome", "question", "news_ids"])
)
def test_a_canary_in_the_outcomes_never_reaches_a_policy(count: int, text: str, index: str) -> None:
    trajectory = stored([call(n, said("sys", text), "answer", **TOKENS) for n in range(count)])
    outcomes = Outcomes(WINDOW, ({"window_id": WINDOW, "subject": "ACME", "end_price": 77_777_777_777, index: CANARY},))
    judged = judge_view(trajectory, outcomes)
    assert CANARY in repr(judged)
    for written in (repr(judged.played), json.dumps(to_art(judged.played)), repr(policy_view(trajectory))):
        assert CANARY not in written
        assert "77777777777" not in written.replace("_", "")


def test_a_judges_view_is_no_policys_view() -> None:
    outcomes = Outcomes(WINDOW, ())
    assert not isinstance(judge_view(stored(ALONE), outcomes), PolicyView)
    assert "outcomes" not in {field.name for field in dataclasses.fields(PolicyView)}
    assert {field.name for field in dataclasses.fields(JudgeView)} == {"played", "outcomes"}
    with pytest.raises(AttributeError):
        to_art(judge_view(stored(ALONE), outcomes))  # type: ignore[arg-type]
    with pytest.raises(DecodeError, match="outcomes of"):
        judge_view(stored(ALONE), Outcomes("2025-01-15T11:00Z", ()))


def test_nothing_that_makes_a_policys_view_can_reach_outcomes() -> None:
    """The function takes a stored trajectory alone, and that has no outcome."""
    import inspect

    assert list(inspect.signature(policy_view).parameters) == ["trajectory", "reward"]
    names = {
        field.name for record in (StoredTrajectory, StoredStep, StoredCall) for field in dataclasses.fields(record)
    }
    assert not {"change", "end_price", "outcome", "final_probability"} & names
    source = Path(art.__file__).read_text().split("def judge_view")[0].split("def policy_view")[1]
    assert "utcome" not in source


def group(**more: Any) -> list[PolicyView]:
    policy_views = [policy_view(stored(ALONE, f"t{n}"), float(n)) for n in range(3)]
    return [dataclasses.replace(policy_views[0], **more), *policy_views[1:]]


def test_a_good_group_is_compatible() -> None:
    result = validate_compatibility(group())
    assert result.compatible
    assert result.warnings == ()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"conversations": ()}, "no answer"),
        ({"metadata": {"trajectory_id": "t1", "scenario_id": WINDOW}}, "twice"),
        ({"metadata": {"trajectory_id": "t9", "scenario_id": "other"}}, "one scenario"),
        ({"metrics": {"x": float("nan")}}, "metric x"),
        ({"metrics": {"x": "ten"}}, "metric x"),
        ({"reward": math.inf}, "finite"),
        ({"conversations": ((Turn("assistant", "hm", sampled=True),),)}, "begin with"),
        ({"conversations": ((Turn("user", "x"), Turn("assistant", "", sampled=True)),)}, "empty"),
        (
            {"conversations": ((Turn("user", "x"), Turn("system", "y"), Turn("assistant", "z", sampled=True)),)},
            "inside",
        ),
    ],
)
def test_errors_forbid_training(wrong: dict[str, Any], words: str) -> None:
    result = validate_compatibility(group(**wrong))
    assert not result.compatible
    assert words in " ".join(result.errors)


@pytest.mark.parametrize(
    ("some", "words"),
    [
        ([policy_view(stored(GROWING))], "to compare"),
        ([policy_view(stored(GROWING)), policy_view(stored(ALONE, "t2"))], "equal"),
        ([policy_view(stored(GROWING))], "SFT only"),
        ([policy_view(stored(ALONE, final_status="cut"))], "cut"),
        (
            [PolicyView(((Turn("user", "x"), Turn("assistant", "y", sampled=True)),), {"trajectory_id": "t"})],
            "no system",
        ),
    ],
)
def test_warnings_limit_it(some: list[PolicyView], words: str) -> None:
    result = validate_compatibility(some)
    assert result.compatible
    assert words in " ".join(result.warnings)


def test_an_empty_group_is_an_error() -> None:
    assert not validate_compatibility([]).compatible


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"messages_and_choices": None, "reward": 0, "metrics": {}, "metadata": {}},
        {"messages_and_choices": [{"role": "wizard", "content": ""}], "reward": 0, "metrics": {}, "metadata": {}},
        {"messages_and_choices": [], "reward": "much", "metrics": {}, "metadata": {}},
        {
            "messages_and_choices": [
                {"message": {"content": "x"}, "logprobs": {"content": [{"token": "hi", "logprob": 0}]}}
            ],
            "reward": 0,
            "metrics": {},
            "metadata": {},
        },
    ],
)
def test_other_json_is_refused(payload: dict[str, Any]) -> None:
    with pytest.raises(DecodeError):
        from_art(payload)


def sample_group() -> list[PolicyView]:
    """The group of the golden file."""
    return [policy_view(stored(GROWING, "t1"), 0.5), policy_view(stored(ALONE, "t2"), -0.25)]


def test_arts_own_classes_read_it_as_it_is() -> None:
    """The golden file is what ART's TrajectoryGroup made of our JSON; scripts/art_golden.py makes it anew."""
    golden = json.loads(GOLDEN.read_text())
    assert golden["given"] == to_art_group(sample_group())
    assert golden["choices"] == [2, 3]
    assert from_art_group(golden["read"]) == tuple(sample_group())


def test_arts_own_classes_where_they_are_installed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(project / "scripts"))
    trajectories = pytest.importorskip("art.trajectories", reason="openpipe-art is not installed")
    from art_golden import revived

    given = to_art_group(sample_group())
    choice = trajectories.Choice
    read = [trajectories.Trajectory.model_validate(revived(item, choice)) for item in given["trajectories"]]
    assert from_art_group(json.loads(trajectories.TrajectoryGroup(read).model_dump_json())) == tuple(sample_group())
