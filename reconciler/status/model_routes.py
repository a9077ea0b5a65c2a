"""The routes for the gateway: the groups that may be used now."""

from __future__ import annotations

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
    ReplicaId,
)
from reconciler.state.identity import ObjectKey
from reconciler.wire.generation import Backend, Machine, Route, jump_key_name
from reconciler.wire.launch import Phase


def serving(record: GroupRecord, observed: Observed) -> ObservedRank | None:
    """Return rank 0 of a group that may be routed to: proven, and every rank ready when last seen; else None.

    Ranks stay routed while their agent is down for a moment, because they run without it. They do not if their node
    does not answer at all: whether they run is then unknown, even if later only the agent turns out to be missing.
    """
    nodes = (observed.nodes.get(name) for name in record.members)
    if any(node is not None and node.silent for node in nodes):
        return None
    ranks = observed.group(record)
    members = [ranks.get(rank) for rank in range(len(record.members))]
    ready = all(r is not None and r.report.phase == Phase.READY for r in members)
    return members[0] if ready and record.proven_at is not None else None


def routes(desired: Desired, observed: Observed, memory: Memory) -> tuple[Route, ...]:
    """Return a route for every deployment, with the groups that may be used now."""
    if desired.stopping:
        return ()
    return tuple(
        Route(
            model=name,
            aliases=deployment.spec.serving.aliases,
            context=deployment.spec.serving.context,
            created=int(desired.created.get(ObjectKey("ModelDeployment", name), 0)),
            backends=_backends(name, deployment, desired, observed, memory),
            stall_seconds=deployment.spec.health.stall_after,
        )
        for name, deployment in sorted(desired.deployments.items())
        if deployment.spec.replicas
    )


def _backends(
    name: DeploymentName, deployment: ModelDeployment, desired: Desired, observed: Observed, memory: Memory
) -> tuple[Backend, ...]:
    found = []
    for index in range(deployment.spec.replicas):
        record = memory.groups.get(ReplicaId(name, index))
        first = serving(record, observed) if record else None
        if record and first:
            machine = _machine(first.node, desired, observed, memory)
            found.append(Backend(index, record.epoch, first.report.socket, first.node, machine))
    return tuple(found)


def _machine(name: NodeName, desired: Desired, observed: Observed, memory: Memory) -> Machine | None:
    """Return how the gateway connects to a node on another machine: at the controller's resolved address if known,
    because host names may depend on the user's own configuration."""
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
