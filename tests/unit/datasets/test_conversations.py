"""Conversations: masks, standings, hold-out, dropout, the ledger of used windows, and groups from recorded windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine

from playproof.datasets.conversations.groups import (
    ChatExchange,
    Conversation,
    ConversationGroup,
    TimedWindow,
    TokenSequence,
    UsedWindows,
    count_standings,
    drop_windows,
    dropout_rate,
    hold_out,
    read_groups,
    sampled_tokens,
    standing,
    usable_windows,
    written_tokens,
)
from playproof.errors import DecodeError, InputError
from playproof.game import load_game
from playproof.record.trajectories.facts import ActionTaken, Call
from playproof.record.trajectories.recorder import TrajectoryRecorder
from playproof.store.db import connect, upgrade


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = connect(url=f"sqlite:///{tmp_path / 'tables.db'}")
    upgrade(made)
    yield made
    made.dispose()


class Letters:
    """An encoder whose tokens are characters."""

    def prompt_ids(self, messages: Sequence[tuple[str, str]]) -> tuple[int, ...]:
        return tuple(map(ord, "".join(f"<{role}>{content}" for role, content in messages)))

    def answer_ids(self, answer: str) -> tuple[int, ...]:
        return (*map(ord, answer), 0)


def exchange(answer: str = "hold", **more: object) -> ChatExchange:
    return ChatExchange((("system", "s"), ("user", "u")), answer, **more)  # type: ignore[arg-type]


def episode(name: str, version: str | None = None, **more: object) -> Conversation:
    sampled = exchange(token_ids=(1, 2), logprobs=(-0.5, -0.25), **more)
    return Conversation(name, "agent", version, (sampled,))


def test_only_the_answers_tokens_are_trained_on() -> None:
    drawn = sampled_tokens(exchange(prompt_ids=(7, 8, 9), token_ids=(1, 2), logprobs=(-0.5, -0.25)), Letters())
    assert drawn.ids == (7, 8, 9, 1, 2)
    assert drawn.mask == (False, False, False, True, True)
    assert drawn.logprobs == (-0.5, -0.25)
    written = written_tokens(exchange("ab"), Letters())
    assert [chr(item) for item, on in zip(written.ids, written.mask, strict=True) if on] == ["a", "b", "\0"]
    assert written.prompt == Letters().prompt_ids((("system", "s"), ("user", "u")))
    with pytest.raises(InputError, match="text alone"):
        sampled_tokens(exchange(), Letters())
    with pytest.raises(DecodeError, match="log-probability a token"):
        exchange(token_ids=(1, 2), logprobs=(-1.0,))


@given(st.lists(st.integers(0, 9), max_size=5), st.lists(st.integers(0, 9), min_size=1, max_size=5))
def test_a_mask_covers_the_answer_and_nothing_else(prompt: list[int], answer: list[int]) -> None:
    tokens = TokenSequence(tuple(prompt), tuple(answer))
    assert [item for item, on in zip(tokens.ids, tokens.mask, strict=True) if on] == answer
    assert tokens.mask.count(False) == len(prompt)


def test_standings_tell_who_may_give_gradients() -> None:
    cases = {
        "own": episode("a", "line@4"),
        "stale": episode("b", "line@2"),
        "foreign": episode("c", "other@4"),
        "tempered": episode("d", "line@3", temperature=0.7),
        "unsampled": Conversation("e", "agent", "line@4", (exchange(),)),
    }
    assert {want: standing(case, "line", 4) for want, case in cases.items()} == {want: want for want in cases}
    assert standing(episode("f", "line@3"), "line", 4) == "own"
    assert standing(episode("g", "line@5"), "line", 4) == "foreign"
    assert standing(episode("h"), "line", 4) == "foreign"
    assert standing(episode("i", "line@4", temperature=float("nan")), "line", 4) == "tempered"
    counts = count_standings([ConversationGroup("w", tuple(cases.values()))], "line", 4)
    assert dict(counts) == dict.fromkeys(cases, 1)


def test_an_episode_is_in_a_group_once() -> None:
    with pytest.raises(DecodeError, match="once"):
        ConversationGroup("w", (episode("a"), episode("a")))


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 6))
def test_held_out_windows_are_later_by_the_embargo(count: int, holdout: int, embargo: int) -> None:
    holdout = min(holdout, count)
    result = hold_out([TimedWindow(f"{at:03d}", at, at + 1) for at in reversed(range(count))], holdout, embargo)
    assert sorted((*result.train, *result.embargoed, *result.held)) == [f"{at:03d}" for at in range(count)]
    assert len(result.held) == holdout
    if result.held and result.train:
        assert int(result.held[0]) - (int(result.train[-1]) + 1) >= embargo
    if holdout:
        assert len(result.embargoed) == min(embargo, count - holdout)


def test_dropout_follows_the_formula() -> None:
    assert dropout_rate(1_000) == 0
    assert dropout_rate(1_100) == pytest.approx(1 - 1_000 / 1_100)
    assert dropout_rate(5_000) == 0.3
    assert dropout_rate(200, target=100, most=0.6) == 0.5


@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.integers(0, 3), st.integers(1, 60))
def test_dropout_takes_whole_windows_by_the_seed(sizes: list[int], seed: int, target: int) -> None:
    groups = [
        ConversationGroup(f"w{at}", tuple(episode(f"{at}-{of}") for of in range(n))) for at, n in enumerate(sizes)
    ]
    kept, dropped = drop_windows(groups, seed, target)
    assert (kept, dropped) == drop_windows(groups, seed, target)
    assert sorted([item.window for item in kept] + list(dropped)) == sorted(group.window for group in groups)
    lost = sum(sizes[int(name[1:])] for name in dropped)
    assert lost <= dropout_rate(sum(sizes), target) * sum(sizes) + 1e-9
    assert all(len(item.episodes) == sizes[int(item.window[1:])] for item in kept)


def test_a_window_is_used_once_and_a_cut_iteration_takes_its_windows_again(engine: Engine) -> None:
    ledger = UsedWindows(engine, "line")
    ledger.hold_out(["h"])
    ledger.reserve(["a", "b"], 1)
    ledger.reserve(["a", "b"], 1)
    ledger.settle(1, "line@1")
    with pytest.raises(InputError, match="used once"):
        ledger.reserve(["b"], 2)
    with pytest.raises(InputError, match="holdout"):
        ledger.reserve(["h"], 2)
    with pytest.raises(InputError, match="taken for train"):
        ledger.hold_out(["a"])
    ledger.reserve(["c"], 2)
    assert ledger.reserved(2) == {"c"}
    ledger.release(1)
    assert ledger.used() == {"a", "b"}
    assert ledger.held() == {"h"}
    UsedWindows(engine, "another line").reserve(["a"], 1)


def test_no_windows_is_an_error_that_says_what_to_do(engine: Engine) -> None:
    with pytest.raises(InputError, match=r"found none: 0 windows were played.*--min-agents"):
        usable_windows(engine, load_game("arena").windows, datetime(2025, 1, 16, tzinfo=UTC), 168)


def test_groups_come_from_recorded_windows_with_their_tokens(engine: Engine) -> None:
    window, now = "2025-01-15T10:00Z", datetime(2025, 1, 15, 10, tzinfo=UTC)
    with TrajectoryRecorder(engine, clock=lambda: now) as recorder:
        for number, version in enumerate(("line@1", "line@1", None)):
            _record(recorder, window, f"agent-{number}", version)
    (group,) = read_groups(engine, [window], 3, 2)
    assert [item.version for item in group.episodes] == ["line@1", "line@1", None]
    assert group.episodes[0].exchanges[0].token_ids == (5, 6)
    assert group.episodes[0].exchanges[0].messages == (("system", "task"), ("user", "state 0"))
    assert [standing(item, "line", 1) for item in group.episodes] == ["own", "own", "foreign"]
    assert read_groups(engine, [window], 4, 2) == []
    assert read_groups(engine, [window], 3, 3) == []


def _record(recorder: TrajectoryRecorder, window: str, agent: str, version: str | None) -> None:
    identity = recorder.start_trajectory(agent, window)
    tokens = {"token_ids": [5, 6], "logprobs": [-0.1, -0.2], "temperature": 1.0, "model_version": version}
    for step in range(2):
        recorder.start_step(identity, {"balance": 1})
        call = Call(
            "m", system_prompt="task", user_prompt=f"state {step}", response="{}", **(tokens if version else {})
        )
        recorder.log_llm_call(identity, call)
        recorder.complete_step(identity, ActionTaken("hold", success=True))
    recorder.end_trajectory(identity, final_balance=1, final_pnl=0)
