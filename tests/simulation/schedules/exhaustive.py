"""Every point of a scenario, times every kind of fault that can befall it.

The story is played once. At each point a copy of the whole world (a fork of the process) goes on with the
fault, and the original without it: what came before a fault is not played again for each.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from .play import play
from .points import Points
from .scenarios import Scenario

CHILD_SECONDS_MAX = 60
"""A plan that takes so long does not end by itself."""


@dataclass
class Tally:
    """What came of all plans of one scenario."""

    name: str
    points: int = 0
    plans: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    violations: list[tuple[int, str, str]] = field(default_factory=list)
    """Point, kind and what was violated."""
    seconds: float = 0.0


class Forker:
    """At each of its points, one child a kind. ``mine`` says which points are this process's."""

    def __init__(self, mine: Callable[[int], bool]) -> None:
        self._mine = mine
        self.kinds: Counter[str] = Counter()
        self.violations: list[tuple[int, str, str]] = []
        self.report_to: int | None = None
        """In a child: where it is to tell what came of it."""
        self.fault: tuple[int, str] | None = None

    def choose(self, number: int, label: str, kinds: tuple[str, ...]) -> str | None:
        """In the original always None; in each child the kind that is to happen here."""
        if self.report_to is not None or not self._mine(number):
            return None
        for kind in kinds:
            if self._fork(number, kind):
                return kind
        return None

    def _fork(self, number: int, kind: str) -> bool:
        reading, writing = os.pipe()
        loop = asyncio.get_running_loop()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            gc.disable()  # it lives for a moment, and would copy every page that it looks for garbage in
            asyncio._set_running_loop(loop)  # asyncio forgets it where the process is another
            signal.alarm(CHILD_SECONDS_MAX)
            self.report_to, self.fault = writing, (number, kind)
            return True
        os.close(writing)
        with os.fdopen(reading, "rb") as stream:
            content = stream.read()
        os.waitpid(pid, 0)
        self.kinds[kind] += 1
        found = json.loads(content) if content else ["the run ended without a word"]
        self.violations += [(number, kind, text) for text in found]
        return False


def sweep(scenario: Scenario, part: int = 0, parts: int = 1) -> Tally:
    """All plans of one scenario, or every ``parts``-th point of them."""
    started = time.perf_counter()
    forker = Forker(lambda number: number % parts == part)
    try:
        verdict = play(scenario, Points(chooser=forker.choose))
    except BaseException as error:
        if forker.report_to is None:
            raise
        _report(forker.report_to, [f"the simulator failed: {error!r}"])
        os._exit(1)
    if forker.report_to is not None:
        _report(forker.report_to, verdict.violations)
        os._exit(0)
    violations = [(0, "none", text) for text in verdict.violations] + forker.violations
    return Tally(
        scenario.name,
        verdict.points,
        sum(forker.kinds.values()),
        forker.kinds,
        violations,
        time.perf_counter() - started,
    )


def _report(descriptor: int, violations: list[str]) -> None:
    sys.stdout.flush()
    content = json.dumps([text[:2000] for text in violations[:20]]).encode()
    while content:
        content = content[os.write(descriptor, content) :]
    os.close(descriptor)
