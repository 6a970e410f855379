"""Policies of numbers behind HTTP: `POST /act` gives an action for every row.

Rows hold the features that `GET /card` names, in that order, numbers or null where unknown. A row with a number out of
range or not finite is answered with WAIT and a reason, and is not shown to the policy. A policy that remembers is asked
with a `session` of the client's own choosing, one row at a time, `begin` with the first row of a window.
Leaves out: chats (chat), money and limits on it.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from playproof.errors import InputError, PlayproofError
from playproof.json_types import Json
from playproof.policies.checkpoint import Checkpoint, find_game, load_checkpoint, load_policy
from playproof.policies.network import NetworkSingleEnv
from playproof.serve.chat import problem
from playproof.serve.versions import stamp_of

MOST_ROWS = 4_096
SESSIONS = 1_024
"""Memories that are kept; the one that was asked longest ago goes first."""
LARGEST = 1e15
"""Of a feature; times in milliseconds are below it, and its square is a number that networks compute with."""
Value = float | None


class ActRequest(BaseModel):
    """Rows to act on."""

    model_config = ConfigDict(extra="forbid")

    rows: Annotated[list[list[Value]], Field(min_length=1, max_length=MOST_ROWS)]
    session: str | None = Field(default=None, min_length=1, max_length=100)
    begin: bool = False


class Actor:
    """One policy, and the memories of those who ask it."""

    def __init__(self, path: Path) -> None:
        self.checkpoint: Checkpoint = load_checkpoint(path)
        self.policy: Any = load_policy(path)
        game = find_game(self.checkpoint.card.game)
        self._actions = game.actions[self.checkpoint.card.actions] if game is not None else None
        fills = game.fills(self.checkpoint.card.features) if game is not None else ()
        self._fills = np.asarray(fills, np.float32) if fills else None
        self._seats: OrderedDict[str, NetworkSingleEnv] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def remembers(self) -> bool:
        """Tell whether the policy needs a session."""
        return getattr(self.policy, "frames", 1) > 1 or getattr(self.policy, "_memory", None) is not None

    def answer(self, asked: ActRequest) -> tuple[list[tuple[int, ...]], list[str | None]]:
        """Choose an action for every row, WAIT with a reason for those that no policy should see."""
        reasons = [self._out_of_range(row) for row in asked.rows]
        good = [row for row, why in zip(asked.rows, reasons, strict=True) if why is None]
        if len(good) == len(reasons):
            return self.act(asked), reasons
        if self._actions is None:
            raise InputError("expected finite numbers in range or null, found another for a game that is not installed")
        wait = tuple(int(item) for item in self._actions.wait)
        chosen = iter(self.act(asked.model_copy(update={"rows": good})) if good else ())
        return [next(chosen) if why is None else wait for why in reasons], reasons

    def _out_of_range(self, row: list[Value]) -> str | None:
        for name, value in zip(self.checkpoint.card.features, row, strict=False):
            if value is not None and not abs(value) <= LARGEST:
                return f"expected {name} to be null or within {LARGEST:g} of zero, found {value:g}"
        return None

    def act(self, asked: ActRequest) -> list[tuple[int, ...]]:
        """Choose an action for every row."""
        rows = self._rows(asked.rows)
        with self._lock:
            if asked.session is not None:
                return self._seated(asked.session, asked.begin, rows)
            if self.remembers:
                raise InputError("expected a session for a policy that remembers, found none; send session and begin")
            if hasattr(self.policy, "act_batch"):
                return [tuple(int(item) for item in row) for row in self.policy.act_batch(rows)]
            return [tuple(int(item) for item in self.policy.act(row)) for row in rows]

    def _seated(self, session: str, begin: bool, rows: np.ndarray[Any, Any]) -> list[tuple[int, ...]]:
        seat = self._seats.get(session)
        if seat is None:
            seat = self._seats[session] = NetworkSingleEnv(self.policy)
            begin = True
        self._seats.move_to_end(session)
        while len(self._seats) > SESSIONS:
            self._seats.popitem(last=False)
        if begin:
            seat.begin()
        chosen: list[tuple[int, ...]] = []
        for row in rows:
            action: Any = seat.act(row)
            chosen.append(tuple(int(item) for item in action))
        return chosen

    def _rows(self, payload: list[list[Value]]) -> np.ndarray[Any, Any]:
        """Read rows; what is unknown becomes the fill value that the game declares."""
        features = self.checkpoint.card.features
        for number, row in enumerate(payload):
            if len(row) != len(features):
                raise InputError(f"expected {len(features)} numbers in row {number}, found {len(row)}; see /card")
            if any(item is not None and not math.isfinite(item) for item in row):
                raise InputError(f"expected finite numbers or null in row {number}, found another")
        rows = np.array([[math.nan if item is None else item for item in row] for row in payload], np.float32)
        unknown = np.isnan(rows)
        if unknown.any():
            if self._fills is None:
                raise InputError("expected numbers, found null for a game that is not installed here")
            rows = np.where(unknown, self._fills, rows)
        return rows

    def canary(self, rows: int = 32) -> None:
        """Answer rows of its own drawing; raise if an answer is no action of the card."""
        card = self.checkpoint.card
        drawn = np.random.default_rng(rows).normal(size=(rows, len(card.features))).tolist()
        asked = ActRequest(rows=drawn, session=_CANARY if self.remembers else None, begin=True)
        for action in self.act(asked):
            if len(action) != len(card.heads) or not all(0 <= a < n for a, n in zip(action, card.heads, strict=True)):
                raise InputError(f"expected an action within {card.heads}, found {action} for a canary row")
        self._seats.pop(_CANARY, None)

    def names(self, action: tuple[int, ...]) -> list[str] | None:
        """Give an action in the game's words."""
        if self._actions is None:
            return None
        return [head[index] for head, index in zip(self._actions.heads, action, strict=True)]


_CANARY = "canary"


def create_app(path: Path) -> FastAPI:
    """Make the application around a checkpoint."""
    return actor_app(Actor(path))


def actor_app(actor: Actor) -> FastAPI:
    """Make the application around a policy that is loaded."""
    card = actor.checkpoint.card
    app = FastAPI(title="playproof", docs_url=None, redoc_url=None)

    @app.exception_handler(RequestValidationError)
    def unreadable(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        return problem(400, f"{'.'.join(map(str, first['loc'][1:]))}: {first['msg']}", "invalid_request_error")

    @app.exception_handler(PlayproofError)
    def refused(_: Request, error: PlayproofError) -> JSONResponse:
        return problem(400, str(error), "invalid_request_error")

    @app.get("/healthz")
    def health() -> Json:
        return {"status": "ok", "policy": actor.checkpoint.hash}

    @app.get("/card")
    def shown() -> Json:
        return {
            "policy": actor.checkpoint.hash,
            "game": card.game,
            "method": card.method,
            "observation": card.observation,
            "features": list(card.features),
            "actions": card.actions,
            "heads": list(card.heads),
            "stake": card.stake,
            "remembers": actor.remembers,
        }

    @app.post("/act")
    def act(asked: ActRequest, request: Request) -> Json:
        actions, reasons = actor.answer(asked)
        answer = {
            "policy": actor.checkpoint.hash,
            "actions": [list(action) for action in actions],
            "names": [actor.names(action) for action in actions],
            "reasons": reasons,
        }
        return answer | stamp_of(request.scope)

    return app
