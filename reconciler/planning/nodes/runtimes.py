"""The runtime of each node that is reached over SSH and has none of its owner's: built, used, and in time removed.

A new runtime is built next to the old one. Once it is there, an agent that uses it replaces the old agent. Ranks
continue.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from reconciler.planning.context.decision import NOTHING, Decision, wait_for_node
from reconciler.planning.context.world import World, due
from reconciler.state import (
    BuildRuntime,
    Contact,
    NodeName,
    PruneRuntimes,
    Refusal,
    RefusedBecause,
    WaitingFor,
)
from reconciler.wire.node import NodeReport

BUILDS_MAX = 4
"""Most builds at a time: this controller sends to all of them."""
_IN_RUNTIME = re.compile(r"/\.reconciler/runtimes/([0-9a-f]+)/bin/python3\Z")


def decide(world: World, names: Iterable[NodeName]) -> Decision:
    """Build what is missing, a few at a time, and remove what is old."""
    if world.desired.stopping or not world.memory.runtimes.wanted:
        return NOTHING
    room = BUILDS_MAX - sum(subject.startswith("runtime/") for subject in world.memory.in_flight)
    decision = NOTHING
    for name in names:
        if managed(world, name):
            decided = _of_node(world, name, room)
            room -= len(decided.steps)
            decision += decided
    return decision


def managed(world: World, name: NodeName) -> bool:
    """Return whether this cluster manages the node's runtime."""
    wanted = world.desired.nodes.get(name)
    return wanted is not None and wanted.spec.ssh is not None and wanted.spec.python is None


def _of_node(world: World, name: NodeName, room: int) -> Decision:
    report, known = world.node(name).report, world.memory.runtimes
    step, key = BuildRuntime(name), _wanted(world, report)
    if world.node(name).contact is Contact.AGENT_DOWN and report is None:
        # Perhaps there is no Python to start it with; a runtime has one.
        needed = world.memory.unstarted(name) and name not in known.built
    else:
        needed = world.reached(name) and bool(key) and key not in (known.built.get(name), used(report))
    if step.subject in world.memory.in_flight:
        return _building(name, known.progress.get(name, "")) if needed or name in known.progress else NOTHING
    if not needed:
        return _tidy(world, name, report, key) if room > 0 else NOTHING
    failure = world.memory.failures.get(step.key)
    decision = _building(name, f"last: {failure.text}" if failure is not None else "")
    if failure is not None and failure.counted > 0:
        text = f"the runtime of {name} cannot be built: {failure.text}"
        decision += Decision(refused=(Refusal(step.object, RefusedBecause.RUNTIME_UNAVAILABLE, text),))
    return decision + Decision(steps=(step,)) if room > 0 else decision


def retried_first(world: World, name: NodeName) -> bool:
    """Return whether a runtime is being built on a node whose agent never started: the agent is retried after that."""
    return world.node(name).report is None and BuildRuntime(name).subject in world.memory.in_flight


def _building(name: NodeName, how: str) -> Decision:
    return wait_for_node(name, WaitingFor.RUNTIME, f"its runtime is being built{f': {how}' if how else ''}")


def _tidy(world: World, name: NodeName, report: NodeReport | None, key: str) -> Decision:
    if not key or used(report) != key or not world.reached(name):
        return NOTHING
    last = world.memory.runtimes.tidied.get(name)
    if last is not None and last.key == key and (last.again_at is None or not due(last.again_at, world.now)):
        return NOTHING
    return Decision(steps=(PruneRuntimes(name, key),))


def _wanted(world: World, report: NodeReport | None) -> str:
    """Name the runtime that a node should have; empty for a kind of machine without one."""
    return world.memory.runtimes.wanted.get(f"{report.system}/{report.machine}", "") if report else ""


def used(report: NodeReport | None) -> str:
    """Name the managed runtime that ranks are started with; empty if they are started with another."""
    found = _IN_RUNTIME.search(report.python) if report is not None else None
    return found[1] if found else ""


def behind(world: World, name: NodeName) -> str:
    """Say why the agent is to be replaced by one that uses another runtime; empty if it is not."""
    report = world.node(name).report
    if report is None or not managed(world, name):
        return ""
    key = _wanted(world, report)
    if not key or used(report) == key or world.memory.runtimes.built.get(name) != key:
        return ""
    return f"python {report.python} by that of runtime {key}"


def about_to_arrive(world: World, name: NodeName) -> bool:
    """Return whether a node has no runtime to start ranks with, and is about to get one."""
    report = world.node(name).report
    if not managed(world, name) or not _wanted(world, report) or used(report):
        return False
    failure = world.memory.failures.get(BuildRuntime(name).key)
    return failure is None or failure.counted == 0


def problem(world: World, name: NodeName) -> str:
    """Say why a node cannot get a runtime; empty if it has one, or gets none."""
    report = world.node(name).report
    if not managed(world, name) or not _wanted(world, report) or used(report):
        return ""
    failure = world.memory.failures.get(BuildRuntime(name).key)
    return f"the runtime of {name} cannot be built: {failure.text}" if failure is not None else ""
