"""Runs steps in parallel and reports their outcomes. A pass never waits for a step."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace

from reconciler.errors import Deposed, ReconcilerError, Unwritable
from reconciler.state import Outcome, Step, StepFailure, Volatile
from reconciler.wire.codec import WireError

from .handlers import carry_out
from .tools import Tools

log = logging.getLogger(__name__)

RETRY_SECONDS_MIN = 0.5
RETRY_SECONDS_MAX = 60.0
BEGUN_MAX = 8
"""Steps that begin in one turn of the event loop."""
FAILURES_KEPT_SECONDS = 600.0
"""A step that has not been tried for this long is no longer wanted."""


class Executor:
    """``finished`` is called with each outcome, in the loop's own thread.

    ``deposed`` is called instead when a step shows that another controller has taken over.
    """

    def __init__(
        self, tools: Tools, finished: Callable[[Outcome], None], deposed: Callable[[Deposed], None]
    ) -> None:
        self.tools = tools
        self._finished = finished
        self._deposed = deposed
        self._over = False
        self._waiting: deque[Step] = deque()
        """Steps of a plan that have not begun yet."""
        self._tasks: dict[asyncio.Task[str], tuple[Step, float]] = {}
        self._subjects: Counter[str] = Counter()

    @property
    def in_flight(self) -> frozenset[str]:
        """Return the subjects of the running steps."""
        return frozenset(self._subjects)

    @property
    def volatile(self) -> Volatile:
        """Return a snapshot of past and current actions."""
        tools = self.tools
        return replace(
            tools.volatile,
            in_flight=self.in_flight,
            runtimes=tools.runtimes.known,
            gateways=tools.gateways.known,
        )

    def launch(self, steps: tuple[Step, ...]) -> None:
        """Start all steps of a plan. The planner has made sure that they do not conflict."""
        quiet = not self._waiting
        for step in () if self._over else steps:
            self._waiting.append(step)
            self._subjects[step.subject] += 1
        if quiet:
            self._begin()

    def _begin(self) -> None:
        """Begin some steps, and the others in later turns of the event loop, because many steps write to the store."""
        loop = asyncio.get_running_loop()
        for _ in range(min(BEGUN_MAX, len(self._waiting))):
            step = self._waiting.popleft()
            task = loop.create_task(carry_out(step, self.tools), name=step.key)
            self._tasks[task] = (step, loop.time())
            task.add_done_callback(self._end)
        if self._waiting:
            loop.call_soon(self._begin)

    def abandon(self) -> None:
        """Give up the running steps, and start no more."""
        self._over = True
        self._waiting.clear()
        for task in self._tasks:
            task.cancel()

    def shift(self, seconds: float) -> None:
        """Shift all deadlines after a clock gap of ``seconds`` (negative if the clock was set back)."""
        self.tools.volatile = self.tools.volatile.shifted(seconds)

    async def close(self) -> None:
        """Abandon all steps and wait for them. The next controller observes their effects."""
        tasks = tuple(self._tasks)
        self.abandon()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _end(self, task: asyncio.Task[str]) -> None:
        step, started = self._tasks.pop(task)
        self._subjects[step.subject] -= 1
        self._subjects += Counter()  # drops counts of zero
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, Deposed):
            self._deposed(error)
            return
        problem = self._problem(step, error)
        self._note(step, problem, unwritten=isinstance(error, Unwritable))
        detail = "" if problem else task.result()
        self._finished(Outcome(step, task.get_loop().time() - started, problem, detail))

    @staticmethod
    def _problem(step: Step, error: BaseException | None) -> str:
        if error is None:
            return ""
        if isinstance(error, ReconcilerError | OSError | TimeoutError | WireError):
            return str(error) or type(error).__name__
        log.error("step failed unexpectedly: %s", step.key, exc_info=error)
        return f"internal error: {error!r}"

    def _note(self, step: Step, problem: str, unwritten: bool) -> None:
        """Remember a failed step and the time of its retry, or forget earlier failures after a success."""
        failures = dict(self.tools.volatile.failures)
        before = failures.get(step.key)
        if not problem:
            failures.pop(step.key, None)
        else:
            attempts = before.attempts + 1 if before else 1
            unwritten_attempts = (before.unwritten if before else 0) + unwritten
            delay = min(RETRY_SECONDS_MAX, RETRY_SECONDS_MIN * 2.0 ** (attempts - 1))
            now = self.tools.clock()
            failures = {k: f for k, f in failures.items() if f.retry_at > now - FAILURES_KEPT_SECONDS}
            failures[step.key] = StepFailure(attempts, now + delay, problem, unwritten_attempts)
        self.tools.volatile = replace(self.tools.volatile, failures=failures)
