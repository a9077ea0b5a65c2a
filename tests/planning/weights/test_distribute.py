"""Weights from a hub: who fetches, who waits for that, and when a group may be formed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.state import (
    AllocateEpoch,
    NodeName,
    ObjectKey,
    Plan,
    ProveGroup,
    RefusedBecause,
    WaitingFor,
    Write,
)
from reconciler.state.machine.weights import ON_DEMAND, FetchWeights
from reconciler.wire.launch import ExitCode, Phase
from reconciler.wire.weights import (
    FETCHERS_MAX,
    SPARE_BYTES,
    FetchPhase,
    FetchProblem,
    FetchReport,
    Progress,
    hub_path,
)
from tests.worlds import World, deployment, hub_model, node, settled

OLD, NEW = "a" * 40, "b" * 40
PATH = hub_path("org/tiny", OLD)


def machines(count: int = 3, nodes: Any = 2) -> World:
    """Nodes that are each a machine of its own."""
    return World([*(node(f"node-{at}") for at in range(count)), hub_model(), deployment(nodes=nodes)])


def fetches(plan: Plan) -> list[str]:
    return [step.node for step in plan.steps if isinstance(step, FetchWeights)]


def agents(world: World) -> World:
    world.agents = {NodeName(name) for name in world.desired().nodes}
    return world


def stands(world: World, name: str, problem: str = "", attempts: int = 1, **more: Any) -> None:
    """How the fetch of a node stands."""
    phase = FetchPhase.FAILED if problem else FetchPhase.FETCHING
    progress = Progress(phase, 12_000_000, 40_000_000, 2e6, problem=problem, text=problem and "it broke")
    told = FetchReport(progress, "1/1", attempts, **more)
    world.fetched.setdefault(PATH, {})[NodeName(name)] = told


def origins(plan: Plan) -> dict[str, str | None]:
    return {step.node: step.origin for step in plan.steps if isinstance(step, FetchWeights)}


def test_as_many_nodes_have_them_as_the_deployment_may_use() -> None:
    world = settled(agents(machines(count=4, nodes={"min": 1, "max": 2})))
    assert [step.node for step in world.done(FetchWeights)] == ["node-0", "node-1"]


def test_one_machine_fetches_and_the_others_copy_from_it() -> None:
    world = agents(machines(count=3, nodes=3))
    assert origins(world.plan()) == {"node-0": None}
    stands(world, "node-0")
    assert origins(world.plan()) == {}
    world.fetched[PATH] = {NodeName("node-0"): None}
    plan = world.plan()
    assert origins(plan) == {"node-1": "node-0", "node-2": "node-0"}
    assert "copy org/tiny at aaaaaaaaaa from node-0 to node-1" in [str(step) for step in plan.steps]


def test_a_node_that_was_not_seen_since_it_was_changed_gives_no_copies() -> None:
    world = agents(machines(count=2))
    world.fetched[PATH] = {NodeName("node-0"): None}
    assert origins(world.plan()) == {"node-1": "node-0"}
    world.writes = {NodeName("node-0"): Write(world.link, 1000)}
    assert origins(world.plan()) == {"node-1": None}


def test_where_copies_fail_the_hub_is_asked() -> None:
    world = agents(machines(count=2, nodes=2))
    stands(world, "node-1", FetchProblem.INTERRUPTED, attempts=2, ended_seconds=10.0)
    world.fetched[PATH][NodeName("node-0")] = None
    assert origins(world.plan()) == {"node-1": None}


@pytest.mark.parametrize("attempts", [1, 3], ids=["it is tried again soon", "it is given up"])
def test_another_machine_begins_where_the_first_has_trouble(attempts: int) -> None:
    world = agents(machines(count=2, nodes=2))
    stands(world, "node-0", FetchProblem.UNREACHABLE, attempts=attempts)
    assert origins(world.plan()) == {"node-1": None}


def test_no_group_is_formed_before_the_weights_are_verified_on_its_nodes() -> None:
    world = agents(machines())
    world.fetched[PATH] = {NodeName("node-0"): None}
    stands(world, "node-1")
    plan = world.plan()
    assert not [step for step in plan.steps if isinstance(step, AllocateEpoch)]
    texts = [waiting.text for waiting in plan.waiting if waiting.reason is WaitingFor.WEIGHTS]
    assert texts == [
        "node-1 fetches tiny: 12.0 MB of 40.0 MB (30 %), 2.0 MB/s, 14 s left",
        "tiny/0: the weights of tiny are not on node-1 yet",
    ]
    world.fetched[PATH][NodeName("node-1")] = None
    world.settle()
    assert world.group().members == ("node-0", "node-1")


def test_nodes_of_one_machine_with_one_folder_fetch_once() -> None:
    world = agents(machines(nodes=3))
    world.hosts = {f"node-{at}": "one" for at in range(3)}
    assert fetches(world.plan()) == ["node-0"]
    stands(world, "node-1")
    assert fetches(world.plan()) == []


def test_nodes_of_one_machine_with_a_folder_each_fetch_each() -> None:
    world = agents(machines(count=2, nodes=2))
    world.hosts = {"node-0": "one", "node-1": "one"}
    world.folders = {"node-1": "/home/b/models"}
    world.settle()
    assert [step.node for step in world.done(FetchWeights)] == ["node-0", "node-1"]


@pytest.mark.parametrize("problem", FetchProblem.ALL)
def test_a_failed_fetch_is_tried_again_when_it_is_time_and_a_person_is_told(problem: str) -> None:
    world = agents(machines(count=1, nodes=1))
    stands(world, "node-0", problem, attempts=3)
    plan = world.plan()
    assert fetches(plan) == []
    told = {refusal.reason.value for refusal in plan.refused if refusal.object.kind == "Model"}
    assert told == {problem}
    assert {r.reason for r in plan.refused if r.object.kind == "ModelDeployment"} == {
        RefusedBecause.WEIGHTS_MISSING
    }
    stands(world, "node-0", problem, attempts=3, ended_seconds=601.0)
    assert fetches(world.plan()) == ["node-0"]


@pytest.mark.parametrize("problem", FetchProblem.PASSING)
def test_what_passes_by_itself_is_tried_again_soon_and_waited_for(problem: str) -> None:
    world = agents(machines(count=1, nodes=1))
    stands(world, "node-0", problem, attempts=1, ended_seconds=1.0)
    plan = world.plan()
    assert plan.refused == ()
    assert {waiting.reason for waiting in plan.waiting} == {WaitingFor.BACK_OFF, WaitingFor.WEIGHTS}
    stands(world, "node-0", problem, attempts=1, ended_seconds=2.0)
    assert fetches(world.plan()) == ["node-0"]


def test_what_a_person_has_to_mend_stays_told_while_it_is_tried_once_more() -> None:
    """The next try begins, and the obstacle is not gone for that: else it comes and goes with each of them."""
    world = agents(machines(count=1, nodes=1))
    ended = Progress(FetchPhase.FAILED, problem=FetchProblem.UNREACHABLE, text="no connection to the hub")
    stands(world, "node-0", attempts=3, failure=ended)
    plan = world.plan()
    assert fetches(plan) == []
    assert {(refusal.object.kind, refusal.reason.value) for refusal in plan.refused} == {
        ("Model", "HubUnreachable"),
        ("ModelDeployment", "WeightsMissing"),
    }
    assert all("no connection to the hub" in refusal.text for refusal in plan.refused)
    stands(world, "node-0", attempts=3)  # it gets further
    assert world.plan().refused == ()


def test_a_fetch_begins_when_it_is_its_turn_on_its_node() -> None:
    names = [f"m{number}" for number in range(6)]
    models = [hub_model(name, repo=f"org/{name}") for name in names]
    served = [deployment(f"d{name}", nodes=1, model=name) for name in names]
    world = agents(World([node("node-0"), *models, *served]))
    plan = world.plan()
    assert len(fetches(plan)) == FETCHERS_MAX
    texts = [waiting.text for waiting in plan.waiting if "fetches others first" in waiting.text]
    assert texts == [f"{name}: node-0 fetches others first, 4 at a time" for name in names[FETCHERS_MAX:]]


def test_steps_that_are_no_fetches_of_a_node_take_none_of_its_turns() -> None:
    world = agents(machines(count=1, nodes=1))
    others = {f"weights/node-1/{number}" for number in range(FETCHERS_MAX)}
    world.in_flight = others | {"rank/other/0/1/0"}
    assert fetches(world.plan()) == ["node-0"]
    world.in_flight = {each.replace("node-1", "node-0") for each in others}
    assert fetches(world.plan()) == []


def test_of_nodes_without_the_weights_those_with_the_most_memory_get_them() -> None:
    world = agents(machines(count=3, nodes=1))
    world.memory_of = {"node-1": 2 * world.memory_bytes}
    assert fetches(world.plan()) == ["node-1"]


@pytest.mark.parametrize(("wish", "at_once"), [("0/1", True), ("1/1", False), (f"{ON_DEMAND}abc", False)])
def test_what_failed_for_another_wish_is_tried_at_once_and_a_check_that_a_person_asked_for_is_no_wish(
    wish: str, at_once: bool
) -> None:
    world = agents(machines(count=1, nodes=1))
    stands(world, "node-0", FetchProblem.INTERRUPTED, ended_seconds=0.5)
    found = world.fetched[PATH][NodeName("node-0")]
    assert found is not None
    world.fetched[PATH][NodeName("node-0")] = replace(found, wish=wish)
    assert fetches(world.plan()) == (["node-0"] if at_once else [])


def test_another_wish_is_tried_at_once() -> None:
    world = agents(machines(count=1, nodes=1))
    stands(world, "node-0", FetchProblem.UNAUTHORIZED)
    assert fetches(world.plan()) == []
    world.token = world.asked_with = 2
    assert fetches(world.plan()) == ["node-0"]


def test_a_node_that_cannot_have_them_is_left_out_where_others_suffice() -> None:
    world = agents(machines(count=3, nodes={"min": 1, "max": 2}))
    stands(world, "node-0", FetchProblem.DISK_FULL)
    assert fetches(world.plan()) == ["node-1"]
    world.settle()
    assert world.group().members == ("node-1", "node-2")


def test_the_old_revision_serves_until_the_new_one_is_verified_everywhere() -> None:
    world = settled(machines(count=2))
    before = world.group()
    world.manifests[2] = hub_model(revision=NEW)
    path = hub_path("org/tiny", NEW)
    assert fetches(world.plan()) == ["node-0"]
    world.fetched[path] = {NodeName("node-0"): None}
    told = FetchReport(Progress(FetchPhase.FETCHING, 1, 2))
    world.fetched[path][NodeName("node-1")] = told
    plan = world.plan()
    assert plan.steps == ()
    assert world.group() == before
    world.fetched[path][NodeName("node-1")] = None
    world.settle()
    assert world.group().epoch == before.epoch + 1


# --- new weights that do not come up ---------------------------------------------------------------


def moved(world: World) -> World:
    """The new weights are there, and the first group of them has been formed."""
    world.settle()
    world.manifests[-2] = hub_model(revision=NEW)
    world.generations[ObjectKey("Model", "tiny")] = 2
    path = hub_path("org/tiny", NEW)
    world.fetched[path] = dict.fromkeys(world.desired().nodes)
    return world


def held(world: World) -> set[str]:
    return {group.weights[-1] for group in world.groups.values()}


def crash(world: World, code: int | None = None) -> None:
    """Whatever the rank was given, it ends before it has served."""
    world.now += 60.0
    for rank in world.alive()[:1]:
        world.end_rank(rank, code=code, signal=None if code else 11)


def until_formed(world: World) -> None:
    """Plan and obey until the ranks of another epoch run."""
    world.act(6)


def test_new_weights_that_crash_twice_give_way_to_those_before() -> None:
    world = moved(machines(count=2))
    world.first_phase = Phase.LOADING
    until_formed(world)
    assert held(world) == {"b"}
    crash(world)
    until_formed(world)
    assert held(world) == {"b"}  # once is nothing
    crash(world)
    world.first_phase = Phase.READY
    world.settle()
    assert held(world) == {"a"}
    assert world.group().proven_at is not None
    told = [refusal for refusal in world.plan().refused if refusal.reason is RefusedBecause.SET_BACK]
    assert [str(refusal.object) for refusal in told] == ["model/tiny", "modeldeployment/tiny"]
    assert "tiny did not come up with weights org/tiny at aaaaaaaaaa → org/tiny at bbbbbbbbbb" in told[0].text
    assert "reconciler model update tiny --revision COMMIT" in told[0].person


def test_new_weights_that_a_rank_refuses_give_way_at_once() -> None:
    world = moved(machines(count=2))
    world.first_phase = Phase.LOADING
    until_formed(world)
    crash(world, ExitCode.WEIGHTS)
    world.first_phase = Phase.READY
    world.settle()
    assert held(world) == {"a"}


def test_new_weights_that_crash_twice_soon_after_their_first_answer_give_way() -> None:
    world = settled(moved(machines(count=2)))
    for _ in range(2):
        assert held(world) == {"b"}
        assert world.group().proven_at is not None
        crash(world)
        world.settle()
    assert held(world) == {"a"}


@pytest.mark.parametrize(
    ("loaded", "served", "given_up"), [(30.0, 590.0, True), (30.0, 610.0, False), (400.0, 790.0, True), (400.0, 810.0, False)]
)  # fmt: skip
def test_weights_are_trusted_after_ten_minutes_or_twice_the_time_that_they_took_to_come_up(
    loaded: float, served: float, given_up: bool
) -> None:
    world = settled(moved(machines(count=2)))
    for _ in range(2):
        record = world.group()
        assert record.proven_at is not None
        world.groups[record.replica] = replace(record, created_at=record.proven_at - loaded)
        world.now = record.proven_at + served
        died = world.alive()[0]
        world.ranks[died] = (
            world.ranks[died][0],
            replace(world.ranks[died][1], started_at=record.proven_at - loaded),
        )
        world.end_rank(died, signal=11)
        world.settle()
    assert held(world) == ({"a"} if given_up else {"b"})


def test_weights_that_have_served_for_long_are_not_given_up() -> None:
    world = settled(moved(machines(count=2)))
    for _ in range(4):
        world.now += 700.0
        crash(world)
        world.settle()
        assert held(world) == {"b"}


def test_where_no_others_have_served_there_are_none_to_go_back_to() -> None:
    world = settled(machines(count=2))
    world.now += 700.0
    for _ in range(4):
        crash(world)
        world.pass_time(world.now + 340)
        world.settle()
    (group,) = world.groups.values()
    assert group.weights == group.weights_before
    assert world.rollbacks == {}


def test_weights_that_were_replaced_while_they_served_are_those_to_go_back_to() -> None:
    world = settled(moved(machines(count=2)))
    third = "c" * 40
    world.manifests[-2] = hub_model(revision=third)
    world.generations[ObjectKey("Model", "tiny")] = 3
    world.fetched[hub_path("org/tiny", third)] = dict.fromkeys(world.desired().nodes)
    world.settle()
    (group,) = world.groups.values()
    assert (group.weights[-1], group.weights_before[-1]) == ("c", "b")


def test_a_machine_that_is_lost_is_not_blamed_on_the_weights() -> None:
    world = moved(machines(count=3))
    world.first_phase = Phase.LOADING
    until_formed(world)
    for _ in range(2):
        world.lose(world.group().members[0])
        world.now += 60.0
        until_formed(world)
        world.find("node-0")
    assert world.rollbacks == {}


@pytest.mark.parametrize("again", ["another revision", "a restart"])
def test_what_was_given_up_is_tried_again_when_something_was_changed(again: str) -> None:
    world = moved(machines(count=2))
    world.first_phase = Phase.LOADING
    until_formed(world)
    crash(world, ExitCode.WEIGHTS)
    world.first_phase = Phase.READY
    world.settle()
    if again == "a restart":
        world.manifests[-1] = deployment(nodes=2, restartedAt="now")
        world.settle()
        assert held(world) == {"b"}
    else:
        world.manifests[-2] = hub_model(revision="c" * 40)
        world.settle()
        assert held(world) == {"c"}
    assert [r for r in world.plan().refused if r.reason is RefusedBecause.SET_BACK] == []


def test_the_proof_of_moved_weights_says_from_where_to_where() -> None:
    world = settled(moved(machines(count=2)))
    moves = [step.moved for step in world.done(ProveGroup)]
    assert moves == ["", "from org/tiny at aaaaaaaaaa to org/tiny at bbbbbbbbbb"]


def test_of_weights_that_are_as_the_hub_has_them_and_useless_another_commit_is_advised() -> None:
    world = agents(machines(count=1, nodes=1))
    world.fetched[PATH] = {NodeName("node-0"): None}
    world.says[PATH] = {"problem": "the installed mlx-lm does not know the architecture 'x'"}
    (refused,) = [each for each in world.plan().refused if each.reason is RefusedBecause.WEIGHTS_UNUSABLE]
    assert refused.text.endswith("'x'")
    assert refused.person == "reconciler model update tiny --revision COMMIT"


def test_a_fetch_that_filled_the_disk_goes_on_as_soon_as_there_is_room() -> None:
    world = agents(machines(count=1, nodes=1))
    stands(world, "node-0", FetchProblem.DISK_FULL, ended_seconds=10.0)
    left = 40_000_000 - 12_000_000 + SPARE_BYTES
    world.reports["node-0"] = {"models_free_bytes": left - 1, "models_total_bytes": 10**12}
    assert (fetches(world.plan()), world.plan().refused[0].reason) == ([], RefusedBecause.DISK_FULL)
    world.reports["node-0"] = {"models_free_bytes": left + 1, "models_total_bytes": 10**12}
    assert fetches(world.plan()) == ["node-0"]


@pytest.mark.parametrize(
    ("problem", "total", "free", "again"),
    [
        (FetchProblem.DISK_FULL, 40_000_000, 10**12, True),
        (FetchProblem.DISK_FULL, 40_000_000, None, False),
        (FetchProblem.DISK_FULL, 0, 10**12, False),
        (FetchProblem.NOT_SERVABLE, 40_000_000, 10**12, False),
    ],
)
def test_room_ends_the_wait_only_of_what_lacked_it_and_where_it_is_known_how_much(
    problem: str, total: int, free: int | None, again: bool
) -> None:
    world = agents(machines(count=1, nodes=1))
    progress = Progress(FetchPhase.FAILED, 12_000_000, total, 2e6, problem=problem, text="it broke")
    told = FetchReport(progress, "1/1", 1, ended_seconds=10.0)
    world.fetched.setdefault(PATH, {})[NodeName("node-0")] = told
    world.reports["node-0"] = {"models_free_bytes": free, "models_total_bytes": 10**12}
    assert fetches(world.plan()) == (["node-0"] if again else [])


def test_while_news_of_a_fetch_are_awaited_no_other_machine_asks_the_hub() -> None:
    world = agents(machines(count=2, nodes=2))
    world.writes = {NodeName("node-0"): Write(world.link, 1000)}
    assert fetches(world.plan()) == []
    world.writes = {}
    assert fetches(world.plan()) == ["node-0"]


def test_news_of_a_machine_that_is_not_to_have_them_are_not_awaited() -> None:
    world = agents(machines(count=3, nodes=2))
    world.writes = {NodeName("node-2"): Write(world.link, 1000)}
    assert fetches(world.plan()) == ["node-0"]


@pytest.mark.parametrize("first", ["pipeline", "tensor"])
def test_a_node_that_one_deployment_needs_in_full_gets_all_whatever_the_order_of_their_names(
    first: str,
) -> None:
    second = "tensor" if first == "pipeline" else "pipeline"
    deployments = (deployment("a", strategy=first), deployment("b", strategy=second))
    world = agents(World([node("node-0"), node("node-1"), hub_model(), *deployments]))

    asked = [(step.node, step.only) for step in world.plan().steps if isinstance(step, FetchWeights)]

    assert asked == [("node-0", None)]
