"""Breaking emulated Macs at the moments that were drawn, and taking each thing back."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from tests.e2e.cluster import Cluster

from .faults import BY_NAME, Fault

Tick = Callable[[], None]
TICK_SECONDS = 0.2


@dataclass(slots=True)
class Breaker:
    """Plays a list of faults. ``tick`` is called between them, several times a second."""

    cluster: Cluster
    tick: Tick
    happened: list[tuple[Fault, float]] = field(default_factory=list)
    """With the moment of each, of ``time.monotonic``."""

    def play(self, faults: Sequence[Fault], seconds: float) -> None:
        """Break and take back, for so long. Raises ``AssertionError`` where a command fails."""
        begun = time.monotonic()
        acts = [(fault.at, 0, number) for number, fault in enumerate(faults)]
        acts += [
            (fault.over_at, 1, number) for number, fault in enumerate(faults) if BY_NAME[fault.kind].undo
        ]
        for due, back, number in sorted(acts):
            self._wait(begun + due)
            if back:
                self._undo(faults[number])
            else:
                self.happened.append((faults[number], time.monotonic()))
                self._do(faults[number])
        self._wait(begun + seconds)

    def _wait(self, until: float) -> None:
        while (left := until - time.monotonic()) > 0:
            self.tick()
            time.sleep(min(left, TICK_SECONDS))

    def _do(self, fault: Fault) -> None:
        kind = BY_NAME[fault.kind]
        if kind.kills:
            self._kill(kind.kills, fault.target)
        else:
            for words in kind.do.format(fault.target).split(";"):
                self.cluster.ask("sandbox", *words.split())

    def _undo(self, fault: Fault) -> None:
        self.cluster.ask("sandbox", *BY_NAME[fault.kind].undo.format(fault.target).split())

    def _kill(self, words: str, node: str) -> None:
        place = f"/machines/{node}/"
        for pid, line in self.cluster.processes().items():
            if words in line and place in line:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
