"""Extra replicas: if there is memory for one, it serves with the new spec before a replica that serves is taken away.

They have the numbers after those of the manifests, and groups of their own, with memory of their own. They end when the
replicas of the manifests serve again.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import replace

from reconciler.planning.context.decision import Decision
from reconciler.planning.context.lost_nodes import is_lost
from reconciler.planning.context.target import Hold
from reconciler.planning.context.view import View, Wanted
from reconciler.planning.context.world import World
from reconciler.state import DeploymentName, ReplicaId, WaitingFor

from .budget import Absence, Because, Budget

KNOWN_SECONDS = 2.0
"""An extra replica ends when the gateway has known the other replicas for this long."""
WHY = "as many serve while others are changed (strategy.maxSurge)"


def there(world: World, name: DeploymentName) -> tuple[ReplicaId, ...]:
    """Return the extra replicas of a deployment that have a group, or ranks that live, in order."""
    return tuple(
        replica
        for replica in _possible(world, name)
        if replica in world.memory.groups or any(rank.alive for rank in world.observed.ranks_of(replica))
    )


def _possible(world: World, name: DeploymentName) -> Iterable[ReplicaId]:
    spec = world.desired.deployments[name].spec
    return (ReplicaId(name, spec.replicas + at) for at in range(spec.strategy.extra(spec.replicas)))


def wanted(world: World, budget: Budget, changing: Collection[ReplicaId]) -> tuple[ReplicaId, ...]:
    """Return the extra replicas of a deployment that are to serve now, in order.

    ``changing``: the replicas of the manifests that are to be replaced, and may be.
    """
    serving = sum(replica in budget.available for replica in budget.replicas)
    taken_away = sum(replica in budget.available for replica in changing)
    needed = changing or serving < budget.least or any(_returns(budget, each) for each in budget.replicas)
    if taken_away and all(replica in world.memory.groups for replica in budget.replicas):
        count = taken_away
    elif needed or known_at(world, budget) > world.now:
        count = 0
    else:
        return ()
    more = [replica for replica in _possible(world, budget.name) if replica not in budget.extra]
    return (*budget.extra, *more[: max(0, count - len(budget.extra))])


def known_at(world: World, budget: Budget) -> float:
    """Return when the gateway knows all replicas of the manifests that serve; infinity while nothing can be written."""
    if world.memory.unwritable or world.memory.locked:
        return math.inf
    proven = (world.memory.groups[each].proven_at for each in budget.replicas if each in budget.available)
    return KNOWN_SECONDS + max((at for at in proven if at is not None and at <= world.now), default=-math.inf)


def last_moments(world: World, budget: Budget) -> Hold:
    """Say what an extra replica that is no longer needed waits for."""
    until = known_at(world, budget)
    text = f"an extra replica: it ends when the others have served for {KNOWN_SECONDS:g} s"
    return Hold(WaitingFor.ROLLOUT, text, until if math.isfinite(until) else None)


def _returns(budget: Budget, replica: ReplicaId) -> bool:
    """Return whether a replica serves again soon."""
    absence = budget.out.get(replica)
    return absence is not None and absence.because in (Because.COMES_UP, Because.IN_FLIGHT)


def awaited(world: World, budget: Budget, extra: Iterable[ReplicaId]) -> str:
    """Say which extra replica is to serve before any other is taken out of service; empty for none."""
    for replica in extra:
        if replica not in budget.available and _hopeful(world, replica):
            return f"an extra replica is to serve first: {replica} {budget.out.get(replica, Absence(Because.NO_GROUP))}"
    return ""


def _hopeful(world: World, replica: ReplicaId) -> bool:
    """Return whether an extra replica may soon serve: it is formed for the first time, and nothing has cut it off. If it
    has just ended, it is decided first whether the new spec is taken back."""
    record = world.memory.groups.get(replica)
    if replica.deployment in world.no_extra or record is None:
        return replica.deployment not in world.no_extra
    tried = world.memory.attempts.get(replica, ())
    again = bool(tried) and tried[-1].epoch == record.epoch and tried[-1].fault is not None
    return not again and not any(is_lost(world, name) or world.node(name).silent for name in record.members)


def obstacle(world: World, budget: Budget) -> str:
    """Say why no extra replica helps a change; empty if there is nothing to say."""
    why = world.no_extra.get(budget.name, "")
    if not why or budget.least < len(budget.replicas):
        return why
    patch = '{"spec":{"strategy":{"maxUnavailable":1}}}'
    return (
        f"{why}; to go on: make room, or let one replica be out of service:"
        f" reconciler patch deployment/{budget.name} -p '{patch}'"
    )


def refused(view: View, decision: Decision) -> tuple[Decision, str]:
    """Return the decision about a replica, and why an extra one will not serve; empty for others and if it may.

    Nobody misses an extra replica without a group: it waits then, and does not stall its deployment.
    """
    if not (isinstance(view, Wanted) and view.target.extra and decision.refused):
        return decision, ""
    why = f"no extra replica: {'; '.join(each.told for each in decision.refused)}"
    if view.record is not None:
        return decision, why
    return replace(decision, refused=()) + view.wait(WaitingFor.ROLLOUT, why), why
