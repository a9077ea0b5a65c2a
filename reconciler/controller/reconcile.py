"""One pass of the loop: a table of contents of the product. Start reading here."""

from __future__ import annotations

import logging
from contextlib import suppress

from reconciler.errors import Deposed, Unwritable
from reconciler.planning import plan_in_slices
from reconciler.planning.rollout import specs, wish
from reconciler.state import Contact, Desired, Memory, Observed, Plan
from reconciler.state.identity import CLUSTER
from reconciler.state.machine.weights import folder
from reconciler.state.memory import Stored
from reconciler.state.reports.status import Event
from reconciler.state.slices import Slices
from reconciler.status import Snapshots

from .parts import Parts

log = logging.getLogger(__name__)


def reconcile(parts: Parts) -> Slices[Plan]:
    """Observe, decide, act and publish. Nothing here waits for a machine. Raises ``Deposed``.

    Between two slices steps may end and reports may come: the plan is about the snapshots, as if nothing had happened
    since, and the next pass sees the rest. After a clock gap, none of it is done.
    """
    parts.store.verify()
    parts.store.recover()
    _renew(parts)
    if _known(parts):
        _watch(parts)
    _outrank(parts)
    decided = yield from decide(parts)
    if parts.clock_gaps.check():
        return Plan()
    parts.last = decided
    parts.executor.launch(parts.last.plan.steps)
    if _ready_to_publish(parts):
        yield from parts.publisher.publish(parts.last)
    parts.publisher.incident_log.follow(parts.last, parts.publisher.statuses)
    parts.notifications.send_due(parts.last.desired)
    parts.publisher.wake()
    return parts.last.plan


def _renew(parts: Parts) -> None:
    """After a clock gap: check that no other controller has taken over, and distrust earlier observations."""
    gap = parts.clock_gaps.take_gap()
    if gap is not None:
        log.warning("%s", gap)
        parts.executor.shift(gap.seconds)
        parts.collector.shift(gap.seconds)
        parts.publisher.publish_events((Event(parts.clock(), CLUSTER, False, gap.reason, str(gap)),))
        parts.lease.lost = True
    if parts.lease.lost:
        parts.store.renew()  # an observation with the new token is from after the gap
        parts.lease.lost = parts.lease.looked = False


def _outrank(parts: Parts) -> None:
    """Take a token above those of all agents: after a loss of the store, it may hand out old tokens again.

    This happens only at the first observation of each agent, which needs no token. An agent that has a higher token later
    obeys another controller: a deposed controller does not come back.
    """
    reports = {name: node.report for name, node in sorted(parts.collector.nodes().items()) if node.report}
    for name, report in reports.items():
        first = name not in parts.lease.greeted
        parts.lease.greeted.add(name)
        if first and report.token >= parts.store.token:
            parts.store.renew(above=report.token)
        elif report.token > parts.store.token:
            raise Deposed(
                f"{name} obeys another controller (its token is {report.token}, this one's is"
                f" {parts.store.token}): this one ends"
            )
    for name, report in reports.items():
        if report.asked_with is not None and report.asked_with < parts.store.token:
            parts.collector.look(name)


def _known(parts: Parts) -> bool:
    """Return whether the desired state is known; before that there is nothing to observe."""
    return parts.stopping or bool(parts.desired_state.desired.revision)


def _ready_to_publish(parts: Parts) -> bool:
    """Return whether the manifests were read and every node was contacted: until then the last status stays.

    Otherwise a controller that has just started would unroute serving groups, and one that has just woken up would
    route to groups that are gone.
    """
    lease = parts.lease
    lease.looked = lease.looked or (_known(parts) and parts.collector.tried)
    return lease.looked


def decide(parts: Parts, wanted: Desired | None = None) -> Slices[Snapshots]:
    """Return the desired state, the observed state and the plan that follows. Changes nothing.

    ``wanted`` replaces the manifests in force, for a preview.
    """
    desired, memory, now = wanted or _desired(parts), remember(parts), parts.clock()
    observed = Observed(parts.collector.nodes(), parts.around.gateway(), parts.gateways.seen)
    decided = yield from plan_in_slices(desired, observed, memory, now, parts.entropy())
    return Snapshots(desired, observed, memory, decided, now)


def _desired(parts: Parts) -> Desired:
    return parts.desired_state.desired.stopped() if parts.stopping else parts.desired_state.desired


def remember(parts: Parts) -> Memory:
    """Return the memory: the store's content and this controller's own actions, as of now."""
    problem, locked = parts.store.problem, parts.store.locked
    return Memory(
        **vars(parts.store.contents.read()),
        **vars(parts.executor.volatile),
        token=parts.store.token,
        agent_file=parts.around.machines.agent_file,
        unwritable=("" if locked else problem) or parts.publisher.problem,
        locked=problem if locked else "",
        started_at=parts.started_at,
        routed=_ready_to_publish(parts),
        published=parts.publisher.published,
    )


def _watch(parts: Parts) -> None:
    """Watch the nodes, including removed ones with an agent or ranks, and look for weights there."""
    desired, stored = _desired(parts), parts.store.contents.read()
    if parts.watched is not None and parts.watched[0] is desired and parts.watched[1] is stored:
        return  # the nodes to watch follow from these two alone
    known = stored.agents
    wanted = desired.accesses
    accesses = {**known, **wanted}
    parts.around.machines.reach(accesses)
    members = {name for group in stored.groups.values() for name in group.members}
    paths = {model.spec.source.folder for model in desired.models.values()}
    paths |= _earlier(stored)
    parts.collector.watch(frozenset(members | accesses.keys()), tuple(sorted(paths)))
    seen = parts.collector.nodes()
    with suppress(Unwritable):  # the next pass does it
        for name, access in wanted.items():
            has_agent = name in known or seen[name].contact is Contact.REACHED
            if has_agent and known.get(name) != access:
                parts.store.keep_agent(name, access)
        for record, spec in specs.unwritten(desired, stored.groups.values()):
            parts.store.keep_spec(record.replica, record.epoch, spec)
        for deployment in wish.over(desired, stored.rollbacks):
            parts.store.forget_rollback(deployment)
    if all(known.get(name) == access for name, access in wanted.items()):
        parts.watched = desired, stored


def _earlier(stored: Stored) -> set[str]:
    """Return the folders of weights that groups have, or may go back to."""
    served = {group.weights for group in stored.groups.values()}
    served |= {rollback.served for rollback in stored.rollbacks.values()}
    known = {spec for group in stored.groups.values() for spec in (group.spec, group.spec_before)}
    known |= {rollback.spec_served for rollback in stored.rollbacks.values()}
    return {folder(weights) for weights in served if weights} | {
        s.model.spec.source.folder for s in known if s
    }
