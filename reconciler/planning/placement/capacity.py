"""Names the deployments that are too large for the declared nodes, whatever else runs, as far as all facts are known."""

from __future__ import annotations

from collections.abc import Iterator, Set

from reconciler.planning.context.gpu_memory import left_to_models
from reconciler.planning.context.memory_needs import ModelNeeds, Needs, gib, guessed, needs
from reconciler.planning.context.sharding import Split, Unsplit, splits
from reconciler.planning.context.workload import Workload
from reconciler.planning.context.world import World
from reconciler.planning.nodes.eligible import suits, tainted
from reconciler.resources import ModelDeployment
from reconciler.state import NodeName, ObjectKey, ReplicaId
from reconciler.wire.node import ModelReport

from . import suggestions
from .contexts import Contexts
from .search import FreeMemory


def beyond_all_nodes(world: World, concerned: Set[ObjectKey]) -> Iterator[str]:
    """Yield a sentence for each deployment that is too large for the nodes of the manifests even if nothing else ran on
    them. It, or its Model, is in ``concerned``. A missing fact says nothing: no report of a node, no examined weights,
    fewer nodes than it needs."""
    for name, deployment in sorted(world.desired.deployments.items()):
        keys = ObjectKey("ModelDeployment", name), ObjectKey("Model", deployment.spec.model)
        model = world.desired.models.get(deployment.spec.model)
        if deployment.spec.replicas and model is not None and not concerned.isdisjoint(keys):
            text = _too_large(world, Workload(ReplicaId(name, 0), deployment, model))
            if text:
                yield f"{keys[0]}: {text}"


def _too_large(world: World, workload: Workload) -> str:
    """Return its needs and the memory that there is, for people; empty if it fits, or that is not known."""
    rooms, weights = _emptied(world, workload.deployment), _examined(world, workload.path)
    bounds = workload.deployment.spec.parallelism.nodes
    if rooms is None or weights is None or len(rooms.nodes) < bounds.min:
        return ""
    least = ModelNeeds.of_deployment(workload.deployment, Contexts.of(workload.deployment, weights).least)
    tried: list[tuple[int, Split]] = []
    for size in range(bounds.min, min(bounds.max, len(rooms.nodes)) + 1):
        possible = splits(workload.deployment.spec.parallelism.strategy, weights, size)
        if isinstance(possible, Unsplit):
            continue
        if any(rooms.roomiest(size).fit(needs(least, weights, split.strategy, size)) for split in possible):
            return ""
        tried.append((size, possible[0]))
    if not tried:
        return ""  # it is not for want of memory
    size, split = tried[-1]
    each = needs(least, weights, split.strategy, size)
    figures = _figures(rooms, each, guessed(weights, split.strategy, size))
    return f"{figures}; {suggestions.change(workload, rooms, weights, size)}"


def _figures(rooms: FreeMemory, each: Needs, guess: bool) -> str:
    """Return the needs of ranks, and whether they are a guess, and the memory of the nodes, for people."""
    size, every = len(each), len(rooms.nodes)
    held = sorted(rooms.free.values(), reverse=True)
    if size == 1:
        return f"needs {gib(each[0], guess)} on one node, and the largest of {every} declared holds {gib(held[0])}"
    together = sum(held[:size])
    if sum(each) > together:
        which = "the nodes declared hold" if size == every else f"the {size} largest of {every} declared hold"
        return f"needs {gib(sum(each), guess)} on {size} nodes, and {which} {gib(together)}"
    share = "each" if len(set(each)) == 1 else "one"
    return (
        f"needs {gib(max(each), guess)} on {share} of {size} nodes, and no {size} of those declared hold that"
    )


def _emptied(world: World, deployment: ModelDeployment) -> FreeMemory | None:
    """Return the nodes that the deployment might ever use, with all memory that their manifests leave to models; None if
    one of them has not reported yet. A node that is cordoned, or silent, may be used again."""
    nodes = [
        name
        for name, node in sorted(world.desired.nodes.items())
        if suits(node, deployment.spec.placement) and not tainted(node, deployment.spec.placement)
    ]
    hosts: dict[NodeName, str] = {}
    free: dict[str, int] = {}
    for name in nodes:
        report = world.node(name).report
        if report is None:
            return None
        hosts[name] = report.host_id
        left = left_to_models(world.desired.nodes[name].spec.memory, report)
        free[report.host_id] = max(left, free.get(report.host_id, 0))
    return FreeMemory(tuple(nodes), hosts, free) if nodes else None


def _examined(world: World, path: str) -> ModelReport | None:
    """Return a node's report on weights that it has examined; None if no node has."""
    found = (world.node(name).model(path) for name in sorted(world.desired.nodes))
    return next(
        (
            each
            for each in found
            if each is not None and each.weights_bytes and not (each.examining or each.problem)
        ),
        None,
    )
