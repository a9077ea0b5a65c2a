"""Conditions, routes and events follow from the snapshots alone."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from reconciler import status
from reconciler.resources import Node
from reconciler.state import (
    Ends,
    ForgetRank,
    GatewayAnswer,
    GatewayObservation,
    NodeName,
    Outcome,
    Plan,
    PruneRuntimes,
    SendRoutes,
    StartRank,
    Step,
)
from reconciler.state.identity import ObjectKey
from reconciler.status.events import STEP_REASONS
from reconciler.wire.generation import Formed, Jump, Machine
from reconciler.wire.launch import ExitCode, Phase, RankId
from reconciler.wire.sampling import Repetition, SamplingDefaults
from reconciler.wire.weights import PromptReuse
from tests.worlds import World, deployment, gateway, manifest, model, node, settled, two_nodes

TINY = ObjectKey("ModelDeployment", "tiny")


def routes(world: World, plan: Plan | None = None) -> list[tuple[str, list[tuple[int, int]]]]:
    found = status.routes(world.desired(), world.observed(), world.memory(), plan or Plan())
    return [(route.model, [(b.replica, b.epoch) for b in route.backends]) for route in found]


def conditions(world: World, key: ObjectKey = TINY) -> dict[str, tuple[bool, str]]:
    found = status.statuses(world.snapshots(), {})[key].conditions
    return {condition.type: (condition.status, condition.reason) for condition in found}


def test_a_deployment_has_a_route_from_the_first_moment_and_backends_once_proven() -> None:
    world = two_nodes()
    assert routes(world) == [("tiny", [])]
    while world.groups.get(world.replica()) is None or world.group().proven_at is None:
        assert routes(world) == [("tiny", [])]
        world.act()
    assert routes(world) == [("tiny", [(0, 1)])]
    (route,) = world.routes(Plan())
    assert [backend.nodes for backend in route.backends] == [("node-a", "node-b")]


def test_the_gateway_knows_how_many_requests_a_group_decodes_together() -> None:
    world = World([node("node-a"), model(), deployment(nodes=1, serving={"maxBatch": 5})])
    (route,) = world.routes(Plan())
    assert route.batch == 5


def test_the_gateway_knows_what_a_deployment_says_for_requests_that_do_not() -> None:
    own = {
        "sampling": {"temperature": 0.6, "topK": 20},
        "thinking": False,
        "stopRepetition": {"minPatternSize": 8},
    }
    world = World([node("node-a"), model(), deployment(nodes=1, serving=own)])
    (route,) = world.routes(Plan())
    assert route.sampling == SamplingDefaults(temperature=0.6, top_k=20)
    assert route.thinking is False
    assert route.repetition == Repetition(pattern_min=8, pattern_max=1024, count=4)
    (route,) = status.routes(two_nodes().desired(), world.observed(), world.memory(), Plan())
    assert route.repetition is None


def test_the_gateway_knows_why_no_group_can_be_formed_before_somebody_acts() -> None:
    world = World([node("node-a"), model(), deployment(nodes=2)])
    plan = world.settle()
    (route,) = world.routes(plan)
    assert (route.refused, route.backends) == ("NotEnoughNodes", ())
    world = two_nodes()
    (route,) = world.routes()
    assert route.refused == ""


def test_a_change_of_what_a_deployment_says_for_requests_restarts_nothing() -> None:
    world = settled(two_nodes())
    epoch = world.group().epoch
    world.manifests[-1] = deployment(
        serving={"sampling": {"temperature": 0.6}, "thinking": True, "stopRepetition": {}}
    )
    world.settle()
    assert world.group().epoch == epoch


def test_the_gateway_gets_the_route_to_a_machine_that_is_reached_over_others() -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPbP3JZnBSCsPkM5XQd6EuNmIpQ8p2mFHwqbIqNlNnY7"
    remote: Node = manifest(Node, "node-a", None, ssh={"host": "far", "user": "me", "hostKey": key})
    world = World([remote, model(), deployment(nodes=1)])
    jump = Jump("bastion.example", 22, "me-there", key)
    world.ends[NodeName("node-a")] = Ends(jumps=(jump,), inner=("10.0.0.5", 2222))
    world.settle()
    (route,) = world.routes(Plan())
    assert [backend.machine for backend in route.backends] == [
        Machine("10.0.0.5", 2222, "me", key, (jump,), "gateway-to-node-a")
    ]


def test_a_group_with_a_dead_rank_is_unrouted_at_once() -> None:
    world = settled(two_nodes())
    world.end_rank(RankId("tiny", 0, 1, 1), signal=9)
    assert routes(world) == [("tiny", [])]


def test_a_draining_group_is_unrouted() -> None:
    world = settled(two_nodes())
    place, report = world.ranks[RankId("tiny", 0, 1, 0)]
    world.ranks[RankId("tiny", 0, 1, 0)] = (place, replace(report, phase=Phase.DRAINING))
    assert routes(world) == [("tiny", [])]


def test_a_cluster_that_was_stopped_says_so_and_is_not_stalled() -> None:
    world = settled(two_nodes())
    stopped = {"labels": {"reconciler/stopped": "in-use"}, "unschedulable": True, "drain": True}
    world.manifests = [node("node-a", **stopped), node("node-b", **stopped), model(), deployment()]
    world.settle()
    assert world.alive() == []
    found = {each.type: each for each in status.statuses(world.snapshots(), {})[TINY].conditions}
    assert (found["Ready"].status, found["Ready"].reason) == (False, "StoppedByRequest")
    assert found["Ready"].message == "everything is stopped by request; to go on: reconciler start"
    assert (found["Reconciling"].status, found["Stalled"].status) == (False, False)
    world.restart_controller()
    assert world.settle().steps == ()
    world.manifests[0] = node("node-a", unschedulable=True, drain=True)
    assert conditions(world)["Ready"] == (False, "StoppedByRequest")
    world.manifests[1] = node("node-b")
    assert conditions(world)["Stalled"] == (True, "NotEnoughNodes")


def test_a_rank_of_the_same_name_on_another_node_gets_no_route() -> None:
    world = settled(World([node("node-a"), node("node-b"), node("node-c"), model(), deployment(nodes=1)]))
    (rank,) = world.alive()
    world.groups[world.replica()] = replace(world.group(), members=(NodeName("node-c"),))
    assert world.ranks[rank][0] == "node-a"
    assert routes(world) == [("tiny", [])]


def test_an_agent_that_is_down_does_not_unroute_its_ranks() -> None:
    world = settled(two_nodes())
    world.down = {"node-a", "node-b"}
    assert routes(world) == [("tiny", [(0, 1)])]


def test_an_epoch_on_its_way_is_not_routed_even_while_the_old_ranks_live() -> None:
    world = settled(two_nodes())
    world.manifests[-1] = deployment(serving={"context": 1024})
    step = world.forming()
    world.obey(step)
    assert routes(world) == [("tiny", [])]


def test_a_replica_that_is_no_longer_wanted_is_unrouted_before_it_is_stopped() -> None:
    world = settled(two_nodes(replicas=2))
    assert routes(world) == [("tiny", [(0, 1), (1, 1)])]
    world.manifests[-1] = deployment(replicas=1)
    assert routes(world, world.plan()) == [("tiny", [(0, 1)])]
    assert len(world.alive()) == 4


def test_conditions_tell_ready_from_reconciling_and_stalled() -> None:
    world = two_nodes()
    assert conditions(world)["Ready"] == (False, "ReplicasNotReady")
    assert conditions(world)["Reconciling"][0]
    world.settle()
    assert conditions(world) == {
        "Ready": (True, "ReplicasReady"),
        "Reconciling": (False, "Settled"),
        "Stalled": (False, "NotStalled"),
    }
    world.manifests[-1] = deployment(nodes=5)
    world.end_rank(RankId("tiny", 0, 1, 0), signal=9)
    assert conditions(world)["Stalled"] == (True, "NotEnoughNodes")
    assert conditions(world)["Ready"] == (False, "NotEnoughNodes")


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    world = settled(two_nodes())
    first = status.statuses(world.snapshots(), {})
    world.now += 50
    second = status.statuses(world.snapshots(), first)
    assert second == first
    world.end_rank(RankId("tiny", 0, 1, 0), signal=9)
    third = status.statuses(world.snapshots(), second)[TINY].condition("Ready")
    assert third is not None
    assert third.since == world.now


@pytest.mark.parametrize(
    ("said", "serving", "told"),
    [
        ({"reuse": PromptReuse.ANY}, {}, "any"),
        ({"reuse": PromptReuse.WHOLE}, {"prefixCache": "1GiB"}, "whole"),
        (
            {"reuse": PromptReuse.NONE, "reread": "they are kept nowhere"},
            {},
            "none (they are kept nowhere)",
        ),
        ({"reuse": PromptReuse.ANY}, {"prefixCache": "0B"}, "none (serving.prefixCache is 0)"),
        ({}, {}, "unknown"),
    ],
    ids=["any", "whole", "none", "switched off", "an agent that does not tell"],
)
def test_a_deployment_says_how_what_was_read_is_used_again(
    said: dict[str, str], serving: dict[str, object], told: str
) -> None:
    world = World([node("node-a"), model(), deployment(nodes=1, serving=serving)])
    world.says["tiny"] = dict(said)
    world.settle()
    assert status.statuses(world.snapshots(), {})[TINY].extra["promptReuse"] == told


def test_every_kind_says_whether_it_is_ready() -> None:
    world = two_nodes()
    world.manifests.append(gateway())
    world.settle()
    seen = replace(
        world.snapshots(),
        observed=replace(
            world.observed(), gateway=GatewayObservation(7, "http://x/v1", door=GatewayAnswer(True))
        ),
    )
    found = status.statuses(seen, {})
    assert {str(key): value.conditions[0].status for key, value in found.items()} == {
        "node/node-a": True, "node/node-b": True, "model/tiny": True, "modeldeployment/tiny": True,
        "gateway/main": True,
    }  # fmt: skip
    assert found[ObjectKey("Gateway", "main")].extra == {"endpoint": "http://x/v1", "pid": 7}
    assert not conditions(world, ObjectKey("Gateway", "main"))["Ready"][0]


def test_each_change_of_readiness_is_an_event_and_nothing_else_is() -> None:
    world = two_nodes()
    before = status.statuses(world.snapshots(), {})
    world.settle()
    after = status.statuses(world.snapshots(), before)
    events = status.transitions(before, after, world.snapshots())
    assert [(str(e.object), e.reason) for e in events if e.object == TINY] == [
        ("modeldeployment/tiny", "Ready")
    ]
    assert status.transitions(after, after, world.snapshots()) == []
    world.end_rank(RankId("tiny", 0, 1, 0), signal=9)
    lost = status.transitions(after, status.statuses(world.snapshots(), after), world.snapshots())
    assert [(e.reason, e.warning) for e in lost] == [("NotReady", True)]


def test_what_ends_because_everything_is_stopped_is_no_warning() -> None:
    world = settled(two_nodes())
    before = status.statuses(world.snapshots(), {})
    world.end_rank(RankId("tiny", 0, 1, 0), signal=9)
    after = status.statuses(world.snapshots(), before)
    world.stopping = True
    ended = status.transitions(before, after, world.snapshots())
    assert [(e.reason, e.warning) for e in ended] == [("NotReady", False)]


def test_the_end_of_a_rank_is_an_event_with_a_key_of_its_own() -> None:
    world = settled(two_nodes())
    assert status.endings(world.observed(), world.now) == []
    world.end_rank(RankId("tiny", 0, 1, 1), signal=9)
    (event,) = status.endings(world.observed(), world.now)
    assert event.key == "exit/tiny.0.1.1"
    assert event.warning
    assert "rank 1 on node-b (epoch 1, pid 101) was killed by signal 9" in event.message


def test_a_step_is_reported_when_done_and_when_failed() -> None:
    world = settled(two_nodes())
    start = next(step for step in world.done(StartRank))
    done = status.event(Outcome(start, 0.1), 1.0)
    assert done is not None
    assert (done.reason, done.warning) == ("RankStarted", False)
    failed = status.event(Outcome(start, 0.1, problem="no answer"), 1.0)
    assert failed is not None
    assert (failed.reason, failed.warning) == ("StartRankFailed", True)
    assert "no answer" in failed.message


def test_while_everything_stops_nothing_is_routed() -> None:
    world = settled(two_nodes())
    world.stopping = True
    assert routes(world) == []
    assert world.plan() != Plan()


def failed(world: World) -> list[str | None]:
    groups = status.statuses(world.snapshots(), {})[TINY].extra["groups"]
    return [group["failed"]["rank"] if "failed" in group else None for group in groups]


def test_the_rank_to_blame_is_named_until_a_group_serves_again() -> None:
    world = settled(two_nodes())
    assert failed(world) == [None]
    world.end_rank(RankId("tiny", 0, 1, 0), code=ExitCode.PEER_LOST)
    world.end_rank(RankId("tiny", 0, 1, 1), signal=11)
    assert failed(world) == ["tiny.0.1.1"]
    world.first_phase = Phase.LOADING
    world.settle()
    assert world.group().epoch == 2
    assert failed(world) == ["tiny.0.1.1"]
    for rank in world.alive():
        world.report(rank, phase=Phase.READY)
    world.settle()
    assert failed(world) == [None]


def test_every_step_is_reported_but_those_that_only_tidy_up() -> None:
    assert set(get_args(Step)) - STEP_REASONS.keys() == {ForgetRank, PruneRuntimes, SendRoutes}


def test_a_rank_that_had_to_be_killed_is_reported_with_its_grace() -> None:
    world = settled(two_nodes())
    world.end_rank(RankId("tiny", 0, 1, 0), code=0)
    world.end_rank(RankId("tiny", 0, 1, 1), signal=9)
    ended = world.ranks[RankId("tiny", 0, 1, 1)][1].exit
    assert ended is not None
    world.report(RankId("tiny", 0, 1, 1), exit=replace(ended, killed_after=5.0))
    events = status.endings(world.observed(), world.now)
    assert [(event.reason, event.warning) for event in events] == [
        ("RankExited", False), ("RankExited", True), ("RankKilled", True),
    ]  # fmt: skip
    assert events[2].message.endswith("did not end within 5 s after SIGTERM and was killed")
    assert len({event.key for event in events}) == 3


def test_a_route_tells_what_the_ends_of_earlier_groups_point_to() -> None:
    world = settled(two_nodes())
    world.end_rank(RankId("tiny", 0, 1, 0), code=1)
    world.settle()
    world.end_rank(RankId("tiny", 0, 2, 0), signal=9)
    world.settle()
    (route,) = world.routes(Plan())
    assert route.formed == (Formed(0, 1, 0), Formed(0, 2, 2), Formed(0, 3, 1))
    assert route.replicas == 1


def test_a_route_tells_when_the_next_attempt_is_made_where_all_replicas_wait_for_it() -> None:
    world = two_nodes()
    world.first_phase = Phase.LOADING
    for epoch in (1, 2, 3):
        world.settle()
        assert _attempt_at(world) == 0.0, "one is being formed"
        world.end_rank(RankId("tiny", 0, epoch, 0), code=1)
        plan = world.settle()
        untils = [waiting.until for waiting in plan.waiting if waiting.until is not None]
        if untils:
            assert _attempt_at(world) == untils[0]
            world.now = untils[0]
    assert untils


def _attempt_at(world: World) -> float:
    (route,) = world.routes()
    return route.attempt_at


def test_a_node_is_ready_only_when_the_step_that_starts_its_agent_has_ended() -> None:
    world = settled(two_nodes())
    world.in_flight.add("node/node-a")
    seen = world.snapshots()
    node = ObjectKey("Node", "node-a")
    assert not status.statuses(seen, {})[node].conditions[0].status
    world.in_flight.clear()
    ready = status.statuses(world.snapshots(), {})
    assert ready[node].conditions[0].status
    world.in_flight.add("node/node-a")
    assert status.statuses(world.snapshots(), ready)[node].conditions[0].status, "what serves stays ready"
