"""The queue of requests between the socket and the leader's loop."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator
from typing import Any

from reconciler.runner.process.progress import ProgressPipe
from reconciler.wire.generation import Measure, Sampling

from .answer import Answer


@dataclasses.dataclass(eq=False)
class Ticket:
    """One request from its acceptance to its last event."""

    connection: Any
    """The client's connection, which the loop does not use."""
    prompt: tuple[int, ...]
    """The prompt and, after it, the part of the answer that exists already."""
    tokens_max: int
    """Tokens that may still come."""
    position: int
    sampling: Sampling
    answer: Answer
    uid: int | None = None
    """Its sequence in the batch, once it has one."""
    measure: Measure | None = None
    """Set where no answer is wanted, but how fast the ranks are."""


@dataclasses.dataclass(frozen=True)
class Orders:
    """New orders since the loop last looked."""

    tickets: tuple[Ticket, ...]
    cancelled: tuple[Ticket, ...]
    draining: bool

    @property
    def none(self) -> bool:
        """Return whether there are no orders."""
        return not (self.tickets or self.cancelled or self.draining)


class Inbox:
    """The queue between the socket's thread and the loop, which sleeps on it without work.

    A request is open from its first byte to its last event. Those that were ``put`` wait or run: their number is the
    demand reported to the shim. No step is owed to a request that is still being read.
    """

    def __init__(self, open_max: int, progress: ProgressPipe) -> None:
        self._open_max = open_max
        self._progress = progress
        self._condition = threading.Condition()
        self._open = 0
        self._demand = 0
        self._tickets: list[Ticket] = []
        self._cancelled: list[Ticket] = []
        self._draining = False

    def open(self) -> str:
        """Count one request more, before any work on it; returns why not, as a ``Failed.code``, or ""."""
        with self._condition:
            if self._draining:
                return "draining"
            if self._open >= self._open_max:
                return "overloaded"
            self._open += 1
        return ""

    def abandon(self) -> None:
        """Close an open request before it was put."""
        with self._condition:
            self._open -= 1
            self._condition.notify()

    def submit(self, ticket: Ticket) -> None:
        """Pass on an opened request."""
        with self._condition:
            self._tickets.append(ticket)
            self._demand += 1
            self._progress.demand(self._demand)
            self._condition.notify()

    def close(self, count: int) -> None:
        """Count the ends of put requests."""
        with self._condition:
            self._open -= count
            self._demand -= count
            self._progress.demand(self._demand)
            self._condition.notify()

    def cancel(self, ticket: Ticket) -> None:
        """Cancel an answer; repeated or late calls have no effect."""
        with self._condition:
            self._cancelled.append(ticket)
            self._condition.notify()

    def drain(self) -> None:
        """Open nothing new; the loop ends once all that is open has ended."""
        with self._condition:
            self._draining = True
            self._condition.notify()

    @contextlib.contextmanager
    def owing(self) -> Iterator[None]:
        """Count the work meanwhile as demand, so that a stall is noticed."""
        self._owe(1)
        yield
        self._owe(-1)

    def _owe(self, count: int) -> None:
        with self._condition:
            self._demand += count
            self._progress.demand(self._demand)

    def collect(self, sleep: bool, seconds: float | None = None) -> Orders:
        """Return new orders; with ``sleep``, wait until there are some, draining is over, or ``seconds`` have
        passed."""
        with self._condition:
            if sleep:
                self._condition.wait_for(self._something, seconds)
            orders = Orders(tuple(self._tickets), tuple(self._cancelled), self._draining and not self._open)
            self._tickets.clear()
            self._cancelled.clear()
        return orders

    def _something(self) -> bool:
        return bool(self._tickets or self._cancelled or (self._draining and not self._open))
