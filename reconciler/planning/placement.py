"""Where a group goes: which nodes, how many of them, and whether there is memory for it.

Deterministic and stable: the same nodes again where nothing speaks against them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reconciler.resources import Model, ModelDeployment
from reconciler.state import (
    GroupRecord,
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
    """Memory by host: what the groups placed so far are charged. Lives for one pass."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._charged: dict[str, int] = {}
        self._ranks: dict[NodeName, int] = {}
        for record in world.memory.groups.values():
            self._charge_record(record)

    def _charge_record(self, record: GroupRecord) -> None:
        deployment = self._world.desired.deployments.get(record.replica.deployment)
        model = self._world.desired.models.get(deployment.spec.model) if deployment else None
        if deployment and model:
            self.charge(record.members, deployment, model)

    def charge(self, members: Placed, deployment: ModelDeployment, model: Model, sign: int = 1) -> None:
        """Add a group's ranks (or, with ``sign`` -1, take them away)."""
        for name in members:
            host, weights = self._host(name), self._world.node(name).model(model.spec.source.path)
            need = rank_bytes(deployment, weights, len(members)) if weights else RANK_OVERHEAD_BYTES
            self._charged[host] = self._charged.get(host, 0) + sign * need
            self._ranks[name] = self._ranks.get(name, 0) + sign

    def free(self, name: NodeName) -> int:
        """Bytes of a node's host that no group is charged for, less the reserve."""
        report = self._world.node(name).report
        total = report.memory_bytes if report else 0
        return total - self._reserve(self._host(name)) - self._charged.get(self._host(name), 0)

    def ranks(self, name: NodeName) -> int:
        """Ranks placed on a node."""
        return self._ranks.get(name, 0)

    def _host(self, name: NodeName) -> str:
        report = self._world.node(name).report
        return report.host_id if report else f"node/{name}"

    def _reserve(self, host: str) -> int:
        """The largest reserve that any node of the host asks for: they speak of the same memory."""
        nodes = self._world.desired.nodes
        return max(
            (n.spec.memory.reserve for name, n in nodes.items() if self._host(name) == host), default=0
        )


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


def place(
    world: World, ledger: Ledger, replica: ReplicaId, deployment: ModelDeployment, model: Model
) -> Placed | Waiting | Refusal:
    """The nodes for a replica's group, in the order of ranks; else what is awaited, or why it cannot be."""
    matching = _matching(world, deployment)
    unknown = [name for name in matching if not _known(world, name)]
    usable, problem = _usable(world, matching, replica, model)
    wanted = deployment.spec.parallelism.nodes
    if len(usable) < wanted.min and unknown:
        names = ", ".join(unknown)
        return Waiting(replica.key, WaitingFor.AGENT, f"no answer yet from {names}", replica=replica)
    if len(usable) < wanted.min:
        return problem or _too_few(replica, wanted.min, len(usable))
    return _largest_fit(world, ledger, replica, deployment, usable)


def _matching(world: World, deployment: ModelDeployment) -> list[NodeName]:
    """Nodes that the deployment may use, by what the manifests say of them."""
    selector = deployment.spec.placement.node_selector.items()
    return [
        name
        for name, node in sorted(world.desired.nodes.items())
        if not node.spec.unschedulable and selector <= node.metadata.labels.items()
    ]


def _known(world: World, name: NodeName) -> bool:
    """Whether the node has said what it can run."""
    report = world.node(name).report
    return world.reached(name) and report is not None and report.runtime is not None


def _usable(
    world: World, names: list[NodeName], replica: ReplicaId, model: Model
) -> tuple[list[NodeName], Refusal | None]:
    """Nodes that could run a rank now, and the first reason why another could not."""
    usable: list[NodeName] = []
    problem: Refusal | None = None
    for name in names:
        node = world.node(name)
        if not _known(world, name):
            continue
        assert node.report is not None
        refusal = _unfit(name, node.report.runtime or {}, node.model(model.spec.source.path), replica, model)
        if refusal is None:
            usable.append(name)
        problem = problem or refusal
    return usable, problem


def _unfit(
    name: NodeName,
    runtime: Mapping[str, str],
    weights: ModelReport | None,
    replica: ReplicaId,
    model: Model,
) -> Refusal | None:
    path, title = model.spec.source.path, model.metadata.name
    if not runtime.get("mlx"):
        text = f"{name} has no mlx in its Python; install reconciler with its extra: reconciler[runtime]"
        return Refusal(replica.key, RefusedBecause.NO_RUNTIME, text, replica)
    if weights is None or not weights.present:
        where = weights.directory if weights else path
        text = f"model {title}: no weights at {where} on {name}; put them there or correct spec.source.path"
        return Refusal(replica.key, RefusedBecause.WEIGHTS_MISSING, text, replica)
    if weights.problem:
        text = f"model {title}: {weights.directory} on {name}: {weights.problem}"
        return Refusal(replica.key, RefusedBecause.WEIGHTS_UNUSABLE, text, replica)
    return None


def _too_few(replica: ReplicaId, wanted: int, usable: int) -> Refusal:
    text = f"needs {wanted} nodes, {usable} can be used; add Nodes or lower spec.parallelism.nodes"
    return Refusal(replica.key, RefusedBecause.NO_NODES, text, replica)


def _largest_fit(
    world: World, ledger: Ledger, replica: ReplicaId, deployment: ModelDeployment, usable: list[NodeName]
) -> Placed | Refusal:
    """As many nodes as there are within the bounds, and fewer where the model or the memory asks for it."""
    model = world.desired.models[deployment.spec.model]
    record = world.memory.groups.get(replica)
    before = record.members if record else ()
    ranked = sorted(usable, key=lambda n: (n not in before, ledger.ranks(n), n))
    wanted = deployment.spec.parallelism.nodes
    refusal: Refusal | None = None
    for size in range(min(wanted.max, len(ranked)), wanted.min - 1, -1):
        members = tuple(sorted(ranked[:size]))
        answer = _check(world, ledger, replica, deployment, members)
        if answer is None:
            ledger.charge(members, deployment, model)
            return members
        refusal = refusal or answer
    assert refusal is not None
    return refusal


def _check(
    world: World, ledger: Ledger, replica: ReplicaId, deployment: ModelDeployment, members: Placed
) -> Refusal | None:
    """Why these nodes will not do; None if they will."""
    model = world.desired.models[deployment.spec.model]
    needs: dict[str, int] = {}
    for name in members:
        node = world.node(name)
        weights = node.model(model.spec.source.path)
        assert weights is not None
        assert node.report is not None
        why = indivisible(weights.config, len(members))
        if why and strategy_of(deployment, weights.config, len(members)) == "tensor":
            text = f"model {deployment.spec.model} cannot be split by tensor over {len(members)} nodes: {why}"
            return Refusal(replica.key, RefusedBecause.NOT_DIVISIBLE, text, replica)
        host = node.report.host_id
        needs[host] = needs.get(host, 0) + rank_bytes(deployment, weights, len(members))
        if needs[host] > ledger.free(name):
            text = (
                f"needs {_gib(needs[host])} on the host of {name}, {_gib(max(0, ledger.free(name)))} are free; "
                "lower spec.serving.context or maxBatch, or add nodes"
            )
            return Refusal(replica.key, RefusedBecause.NO_MEMORY, text, replica)
    return None


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
