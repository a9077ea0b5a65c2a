"""Forms a group again that could be larger, or use an earlier transport, when that disturbs nobody.

The reason is a node or cable that is back, or a transport that failed and has been left alone for long enough. This is
rare, so that a cable that comes and goes costs no more than a few formations in an hour.

A transport that had failed is forgiven first.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from reconciler.planning.context import attempt_facts
from reconciler.planning.context.decision import Decision
from reconciler.planning.context.sharding import splits
from reconciler.planning.context.view import Formed
from reconciler.planning.context.workload import Workload
from reconciler.planning.placement.place import choose
from reconciler.planning.transport import fallback
from reconciler.planning.transport.fallback import Transport
from reconciler.state import Cause, FreeTransport, NodeName, TransportFailure, WaitingFor

PER_HOUR_MAX = 2
"""Most times in an hour that a replica is formed again for this."""
HOUR_SECONDS = 3600.0
_UP = (Cause.TRANSPORT_BACK.value, Cause.NODES_BACK.value)


@dataclass(frozen=True, slots=True)
class Improvement:
    """A better form of a group, and the time from which it may be formed."""

    cause: Cause
    text: str
    not_before: float
    quiet: bool

    def due(self, now: float) -> bool:
        return self.quiet and now >= self.not_before


def better(view: Formed) -> Improvement | None:
    """Return the larger group, or the earlier transport, that facts allow now; None if it is as good as it can
    be."""
    record, workload = view.record, view.workload
    if record.proven_at is None or workload is None:
        return None
    transports, now_used = view.deployment.spec.transport, fallback.used(record)
    full = not _could_be_larger(view, workload)
    if full and now_used in ("", transports[0]):
        return None  # true of nearly every group in nearly every pass, so the search below is skipped
    climbed = fallback.choose(view.world, view.replica, view.deployment.spec.transport, record.members)
    higher = isinstance(climbed, Transport) and _below(transports, now_used, climbed.name)
    if full and not higher:
        return None
    found = choose(view.world, view.ledger, workload)
    if not isinstance(found, tuple):
        return None
    placed, transport = found
    newcomers = [name for name in placed.members if name not in record.members]
    if len(placed.members) > len(record.members) and not _below(transports, transport.name, now_used):
        text = f"{', '.join(newcomers)} can be used: {len(placed.members)} nodes instead of {len(record.members)}"
        return _schedule(view, Cause.NODES_BACK, text, newcomers)
    if isinstance(climbed, Transport) and higher:
        failed = fallback.failure(view.world, view.replica, climbed.name)
        tried = "can be used" if failed is None else "is tried again"
        text = f"{climbed.name} {tried} instead of {now_used}"
        return _schedule(view, Cause.TRANSPORT_BACK, text, [])
    return None


def _could_be_larger(view: Formed, workload: Workload) -> bool:
    """Return whether its bounds, the number of nodes and its model allow a group of more nodes."""
    members, parallelism = view.record.members, view.deployment.spec.parallelism
    size = len(members)
    most = min(parallelism.nodes.max, len(view.world.desired.nodes))
    weights = view.world.node(members[0]).model(workload.path)
    if size >= most or weights is None or weights.examining:
        return size < most
    more = range(size + 1, most + 1)
    return any(isinstance(splits(parallelism.strategy, weights, ranks), tuple) for ranks in more)


def wait(view: Formed, found: Improvement) -> Decision:
    """Say what could be better, and what that waits for."""
    ahead = found.not_before > view.world.now
    until = found.not_before if ahead else None
    when = "later" if ahead else f"as soon as no request has come for {view.deployment.spec.growth.idle:g} s"
    text = f"{found.text}, {when}"
    return view.wait(WaitingFor.QUIET, text, until)


def _below(transports: tuple[str, ...], one: str, other: str) -> bool:
    """Return whether one transport comes after the other in the list; a single rank has none."""
    return one in transports and other in transports and transports.index(one) > transports.index(other)


def _schedule(view: Formed, cause: Cause, text: str, newcomers: list[NodeName]) -> Improvement:
    world, growth = view.world, view.deployment.spec.growth
    ups = sorted(a.at for a in world.memory.attempts.get(view.replica, ()) if a.cause in _UP)
    ups = [at for at in ups if at <= world.now]
    again = [at + HOUR_SECONDS for at in ups[-PER_HOUR_MAX:][:1] if len(ups) >= PER_HOUR_MAX]
    usable = [_not_before(world.node(name).since, growth.node_uptime, world.now) for name in newcomers]
    not_before = max([_not_before(view.record.created_at, growth.group_age, world.now), *again, *usable])
    first = view.current[0].report
    return Improvement(cause, text, not_before, first.demand == 0 and first.idle_seconds >= growth.idle)


def _not_before(at: float, seconds: float, now: float) -> float:
    """Return the end of a wait. One that began in the future was set before the clock went back, and is over."""
    return at + seconds if at <= now else now


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
