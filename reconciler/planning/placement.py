"""Where a group goes: which nodes, how many of them, how it is split, and whether there is memory for it.

Deterministic and stable: the same nodes again where nothing speaks against them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from reconciler.resources import Model, ModelDeployment, Node
from reconciler.state import (
    Contact,
    NodeName,
    Refusal,
    RefusedBecause,
    ReplicaId,
    Waiting,
    WaitingFor,
)
from reconciler.wire.node import ModelReport

from . import quarantine
from .ledger import Ledger, Placed, fitting, gib, rank_bytes
from .sharding import Split, Unsplit, alternatives, split
from .world import World

NAMES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be placed."""

    replica: ReplicaId
    deployment: ModelDeployment
    model: Model
    size_max: int
    """Nodes, at most; within the bounds of the deployment."""
    without: Placed = ()
    """Nodes that are not to be used."""

    @property
    def path(self) -> str:
        return self.model.spec.source.path

    def refuse(self, because: RefusedBecause, text: str) -> Refusal:
        return Refusal(self.replica.key, because, text, self.replica)


@dataclass(frozen=True, slots=True)
class Placement:
    """Nodes in the order of ranks, the memory that each rank is charged, and how the model is split."""

    members: Placed
    rank_bytes: int
    split: Split


def place(world: World, ledger: Ledger, request: Request) -> Placement | Waiting | Refusal:
    """Where a replica's group goes; else what is awaited, or why it cannot be. Charges nothing."""
    selected = [name for name in _selected(world, request.deployment) if name not in request.without]
    tainted = [name for name in selected if _tainted(world, name, request.deployment)]
    withheld = [name for name in selected if name not in tainted and _withheld(world, name)]
    open_to_it = [name for name in selected if name not in tainted and name not in withheld]
    kept_out = [name for name in open_to_it if quarantine.of(world, name) is not None]
    matching = [name for name in open_to_it if name not in kept_out]
    placed = _place(world, ledger, request, matching)
    if not isinstance(placed, Refusal):
        return placed
    text = placed.text
    if kept_out:
        states = _some([f"{name} is quarantined: {quarantine.reason(world, name)}" for name in kept_out])
        text = f"{text} ({states})"
    if withheld:
        states = _some([f"{name} is {_withheld(world, name)}" for name in withheld])
        text = f"{text} ({states}; undo with: reconciler uncordon {withheld[0]})"
    if tainted:
        states = _some([f"{name} has {_tainted(world, name, request.deployment)}" for name in tainted])
        text = f"{text} ({states}; allow it in placement.tolerations)"
    return replace(placed, text=text)


def _place(
    world: World, ledger: Ledger, request: Request, matching: list[NodeName]
) -> Placement | Waiting | Refusal:
    awaited = [name for name in matching if _awaited(world, name, request.path)]
    if awaited:
        # Not only when there are too few: how large a group becomes must not depend on who answers first.
        text = f"{request.replica}: no answer yet from {', '.join(awaited)}"
        return Waiting(request.replica.key, WaitingFor.AGENT, text, replica=request.replica)
    returning = [text for name in matching for text in _returning(world, name, request.replica)]
    if returning:
        text = f"{request.replica}: waiting for the end of {_some(returning)}"
        return Waiting(request.replica.key, WaitingFor.STOPPING, text, replica=request.replica)
    usable: list[NodeName] = []
    problem: Refusal | None = None
    for name in matching:
        refusal = _unfit(world, name, request)
        if refusal is None:
            usable.append(name)
        problem = problem or refusal
    wanted = request.deployment.spec.parallelism.nodes.min
    if len(usable) < wanted:
        text = too_few(world.desired.nodes, request.deployment, len(usable))
        return problem or request.refuse(RefusedBecause.NO_NODES, text)
    return _largest(world, ledger, request, usable)


def suits(node: Node, deployment: ModelDeployment) -> bool:
    """Whether a node has the labels that a deployment asks for."""
    return deployment.spec.placement.node_selector.items() <= node.metadata.labels.items()


def _selected(world: World, deployment: ModelDeployment) -> list[NodeName]:
    """Nodes that the deployment asks for, by their labels."""
    return [name for name, node in sorted(world.desired.nodes.items()) if suits(node, deployment)]


def too_few(nodes: Mapping[NodeName, Node], deployment: ModelDeployment, usable: int) -> str:
    """Why there are fewer nodes than a deployment needs, by what the manifests say."""
    wanted = deployment.spec.parallelism.nodes.min
    need = f"needs {wanted} node{'s' if wanted > 1 else ''}"
    selector = ",".join(f"{key}={value}" for key, value in deployment.spec.placement.node_selector.items())
    if not nodes:
        return f"{need}, and there are none; add a Node"
    if not any(suits(node, deployment) for node in nodes.values()):
        return f"{need}, and none has the labels {selector}; label a Node or correct placement.nodeSelector"
    of_them = f" with the labels {selector}" if selector else ""
    lower = f" to {usable}" if usable else ""
    return f"{need}{of_them}, {usable} can be used; add Nodes or lower spec.parallelism.nodes{lower}"


def _some(names: list[str]) -> str:
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _tainted(world: World, name: NodeName, deployment: ModelDeployment) -> str:
    """Which taint of a node the deployment does not tolerate; empty where there is none."""
    taint = deployment.spec.placement.untolerated(world.desired.nodes[name].spec.taints)
    return f"the taint {taint}" if taint else ""


def _withheld(world: World, name: NodeName) -> str:
    """Why the manifests keep new ranks away from a node, in a word; empty where they do not."""
    spec = world.desired.nodes[name].spec
    return "drained" if spec.drain else "cordoned" if spec.unschedulable else ""


def _awaited(world: World, name: NodeName, path: str) -> bool:
    """Whether a node is about to say what it can do. One whose agent does not start is not waited for."""
    node = world.node(name)
    if node.contact is Contact.AGENT_DOWN:
        return f"start-agent/{name}" not in world.memory.failures
    if not world.reached(name) or node.report is None or not node.probed:
        return True
    return not _told(node.report.runtime, node.model(path))


def _returning(world: World, name: NodeName, replica: ReplicaId) -> Iterator[str]:
    """Ranks of other replicas whose group was formed elsewhere while this node was away: it is not used before
    they are gone."""
    for rank in world.observed.ranks_on(name):
        record = world.memory.groups.get(rank.replica)
        if rank.alive and rank.replica != replica and record is not None and name not in record.members:
            yield f"rank {rank.report.id.rank} of {rank.replica}, epoch {rank.report.id.epoch}, on {name}"


def _told(runtime: Mapping[str, str] | None, weights: ModelReport | None) -> bool:
    return runtime is not None and weights is not None and not weights.examining


def _unfit(world: World, name: NodeName, request: Request) -> Refusal | None:
    """Why a node cannot run a rank; None if it can."""
    node, title = world.node(name), request.model.metadata.name
    weights = node.model(request.path)
    if not world.reached(name) or node.report is None or weights is None:
        return request.refuse(
            RefusedBecause.NO_NODES, f"the agent of {name} cannot be started: {node.problem}"
        )
    lacking = [part for part in ("mlx", "mlx-lm") if not (node.report.runtime or {}).get(part)]
    if lacking:
        text = f"{name} has no {lacking[0]} in its Python {node.report.python}; install reconciler[runtime] there"
        return request.refuse(RefusedBecause.NO_RUNTIME, text)
    if weights.problem:
        text = f"model {title} on {name}: {weights.problem}; correct {weights.directory}, or spec.source.path"
        return request.refuse(RefusedBecause.WEIGHTS_UNUSABLE, text)
    if not weights.present:
        text = (
            f"model {title}: no weights at {weights.directory} on {name};"
            " put them there or correct spec.source.path"
        )
        return request.refuse(RefusedBecause.WEIGHTS_MISSING, text)
    if weights.code and not request.model.spec.trust_remote_code:
        text = f"model {title}: {weights.code}; if you trust it, set spec.trustRemoteCode: true in its Model"
        return request.refuse(RefusedBecause.CODE_UNTRUSTED, text)
    return None


def _largest(world: World, ledger: Ledger, request: Request, usable: list[NodeName]) -> Placement | Refusal:
    """As many nodes as there are within the bounds, and fewer where the model or the memory asks for it."""
    bounds = request.deployment.spec.parallelism.nodes
    first: Refusal | None = None
    for size in range(min(request.size_max, len(usable)), bounds.min - 1, -1):
        answer = _of_size(world, ledger, request, usable, size)
        if isinstance(answer, Placement):
            return answer
        first = first or answer
    assert first is not None
    return first


def _of_size(
    world: World, ledger: Ledger, request: Request, usable: list[NodeName], size: int
) -> Placement | Refusal:
    """The best nodes for a group of one size: those it has already, then the least occupied ones."""
    replica = request.replica
    weights = world.node(usable[0]).model(request.path)
    assert weights is not None
    chosen_split = split(request.deployment.spec.parallelism.strategy, weights, size)
    if isinstance(chosen_split, Unsplit):
        return _unsplit(request, weights, chosen_split, len(usable), size)
    record = world.memory.groups.get(replica)
    before = record.members if record else ()
    need = rank_bytes(request.deployment, weights, size)
    chosen: list[NodeName] = []
    for name in sorted(usable, key=lambda n: (n not in before, ledger.ranks(n, replica), n)):
        beside = sum(ledger.host(other) == ledger.host(name) for other in chosen)
        if len(chosen) < size and need * (beside + 1) <= ledger.free(name, replica):
            chosen.append(name)
    if len(chosen) == size:
        return Placement(tuple(sorted(chosen)), need, chosen_split)
    return _no_room(ledger, request, weights, usable, size)


def _unsplit(request: Request, weights: ModelReport, why: Unsplit, usable: int, size: int) -> Refusal:
    parallelism, name = request.deployment.spec.parallelism, request.deployment.spec.model
    other = alternatives(parallelism.strategy, weights, range(1, usable + 1))
    how = {"tensor": "by tensor", "pipeline": "as a pipeline"}.get(parallelism.strategy, "at all")
    because = RefusedBecause.NOT_SUPPORTED if why.lasting else RefusedBecause.NOT_DIVISIBLE
    text = f"model {name} cannot be split {how} over {size} nodes: {why.text}"
    return request.refuse(because, f"{text}; works: {other}" if other else text)


def _no_room(
    ledger: Ledger, request: Request, weights: ModelReport, usable: list[NodeName], size: int
) -> Refusal:
    """How much is missing where, and the nearest that would fit."""
    deployment = request.deployment
    need = rank_bytes(deployment, weights, size)
    rooms = {more: _room(ledger, request.replica, usable, more) for more in range(size, len(usable) + 1)}
    name, free = rooms[size]
    text = f"needs {gib(need)} on each of {size} nodes, {name} has {gib(max(0, free))} free"
    if size == 1:
        text = f"needs {gib(need)} on a node, {name} has the most free: {gib(max(0, free))}"
    context, batch = fitting(deployment, weights, size, free)
    fits = [f"context: {context}"] if context else []
    fits += [f"maxBatch: {batch}"] if batch else []
    wished = deployment.spec.parallelism.strategy
    enough = (
        more
        for more, (_, room) in rooms.items()
        if rank_bytes(deployment, weights, more) <= room and isinstance(split(wished, weights, more), Split)
    )
    fits += [f"nodes: {more}" for more in list(enough)[:1]]
    change = f"fits: {' or '.join(fits)}" if fits else "add nodes, or take weights with fewer bits"
    return request.refuse(RefusedBecause.NO_MEMORY, f"{text}; {change}")


def _room(ledger: Ledger, replica: ReplicaId, usable: list[NodeName], size: int) -> tuple[NodeName, int]:
    """The node with the least room of the best ``size`` ones, and how much a rank could have on it."""
    shares: list[tuple[int, NodeName]] = []
    for name in sorted(usable, key=lambda n: -ledger.free(n, replica)):
        beside = sum(ledger.host(other) == ledger.host(name) for _, other in shares)
        shares.append((ledger.free(name, replica) // (beside + 1), name))
    free, name = sorted(shares, key=lambda share: -share[0])[size - 1]
    return name, free
