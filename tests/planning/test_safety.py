"""What a revision may remove by itself, and when an object that was removed has left."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.planning import plan
from reconciler.planning.safety import LOCK_SECONDS, hold, removal, serving
from reconciler.state import (
    AllocateEpoch,
    DeploymentName,
    Hold,
    Rejection,
    RemoveObject,
    ReplicaId,
    StartRank,
    WaitingFor,
)
from reconciler.state.desired import OBJECTS_SHOWN
from reconciler.state.identity import CLUSTER, ObjectKey
from tests.worlds import World, deployment, gateway, model, node, two_nodes


def keys(count: int) -> list[ObjectKey]:
    return [ObjectKey("Node", f"n{number:03}") for number in range(count)]


def judged(
    revision: str,
    in_force: Collection[ObjectKey],
    incoming: Collection[ObjectKey],
    approved: Collection[str] = (),
    over: str = "",
) -> Hold | None:
    """Of a revision that removes nothing that serves."""
    return hold(revision, removal(in_force, incoming, (), ()), approved, over)


@pytest.mark.parametrize(
    ("in_force", "removed", "held"),
    [
        (0, 0, False),
        (1, 1, True),  # nothing would be left
        (2, 1, False),
        (3, 1, False),
        (3, 2, True),
        (5, 1, False),
        (5, 2, True),
        (10, 3, False),
        (10, 4, True),
        (100, 30, False),
        (100, 31, True),
    ],
)
def test_one_object_or_three_in_ten_go_without_a_question(in_force: int, removed: int, held: bool) -> None:
    now = keys(in_force)
    found = judged("r2", now, now[removed:])
    assert (found is not None) == held
    if found:
        assert found == Hold("r2", tuple(now[:removed]), in_force)


def test_what_is_new_does_not_make_up_for_what_is_gone() -> None:
    new = [ObjectKey("Model", f"m{number}") for number in range(50)]
    assert judged("r2", keys(5), [*keys(3), *new], ()) is not None


def test_an_approval_is_for_one_revision() -> None:
    assert judged("r2", keys(5), [], {"r2"}) is None
    assert judged("r3", keys(5), [], {"r2"}) is not None


@given(st.sets(st.sampled_from(keys(12))), st.sets(st.sampled_from(keys(12))))
def test_nothing_is_held_that_removes_nothing_and_everything_that_leaves_nothing(
    in_force: set[ObjectKey], incoming: set[ObjectKey]
) -> None:
    found = judged("r2", in_force, incoming, ())
    if in_force <= incoming:
        assert found is None
    elif not incoming:
        assert found is not None
    if found is None:
        assert len(in_force - incoming) <= max(1, 0.3 * len(in_force))


def test_a_hold_names_what_would_go_and_the_command() -> None:
    revision, over = (begin + "0" * 30 for begin in ("1f0c2a9b3d", "aa11bb22cc"))
    found = judged(revision, keys(OBJECTS_SHOWN + 3), [], (), over)
    assert found is not None
    assert found.command == "reconciler approve 1f0c2a9b3d"
    assert "it would remove 13 of 13 objects (node/n000, " in found.text
    assert "and 3 more); to remove them: reconciler approve 1f0c2a9b3d;" in found.text
    assert found.text.endswith(
        "; to keep them: put their manifests back, such as with a revert of the commits aa11bb22cc..1f0c2a9b3d"
    )
    folder = judged("dir-1f0c2a9b3d", keys(3), [], (), "dir-aa11bb22cc")
    assert folder is not None
    assert folder.text.endswith("; to keep them: put their manifests back")


TINY, BIG = ObjectKey("ModelDeployment", "tiny"), ObjectKey("ModelDeployment", "big")
GATEWAY = ObjectKey("Gateway", "main")


def test_what_has_a_group_serves_and_a_gateway_that_runs() -> None:
    objects, replicas = [TINY, BIG, GATEWAY], [ReplicaId(DeploymentName("tiny"), 0)]
    assert serving(objects, replicas, gateway=False) == {TINY}
    assert serving(objects, replicas, gateway=True) == {TINY, GATEWAY}


@pytest.mark.parametrize(
    ("said", "unsaid"),
    [
        ((), (BIG, TINY)),
        (("tiny",), (BIG,)),
        (("modeldeployment/tiny", "big"), ()),
        (("ModelDeployment/tiny", "deploy/big"), ()),
        (("model/tiny", "apikey/tiny", "x/tiny", "gateway/big"), (BIG, TINY)),
        (None, ()),
    ],
)
def test_what_serves_is_removed_where_each_of_it_is_named_or_all_are(
    said: tuple[str, ...] | None, unsaid: tuple[ObjectKey, ...]
) -> None:
    in_force = [TINY, BIG, *keys(8)]
    assert removal(in_force, keys(8), {TINY, BIG}, said).unsaid == unsaid


def test_what_serves_is_asked_about_whatever_else_goes_and_an_approval_is_for_both() -> None:
    in_force = [TINY, *keys(4)]
    for left in range(5):
        found = removal(in_force, keys(left), {TINY}, ())
        assert found.unsaid == (TINY,)
        assert hold("r2", found, ()) is not None
        assert hold("r2", found, {"r2"}) is None


def test_a_hold_of_what_serves_names_it_and_the_trailer() -> None:
    found = hold("1f0c2a9b3d", removal([TINY, *keys(9)], keys(9), {TINY}, ()), ())
    assert found is not None
    assert found.text == (
        "revision 1f0c2a9b3d is held: it would remove 1 of 10 objects, and no commit allows that for modeldeployment/tiny,"
        " which serves now (Allow-Removal: tiny); to remove them: reconciler approve 1f0c2a9b3d; to keep them: put their"
        " manifests back"
    )


# --- leaving ---------------------------------------------------------------------------------------


def served() -> World:
    world = two_nodes()
    world.manifests.append(gateway())
    world.settle()
    assert len(world.alive()) == 2
    return world


def awaited(world: World, kind: str, name: str) -> list[str]:
    key = ObjectKey(kind, name)
    return [w.text for w in world.plan().waiting if w.object == key and w.reason is WaitingFor.REMOVAL]


def removals(world: World) -> list[str]:
    return [str(step.object) for step in world.plan().steps if isinstance(step, RemoveObject)]


def test_a_deployment_leaves_when_its_ranks_are_gone_and_its_group_is_released() -> None:
    world = served()
    world.remove(world.manifests[3])
    tiny = "modeldeployment/tiny is being removed: "
    assert awaited(world, "ModelDeployment", "tiny") == [f"{tiny}waiting for the end of rank 0 on node-a"]
    for rank in world.alive():
        world.end_rank(rank, code=0)
    assert awaited(world, "ModelDeployment", "tiny") == [f"{tiny}the group of tiny/0 is not released yet"]
    world.in_flight.add("replica/tiny/0")
    world.groups.clear()
    assert awaited(world, "ModelDeployment", "tiny") == [f"{tiny}a step is being executed"]
    world.in_flight.clear()
    assert removals(world) == ["modeldeployment/tiny"]
    world.settle()
    assert world.leaving == {}


def test_a_node_leaves_when_its_agent_has_ended() -> None:
    world = served()
    world.manifests.append(node("node-c"))
    world.settle()
    world.remove(world.manifests[1])
    assert awaited(world, "Node", "node-b") == ["node/node-b is being removed: tiny/0 still has a rank there"]
    world.settle()
    assert world.leaving == {}
    assert "node-b" not in world.agents


def test_a_node_whose_agent_cannot_be_asked_stays_in_the_inventory() -> None:
    world = World([node("node-a"), node("node-b")])
    world.settle()
    world.in_flight.add("node/node-b")
    world.remove(world.manifests[1])
    assert awaited(world, "Node", "node-b") == [
        "node/node-b is being removed: waiting for the end of its agent"
    ]


def test_a_model_leaves_at_once_unless_a_group_uses_it() -> None:
    world = served()
    world.manifests.append(model("idle"))
    world.remove(world.manifests[-1])
    assert removals(world) == ["model/idle"]
    world.settle()
    world.remove(world.manifests[2])
    assert awaited(world, "Model", "tiny") == ["model/tiny is being removed: tiny/0 still uses its weights"]


def test_a_model_that_is_exchanged_leaves_when_the_old_epoch_is_gone() -> None:
    world = served()
    world.weights["other"] = world.weights["tiny"]
    old = world.manifests[2]
    world.manifests[3] = deployment(model="other")
    world.manifests.append(model("other", "other"))
    world.remove(old)
    (allocate,) = (step for step in world.plan().steps if not isinstance(step, RemoveObject))
    world.obey(allocate)
    assert awaited(world, "Model", "tiny") == [
        "model/tiny is being removed: the last epoch of tiny/0 may use its weights"
    ]
    world.settle()
    assert world.leaving == {}
    assert {group.model for group in world.groups.values()} == {"other"}


def test_a_gateway_leaves_at_once_for_its_process_is_not_the_controllers() -> None:
    world = served()
    world.remove(world.manifests[-1])
    assert removals(world) == ["gateway/main"]


def test_an_object_is_taken_out_once() -> None:
    world = served()
    world.remove(world.manifests[-1])
    world.in_flight.add("object/gateway/main")
    assert removals(world) == []


def test_a_revision_that_is_kept_out_is_shown_as_refused() -> None:
    world = served()
    found = judged("r2", [ObjectKey("Node", "node-a")], [], ())
    decided = plan(replace(world.desired(), hold=found), world.observed(), world.memory(), world.now, "")
    assert [(r.object, r.reason.value) for r in decided.refused] == [(CLUSTER, "RevisionHeld")]
    assert "reconciler approve r2" in decided.refused[0].text
    wrong = Rejection("a.yaml:1:7: kind: unknown\na.yaml:2:1: kind: missing")
    decided = plan(replace(world.desired(), rejection=wrong), world.observed(), world.memory(), world.now, "")
    assert [(r.object, r.reason.value) for r in decided.refused] == [(CLUSTER, "RevisionRejected")]
    assert wrong.line in decided.refused[0].text


# --- a store that cannot be written ---------------------------------------------------------------


def test_while_the_store_is_locked_what_is_written_first_waits_and_the_rest_goes_on() -> None:
    world = two_nodes()

    def steps(locked: str) -> list[type]:
        memory = replace(world.memory(), locked=locked)
        decided = plan(world.desired(), world.observed(), memory, world.now, "entropy")
        waits = [(w.object, w.until) for w in decided.waiting if w.reason is WaitingFor.STORE]
        assert waits == ([(CLUSTER, world.now + LOCK_SECONDS)] if locked else [])
        return [type(step) for step in decided.steps]

    for _ in range(30):
        if AllocateEpoch in steps(""):
            break
        for step in world.plan().steps:
            world.obey(step)
    assert AllocateEpoch not in steps("store.db is locked")
    for step in world.plan().steps:
        world.obey(step)
    assert StartRank in steps("store.db is locked"), "its epoch is written down"
