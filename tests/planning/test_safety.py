"""When an object that was removed has left, and what is said of a revision that is kept out."""

from __future__ import annotations

from dataclasses import replace

from reconciler.planning import plan
from reconciler.planning.safety import LOCK_SECONDS
from reconciler.state import (
    AllocateEpoch,
    Hold,
    Rejection,
    RemoveObject,
    StartRank,
    WaitingFor,
)
from reconciler.state.identity import CLUSTER, ObjectKey
from tests.worlds import World, deployment, gateway, model, node, settled, two_nodes

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
    world = settled(World([node("node-a"), node("node-b")]))
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
    found = Hold("r2", (ObjectKey("Node", "node-a"),), 1)
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
        world.act()
    assert AllocateEpoch not in steps("store.db is locked")
    world.act()
    assert StartRank in steps("store.db is locked"), "its epoch is written down"
