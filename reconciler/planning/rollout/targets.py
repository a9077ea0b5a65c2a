"""Which spec each replica of a deployment is to be served with now, and which of them may be replaced.

Never more replicas are out of service through a change than ``strategy.maxUnavailable`` allows, whatever else has taken
some of them out of service. A replica counts as back when its group is proven by a real completion. One that does not
serve costs nothing, so it is changed before all others; where changes wait (paused, or behind a canary), it is formed
again as it was.
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

from . import specs, wish
from .budget import Budget
from .differences import difference
from .wish import Wish


def target(world: World, replica: ReplicaId) -> Target:
    """Return the spec of a replica that the manifests ask for."""
    return world.once_as_decided(_targets, replica.deployment)[replica]


def models(world: World, name: DeploymentName) -> list[Model]:
    """Return the Models that a deployment is served with: the one that it is to come to first, then those of replicas
    that are changed later. None where it has no replicas."""
    found = [wish.of(world, name).model] if world.desired.deployments[name].spec.replicas else []
    found += [each.model for each in world.once_as_decided(_targets, name).values()]
    return list({each.spec.source: each for each in found if each is not None}.values())


def _targets(world: World, name: DeploymentName) -> Mapping[ReplicaId, Target]:
    found = wish.of(world, name)
    free = Target(found.deployment, found.model, returned=found.returned)
    targets = {ReplicaId(name, index): free for index in range(found.deployment.spec.replicas)}
    whys = {replica: why for replica in targets if (why := difference(world, found, replica))}
    if not whys:
        return targets
    budget, outdated = Budget.of(world, name), list(whys)
    changed = [r for r in budget.replicas if r not in whys and r in world.memory.groups]
    everything = _everything(world, found, budget, changed)
    turns = _turns(world, found, budget, outdated, changed)
    for replica in budget.replicas:
        hold = everything.get(replica) or turns.get(replica)
        if hold is not None:
            like = replica if replica in whys else outdated[0]
            targets[replica] = _as_before(world, found, like, hold, whys[like])
        elif replica in whys:
            targets[replica] = replace(free, change=whys[replica])
    return targets


def _turns(
    world: World, found: Wish, budget: Budget, outdated: list[ReplicaId], changed: list[ReplicaId]
) -> dict[ReplicaId, Hold]:
    """Return what keeps serving replicas from being replaced now."""
    serving = [replica for replica in outdated if replica in budget.available]
    if found.deployment.spec.strategy.order == "highest-first":
        serving.reverse()
    since = [world.memory.groups[replica].proven_at or 0.0 for replica in changed]
    over = max(since, default=0.0) + found.deployment.spec.strategy.pause
    if over > world.now >= max(since, default=0.0) and not found.rollback:
        text = f"the one that was changed last has to serve for {found.deployment.spec.strategy.pause:g} s"
        return dict.fromkeys(serving, Hold(WaitingFor.ROLLOUT, text, over))
    return {replica: Hold(WaitingFor.ROLLOUT, budget.text) for replica in serving[max(0, budget.spare) :]}


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
    """Return the spec that the replica's group was formed for, where that is known."""
    record = world.memory.groups[replica]
    hold = Hold(hold.reason, f"{why}: it is replaced later, {hold.text}", hold.until)
    if not record.spec:
        return Target(found.deployment, found.model, why, hold, found.returned)
    return Target(*specs.read(world.desired.deployments[replica.deployment], record.spec), why, hold)
