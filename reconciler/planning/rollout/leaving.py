"""Replicas that the manifests no longer ask for: those with the lowest numbers end last, and none before enough serve."""

from __future__ import annotations

from reconciler.planning.context.world import World
from reconciler.state import ReplicaId

from . import wish
from .budget import Budget


def awaited(world: World, replica: ReplicaId) -> str:
    """Say what a replica waits for before it ends, because too few would serve without it; empty if it may end now.

    At least one must serve, and of several those with the lowest numbers stay. If a wanted replica finds no place, one
    that serves the same spec is as good. One that serves another spec makes room for it, if
    ``strategy.maxUnavailable`` allows that.
    """
    name = replica.deployment
    if world.desired.stopping or name not in world.desired.deployments:
        return ""
    count = world.desired.deployments[name].spec.replicas
    beside = (record.replica for record in world.memory.groups_of(name))
    budget = Budget.of(world, name, tuple(each for each in beside if each.index >= count))
    serving = sum(each < replica for each in budget.certain)
    if replica not in budget.available or serving >= max(budget.least, min(1, count)):
        return ""
    if (
        name in world.cramped
        and serving >= budget.least
        and wish.difference(world, wish.of(world, name), replica)
    ):
        return ""
    first = next(each for each in budget.replicas if each not in budget.certain)
    return f"no longer wanted: it ends when {first} serves, which {budget.why(first)}"
