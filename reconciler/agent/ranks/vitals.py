"""Measures how long a rank has made no progress, and sees whether somebody has stopped it.

Time is counted in ticks of a clock that nobody sets, and a tick counts little more than its planned length. So neither a
clock that jumps, nor a machine or an agent that was asleep, makes a rank look silent.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple

from reconciler.wire.launch import Phase
from reconciler.wire.node import ShimState

LOOK_SECONDS = 1.0
"""A tick: one read in ``/proc`` for each process, or one ``ps`` for all of them."""
TICK_SECONDS_MAX = 2 * LOOK_SECONDS
SILENCE_REPORTED_SECONDS = 2.0
"""From this length on, every tick of a silence is reported to controllers. They decide when it is too long."""
KILLED_SECONDS_STEP = 5.0
"""Resolution of the reported time since SIGKILL, because every change is news to controllers."""
KILLED_SECONDS_MAX = 60.0
"""Longest reported time since SIGKILL: later changes are no news."""
_COMING_UP = (Phase.STARTING, Phase.RENDEZVOUS, Phase.VERBS, Phase.LOADING, Phase.WARM)


class Vitals:
    """The state of one rank, as ticks have shown it."""

    def __init__(self) -> None:
        self.stopped = False
        self.shim_stopped = False
        self.silent_seconds = 0.0
        self.age_seconds = 0.0
        self.idle_seconds = 0.0
        self.killed_seconds: Optional[float] = None
        """Time since SIGKILL, up to the longest that is reported; None before."""
        self._owed = False
        self._mark: Tuple[Any, ...] = ()

    @property
    def was_ready(self) -> bool:
        """Return whether the rank was ready at the last tick."""
        return self._mark[:1] == (Phase.READY,)

    def tick(self, state: ShimState, seconds: float, stopped: Tuple[bool, bool]) -> bool:
        """Count ``seconds`` more; ``stopped`` is about the rank and its shim. Return whether to report to controllers."""
        before = (self.stopped, self.shim_stopped, self.silent_seconds >= SILENCE_REPORTED_SECONDS)
        seconds = min(seconds, TICK_SECONDS_MAX)
        self.stopped, self.shim_stopped = stopped
        progress = state.progress
        # If a hanging rank is told to end, only its phase changes.
        phase = Phase.READY if progress.phase == Phase.DRAINING else progress.phase
        mark = (phase, progress.steps, progress.loaded_bytes)
        owed = progress.demand > 0 or phase in _COMING_UP or any(stopped)
        stands_still = owed and self._owed and mark == self._mark
        self.silent_seconds = self.silent_seconds + seconds if stands_still else 0.0
        self.age_seconds += seconds
        if mark != self._mark:
            self.idle_seconds = 0.0
        elif progress.phase == Phase.READY and not progress.demand:
            self.idle_seconds += seconds
        self._owed, self._mark = owed, mark
        silent = self.silent_seconds >= SILENCE_REPORTED_SECONDS
        return silent or before != (self.stopped, self.shim_stopped, silent)

    def tick_killed(self, seconds: float) -> bool:
        """Count ``seconds`` more for a rank that got SIGKILL. Return whether to report to controllers."""
        before = self.killed_step
        since = 0.0 if self.killed_seconds is None else self.killed_seconds + min(seconds, TICK_SECONDS_MAX)
        self.killed_seconds = min(since, KILLED_SECONDS_MAX)
        return before != self.killed_step

    @property
    def killed_step(self) -> Optional[float]:
        """Return the time since SIGKILL as it is reported: never longer than it was."""
        if self.killed_seconds is None:
            return None
        return self.killed_seconds // KILLED_SECONDS_STEP * KILLED_SECONDS_STEP
