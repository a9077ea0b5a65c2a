"""For how long a rank has made no progress, and whether somebody has stopped it.

Time is counted in ticks of a clock that nobody sets, and a tick counts for little more than it should have
lasted: neither a clock that jumps, nor a machine or an agent that was asleep, makes a rank look silent.
"""

from __future__ import annotations

from typing import Any, Tuple

from reconciler.wire.launch import Phase
from reconciler.wire.node import ShimState

LOOK_SECONDS = 1.0
"""A tick: one read in ``/proc`` for each process, or one ``ps`` for all of them."""
TICK_SECONDS_MAX = 2 * LOOK_SECONDS
SILENCE_REPORTED_SECONDS = 2.0
"""From this length on, every tick of a silence is reported to controllers, which decide when it is too long."""
_COMING_UP = (Phase.STARTING, Phase.RENDEZVOUS, Phase.VERBS, Phase.LOADING, Phase.WARM)


class Vitals:
    """The state of one rank, as ticks have shown it."""

    def __init__(self) -> None:
        self.stopped = False
        self.shim_stopped = False
        self.silent_seconds = 0.0
        self.age_seconds = 0.0
        self.idle_seconds = 0.0
        self._owed = False
        self._mark: Tuple[Any, ...] = ()

    def tick(self, state: ShimState, seconds: float, stopped: Tuple[bool, bool]) -> bool:
        """Count ``seconds`` more; ``stopped`` is about the rank and its shim. Return whether to report to controllers."""
        before = (self.stopped, self.shim_stopped, self.silent_seconds >= SILENCE_REPORTED_SECONDS)
        seconds = min(seconds, TICK_SECONDS_MAX)
        self.stopped, self.shim_stopped = stopped
        progress = state.progress
        # A rank that is asked to end while it hangs only changes its phase.
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
