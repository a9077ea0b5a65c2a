"""What must be so in the end: everything serves, a person was told once of what only a person can mend, and the
world is as it would be if nothing had gone wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from reconciler.errors import ReconcilerError
from reconciler.resources import Node
from reconciler.state import ReplicaId, RunId, WorkloadId
from reconciler.store.tables.incidents import IncidentFilter
from reconciler.transports import VERBS_ATTEMPTS_MAX

from .pruning import replica_of

if TYPE_CHECKING:
    from tests.simulation.world.world import World

Ending = dict[str, str]
"""What a world came to, by what it is about."""


def missing(world: World) -> str:
    """What is not as it should be in the end; empty once everything is."""
    if world.controller is None or world.controller.parts is None:
        return "there is no controller"
    parts = world.controller.parts
    plan, in_flight = parts.last.plan, parts.executor.in_flight
    if plan.steps or in_flight:
        return f"steps are taken: {[str(s) for s in plan.steps]} {sorted(in_flight)}"
    waiting = [each for each in plan.waiting if not world.oracles.jobs.may_wait(each)]
    if waiting:
        return f"something is waited for: {waiting[0].text}"
    oracles = world.oracles
    misplaced = _misplaced(world, world.expected(world.wanted()))
    misplaced = misplaced or oracles.jobs.missing() or oracles.gateways.missing()
    if misplaced:
        return misplaced
    memory = world.memory()
    if memory is None or memory.unwritable or parts.publisher._disk_problem_published:
        return "something could not be written"
    return f"{sorted(map(str, memory.leaving))} are still leaving" if memory.leaving else ""


def _misplaced(world: World, expected: AbstractSet[WorkloadId]) -> str:
    routed = world.routed()
    if set(routed) != expected:
        return f"routed are {sorted(map(str, routed))}, expected {sorted(map(str, expected))}"
    for rank in world.ranks():
        if isinstance(replica_of(rank.id), RunId):
            continue  # said by its run
        if routed.get(replica_of(rank.id)) != rank.id.epoch:
            return f"{rank} lives on {rank.node}, and is not served"
        if not world.oracles.well(rank):
            return f"the group of {rank} on {rank.node} is not well ({rank.phase})"
    for replica in sorted(expected):
        if not any(replica_of(rank.id) == replica for rank in world.ranks()):
            return f"{replica} has no rank"
    wanted = {m.metadata.name for m in world.wanted() if isinstance(m, Node)}
    agents = {m.name for m in world.machines.values() if m.agent and m.agent.process.alive}
    able = {name for name in wanted if world.machines[name].reachable}
    if agents & set(world.machines) - {n for n in agents if not world.machines[n].reachable} != able:
        return f"agents run on {sorted(agents)}, expected {sorted(able)}"
    return ""


def check_person_incidents(world: World, expected: Collection[tuple[str, str]]) -> None:
    """In the end: what only a person can mend was told once, by subject and class; nothing was told twice, but what was
    gone by a clock that was set for longer than it is remembered."""
    counts = told(world)
    assert counts is not None
    counts.subtract(world.asked_before)
    for subject, fault in sorted({*expected, *counts}):
        count = counts[subject, fault]
        most = max(1, world.failing_gateways[subject]) + world.jumps
        if count > most or (count == 0 and (subject, fault) in expected):
            world.oracles.violated(f"a person was told {count} times of {fault} of {subject}")


def told(world: World) -> Counter[tuple[str, str]] | None:
    """How often a person was told of each subject and class, as far as it is remembered; None without a controller."""
    controller = world.controller
    if controller is None or controller.parts is None:
        return None
    try:
        incidents = controller.parts.store.incidents.find(IncidentFilter(limit=1000))
    except ReconcilerError:
        return None
    return Counter((str(each.subject), fault.value) for each in incidents for fault in each.asked)


def ending(world: World) -> Ending:
    """What the world came to: groups, routes, the inventory and the conditions, without what differs by chance."""
    assert world.controller is not None
    assert world.controller.parts is not None
    store = world.controller.parts.store
    found: Ending = {}
    worn = {name for name, each in store.transports.verbs().items() if each.count >= VERBS_ATTEMPTS_MAX}
    for replica, group in store.groups().items():
        if not isinstance(replica, ReplicaId):
            continue
        found[f"the size of the group of {replica}"] = str(len(group.members))
        # A single rank has none; where RDMA was set up too often a reboot is awaited.
        if group.transport and worn.isdisjoint(group.members):
            found[f"the transport of {replica} on {', '.join(group.members)}"] = group.transport
    for route in world.routes.routes if world.routes else ():
        found[f"the route of {route.model}"] = f"{route.aliases} {route.context} {len(route.backends)}"
    for key, gone in world.stored.inventory().items():
        found[str(key)] = "leaving" if gone else "in force"
    for key, status in store.statuses().items():
        if key.kind == "Job":
            continue  # how a run ends depends on what befalls it
        for condition in status.conditions:
            found[f"{condition.type} of {key}"] = str(condition.status)
    return found


def compare(world: World, faultless: Ending) -> None:
    """Whatever has gone wrong, in the end nothing is left of it."""
    now, back = ending(world), world.taken_back()
    for what in sorted(now.keys() | faultless.keys()):
        elsewhere = what.startswith("the transport of") and not {what} <= now.keys() & faultless.keys()
        if any(name in what for name in back) or (back and "model/" in what):
            continue  # served as before the change, which is said of it
        if now.get(what) != faultless.get(what) and not elsewhere:
            world.oracles.violated(
                f"in the end {what} is {now.get(what)}, and {faultless.get(what)} where nothing goes wrong"
            )
