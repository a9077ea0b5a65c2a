"""Plans steps for agents, and for the leftovers of ranks on nodes."""

from __future__ import annotations

from reconciler.planning.context.decision import NOTHING, Decision, wait_for_node
from reconciler.planning.context.lost_nodes import is_lost, lost_at
from reconciler.planning.context.world import World
from reconciler.state import (
    Contact,
    ForgetAgent,
    ForgetRank,
    NodeName,
    ReplicaId,
    StartAgent,
    StopAgent,
    WaitingFor,
)
from reconciler.wire.node import HeldBy

from . import gateways, leftovers, runtimes

EPOCHS_KEPT = 2
"""Number of epochs of a replica, the current one included, whose logs stay on the nodes."""


def decide(world: World, name: NodeName) -> Decision:
    """Start the agent of a node that should have one; stop the agent of a node that should not."""
    node = world.node(name)
    wanted = name in world.desired.nodes and not world.desired.stopping
    started = name in world.memory.agents
    tied = _occupied(world, name) or _remembers(world, name) or name in world.memory.members
    unknown = started and node.report is None  # it may have ranks: only its agent can tell
    needed = wanted or tied or unknown
    gone = _abandon(world, name, wanted, started)
    if gone is not None and f"node/{name}" not in world.memory.in_flight:
        return gone
    if world.memory.in_flight & {f"node/{name}", f"repair/{name}"}:
        return wait_for_node(name, WaitingFor.STEP, "something is being done about it")
    if node.contact is Contact.UNKNOWN:
        return wait_for_node(name, WaitingFor.AGENT, "looking for its agent") if needed else NOTHING
    if node.contact is Contact.UNREACHABLE:
        return _unanswered(world, name) if needed or started else NOTHING
    if node.contact is Contact.AGENT_DOWN and needed:
        return _start(world, name)
    behind = _behind(world, name) if wanted else ""
    if behind and world.seen_since_last_write(name):
        return Decision(steps=(StartAgent(name, world.access(name), behind),))
    if needed or (node.contact is Contact.AGENT_DOWN and not started):
        return NOTHING
    if gateways.ends(world, name):
        return wait_for_node(name, WaitingFor.STEP, "its gateway ends first")
    if node.contact is Contact.AGENT_DOWN:
        return Decision(steps=(ForgetAgent(name),))
    if not world.seen_since_last_write(name):
        return wait_for_node(name, WaitingFor.OBSERVATION, "waiting for a newer report from it")
    return Decision(steps=(StopAgent(name),))


def _start(world: World, name: NodeName) -> Decision:
    if runtimes.retried_first(world, name):
        return wait_for_node(name, WaitingFor.STEP, "its runtime is being built")
    return Decision(steps=(StartAgent(name, world.access(name)),))


def _behind(world: World, name: NodeName) -> str:
    """Say why the running agent is not the one that this controller would start; empty if it is."""
    report, ours = world.node(name).report, world.memory.agent_file
    if report is not None and ours not in ("", report.agent_file):
        return f"{report.agent_file or 'an older one'} by {ours}"
    if report is not None and report.held_by == HeldBy.LEFT:
        return "its SSH session is over"
    python = world.access(name).python if ours else None
    if report is None or python is None:
        return runtimes.behind(world, name)
    return f"python {report.python} by {python}" if python != report.python else ""


def _unanswered(world: World, name: NodeName) -> Decision:
    """Wait for a node whose ranks can be neither seen nor ended."""
    if is_lost(world, name):
        return wait_for_node(name, WaitingFor.AGENT, "it is quarantined until it answers")
    at = lost_at(world, name)
    return wait_for_node(name, WaitingFor.AGENT, "waiting for its answer", at)


def _abandon(world: World, name: NodeName, wanted: bool, started: bool) -> Decision | None:
    """Forget the agent of a lost node that nobody wants, once no group has a rank there."""
    used = name in world.memory.members
    if wanted or used or not started or not is_lost(world, name):
        return None
    ranks = [rank.title for rank in world.observed.ranks_on(name) if rank.alive]
    what = ", ".join(["its agent", *ranks])
    return Decision(steps=(ForgetAgent(name, f"it does not answer, and {what} may go on there"),))


def _occupied(world: World, name: NodeName) -> bool:
    """Return whether ranks there have to end first. One that nothing ends needs no agent."""
    return any(rank.alive and not rank.unkillable for rank in world.observed.ranks_on(name))


def _remembers(world: World, name: NodeName) -> bool:
    """Return whether ranks there, ended ones too, have later epochs than the store knows: it has lost them."""
    wanted, known = world.desired.replicas(), world.memory.last_epochs
    return any(
        rank.workload in wanted and rank.report.id.epoch > known.get(rank.workload, 0)
        for rank in world.observed.ranks_on(name)
    )


def forget(world: World, name: NodeName) -> Decision:
    """Remove the directories of ended ranks, except for the newest epochs of living replicas."""
    if world.desired.stopping or not world.seen_since_last_write(name):
        return NOTHING
    # Leftovers of a rank are known from its directory alone, so it stays while there are any.
    gone = [
        rank for rank in world.observed.ranks_on(name) if not rank.alive and not leftovers.has_leftovers(rank)
    ]
    steps = tuple(
        ForgetRank(rank.workload, name, rank.report.id)
        for rank in gone
        if isinstance(rank.workload, ReplicaId)
        and _outdated(world, rank.workload, rank.report.id.epoch)
        and f"rank/{rank.report.id}" not in world.memory.in_flight
    )
    return Decision(steps=steps) if steps else NOTHING


def _outdated(world: World, replica: ReplicaId, epoch: int) -> bool:
    record = world.memory.groups.get(replica)
    if record is None:
        # After a loss of the store, only these ranks show which epoch was the last.
        return replica not in world.desired.replicas()
    failed = world.observed.failed(replica) if record.proven_at is None else None
    if failed is not None and failed.report.id.epoch == epoch:
        return False  # nothing has served since: its log says why
    return epoch <= record.epoch - EPOCHS_KEPT
