"""A gateway's messages to its heir while it finishes answers: requests for permission to begin, and the use of
each."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence

from reconciler.gateway.figures import Figure, Figures
from reconciler.gateway.keys.desk import Desk
from reconciler.gateway.keys.ledger import Grant, Limit, Refusal
from reconciler.gateway.keys.usage import Usage
from reconciler.wire.codec import WireError
from reconciler.wire.figures import ModelFigures
from reconciler.wire.handover import (
    Begin,
    Denied,
    End,
    Ended,
    Granted,
    Left,
    Progress,
    Quarantined,
    Running,
    Seen,
)
from reconciler.wire.keys import KeyLimits
from reconciler.wire.prompts import QuarantinedPrompt

from .messages import Waiting

log = logging.getLogger(__name__)

TELL_SECONDS = 1.0
"""The interval at which it reports the progress of its requests: a gateway that is killed loses that much."""
ANSWER_SECONDS = 2.0
"""The longest time that a request waits for the new gateway's word, which takes a millisecond. Then this one decides
alone."""
_ALONE = "what is used from now on is counted in this process alone, and is lost when it ends"


class Heir:
    """The other gateway. It may disappear at any time. Then each gateway counts only the requests that it lets in."""

    def __init__(
        self, connection: Waiting, desk: Desk, figures: Callable[[], tuple[ModelFigures, ...]]
    ) -> None:
        """``figures`` returns the figures of all requests since this gateway has let go."""
        self.stop: Callable[[], object] = lambda: None
        """Called when the new gateway is being stopped."""
        self._connection = connection
        self._desk = desk
        self._figures = figures
        self._said: asyncio.Queue[object | None] = asyncio.Queue()
        """None after the last message."""
        self._asked: dict[int, asyncio.Future[Grant | Refusal | None]] = {}
        self._gone = False

    async def begin(self, number: int, name: str, limits: KeyLimits, tokens: int) -> Grant | Refusal | None:
        """Let a request in; None if nobody answers."""
        if self._gone:
            return None
        answer: asyncio.Future[Grant | Refusal | None] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        self._said.put_nowait(Begin(number, name, tokens, limits))
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await answer
        except TimeoutError:
            self.ended(number, Usage(), never_began=True)
            return None
        except asyncio.CancelledError:
            self.ended(number, Usage(), never_began=True)
            raise
        finally:
            del self._asked[number]

    def ended(self, number: int, usage: Usage, never_began: bool) -> None:
        """Count the use of a request."""
        if not self._gone:
            self._said.put_nowait(Ended(number, usage.prompt, usage.completion, never_began))

    def seen(self, name: str) -> None:
        """Note that a key was used."""
        if not self._gone:
            self._said.put_nowait(Seen(name))

    def quarantined(self, prompts: tuple[QuarantinedPrompt, ...]) -> None:
        """Report the prompts that are refused now."""
        if not self._gone:
            self._said.put_nowait(Quarantined(prompts))

    def forget(self) -> None:
        """Answer all requests that wait: nobody else will."""
        self._gone = True
        for answer in self._asked.values():
            if not answer.done():
                answer.set_result(None)

    async def run(self) -> None:
        """Talk to the new gateway until ``close``, or until it is gone."""
        try:
            async with asyncio.TaskGroup() as group:
                others = [group.create_task(self._listen()), group.create_task(self._tell())]
                group.create_task(self._speak(others))
        except* OSError:
            log.warning("the gateway that has taken over is gone; %s", _ALONE)
        except* WireError as errors:
            log.warning(
                "the gateway that has taken over is not understood: %s; %s", errors.exceptions[0], _ALONE
            )
        finally:
            self.forget()
            self._connection.sock.close()

    def close(self) -> None:
        """Make ``run`` end once all messages are sent."""
        self._said.put_nowait(self._running())
        self._said.put_nowait(None)

    async def _speak(self, others: Sequence[asyncio.Task[None]]) -> None:
        words: list[object | None] = [self]
        while words[-1] is not None:
            words = [await self._said.get()]
            words += [self._said.get_nowait() for _ in range(self._said.qsize())]
            await self._connection.send(*[word for word in words if word is not None])
        for each in others:
            each.cancel()

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(TELL_SECONDS)
            if self._said.empty():
                self._said.put_nowait(self._running())

    def _running(self) -> Running:
        usages = [(ticket.number, ticket.usage()) for ticket in self._desk.open_tickets]
        requests = tuple(Progress(number, usage.prompt, usage.completion) for number, usage in usages)
        return Running(requests, self._figures())

    async def _listen(self) -> None:
        while True:
            said = await self._connection.receive()
            if isinstance(said, End):
                self.stop()
                continue
            if not isinstance(said, Granted | Denied):
                raise WireError(f"unexpected {type(said).__name__}")
            answer = self._asked.get(said.number)
            if answer is not None and not answer.done():
                answer.set_result(_verdict(said))


def _verdict(said: Granted | Denied) -> Grant | Refusal:
    figures = Figures(_figure(said.requests), _figure(said.tokens), said.now)
    if isinstance(said, Granted):
        return Grant(0, 0, figures)  # the other gateway knows what is reserved, and when
    try:
        limit = Limit(said.limit)
    except ValueError as error:  # a message that only a newer version knows
        raise WireError(str(error)) from None
    retry = math.inf if said.retry_seconds is None else said.retry_seconds
    return Refusal(limit, retry, figures, said.limits)


def _figure(left: Left | None) -> Figure | None:
    return None if left is None else Figure(left.limit, left.remaining, left.reset_seconds)
