"""What a pass asks once, and computes in slices, is what it would find by asking each time, at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from reconciler import status
from reconciler.planning import plan, plan_in_slices
from reconciler.planning.context.world import World as Asked
from reconciler.state import Desired, NodeObservation, Observed, Plan
from reconciler.status import Snapshots
from tests.examples import examples
from tests.worlds import World, deployment, hub_model, model, node

from .test_placement import Problem, problems
from .test_planning import ACTIONS, DOINGS, Action

T = TypeVar("T")


@contextmanager
def forgetting() -> Iterator[None]:
    """Within the block every question is asked again each time."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(Asked, "_answer", lambda world, known, ask, about, key: ask(world, *about))
        for kept in (Desired, NodeObservation):
            changed.setattr(kept, "once", lambda self, ask, *about: ask(self, *about))
        yield


def same_plan(world: World) -> Plan:
    decided = world.plan()
    with forgetting():
        assert world.plan() == decided
    return decided


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problems())
def test_placement_asks_a_node_once(problem: Problem) -> None:
    for _ in range(6):
        for step in same_plan(problem.world).steps:
            problem.world.obey(step)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(ACTIONS, max_size=12), st.booleans())
def test_whatever_has_happened_a_plan_asks_once(history: list[Action], fetched: bool) -> None:
    wanted = [deployment(replicas=2, nodes={"min": 1, "max": 2}), deployment("other", nodes=1)]
    weights = hub_model() if fetched else model()
    world = World([node("node-0"), node("node-1"), node("node-2"), weights, *wanted])
    for name, number in history:
        DOINGS[name](world, number)
        same_plan(world)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(ACTIONS, max_size=12))
@example([("obey", 0), ("lose", 0), ("down", 0)])
def test_what_is_known_from_the_pass_before_changes_neither_plan_nor_statuses(history: list[Action]) -> None:
    """As on a cluster, manifests and observations that have not changed are the same objects in each pass."""
    world = World([node("node-0"), node("node-1"), node("node-2"), model(), deployment(replicas=2, nodes=1)])
    known: status.Known = {}
    last = world.snapshots(Plan())
    told: status.Statuses = {}
    for name, number in history:
        DOINGS[name](world, number)
        desired, observed = world.desired(), world.observed()
        kept = {name: same(last.observed.nodes.get(name), seen) for name, seen in observed.nodes.items()}
        desired, observed = same(last.desired, desired), Observed(kept, observed.gateway)
        decided = plan(desired, observed, world.memory(), world.now, "entropy")
        with forgetting():
            assert plan(desired, observed, world.memory(), world.now, "entropy") == decided
        last = Snapshots(desired, observed, world.memory(), decided, world.now)
        found = dict(status.each_status(last, told, known))
        assert found == status.statuses(last, told)
        told = found


def same(before: T | None, after: T) -> T:
    """Return the object from before where it says the same."""
    return before if before is not None and before == after else after


def test_between_two_nodes_or_replicas_something_else_may_be_done() -> None:
    names = [f"node-{number}" for number in range(8)]
    world = World([*(node(name) for name in names), model(), deployment(nodes=1, replicas=4)])
    slices = plan_in_slices(world.desired(), world.observed(), world.memory(), world.now, "entropy")
    assert sum(1 for _ in slices) > len(names) + 4
