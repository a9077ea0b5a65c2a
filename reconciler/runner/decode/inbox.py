"""The queue of requests between the socket and the leader's loop."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator
from typing import Any

from reconciler.runner.forms.matching import Matcher
from reconciler.runner.process.progress import ProgressPipe
from reconciler.wire.group import Seen
from reconciler.wire.launch import MAX_STALL_SECONDS, Phase
from reconciler.wire.measuring import Measure
from reconciler.wire.sampling import BY_MODEL, Ending, Sampling

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
    """Set for a request that measures the speed of the ranks and wants no answer."""
    texts: tuple[tuple[int, ...], ...] = ()
    """Token ids of texts, for a request that wants their vectors and no answer."""
    dimensions: int | None = None
    """Numbers of each vector; None: all."""
    packed: bytes = b""
    """The prompt as ``prefixes.packed`` writes it; empty until it is first needed."""
    read: int = 0
    """Tokens of the prompt that are in the cache."""
    reused: int = 0
    """The number of them that were there when it got its uid."""
    said: list[int] = dataclasses.field(default_factory=list)
    """Tokens that came after the prompt."""
    cached: int = 0
    """Tokens of the prompt that were in the prefix cache when it first had a uid."""
    began: bool = False
    """It has had a uid."""
    behind: int | None = None
    """A sequence that is being read and begins like this one."""
    ending: Ending = BY_MODEL
    logprobs: int | None = None
    """The number of likeliest tokens to report with each token; None: no log-probabilities."""
    scores: int | None = None
    """The same for the tokens of the prompt."""
    scored: int = 1
    """The number of prompt tokens that were reported. The first one needs no reading."""
    matcher: Matcher | None = None
    """It holds the answer to its form. It has taken all tokens of the answer, those within ``prompt`` too."""
    client: str = ""
    max_stall_seconds: float = MAX_STALL_SECONDS
    number: int = 0
    """Grows with each request."""
    passed_over: int = 0
    """Steps in a row that read other prompts and nothing of this one."""

    @property
    def unread(self) -> int:
        """Return the number of tokens of the prompt that are not in the cache."""
        return len(self.prompt) - self.read

    @property
    def scoring(self) -> bool:
        """Return whether there are tokens of the prompt still to report."""
        return self.scores is not None and self.scored < len(self.prompt) - self.position

    def begin_again(self) -> None:
        """Lose the sequence, and go on with what has been said as a part of the prompt."""
        self.prompt += tuple(self.said)
        self.position += len(self.said)
        self.tokens_max -= len(self.said)
        self.said = []
        self.packed = b""
        self.uid = self.behind = None
        self.read = self.reused = 0

    @property
    def seen(self) -> Seen | None:
        """Return the tokens that its penalties count."""
        if not self.sampling.penalizes:
            return None
        asked = len(self.prompt) - self.position
        distinct = set(self.prompt[:asked]) if self.sampling.repetition_penalty != 1.0 else set()
        return Seen(tuple(sorted(distinct)), self.prompt[asked:])


@dataclasses.dataclass(frozen=True)
class Orders:
    """New orders since the loop last looked."""

    tickets: tuple[Ticket, ...]
    cancelled: tuple[Ticket, ...]
    draining: bool

    @property
    def none(self) -> bool:
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
        """Open nothing new; the loop ends once all that is open has ended.

        It is told meanwhile that the rank drains: what the loop has to tell when it ends comes after that.
        """
        with self._condition:
            self._progress.enter(Phase.DRAINING)
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
