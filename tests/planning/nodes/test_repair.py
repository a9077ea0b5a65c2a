"""When the settings of a Mac are changed, with which commands, and what is left to a person."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.planning.diagnosis.evidence import Detection
from reconciler.planning.diagnosis.rules import TABLE, Remedy, Row
from reconciler.planning.nodes import repair, settings
from reconciler.planning.nodes.repair import ATTEMPTS_MAX, BROKEN_OFF_MAX, GID_SECONDS
from reconciler.planning.nodes.root_commands import RootCommand, needed
from reconciler.planning.transport import fallback
from reconciler.planning.transport.link_addresses import all_addresses
from reconciler.resources import End
from reconciler.state import (
    AllocateEpoch,
    ConfirmRepair,
    FaultClass,
    MachineFacts,
    NodeName,
    Plan,
    RefusedBecause,
    RepairNode,
    Route,
    StartRank,
    Step,
    WaitingFor,
)
from reconciler.wire.launch import ExitCode, RankId
from reconciler.wire.repair import Change, RepairState, needs_root, permitted
from tests.planning.macs import A, B, learn, learn_of_port, mac, port, two_macs
from tests.settings import changed
from tests.worlds import World, deployment, fabric, model, node, settled

POOL = "10.77.0.0/16"
LAN = (Route("192.168.1.0/24", "en0"), Route("169.254.0.0/16", "en0"))
ALL = {"network": True, "wiredLimit": True, "sleep": True, "updates": True, "weights": True}


def cabled(pool: str | None = POOL, **repair: bool) -> World:
    """Two Macs with a group over the declared cable between them, whose addresses are those of the pool."""
    world = two_macs(transport=["jaccl", "ring", "ring-lan"])
    world.bring(fabric("studios", ("node-a/3", "node-b/4"), pool=pool))
    allow(world, A, **repair)
    allow(world, B, **repair)
    for name in (A, B):
        learn(world, name, routes=LAN)
        if pool:
            learn_of_port(world, name, address=address(world, name))
    world.settle()
    world.history.clear()
    return world


def allow(world: World, name: NodeName, **repair: bool) -> None:
    world.manifests = [
        node(name, repair=repair) if m.kind == "Node" and m.metadata.name == name else m
        for m in world.manifests
    ]


def address(world: World, name: NodeName) -> str:
    return str(all_addresses(world.desired())[End(name, 3 if name == A else 4)].ip)


def reboot(world: World, name: NodeName) -> None:
    """The machine restarts: its bridge is back, its addresses are gone, and so are the ranks of its group."""
    for rank in world.alive():
        world.end_rank(rank, signal=9)
    world.boots[name] = f"boot-{world.now}"
    learn_of_port(world, name, bridged=True, address="", mapped_gid=False)
    world.pass_time(world.now + 60)


def repairs(plan: Plan) -> list[RepairNode]:
    return [step for step in plan.steps if isinstance(step, RepairNode)]


def rights(world: World, name: NodeName) -> tuple[RootCommand, ...]:
    """What sudo allows on a machine whose lines are those of this moment."""
    return needed(world.seen(), name).commands


def pending(world: World, name: NodeName) -> str:
    """What is about to be changed on a machine."""
    seen = world.seen()
    return repair.pending_change(seen, name)


def typed(step: RepairNode) -> list[str]:
    return [" ".join(change.argv) for change in step.changes]


def refused(plan: Plan) -> list[str]:
    return [each.told for each in plan.refused if each.reason is RefusedBecause.NOT_REPAIRED]


def waits(plan: Plan, reason: WaitingFor = WaitingFor.REPAIR) -> list[str]:
    return [each.text for each in plan.waiting if each.reason is reason]


def condition(world: World, name: NodeName, kind: str) -> tuple[bool, str, str]:
    found = world.statuses()
    (one,) = [c for key, s in found.items() if key.name == name for c in s.conditions if c.type == kind]
    return one.status, one.reason, one.told


# --- the network -----------------------------------------------------------------------------------


def test_after_a_boot_the_ports_are_set_again_before_a_group_is_formed() -> None:
    world = cabled(network=True)
    reboot(world, A)
    plan = world.plan()
    (step,) = repairs(plan)
    own = address(world, A)
    assert typed(step) == [
        "ifconfig bridge0 deletem en3",
        f"ifconfig en3 inet {own} netmask 255.255.255.252",
    ]
    assert [" ".join(change.undo) for change in step.changes] == [
        "ifconfig bridge0 addm en3",
        f"ifconfig en3 inet {own} delete",
    ]
    assert not any(isinstance(each, AllocateEpoch) for each in plan.steps)
    (trouble,) = [t for t in plan.troubles if t.fault is FaultClass.PORT_CONFIGURATION and t.object.name == A]
    assert (trouble.doing, trouble.person) == ("repair the machine", "")
    world.settle()
    acts = [type(s) for s in world.history if isinstance(s, RepairNode | ConfirmRepair | AllocateEpoch)]
    assert acts == [RepairNode, ConfirmRepair, AllocateEpoch]
    assert world.group().transport == "jaccl"
    assert condition(world, A, "NetworkReady") == (True, "PortsSet", "")


def test_without_permission_nothing_is_changed_and_a_person_gets_the_exact_commands() -> None:
    world = cabled()
    reboot(world, A)
    plan = world.plan()
    assert repairs(plan) == []
    ready, reason, text = condition(world, A, "NetworkReady")
    assert (ready, reason) == (False, "PortConfiguration")
    assert (
        "set spec.repair.network of node/node-a, or on node-a: sudo ifconfig bridge0 deletem en3; sudo ifconfig en3 inet"
        in text
    )
    assert condition(world, A, "Stalled")[0]
    world.settle()
    assert world.group().transport == "ring-lan"


def test_without_a_fabric_nothing_of_the_network_is_changed() -> None:
    world = two_macs()
    allow(world, A, network=True)
    learn_of_port(world, A, bridged=True, address="")
    assert repairs(world.plan()) == []


def test_without_a_pool_a_port_is_only_taken_out_of_the_bridge() -> None:
    world = cabled(pool=None, network=True)
    reboot(world, A)
    (step,) = repairs(world.plan())
    assert typed(step) == ["ifconfig bridge0 deletem en3"]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("169.254.3.4", ["en3 inet 169.254.3.4 delete", "OWN"]),
        ("10.77.200.1", ["en3 inet 10.77.200.1 delete", "OWN"]),
        ("192.168.7.1", []),
    ],
    ids=["of macOS", "of another link", "of a person"],
)
def test_an_address_that_it_has_is_given_back_exactly_or_is_not_touched(
    before: str, expected: list[str]
) -> None:
    world = cabled(network=True)
    reboot(world, A)
    learn_of_port(world, A, bridged=False, address=before)
    plan = world.plan()
    own = f"en3 inet {address(world, A)} netmask 255.255.255.252"
    found = [line.removeprefix("ifconfig ") for step in repairs(plan) for line in typed(step)]
    assert found == [own if line == "OWN" else line for line in expected]
    if not expected:
        assert "en3 of node-a has the address 192.168.7.1 from somebody else" in refused(plan)[0]
        return
    mask = "255.255.0.0" if before.startswith("169") else "255.255.255.252"
    (step,) = repairs(plan)
    assert step.changes[0].undo == ("ifconfig", "en3", "inet", before, "netmask", mask)


def test_an_address_from_somebody_else_is_taken_away_where_it_comes_from() -> None:
    """DHCP undoes the removal of a lease, so the text names the machine that gives it."""
    world = cabled(network=True)
    reboot(world, A)
    learn_of_port(world, A, bridged=False, address="192.168.2.2")
    (text,) = refused(world.plan())
    assert "(sudo ifconfig en3 inet 192.168.2.2 delete)" in text
    assert "if it comes back, switch off Internet Sharing on node-b" in text


@pytest.mark.parametrize("first", ["169.254.3.4", "192.168.2.2"])
def test_a_port_that_has_its_address_beside_another_is_used_by_that_and_not_changed(first: str) -> None:
    world = cabled(network=True)
    for name in (A, B):
        learn_of_port(world, name, address=first, other_addresses=(address(world, name),))
    plan = world.plan()
    assert (repairs(plan), refused(plan)) == ([], [])
    wired = fallback.wiring(world.seen(), "ring", (A, B))
    assert wired is not None
    assert sorted(wired.hosts) == sorted(address(world, name) for name in (A, B))


def test_a_removed_address_is_confirmed_only_when_no_address_of_the_port_is_it() -> None:
    gone = Change(("ifconfig", "en3", "inet", "10.0.0.9", "delete"), ())
    given = Change(("ifconfig", "en3", "inet", "10.0.0.1", "netmask", settings.LINK_MASK), ())

    def confirmed(**addresses: Any) -> tuple[bool, bool]:
        facts = mac(replace(port(3, (B, 4), "10.0.0.1"), interface="en3", **addresses))
        return settings.confirmed(gone, facts), settings.confirmed(given, facts)

    assert confirmed() == (True, True)
    assert confirmed(other_addresses=("10.0.0.9",)) == (False, True)
    assert confirmed(address="169.254.3.4", other_addresses=("10.0.0.1",)) == (True, True)
    assert confirmed(address="") == (True, False)
    assert confirmed(address=None) == (False, False)


@pytest.mark.parametrize(
    ("routes", "words"),
    [
        (None, "it is not known which networks node-a reaches"),
        ((*LAN, Route("10.0.0.0/8", "utun3")), "overlaps 10.0.0.0/8, which node-a reaches over utun3"),
        ((*LAN, Route("OWN", "en5")), "reaches over en5"),
    ],
)  # fmt: skip
def test_a_network_that_something_else_has_is_not_given(routes: Any, words: str) -> None:
    world = cabled(network=True)
    reboot(world, A)
    own = str(all_addresses(world.desired())[End(A, 3)].network)
    told = (
        None if routes is None else tuple(replace(r, network=r.network.replace("OWN", own)) for r in routes)
    )
    learn(world, A, routes=told)
    learn_of_port(world, A, bridged=False)
    plan = world.plan()
    assert repairs(plan) == []
    assert words in refused(plan)[0]
    assert words in condition(world, A, "Stalled")[2]
    (trouble,) = [t for t in plan.troubles if t.fault is FaultClass.PORT_CONFIGURATION and t.object.name == A]
    assert words in trouble.person
    assert "set spec.repair.network" not in trouble.person, "it is set"


def test_its_own_route_is_in_nobody_s_way() -> None:
    world = cabled(network=True)
    own = str(all_addresses(world.desired())[End(A, 3)].network)
    reboot(world, A)
    learn(world, A, routes=(*LAN, Route(own, "en3")))
    assert len(repairs(world.plan())) == 1


def test_a_port_whose_cable_leads_elsewhere_is_left_alone() -> None:
    for wrong in (
        {"peer": (B, 1)},
        {"peer": None},
        {"connected": False},
        {"connected": None},
        {"interface": ""},
    ):
        world = cabled(network=True)
        reboot(world, A)
        learn_of_port(world, A, **wrong)
        assert repairs(world.plan()) == [], wrong


def test_the_port_of_a_group_that_lives_is_left_alone_until_it_does_no_more() -> None:
    world = cabled(network=True)
    learn_of_port(world, A, bridged=True)
    plan = world.settle()
    assert repairs(plan) == []
    assert "changed when tiny/0 does not use it" in waits(plan, WaitingFor.QUIET)[0]
    world.end_rank(next(iter(world.alive())), signal=9)
    world.pass_time(world.now + 60)
    world.settle()
    assert [type(s) for s in world.done(RepairNode)] == [RepairNode]
    assert world.group().transport == "jaccl"


@pytest.mark.parametrize(
    ("facts", "routes", "quiet"),
    [
        ({"bridged": True}, LAN, True),
        ({"bridged": True, "address": "192.168.7.7"}, LAN, False),
        ({"address": "192.168.7.7"}, LAN, False),
        ({"address": ""}, None, False),
        ({"address": ""}, (*LAN, Route("10.0.0.0/8", "en0")), False),
        ({"address": ""}, LAN, True),
    ],
)
def test_what_only_a_person_can_change_does_not_wait_for_the_group_that_uses_it(
    facts: dict[str, Any], routes: tuple[Route, ...] | None, quiet: bool
) -> None:
    world = cabled(network=True)
    learn_of_port(world, A, **facts)
    learn(world, A, routes=routes)
    assert bool(waits(world.plan(), WaitingFor.QUIET)) is quiet


def ring_of_four(*across: tuple[int, int], **spec: Any) -> World:
    """Four Macs joined in a ring, with a group over it; and the cables across that are declared, and not there."""
    names = [NodeName(f"node-{letter}") for letter in "abcd"]
    pairs = [(0, 1), (1, 2), (2, 3), (0, 3), *across]
    links = ((f"{names[one]}/{other + 1}", f"{names[other]}/{one + 1}") for one, other in pairs)
    nodes = [node(name, repair=ALL) for name in names]
    world = World([*nodes, model(), deployment(nodes=4, **spec), fabric("studios", *links, pool=POOL)])
    world.system = "Darwin"
    for name in names:
        world.facts[name] = replace(mac(), routes=LAN)
    for one, other in pairs[:4]:
        plug_in(world, names[one], names[other])
    world.settle()
    world.history.clear()
    return world


def plug_in(world: World, one: NodeName, other: NodeName, fresh: bool = False) -> None:
    """A cable at the receptacles that bear the other's number; ``fresh`` is one that macOS has just found."""
    numbers = {name: number for number, name in enumerate(sorted(world.facts), 1)}
    for here, there in ((one, other), (other, one)):
        end = End(here, numbers[there])
        at = port(end.receptacle, (there, numbers[here]), str(all_addresses(world.desired())[end].ip))
        if fresh:
            at = replace(at, bridged=True, address="", mapped_gid=False)
        learn(world, here, ports=(*world.facts[here].ports, at))


def test_a_port_that_a_ring_goes_past_is_set_while_it_serves_and_then_the_mesh_can_be_had() -> None:
    world = ring_of_four((0, 2), (1, 3))
    assert world.group().transport == "jaccl-ring"
    for one, other in (("node-a", "node-c"), ("node-b", "node-d")):
        plug_in(world, NodeName(one), NodeName(other), fresh=True)
    served = world.group()
    world.settle()
    assert set(repairs_made(world)) == set(world.facts)
    assert world.group() == served
    world.pass_time(world.now + 3600)
    for rank in world.alive():
        world.report(rank, idle_seconds=60.0)
    plan = world.settle()
    assert (plan.steps, plan.waiting) == ((), ())
    assert world.group().transport == "jaccl"


@pytest.mark.parametrize(("one", "other", "left_alone"), [(0, 2, True), (1, 3, False)])
def test_a_port_over_which_a_rank_has_found_the_first_is_left_alone(
    one: int, other: int, left_alone: bool
) -> None:
    world = ring_of_four((0, 2), (1, 3), transport=["jaccl-ring"])
    members = world.group().members
    across = (members[one], members[other])
    plug_in(world, *across)
    for rank in list(world.alive()):
        world.end_rank(rank, signal=9)
    world.pass_time(world.now + 60)
    world.settle()
    world.history.clear()
    assert world.group().members == members
    *others, last = world.facts[across[0]].ports
    learn(world, across[0], ports=(*others, replace(last, bridged=True)))
    world.settle()
    assert (repairs_made(world) == []) is left_alone


def repairs_made(world: World) -> list[NodeName]:
    return [step.node for step in world.done(RepairNode)]


def test_the_port_of_a_rank_that_was_replaced_is_left_alone_until_that_has_ended() -> None:
    world = cabled(network=True)
    learn_of_port(world, B, address="", mapped_gid=False)
    (of_a,) = (rank for rank in world.alive() if rank.rank == 0)
    world.end_rank(of_a, signal=9)
    record = world.group()
    world.groups[world.replica()] = replace(record, epoch=record.epoch + 1)
    assert repairs(world.plan()) == []
    (of_b,) = world.alive()
    world.end_rank(of_b, signal=9)
    assert [step.node for step in repairs(world.plan())] == [B]


def test_a_port_of_internet_sharing_is_in_a_bridge_that_no_command_here_changes() -> None:
    world = cabled(network=True)
    reboot(world, A)
    learn_of_port(world, A, other_bridge="bridge100")
    plan = world.plan()
    assert (repairs(plan), refused(plan)) == ([], [])
    (trouble,) = [t for t in plan.troubles if t.fault is FaultClass.PORT_CONFIGURATION and t.object.name == A]
    assert trouble.person.startswith("on node-a: System Settings, General, Sharing: Internet Sharing off")


def test_a_port_stays_in_a_bridge_that_has_an_adapter_too_until_a_person_has_taken_that_out() -> None:
    world = cabled(network=True)
    reboot(world, A)
    learn(world, A, bridged_ethernet=("en20",))
    plan = world.plan()
    assert repairs(plan) == []
    assert "take that out first, on node-a: sudo ifconfig bridge0 deletem en20" in refused(plan)[0]
    learn(world, A, bridged_ethernet=())
    assert len(repairs(world.plan())) == 1


def test_an_adapter_in_the_bridge_holds_up_no_port_that_is_out_of_it() -> None:
    world = cabled(network=True)
    reboot(world, A)
    learn(world, A, bridged_ethernet=("en20",))
    learn_of_port(world, A, bridged=False)
    assert typed(*repairs(world.plan())) == [f"ifconfig en3 inet {address(world, A)} netmask 255.255.255.252"]


@pytest.mark.parametrize(
    ("before", "service", "named"),
    [
        ("169.254.3.4", "Thunderbolt 3", True),
        ("169.254.3.4", "", False),
        ("169.254.3.4", None, False),
        ("10.77.200.1", "Thunderbolt 3", False),
    ],
)
def test_macos_is_named_where_its_service_of_a_port_gives_the_address_that_comes_back(
    before: str, service: str | None, named: bool
) -> None:
    world = cabled(network=True)
    world.stubborn.add(A)
    reboot(world, A)
    learn_of_port(world, A, bridged=False, address=before, service=service)
    for _ in range(ATTEMPTS_MAX):
        (step,) = repairs(world.plan())
        world.obey(step)
        world.repairs[A] = replace(world.repairs[A], state=RepairState.UNDONE)
    (text,) = refused(world.plan())
    own = f"sudo networksetup -setmanual 'Thunderbolt 3' {address(world, A)} 255.255.255.252"
    assert (own in text) is named
    assert "io.exo.networksetup" in text


def test_of_two_settings_that_were_tried_together_in_vain_each_is_tried_alone() -> None:
    world = ring_of_four(transport=["ring-lan"])
    name = NodeName("node-a")
    one, other = world.facts[name].ports
    learn(world, name, ports=(replace(one, bridged=True), replace(other, bridged=True)))
    world.stubborn.add(name)
    made = []
    for _ in range(1 + 2 * ATTEMPTS_MAX):
        (step,) = repairs(world.plan())
        made.append(len(step.changes))
        world.obey(step)
        world.repairs[name] = replace(world.repairs[name], state=RepairState.UNDONE)
    assert made == [2] + [1] * (2 * ATTEMPTS_MAX)
    plan = world.plan()
    assert repairs(plan) == []
    assert all(f"bridge0 deletem {port.interface}" in refused(plan)[0] for port in (one, other))


def test_what_does_not_help_is_tried_a_few_times_in_a_boot_and_then_left_to_a_person() -> None:
    world = cabled(network=True)
    world.stubborn.add(A)
    reboot(world, A)
    for _ in range(ATTEMPTS_MAX):
        (step,) = repairs(world.plan())
        world.obey(step)
        assert not any(isinstance(s, ConfirmRepair) for s in world.plan().steps)
        world.repairs[A] = replace(
            world.repairs[A], state=RepairState.UNDONE, problem="nobody has confirmed it"
        )
    plan = world.plan()
    assert repairs(plan) == []
    assert f": it was tried {ATTEMPTS_MAX} times since node-a booted" in refused(plan)[0]
    assert "and did not last: nobody has confirmed it; on node-a" in refused(plan)[0]
    assert "end what sets the network there, such as exo's io.exo.networksetup" in refused(plan)[0]
    last = world.repairs[A]
    world.repairs[A] = replace(last, id="of another change")
    assert "and did not last; on node-a" in refused(world.plan())[0], "its problem was of another change"
    world.repairs[A] = last
    assert "on node-a: sudo ifconfig bridge0 deletem en3" in condition(world, A, "Stalled")[2]
    world.settle()
    assert world.group().transport == "ring-lan"
    reboot(world, A)
    assert len(repairs(world.plan())) == 1


def test_what_is_broken_off_is_tried_more_often_and_not_without_end() -> None:
    world = cabled(network=True)
    world.stubborn.add(A)
    reboot(world, A)
    (step,) = repairs(world.plan())
    world.obey(step)
    broken = replace(world.repairs[A], state=RepairState.UNDONE, problem="it was broken off", tried=())
    world.repairs[A] = replace(broken, broken_off=(step.id,) * (BROKEN_OFF_MAX - 1))
    assert len(repairs(world.plan())) == 1
    world.repairs[A] = replace(broken, broken_off=(step.id,) * BROKEN_OFF_MAX)
    assert repairs(world.plan()) == []
    assert f"broken off {BROKEN_OFF_MAX} times" in refused(world.plan())[0]


def test_where_sudo_does_not_allow_it_a_person_is_told_what_does() -> None:
    world = cabled(network=True)
    reboot(world, A)
    (step,) = repairs(world.plan())
    world.obey(step)
    world.repairs[A] = replace(world.repairs[A], state=RepairState.UNDONE, tried=(), barred=(step.id,))
    learn_of_port(world, A, bridged=True, address="")
    plan = world.plan()
    assert repairs(plan) == []
    assert "reconciler node bootstrap node-a" in refused(plan)[0]
    assert "sudo ifconfig bridge0 deletem en3" in refused(plan)[0]


def test_what_was_tried_in_vain_is_asked_for_beside_what_stands_in_the_way_of_another_port() -> None:
    world = cabled(network=True)
    world.manifests[-1] = fabric("studios", ("node-a/3", "node-b/4"), ("node-a/4", "node-b/3"), pool=POOL)
    reboot(world, A)
    in_vain, ours = (replace(world.facts[A].ports[0], address=address(world, A)), "192.168.7.1")
    learn(world, A, ports=(in_vain, replace(port(4, (B, 3), ours), bridged=True)))
    (step,) = repairs(world.plan())
    assert typed(step) == ["ifconfig bridge0 deletem en3"]
    world.stubborn.add(A)
    world.obey(step)
    undone = replace(world.repairs[A], state=RepairState.UNDONE, tried=(step.id,) * ATTEMPTS_MAX)
    world.repairs[A] = undone
    (text,) = refused(world.plan())
    assert f"en4 of node-a has the address {ours} from somebody else" in text
    assert "on node-a: sudo ifconfig bridge0 deletem en3; again after each restart" in text
    assert "deletem en4" not in text


# --- confirming ------------------------------------------------------------------------------------


def waiting(world: World) -> World:
    reboot(world, A)
    (step,) = repairs(world.plan())
    world.obey(step)
    return world


def confirms(world: World) -> list[Step]:
    return [step for step in world.plan().steps if isinstance(step, ConfirmRepair)]


def test_it_is_confirmed_only_where_the_facts_show_that_it_has_helped() -> None:
    world = waiting(cabled(network=True))
    assert len(confirms(world)) == 1
    learn_of_port(world, A, address=None)
    assert confirms(world) == []
    assert waits(world.plan())
    learn_of_port(world, A, address=address(world, A), bridged=True)
    assert confirms(world) == []


def test_it_is_confirmed_only_by_what_was_seen_over_a_new_connection() -> None:
    world = waiting(cabled(network=True))
    seen = world._node(A)
    for old in (
        replace(seen, facts_link=seen.link - 1),
        replace(seen, examined=False),
        replace(seen, probed=False),
    ):
        world.stale[A] = old
        assert confirms(world) == []
    del world.stale[A]
    assert len(confirms(world)) == 1
    world.boots[A] = "another boot"
    assert confirms(world) == [], "that boot has undone it"


def test_nothing_is_changed_before_every_machine_of_a_group_that_ended_was_probed() -> None:
    """The flaw that ended it would be mended and not told: the group would be said to have crashed."""
    world = cabled(network=True)
    last = world.group().epoch
    for rank in (0, 1):
        world.end_rank(RankId("tiny", 0, last, rank), code=ExitCode.PEER_LOST)
    learn_of_port(world, A, bridged=True)
    world.stale[B] = replace(world._node(B), examined=False)
    decided = world.plan()
    assert repairs(decided) == []
    assert any("when node-b was probed" in waiting.text for waiting in decided.waiting)

    world.now += 10
    world.repaired[B] = world.now
    assert [step.node for step in repairs(world.plan())] == [A], "it was probed before it was repaired"

    del world.stale[B], world.repaired[B]
    decided = world.plan()
    assert [step.node for step in repairs(decided)] == [A]
    (told,) = [t.fault for t in decided.troubles if str(t.subject) == f"replica/{world.replica()}"]
    assert told is FaultClass.PORT_CONFIGURATION


def test_what_is_not_allowed_any_more_is_not_confirmed() -> None:
    world = waiting(cabled(network=True))
    allow(world, A)
    assert confirms(world) == []
    assert repairs(world.plan()) == []


def test_only_machines_that_may_be_changed_from_here_are_looked_at_before_a_group_is_formed() -> None:
    def changeable(world: World) -> tuple[NodeName, ...]:
        return repair.changeable(world.seen())

    world = cabled(network=True)
    assert changeable(world) == ()
    learn_of_port(world, A, bridged=True)
    assert changeable(world) == (A,), "as soon as no group uses its port"
    allow(world, A)
    assert changeable(world) == (), "nobody has allowed it"
    allow(world, A, network=True)
    learn_of_port(world, A, bridged=False, address="192.168.0.1")
    assert changeable(world) == (), "the address is somebody else's"
    learn_of_port(world, A, bridged=True)
    assert changeable(world) == (), "that stands against all changes of the port"
    learn_of_port(world, A, bridged=False, address="169.254.9.9")
    learn(world, A, routes=None)
    assert changeable(world) == (), "nobody knows whether the address is free"
    learn(world, A, routes=LAN)
    assert changeable(world) == (A,)
    learn_of_port(world, A, address=address(world, A))
    world.in_flight.add("repair/node-b")
    assert changeable(world) == (B,)


def test_a_group_waits_while_a_change_is_being_asked_for() -> None:
    world = cabled(network=True)
    assert pending(world, A) == ""
    world.in_flight.add("repair/node-a")
    assert pending(world, A) == "the settings of node-a are being changed"
    assert pending(world, B) == ""


def test_nothing_is_about_to_be_changed_while_everything_is_stopped_or_the_machine_is_not_there() -> None:
    world = cabled(network=True)
    world.in_flight.add("repair/node-a")
    world.stopping = True
    assert pending(world, A) == ""
    world.stopping = False
    world.lose(A)
    assert pending(world, A) == ""


def test_nothing_else_is_repaired_while_one_is_not_confirmed() -> None:
    world = waiting(cabled(POOL, **ALL))
    learn(world, A, sleeps=True, sleep_minutes=(1, 10))
    learn_of_port(world, A, address=None)
    for state in (RepairState.RUNNING, RepairState.WAITING, RepairState.UNDOING):
        world.repairs[A] = replace(world.repairs[A], state=state)
        plan = world.plan()
        assert repairs(plan) == []
        assert not any(isinstance(step, AllocateEpoch | StartRank) for step in plan.steps)


def test_while_an_agent_is_started_again_nobody_is_asked_for_what_is_about_to_be_well() -> None:
    world = waiting(cabled(network=True))
    world.obey(confirms(world)[0])
    learn_of_port(world, A, mapped_gid=False)
    world.down.add(A)
    assert [t.person for t in world.plan().troubles if t.fault is FaultClass.PORT_CONFIGURATION] == [""]
    world.down.clear()
    world.pass_time(world.now + GID_SECONDS)
    told = [t.person for t in world.plan().troubles if t.fault is FaultClass.PORT_CONFIGURATION]
    assert any("sudo ifconfig" in person for person in told)


def test_a_group_waits_a_while_for_the_gid_of_a_new_address() -> None:
    world = waiting(cabled(network=True))
    world.obey(confirms(world)[0])
    learn_of_port(world, A, mapped_gid=False)
    plan = world.plan()
    assert not any(isinstance(step, AllocateEpoch) for step in plan.steps)
    assert "en3 of node-a has no GID yet" in waits(plan)[0]
    world.pass_time(world.now + GID_SECONDS)
    world.settle()
    assert world.group().transport == "ring"


# --- the machine itself ------------------------------------------------------------------------------


UPDATES = "/Library/Preferences/com.apple.SoftwareUpdate AutomaticallyInstallMacOSUpdates"


def idle_mac(memory: dict[str, Any] | None = None, **repair: bool) -> World:
    world = two_macs()
    world.manifests = [node("node-a", repair=repair, memory=memory or {})]
    world.ranks.clear()
    world.groups.clear()
    learn(world, A, wired_limit_bytes=0, sleeps=True, sleep_minutes=(1, 10))
    return world


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        ({"reserve": "24GiB"}, ["sysctl iogpu.wired_limit_mb=40960"]),
        ({"limit": "32GiB"}, ["sysctl iogpu.wired_limit_mb=32768"]),
        ({"limit": "60GiB", "reserve": "24GiB"}, ["sysctl iogpu.wired_limit_mb=40960"]),
        ({}, []),
    ],
)
def test_the_wired_limit_is_what_the_manifest_leaves_to_models(
    memory: dict[str, Any], expected: list[str]
) -> None:
    world = idle_mac(memory, wiredLimit=True)
    found = repairs(world.plan())
    assert [line for step in found for line in typed(step)] == expected
    assert [step.changes[0].undo for step in found] == [("sysctl", "iogpu.wired_limit_mb=0")] * len(expected)
    world.settle()
    assert not expected or world.facts[A].wired_limit_bytes


def test_a_limit_stays_as_it_is_where_the_manifest_leaves_nothing_to_models() -> None:
    """A limit of 0 would leave it to macOS."""
    world = idle_mac({"reserve": "64GiB"}, wiredLimit=True)
    learn(world, A, wired_limit_bytes=32 * 2**30)
    assert repairs(world.plan()) == []


def test_the_wired_limit_is_not_changed_under_ranks_that_live() -> None:
    world = two_macs()
    world.manifests[0] = node("node-a", repair={"wiredLimit": True}, memory={"reserve": "24GiB"})
    plan = world.plan()
    assert repairs(plan) == []
    assert "changed when tiny/0 does not use it" in waits(plan, WaitingFor.QUIET)[0]
    for rank in world.alive():
        world.end_rank(rank, signal=9)
    (step,) = repairs(world.plan())
    assert typed(step) == ["sysctl iogpu.wired_limit_mb=40960"]


def test_a_machine_that_falls_asleep_is_kept_awake_and_what_was_before_is_known() -> None:
    world = idle_mac(sleep=True)
    (step,) = repairs(world.plan())
    assert typed(step) == ["pmset -a sleep 0 disksleep 0"]
    assert (step.changes[0].undo, step.changes[0].lasting) == (
        ("pmset", "-a", "sleep", "1", "disksleep", "10"),
        True,
    )
    learn(world, A, sleep_minutes=None)
    assert repairs(world.plan()) == []


def test_updates_are_turned_off_and_what_reads_the_weights_is_kept_off_each_as_the_node_allows() -> None:
    world = idle_mac(updates=True, weights=True)
    learn(world, A, updates_itself=True, weights_indexed=True, weights_backed_up=True)
    world.settle()
    done = world.done(RepairNode)
    assert [typed(step) for step in done] == [
        [f"defaults write {UPDATES} -bool false"],
        ["touch {models}/.metadata_never_index", "tmutil addexclusion {models}"],
    ]
    undone = [" ".join(change.undo) for step in done for change in step.changes]
    assert undone == [
        f"defaults write {UPDATES} -bool true",
        "unlink {models}/.metadata_never_index",
        "tmutil removeexclusion {models}",
    ]
    facts = world.facts[A]
    assert (facts.updates_itself, facts.weights_indexed, facts.weights_backed_up) == (False, False, False)


def test_a_person_gets_the_commands_of_what_did_not_last_with_sudo_only_where_it_is_needed() -> None:
    world = idle_mac(updates=True, weights=True)
    for _ in range(1 + ATTEMPTS_MAX):  # once together, and then each alone
        learn(world, A, updates_itself=True, weights_indexed=True, weights_backed_up=True)
        world.settle()
    learn(world, A, updates_itself=True, weights_indexed=True, weights_backed_up=True)
    updates, weights = refused(world.plan())
    assert updates.endswith(" on node-a: sudo defaults write " + UPDATES + " -bool false")
    assert f"{ATTEMPTS_MAX} times since node-a booted, and did not last; on node-a: touch ~/" in weights
    assert weights.endswith(" on node-a: tmutil addexclusion ~/.reconciler/models")


def test_one_kind_after_the_other_so_that_none_undoes_another() -> None:
    world = settled(idle_mac({"reserve": "24GiB"}, **ALL))
    done = [typed(s) for s in world.done(RepairNode)]
    assert done == [["sysctl iogpu.wired_limit_mb=40960"], ["pmset -a sleep 0 disksleep 0"]]


# --- whatever is known -----------------------------------------------------------------------------

FIELDS = {
    "ifconfig": "network",
    "sysctl": "wiredLimit",
    "pmset": "sleep",
    "defaults": "updates",
    "touch": "weights",
    "tmutil": "weights",
}
"""The field of ``spec.repair`` that allows what a tool changes."""
_maybe = st.none() | st.booleans()
_addresses = st.sampled_from([None, "", "169.254.9.9", "10.77.3.1", "192.168.0.1"])


@given(
    bridged=_maybe, connected=_maybe, address_=_addresses, gid=_maybe,
    peer=st.sampled_from([None, (B, 4), (B, 1)]), interface=st.sampled_from(["", "en3"]),
    routes=st.sampled_from([None, (), LAN, (Route("10.0.0.0/8", "utun3"),)]),
    sleeps=_maybe, minutes=st.sampled_from([None, (1, 10)]), limit=st.sampled_from([None, 0, 2**35]),
    updates=_maybe, indexed=_maybe, backed_up=_maybe,
    repair=st.fixed_dictionaries({key: st.booleans() for key in ALL}), alive=st.booleans(),
)  # fmt: skip
def test_whatever_is_known_only_permitted_commands_are_planned_and_never_for_what_is_not_known(
    bridged: bool | None, connected: bool | None, address_: str | None, gid: bool | None, peer: Any, interface: str,
    routes: Any, sleeps: bool | None, minutes: Any, limit: int | None, updates: bool | None,
    indexed: bool | None, backed_up: bool | None, repair: dict[str, bool], alive: bool,
) -> None:  # fmt: skip
    world = cabled(POOL, **repair)
    if not alive:
        reboot(world, A)
    facts = {"routes": routes, "sleeps": sleeps, "sleep_minutes": minutes, "wired_limit_bytes": limit}
    learn(world, A, **facts, updates_itself=updates, weights_indexed=indexed, weights_backed_up=backed_up)
    learn_of_port(
        world,
        A,
        bridged=bridged,
        connected=connected,
        address=address_,
        mapped_gid=gid,
        peer=peer,
        interface=interface,
    )
    for step in repairs(world.plan()):
        after = world.facts[step.node]
        known_to_sudo = rights(world, step.node)
        for change in step.changes:
            for argv in (change.argv, change.undo):
                assert permitted(argv)
                assert not needs_root(argv) or any(each.covers(argv) for each in known_to_sudo), argv
            tool = change.argv[0]
            assert repair[FIELDS[tool]]
            known = {
                "sysctl": limit, "pmset": minutes, "ifconfig": bridged,
                "defaults": updates, "touch": indexed, "tmutil": backed_up,
            }[tool]  # fmt: skip
            assert known is not None
            if change.argv[0] == "ifconfig":
                assert (connected, peer) == (True, (B, 4))
                assert not alive
            after = changed(after, change.argv)
        assert all(settings.confirmed(change, after) for change in step.changes[-1:])
        back: MachineFacts = after
        for change in reversed(step.changes):
            back = changed(back, change.undo)
        before = world.facts[step.node]
        assert [(p.bridged, p.address) for p in back.ports] == [(p.bridged, p.address) for p in before.ports]
        assert (back.wired_limit_bytes, back.sleep_minutes) == (
            before.wired_limit_bytes,
            before.sleep_minutes,
        )
        assert (back.updates_itself, back.weights_indexed, back.weights_backed_up) == (
            before.updates_itself,
            before.weights_indexed,
            before.weights_backed_up,
        )


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.fault.value} {row.seen.__name__}")
def test_the_same_fault_of_two_machines_is_a_task_of_each(row: Row) -> None:
    world = two_macs()
    snapshot = world.seen()
    tasks = [repair.task(snapshot, row, Detection("it is wrong", (name,))) for name in (A, B)]
    assert tasks[0] != tasks[1]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.fault.value} {row.seen.__name__}")
def test_missing_settings_are_one_task_of_their_machine_whichever_row_has_seen_them(row: Row) -> None:
    world = cabled()
    reboot(world, A)
    snapshot = world.seen()
    for name, declared in ((A, ("settings", A)), (B, None)):
        seen = Detection("it is wrong", (name,))
        expected = declared if declared and row.remedy is Remedy.REPAIR else row.sign(seen)
        assert repair.task(snapshot, row, seen) == expected


def test_nothing_is_changed_while_a_machine_is_changed_otherwise_or_is_to_restart() -> None:
    world = cabled(network=True)
    for rank in world.alive():
        world.end_rank(rank, code=ExitCode.PEER_LOST)
    learn_of_port(world, A, bridged=True)
    assert [step.node for step in repairs(world.plan())] == [A]

    world.in_flight.add("node/node-a")
    assert repairs(world.plan()) == []
    assert "node-a: its settings are changed when nothing else is done to it" in waits(world.plan())
    world.in_flight.clear()

    world.manifests = [
        node(A, repair={"network": True}, rebootFrom="boot")
        if m.kind == "Node" and m.metadata.name == A
        else m
        for m in world.manifests
    ]
    assert repairs(world.plan()) == []
    assert "node-a: its settings are changed when nothing else is done to it" in waits(world.plan())
