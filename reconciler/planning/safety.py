"""Reports what keeps newer manifests out, and what keeps the controller from writing."""

from __future__ import annotations

from reconciler.state import Desired, Memory, Refusal, RefusedBecause, Waiting, WaitingFor
from reconciler.state.identity import CLUSTER

from .context.decision import Decision, wait

LOCK_SECONDS = 1.0
"""Seconds until a locked store is tried again."""


def held_revision(desired: Desired) -> Decision:
    """Report a newer revision, single changes of it, or newer operations, that are not in force."""
    refused = []
    if desired.hold is not None:
        refused.append(Refusal(CLUSTER, RefusedBecause.HELD, desired.hold.text))
    if desired.rejection is not None:
        refused.append(Refusal(CLUSTER, RefusedBecause.REJECTED, desired.rejection.line))
    if desired.operations_rejection is not None:
        refused.append(Refusal(CLUSTER, RefusedBecause.REJECTED, desired.operations_rejection.line))
    waiting = []
    if desired.suspended is not None:
        until = desired.suspended.operation.spec.until
        waiting.append(Waiting(CLUSTER, WaitingFor.SUSPENDED, desired.suspended.text, until))
    if desired.held_changes is not None:
        waiting += [
            Waiting(change.object, WaitingFor.WINDOW, change.text, change.until)
            for change in desired.held_changes.changes
        ]
    return Decision(waiting=tuple(waiting), refused=tuple(refused))


def unwritable(memory: Memory) -> Decision:
    """Report that nothing new can be started while no epoch can be written."""
    if not memory.unwritable:
        return Decision()
    text = f"{memory.unwritable}; make room, or make it writable: it is retried automatically"
    return Decision(refused=(Refusal(CLUSTER, RefusedBecause.UNWRITABLE, text),))


def locked(memory: Memory, now: float) -> Decision:
    """Report that steps that need a write first wait for the process that has locked the store."""
    if not memory.locked:
        return Decision()
    text = f"{memory.locked} (lsof shows which one); writing is tried every second, and all else goes on"
    return wait(CLUSTER, WaitingFor.STORE, text, now + LOCK_SECONDS)
