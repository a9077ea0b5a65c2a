"""Where a group goes: which nodes, how many of them, and whether there is memory for it.

Deterministic and stable: the same nodes again where nothing speaks against them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from reconciler.resources import Model, ModelDeployment
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

from .group import indivisible, strategy_of
from .world import World

RANK_OVERHEAD_BYTES = 512 * 2**20
"""Python, MLX and the activations of one rank."""

Placed = tuple[NodeName, ...]


class Ledger:
    """Memory by host: what ranks are charged that live or may live. Lives for one pass.

    What runs is charged as it was placed, whatever the manifests have come to say since.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._entries: list[tuple[ReplicaId, NodeName, int]] = []
        for replica, record in world.memory.groups.items():
            self.charge(replica, record.members, record.rank_bytes)
        for rank in world.observed.ranks():
            known = world.memory.groups.get(rank.replica)
            if rank.alive and (known is None or rank.report.id.epoch != known.epoch):
                likely = known.rank_bytes if known else RANK_OVERHEAD_BYTES
                self.charge(rank.replica, (rank.node,), rank.report.memory_bytes or likely)

    def charge(self, replica: ReplicaId, members: Placed, rank_bytes: int) -> None:
        """Add one rank on each of these nodes."""
        self._entries += [(replica, name, rank_bytes) for name in members]

    def free(self, name: NodeName, replacing: ReplicaId) -> int:
        """Bytes of a node's host that are left, as if the ranks of ``replacing`` were gone already."""
        report = self._world.node(name).report
        if report is None:
            return 0
        host = report.host_id
        charged = sum(
            size for replica, node, size in self._entries if replica != replacing and self.host(node) == host
        )
        return report.memory_bytes - self._reserve(host) - charged

    def ranks(self, name: NodeName, replacing: ReplicaId) -> int:
        """Ranks on a node, but for those of ``replacing``."""
        return sum(node == name and replica != replacing for replica, node, _ in self._entries)

    def host(self, name: NodeName) -> str:
        """The machine behind a node."""
        report = self._world.node(name).report
        return report.host_id if report else f"node/{name}"

    def _reserve(self, host: str) -> int:
        """The largest reserve that any node of the host asks for: they speak of the same memory."""
        nodes = self._world.desired.nodes
        return max((n.spec.memory.reserve for name, n in nodes.items() if self.host(name) == host), default=0)


def rank_bytes(deployment: ModelDeployment, weights: ModelReport, ranks: int) -> int:
    """What one rank needs: its share of the weights and of the KV cache, and the process itself."""
    shared = weights.weights_bytes + kv_cache_bytes(weights.config, deployment)
    return shared // ranks + RANK_OVERHEAD_BYTES


def kv_cache_bytes(config: Mapping[str, Any], deployment: ModelDeployment) -> int:
    """The KV cache of a full batch of full contexts: 2 x layers x KV heads x head size x bytes a value."""
    heads = _number(config, "num_attention_heads", 1)
    kv_heads = _number(config, "num_key_value_heads", heads)
    head = _number(config, "head_dim", _number(config, "hidden_size", 0) // max(1, heads))
    value_bytes = 4 if config.get("torch_dtype", config.get("dtype")) == "float32" else 2
    per_token = 2 * _number(config, "num_hidden_layers", 0) * kv_heads * head * value_bytes
    return per_token * deployment.spec.serving.context * deployment.spec.serving.max_batch


def _number(config: Mapping[str, Any], field: str, default: int) -> int:
    value = config.get(field)
    return value if isinstance(value, int) else default


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be placed."""

    replica: ReplicaId
    deployment: ModelDeployment
    model: Model

    @property
    def path(self) -> str:
        return self.model.spec.source.path

    def refuse(self, because: RefusedBecause, text: str) -> Refusal:
        return Refusal(self.replica.key, because, text, self.replica)


@dataclass(frozen=True, slots=True)
class Placement:
    """Nodes in the order of ranks, and the memory that each rank is charged."""

    members: Placed
    rank_bytes: int


def place(world: World, ledger: Ledger, request: Request) -> Placement | Waiting | Refusal:
    """Where a replica's group goes; else what is awaited, or why it cannot be."""
    selected = _selected(world, request.deployment)
    matching = [name for name in selected if not _withheld(world, name)]
    placed = _place(world, ledger, request, matching)
    withheld = [name for name in selected if name not in matching]
    if not isinstance(placed, Refusal) or not withheld:
        return placed
    states = ", ".join(f"{name} is {_withheld(world, name)}" for name in withheld)
    return replace(
        placed, text=f"{placed.text} ({states}; undo with: reconciler uncordon {' '.join(withheld)})"
    )


def _place(
    world: World, ledger: Ledger, request: Request, matching: list[NodeName]
) -> Placement | Waiting | Refusal:
    awaited = [name for name in matching if _awaited(world, name, request.path)]
    if awaited:
        # Not only when there are too few: how large a group becomes must not depend on who answers first.
        text = f"{request.replica}: no answer yet from {', '.join(awaited)}"
        return Waiting(request.replica.key, WaitingFor.AGENT, text, replica=request.replica)
    usable: list[NodeName] = []
    problem: Refusal | None = None
    for name in matching:
        refusal = _unfit(world, name, request)
        if refusal is None:
            usable.append(name)
        problem = problem or refusal
    wanted = request.deployment.spec.parallelism.nodes.min
    if len(usable) < wanted:
        text = f"needs {wanted} nodes, {len(usable)} can be used; add Nodes or lower spec.parallelism.nodes"
        return problem or request.refuse(RefusedBecause.NO_NODES, text)
    return _largest(world, ledger, request, usable)


def _selected(world: World, deployment: ModelDeployment) -> list[NodeName]:
    """Nodes that the deployment asks for, by their labels."""
    selector = deployment.spec.placement.node_selector.items()
    return [
        name for name, node in sorted(world.desired.nodes.items()) if selector <= node.metadata.labels.items()
    ]


def _withheld(world: World, name: NodeName) -> str:
    """Why the manifests keep new ranks away from a node, in a word; empty where they do not."""
    spec = world.desired.nodes[name].spec
    return "drained" if spec.drain else "cordoned" if spec.unschedulable else ""


def _awaited(world: World, name: NodeName, path: str) -> bool:
    """Whether a node is about to say what it can do. One whose agent does not start is not waited for."""
    node = world.node(name)
    if node.contact is Contact.AGENT_DOWN:
        return f"start-agent/{name}" not in world.memory.failures
    return not world.reached(name) or node.report is None or not _told(node.report.runtime, node.model(path))


def _told(runtime: Mapping[str, str] | None, weights: ModelReport | None) -> bool:
    return runtime is not None and weights is not None


def _unfit(world: World, name: NodeName, request: Request) -> Refusal | None:
    """Why a node cannot run a rank; None if it can."""
    node, title = world.node(name), request.model.metadata.name
    weights = node.model(request.path)
    if not world.reached(name) or node.report is None or weights is None:
        return request.refuse(
            RefusedBecause.NO_NODES, f"the agent of {name} cannot be started: {node.problem}"
        )
    if not (node.report.runtime or {}).get("mlx"):
        text = f"{name} has no mlx in its Python; install reconciler with its extra: reconciler[runtime]"
        return request.refuse(RefusedBecause.NO_RUNTIME, text)
    if weights.problem:
        text = f"model {title}: {weights.directory} on {name}: {weights.problem}"
        return request.refuse(RefusedBecause.WEIGHTS_UNUSABLE, text)
    if not weights.present:
        text = (
            f"model {title}: no weights at {weights.directory} on {name};"
            " put them there or correct spec.source.path"
        )
        return request.refuse(RefusedBecause.WEIGHTS_MISSING, text)
    return None


def _largest(world: World, ledger: Ledger, request: Request, usable: list[NodeName]) -> Placement | Refusal:
    """As many nodes as there are within the bounds, and fewer where the model or the memory asks for it."""
    bounds = request.deployment.spec.parallelism.nodes
    first: Refusal | None = None
    for size in range(min(bounds.max, len(usable)), bounds.min - 1, -1):
        answer = _of_size(world, ledger, request, usable, size)
        if isinstance(answer, Placement):
            ledger.charge(request.replica, answer.members, answer.rank_bytes)
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
    why = indivisible(weights.config, size)
    if why and strategy_of(request.deployment, weights.config, size) == "tensor":
        text = f"model {request.deployment.spec.model} cannot be split by tensor over {size} nodes: {why}"
        return request.refuse(RefusedBecause.NOT_DIVISIBLE, text)
    record = world.memory.groups.get(replica)
    before = record.members if record else ()
    need = rank_bytes(request.deployment, weights, size)
    chosen: list[NodeName] = []
    for name in sorted(usable, key=lambda n: (n not in before, ledger.ranks(n, replica), n)):
        beside = sum(ledger.host(other) == ledger.host(name) for other in chosen)
        if len(chosen) < size and need * (beside + 1) <= ledger.free(name, replica):
            chosen.append(name)
    if len(chosen) == size:
        return Placement(tuple(sorted(chosen)), need)
    roomiest = max(usable, key=lambda n: ledger.free(n, replica))
    text = (
        f"needs {_gib(need)} on each of {size} nodes, {len(chosen)} have it free (most: {roomiest} with"
        f" {_gib(max(0, ledger.free(roomiest, replica)))}); lower spec.serving.context or maxBatch, or add nodes"
    )
    return request.refuse(RefusedBecause.NO_MEMORY, text)


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
