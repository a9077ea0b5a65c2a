"""Chooses the spec that each replica of a deployment is to be served with now, and the replicas that may be replaced.

A change never leaves more replicas out of service than ``strategy.maxUnavailable`` allows, whatever else has taken some
of them out of service. A replica counts as back when its group is proven by a real completion. One that does not serve
costs nothing, so it is changed before all others. If changes wait (paused, or behind a canary), it is formed again as
it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from reconciler.planning.context.target import Hold, Target
from reconciler.planning.context.world import World
from reconciler.resources import Model
from reconciler.resources.strategy import of_replicas
from reconciler.state import DeploymentName, ReplicaId, WaitingFor

from . import specs, surge, wish
from .budget import Budget
from .wish import Wish, difference


def target(world: World, replica: ReplicaId) -> Target | None:
    """Return the spec of a replica that the manifests ask for, or of an extra one; None for one that is not wanted."""
    if world.desired.stopping or replica.deployment not in world.desired.deployments:
        return None
    return world.once_as_decided(_targets, replica.deployment).get(replica)


def extra(world: World) -> frozenset[ReplicaId]:
    """Return the extra replicas that are to serve in addition to those of the manifests."""
    if world.desired.stopping:
        return frozenset()
    return frozenset(
        replica
        for name, deployment in world.desired.deployments.items()
        if deployment.spec.strategy.max_surge
        for replica, found in world.once_as_decided(_targets, name).items()
        if found.extra
    )


def models(world: World, name: DeploymentName) -> list[Model]:
    """Return the Models that a deployment is served with: first the one that it is to get, then those of replicas
    that are changed later. Empty if it has no replicas."""
    found = [wish.of(world, name).model] if world.desired.deployments[name].spec.replicas else []
    found += [each.model for each in world.once_as_decided(_targets, name).values()]
    return list({each.spec.source: each for each in found if each is not None}.values())


def _targets(world: World, name: DeploymentName) -> Mapping[ReplicaId, Target]:
    found = wish.of(world, name)
    free = Target(found.deployment, found.model, returned=found.returned)
    targets = {ReplicaId(name, index): free for index in range(found.deployment.spec.replicas)}
    beside = surge.there(world, name)
    whys = {replica: why for replica in (*targets, *beside) if (why := difference(world, found, replica))}
    if not whys and not beside:
        return targets
    budget = Budget.of(world, name, beside)
    outdated = [replica for replica in budget.replicas if replica in whys]
    changed = [r for r in (*budget.replicas, *beside) if r not in whys and r in world.memory.groups]
    everything = _everything(world, found, budget, [r for r in changed if r in targets])
    extras = surge.wanted(world, budget, [r for r in outdated if r not in everything])
    turns = _turns(world, found, budget, list(whys), changed, extras)
    for replica in (*budget.replicas, *extras):
        hold = everything.get(replica) or turns.get(replica)
        own = replace(free, extra=replica in extras)
        like = replica if replica in whys else next(iter(outdated), None)
        if hold is not None and like is not None:
            targets[replica] = replace(_as_before(world, found, like, hold, whys[like]), extra=own.extra)
        elif replica in whys:
            targets[replica] = replace(own, change=whys[replica])
        elif own.extra and not whys and budget.available.issuperset(budget.replicas):
            targets[replica] = replace(own, hold=surge.last_moments(world, budget))
        else:
            targets[replica] = own
    return targets


def _turns(
    world: World,
    found: Wish,
    budget: Budget,
    outdated: list[ReplicaId],
    changed: list[ReplicaId],
    extras: tuple[ReplicaId, ...],
) -> dict[ReplicaId, Hold]:
    """Return what keeps serving replicas from being replaced now. Extra ones that are outdated go first."""
    serving = [replica for replica in outdated if replica in budget.available]
    if found.deployment.spec.strategy.order == "highest-first":
        serving.reverse()
    serving.sort(key=lambda replica: replica not in budget.extra)
    since = [world.memory.groups[replica].proven_at or 0.0 for replica in changed]
    over = max(since, default=0.0) + found.deployment.spec.strategy.pause
    if over > world.now >= max(since, default=0.0) and not found.rollback:
        text = f"the one that was changed last has to serve for {found.deployment.spec.strategy.pause:g} s"
        return dict.fromkeys(serving, Hold(WaitingFor.ROLLOUT, text, over))
    if first := surge.awaited(world, budget, extras):
        return dict.fromkeys(serving, Hold(WaitingFor.ROLLOUT, first))
    text = "; ".join(filter(None, (budget.text, surge.obstacle(world, budget))))
    certain = [replica for replica in serving if replica in budget.certain]
    held = [*certain[max(0, budget.spare) :], *(each for each in serving if not budget.lets(each))]
    return dict.fromkeys(held, Hold(WaitingFor.ROLLOUT, text, budget.until))


def _everything(world: World, found: Wish, budget: Budget, changed: list[ReplicaId]) -> dict[ReplicaId, Hold]:
    """Return what keeps replicas from being changed whether they serve or not: a pause, or a canary."""
    name, spec = budget.name, found.deployment.spec
    others = [replica for replica in budget.replicas if replica not in changed]
    if found.rollback is not None:
        return {}  # back to what served: nothing waits for a person, and nothing is tried out
    if spec.paused:
        text = f"changes are paused; to go on: reconciler rollout resume deployment/{name}"
        return dict.fromkeys(others, Hold(WaitingFor.PAUSED, text))
    canary = spec.strategy.canary
    first = of_replicas(canary.replicas, len(budget.replicas), up=True) if canary else 0
    if canary is None or first <= 0:
        return {}
    ends = sorted(
        _served_until(world, replica, canary.serve_for, canary.resumed_at)
        for replica in changed
        if replica in budget.available
    )
    until = ends[first - 1] if len(ends) >= first else None
    if until is not None and until <= world.now:
        return {}
    room = max(0, first - len(changed))
    if spec.strategy.order == "highest-first":
        others.reverse()
    order = sorted(others, key=lambda each: each in budget.available)
    text = (
        f"the first {f'{first} have' if first > 1 else 'one has'} to serve for {canary.serve_for:g} s;"
        f" to go on at once: reconciler rollout resume deployment/{name}"
    )
    hold = Hold(WaitingFor.PAUSED, text, until)
    return dict.fromkeys(order[room:], hold)


def _served_until(world: World, replica: ReplicaId, seconds: float, resumed_at: str | None) -> float:
    """Return when a changed replica has served for long enough, in seconds of the controller's clock."""
    record = world.memory.groups[replica]
    proven = record.proven_at if record.proven_at is not None else world.now
    if resumed_at is not None and record.created_at <= datetime.fromisoformat(resumed_at).timestamp():
        return proven
    return proven + seconds if proven <= world.now else world.now  # else the clock went back


def _as_before(world: World, found: Wish, replica: ReplicaId, hold: Hold, why: str) -> Target:
    """Return the spec that the replica's group was formed for, if that is known."""
    record = world.memory.groups[replica]
    hold = Hold(hold.reason, f"{why}: it is replaced later, {hold.text}", hold.until)
    if not record.spec:
        return Target(found.deployment, found.model, why, hold, found.returned)
    return Target(*specs.applied(world.desired.deployments[replica.deployment], record.spec), why, hold)
