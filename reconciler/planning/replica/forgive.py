"""Decides when a transport that had failed a replica is forgiven, so that its group may return to it."""

from __future__ import annotations

from itertools import pairwise

from reconciler.planning.context import attempt_facts
from reconciler.planning.context.decision import Decision
from reconciler.planning.context.view import Formed
from reconciler.planning.transport import fallback
from reconciler.state import FreeTransport, TransportFailure


def forgive(view: Formed) -> Decision | None:
    """Allow a failed transport again when a fact that it failed under has changed, when it turns out that a request had
    ended its group, or when the group has answered over it since."""
    failures = view.world.memory.transport_failures.get(view.replica, ())
    if not failures:
        return None
    now = view.current_facts(tuple(sorted(view.world.desired.nodes)))
    for failure in failures:
        changed = (
            ", ".join(map(str, attempt_facts.changes(failure.facts, now)))
            or _acquitted(view, failure)
            or _served_again(view, failure)
        )
        if changed:
            return Decision(steps=(FreeTransport(view.replica, failure.transport, changed),))
    return None


def _acquitted(view: Formed, failure: TransportFailure) -> str:
    """Say that a transport was given up for a group that a request had ended; empty if it was not."""
    for ended, attempt in pairwise(view.world.memory.attempts.get(view.replica, ())):
        if attempt.at == failure.at and ended.epoch in view.world.ended_by_requests(view.replica):
            return f"a request had ended epoch {ended.epoch} on it"
    return ""


def _served_again(view: Formed, failure: TransportFailure) -> str:
    """Say that a group has answered over a transport that had failed; empty if it has not."""
    again = fallback.used(view.record) == failure.transport and view.record.proven_at is not None
    return f"{failure.transport} serves again" if again else ""
