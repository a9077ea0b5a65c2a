"""Memory: what each host has left, and what a rank needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from reconciler.resources import ModelDeployment
from reconciler.state import NodeName, ReplicaId
from reconciler.wire.node import ModelReport

from .lost import is_lost
from .sharding import number, text_config
from .world import World

RANK_OVERHEAD_BYTES = 512 * 2**20
"""Python, MLX and the activations of one rank."""
CONTEXT_STEP = 1024
"""Contexts are suggested in whole thousands where they are that large."""
CONTEXT_MIN = 16

Placed = tuple[NodeName, ...]


class Ledger:
    """Memory by host: what ranks are charged that live or may live. Lives for one pass.

    What runs is charged as it was placed, whatever the manifests have come to say since.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._charged: Counter[str] = Counter()
        """Bytes by host."""
        self._ranks: Counter[NodeName] = Counter()
        self._own: dict[ReplicaId, list[tuple[NodeName, int]]] = {}
        """What each replica is charged: node and bytes of each of its ranks."""
        self._reserves: dict[str, int] = {}
        """The largest reserve that any node of a host asks for: they speak of the same memory."""
        self._limits: dict[str, int] = {}
        """The smallest limit that any node of a host sets, where one does."""
        for name, node in world.desired.nodes.items():
            host, memory = self.host(name), node.spec.memory
            self._reserves[host] = max(self._reserves.get(host, 0), memory.reserve)
            if memory.limit is not None:
                self._limits[host] = min(self._limits.get(host, memory.limit), memory.limit)
        for replica, record in world.memory.groups.items():
            self.charge(replica, record.members, record.rank_bytes)
        for rank in world.observed.ranks():
            known = world.memory.groups.get(rank.replica)
            if rank.alive and (known is None or rank.report.id.epoch != known.epoch):
                likely = known.rank_bytes if known else RANK_OVERHEAD_BYTES
                self.charge(rank.replica, (rank.node,), rank.report.memory_bytes or likely)

    def charge(self, replica: ReplicaId, members: Placed, rank_bytes: int) -> None:
        """Add one rank on each of these nodes. What a lost node runs is not given back when its replica moves."""
        for name in members:
            self._charged[self.host(name)] += rank_bytes
            self._ranks[name] += 1
            if not is_lost(self._world, name):
                self._own.setdefault(replica, []).append((name, rank_bytes))

    def free(self, name: NodeName, replacing: ReplicaId) -> int:
        """Bytes of a node's host that are left, as if the ranks of ``replacing`` were gone already."""
        report = self._world.node(name).report
        if report is None:
            return 0
        host = report.host_id
        own = sum(size for node, size in self._own.get(replacing, ()) if self.host(node) == host)
        room = report.memory_bytes - self._reserves.get(host, 0)
        return min(room, self._limits.get(host, room)) - (self._charged[host] - own)

    def ranks(self, name: NodeName, replacing: ReplicaId) -> int:
        """Ranks on a node, but for those of ``replacing``."""
        return self._ranks[name] - sum(node == name for node, _ in self._own.get(replacing, ()))

    def host(self, name: NodeName) -> str:
        """The machine behind a node."""
        report = self._world.node(name).report
        return report.host_id if report else f"node/{name}"


def rank_bytes(deployment: ModelDeployment, weights: ModelReport, ranks: int) -> int:
    """What one rank needs: its share of the weights and of the KV cache, and the process itself."""
    serving = deployment.spec.serving
    cache = kv_bytes_per_token(weights.config) * serving.context * serving.max_batch
    return (weights.weights_bytes + cache) // ranks + RANK_OVERHEAD_BYTES


def kv_bytes_per_token(config: Mapping[str, Any]) -> int:
    """The KV cache of one token: 2 x layers x KV heads x head size x bytes a value."""
    config = text_config(config)
    heads = number(config, "num_attention_heads", 1)
    kv_heads = number(config, "num_key_value_heads", heads)
    head = number(config, "head_dim", number(config, "hidden_size") // max(1, heads))
    value_bytes = 4 if config.get("torch_dtype", config.get("dtype")) == "float32" else 2
    return 2 * number(config, "num_hidden_layers") * kv_heads * head * value_bytes


def fitting(deployment: ModelDeployment, weights: ModelReport, ranks: int, free: int) -> tuple[int, int]:
    """The largest context with the wished batch, and the largest batch with the wished context, that so many
    bytes on each node allow; 0 for none."""
    serving = deployment.spec.serving
    per_token = max(1, kv_bytes_per_token(weights.config))
    tokens = ((free - RANK_OVERHEAD_BYTES) * ranks - weights.weights_bytes) // per_token
    context = min(serving.context, max(0, tokens) // serving.max_batch)
    if context >= CONTEXT_STEP:
        context -= context % CONTEXT_STEP
    batch = min(serving.max_batch, max(0, tokens) // serving.context)
    return (context if context >= CONTEXT_MIN else 0), batch


def gib(size: int) -> str:
    """Bytes for people."""
    return f"{size / 2**30:.1f} GiB"
