"""The operations, with the standing of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from reconciler.resources.operation import Operation
from reconciler.resources.verbs import CLUSTER_KIND


@dataclass(frozen=True, slots=True)
class Operations:
    """All operations at one commit of their branch."""

    revision: str = ""
    """Id of the commit; empty if there is none."""
    items: tuple[Operation, ...] = ()

    def expiry(self, now: float) -> float | None:
        """Return the time at which the next operation ends; None if none will."""
        ends = (operation.spec.until for operation in self.items)
        return min((end for end in ends if end is not None and end > now), default=None)

    def approved(self, in_force: str | None, now: float) -> frozenset[str]:
        """Return the revisions whose removals from the one in force are approved."""
        approvals = self._active("approve", now)
        return frozenset(each.spec.target.name for each in approvals if each.spec.over == in_force)

    def suspension(self, now: float) -> Operation | None:
        """Return the operation that keeps out new revisions; None if they come into force."""
        return next((o for o in self._active("suspend", now) if o.spec.target.kind == CLUSTER_KIND), None)

    def overridden(self, now: float) -> frozenset[str]:
        """Return the sync windows that let everything in for now."""
        return frozenset(each.spec.target.name for each in self._active("override", now))

    def _active(self, verb: str, now: float) -> Iterator[Operation]:
        return (o for o in self.items if o.spec.verb == verb and not expired(o, now))


class Standing(StrEnum):
    """The standing of an operation."""

    IN_FORCE = "InForce"
    AGREES = "AgreesWithGit"
    """The manifest says the same."""
    EXPIRED = "Expired"
    NO_TARGET = "TargetNotFound"


@dataclass(frozen=True, slots=True)
class Effect:
    """An operation with its standing."""

    operation: Operation
    standing: Standing


def expired(operation: Operation, now: float) -> bool:
    """Return whether an operation has ended at ``now``, in seconds since the Unix epoch."""
    return operation.spec.until is not None and operation.spec.until <= now
