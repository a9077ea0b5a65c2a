"""Play one scenario under a plan of faults, and judge what came of it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from reconciler.planning.context.back_off_time import BACK_OFF_SECONDS_MAX
from reconciler.planning.transport import fallback
from reconciler.state import RefusedBecause, WorkloadId
from tests.simulation.oracles import jobs
from tests.simulation.oracles.ends import Ending, check_person_incidents, compare, ending, missing
from tests.simulation.world.pace import CALM, QUIET
from tests.simulation.world.rest import rest
from tests.simulation.world.world import World

from .points import Points
from .scenarios import Scenario

SEEN_SECONDS = 20.0
"""By then whatever the story did last has been seen: reports are asked for more often."""
BOUND_SECONDS = 1500.0
"""Two of the longest back-offs, a load, and every time-out on the way."""
QUIET_SECONDS = 3600.0
SETTLE_SECONDS = 1.0
CALM_SECONDS = 15
TRIALS_MAX = 3
"""So many trials of transports are waited for: where a fault lasts, none of them helps."""


@dataclass
class Verdict:
    """What became of one run."""

    violations: list[str]
    points: int
    seconds: float
    """Virtual, until it had converged."""
    trace_hash: str
    hit: list[tuple[int, str, str]]
    notes: list[str] = field(repr=False, default_factory=list)
    stops: dict[WorkloadId, int] = field(default_factory=dict)
    formed: dict[WorkloadId, int] = field(default_factory=dict)
    ending: Ending = field(repr=False, default_factory=dict)
    """What the world came to; empty where it came to no rest."""
    reached: list[str] = field(default_factory=list)
    """What only hours and days bring about, of a schedule over days."""
    longest: float = 0.0
    """Seconds of the longest time in which a replica was out of service."""


class _Complaints(logging.Handler):
    """Errors that the product did not expect: it survives them, a test must not."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.found.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


@contextmanager
def listening() -> Iterator[list[str]]:
    """What the product complains of meanwhile; nothing of it is printed."""
    handler = _Complaints()
    product, agent = logging.getLogger("reconciler"), logging.getLogger("agent")
    before = (product.level, product.propagate, agent.level)
    product.addHandler(handler)
    product.propagate = False
    product.setLevel(logging.ERROR)
    agent.setLevel(logging.CRITICAL + 1)
    try:
        yield handler.found
    finally:
        product.removeHandler(handler)
        product.setLevel(before[0])
        product.propagate = before[1]
        agent.setLevel(before[2])


def play(scenario: Scenario, points: Points, seed: int = 0) -> Verdict:
    """Run a scenario to its end: story, convergence, and a quiet hour."""
    return _play(scenario, points, seed, faultless(scenario).ending)


def _play(scenario: Scenario, points: Points, seed: int, wanted: Ending) -> Verdict:
    with listening() as complaints:
        world = scenario.world(points, seed)
        try:
            ended = finish(world, scenario.length, scenario.persons, wanted)
            return verdict(world, ended, complaints)
        finally:
            world.close()


_FAULTLESS: dict[int, tuple[Scenario, Verdict]] = {}


def faultless(scenario: Scenario) -> Verdict:
    """The scenario as it goes where nothing but its story happens; played once in this process if it goes well."""
    known = _FAULTLESS.get(id(scenario))
    if known is not None:
        return known[1]
    found = _play(scenario, Points(), 0, {})
    if not found.violations:
        _FAULTLESS[id(scenario)] = (scenario, found)
    return found


def finish(
    world: World,
    length: float,
    persons: Collection[tuple[str, str]] | None = None,
    wanted: Ending | None = None,
) -> float:
    """Let a world converge and be quiet; the virtual seconds until it had converged. ``wanted`` is what it is to
    come to, empty where that is not known."""
    begun = world.loop.now
    world.run(length + SEEN_SECONDS)
    why = _converge(world)
    for _ in range(TRIALS_MAX):
        seconds = _seconds_to_trial(world)
        if why or seconds is None:
            break
        rest(world, world.loop.now + seconds)
        why = _converge(world)
    converged = world.loop.now
    if why:
        world.oracles.violated(f"not converged {BOUND_SECONDS:g} s after the last fault: {why}")
        return converged - begun
    world.points.open = False
    world.points.steps.clear()
    seen = len(world.notes)
    world.change_pace(QUIET)
    world.run(QUIET_SECONDS)
    if not all(map(jobs.is_retention, world.points.steps)):
        world.oracles.violated(f"the quiet hour was not quiet: {world.notes[seen : seen + 3]}")
    if world.clients is not None and world.clients.asking:
        world.oracles.violated(f"{world.clients.asking} requests still wait, an hour after all was well")
    why = missing(world)
    if why:
        world.oracles.violated(f"it did not stay as it was: {why}")
        return converged - begun
    check_person_incidents(world, () if persons is None else {*persons, *world.persons})
    world.oracles.gateways.check_incidents()
    world.ending = ending(world)
    if wanted:
        compare(world, wanted)
    return converged - begun


def _seconds_to_trial(world: World) -> float | None:
    """How long it is until the next transport that was left is tried again; None where none is to come."""
    memory, parts = world.memory(), world.controller.parts if world.controller is not None else None
    if memory is None or parts is None:
        return None
    now = parts.clock() - SEEN_SECONDS
    failures = (failure for of_one in memory.transport_failures.values() for failure in of_one)
    times = (fallback.retried_at(failure) for failure in failures)
    return min((at - now for at in times if at is not None and at > now), default=None)


def _converge(world: World) -> str:
    """Run until everything is as it should be; why it is not, where the bound is over."""
    begun, deadline = world.loop.now, 0.0
    before, calm = -1, 0
    while world.loop.now < (deadline := max(deadline, _bound(world, begun))):
        world.run(SETTLE_SECONDS)
        calm = calm + 1 if len(world.notes) == before else 0
        before = len(world.notes)
        if calm and not missing(world) and not (world.clients is not None and world.clients.asking):
            return ""
        if calm == CALM_SECONDS and not any(rank.hung or rank.stopped for rank in world.ranks()):
            world.change_pace(CALM)  # whatever is waited for, it is far away
    return missing(world) or "it never comes to rest"


def _bound(world: World, begun: float) -> float:
    """By when all is to be well: counted from the last fault, which may be one of a late point. In a crash loop that
    is said to be one, the next attempt is made only when the back-off is over."""
    parts = world.controller.parts if world.controller is not None else None
    refused = parts.last.plan.refused if parts is not None else ()
    looping = any(refusal.reason is RefusedBecause.CRASH_LOOP for refusal in refused)
    more = (BACK_OFF_SECONDS_MAX if looping else 0.0) + world.oracles.jobs.more_seconds()
    return max(begun, world.faulted_at) + BOUND_SECONDS + more


def verdict(world: World, seconds: float, complaints: list[str]) -> Verdict:
    """Everything that is to be known of a run."""
    violations = [*world.oracles.violations, *world.loop.faults, *complaints]
    return Verdict(
        violations=violations,
        points=world.points.count,
        seconds=seconds,
        trace_hash=world.trace_hash,
        hit=list(world.points.hit),
        notes=world.notes,
        stops=dict(world.oracles.stops),
        formed=dict(world.oracles.formed),
        ending=world.ending,
        longest=world.oracles.service.longest,
    )
