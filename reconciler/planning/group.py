"""What a group is made of: its wish's fingerprint, its ports, and the launch of each rank."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from reconciler.resources import Model, ModelDeployment
from reconciler.state import GroupRecord
from reconciler.wire import paths
from reconciler.wire.launch import LaunchSpec, RankConfig
from reconciler.wire.node import ModelReport, NodeReport

from .deadlines import KEEP_ALIVE_SECONDS, RENDEZVOUS_SECONDS, VERBS_SECONDS
from .rungs import Wiring

PORT_FIRST = 21_000
PORT_LAST = 28_999
"""Below the ephemeral ports of Linux (from 32768) and macOS (from 49152), so that no client has one by chance."""


def fingerprint(deployment: ModelDeployment, model: Model) -> str:
    """Equal for two wishes exactly when a running group serves both alike, without a restart.

    Replicas, aliases, labels and the number of nodes within bounds are no part of it.
    """
    spec = deployment.spec
    wish: dict[str, Any] = {
        "model": _weights(model),
        "strategy": spec.parallelism.strategy,
        "context": spec.serving.context,
        "maxBatch": spec.serving.max_batch,
    }
    if spec.fast_synch:
        wish["fastSynch"] = True
    if spec.restarted_at is not None:  # only then, so that groups formed before the field existed stay
        wish["restartedAt"] = spec.restarted_at
    return hashlib.sha256(json.dumps(wish, sort_keys=True).encode()).hexdigest()[:16]


def _weights(model: Model) -> dict[str, Any]:
    """What of a Model its ranks depend on; for a path as it was written before there were other sources."""
    hub = model.spec.source.huggingface
    source = {"repo": hub.repo, "revision": hub.revision} if hub else {"path": model.spec.source.path}
    return {"source": source, "trustRemoteCode": model.spec.trust_remote_code}


def first_ports(cursor: int, count: int, used: Iterable[range]) -> int:
    """The first of ``count`` adjacent ports at or after ``cursor`` that are not ``used``."""
    taken = {port for ports in used for port in ports}
    port = cursor if PORT_FIRST <= cursor <= PORT_LAST else PORT_FIRST
    for _ in range(PORT_LAST - PORT_FIRST):
        if port + count - 1 > PORT_LAST:
            port = PORT_FIRST
        if taken.isdisjoint(range(port, port + count)):
            return port
        port += 1
    raise AssertionError("more groups than ports")


def secret(entropy: str, replica: object, epoch: int) -> str:
    """A group's secret, of 256 bits."""
    return hashlib.sha256(f"{entropy}/{replica}/{epoch}".encode()).hexdigest()


def launch(
    record: GroupRecord,
    rank: int,
    wish: tuple[ModelDeployment, Model],
    reports: tuple[NodeReport, ModelReport],
    wiring: Wiring,
) -> LaunchSpec:
    """How one rank of a group is started on its node, which ``reports`` describe."""
    deployment, model = wish
    node, weights = reports
    rank_id = record.rank_id(rank)
    size = len(record.members)
    addresses = tuple(f"{host}:{record.port + i}" for i, host in enumerate(wiring.hosts))
    controls = [
        f"{host}:{record.port + size}" for host in wiring.controls or wiring.hosts[:1] * max(1, size - 1)
    ]
    accepts = tuple(dict.fromkeys(controls)) if rank == 0 else ()
    config = RankConfig(
        id=rank_id,
        size=size,
        model_path=weights.directory,
        strategy=record.strategy,
        backend=wiring.backend,
        addresses=addresses,
        control=controls[max(0, rank - 1)],
        secret=record.secret,
        socket=paths.rank_socket(node.run_directory, rank_id),
        context=deployment.spec.serving.context,
        batch_max=deployment.spec.serving.max_batch,
        rendezvous_seconds=RENDEZVOUS_SECONDS,
        trust_remote_code=model.spec.trust_remote_code,
        devices=wiring.devices,
        also_control=accepts[1:],
        prefer_ring=wiring.ring,
        verbs_seconds=VERBS_SECONDS,
        keep_alive_seconds=KEEP_ALIVE_SECONDS if wiring.backend == "jaccl" else 0.0,
        fast_synch=deployment.spec.fast_synch,
    )
    return LaunchSpec(
        id=rank_id,
        argv=(node.python, "-m", "reconciler.runner"),
        env={"HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"},
        config=config,
        group=record.fingerprint,
        memory_bytes=record.charges[rank],
        spare=True,
        transport=record.transport,
    )
