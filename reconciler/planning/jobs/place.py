"""Finds nodes for an attempt of a run: all of them, or none."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase

from reconciler.errors import few_names
from reconciler.planning.context.memory_ledger import Ledger, Placed
from reconciler.planning.context.memory_needs import Needs, gib
from reconciler.planning.context.world import World
from reconciler.planning.nodes import eligible, runtimes
from reconciler.planning.placement.joining import Joining, Unjoined
from reconciler.planning.transport.fallback import Transport
from reconciler.resources import Job, Jobs, Node
from reconciler.state import (
    Contact,
    NodeName,
    Refusal,
    RefusedBecause,
    ReplicaId,
    Waiting,
    WaitingFor,
)

from .view import RunView


@dataclass(frozen=True, slots=True)
class Place:
    """Nodes in the order of ranks, the memory that each rank is charged, and how they are joined."""

    members: Placed
    needs: Needs
    transport: Transport


def choose(view: RunView, job: Job) -> Place | Waiting | Refusal:
    """Choose the nodes of an attempt; else say what it waits for, or why it is refused. Charges nothing."""
    world, spec = view.world, job.spec
    matching = eligible.candidates(world, spec.placement)
    allowed = [name for name in matching.matching if allows(world.desired.nodes[name], job)]
    late = [name for name in allowed if _about_to_report(world, name)]
    if late:
        return _wait(view, WaitingFor.AGENT, f"no answer yet from {few_names(late)}")
    ending = [text for name in allowed for text in eligible.returning(world, name, view.id)]
    if ending:
        return _wait(view, WaitingFor.STOPPING, f"waiting for the end of {few_names(ending)}")
    building = [name for name in allowed if runtimes.about_to_arrive(world, name)]
    if building:
        return _wait(view, WaitingFor.RUNTIME, f"the runtime of {few_names(building)} is being built")
    usable = tuple(name for name in allowed if _answers(world, name) and not runtimes.problem(world, name))
    if len(usable) < spec.nodes:
        return _too_few(view, job, matching, allowed, usable)
    return _among(view, job, usable)


def allows(node: Node, job: Job) -> bool:
    """Return whether a Node lets a job run on it."""
    jobs, path = node.spec.jobs, job.spec.manifest_path
    return isinstance(jobs, Jobs) and any(fnmatchcase(path or "", pattern) for pattern in jobs.allow.paths)


def preemptible(view: RunView, job: Job) -> frozenset[ReplicaId]:
    """Return the replicas with a group that have to leave for the job."""
    if not job.spec.preempt:
        return frozenset()
    deployments = view.world.desired.deployments
    return frozenset(
        each
        for each in view.world.memory.groups
        if isinstance(each, ReplicaId)
        and (deployment := deployments.get(each.deployment)) is not None
        and deployment.spec.preemptible
        and deployment.spec.priority < job.spec.priority
    )


def leaving_for(view: RunView, job: Job) -> frozenset[ReplicaId]:
    """Return the replicas that will not stay on its nodes: those that it preempts, and those that nobody wants."""
    wanted = view.world.desired.replicas()
    unwanted = (
        each for each in view.world.memory.groups if isinstance(each, ReplicaId) and each not in wanted
    )
    return preemptible(view, job).union(unwanted)


def _wait(view: RunView, reason: WaitingFor, text: str) -> Waiting:
    return view.wait(reason, text).waiting[0]


def _about_to_report(world: World, name: NodeName) -> bool:
    """Return whether a node is about to report what it can do. A node whose agent does not start is not about to."""
    if world.node(name).contact is Contact.AGENT_DOWN:
        return not world.memory.unstarted(name)
    return not eligible.answers(world, name)


def _answers(world: World, name: NodeName) -> bool:
    return world.node(name).report is not None and eligible.answers(world, name)


def _too_few(
    view: RunView, job: Job, found: eligible.CandidateNodes, allowed: list[NodeName], usable: Placed
) -> Refusal:
    if by_choice := found.left_out_by_choice(view.world):
        return view.refuse(*by_choice)
    spec = job.spec
    if len(allowed) < spec.nodes <= len(found.matching):
        names = [name for name in found.matching if name not in allowed]
        denying, allow = few_names(names), "allows" if len(names) == 1 else "allow"
        text = f"needs {spec.nodes} node{'s' * (spec.nodes > 1)}, and {denying} {allow} no job of {spec.manifest_path}"
        person = f"list the path in spec.jobs.allow.paths of {denying}, if this program may run there"
        return view.refuse(RefusedBecause.JOBS_DENIED, text, person)
    text = eligible.too_few(view.world.desired.nodes, spec.placement, spec.nodes, len(usable), "spec.nodes")
    return view.refuse(RefusedBecause.NO_NODES, text + found.states(view.world, spec.placement))


def _among(view: RunView, job: Job, usable: Placed) -> Place | Waiting | Refusal:
    """Place it beside everything that runs; else, if that is allowed, in place of what may be preempted: of no more than it
    needs, and of what has the lowest priority."""
    found = _fitting(view, view.world, view.ledger, job, usable)
    if isinstance(found, Place | Refusal):
        return found
    leaving = preemptible(view, job)
    instead = _without(view, job, usable, leaving) if leaving else found
    if not isinstance(instead, Place):
        return found
    for each in sorted(leaving, key=lambda id: (-_priority(view, id), id)):
        fewer = leaving - {each}
        spared = _without(view, job, usable, fewer)
        if isinstance(spared, Place):
            leaving, instead = fewer, spared
    return instead


def _without(
    view: RunView, job: Job, usable: Placed, leaving: frozenset[ReplicaId]
) -> Place | Waiting | Refusal:
    """Place it as if some replicas had left."""
    groups = {id: record for id, record in view.world.memory.groups.items() if id not in leaving}
    return _fitting(view, view.world.decided(groups=groups), view.ledger.without(leaving), job, usable)


def _priority(view: RunView, replica: ReplicaId) -> int:
    return view.world.desired.deployments[replica.deployment].spec.priority


def _fitting(
    view: RunView, world: World, ledger: Ledger, job: Job, usable: Placed
) -> Place | Waiting | Refusal:
    spec = job.spec
    free = usable if spec.memory is not None else tuple(n for n in usable if _unused(ledger, n, view))
    if len(free) < spec.nodes:
        busy = [name for name in usable if name not in free]
        text = f"it needs {spec.nodes} unused node{'s' * (spec.nodes > 1)}, and {few_names(busy)}"
        return _wait(view, WaitingFor.ROOM, f"{text} {'is' if len(busy) == 1 else 'are'} in use")
    joining = Joining.of(world, ledger, view.id, spec.transport, free)
    found = joining.best((spec.memory if spec.memory is not None else 1,) * spec.nodes)
    if found is None:
        return _no_room(view, job, ledger, free)
    if isinstance(found, Unjoined):
        return view.refuse(RefusedBecause.NO_TRANSPORT, str(found))
    members, transport = found
    return Place(members, _charges(joining, spec.memory, members), transport)


def _unused(ledger: Ledger, name: NodeName, view: RunView) -> bool:
    """Return whether no other rank is on the machine of a node."""
    host = ledger.host(name)
    return not any(ledger.ranks(each, view.id) for each, on in ledger.hosts.items() if on == host)


def _charges(joining: Joining, memory: int | None, members: Placed) -> Needs:
    """Charge what was asked for, or else all that the machines have."""
    if memory is not None:
        return (memory,) * len(members)
    hosts, free = joining.rooms.hosts, joining.rooms.free
    on_host = Counter(hosts[name] for name in members)
    return tuple(free[hosts[name]] // on_host[hosts[name]] for name in members)


def _no_room(view: RunView, job: Job, ledger: Ledger, usable: Placed) -> Waiting | Refusal:
    need = job.spec.memory or 0
    hosts = {ledger.host(name): name for name in usable}
    most = sum(ledger.room(name) // need if need else 1 for name in hosts.values())
    text = f"each rank needs {gib(need)}, on {job.spec.nodes} node{'s' * (job.spec.nodes > 1)}"
    if most < job.spec.nodes:
        rooms = few_names([f"{name} has {gib(ledger.room(name))}" for name in sorted(hosts.values())])
        return view.refuse(
            RefusedBecause.NO_MEMORY,
            f"{text}, and {rooms} even when empty",
            "lower spec.memory, or add Nodes",
        )
    return _wait(view, WaitingFor.ROOM, f"{text}, and what runs leaves too little")
