"""Why replicas are where they are, and nowhere else, by what is known now: for people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from reconciler.planning.context.memory_ledger import Ledger
from reconciler.planning.context.memory_needs import ModelNeeds, gib, needs
from reconciler.planning.context.sharding import Split, Unsplit, splits
from reconciler.planning.context.view import View
from reconciler.planning.context.world import World
from reconciler.planning.nodes import quarantine, runtimes
from reconciler.planning.nodes.eligible import (
    Request,
    about_to_report,
    few_names,
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
from .choose import choose


@dataclass(frozen=True, slots=True)
class Seat:
    """A node, and what it is to a replica."""

    node: NodeName
    rank: int | None
    text: str
    """What its rank is charged, or why it has none."""


@dataclass(frozen=True, slots=True)
class Places:
    """A replica, and all nodes of the cluster."""

    replica: int
    text: str
    """Why its group has as many nodes as it has; empty where it has none."""
    nodes: tuple[Seat, ...]


def explain(world: World, name: DeploymentName) -> Iterator[Places]:
    """Every replica that is wanted of a deployment, in order."""
    deployment = world.desired.deployments.get(name)
    model = world.desired.models.get(deployment.spec.model) if deployment else None
    if deployment is None or model is None:
        return
    ledger = Ledger.of(world)
    for replica in sorted(id for id in world.desired.replicas() if id.deployment == name):
        record = world.memory.groups.get(replica)
        view = View(world, ledger, replica, deployment, model, record, world.ranks_of(replica))
        seats = tuple(_seat(view, node, request=Request(replica, deployment, model)) for node in _names(view))
        yield Places(replica.index, _size(view, record) if record else "", seats)


def _names(view: View) -> list[NodeName]:
    return sorted(view.world.desired.nodes.keys() | set(view.record.members if view.record else ()))


def _size(view: View, record: GroupRecord) -> str:
    """Why it is not larger."""
    assert view.deployment is not None
    bounds, size = view.deployment.spec.parallelism.nodes, len(record.members)
    words = f"{size} node{'s' if size > 1 else ''}"
    if size == bounds.max:
        return (
            f"{words}, as its manifest wants" if bounds.min == size else f"{words}, the most that it may have"
        )
    if not bounds.min <= size < bounds.max:
        return f"{words}, which is not what its manifest wants"
    larger = bounds.model_copy(update={"min": size + 1})
    found = choose(replace(view, deployment=_bounded(view.deployment, larger)))
    if isinstance(found, Refusal | Waiting):
        return f"{words}; not more: {found.text}"
    placement, _ = found
    return f"{words}; it could have {len(placement.members)}, and grows when nobody is disturbed"


def _bounded(deployment: ModelDeployment, nodes: object) -> ModelDeployment:
    spec = deployment.spec
    parallelism = spec.parallelism.model_copy(update={"nodes": nodes})
    return deployment.model_copy(update={"spec": spec.model_copy(update={"parallelism": parallelism})})


def _seat(view: View, name: NodeName, request: Request) -> Seat:
    record, ledger = view.record, view.ledger
    if record is not None and name in record.members:
        rank = record.members.index(name)
        free = ledger.free(name, view.replica)
        text = f"charged {gib(record.charges[rank])}, of {gib(max(0, free))} that others leave"
        return Seat(name, rank, text)
    against = _obstacle(view.world, name, view.world.desired.nodes[name], request)
    return Seat(name, None, against or _unlike(view, name, request) or _room(view, name, request))


def _unlike(view: View, name: NodeName, request: Request) -> str:
    """In what a node differs from those that the replica's group is on; empty where it does not."""
    members = view.record.members if view.record else ()
    return (
        compatibility.describe_differences(view.world, request.path, members, [name])
        if len(members) > 1
        else ""
    )


def _obstacle(world: World, name: NodeName, node: Node, request: Request) -> str:
    """What keeps a node from being used at all; empty where nothing does."""
    deployment = request.deployment
    if not suits(node, deployment):
        wanted = deployment.spec.placement.node_selector
        lacking = [f"{k}={v}" for k, v in sorted(wanted.items()) if node.metadata.labels.get(k) != v]
        return f"it lacks the label{'s' if len(lacking) > 1 else ''} {', '.join(lacking)}"
    if tainted(node, deployment):
        return f"it has {tainted(node, deployment)}"
    if withheld(node):
        return f"it is {withheld(node)}"
    kept_out = quarantine.reason(world, name)
    if kept_out:
        return f"it is quarantined: {kept_out}"
    if about_to_report(world, name, request.path):
        return "it has not said yet what it can do"
    if runtimes.about_to_arrive(world, name):
        return "its runtime is being built"
    ending = list(returning(world, name, request.replica))
    if ending:
        return f"waiting for the end of {few_names(ending)}"
    refusal = unfit(world, name, request)
    return refusal.text if refusal else ""


def _room(view: View, name: NodeName, request: Request) -> str:
    """Whether the smallest part of the model would have room beside what runs there."""
    weights = view.world.node(name).model(request.path)
    assert weights is not None
    bounds = request.deployment.spec.parallelism.nodes
    sizes = [len(view.record.members)] if view.record else range(bounds.min, bounds.max + 1)
    parts = [
        min(needs(ModelNeeds.of_deployment(request.deployment), weights, split.strategy, size))
        for size in sizes
        for split in _splits(request, weights, size)
    ]
    free = max(0, view.ledger.free(name, view.replica))
    if parts and min(parts) > free:
        missing = f"{gib(min(parts) - free)} of memory are missing"
        return f"{missing}: a rank needs {gib(min(parts))}, it has {gib(free)} free"
    if view.record is None:
        return f"it could be used: it has {gib(free)} free"
    others = view.ledger.ranks(name, view.replica)
    beside = f" and {others} rank{'s' if others > 1 else ''} of others" if others else ""
    return f"it is not needed: it has {gib(free)} free{beside}"


def _splits(request: Request, weights: ModelReport, size: int) -> tuple[Split, ...]:
    possible = splits(request.deployment.spec.parallelism.strategy, weights, size)
    return () if isinstance(possible, Unsplit) else possible
