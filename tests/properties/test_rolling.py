"""Rolling changes from any point: whatever groups are gone, whatever the strategy says, there is a plan, and it keeps its word."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from reconciler.planning.rollout import targets
from reconciler.resources.strategy import Strategy
from reconciler.state import AllocateEpoch, StopRank
from tests.planning.rollout.rolling import BATCH, NAME, served
from tests.worlds import World, deployment, model, node, settled

REPLICAS = 3
MACHINES = 5


@st.composite
def strategies(draw: st.DrawFn) -> dict[str, Any]:
    surge, away = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    assume(surge or away)
    rolling: dict[str, Any] = {"maxSurge": surge, "maxUnavailable": away}
    rolling["order"] = draw(st.sampled_from(["highest-first", "lowest-first"]))
    if draw(st.booleans()):
        rolling["canary"] = {"replicas": draw(st.integers(0, REPLICAS)), "serveFor": "10m"}
    return rolling


def rolled(rolling: dict[str, Any], passes: int) -> World:
    """A deployment of which a change has been carried out for so many passes, a second each."""
    nodes = [node(f"node-{at}") for at in range(MACHINES)]
    world = settled(World([*nodes, model(), deployment(nodes=1, replicas=REPLICAS, rolling=rolling)]))
    world.now += 3600.0
    world.manifests[-1] = deployment(nodes=1, replicas=REPLICAS, rolling=rolling, serving=BATCH)
    for _ in range(passes):
        world.now += 1.0
        world.act()
    return world


@given(
    strategies(),
    strategies(),
    st.integers(0, 24),
    st.sets(st.integers(0, REPLICAS + 1)),
    st.integers(0, REPLICAS + 1),
    st.booleans(),
)
def test_every_replica_has_a_target_whatever_is_gone_and_however_the_manifest_changes_meanwhile(
    rolling: dict[str, Any],
    later: dict[str, Any],
    passes: int,
    gone: set[int],
    replicas: int,
    paused: bool,
) -> None:
    world = rolled(rolling, passes)
    for rank in [rank for rank in world.alive() if rank.replica in gone]:
        world.end_rank(rank, signal=9)
    for index in gone:
        world.groups.pop(world.replica(index=index), None)
    world.manifests[-1] = deployment(nodes=1, replicas=replicas, rolling=later, serving=BATCH, paused=paused)
    serving = len(served(world))
    plan = world.plan()
    planned = world.seen()
    found = [targets.target(planned, world.replica(index=index)) for index in range(replicas)]
    assert None not in found
    least = Strategy.model_validate(later).least(replicas)
    formed = {step.workload for step in plan.steps if isinstance(step, AllocateEpoch)}
    stopped = {(s.id.deployment, s.id.replica) for s in plan.steps if isinstance(s, StopRank)}
    ended = {
        index for index in served(world) if (NAME, index) in stopped or world.replica(index=index) in formed
    }
    assert len(ended) <= max(0, serving - least)
