"""Every command that the plan, a condition or the doctor says to type is typed in the state in which it is said.

The manifests of a world are committed to a real repository, the command changes it as it would for somebody, and the world
goes on with what is in force then: what was to be done is no longer said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from reconciler import status
from reconciler.doctor import examine
from reconciler.source.sources import GitSource
from reconciler.state import Desired, NodeName, ObjectKey
from reconciler.status import Snapshots
from reconciler.wire.launch import ExitCode, Phase
from tests.controller.test_desired_state import Controller
from tests.doctor.test_findings import BESIDE, SEEN
from tests.planning.diagnosis.healing_cases import HAPPENINGS
from tests.planning.macs import B, three_macs, two_macs
from tests.planning.recovery import test_back_off
from tests.planning.rollout import rolling, test_rollback
from tests.planning.weights import test_distribute
from tests.worlds import World, deployment, fabric, model, node

from .bench import COMMIT, Bench, commands_in, filled

pytestmark = pytest.mark.processes

LOOKS = ("describe", "get", "logs", "events", "doctor", "plan")
"""Commands that change nothing; a running controller answers them, in test_errors.py."""
AT_MACHINES = ("node", "reboot")
"""Commands that connect to a machine."""
PASSES, PASS_SECONDS = 12, 400.0


@dataclass
class Case:
    """A world in which something is to be done."""

    world: World
    before: tuple[Any, ...] = ()
    """Manifests that were committed before the last change of them."""
    mends: bool = True
    """Whether the world is well when it is done: of machines, only a person's hands may change what is."""


def said(world: World) -> list[str]:
    """All that people read."""
    plan = world.plan()
    now = Snapshots(world.desired(), world.observed(), world.memory(), plan, world.now)
    texts = [each.text for each in plan.waiting] + [each.told for each in plan.refused]
    texts += [trouble.person for trouble in plan.troubles]
    texts += [c.told for state in status.statuses(now, {}).values() for c in state.conditions if c.told]
    return texts + [f"to do: {finding.steps}" for finding in examine(now).findings]


def commands(world: World) -> list[str]:
    return sorted({each for text in said(world) for each in commands_in(text)})


def healed(name: str) -> Case:
    world = two_macs()
    HAPPENINGS[name](world)
    world.pass_time(world.now + 40)
    return Case(world, mends=name.startswith("C0"))


def found_beside(name: str) -> Case:
    world = two_macs()
    BESIDE[name](world)
    return Case(world, mends=False)


def found_of_a_lost_one(name: str) -> Case:
    world = two_macs()
    world.lose(B)
    world.lost[B] = replace(world.lost[B], **SEEN[name])
    return Case(world, mends=False)


def lost_one_of_three() -> Case:
    """It is named by two Fabrics, and one of them has no other link."""
    world = three_macs()
    world.manifests.append(node("studio.local-4"))
    world.manifests.append(fabric("beside", ("node-b/5", "studio.local-4/1")))
    world.settle()
    world.lose("node-b")
    world.pass_time(world.now + 40)
    return Case(world)


def lost_one_alone() -> Case:
    world = World([node("studio-1"), model(), deployment(nodes=1)])
    world.settle()
    world.lose("studio-1")
    world.pass_time(world.now + 40)
    return Case(world)


def paused() -> Case:
    world = rolling.replicas(2, {})
    change(world, serving={"maxBatch": 2}, paused=True)
    return Case(world)


def canary() -> Case:
    canary = {"canary": {"replicas": 1, "serveFor": "10m"}}
    world = rolling.replicas(3, canary)
    change(world, serving={"maxBatch": 2}, rolling=canary)
    rolling.roll(world)
    return Case(world)


def without_room() -> Case:
    never_less = {"maxSurge": 1, "maxUnavailable": 0}
    world = rolling.replicas(1, never_less, memory_bytes=rolling.ONE_EACH)
    change(world, serving={"maxBatch": 2}, rolling=never_less)
    rolling.roll(world)
    return Case(world)


def set_back() -> Case:
    world = test_rollback.served()
    before = tuple(world.manifests)
    test_rollback.change(world, serving={"maxBatch": 2})
    world.first_phase = Phase.LOADING
    test_rollback.until_formed(world)
    test_rollback.end(world, code=ExitCode.CONFIG)
    world.first_phase = Phase.READY
    world.settle()
    return Case(world, before)


def useless_weights() -> Case:
    world = test_distribute.agents(test_distribute.machines(count=1, nodes=1))
    world.fetched[test_distribute.PATH] = {NodeName("node-0"): None}
    world.says[test_distribute.PATH] = {"problem": "the installed mlx-lm does not know the architecture 'x'"}
    return Case(world)


def crash_loop() -> Case:
    return Case(test_back_off.looping())


def cordoned() -> Case:
    world = World([node("studio.local-1", unschedulable=True), model(), deployment(nodes=1)])
    world.settle()
    return Case(world)


def change(world: World, **spec: Any) -> None:
    (before,) = world.desired().deployments.values()
    at = next(i for i, each in enumerate(world.manifests) if each.kind == "ModelDeployment")
    world.manifests[at] = deployment(nodes=1, replicas=before.spec.replicas, **spec)


CASES: dict[str, Callable[[], Case]] = {
    **{f"{name}, healing": lambda name=name: healed(name) for name in HAPPENINGS},  # type: ignore[misc]
    **{f"{name}, beside": lambda name=name: found_beside(name) for name in BESIDE},  # type: ignore[misc]
    **{f"{name}, seen": lambda name=name: found_of_a_lost_one(name) for name in SEEN if "barred" in SEEN[name]},  # type: ignore[misc]
    **{
        made.__name__.replace("_", " "): made
        for made in (
            lost_one_of_three, lost_one_alone, paused, canary, without_room, set_back, useless_weights, crash_loop, cordoned,
        )
    },
}  # fmt: skip


def typed_in(case: Case) -> Iterator[str]:
    yield from (each for each in commands(case.world) if each.split()[1] not in (*LOOKS, *AT_MACHINES))


TO_TYPE = (
    ("C0 a machine is silent, healing", "reconciler delete node node-b --with-links"),
    ("C1 unequal ranks, healing", "reconciler rollout restart deployment/tiny"),
    ("C8 weights that cannot be read, healing", "reconciler rollout restart deployment/tiny"),
    ("C10 out of memory, healing", "reconciler rollout restart deployment/tiny"),
    (
        "C10 out of memory, for which another rank finds nobody, healing",
        "reconciler rollout restart deployment/tiny",
    ),
    ("C12 two panics, healing", "reconciler rollout restart deployment/tiny"),
    ("C12 two panics, one of them over memory, healing", "reconciler rollout restart deployment/tiny"),
    (
        "C12 two panics of a cable that is pulled again and again, healing",
        "reconciler rollout restart deployment/tiny",
    ),
    ("lost one of three", "reconciler delete node node-b --with-links"),
    ("lost one alone", "reconciler delete node studio-1 --with-links"),
    ("paused", "reconciler rollout resume deployment/tiny"),
    ("canary", "reconciler rollout resume deployment/tiny"),
    ("without room", 'reconciler patch deployment/tiny -p \'{"spec":{"strategy":{"maxUnavailable":1}}}\''),
    ("set back", "reconciler rollout restart deployment/tiny"),
    ("set back", "reconciler rollout undo deployment/tiny"),
    ("useless weights", "reconciler model update tiny --revision COMMIT"),
    ("crash loop", "reconciler rollout restart deployment/tiny"),
    ("cordoned", "reconciler uncordon studio.local-1"),
)
"""All that the cases say to type."""


def in_force(bench: Bench) -> Desired:
    """What is in force now, also of what a command has just committed: nothing of that is held."""
    controller = Controller(GitSource(bench.repo), bench.folder / "desired.db")
    controller.serving = {ObjectKey("ModelDeployment", "tiny")}
    try:
        desired = asyncio.run(controller.look())
    finally:
        controller.store.close()
    assert desired.hold is None
    return desired


def go_on(world: World, bench: Bench) -> None:
    """The world goes on with the manifests and operations that are in force now."""
    desired = in_force(bench)
    there = {(each.kind, each.metadata.name) for each in _manifests(desired)}
    for gone in [each for each in world.manifests if (each.kind, each.metadata.name) not in there]:
        world.remove(gone)
    world.manifests[:] = list(_manifests(desired))
    for _ in range(PASSES):
        world.pass_time(world.now + PASS_SECONDS)
        for step in world.plan().steps:
            world.obey(step)


def _manifests(desired: Desired) -> Iterator[Any]:
    for kind in (desired.nodes, desired.fabrics, desired.models, desired.deployments):
        yield from kind.values()


@pytest.mark.parametrize(("name", "command"), TO_TYPE, ids=[f"{name}: {each}" for name, each in TO_TYPE])
def test_what_is_said_to_type_is_taken_and_mends(name: str, command: str, bench: Bench) -> None:
    case = CASES[name]()
    assert command in commands(case.world)
    if case.before:
        bench.has(case.before)
    bench.has(case.world.manifests)
    in_force(bench)
    done = bench.calls(*filled(command, {"COMMIT": COMMIT})[1:])
    assert done.code == 0, done.err
    if case.mends:
        go_on(case.world, bench)
        assert command not in commands(case.world), said(case.world)


@pytest.mark.parametrize("name", sorted({name for name, _ in TO_TYPE if "healing" not in name}))
def test_where_main_is_a_mirror_it_is_taken_or_says_where_to_change_it(name: str, bench: Bench) -> None:
    case = CASES[name]()
    if case.before:
        bench.has(case.before)
    bench.has(case.world.manifests)
    bench.mirrors()
    for each, command in TO_TYPE:
        if each == name:
            done = bench.calls(*filled(command, {"COMMIT": COMMIT})[1:])
            assert done.code == 0 or "the truth is at https://git.example/cluster.git" in done.err, done.err


def test_all_that_the_cases_say_to_type_is_listed() -> None:
    assert [(name, each) for name, made in CASES.items() for each in typed_in(made())] == list(TO_TYPE)


def test_every_command_of_the_healing_table_is_among_them() -> None:
    from reconciler.planning.diagnosis.rules import TABLE

    of_table = {each for row in TABLE for each in commands_in(row.person.format_map(_Any()))}
    verbs = {" ".join(each.split()[1:3]) for each in of_table}
    known = {" ".join(each.split()[1:3]) for _, each in TO_TYPE} | {"node bootstrap"}
    assert verbs <= known


class _Any(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "x"
