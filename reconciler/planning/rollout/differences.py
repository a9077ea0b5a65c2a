"""In what a group differs from the spec that its replica is to come to."""

from __future__ import annotations

from reconciler.planning.context import workload as workloads
from reconciler.planning.context.world import World
from reconciler.state import GroupRecord, ReplicaId

from . import specs
from .costs import kind
from .misfits import misfit
from .wish import Wish


def difference(world: World, found: Wish, replica: ReplicaId) -> str:
    """Say in what the group of a replica differs from the spec that it is to come to; empty where it does not, and where
    it has none."""
    record = world.memory.groups.get(replica)
    return _difference(world, found, record) if record else ""


def _difference(world: World, found: Wish, record: GroupRecord) -> str:
    if found.model is None:
        return "its model is gone"
    wanted = workloads.of(world.desired, record.replica, found.deployment, found.model)
    if not wanted.is_served_by(record.fingerprint, record.context):
        return _changed(found, record)
    return misfit(world.desired.nodes, found.deployment, record)


def _changed(found: Wish, record: GroupRecord) -> str:
    """Say what another spec asks for, and what that takes."""
    if found.returned:
        return f"back to {found.returned}"
    if not record.spec or found.model is None:
        return "its manifest has changed"
    wanted = specs.write(found.deployment, found.model)
    changes = specs.shown_changes(record.spec, wanted)
    return f"{changes} ({kind(record.spec, wanted).value})" if changes else "a restart was asked for"
