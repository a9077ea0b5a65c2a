"""The input of a status, and its parts for one object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from reconciler.state import Contact, Desired, Memory, NodeName, Observed, Plan, ReplicaId
from reconciler.state.identity import ObjectKey
from reconciler.state.reports.status import Condition, ObjectStatus

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
        """Return whether a replica is wanted, or serves as an extra one."""
        extra = replica in self.memory.groups and self.desired.may_be_extra(replica)
        return extra or replica in self.desired.replicas()

    @property
    def reported(self) -> frozenset[NodeName]:
        """Return the nodes whose agent has reported since the controller started."""
        return frozenset(name for name, seen in self.observed.nodes.items() if seen.report is not None)

    def about_to_report(self, name: NodeName) -> bool:
        """Return whether a node's facts are unknown and come soon: its agent is being started, or probes run for the
        first time since the start of the controller or the machine."""
        seen = self.observed.nodes.get(name)
        if seen is None or seen.contact is Contact.UNREACHABLE:
            return False
        return not (seen.probed if seen.contact is Contact.REACHED else self.memory.unstarted(name))


class ConditionState(NamedTuple):
    """A condition as it is now, without its history."""

    type: str
    status: bool
    reason: str
    message: str
    person: str = ""
    """The exact steps that only a person can take; empty if there are none."""

    def at(self, now: float, generation: int, before: Condition | None) -> Condition:
        """Return the condition of this generation; ``before``, the last one of its type, if nothing has changed."""
        since = before.since if before is not None and before.status == self.status else now
        found = Condition(*self[:4], since, generation, self.person)
        return before if before is not None and before == found else found


class Readiness(NamedTuple):
    """The readiness of an object, with the fields of its status in addition to conditions."""

    ready: bool
    reason: str
    message: str
    extra: Mapping[str, Any]
    person: str = ""
    """The exact steps that only a person can take; empty if there are none."""
