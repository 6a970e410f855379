"""Why live differs from paper: a session's recorded play again in the environment, every difference by its cause.

Causes: `decision` (the policy chose otherwise: a defect), `gate` (an order the gate refused), `venue` (an order the
venue refused), `unknown` (nobody knows), `price` (filled at another price than the tick's), `tick` (answered after a
newer tick), `late` (the bot was too late to send), `person` (a person played), `policy` (the policy failed), `money`
(the venue's money is not the ledger's), `recording` (the round is not whole and cannot be played again).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from playproof.errors import InputError
from playproof.events import Event
from playproof.game import load_game
from playproof.games.crash.rules.windows import Phase
from playproof.json_types import Json
from playproof.money import show
from playproof.store import EventStore
from playproof.validate.examine import Subject
from playproof.workflows.crash.bot_run import read_session
from playproof.workflows.crash.environment_play import environment_round
from playproof.workflows.crash.live_player import LiveDecision, SettledRound

LATE = ("old tick", "catching up")


@dataclass(frozen=True)
class PlayDifference:
    """One thing that was not as on paper."""

    window: str
    tick: int
    cause: str
    detail: str


@dataclass(frozen=True)
class RoundComparison:
    """One round: the money live, in the environment with the same orders, and as decided without any hindrance."""

    window: str
    live: int
    environment: int | None
    """With the orders that were carried out; None where the round cannot be played again."""
    paper: int | None
    """With every order that was decided."""
    decisions: int


@dataclass(frozen=True)
class SessionComparison:
    """A session beside the environment."""

    summary: Json
    rounds: tuple[RoundComparison, ...]
    differences: tuple[PlayDifference, ...]

    @property
    def causes(self) -> dict[str, int]:
        """Count the differences by cause."""
        return dict(Counter(item.cause for item in self.differences).most_common())

    def to_dict(self) -> Json:
        """Give everything as JSON holds it."""
        return {
            "summary": self.summary,
            "causes": self.causes,
            "rounds": [asdict(item) for item in self.rounds],
            "differences": [asdict(item) for item in self.differences],
        }


def compare_session(root: Path, session_id: str, subject: Subject) -> SessionComparison:
    """Play a session's rounds again, from the store, and list every difference."""
    kept = read_session(root, session_id)
    if subject.policy_hash != kept["summary"]["version"]:
        raise InputError(
            f"expected the policy that played, {kept['summary']['version'][:12]}, found {subject.policy_hash[:12]}"
        )
    store = EventStore(root, load_game("crash").columns)
    rounds: list[RoundComparison] = []
    differences: list[PlayDifference] = []
    for one in kept["rounds"]:
        events = [
            event
            for event in store.events(doc_type="game_tick", window_id=one["window"])
            if event.session_id == session_id
        ]
        comparison, causes = compare_round(one, events, subject, kept["plan"])
        rounds.append(comparison)
        differences += causes
    return SessionComparison(kept["summary"], tuple(rounds), tuple(differences))


def compare_round(
    one: Json, events: Sequence[Event], subject: Subject, plan: Mapping[str, Any]
) -> tuple[RoundComparison, list[PlayDifference]]:
    """Compare one round."""
    window, settled = one["window"], SettledRound(**one["settled"])
    decisions = [_decision(window, item) for item in one["decisions"]]
    executed = [tuple(item["executed"]) for item in one["decisions"]]
    result = list(_order_differences(one, decisions))
    if one["taken_over"]:
        result.append(PlayDifference(window, 0, "person", "a person played this round or a part of it"))
    if one["told_cash"] is not None and one["told_cash"] != settled.cash:
        detail = f"the ledger has {show(settled.cash)}, the venue told {show(one['told_cash'])}"
        result.append(PlayDifference(window, decisions[-1].tick, "money", detail))
    try:
        options = {"world": plan["world"], "seed": plan["seed"]}
        again = environment_round(subject, events, decisions, settled, executed=executed, **options)
        free = environment_round(subject, events, decisions, settled, **options)
    except InputError as error:
        result.append(PlayDifference(window, 0, "recording", str(error)))
        return RoundComparison(window, settled.pnl, None, None, len(decisions)), result
    for number, decision in enumerate(decisions):
        chosen = again.actions[number] if number < len(again.actions) else None
        if chosen != decision.action and len(decision.observation):
            detail = f"live chose {list(decision.action)}, the environment {list(chosen or ())}"
            result.append(PlayDifference(window, decision.tick, "decision", detail))
    if len(again.actions) > len(decisions):
        detail = f"live decided {len(decisions)} times, the environment {len(again.actions)} times"
        result.append(PlayDifference(window, decisions[-1].tick, "decision", detail))
    explained = {"price", "tick", "unknown", "money", "person"} & {item.cause for item in result}
    if again.pnl != settled.pnl and not explained:
        detail = f"live earned {show(settled.pnl)}, the environment {show(again.pnl)} with the same orders"
        result.append(PlayDifference(window, decisions[-1].tick, "money", detail))
    return RoundComparison(window, settled.pnl, again.pnl, free.pnl, len(decisions)), result


def _order_differences(one: Json, decisions: Sequence[LiveDecision]) -> Any:
    """Name what happened to orders that were not filled at once at the price of their tick."""
    for number, order in one["orders"].items():
        decision = decisions[int(number)]
        where = (one["window"], decision.tick)
        if order["answer"] != "allowed":
            cause = "late" if order["answer"].startswith(LATE) else "gate"
            yield PlayDifference(*where, cause, f"{order['button']}: {order['answer']}")
            continue
        if order["outcome"] in ("refused", "unknown"):
            cause = "venue" if order["outcome"] == "refused" else "unknown"
            yield PlayDifference(*where, cause, f"{order['button']}: {order['detail']}")
        if order["outcome"] == "filled" and order["price"] is not None and order["price"] != decision.price:
            yield PlayDifference(
                *where, "price", f"{order['button']} at {order['price']!r}, the tick's price is {decision.price!r}"
            )
        if order["outcome"] == "filled" and order["tick_filled"] not in (None, decision.tick):
            yield PlayDifference(*where, "tick", f"{order['button']} was answered at tick {order['tick_filled']}")
    if one["failures"]:
        yield PlayDifference(one["window"], 0, "policy", f"the policy failed {one['failures']} times")


def _decision(window: str, item: Json) -> LiveDecision:
    return LiveDecision(
        window,
        item["tick"],
        Phase(item["phase"]),
        item["substep"],
        item["price"],
        np.asarray(item["observation"], np.float32),
        tuple(item["action"]),
        datetime.fromisoformat(item["at"]),
    )
