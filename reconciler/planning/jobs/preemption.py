"""Says which replicas leave their nodes for a job: only those whose deployment and whose job both allow it."""

from __future__ import annotations

from reconciler.planning.context.view import Formed, Wanted
from reconciler.planning.context.world import World
from reconciler.state import GroupRecord, NodeName, RunId


def claimed(view: Formed) -> list[NodeName]:
    """List the nodes of a group that a job has been given and that cannot hold both."""
    theirs = {name for _, record in _claims(view) for name in record.members}
    return [name for name in view.members if name in theirs and view.ledger.overcommitted(name)]


def holding(view: Wanted) -> list[RunId]:
    """List the runs for which a replica may have to wait until its nodes are given back."""
    return [run for run, _ in _claims(view)]


def _claims(view: Wanted) -> list[tuple[RunId, GroupRecord]]:
    spec = view.deployment.spec
    return [
        (run, record)
        for run, record, priority in view.world.once_as_decided(_preempting)
        if spec.preemptible and spec.priority < priority
    ]


def _preempting(world: World) -> list[tuple[RunId, GroupRecord, int]]:
    """List the runs that may take nodes from deployments, with their groups and priorities."""
    jobs = world.desired.jobs
    return [
        (id, record, jobs[id.job].spec.priority)
        for id, record in sorted(world.memory.groups.items())
        if isinstance(id, RunId) and id.job in jobs and jobs[id.job].spec.preempt
    ]
