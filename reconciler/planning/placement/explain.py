"""Explains to people why replicas are where they are, and not elsewhere, by present facts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from reconciler.errors import few_names
from reconciler.planning.context.gpu_memory import bounded_by_gpu
from reconciler.planning.context.memory_ledger import Ledger, Placed
from reconciler.planning.context.memory_needs import gib
from reconciler.planning.context.sharding import Split, Unsplit, splits
from reconciler.planning.context.workload import Workload
from reconciler.planning.context.world import World
from reconciler.planning.nodes import quarantine, runtimes
from reconciler.planning.nodes.eligible import (
    about_to_report,
    returning,
    suits,
    tainted,
    unfit,
    withheld,
)
from reconciler.resources import ModelDeployment, Node
from reconciler.state import DeploymentName, GroupRecord, NodeName, Refusal, Waiting
from reconciler.wire.node import ModelReport

from . import compatibility
from .contexts import Charges, explained
from .place import choose


@dataclass(frozen=True, slots=True)
class Seat:
    """A node and its role for a replica."""

    node: NodeName
    rank: int | None
    text: str
    """The charge of its rank, or why it has none."""


@dataclass(frozen=True, slots=True)
class Places:
    """A replica, and all nodes of the cluster."""

    replica: int
    text: str
    """Why its group has this number of nodes and this context; empty without a group."""
    nodes: tuple[Seat, ...]


def explain(world: World, name: DeploymentName) -> Iterator[Places]:
    deployment = world.desired.deployments.get(name)
    model = world.desired.models.get(deployment.spec.model) if deployment else None
    if deployment is None or model is None:
        return
    ledger = Ledger.of(world)
    for replica in sorted(id for id in world.desired.replicas() if id.deployment == name):
        subject = _Subject(
            world, ledger, Workload(replica, deployment, model), world.memory.groups.get(replica)
        )
        seats = tuple(_seat(subject, node) for node in subject.names)
        yield Places(replica.index, _why(subject, subject.record) if subject.record else "", seats)


@dataclass(frozen=True, slots=True)
class _Subject:
    """The replica whose place is explained."""

    world: World
    ledger: Ledger
    workload: Workload
    record: GroupRecord | None

    @property
    def members(self) -> Placed:
        return self.record.members if self.record else ()

    @property
    def names(self) -> list[NodeName]:
        """List the nodes that are wanted or used, in the order of names."""
        return sorted(self.world.desired.nodes.keys() | set(self.members))


def _why(subject: _Subject, record: GroupRecord) -> str:
    """Say why its group has this size and this context."""
    weights = subject.world.node(record.members[0]).model(subject.workload.path)
    context = explained(subject.workload.deployment, weights, record.context)
    return "; ".join(filter(None, (_size(subject, record), context)))


def _size(subject: _Subject, record: GroupRecord) -> str:
    """Say why its group is not larger."""
    workload = subject.workload
    bounds, size = workload.deployment.spec.parallelism.nodes, len(record.members)
    words = f"{size} node{'s' if size > 1 else ''}"
    if size == bounds.max:
        return (
            f"{words}, as its manifest wants" if bounds.min == size else f"{words}, the most that it may have"
        )
    if not bounds.min <= size < bounds.max:
        return f"{words}, which is not what its manifest wants"
    larger = _bounded(workload.deployment, bounds.model_copy(update={"min": size + 1}))
    found = choose(subject.world, subject.ledger, replace(workload, deployment=larger))
    if isinstance(found, Refusal | Waiting):
        return f"{words}; not more: {found.text}"
    placement, _ = found
    return f"{words}; it could have {len(placement.members)}, and grows when nobody is disturbed"


def _bounded(deployment: ModelDeployment, nodes: object) -> ModelDeployment:
    spec = deployment.spec
    parallelism = spec.parallelism.model_copy(update={"nodes": nodes})
    return deployment.model_copy(update={"spec": spec.model_copy(update={"parallelism": parallelism})})


def _seat(subject: _Subject, name: NodeName) -> Seat:
    record, world, workload = subject.record, subject.world, subject.workload
    if record is not None and name in record.members:
        rank = record.members.index(name)
        free = subject.ledger.free(name, workload.replica)
        text = (
            f"charged {gib(record.charges[rank], record.guessed)}, of {gib(max(0, free))} that others leave"
        )
        return Seat(name, rank, text)
    weights = world.node(name).model(workload.path)
    against = _obstacle(world, name, world.desired.nodes[name], workload) or _unlike(subject, name)
    if against or weights is None:
        return Seat(name, None, against)
    return Seat(name, None, _room(subject, name, weights))


def _unlike(subject: _Subject, name: NodeName) -> str:
    """Say how a node differs from those of the replica's group; empty if it does not."""
    world, path, members = subject.world, subject.workload.path, subject.members
    if len(members) < 2:
        return ""
    return compatibility.describe_differences(world, path, members, [name])


def _obstacle(world: World, name: NodeName, node: Node, workload: Workload) -> str:
    """Say what keeps a node from being used at all; empty if nothing does."""
    placement = workload.deployment.spec.placement
    if not suits(node, placement):
        wanted = placement.node_selector
        lacking = [f"{k}={v}" for k, v in sorted(wanted.items()) if node.metadata.labels.get(k) != v]
        return f"it lacks the label{'s' if len(lacking) > 1 else ''} {', '.join(lacking)}"
    if tainted(node, placement):
        return f"it has {tainted(node, placement)}"
    if withheld(node):
        return f"it is {withheld(node)}"
    kept_out = quarantine.reason(world, name)
    if kept_out:
        return f"it is quarantined: {kept_out}"
    if about_to_report(world, name, workload.path):
        return "it has not reported yet what it can do"
    if runtimes.about_to_arrive(world, name):
        return "its runtime is being built"
    ending = list(returning(world, name, workload.replica))
    if ending:
        return f"waiting for the end of {few_names(ending)}"
    refusal = unfit(world, name, workload)
    return refusal.text if refusal else ""


def _room(subject: _Subject, name: NodeName, weights: ModelReport) -> str:
    """Say whether the smallest part of the model would have room next to the ranks there."""
    workload, ledger, replica = subject.workload, subject.ledger, subject.workload.replica
    bounds = workload.deployment.spec.parallelism.nodes
    sizes = [len(subject.members)] if subject.record else range(bounds.min, bounds.max + 1)
    parts = [
        (min(charges.least()), charges.guessed)
        for size in sizes
        for split in _splits(workload, weights, size)
        for charges in (Charges.of(workload.deployment, weights, split.strategy, size),)
    ]
    free = max(0, ledger.free(name, replica))
    part, guess = min(parts, default=(0, False))
    if part > free:
        missing = f"it lacks {gib(part - free, guess)} of memory"
        bounded = bounded_by_gpu(subject.world, name)
        because = f", because {bounded}" if bounded else ""
        return f"{missing}: a rank needs {gib(part, guess)}, it has {gib(free)} free{because}"
    if subject.record is None:
        return f"it could be used: it has {gib(free)} free"
    others = ledger.ranks(name, replica)
    beside = f" and {others} rank{'s' if others > 1 else ''} of others" if others else ""
    return f"it is not needed: it has {gib(free)} free{beside}"


def _splits(workload: Workload, weights: ModelReport, size: int) -> tuple[Split, ...]:
    possible = splits(workload.deployment.spec.parallelism.strategy, weights, size)
    return () if isinstance(possible, Unsplit) else possible
