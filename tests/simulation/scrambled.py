"""Runs in which every sentence of the product is another one, and the decisions of a run without its sentences."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from reconciler.state.reports.incident import Incident
from reconciler.status import Snapshots
from tests.sentences import all_sentences, sentences
from tests.simulation.oracles.oracles import Oracles

Scrambler = Callable[[str, str], str]
"""Makes another sentence of the one in a type of this name. Raises nothing; what it has made it returns unchanged."""


def scramble(kind: str, text: str) -> str:
    """Return other words for a sentence: others in each type, and equal ones for equal sentences of one type."""
    mark = f"«{kind} "
    if not text or text.startswith(mark):
        return text
    return f"{mark}{hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}»"


@contextmanager
def other_sentences(change: Scrambler = scramble) -> Iterator[None]:
    """Within the block, whatever makes a value with a sentence makes it with another one."""
    made = {kind: getattr(kind, _maker(kind)) for kind in sentences()}
    try:
        for kind, names in sentences().items():
            changing = _changing_tuple if issubclass(kind, tuple) else _changing
            setattr(kind, _maker(kind), changing(kind, made[kind], names, change))
        yield
    finally:
        for kind, make in made.items():
            setattr(kind, _maker(kind), make)


def _maker(kind: type) -> str:
    return "__new__" if issubclass(kind, tuple) else "__init__"


def _changing_tuple(
    kind: Any, make: Callable[..., Any], names: tuple[str, ...], change: Scrambler
) -> Callable[..., Any]:
    def changing(cls: type, *values: Any, **named: Any) -> Any:
        found = make(cls, *values, **named)
        return found._replace(**{name: change(kind.__name__, getattr(found, name)) for name in names})

    return changing


def _changing(
    kind: type, make: Callable[..., None], names: tuple[str, ...], change: Scrambler
) -> Callable[..., None]:
    def changing(self: Any, *values: Any, **named: Any) -> None:
        make(self, *values, **named)
        for name in names:
            object.__setattr__(self, name, change(kind.__name__, getattr(self, name)))

    return changing


def untold(value: Any) -> Any:
    """Return a value without its sentences: of each only whether there is one."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        told = all_sentences().get(type(value), ())
        fields = (field.name for field in dataclasses.fields(value))
        return type(value).__name__, *(
            bool(getattr(value, name)) if name in told else untold(getattr(value, name)) for name in fields
        )
    if isinstance(value, (tuple, list)):
        return tuple(map(untold, value))
    return value


class Decisions:
    """What the passes of a world decide, and what its incidents become, each with its time."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._incidents: tuple[Incident, ...] = ()

    def passed(self, world: Any, last: Snapshots) -> None:
        """Note a pass."""
        plan = last.plan
        for part in (plan.steps, plan.waiting, plan.refused, plan.troubles, plan.quarantined):
            self.lines += [f"{world.loop.now:.4f} {untold(each)}" for each in part]
        now = tuple(world.controller.parts.publisher.incident_log.open) if world.controller else ()
        before = {id(each) for each in self._incidents}
        self.lines += [f"{world.loop.now:.4f} {untold(each)}" for each in now if id(each) not in before]
        self._incidents = now


@contextmanager
def each_pass(passed: Callable[[Any, Snapshots], None]) -> Iterator[None]:
    """Within the block, tell each pass of the worlds that are played: the world, and what the pass saw and decided."""
    planned = Oracles.planned

    def noting(self: Oracles, last: Snapshots) -> None:
        passed(self._world, last)
        planned(self, last)

    Oracles.planned = noting  # type: ignore[method-assign]
    try:
        yield
    finally:
        Oracles.planned = planned  # type: ignore[method-assign]


@contextmanager
def deciding() -> Iterator[list[str]]:
    """Within the block, collect the decisions of the worlds that are played."""
    found = Decisions()
    with each_pass(found.passed):
        yield found.lines
