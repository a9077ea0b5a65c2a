"""Processes that judge bugs, each in its own copy of the product."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from typing import TypeAlias

from .judging import EXIT_SECONDS, FORK, Verdict, import_shared, judge, sound
from .mutant import Mutant
from .planting import copied
from .tiers import NOT_KNOWN, Took, stages


@dataclass(frozen=True, slots=True)
class Planting:
    """A bug to be judged, and the test that caught it the last time; empty where none is known."""

    name: str
    known: str
    tiers: tuple[str, ...]
    took: Took = NOT_KNOWN
    twice: bool = False
    """Whether a test must fail twice: see ``judge``."""
    tests: tuple[str, ...] | None = None
    """Run instead of those of the bug."""


@dataclass(frozen=True, slots=True)
class Soundness:
    """Tests that must pass without any bug."""

    tests: tuple[str, ...]


Task: TypeAlias = Planting | Soundness
Finding: TypeAlias = Verdict | str


class Workers:
    """So many processes that judge some of those bugs; a context, at whose end they are gone."""

    def __init__(self, number: int, mutants: Iterable[Mutant]) -> None:
        self._number = number
        self._mutants = {mutant.name: mutant for mutant in mutants}

    def __enter__(self) -> Workers:
        import_shared()
        gc.freeze()
        self._lines = {}
        for _ in range(self._number):
            ours, theirs = FORK.Pipe()
            process = FORK.Process(target=_work, args=(theirs, self._mutants))
            process.start()
            theirs.close()
            self._lines[ours] = process
        return self

    def __exit__(self, *_: object) -> None:
        for line, process in self._lines.items():
            with suppress(BrokenPipeError):
                line.send(None)
            process.join(0.0)
        for process in self._lines.values():
            process.join(1.0)
            if process.is_alive():
                process.terminate()
            process.join(2 * EXIT_SECONDS)

    def each(self, tasks: Iterable[Task]) -> Iterator[Finding]:
        """What was found, in the order in which it is. Raises ``EOFError`` when a worker is no more."""
        left, busy = iter(tasks), 0
        for line in self._lines:
            busy += _given(line, left)
        while busy:
            for line in self._lines.keys() & wait(self._lines):
                yield line.recv()
                busy += _given(line, left) - 1


def _given(line: Connection, left: Iterator[Task]) -> int:
    for task in left:
        line.send(task)
        return 1
    return 0


def _work(line: Connection, mutants: Mapping[str, Mutant]) -> None:
    """Judge what comes until nothing more does. When interrupted, end the tests that run in order."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with suppress(KeyboardInterrupt), copied() as copy:
        while task := line.recv():
            if isinstance(task, Planting):
                mutant = mutants[task.name]
                if task.tests is not None:
                    mutant = replace(mutant, tests=task.tests)
                asked = stages(mutant, task.tiers, task.took)
                line.send(judge(mutant, copy, asked, task.known, twice=task.twice))
            else:
                line.send(sound(task.tests, copy))
