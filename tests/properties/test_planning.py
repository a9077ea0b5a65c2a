"""What must never happen, whatever happens: faults, edits and half-done plans in any order.

After each history the cluster is left alone, and must come to rest in the state that is wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler import status
from reconciler.planning import deadlines
from reconciler.planning.stalls import CONTINUATIONS_MAX
from reconciler.resources import Manifest, ModelDeployment, Node
from reconciler.state import ContinueRank, NodeName, Plan, WaitingFor
from reconciler.wire.launch import ExitCode, Phase
from tests.worlds import World, deployment, model, node

Action = tuple[str, int]

ACTIONS = st.tuples(
    st.sampled_from(
        [
            "obey",
            "obey",
            "obey",
            "obey-one",
            "kill",
            "refuse",
            "stop",
            "hang",
            "agent",
            "replicas",
            "context",
            "nodes",
            "drain",
            "remove",
            "wait",
            "lose-store",
            "keep-store",
            "restore-store",
        ]
    ),
    st.integers(0, 7),
)


def act(world: World, name: str, number: int) -> None:
    actions: dict[str, Callable[[World, int], None]] = {
        "obey": _obey, "obey-one": _obey_one, "kill": _kill, "refuse": _refuse,
        "stop": _stop, "hang": _hang, "agent": _agent,
        "replicas": _replicas, "context": _context, "nodes": _nodes, "drain": _drain, "remove": _remove,
        "wait": _wait,
        "lose-store": _lose_store, "keep-store": _keep_store, "restore-store": _restore_store,
    }  # fmt: skip
    actions[name](world, number)


def _obey(world: World, number: int) -> None:
    """The first steps of a plan are done, then the controller dies and another plans anew."""
    for step in world.plan().steps[: number + 1]:
        world.obey(step)


def _obey_one(world: World, number: int) -> None:
    steps = world.plan().steps
    if steps:
        world.obey(steps[number % len(steps)])


def _kill(world: World, number: int) -> None:
    alive = world.alive()
    if alive:
        world.end_rank(alive[number % len(alive)], signal=9)


def _refuse(world: World, number: int) -> None:
    alive = world.alive()
    if alive:
        world.end_rank(alive[number % len(alive)], code=ExitCode.PEER_LOST)


def _stop(world: World, number: int) -> None:
    alive = world.alive()
    if alive:
        world.report(alive[number % len(alive)], stopped=True)


def _hang(world: World, number: int) -> None:
    alive = world.alive()
    if alive:
        world.report(alive[number % len(alive)], demand=1, silent_seconds=10.0 * number)


def _agent(world: World, number: int) -> None:
    if world.agents:
        world.down.add(sorted(world.agents)[number % len(world.agents)])


def _replicas(world: World, number: int) -> None:
    _change(world, deployment(replicas=number % 3, nodes={"min": 1, "max": 2}))


def _context(world: World, number: int) -> None:
    _change(world, deployment(serving={"context": 1024 + number}, nodes={"min": 1, "max": 2}))


def _change(world: World, new: ModelDeployment) -> None:
    world.manifests = [new if isinstance(m, ModelDeployment) else m for m in world.manifests]


def _nodes(world: World, number: int) -> None:
    """A node comes or goes; one always stays."""
    _toggle(world, node(f"node-{1 + number % 2}"))


def _remove(world: World, number: int) -> None:
    """The deployment or its model comes or goes."""
    _toggle(world, model() if number % 2 else deployment(nodes={"min": 1, "max": 2}))


def _toggle(world: World, manifest: Manifest) -> None:
    key = (manifest.kind, manifest.metadata.name)
    present = next((m for m in world.manifests if (m.kind, m.metadata.name) == key), None)
    if present is None:
        world.bring(manifest)
    else:
        world.remove(present)


def _drain(world: World, number: int) -> None:
    """A node is drained, or no longer; one never is."""
    name = f"node-{1 + number % 2}"
    for at, manifest in enumerate(world.manifests):
        if isinstance(manifest, Node) and manifest.metadata.name == name:
            world.manifests[at] = node(name, drain=not manifest.spec.drain)


def _lose_store(world: World, number: int) -> None:
    world.lose_store()


def _keep_store(world: World, number: int) -> None:
    world.kept = replace(world, groups=dict(world.groups), last_epochs=dict(world.last_epochs))


def _restore_store(world: World, number: int) -> None:
    world.lose_store(world.kept)


def _wait(world: World, number: int) -> None:
    world.now += 10.0**number / 100


def check(world: World) -> None:
    """True at every moment."""
    for route in status.routes(world.desired(), world.observed(), world.memory()):
        replicas = [backend.replica for backend in route.backends]
        assert len(set(replicas)) == len(replicas), "two epochs of one replica have routes"
        for backend in route.backends:
            group = world.groups[world.replica(index=backend.replica)]
            assert backend.epoch == group.epoch, "a replaced epoch has a route"
            assert set(group.rank_ids) <= set(world.alive()), "a group with a dead rank has a route"


def rest(world: World) -> Plan:
    """Leave the cluster alone until nothing more happens: time passes only while something waits for it.

    Who hangs goes on hanging.
    """
    for _ in range(200):
        decided = world.settle()
        hanging = any(w.reason is WaitingFor.PROGRESS for w in decided.waiting)
        untils = [w.until for w in decided.waiting if w.until is not None]
        if not untils and not hanging:
            return decided
        world.now = max(world.now, *untils, 0.0) + 1
        for rank in world.alive():
            silent = world.ranks[rank][1].silent_seconds
            world.report(rank, silent_seconds=silent + 100 if silent else 0.0)
    raise AssertionError(f"no rest: {decided}")


@settings(max_examples=300, deadline=None)
@given(st.lists(ACTIONS, max_size=25))
def test_whatever_happens_the_cluster_comes_to_rest_as_wanted(history: list[Action]) -> None:
    nodes = [node("node-0"), node("node-1"), node("node-2")]
    world = World([*nodes, model(), deployment(nodes={"min": 1, "max": 2})])
    for name, number in history:
        act(world, name, number)
        check(world)
    if not world.desired().models:
        world.bring(model())
    assert rest(world) == Plan()
    assert world.leaving == {}
    wanted = world.desired().replicas()
    assert world.groups.keys() == wanted.keys()
    members = sorted(rank for group in world.groups.values() for rank in group.rank_ids)
    assert world.alive() == members
    assert all(group.proven_at is not None for group in world.groups.values())
    drained = {name for name, found in world.desired().nodes.items() if found.spec.drain}
    assert not any(drained & set(group.members) for group in world.groups.values())
    assert {NodeName(name) for name in world.desired().nodes} == world.agents - world.down
    check(world)


@settings(max_examples=100, deadline=None)
@given(st.lists(ACTIONS, max_size=15))
def test_the_same_snapshots_give_the_same_plan(history: list[Action]) -> None:
    world = World([node("node-0"), node("node-1"), model(), deployment()])
    for name, number in history:
        act(world, name, number)
    assert world.plan() == world.plan()


@st.composite
def reports(draw: st.DrawFn) -> dict[str, Any]:
    """A rank that is up and has not stood still for longer than it may."""
    tokens = draw(st.integers(0, 512))
    return {
        "phase": draw(st.sampled_from([Phase.READY, Phase.DRAINING])),
        "demand": draw(st.integers(0, 16)),
        "steps": draw(st.integers(0, 1000)),
        "silent_seconds": draw(st.floats(0, deadlines.step_seconds(60.0, tokens))),
        "step_tokens": tokens,
        "stopped": draw(st.booleans()),
        "age_seconds": draw(st.floats(0, 1e7)),
    }


@settings(max_examples=200, deadline=None)
@given(reports(), reports())
def test_a_group_that_has_not_stood_still_for_too_long_is_never_ended(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    world = World([node("node-0"), node("node-1"), model(), deployment()])
    world.settle()
    for rank, changes in zip(world.alive(), (first, second), strict=True):
        world.report(rank, **changes)
    if first["stopped"] or second["stopped"]:
        world.report(world.alive()[0], step_tokens=512)  # its allowance holds for the group
    assert all(isinstance(step, ContinueRank) for step in world.plan().steps)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 30), max_size=60))
def test_no_rank_is_continued_more_often_than_the_budget_allows(pauses: list[float]) -> None:
    world = World([node("node-0"), node("node-1"), model(), deployment()])
    world.settle()
    victim = world.alive()[1]
    continued: list[float] = []
    for pause in pauses:
        world.now += pause
        world.report(victim, stopped=True)
        for step in world.plan().steps:
            assert isinstance(step, ContinueRank)
            continued.append(world.now)
            world.obey(step)
    for at in continued:
        assert sum(at - 130 < other <= at for other in continued) <= CONTINUATIONS_MAX
