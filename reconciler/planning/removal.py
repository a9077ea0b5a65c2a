"""Decides when an object whose manifest is gone has left: not before all of it has ended."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.state import RemoveObject, WaitingFor
from reconciler.state.identity import ObjectKey

from .context.decision import Decision, wait
from .context.lost_nodes import is_lost
from .context.world import World


def decide(world: World, key: ObjectKey) -> Decision:
    """Take an object out of the inventory, or say what it waits for."""
    step = RemoveObject(key)
    if step.subject in world.memory.in_flight:
        return wait(key, WaitingFor.STEP, f"{key} is being removed")
    left = next(_remaining(world, key), None)
    if left is None:
        return Decision(steps=(step,))
    return wait(key, WaitingFor.REMOVAL, f"{key} is being removed: {left}")


def _remaining(world: World, key: ObjectKey) -> Iterator[str]:
    """Yield everything of an object that is still there."""
    match key.kind:
        case "ModelDeployment" | "Job":
            yield from _of_workloads(world, key)
        case "Node":
            yield from _of_node(world, key)
        case "Model":
            yield from _of_model(world, key)
        case _:
            return  # the gateway process is its supervisor's; with the Gateway its routes went


def _of_workloads(world: World, key: ObjectKey) -> Iterator[str]:
    for rank in world.observed.ranks():
        if rank.alive and not rank.unkillable and rank.workload.key == key:
            unseen = ", which does not answer" if is_lost(world, rank.node) else ""
            yield f"waiting for the end of rank {rank.report.id.rank} on {rank.node}{unseen}"
    for workload in sorted(world.memory.groups):
        if workload.key == key:
            yield f"the group of {workload} is not released yet"
    for id, run in sorted(world.memory.runs.items()):
        if id.key == key and run.ended is None:
            yield f"{id} has not ended yet"
    about = "job" if key.kind == "Job" else "replica"
    if any(subject.startswith(f"{about}/{key.name}/") for subject in world.memory.in_flight):
        yield "a step is being executed"


def _of_node(world: World, key: ObjectKey) -> Iterator[str]:
    for group in world.memory.groups.values():
        if key.name in group.members:
            yield f"{group.workload} still has a rank there"
    if key.name in world.memory.agents or f"node/{key.name}" in world.memory.in_flight:
        yield "waiting for the end of its agent"


def _of_model(world: World, key: ObjectKey) -> Iterator[str]:
    for replica, group in sorted(world.memory.groups.items()):
        if group.model == key.name:
            yield f"{replica} still uses its weights"
    for rank in world.observed.ranks():
        group_now = world.memory.groups.get(rank.workload)
        alive = rank.alive and not rank.unkillable
        if alive and group_now is not None and rank.report.id.epoch < group_now.epoch:
            yield f"the last epoch of {rank.workload} may use its weights"
