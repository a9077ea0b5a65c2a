"""The input of a status, and its parts for one object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from reconciler.state import Contact, Desired, Memory, NodeName, Observed, Plan, ReplicaId
from reconciler.state.identity import ObjectKey
from reconciler.state.reports.status import ObjectStatus

Statuses = Mapping[ObjectKey, ObjectStatus]


@dataclass(frozen=True, slots=True)
class Snapshots:
    """The input of a status."""

    desired: Desired
    observed: Observed
    memory: Memory
    plan: Plan
    now: float

    def wants(self, replica: ReplicaId) -> bool:
        """Return whether a replica is asked for, or serves beside those that are."""
        return replica in self.desired.replicas() or is_extra(replica, self.desired, self.memory, self.plan)

    def about_to_report(self, name: NodeName) -> bool:
        """Return whether a node's facts are unknown and come soon: its agent is being started, or probes run for the
        first time since the controller or the machine was."""
        seen = self.observed.nodes.get(name)
        if seen is None or seen.contact is Contact.UNREACHABLE:
            return False
        return not (seen.probed if seen.contact is Contact.REACHED else self.memory.unstarted(name))


def is_extra(replica: ReplicaId, desired: Desired, memory: Memory, plan: Plan) -> bool:
    """Return whether a replica serves beside those that the manifests ask for: while these are changed, or because it
    ends only when enough of them serve."""
    if replica not in memory.groups or replica in desired.replicas():
        return False
    return desired.may_be_extra(replica) or plan.holds(replica)


class ConditionState(NamedTuple):
    """A condition as it is now, without its history."""

    type: str
    status: bool
    reason: str
    message: str


class Readiness(NamedTuple):
    """Whether an object matches its spec, and the status fields beside conditions."""

    ready: bool
    reason: str
    message: str
    extra: dict[str, Any]
