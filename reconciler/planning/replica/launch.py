"""Composes the launch of each rank of a group."""

from __future__ import annotations

from reconciler.planning.context.deadlines import KEEP_ALIVE_SECONDS, RENDEZVOUS_SECONDS, VERBS_SECONDS
from reconciler.planning.context.membership import certificate
from reconciler.planning.context.memory_needs import ModelNeeds, kv_cache_bytes, prefix_cache_bytes
from reconciler.planning.context.workload import Workload
from reconciler.planning.transport.fallback import Wiring
from reconciler.state import GroupRecord, earlier_context
from reconciler.state.formed_spec import written
from reconciler.wire import paths
from reconciler.wire.launch import LaunchSpec, RankConfig, RopeScaling
from reconciler.wire.node import ModelReport, NodeReport
from reconciler.wire.question import Pooling


def launch(
    record: GroupRecord,
    rank: int,
    workload: Workload,
    node: NodeReport,
    weights: ModelReport,
    wiring: Wiring,
) -> LaunchSpec:
    """Return how one rank of a group is started on its node, which ``node`` and ``weights`` describe."""
    serving, rank_id = workload.deployment.spec.serving, record.rank_id(rank)
    size, scaled, embedding = len(record.members), serving.rope_scaling, serving.embedding
    context = record.context or earlier_context(serving.context)
    needs = ModelNeeds.of_deployment(workload.deployment, context)
    accepts = wiring.accepted_at(record.port) if rank == 0 else ()
    config = RankConfig(
        id=rank_id,
        size=size,
        model_path=weights.directory,
        strategy=record.strategy,
        backend=wiring.backend,
        addresses=wiring.addresses(record.port),
        control=wiring.controls_at(record.port)[rank],
        secret=certificate(record.secret),
        socket=paths.rank_socket(node.run_directory, rank_id),
        context=context,
        batch_max=serving.max_batch,
        rendezvous_seconds=RENDEZVOUS_SECONDS,
        trust_remote_code=workload.model.spec.trust_remote_code,
        devices=wiring.devices,
        also_control=accepts[1:],
        prefer_ring=wiring.ring,
        verbs_seconds=VERBS_SECONDS,
        keep_alive_seconds=KEEP_ALIVE_SECONDS if wiring.devices else 0.0,
        fast_synch=workload.deployment.spec.fast_synch,
        prefix_cache_bytes=prefix_cache_bytes(needs, weights, record.strategy, size),
        kv_cache_bytes=kv_cache_bytes(needs, weights, record.strategy, size),
        rope_scaling=RopeScaling(scaled.type, scaled.factor, scaled.original_context) if scaled else None,
        pooling=Pooling(embedding.pooling, embedding.normalize) if embedding else None,
        prove=record.prove,
    )
    return LaunchSpec(
        id=rank_id,
        argv=workload.engine.argv(node.python),
        env=workload.engine.environment,
        config=config,
        group=record.fingerprint,
        memory_bytes=record.charges[rank],
        spare=True,
        transport=record.transport,
        formed_for=written(record.spec),
    )
