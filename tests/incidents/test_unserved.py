"""A deployment that nothing serves is an incident whatever the reason is, unless a person wants it so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reconciler.resources import ModelDeployment
from reconciler.state import DeploymentName, FaultClass, NodeName, Plan, Refusal, RefusedBecause, ReplicaId
from reconciler.state.identity import ObjectKey
from reconciler.state.reports.incident import EntryKind, Occasion
from reconciler.status.awaited import AS_WISHED
from reconciler.status.unserved import UNSERVED_SECONDS
from reconciler.wire.launch import RankId
from reconciler.wire.weights import FetchPhase, FetchProblem, FetchReport, Progress
from tests.incidents.log import Log
from tests.worlds import World, deployment, gateway, hub_model, model, node, two_nodes

GIB = 2**30
TINY_0 = ReplicaId(DeploymentName("tiny"), 0)


def one_node() -> World:
    return World([node("node-a"), model(), deployment(nodes=1)])


def passes(log: Log, seconds: float) -> None:
    """Passes of the product's planning, with or without anything to do: five seconds apart until an incident may begin,
    and later twenty."""
    began = log.world.now
    while log.world.now < began + seconds:
        if not log.go().steps:
            log.world.now += 5.0 if log.world.now < began + 2 * UNSERVED_SECONDS else 20.0


def too_large(world: World) -> None:
    world.weights["tiny"] = (200 * GIB, world.weights["tiny"][1])


def open_(log: Log) -> list[tuple[str, str]]:
    return [(str(each.subject), each.fault.value) for each in log.known.values() if each.open]


# --- what is one -------------------------------------------------------------------------------------


def not_enough_memory() -> World:
    world = one_node()
    too_large(world)
    return world


def unusable_weights() -> World:
    world = one_node()
    world.says["tiny"] = {"problem": "config.json is not JSON"}
    return world


def gated() -> World:
    world = World([node("node-a"), hub_model(), deployment(nodes=1)])
    said = Progress(
        FetchPhase.FAILED, 0, 10, 0.0, problem=FetchProblem.FORBIDDEN, text="403: accept its terms"
    )
    world.fetched[f"hub/org--tiny/{'a' * 40}"] = {NodeName("node-a"): FetchReport(said, "1/1", 1)}
    return world


def two_replicas() -> World:
    world = World([node("node-a"), node("node-b"), model(), deployment(nodes=1, replicas=2)])
    too_large(world)
    return world


def too_few_nodes() -> World:
    return World([node("node-a"), model(), deployment(nodes=2)])


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (not_enough_memory, RefusedBecause.NO_MEMORY),
        (unusable_weights, RefusedBecause.WEIGHTS_UNUSABLE),
        (gated, RefusedBecause.FORBIDDEN),
        (two_replicas, RefusedBecause.NO_MEMORY),
        (too_few_nodes, RefusedBecause.NO_NODES),
    ],
)
def test_it_is_one_incident_with_a_task_after_a_minute(
    made: Callable[[], World], reason: RefusedBecause
) -> None:
    log = Log(made())
    passes(log, UNSERVED_SECONDS - 10)
    assert log.known == {}
    passes(log, 600)
    assert open_(log) == [("replica/tiny/0", reason.value)]
    assert log.the().person
    assert log.occasions == [(1, Occasion.OPENED), (1, Occasion.PERSON_NEEDED)]
    assert len(log.texts(EntryKind.SEEN)) == len(log.texts(EntryKind.PERSON)) == 1


def test_it_is_over_when_it_serves_and_how_long_nothing_did_is_counted() -> None:
    log = Log(not_enough_memory())
    passes(log, 100)
    log.world.weights["tiny"] = one_node().weights["tiny"]
    passes(log, 30)
    (incident,) = log.known.values()
    assert not incident.open
    assert log.texts(EntryKind.OUTCOME) == ["tiny/0 serves again as epoch 1"]
    assert 100 <= incident.unserved_seconds < 110
    passes(log, 300)
    assert log.the().settled
    assert log.world.plan() == Plan()


def test_another_reason_is_the_same_incident_and_told_with_its_task() -> None:
    log = Log(not_enough_memory())
    passes(log, 100)
    log.world.says["tiny"] = {"problem": "config.json is not JSON"}
    passes(log, 100)
    reasons = (RefusedBecause.NO_MEMORY, RefusedBecause.WEIGHTS_UNUSABLE)
    incident = log.the()
    assert tuple(entry.fault for entry in incident.entries if entry.kind is EntryKind.SEEN) == reasons
    assert (incident.fault, incident.asked) == (reasons[-1], reasons)


def test_a_gateway_that_cannot_listen_is_one() -> None:
    log = Log(one_node())
    log.world.manifests.append(gateway())
    log.heal()
    key = ObjectKey("Gateway", "main")
    refused = Plan(refused=(Refusal(key, RefusedBecause.CANNOT_LISTEN, "127.0.0.1:8400 is in use"),))
    log.follow(refused)
    log.world.now += UNSERVED_SECONDS
    log.follow(refused)
    assert open_(log) == [("gateway/main", "CannotListen")]
    log.follow(Plan())
    assert open_(log) == []


# --- what is none ------------------------------------------------------------------------------------


def test_what_serves_is_none_although_its_next_spec_or_another_replica_is_refused() -> None:
    world = two_nodes()
    log = Log(world)
    log.heal()
    too_large(world)
    world.manifests = [each for each in world.manifests if not isinstance(each, ModelDeployment)]
    world.manifests.append(deployment(nodes=2, replicas=2, serving={"maxBatch": 3}))
    passes(log, 600)
    assert world.plan().refused
    assert log.known == {}


def test_what_a_person_wants_so_is_none() -> None:
    log = Log(one_node())
    for reason in AS_WISHED:
        refused = Plan(refused=(Refusal(TINY_0.key, reason, "as asked", TINY_0),))
        log.follow(refused)
        log.world.now += 10 * UNSERVED_SECONDS
        log.follow(refused)
    log.world.manifests[-1] = deployment(nodes=1, replicas=0)
    too_large(log.world)
    passes(log, 600)
    assert log.known == {}


def test_a_machine_that_is_away_is_the_only_one_although_its_deployment_has_too_few_nodes() -> None:
    log = Log(two_nodes())
    log.world.lose("node-b")
    passes(log, 600)
    assert {str(each.subject) for each in log.known.values()} == {"node/node-b"}


def test_a_group_that_crashed_and_is_refused_then_is_one_incident_by_its_crash() -> None:
    log = Log(two_nodes())
    log.heal()
    too_large(log.world)
    log.world.end_rank(RankId("tiny", 0, 1, 1), signal=9)
    passes(log, 600)
    assert open_(log) == [("replica/tiny/0", FaultClass.RANK_CRASH.value)]
    (task,) = log.texts(EntryKind.PERSON)
    assert "GiB" in task
