"""A deployment whose replicas are changed: who serves, and how the change goes on until nothing is left to do."""

from __future__ import annotations

from typing import Any

from reconciler.state import AllocateEpoch, DeploymentName, Plan
from reconciler.status.model_routes import serving
from tests.worlds import World, deployment, model, node

NAME = DeploymentName("tiny")
BATCH = {"maxBatch": 4}
NEVER_LESS: dict[str, Any] = {"maxSurge": 1, "maxUnavailable": 0}
ONE_EACH = 900 * 2**20
"""Memory of a machine with room for one group."""


def replicas(count: int, rolling: dict[str, Any], machines: int | None = None, **world: Any) -> World:
    """Groups of one node each, all of them served."""
    names = [node(f"node-{at}") for at in range(machines or count)]
    made = World([*names, model(), deployment(nodes=1, replicas=count, rolling=rolling)], **world)
    assert made.settle() == Plan()
    made.now += 3600.0
    return made


def served(world: World) -> list[int]:
    """The replicas that serve."""
    observed = world.observed()
    return [replica.index for replica, group in sorted(world.groups.items()) if serving(group, observed)]


def roll(world: World, passes: int = 80, seconds: float = 0.0) -> tuple[list[int], int]:
    """Obey until nothing is left to do. ``seconds``: how long a pass takes; with some, what ends by itself is waited for.

    Returns in which order replicas were formed, and how many served at least at every moment.
    """
    begun, least = len(world.history), len(served(world))
    for _ in range(passes):
        decided = world.plan()
        timed = seconds and any(each.until is not None for each in decided.waiting)
        if not decided.steps and not timed:
            break
        world.now += seconds
        for step in decided.steps:
            world.obey(step)
            least = min(least, len(served(world)))
    formed = [s.workload.index for s in world.history[begun:] if isinstance(s, AllocateEpoch)]
    return formed, least
