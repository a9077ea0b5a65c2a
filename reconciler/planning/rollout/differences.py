"""Compares a group with the spec that its replica is to get."""

from __future__ import annotations

from reconciler.planning.context import workload as workloads
from reconciler.planning.context.world import World
from reconciler.state import GroupRecord, ReplicaId
from reconciler.state.formed_spec import FormedSpec

from . import specs
from .costs import kind
from .misfits import misfit
from .wish import Wish


def difference(world: World, found: Wish, replica: ReplicaId) -> str:
    """Say how the group of a replica differs from the spec that it is to get; empty if it does not, or there is no
    group."""
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
    """Say what another spec changes, and the kind of the change."""
    if found.returned:
        return f"back to {found.returned}"
    if not record.spec or found.model is None:
        return "its manifest has changed"
    wanted = FormedSpec.of(found.deployment, found.model)
    changes = specs.shown_changes(record.spec, wanted)
    return f"{changes} ({kind(record.spec, wanted).value})" if changes else "a restart was asked for"
