"""One thread that computes for many clients: chats join the running batch, and each token goes to who asked for it.

Leaves out: the model (policies.batched_language) and the interface (chat).
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from playproof.errors import PlayproofError
from playproof.policies.language.batched import BatchedModel, Chat, TokenPiece
from playproof.policies.language.local import Sampling


@dataclass(frozen=True)
class ServeLimits:
    """What a server of a language model takes on."""

    batch: int = 32
    """Chats that grow side by side."""
    waiting: int = 256
    """Chats that may wait for a place; more are refused."""
    prompt_tokens: int = 4_096
    """Of all prompts that join in one step, unless one alone is longer."""
    max_tokens: int = 1_024
    """Longest answer."""
    seconds: float = 600.0
    """Longest time from a question to its last token."""


class ServerBusy(PlayproofError):
    """Tell that too many chats wait already."""


class ModelFailed(PlayproofError):
    """Tell that the model failed while a chat was in it."""


@dataclass(eq=False)
class Ticket:
    """One chat that waits for its tokens."""

    chat: Chat
    loop: asyncio.AbstractEventLoop
    queue: asyncio.Queue[TokenPiece | str] = field(default_factory=asyncio.Queue)
    cancelled: bool = False
    delivered: int = 0
    """Pieces that have been handed over."""

    async def pieces(self) -> AsyncIterator[TokenPiece]:
        """Give the tokens as they come."""
        while True:
            piece = await self.queue.get()
            if isinstance(piece, str):
                raise ModelFailed(piece)
            yield piece
            if piece.finish is not None:
                return

    def deliver(self, piece: TokenPiece | str) -> None:
        """Hand something over from the computing thread; a loop that has closed no longer listens."""
        try:
            self.loop.call_soon_threadsafe(self.queue.put_nowait, piece)
        except RuntimeError:
            self.cancelled = True


class Worker:
    """Computes in a thread of its own until it is closed."""

    def __init__(self, model: BatchedModel, limits: ServeLimits | None = None) -> None:
        self.model, self.limits = model, limits or ServeLimits()
        self.served = self.cancelled = self.steps = 0
        self.largest = 0
        """Most chats that grew side by side."""
        self._waiting: deque[Ticket] = deque()
        self._running: list[Ticket] = []
        self._news = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="playproof-model", daemon=True)
        self._thread.start()

    def submit(self, chat: Chat, loop: asyncio.AbstractEventLoop) -> Ticket:
        """Let a chat wait for its place."""
        ticket = Ticket(chat, loop)
        with self._news:
            if len(self._waiting) >= self.limits.waiting:
                raise ServerBusy(
                    f"expected at most {self.limits.waiting} waiting chats, found as many; ask again later"
                )
            self._waiting.append(ticket)
            self._news.notify()
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """Give a chat up; it leaves before the next token."""
        with self._news:
            ticket.cancelled = True
            self._news.notify()

    @property
    def load(self) -> dict[str, int]:
        """Tell how many chats grow and wait, and what has been served."""
        return {
            "running": len(self._running),
            "waiting": len(self._waiting),
            "served": self.served,
            "cancelled": self.cancelled,
            "steps": self.steps,
            "largest_batch": self.largest,
        }

    def canary(self) -> None:
        """Answer a few chats side by side, as clients would ask them; raise if one is not answered."""
        asked = [{"role": "user", "content": text} for text in ("Buy or sell?", "Hold.", "1 2 3")]
        chats = [self.model.open([item], Sampling(4, 0.0), 0) for item in asked]

        async def answer() -> None:
            tickets = [self.submit(chat, asyncio.get_running_loop()) for chat in chats]
            async with asyncio.timeout(self.limits.seconds):
                for ticket in tickets:
                    async for _ in ticket.pieces():
                        pass

        try:
            asyncio.run(answer())
        except TimeoutError:
            raise ModelFailed(
                f"expected an answer to the canary within {self.limits.seconds:g} s, found none"
            ) from None

    def close(self) -> None:
        """Stop, and tell whoever still waits."""
        with self._news:
            self._closed = True
            self._news.notify()
        self._thread.join()
        for ticket in (*self._running, *self._waiting):
            ticket.deliver("the server is closing")

    def _work(self) -> None:
        while self._next():
            try:
                self.model.step()
            except Exception as error:  # noqa: BLE001  (the thread must go on, whatever a model raises)
                self._fail(f"the model failed: {str(error)[:200]}")
                continue
            self.steps += 1
            self._hand_over()

    def _next(self) -> bool:
        """Wait for work and let chats in and out; tell whether to go on."""
        with self._news:
            while not (self._waiting or self._running or self._closed):
                self._news.wait()
            for ticket in [item for item in self._running if item.cancelled]:
                self._running.remove(ticket)
                self.model.leave(ticket.chat)
                self.cancelled += 1
            self._admit()
            return not self._closed

    def _admit(self) -> None:
        tokens = 0
        while self._waiting and len(self._running) < self.limits.batch:
            ticket = self._waiting[0]
            if not ticket.cancelled and tokens and tokens + len(ticket.chat.prompt) > self.limits.prompt_tokens:
                break
            self._waiting.popleft()
            if ticket.cancelled:
                self.cancelled += 1
                continue
            tokens += len(ticket.chat.prompt)
            self._running.append(ticket)
            self.model.join(ticket.chat)
        self.largest = max(self.largest, len(self._running))

    def _hand_over(self) -> None:
        for ticket in self._running:
            for piece in ticket.chat.pieces[ticket.delivered :]:
                ticket.deliver(piece)
            ticket.delivered = len(ticket.chat.pieces)
            if ticket.chat.failure is not None:
                ticket.deliver(ticket.chat.failure)
        ended = [item for item in self._running if item.chat.over]
        self.served += len(ended)
        for ticket in ended:
            self._running.remove(ticket)

    def _fail(self, message: str) -> None:
        """Tell every chat in the batch that it is lost, and begin with an empty batch."""
        for ticket in self._running:
            self.model.leave(ticket.chat)
            ticket.deliver(message)
        self._running.clear()
