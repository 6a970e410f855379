"""Conversations to train language models on: exchanges with their sampled tokens, episodes, and groups of one window.

An exchange is one answer with exactly the prompt that it was given for; only the tokens of the answer are ever trained
on. A group is the episodes of one window, or of K forks of one. Who may give gradients is told here: an episode's own
standing is `own` if the policy itself sampled it in one of its last two versions, with log-probabilities that are those
it was drawn with; the others are counted by why they are not. Time orders windows: those held out come last, with an
embargo before them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, Protocol

from sqlalchemy import Engine, delete, insert, select, update

from playproof.errors import ConfigError, DecodeError, InputError, UnknownName
from playproof.game import WindowRules
from playproof.record.trajectories.windows import MIN_ACTIONS, MIN_AGENTS, survey
from playproof.store.db import ReviewMark, Trajectory, UsedWindow, writing
from playproof.store.db.trajectories import StoredCall, StoredTrajectory, read_windows

VERSIONS = 2
"""Of how many of its latest versions a policy's own samples give gradients."""
TARGET, MAX_DROPOUT = 1_000, 0.3
Why = Literal["own", "stale", "foreign", "unsampled", "tempered"]
"""Own; of an older version; of another player; without tokens and log-probabilities; drawn at another temperature."""
MARKS = ("", "accepted", "not-rejected")
ROLES = ("system", "user", "assistant", "tool", "developer")


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation; an answer may carry the tokens it was sampled as."""

    role: str
    content: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    sampled: bool = False
    """The agent's own answer, in contrast to an answer that it was told of."""

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise DecodeError(f"expected a role of {', '.join(ROLES)}, found {self.role[:40]!r}")
        if len(self.token_ids) != len(self.logprobs):
            raise DecodeError(
                f"expected a log-probability a token, found {len(self.logprobs)} of {len(self.token_ids)}"
            )

    @property
    def trainable(self) -> bool:
        """Tell whether gradients can come from this answer."""
        return self.sampled and bool(self.token_ids)


@dataclass(frozen=True, slots=True)
class ChatExchange:
    """One answer, and the prompt that it was given for."""

    messages: tuple[tuple[str, str], ...]
    """Role and content."""
    answer: str
    prompt_ids: tuple[int, ...] = ()
    """Empty where only the text is known."""
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    """Of the answer's tokens, under the policy that drew them."""
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if len(self.token_ids) != len(self.logprobs):
            raise DecodeError(
                f"expected a log-probability a token, found {len(self.logprobs)} of {len(self.token_ids)}"
            )


@dataclass(frozen=True, slots=True)
class Conversation:
    """One player's way through one window."""

    episode_id: str
    agent: str
    version: str | None
    """Of the policy that answered, as `lineage@number`; None for a player that is none."""
    exchanges: tuple[ChatExchange, ...]
    pnl: int | None = None
    """In the smallest unit of money."""
    start_equity: int | None = None
    valid: int = 0
    """Answers that could be read as a decision."""


@dataclass(frozen=True, slots=True)
class ConversationGroup:
    """All episodes of one window, or of the forks of one."""

    window: str
    episodes: tuple[Conversation, ...]

    def __post_init__(self) -> None:
        names = [episode.episode_id for episode in self.episodes]
        if len(set(names)) < len(names):
            raise DecodeError(f"expected every episode of {self.window} once, found {len(names)} of {len(set(names))}")


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """One sequence to train on: a prompt, which is never trained on, and an answer, which is."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    logprobs: tuple[float, ...] | None = None

    @property
    def ids(self) -> tuple[int, ...]:
        """Give the whole sequence."""
        return self.prompt + self.answer

    @property
    def mask(self) -> tuple[bool, ...]:
        """Tell which tokens are trained on."""
        return (False,) * len(self.prompt) + (True,) * len(self.answer)


class Encoder(Protocol):
    """Writes texts as tokens, as one model reads them."""

    def prompt_ids(self, messages: Sequence[tuple[str, str]]) -> tuple[int, ...]:
        """Give a chat's tokens up to where the answer begins."""

    def answer_ids(self, answer: str) -> tuple[int, ...]:
        """Give an answer's tokens and the one that ends it."""


def sampled_tokens(exchange: ChatExchange, encoder: Encoder) -> TokenSequence:
    """Give an exchange with the very tokens that were drawn."""
    if not exchange.token_ids:
        raise InputError("expected an answer with its tokens and log-probabilities, found its text alone")
    prompt = exchange.prompt_ids or encoder.prompt_ids(exchange.messages)
    return TokenSequence(prompt, exchange.token_ids, exchange.logprobs)


def written_tokens(exchange: ChatExchange, encoder: Encoder) -> TokenSequence:
    """Give an exchange as the model would have written it, to imitate it."""
    return TokenSequence(encoder.prompt_ids(exchange.messages), encoder.answer_ids(exchange.answer))


def lineage_of(version: str) -> tuple[str, int | None]:
    """Tell lineage and number of a version; the number is None where the text has none."""
    name, at, number = version.rpartition("@")
    return (name, int(number)) if at and number.isascii() and number.isdecimal() else (version, None)


def standing(episode: Conversation, lineage: str, newest: int) -> Why:
    """Tell whether an episode may give gradients to the policy that stands at version `newest`, and if not, why."""
    name, number = lineage_of(episode.version or "")
    if name != lineage or number is None or number > newest:
        return "foreign"
    if number <= newest - VERSIONS:
        return "stale"
    if not episode.exchanges or not all(exchange.token_ids for exchange in episode.exchanges):
        return "unsampled"
    return "own" if all(exchange.temperature == 1.0 for exchange in episode.exchanges) else "tempered"


@dataclass(frozen=True, slots=True)
class TimedWindow:
    """A window and its place in time, in any one unit."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class HoldoutSplit:
    """Windows in the order of time: those to learn from, and later ones to be measured on."""

    train: tuple[str, ...]
    embargoed: tuple[str, ...]
    """Between the two, used for nothing."""
    held: tuple[str, ...]


def hold_out(windows: Iterable[TimedWindow], count: int, embargo: float) -> HoldoutSplit:
    """Hold the last `count` windows out, and leave out those that end less than the embargo before them."""
    ordered = sorted(windows, key=lambda item: (item.start, item.name))
    if count < 0 or embargo < 0 or count > len(ordered):
        raise ConfigError(f"expected to hold out 0 to {len(ordered)} windows, found {count} with embargo {embargo}")
    early, held = ordered[: len(ordered) - count], ordered[len(ordered) - count :]
    edge = held[0].start - embargo if held else float("inf")
    train = [item for item in early if item.end <= edge]
    between = [item.name for item in early if item.end > edge]
    return HoldoutSplit(tuple(item.name for item in train), tuple(between), tuple(item.name for item in held))


def dropout_rate(total: int, target: int = TARGET, most: float = MAX_DROPOUT) -> float:
    """Give the share of trajectories to leave out of a set of so many."""
    return 0.0 if total <= target else min(most, 1 - target / total)


def drop_windows(
    groups: Sequence[ConversationGroup], seed: int, target: int = TARGET, most: float = MAX_DROPOUT
) -> tuple[tuple[ConversationGroup, ...], tuple[str, ...]]:
    """Leave whole windows out of a large set, drawn by the seed; give the rest and the names of the others.

    No more than the rate's share of trajectories goes, and never one member of a group without the others.
    """
    total = sum(len(group.episodes) for group in groups)
    left = dropout_rate(total, target, most) * total
    order = sorted(groups, key=lambda item: item.window)
    random.Random(seed).shuffle(order)  # noqa: S311
    dropped: set[str] = set()
    for group in order:
        if len(group.episodes) > left:
            break
        left -= len(group.episodes)
        dropped.add(group.window)
    return tuple(item for item in groups if item.window not in dropped), tuple(sorted(dropped))


def read_groups(
    engine: Engine, windows: Sequence[str], min_agents: int, min_actions: int, market: str = "", marks: str = ""
) -> list[ConversationGroup]:
    """Read the groups of some windows: the ended episodes of each scenario that have enough usable exchanges.

    `marks` chooses by what people said in the review queue: accepted, or not-rejected; empty takes all.
    """
    if marks not in MARKS:
        raise UnknownName("choice by marks", marks, filter(None, MARKS))
    result: dict[str, list[Conversation]] = {}
    said = _marked(engine) if marks else {}
    for window in read_windows(engine, windows, market):
        verdict = said.get(window.trajectory_id)
        if (marks == "accepted" and verdict != "accepted") or (marks and verdict == "rejected"):
            continue
        episode = read_episode(window)
        if window.ended and not window.is_evaluation and len(episode.exchanges) >= min_actions:
            result.setdefault(_group_name(window), []).append(episode)
    return [ConversationGroup(name, tuple(of)) for name, of in sorted(result.items()) if len(of) >= min_agents]


def _marked(engine: Engine) -> dict[str, str]:
    """Give the verdicts that people gave, by trajectory."""
    query = select(ReviewMark.trajectory_id, ReviewMark.verdict).where(ReviewMark.verdict.is_not(None))
    with engine.connect() as connection:
        return {identity: str(verdict) for identity, verdict in connection.execute(query)}


def usable_windows(
    engine: Engine,
    windows: WindowRules,
    now: datetime,
    hours: float,
    min_agents: int = MIN_AGENTS,
    min_actions: int = MIN_ACTIONS,
) -> list[TimedWindow]:
    """Find closed windows with outcomes and enough agents; where there are none, refuse with what was found."""
    result = survey(engine, windows, now, hours=hours, min_agents=min_agents, min_actions=min_actions)
    good = [window.window_id for window in result.windows if window.usable and window.agents >= min_agents]
    if not good:
        closed = sum(window.closed for window in result.windows)
        payload = sum(window.usable for window in result.windows)
        raise InputError(
            f"expected windows of the last {hours:g} hours with at least {min_agents} agents of {min_actions} usable "
            f"steps each, found none: {len(result.windows)} windows were played, {closed} of them have closed "
            f"and {payload}"
            " have outcomes; record more agents, write outcomes (outcomes sync or outcomes import), or lower"
            " --min-agents, --min-actions or raise --lookback-hours"
        )
    return [_placed(name, windows, now) for name in good]


def _placed(name: str, windows: WindowRules, now: datetime) -> TimedWindow:
    start = windows.parse(name).start or now
    length = windows.length or timedelta(0)
    return TimedWindow(name, start.timestamp() / 3600, (start + length).timestamp() / 3600)


def _group_name(trajectory: StoredTrajectory) -> str:
    same = trajectory.scenario_id == trajectory.window_id
    return trajectory.window_id if same else f"{trajectory.window_id}/{trajectory.scenario_id}"


def read_episode(trajectory: StoredTrajectory) -> Conversation:
    """Read a stored trajectory as an episode: every answered call that led to an action, with its own prompt."""
    said = {step.number for step in trajectory.steps if step.action_type is not None}
    calls = [
        call
        for call in trajectory.calls
        if call.response is not None and call.purpose == "action" and call.step in said
    ]
    versions = {call.model_version for call in calls}
    return Conversation(
        trajectory.trajectory_id,
        trajectory.agent_id,
        versions.pop() if len(versions) == 1 else None,
        tuple(map(_exchange, calls)),
        trajectory.final_pnl,
        trajectory.start_equity,
        sum(step.action_error is None for step in trajectory.steps if step.number in said),
    )


def _exchange(call: StoredCall) -> ChatExchange:
    messages = tuple((str(item.get("role", "user")), _text(item.get("content"))) for item in call.prompt)
    sampled = call.trainable
    return ChatExchange(
        messages,
        call.response or "",
        tuple(call.prompt_token_ids or ()) if sampled else (),
        tuple(call.token_ids or ()) if sampled else (),
        tuple(value for value in call.logprobs or () if value is not None) if sampled else (),
        _temperature(call),
    )


def _temperature(call: StoredCall) -> float:
    """Give the temperature; NaN where it is unknown or the distribution was cut: log-probabilities do not tell."""
    return call.temperature if call.temperature is not None and call.top_p in (None, 1.0) else float("nan")


def _text(content: object) -> str:
    return content if isinstance(content, str) else "" if content is None else str(content)


def conversation_of(exchange: ChatExchange) -> tuple[Turn, ...]:
    """Give an exchange as the turns that a judge or ART reads."""
    prompt = tuple(Turn(role, content) for role, content in exchange.messages)
    return (*prompt, Turn("assistant", exchange.answer, exchange.token_ids, exchange.logprobs, sampled=True))


def count_standings(groups: Iterable[ConversationGroup], lineage: str, newest: int) -> Mapping[Why, int]:
    """Count the episodes of some groups by their standing."""
    counts: dict[Why, int] = {}
    for group in groups:
        for episode in group.episodes:
            why = standing(episode, lineage, newest)
            counts[why] = counts.get(why, 0) + 1
    return counts


@dataclass(frozen=True)
class UsedWindows:
    """The ledger of one line of models."""

    engine: Engine
    lineage: str
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def hold_out(self, windows: Sequence[str]) -> None:
        """Keep windows from being learned from; refuse those that were."""
        self._take(windows, "holdout", 0, settled=True)

    def reserve(self, windows: Sequence[str], iteration: int) -> None:
        """Take windows for one iteration; refuse those that another one has, or that are held out."""
        self._take(windows, "train", iteration, settled=False)

    def settle(self, iteration: int, version: str, trajectories: Sequence[str] = ()) -> None:
        """Note that the weights that learned from an iteration's windows are saved."""
        mine = (UsedWindow.lineage == self.lineage) & (UsedWindow.iteration == iteration)
        with writing(self.engine) as connection:
            payload = update(UsedWindow).where(mine, UsedWindow.purpose == "train")
            connection.execute(payload.values(settled=True, model_version=version))
            if trajectories:
                used = update(Trajectory).where(Trajectory.trajectory_id.in_(list(trajectories)))
                connection.execute(used.values(used_in_training=True, trained_in_batch=f"{self.lineage}/{iteration}"))

    def release(self, after: int) -> None:
        """Give back windows reserved for iterations after the last one that was saved."""
        late = (UsedWindow.lineage == self.lineage) & (UsedWindow.iteration > after)
        with writing(self.engine) as connection:
            connection.execute(delete(UsedWindow).where(late, UsedWindow.purpose == "train", ~UsedWindow.settled))

    def used(self) -> frozenset[str]:
        """Give the windows that were reserved or learned from."""
        return self._names("train")

    def reserved(self, iteration: int) -> frozenset[str]:
        """Give the windows of one iteration."""
        mine = (UsedWindow.lineage == self.lineage) & (UsedWindow.iteration == iteration)
        with self.engine.connect() as connection:
            query = select(UsedWindow.window_id).where(mine, UsedWindow.purpose == "train")
            return frozenset(connection.scalars(query))

    def held(self) -> frozenset[str]:
        """Give the windows that are held out."""
        return self._names("holdout")

    def _names(self, purpose: str) -> frozenset[str]:
        query = select(UsedWindow.window_id).where(UsedWindow.lineage == self.lineage, UsedWindow.purpose == purpose)
        with self.engine.connect() as connection:
            return frozenset(connection.scalars(query))

    def _take(self, windows: Sequence[str], purpose: str, iteration: int, *, settled: bool) -> None:
        """Write windows that are not there; the same use again changes nothing, another one is refused."""
        query = select(UsedWindow.window_id, UsedWindow.purpose, UsedWindow.iteration)
        mine = query.where(UsedWindow.lineage == self.lineage, UsedWindow.window_id.in_(list(windows)))
        with writing(self.engine) as connection:
            known = {name: (use, of) for name, use, of in connection.execute(mine)}
            for name, result in known.items():
                if result != (purpose, iteration):
                    raise InputError(
                        f"expected window {name} to be free for {purpose} in iteration {iteration} of {self.lineage}, "
                        f"found it taken for {result[0]} in iteration {result[1]}; windows are used once"
                    )
            fresh = [name for name in dict.fromkeys(windows) if name not in known]
            rows = [
                {
                    "lineage": self.lineage,
                    "window_id": name,
                    "purpose": purpose,
                    "iteration": iteration,
                    "settled": settled,
                    "model_version": None,
                    "created_at": self.clock(),
                }
                for name in fresh
            ]
            if rows:
                connection.execute(insert(UsedWindow), rows)
