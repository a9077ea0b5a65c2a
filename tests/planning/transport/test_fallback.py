"""The ladder of transports: down for a fact, up when it has changed and nobody is asking."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.planning import plan
from reconciler.planning.context.deadlines import KEEP_ALIVE_SECONDS
from reconciler.planning.context.memory_ledger import Ledger
from reconciler.planning.context.target import Target
from reconciler.planning.context.view import Formed, look
from reconciler.planning.diagnosis.rules import TRANSPORT_FORMS_MAX
from reconciler.planning.recovery import cable_faults
from reconciler.planning.replica import improve
from reconciler.planning.replica.improve import PER_HOUR_MAX
from reconciler.planning.rollout import targets
from reconciler.planning.transport import fallback, link_check
from reconciler.planning.transport.fallback import RETRY_SECONDS_MAX, RETRY_SECONDS_MIN
from reconciler.resources import Growth
from reconciler.state import (
    AllocateEpoch,
    Cause,
    Ends,
    FaultClass,
    FreeTransport,
    NodeName,
    Observed,
    Plan,
    RefusedBecause,
    StartRank,
    VerbsAttempts,
    WaitingFor,
)
from reconciler.state.plan import SetBack
from reconciler.transports import LAN, VERBS_ATTEMPTS_MAX
from reconciler.wire.launch import ExitCode, Phase
from tests.planning.diagnosis.healing_cases import HAPPENINGS
from tests.planning.macs import A, B, learn, learn_of_port, mac, port, two_macs
from tests.planning.transport.test_lan_addresses import far
from tests.worlds import World, deployment, fabric, model, node, settled, two_nodes

BY_DEFAULT = Growth()


def transport(world: World) -> str:
    return world.group().transport


def forms(world: World) -> list[Cause]:
    return [step.cause for step in world.done(AllocateEpoch)]


def kill(world: World, code: int | None = None) -> None:
    world.end_rank(world.group().rank_ids[1], code=code, signal=None if code else 9)


def idle(world: World, seconds: float = BY_DEFAULT.idle) -> None:
    for rank in world.alive():
        world.report(rank, idle_seconds=seconds)


def without_cable(world: World) -> None:
    """The cable is pulled, which kills a rank; the group is formed over the network."""
    learn_of_port(world, A, connected=False)
    kill(world)
    world.settle()


def test_a_machine_that_is_just_back_has_restarted_whatever_its_peers_said_of_their_cables_meanwhile() -> (
    None
):
    world = two_macs()
    HAPPENINGS["C12 a restart"](world)
    learn_of_port(world, A, connected=False)
    world.since[B] = world.now
    (trouble,) = (each for each in world.plan().troubles if str(each.subject).startswith("replica/"))
    assert (trouble.fault, trouble.person) == (FaultClass.REBOOT, "")
    world.since[B] = world.now - 60
    (trouble,) = (each for each in world.plan().troubles if str(each.subject).startswith("replica/"))
    assert trouble.fault is FaultClass.LINK_DOWN


def test_a_group_from_before_there_was_a_choice_uses_the_network_and_of_an_adopted_one_nothing_is_known() -> (
    None
):
    world = two_macs()
    record = replace(world.group(), transport="")
    assert fallback.used(record) == LAN
    assert fallback.used(replace(record, secret="")) == ""
    assert fallback.used(replace(record, members=(A,))) == ""


# --- which transport ------------------------------------------------------------------------------------


def test_macs_with_a_good_cable_use_rdma_and_each_rank_is_told_its_devices() -> None:
    world = two_macs()
    assert (transport(world), world.group().transport_why) == ("jaccl", "")
    kill(world)
    world.settle()
    starts = [step.spec.config for step in world.done(StartRank)]
    assert {config.backend for config in starts} == {"jaccl"}
    assert {config.devices for config in starts} == {(("", "rdma_en3"), ("rdma_en4", ""))}
    assert [address.partition(":")[0] for address in starts[0].addresses] == ["10.77.0.1", "10.77.0.2"]


@pytest.mark.parametrize(
    ("second", "row"),
    [
        pytest.param(
            {}, ("", "rdma_en3,rdma_en5"), id="both cables are used, in the same order at both ends"
        ),
        pytest.param({"verbs_up": False}, ("", "rdma_en3"), id="one whose RDMA is down is left out"),
        pytest.param(
            {"gid_index": None, "mapped_gid": None}, ("", "rdma_en3"), id="one that is not known, too"
        ),
        pytest.param({"bridged": True}, ("", "rdma_en3"), id="and one whose port is in a bridge"),
        pytest.param(
            {"address": "169.254.3.4"}, ("", "rdma_en3"), id="and one whose ends do not reach each other"
        ),
    ],
)
def test_every_cable_between_two_macs_carries_rdma(second: dict[str, Any], row: tuple[str, str]) -> None:
    world = two_macs()
    one, other = port(5, (B, 1), "10.77.0.5"), port(1, (A, 5), "10.77.0.6")
    learn(world, A, ports=(*world.facts[A].ports, replace(one, **second)))
    learn(world, B, ports=(other, *world.facts[B].ports))
    found = fallback.wiring(world.seen(), "jaccl", (A, B))
    assert found is not None
    assert found.devices == (row, (row[1].replace("en3", "en4").replace("en5", "en1"), ""))


def test_an_address_that_macos_gives_by_itself_reaches_no_other() -> None:
    world = two_macs()
    learn_of_port(world, A, address="169.254.3.4")
    for shape in ("jaccl", "ring"):
        why = fallback.obstacle(world.seen(), next(iter(world.groups)), shape, (A, B))
        assert why == "169.254.3.4 of node-a/3 and 10.77.0.2 of node-b/4 do not reach each other"
    learn_of_port(world, B, address="169.254.5.6")
    assert fallback.obstacle(world.seen(), next(iter(world.groups)), "jaccl", (A, B)) == ""


def test_a_cable_carries_one_group_over_rdma_and_the_next_goes_on_over_tcp() -> None:
    world = two_macs(replicas=2)
    first, second = (world.group(index=index) for index in (0, 1))
    assert (first.transport, second.transport) == ("jaccl", "ring")
    assert second.transport_why == (
        "jaccl, jaccl-ring: the cable between node-a and node-b already carries tiny/0, and an RDMA device has memory"
        " regions for one group"
    )
    world.end_rank(first.rank_ids[1], signal=9)
    world.settle()
    assert transport(world) == "jaccl"
    assert world.group(index=1).epoch == second.epoch


def test_a_group_takes_rdma_when_the_one_that_had_it_is_gone_and_nobody_asks() -> None:
    world = two_macs()
    world.manifests.append(deployment("other", nodes=2))
    world.settle()
    assert world.group("other").transport == "ring"
    del world.manifests[-2]
    world.settle()
    world.now += BY_DEFAULT.group_age
    idle(world)
    world.settle()
    assert {name.key.name: group.transport for name, group in world.groups.items()} == {"other": "jaccl"}


def test_without_thunderbolt_everything_goes_on_over_the_network_and_status_says_why() -> None:
    world = settled(two_nodes())
    found = world.statuses(Plan())
    (group,) = found[world.replica().key].extra["groups"]
    assert group["transport"] == (
        "ring-lan (jaccl, jaccl-ring: node-a runs Linux, and RDMA over Thunderbolt needs macOS;"
        " ring: no Thunderbolt cable is known between node-a and node-b)"
    )
    starts = [step.spec.config for step in world.done(StartRank)]
    assert {config.backend for config in starts} == {"ring"}
    assert {address.partition(":")[0] for address in starts[0].addresses} == {"127.0.0.1"}


@pytest.mark.parametrize("unknown", ["jaccl", "rdma_enabled"])
def test_what_is_not_known_is_not_fine_and_is_no_trouble(unknown: str) -> None:
    world = two_macs()
    learn(world, A, **{unknown: None})
    kill(world)
    world.settle()
    assert transport(world) == "ring"
    assert forms(world) == [Cause.RANK_EXITED]
    assert world.plan().troubles == ()


@pytest.mark.parametrize("unknown", [{"device": ""}, {"verbs_up": None}, {"gbps": None}], ids=str)
def test_a_port_that_is_not_known_to_have_a_device_that_works_carries_no_rdma(
    unknown: dict[str, Any],
) -> None:
    world = two_macs()
    learn_of_port(world, A, **unknown)
    why = "no working RDMA device is known at node-a/3"
    assert fallback.obstacle(world.seen(), world.replica(), "jaccl", (A, B)) == why
    assert fallback.obstacle(world.seen(), world.replica(), "ring", (A, B)) == ""


def test_a_ladder_without_a_rung_that_works_is_refused_with_every_reason() -> None:
    world = two_nodes(transport=["jaccl", "ring"])
    (refusal,) = world.settle().refused
    assert refusal.reason is RefusedBecause.NO_TRANSPORT
    assert "jaccl: node-a runs Linux" in refusal.text
    assert "ring: no Thunderbolt cable is known" in refusal.text


def test_where_no_transport_joins_two_nodes_one_alone_serves() -> None:
    world = two_nodes(nodes={"min": 1, "max": 2}, transport=["jaccl"])
    assert world.settle() == Plan()
    assert world.group().members == ("node-a",)


def test_rdma_is_set_up_in_vain_only_so_often_between_two_boots_of_a_machine() -> None:
    world = two_macs()
    world.verbs[A] = VerbsAttempts("boot", VERBS_ATTEMPTS_MAX)
    kill(world)
    world.settle()
    assert transport(world) == "ring"
    assert "setting up RDMA failed 5 times on node-a" in world.group().transport_why
    world.boots[A] = "another"
    kill(world)
    world.pass_time(world.now + 400)
    world.settle()
    assert transport(world) == "jaccl"


def test_a_machine_that_panicked_twice_in_a_day_over_rdma_has_its_groups_on_the_ring_until_a_day_is_over() -> (
    None
):
    world = two_macs()
    learn(world, B, panics=1, rdma_panics=1, rdma_panics_of_day=2)
    world.boots[B] = "another"
    kill(world)
    (trouble,) = [each for each in world.plan().troubles if each.object.kind == "Node"]
    assert trouble.seen == "node-b has panicked 2 times within a day in the driver of RDMA"
    world.settle()
    assert transport(world) == "ring"
    assert "in the driver of RDMA" in world.group().transport_why
    world.pass_time(world.now + 90_000)
    learn(world, B, panics=0, rdma_panics=0, rdma_panics_of_day=1)
    kill(world)
    world.pass_time(world.now + 400)
    world.settle()
    assert transport(world) == "jaccl"


def test_panics_over_rdma_are_no_reason_to_refuse_a_group_that_is_on_the_ring() -> None:
    world = two_macs()
    learn(world, B, panics=3, rdma_panics=3, rdma_panics_of_day=3)
    kill(world)
    world.settle()
    world.boots[B] = "another"
    kill(world)
    world.pass_time(world.now + 400)
    assert not world.settle().refused
    assert transport(world) == "ring"


def test_only_ranks_that_began_to_set_rdma_up_and_never_served_have_done_so_in_vain() -> None:
    world = two_macs()
    world.report(world.group().rank_ids[0], verbs=True)
    kill(world)
    world.settle()
    assert world.verbs == {}, "a group that served gives back what it took"
    world.first_phase = Phase.RENDEZVOUS
    kill(world)
    world.settle()
    kill(world, ExitCode.RENDEZVOUS)
    world.pass_time(world.now + 5)
    world.settle()
    assert world.verbs == {}, "nothing was taken before all ranks were there"
    world.report(world.group().rank_ids[0], verbs=True, phase=Phase.VERBS)
    kill(world, ExitCode.RENDEZVOUS)
    world.pass_time(world.now + 15)
    world.settle()
    assert world.verbs == {A: VerbsAttempts("boot", 1)}


def test_the_attempt_that_was_one_too_many_is_the_last() -> None:
    world = two_macs()
    world.verbs[A] = VerbsAttempts("boot", VERBS_ATTEMPTS_MAX - 1)
    world.first_phase = Phase.RENDEZVOUS
    kill(world)
    world.settle()
    world.report(world.group().rank_ids[0], verbs=True, phase=Phase.VERBS)
    kill(world, ExitCode.RENDEZVOUS)
    world.pass_time(world.now + 15)
    world.settle()
    assert transport(world) == "ring"
    assert "setting up RDMA failed 5 times" in world.group().transport_why


def test_ranks_that_look_for_each_other_over_a_cable_that_is_out_are_not_waited_for() -> None:
    world = two_macs()
    world.first_phase = Phase.RENDEZVOUS
    kill(world)
    world.settle()
    assert transport(world) == "jaccl"
    learn_of_port(world, A, connected=False, peer=None)
    world.first_phase = Phase.READY
    world.settle()
    world.pass_time(world.now + 5)
    world.settle()
    assert transport(world) == "ring-lan"


def test_what_is_told_to_ranks_over_rdma_and_to_others() -> None:
    told = {}
    for ladder in ("jaccl", "jaccl-ring", "ring"):
        world = two_macs(transport=[ladder], fastSynch=ladder == "ring")
        kill(world)
        world.settle()
        (config, *_) = (step.spec.config for step in world.done(StartRank))
        told[ladder] = (config.backend, config.prefer_ring, config.keep_alive_seconds, config.fast_synch)
    assert told == {
        "jaccl": ("jaccl", False, KEEP_ALIVE_SECONDS, False),
        "jaccl-ring": ("jaccl", True, KEEP_ALIVE_SECONDS, False),
        "ring": ("ring", False, 0.0, True),
    }


def test_ranks_find_rank_0_over_the_cable_to_it_and_where_there_is_none_over_the_network() -> None:
    """Nobody routes between the cables of a Mac."""
    names = [NodeName(f"node-{letter}") for letter in "abcd"]
    world = World([model(), *map(node, names), deployment(nodes=4, transport=["jaccl-ring"])])
    world.system = "Darwin"
    for at, name in enumerate(names):
        right, left = names[(at + 1) % 4], names[at - 1]
        world.facts[name] = mac(
            port(3, (right, 4), f"10.77.{at}.1"), port(4, (left, 3), f"10.77.{(at - 1) % 4}.2")
        )
    world.settle()
    config = {s.spec.id.rank: s.spec.config for s in world.history if isinstance(s, StartRank)}
    first, *others = world.group().members
    towards = {p.peer[0]: p.address for p in world.facts[first].ports if p.peer}
    meant = [f"{towards.get(name, '127.0.0.1')}:{config[1].control.partition(':')[2]}" for name in others]
    assert meant[1].startswith("127.0.0.1:"), "no cable joins the two that are opposite"
    assert [config[rank].control for rank in (1, 2, 3)] == meant
    assert [config[0].control, *config[0].also_control] == meant
    assert config[1].also_control == ()


def test_another_synchronisation_of_metal_needs_another_group() -> None:
    world = two_macs()
    world.manifests[-1] = deployment(fastSynch=True)
    assert world.settle() == Plan()
    assert forms(world) == [Cause.SPEC_CHANGED]


def test_a_transport_that_is_taken_out_of_the_ladder_is_left() -> None:
    world = two_macs()
    world.manifests[-1] = deployment(transport=["ring", "ring-lan"])
    assert world.settle() == Plan()
    assert (transport(world), forms(world)) == ("ring", [Cause.SPEC_CHANGED])


# --- down and up -----------------------------------------------------------------------------------


def test_a_pulled_cable_takes_the_group_down_and_the_same_cable_back_up_at_a_quiet_moment() -> None:
    world = two_macs()
    without_cable(world)
    assert (transport(world), forms(world)) == ("ring-lan", [Cause.TRANSPORT_FAILED])
    world.pass_time(world.now + 100_000)
    idle(world)
    assert world.settle().steps == ()  # time alone changes nothing
    learn_of_port(world, A, connected=True)
    assert world.settle() == Plan()
    assert (transport(world), forms(world)[1:]) == ("jaccl", [Cause.TRANSPORT_BACK])
    (freed,) = world.done(FreeTransport)
    assert freed.changed == "node-a/3 cable: no → yes"


def test_a_cable_that_is_down_is_told_of_once_whatever_groups_there_are_and_with_what_a_person_does() -> None:
    world = two_macs()
    learn_of_port(world, A, connected=False)
    told = world.plan().troubles
    assert [(str(t.subject), t.fault, t.person[:38]) for t in told] == [
        ("link/node-a/node-b", FaultClass.LINK_DOWN, "reseat the cable from node-a/3 to node")
    ]
    without_cable(world)  # the group is formed when it is already known
    assert world.plan().troubles == told


@pytest.mark.parametrize("name", [A, B])
def test_a_machine_that_does_not_answer_is_told_of_and_its_cables_are_not(name: NodeName) -> None:
    world = two_macs()
    learn_of_port(world, A, connected=False)
    without_cable(world)
    link = "link/node-a/node-b"

    def told() -> set[str]:
        """What the plan says and what ``doctor`` says, which waits for no machine to have been up for a while."""
        seen = world.seen()
        every = (*world.plan().troubles, *cable_faults.troubles(seen, link_check.compare(seen)))
        return {str(trouble.subject) for trouble in every}

    assert link in told()
    world.lose(name)
    assert link not in told()


def test_a_group_whose_cable_leads_elsewhere_before_it_is_started_is_formed_on_the_next_transport() -> None:
    world = two_macs()
    kill(world)
    world.pass_time(world.now + 40)
    while epoch(world) == 1:
        world.act()
    assert transport(world) == "jaccl"
    learn_of_port(world, A, peer=(NodeName("node-c"), 3))
    learn_of_port(world, B, connected=False, peer=None)
    plan = world.plan()
    assert [(str(t.subject), t.fault, bool(t.person)) for t in plan.troubles] == [
        ("replica/tiny/0", FaultClass.LINK_DOWN, False),
        ("link/node-a/node-b", FaultClass.LINK_DOWN, True),
    ]
    world.pass_time(world.now + 40)
    world.settle()
    assert (transport(world), forms(world)) == ("ring-lan", [Cause.RANK_EXITED, Cause.TRANSPORT_FAILED])


def pulled_while_ranks_look_for_each_other(transports: list[str]) -> World:
    """A world long after a change of something else, and after the cable was pulled under the ranks that begin with it."""
    world = two_macs(transport=transports)
    world.pass_time(world.now + 3600)
    world.first_phase = Phase.RENDEZVOUS
    world.manifests[-1] = deployment(transport=transports, serving={"maxBatch": 8})
    world.settle()
    assert (epoch(world), transport(world)) == (2, "ring")
    for end in (A, B):  # neither says any more where it led
        learn(world, end, ports=())
    world.first_phase = Phase.READY
    world.settle()
    for _ in range(10):
        world.pass_time(world.now + 40)
        world.settle()
    return world


@pytest.mark.parametrize("transports", [["ring", "ring-lan"], ["ring"]])
def test_a_cable_that_is_pulled_while_ranks_look_for_each_other_takes_no_change_back(
    transports: list[str],
) -> None:
    world = pulled_while_ranks_look_for_each_other(transports)
    assert not world.done(SetBack)
    assert RefusedBecause.SET_BACK not in {refused.reason for refused in world.plan().refused}
    if "ring-lan" in transports:
        assert transport(world) == "ring-lan"
    else:
        assert world.plan().refused or world.plan().waiting


def epoch(world: World) -> int:
    return world.group().epoch


@pytest.mark.parametrize("first", [A, B])
def test_of_two_ends_that_contradict_each_other_one_tells_that_the_cable_is_gone(first: NodeName) -> None:
    world = two_macs()
    if first == A:
        learn_of_port(world, A, peer=(NodeName("node-c"), 3))
    else:
        learn_of_port(world, B, connected=False, peer=None)
    (told,) = world.plan().troubles
    assert (str(told.subject), told.fault) == ("link/node-a/node-b", FaultClass.LINK_DOWN)


def test_nobody_is_asked_to_reseat_a_cable_that_was_moved_and_that_no_group_needs() -> None:
    """One end was examined after the move, and the other one was not yet."""
    world = two_macs()
    world.groups.clear()
    world.ranks.clear()
    learn_of_port(world, A, peer=(NodeName("node-c"), 3))
    assert world.plan().troubles == ()
    learn_of_port(world, A, connected=False)
    assert [trouble.fault for trouble in world.plan().troubles] == [FaultClass.LINK_DOWN]


@pytest.mark.parametrize(
    "device", [{}, {"verbs_up": False}], ids=["its devices are up", "its devices are down"]
)
def test_a_slow_cable_is_told_of_once_though_both_of_its_ends_show_it(device: dict[str, bool]) -> None:
    """Nobody is to reseat what has to be replaced: over a cable of Thunderbolt 4 no RDMA device comes up."""
    world = two_macs()
    for name in (A, B):
        learn_of_port(world, name, gbps=40, **device)
    (told,) = world.plan().troubles
    assert (str(told.subject), told.fault) == ("link/node-a/node-b", FaultClass.UNSUPPORTED_PLATFORM)
    assert told.person.startswith("join node-a/3 by a Thunderbolt 5 cable")


def test_a_cable_that_no_deployment_would_use_is_no_trouble() -> None:
    world = two_macs(transport=["ring-lan"])
    learn_of_port(world, A, connected=False)
    assert world.plan().troubles == ()


def test_a_group_whose_cable_leads_elsewhere_now_is_told_of_as_long_as_it_does() -> None:
    world = two_macs()
    HAPPENINGS["C3 a cable swapped"](world)
    world.pass_time(world.now + 40)
    world.settle()
    assert transport(world) == "ring-lan"
    (told,) = world.plan().troubles
    assert (str(told.subject), told.fault) == ("link/node-a/node-b", FaultClass.LINK_DOWN)
    assert told.person.startswith("reseat the cable from node-a to node-b")
    learn_of_port(world, A, peer=(B, 4))
    learn_of_port(world, B, connected=True, peer=(A, 3))
    idle(world)
    world.pass_time(world.now + BY_DEFAULT.group_age)
    world.settle()
    assert (transport(world), world.plan().troubles) == ("jaccl", ())


def test_a_group_that_is_asked_something_is_not_disturbed() -> None:
    world = two_macs()
    without_cable(world)
    learn_of_port(world, A, connected=True)
    world.pass_time(world.now + BY_DEFAULT.group_age)
    for rank in world.alive():
        world.report(rank, idle_seconds=BY_DEFAULT.idle, demand=1)
    plan = world.settle()
    assert transport(world) == "ring-lan"
    assert [waiting.reason for waiting in plan.waiting] == [WaitingFor.QUIET]


def left() -> World:
    """A group that ended so often over its transport that it has left it, for no cause that a fact shows."""
    world = two_macs()
    for _ in range(3):
        kill(world, ExitCode.UNEXPECTED)
        world.settle()
        world.pass_time(world.now + 340)
    kill(world, ExitCode.UNEXPECTED)
    world.pass_time(world.now + 340)
    world.settle()
    assert transport(world) == "jaccl-ring"
    return world


def rest(world: World, seconds: float) -> None:
    """Time passes in which nobody asks anything."""
    world.pass_time(world.now + seconds)
    idle(world)
    world.settle()


def test_a_transport_that_failed_again_and_again_is_left_alone_until_a_fact_has_changed() -> None:
    world = left()
    rest(world, RETRY_SECONDS_MIN / 2)
    assert transport(world) == "jaccl-ring"
    world.boots[B] = "another"
    assert world.settle() == Plan()
    assert transport(world) == "jaccl"


def test_a_transport_is_tried_again_after_an_hour_for_a_fact_may_have_changed_back_unseen() -> None:
    world = left()
    (trouble,) = world.plan().troubles
    assert trouble.doing.startswith(
        "served over jaccl-ring until a fact has changed; jaccl is tried again at a quiet"
    )
    world.pass_time(world.now + 2 * RETRY_SECONDS_MIN)
    assert world.settle().steps == (), "somebody has asked a moment ago"
    assert transport(world) == "jaccl-ring"
    idle(world)
    assert world.settle() == Plan()
    assert (transport(world), forms(world)[-1]) == ("jaccl", Cause.TRANSPORT_BACK)
    assert world.transport_failures[world.replica()] == (), "it serves again: what was is forgiven"


def test_each_trial_that_fails_costs_one_group_and_doubles_the_time_to_the_next_one() -> None:
    world = left()
    world.mute.add(world.replica())
    waits = []
    for trial in range(1, 7):
        (before,) = world.transport_failures[world.replica()]
        due = fallback.retried_at(before)
        assert due is not None
        wait = due - world.now
        waits.append(round(wait / RETRY_SECONDS_MIN))
        world.mute.clear()
        rest(world, wait - 10)
        assert transport(world) == "jaccl-ring"
        world.mute.add(world.replica())
        rest(world, 20)
        assert transport(world) == "jaccl"
        (trouble,) = world.plan().troubles
        assert trouble.doing == "it is tried again over jaccl"
        kill(world, ExitCode.UNEXPECTED)
        world.mute.clear()
        world.pass_time(world.now + 340)
        world.settle()
        assert transport(world) == "jaccl-ring"
        assert [each.trials for each in world.transport_failures[world.replica()]] == [trial]
    assert waits == [1, 2, 4, 8, 16, 24]


def test_a_transport_is_not_tried_while_a_fact_speaks_against_it() -> None:
    world = two_macs()
    without_cable(world)
    rest(world, 10 * RETRY_SECONDS_MAX)
    assert transport(world) == "ring-lan"


def test_a_transport_for_which_a_machine_has_nothing_left_waits_for_its_restart() -> None:
    world = two_macs()
    kill(world, ExitCode.KERNEL_OBJECTS)
    world.settle()
    kill(world, ExitCode.KERNEL_OBJECTS)
    world.settle()
    assert transport(world) == "ring"
    rest(world, 10 * RETRY_SECONDS_MAX)
    assert transport(world) == "ring"


def test_a_clock_that_was_set_back_does_not_keep_a_transport_away() -> None:
    world = left()
    world.now -= 100 * RETRY_SECONDS_MAX
    idle(world)
    world.settle()
    assert transport(world) == "jaccl"


def hang(world: World) -> None:
    for rank in world.alive():
        world.report(rank, demand=1, silent_seconds=90.0)


def test_a_transport_on_which_one_thing_after_the_other_goes_wrong_is_left_too() -> None:
    world = two_macs()
    for wrong in (kill, hang) * (TRANSPORT_FORMS_MAX // 2):
        wrong(world)
        world.settle()
        world.pass_time(world.now + 340)
        world.settle()
        assert transport(world) == "jaccl"
    kill(world)
    world.settle()
    assert transport(world) == "jaccl-ring"


def test_a_transport_that_failed_again_and_again_is_not_left_where_a_fact_has_changed_meanwhile() -> None:
    world = two_macs()
    for _ in range(3):
        kill(world, ExitCode.UNEXPECTED)
        world.settle()
        world.pass_time(world.now + 340)
    kill(world, ExitCode.UNEXPECTED)
    for name in (A, B):
        learn(world, name, version=(26, 4))
    world.settle()
    assert transport(world) == "jaccl", "it never failed on this system"
    world.pass_time(world.now + 340)
    kill(world, ExitCode.UNEXPECTED)
    world.settle()
    assert transport(world) == "jaccl-ring"


def test_no_transport_is_left_before_probes_were_asked_since_it_failed() -> None:
    world = two_macs()
    learn_of_port(world, A, verbs_up=False)
    kill(world)
    observed = world.observed()
    nodes = {**observed.nodes, A: replace(observed.nodes[A], examined=False)}
    decided = plan(world.desired(), Observed(nodes), world.memory(), world.now, "entropy")
    assert not any(isinstance(step, AllocateEpoch) for step in decided.steps)
    text = "tiny/0: the probes of node-a are running, which may explain why jaccl failed: rank 1"
    assert any(waiting.text.startswith(text) for waiting in decided.waiting)
    (form,) = [step for step in world.plan().steps if isinstance(step, AllocateEpoch)]
    assert form.group.transport == "ring"


def test_a_group_that_serves_waits_for_no_probes() -> None:
    world = two_macs()
    observed = world.observed()
    nodes = {**observed.nodes, A: replace(observed.nodes[A], examined=False)}
    assert plan(world.desired(), Observed(nodes), world.memory(), world.now, "entropy") == Plan()


def test_a_fabric_that_allows_what_is_not_tested_forgives_rdma_at_once() -> None:
    world, link = two_macs(), ("node-a/3", "node-b/4")
    declared = fabric("minis", link)
    world.bring(declared)
    learn_of_port(world, A, through=("a hub",))
    world.end_rank(world.group().rank_ids[1], signal=11)
    world.settle()
    assert transport(world) == "ring"
    rest(world, RETRY_SECONDS_MIN / 2)
    assert transport(world) == "ring"
    world.remove(declared)
    world.bring(fabric("minis", link, untested=(link,)))
    assert world.settle().steps == ()
    assert transport(world) == "jaccl"
    (freed,) = world.done(FreeTransport)
    assert freed.changed == "node-a/3 RDMA over it is allowed: no → yes"


def test_another_wish_forgives_a_transport() -> None:
    world = two_macs()
    without_cable(world)
    learn_of_port(world, A, connected=None)  # no news of it any more
    key = world.replica().key
    world.generations[key] = 2
    world.settle()
    assert world.transport_failures[world.replica()] == ()


# --- nodes that are back ---------------------------------------------------------------------------


def shrinkable() -> World:
    """Two nodes serve, and one would do."""
    world = settled(two_nodes(nodes={"min": 1, "max": 2}))
    world.history.clear()
    return world


def lost(world: World, name: str = "node-b") -> None:
    """A node gives no answer for so long that its group is formed without it."""
    world.lose(name)
    world.pass_time(world.now + 60)
    world.settle()


def test_a_lost_node_makes_the_group_smaller_and_its_return_makes_it_whole_again() -> None:
    world = shrinkable()
    lost(world)
    assert world.group().members == ("node-a",)
    world.find("node-b")
    world.since["node-b"] = world.now
    idle(world)
    plan = world.settle()
    assert world.group().members == ("node-a",)
    assert [waiting.reason for waiting in plan.waiting] == [WaitingFor.QUIET]
    world.pass_time(world.now + max(BY_DEFAULT.group_age, BY_DEFAULT.node_uptime) + 1)
    idle(world)
    assert world.settle() == Plan()
    assert world.group().members == ("node-a", "node-b")
    assert forms(world)[-1] is Cause.NODES_BACK


def test_only_a_group_that_has_served_and_whose_model_is_known_could_be_larger() -> None:
    world = shrinkable()
    lost(world)
    world.find("node-b")
    replica, seen = world.replica(), world.seen()
    for proven_at, target, could in (
        (world.group().proven_at, targets.target(seen, replica), True),
        (None, targets.target(seen, replica), False),
        (world.group().proven_at, Target(seen.desired.deployments[replica.deployment], None), False),
    ):
        view = look(seen, Ledger.of(seen), replica, target)
        assert isinstance(view, Formed)
        found = improve.better(replace(view, record=replace(view.record, proven_at=proven_at)))
        assert (found is not None) is could


def test_a_group_grows_only_so_often_in_any_hour() -> None:
    world = shrinkable()
    for _ in range(14):
        lost(world)
        world.find("node-b")
        world.since[NodeName("node-b")] = world.now
        world.pass_time(world.now + BY_DEFAULT.group_age + 1)
        idle(world)
        world.settle()
    steps = world.done(AllocateEpoch)
    grown = [step.group.created_at for step in steps if step.cause is Cause.NODES_BACK]
    assert max(sum(at <= other < at + 3600 for other in grown) for at in grown) == PER_HOUR_MAX
    assert grown[-1] - grown[0] > 3600, "and goes on to grow when the hour is over"


def test_the_hour_of_the_limit_begins_with_the_first_of_the_last_two() -> None:
    world = shrinkable()
    grown: list[float] = []
    for between in (0.0, 900.0, 0.0, 0.0):
        world.pass_time(world.now + between)
        lost(world)
        world.find("node-b")
        waits = world.now + BY_DEFAULT.group_age + BY_DEFAULT.node_uptime
        if len(grown) >= PER_HOUR_MAX:
            allowed = grown[-PER_HOUR_MAX] + 3600.0
            for at in (waits, allowed - 1.0):
                world.pass_time(at)
                idle(world)
                world.settle()
                assert len(world.group().members) == 1
            waits = allowed
        world.pass_time(waits)
        idle(world)
        world.settle()
        assert len(world.group().members) == 2
        grown.append(world.now)


def test_a_node_that_has_just_come_back_is_not_counted_on_yet() -> None:
    world = shrinkable()
    lost(world)
    world.pass_time(world.now + BY_DEFAULT.group_age)
    world.find("node-b")
    world.since["node-b"] = world.now
    for wait, members in ((BY_DEFAULT.node_uptime - 1, 1), (1, 2)):
        world.pass_time(world.now + wait)
        idle(world)
        world.settle()
        assert len(world.group().members) == members


def test_how_long_what_is_better_waits_is_the_deployments_to_say() -> None:
    world = two_nodes(
        nodes={"min": 1, "max": 2}, growth={"idle": "7s", "groupAge": "90s", "nodeUptime": "20s"}
    )
    world.settle()
    lost(world)
    formed = world.group().created_at
    world.find("node-b")
    for age, uptime, unasked, members in ((89, 30, 8, 1), (100, 19, 8, 1), (101, 20, 6, 1), (102, 21, 7, 2)):
        world.pass_time(formed + age)
        world.since[NodeName("node-b")] = world.now - uptime
        idle(world, unasked)
        world.settle()
        assert len(world.group().members) == members, (age, uptime, unasked)


def four_macs(*cables: tuple[str, str], **spec: Any) -> World:
    """Of these letters, each at the receptacle that has the other's number."""
    names = [f"node-{letter}" for letter in "abcd"]
    world = World([*(node(name) for name in names), model(), deployment(nodes=4, **spec)])
    world.system = "Darwin"
    for at, name in enumerate(names):
        ends = [names.index(f"node-{other}") for pair in cables if name[-1] in pair for other in pair]
        ports = (port(to, (NodeName(names[to]), at), f"10.{at}.{to}.1") for to in ends if to != at)
        world.facts[NodeName(name)] = replace(mac(port(9, (A, 9), "")), ports=tuple(ports))
    return world


def test_a_ring_of_four_needs_no_cable_across_and_goes_round_in_the_order_of_its_cables() -> None:
    world = four_macs(("a", "c"), ("c", "b"), ("b", "d"), ("d", "a"))
    assert world.settle() == Plan()
    assert transport(world) == "jaccl-ring"
    assert world.group().members == ("node-a", "node-c", "node-b", "node-d")
    kill(world)
    world.settle()
    assert (transport(world), forms(world)[-1]) == ("jaccl-ring", Cause.RANK_EXITED)


def test_a_ring_whose_ranks_cannot_all_find_rank_0_is_not_formed_and_it_says_who_cannot() -> None:
    """No cable joins the two that are opposite, and the network has no address of one of them."""
    world = four_macs(("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), transport=["jaccl-ring", "ring"])
    world.manifests[:4] = [far(f"node-{letter}") for letter in "abcd"]
    for letter in "abd":
        world.ends[NodeName(f"node-{letter}")] = Ends("10.0.0.1", f"10.0.0.{ord(letter)}", 22)
    (refusal,) = world.settle().refused
    assert refusal.reason is RefusedBecause.NO_TRANSPORT
    assert (
        "jaccl-ring, ring: no cable joins node-a and node-c, and node-c is reached at no known"
        in refusal.text
    )
    world.ends[NodeName("node-c")] = Ends("10.0.0.1", "10.0.0.99", 22)
    assert world.settle() == Plan()


def test_of_idle_nodes_those_are_taken_that_can_be_joined_best() -> None:
    world = four_macs(("b", "d"))
    world.manifests[-1] = deployment(nodes=2)
    assert world.settle() == Plan()
    assert (transport(world), world.group().members) == ("jaccl", ("node-b", "node-d"))
    world.facts[NodeName("node-a")] = world.facts[NodeName("node-b")]
    kill(world)
    world.settle()
    assert world.group().members == ("node-b", "node-d")
