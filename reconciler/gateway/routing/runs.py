"""All choices of one HTTP request: a ``Run`` for each, waited for together."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
from collections.abc import Sequence
from typing import Protocol

from reconciler.gateway.errors import ApiError, ClientGone, shutting_down
from reconciler.gateway.events import Piece, Reading, Report, Waiting, Working
from reconciler.gateway.keys.usage import Usage
from reconciler.wire.generation import Delta, Generate

from .pool import Pool
from .run import Run


class Outlet(Protocol):
    """Takes text of an answer as it comes, without waking the caller of ``Runs.next``."""

    def take(self, pieces: Sequence[Piece]) -> bool:
        """Take the next pieces, or return False."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tally:
    """The sums of one request's answers."""

    prompt: int
    """Tokens; a prompt counts once for each of its answers."""
    cached: int
    """Cached tokens of the prompts."""
    completion: int
    first_token: float | None
    """Seconds from the request to the first token of any answer; None if there was none."""
    end: str
    """How they ended: ``stop``, ``length``, ``tool_calls``, ``abort``, ``error``; each once, with commas."""
    groups: tuple[tuple[int, int], ...]
    """Replica and epoch of each group that worked on it, in order."""


class Runs:
    """All choices until the last one's ``Finished``. Use as a context manager: leaving it cancels the running ones."""

    def __init__(
        self,
        pool: Pool,
        model: str,
        choices: Sequence[Generate],
        name: str,
        client: str = "",
        request: str = "",
        session: str = "",
        reports: bool = False,
    ) -> None:
        """``name`` is unique; ``request`` is the client's id for it, ``session`` the client's name for requests that
        belong together. With ``reports``, ``next`` also returns reports of the progress."""
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._woken = False
        self._abandoned = False
        self._ended: ApiError | None = None
        self._runs = [
            Run(pool, model, choice, f"{name}.{index}", self._wake, client, request, session)
            for index, choice in enumerate(choices)
        ]
        for index, run in enumerate(self._runs):
            run.take = functools.partial(self._take, index)
        self._reported: list[Report | None] | None = [None] * len(self._runs) if reports else None
        """The last report of each; None if the request asks for none."""
        self._read: list[tuple[int, int] | None] = [None] * len(self._runs)
        """The last reported part of each prompt, in tokens, and its length."""
        self.outlet: Outlet | None = None
        """Takes text while ``next`` waits, and lets it wait: waking a task for each token costs more than all the rest.
        ``next`` returns the text that it does not take."""
        self._leaving = contextlib.ExitStack()

    @property
    def done(self) -> bool:
        return all(run.done for run in self._runs)

    def __enter__(self) -> Runs:
        for run in self._runs:
            self._leaving.enter_context(run)
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.outlet = None
        self._leaving.close()

    async def next(self, seconds: float) -> Sequence[Piece]:
        """Return all parts since the last call, or nothing after ``seconds`` without any.

        Raises ``ApiError`` if one of the choices cannot be answered, or after ``end``; ``ClientGone`` after
        ``abandon``.
        """
        return_at = self._loop.time() + seconds
        while True:
            self._woken = False
            if self._abandoned:
                raise ClientGone("the client has closed its connection")
            if self._ended is not None:
                raise self._ended
            pieces = [(index, answer) for index, run in enumerate(self._runs) for answer in run.answers()]
            if pieces:
                return pieces
            if self._pool.closing:
                raise shutting_down()
            look_at = min(run.next_look() for run in self._runs if not run.done)
            if self._reported is not None and (reports := self._reports(self._reported)):
                return reports
            if self._loop.time() >= return_at:
                return ()
            await self._sleep(min(return_at, look_at))

    def tally(self) -> Tally:
        lines = [run.timeline for run in self._runs if run.timeline is not None]
        first = [line.first_token for line in lines if line.first_token is not None]
        return Tally(
            sum(line.prompt_tokens for line in lines),
            sum(line.cached_tokens for line in lines),
            sum(line.tokens for line in lines),
            min(first, default=None),
            ",".join(dict.fromkeys(run.end for run in self._runs)),
            tuple(dict.fromkeys(group for run in self._runs for group in run.groups)),
        )

    def abandon(self) -> None:
        self._abandoned = True
        for run in self._runs:
            run.abandon()
        self._wake()

    def end(self, error: ApiError) -> None:
        self._ended = error
        self._wake()

    def usage(self, answers: int) -> Usage:
        """Return the tokens of all choices so far. Every ``answers`` choices have the same prompt, which counts
        once."""
        each = [run.usage() for run in self._runs]
        prompts = [each[at : at + answers] for at in range(0, len(each), answers)]
        return Usage(
            sum(max(usage.prompt for usage in same) for same in prompts),
            sum(usage.completion for usage in each),
            sum(max(usage.cached for usage in same) for same in prompts),
        )

    def read(self, unread: bool) -> None:
        """Note whether the client reads its answer."""
        for run in self._runs:
            run.read(unread)

    def _reports(self, last: list[Report | None]) -> Sequence[Piece]:
        """Return reports of the choices whose progress has changed since their last report."""
        pieces: list[Piece] = []
        for index, run in enumerate(self._runs):
            report = self._report(run)
            if not run.done and report != last[index]:
                last[index] = report
                pieces.append((index, report))
            reading = run.timeline.reading if run.timeline is not None else None
            if reading != self._read[index]:
                self._read[index] = reading
                pieces += [(index, Reading(*reading))] if reading is not None else []
        return pieces

    def _report(self, run: Run) -> Report:
        backend = run.backend
        if backend is not None:
            return Working(backend.replica, backend.epoch, backend.nodes or (backend.node,))
        return Waiting("group" if self._pool.holds(run) else "turn")

    def _wake(self) -> None:
        self._woken = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _take(self, index: int, deltas: Sequence[Delta]) -> bool:
        """Hand further text of a choice to the outlet, if all text before it has been handed on."""
        waiter, outlet = self._waiter, self.outlet
        if outlet is None or waiter is None or waiter.done():
            return False
        try:
            return outlet.take(
                [(index, delta) for delta in deltas] if len(deltas) > 1 else ((index, deltas[0]),)
            )
        except Exception as error:  # noqa: BLE001  # ends this request alone, in its own task
            waiter.set_exception(error)
            return True

    async def _sleep(self, until: float) -> None:
        """Sleep until ``until``, or until a run wants another look.

        A timer that is due earlier stays: nearly every sleep ends long before.
        """
        if self._woken:
            return
        self._waiter = self._loop.create_future()
        if self._timer is None or self._timer.when() > until:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(until, self._ring)
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _ring(self) -> None:
        self._timer = None
        self._wake()
