"""An event loop on virtual time: nothing waits, and the same seed runs the same callbacks in the same order.

A process is a context: what it schedules is its own, and is dropped when it dies, or parked while it is frozen.
Nothing of a dead process runs again, not even what it would have done at its end.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any

START = 1_000_000.0
"""Virtual seconds at which every world begins."""

SLIP_SECONDS = 4.0
"""Clocks that nobody reads for ten seconds seem to have a gap."""
STEPS_PER_MOMENT_MAX = 20_000
"""Who does more without any time passing goes in circles."""


class Killed(BaseException):
    """Raised where a process dies in the middle of its own code."""


class Process:
    """Something that runs in the world and can end at any moment."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.frozen = False
        self.parked: list[Handle] = []
        self.context: Context = copy_context()
        self.context.run(PROCESS.set, self)

    def __repr__(self) -> str:
        return f"<{self.name}>"


PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class Handle:
    """``asyncio.Handle`` without what only people who debug ask it for: most of a run are callbacks."""

    __slots__ = ("args", "callback", "context", "dropped", "due")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None, due: float
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = copy_context() if context is None else context
        self.dropped = False
        self.due = due

    def cancel(self) -> None:
        """Left in the heap: it is passed over when its time comes."""
        self.dropped = True
        self.args = ()

    def cancelled(self) -> bool:
        return self.dropped

    def when(self) -> float:
        return self.due


class VirtualLoop(asyncio.AbstractEventLoop):
    """``seed`` 0 runs what is ready in the order in which it became so; any other shuffles it."""

    def __init__(self, seed: int = 0) -> None:
        self.now = START
        self.steps = 0
        self._steps_max = STEPS_PER_MOMENT_MAX
        self.faults: list[str] = []
        """What went wrong where nobody could be told."""
        self._random = random.Random(seed) if seed else None
        self._ready: deque[Handle] = deque()
        self._timers: list[tuple[float, int, Handle]] = []
        self._count = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self.slips: Callable[[float], None] | None = None
        """Told at least every ``SLIP_SECONDS`` that time is about to pass."""
        self._slipped = START

    # --- what asyncio asks of a loop -----------------------------------------------------------

    def time(self) -> float:
        return self.now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        handle = Handle(callback, args, context, self.now)
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        when = self.now + delay
        handle = Handle(callback, args, context, when)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, handle))
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        handle = Handle(callback, args, context, when)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, handle))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name or "unnamed", context=context)
        self._tasks.append(task)
        if len(self._tasks) > 512:
            self._tasks = [each for each in self._tasks if not each.done()]
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is None or isinstance(error, Killed):
            return
        self.faults.append(f"{context.get('message')}: {error!r}")

    # --- running -------------------------------------------------------------------------------

    def spawn(self, process: Process, coro: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Have a process run a coroutine."""
        return self.create_task(coro, name=name, context=process.context.copy())

    def run(self, until: float, stop: Callable[[], bool] | None = None) -> bool:
        """Run up to a moment; whether there was anything left to run. With ``stop``, until that holds."""
        asyncio._set_running_loop(self)
        try:
            while True:
                self._drain()
                if stop is not None and stop():
                    return True
                if not self._timers:
                    return False
                if self._timers[0][0] > until:
                    if until - self._slipped > SLIP_SECONDS:
                        self._slip(until)
                    self.now = until
                    return True
                self._advance()
        finally:
            asyncio._set_running_loop(None)

    def _drain(self) -> None:
        ready, draw = self._ready, self._random
        while ready:
            if draw is not None and len(ready) > 1:
                ready.rotate(-draw.randrange(len(ready)))
            handle = ready.popleft()
            if handle.dropped:
                continue
            context = handle.context
            process = context.get(PROCESS)
            if process is not None and (process.frozen or not process.alive):
                if process.alive:
                    process.parked.append(handle)
                continue
            self.steps += 1
            if self.steps > self._steps_max:
                raise RuntimeError(
                    f"{STEPS_PER_MOMENT_MAX} callbacks in one moment, the last: {handle.callback!r}"
                )
            try:
                context.run(handle.callback, *handle.args)
            except Killed:
                continue
            except Exception as error:  # noqa: BLE001 - as asyncio has it: the loop goes on
                self.faults.append(f"a callback failed: {error!r}")

    def _advance(self) -> None:
        timers = self._timers
        if timers[0][0] - self._slipped > SLIP_SECONDS:
            self._slip(timers[0][0])
        self.now = max(self.now, timers[0][0])
        self._steps_max = self.steps + STEPS_PER_MOMENT_MAX
        while timers and timers[0][0] <= self.now:
            handle = heapq.heappop(timers)[2]
            if not handle.dropped:
                self._ready.append(handle)

    def _slip(self, until: float) -> None:
        self._slipped = until
        if self.slips is not None:
            self.slips(until)

    def thaw(self, process: Process) -> None:
        """Let a frozen process go on with what it has missed."""
        process.frozen = False
        self._ready.extend(process.parked)
        process.parked.clear()

    def close(self) -> None:
        """Let go of everything that never ended, without a word."""
        self._ready.clear()
        self._timers.clear()
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _let_go(task.get_coro())
        self._tasks.clear()


def _let_go(coro: Any) -> None:
    """End a coroutine that nobody runs any more; what it would do at its end comes to nothing."""
    for _ in range(20):
        try:
            coro.close()
            return
        except (RuntimeError, ValueError, Killed):  # it waits for something even now
            continue
