"""The routes for the gateway: the groups that may be used now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.resources import ModelDeployment
from reconciler.state import (
    DeploymentName,
    Desired,
    Ends,
    GroupRecord,
    Memory,
    NodeName,
    Observed,
    ObservedRank,
    Plan,
    ReplicaId,
    StopRank,
    WaitingFor,
    earlier_context,
)
from reconciler.state.identity import ObjectKey
from reconciler.wire.generation import Backend, Formed, Machine, Route, jump_key_name
from reconciler.wire.launch import Phase, RankId
from reconciler.wire.sampling import Repetition, SamplingDefaults

DEAF_SECONDS = 20.0
"""A rank 0 that takes no requests for this long gets none: any healthy one needs less time to read what waits."""


def serving(record: GroupRecord, observed: Observed) -> ObservedRank | None:
    """Return rank 0 of a group that may get requests, else None. The group must be proven, every rank was ready when
    last seen, and rank 0 takes requests. No later group of its replica may live, which an older copy of the store does
    not know.

    Ranks keep getting requests while their agent is down or hangs, because they run without it. If their node does not
    answer at all, they get none: it is then unknown whether they run, even if later only the agent turns out to be
    missing.
    """
    nodes = (observed.nodes.get(name) for name in record.members)
    if any(node is not None and node.silent for node in nodes):
        return None
    if any(rank.alive and rank.report.id.epoch > record.epoch for rank in observed.ranks_of(record.workload)):
        return None
    ranks = observed.group(record)
    members = [ranks.get(rank) for rank in range(len(record.members))]
    ready = all(r is not None and r.report.phase == Phase.READY and not r.killed for r in members)
    first = members[0]
    hears = first is not None and first.report.deaf_seconds < DEAF_SECONDS
    return first if ready and hears and record.proven_at is not None else None


FORMED_KEPT = 8
"""Groups of each replica in a route: a gateway that was stopped for a while needs earlier ones."""


def routes(desired: Desired, observed: Observed, memory: Memory, plan: Plan) -> tuple[Route, ...]:
    """Return a route for every deployment, with the groups that may be used now."""
    if desired.stopping:
        return ()
    waits = _back_offs(plan)
    return tuple(
        Route(
            model=name,
            aliases=deployment.spec.serving.aliases,
            context=_context(name, deployment, memory),
            created=int(desired.created.get(ObjectKey("ModelDeployment", name), 0)),
            backends=_backends(name, deployment, desired, observed, memory, plan),
            stall_seconds=deployment.spec.health.stall_after,
            replicas=deployment.spec.replicas,
            formed=tuple(_formed(name, deployment, memory)),
            attempt_at=_attempt_at(name, deployment, waits),
            batch=deployment.spec.serving.max_batch,
            sampling=SamplingDefaults(**dict(deployment.spec.serving.sampling)),
            thinking=deployment.spec.serving.thinking,
            max_stall_seconds=deployment.spec.serving.max_stall,
            embeds=_embeds(deployment, desired, observed),
            repetition=_repetition(deployment),
            refused=_refused(name, plan),
        )
        for name, deployment in sorted(desired.deployments.items())
        if deployment.spec.replicas
    )


def _refused(name: DeploymentName, plan: Plan) -> str:
    """Return the reason why a deployment is not served until a person acts; empty if there is none."""
    of = ObjectKey("ModelDeployment", name)
    return next(
        (each.reason.value for each in plan.refused if each.object == of),
        "",
    )


def _repetition(deployment: ModelDeployment) -> Repetition | None:
    """Return the repetition that ends an answer; None if none does."""
    wanted = deployment.spec.serving.stop_repetition
    if wanted is None:
        return None
    return Repetition(wanted.max_pattern_size, wanted.min_pattern_size, wanted.min_count)


def _embeds(deployment: ModelDeployment, desired: Desired, observed: Observed) -> bool:
    """Return whether a model is for embeddings: as declared, else as its files say on a node that has read these."""
    if deployment.spec.serving.embedding is not None:
        return True
    model = desired.models.get(deployment.spec.model)
    report = observed.reusing.get(model.spec.source.folder) if model is not None else None
    return report is not None and report.embeds


def _context(name: DeploymentName, deployment: ModelDeployment, memory: Memory) -> int:
    """Return the most tokens that every group takes; 0 while no group has decided it."""
    wanted = deployment.spec.serving.context
    decided = [record.context or earlier_context(wanted) for record in memory.groups_of(name)]
    return min(decided, default=wanted if isinstance(wanted, int) else 0)


def _formed(name: DeploymentName, deployment: ModelDeployment, memory: Memory) -> Iterator[Formed]:
    """Yield the latest groups of each replica, oldest first."""
    for index in _indexes(deployment):
        for attempt in memory.attempts.get(ReplicaId(name, index), ())[-FORMED_KEPT:]:
            yield Formed(index, attempt.epoch, attempt.suspicion.value)


def _back_offs(plan: Plan) -> dict[ReplicaId, float]:
    """Return the end of the back-off of each replica that waits for it."""
    return {
        waiting.workload: waiting.until
        for waiting in plan.waiting
        if waiting.reason is WaitingFor.BACK_OFF
        and isinstance(waiting.workload, ReplicaId)
        and waiting.until is not None
    }


def _attempt_at(name: DeploymentName, deployment: ModelDeployment, waits: Mapping[ReplicaId, float]) -> float:
    """Return the time of the next attempt to form any group, if all wait for their back-offs; else 0."""
    found = [waits.get(ReplicaId(name, index)) for index in range(deployment.spec.replicas)]
    known = [at for at in found if at is not None]
    return min(known) if len(known) == len(found) else 0.0


def _indexes(deployment: ModelDeployment) -> range:
    """Return the numbers of a deployment's replicas, including extra ones."""
    count = deployment.spec.replicas
    return range(count + deployment.spec.strategy.extra(count))


def _backends(
    name: DeploymentName,
    deployment: ModelDeployment,
    desired: Desired,
    observed: Observed,
    memory: Memory,
    plan: Plan,
) -> tuple[Backend, ...]:
    found = []
    for record in memory.groups_of(name):
        index = record.workload.index
        first = serving(record, observed)
        if first and index >= deployment.spec.replicas and _is_stopped(first.report.id, memory, plan):
            continue  # an extra replica whose time is over
        if first:
            machine = _machine(first.node, desired, observed, memory)
            members = tuple(record.members)
            found.append(Backend(index, record.epoch, first.report.socket, first.node, machine, members))
    return tuple(found)


def _is_stopped(rank: RankId, memory: Memory, plan: Plan) -> bool:
    return rank in memory.stops or any(isinstance(step, StopRank) and step.id == rank for step in plan.steps)


def _machine(name: NodeName, desired: Desired, observed: Observed, memory: Memory) -> Machine | None:
    """Return the SSH server of a node on another machine for the gateway, with the controller's resolved address if
    known, because host names may depend on the user's own configuration."""
    wanted = desired.nodes.get(name)
    access = wanted.spec if wanted else memory.agents.get(name)
    if access is None or access.ssh is None:
        return None
    ssh, seen = access.ssh, observed.nodes.get(name)
    ends = seen.ends if seen else Ends()
    key = " ".join(ssh.host_key.split()[:2])
    if ends.jumps:
        return Machine(*ends.inner, ssh.user, key, ends.jumps, jump_key_name(name))
    return Machine(ends.there or ssh.host, ends.port or ssh.port, ssh.user, key)
