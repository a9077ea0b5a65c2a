"""Specs that cannot be served while a group runs: what runs goes on, and the object says what to change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from reconciler import status
from reconciler.planning import plan
from reconciler.planning.context.workload import hash_of
from reconciler.state import (
    USUAL_CONTEXT,
    AllocateEpoch,
    GatewayAnswer,
    GatewayObservation,
    ObjectKey,
    Plan,
    RefusedBecause,
)
from reconciler.state.reports.status import ObjectStatus
from reconciler.status import Snapshots
from tests.worlds import TINY, World, deployment, gateway, model, node, settled, two_nodes

DEPLOYMENT = ObjectKey("ModelDeployment", "tiny")
SENTENCE_MAX = 200


def served() -> World:
    world = two_nodes()
    assert world.settle() == Plan()
    return world


def told(world: World, key: ObjectKey = DEPLOYMENT) -> ObjectStatus:
    snapshots = world.snapshots()
    return status.statuses(snapshots, {})[key]


def change(**spec: Any) -> Callable[[World], None]:
    def change(world: World) -> None:
        world.manifests[-1] = deployment(**spec)

    return change


def lose_the_model(world: World) -> None:
    world.remove(world.manifests[2])


def damage_the_weights(world: World) -> None:
    world.says["tiny"] = {"problem": "model.safetensors is cut short: 100 of 6692264 bytes"}
    world.manifests[-1] = deployment(serving={"context": 1024})


def grow_the_weights(world: World) -> None:
    world.weights["big"] = (900 * 2**30, TINY)
    world.manifests[2] = model(path="big")


def need_code(world: World) -> None:
    world.says["other"] = {"code": "config.json names its own model_file 'net.py'"}
    world.weights["other"] = (1, TINY)
    world.manifests[2] = model(path="other")


def not_as_a_pipeline(world: World) -> None:
    world.says["tiny"] = {"unsplittable": {"pipeline": "mlx-lm cannot run qwen3 models as a pipeline"}}
    world.manifests[-1] = deployment(strategy="pipeline")


IMPOSSIBLE: dict[str, tuple[Callable[[World], None], RefusedBecause]] = {
    "a model that is not there": (change(model="llama"), RefusedBecause.MODEL_UNKNOWN),
    "its model is deleted": (lose_the_model, RefusedBecause.MODEL_UNKNOWN),
    "labels that no node has": (
        change(placement={"nodeSelector": {"pool": "x"}}),
        RefusedBecause.NO_NODES,
    ),
    "more nodes than there are": (change(nodes=5), RefusedBecause.NO_NODES),
    "a context beyond all memory": (
        change(serving={"context": 16_777_216, "maxBatch": 1024}),
        RefusedBecause.NO_MEMORY,
    ),
    "weights that are too large": (grow_the_weights, RefusedBecause.NO_MEMORY),
    "weights that are damaged": (damage_the_weights, RefusedBecause.WEIGHTS_UNUSABLE),
    "weights that need their own code": (need_code, RefusedBecause.CODE_UNTRUSTED),
    "a strategy that the model has not": (not_as_a_pipeline, RefusedBecause.NOT_SUPPORTED),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_an_impossible_change_leaves_what_is_served_and_says_what_to_do_and_undoing_it_is_quiet(
    case: str,
) -> None:
    change, reason = IMPOSSIBLE[case]
    world = served()
    manifests, alive, steps = list(world.manifests), world.alive(), len(world.history)
    change(world)
    decided = world.settle()
    (refusal,) = decided.refused
    assert (refusal.reason, world.alive()) == (reason, alive)
    assert "\n" not in refusal.text
    assert len(refusal.text) <= SENTENCE_MAX

    now = told(world)
    ready, stalled = now.condition("Ready"), now.condition("Stalled")
    assert ready is not None
    assert stalled is not None
    assert (ready.status, stalled.status, stalled.reason) == (True, True, reason.value)
    assert stalled.message == refusal.text

    world.manifests[:], world.says, world.leaving = manifests, {}, {}
    assert world.settle() == Plan()
    assert world.alive() == alive
    assert [str(step) for step in world.history[steps:]] == []


def test_a_group_moves_to_the_nodes_that_its_selector_has_come_to_ask_for() -> None:
    nodes = [
        node(f"node-{letter}", labels={"pool": pool}) for letter, pool in zip("abcd", "xxyy", strict=True)
    ]
    world = World([*nodes, model(), deployment(placement={"nodeSelector": {"pool": "x"}})])
    assert world.settle() == Plan()
    world.manifests[-1] = deployment(placement={"nodeSelector": {"pool": "y"}})
    assert world.settle() == Plan()
    assert world.group().members == ("node-c", "node-d")
    (_, formed) = world.done(AllocateEpoch)
    assert formed.detail == "node-a, node-b lacks the labels of its nodeSelector"


def test_a_group_moves_when_a_node_loses_its_label_and_keeps_the_others() -> None:
    world = World([node("node-a", labels={"pool": "x"}), node("node-b", labels={"pool": "x"}), model()])
    world.manifests += [
        node("node-c", labels={"pool": "x"}),
        deployment(placement={"nodeSelector": {"pool": "x"}}),
    ]
    assert world.settle() == Plan()
    world.manifests[0] = node("node-a")
    assert world.settle() == Plan()
    assert world.group().members == ("node-b", "node-c")


def test_a_cordoned_node_keeps_what_runs_on_it() -> None:
    world = served()
    alive = world.alive()
    world.manifests[0] = node("node-a", unschedulable=True)
    assert world.settle() == Plan()
    assert world.alive() == alive


def test_a_gateway_that_cannot_listen_where_it_should_says_so() -> None:
    world = served()
    world.manifests.append(gateway())
    key = ObjectKey("Gateway", "main")
    for endpoint, ready in ((None, False), ("http://127.0.0.1:8400/v1", True)):
        observed = replace(
            world.observed(),
            gateway=GatewayObservation(7, endpoint, "8401 is taken", door=GatewayAnswer(True)),
        )
        decided = plan(world.desired(), observed, world.memory(), world.now, "entropy")
        snapshots = Snapshots(world.desired(), observed, world.memory(), decided, world.now)
        found = {c.type: (c.status, c.reason) for c in status.statuses(snapshots, {})[key].conditions}
        assert found["Stalled"] == (True, "CannotListen")
        assert found["Ready"] == (ready, "Listening" if ready else "CannotListen")


# --- groups of earlier versions --------------------------------------------------------------------


def of_an_earlier_version(**serving: Any) -> World:
    """A group whose deployment named no context when every group had the usual one."""
    world = settled(two_nodes())
    record = world.group()
    usual = hash_of(deployment().spec, model(), USUAL_CONTEXT)
    world.groups[world.replica()] = replace(record, fingerprint=usual, context=0)
    world.manifests[-1] = deployment(serving=serving)
    return world


def test_a_group_of_an_earlier_version_stays_where_the_context_is_left_to_the_next_one() -> None:
    world = of_an_earlier_version()
    assert world.plan() == Plan()
    routes = world.routes()
    assert [route.context for route in routes] == [USUAL_CONTEXT]


def test_it_stays_where_just_that_context_is_wanted_and_no_other() -> None:
    assert of_an_earlier_version(context=USUAL_CONTEXT).plan() == Plan()
    (step, *_) = of_an_earlier_version(context=2048).plan().steps
    assert isinstance(step, AllocateEpoch)


def test_a_group_that_has_decided_its_context_is_of_no_earlier_version() -> None:
    world = of_an_earlier_version()
    world.groups[world.replica()] = replace(world.group(), context=USUAL_CONTEXT)
    (step, *_) = world.plan().steps
    assert isinstance(step, AllocateEpoch)
