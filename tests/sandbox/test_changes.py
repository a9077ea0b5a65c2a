"""What happens to emulated machines, and the way back of each."""

from __future__ import annotations

import pytest

from reconciler.errors import Invalid
from reconciler.sandbox.world import changes, macs
from reconciler.sandbox.world.state import DOMAINS_MAX, GIB, NoSuchThing, World, read_end

NOW = 1_800_000_000.0
FOUR = ("studio-1", "studio-2", "studio-3", "studio-4")


def mesh(names: tuple[str, ...] = FOUR) -> World:
    return macs.world(names, "studio", macs.MESH, [f"boot-{name}" for name in names], NOW - 60)


def test_a_mesh_joins_each_with_each_and_a_ring_each_with_two() -> None:
    world = mesh()
    assert {frozenset(name for name, _ in cable.ends) for cable in world.cables} == {
        frozenset({a, b}) for a in FOUR for b in FOUR if a != b
    }
    assert world.peer_of(("studio-1", 3)) == ("studio-2", 3)
    assert world.peer_of(("studio-1", 4)) == ("studio-3", 3)
    ring = macs.world(FOUR, "mini", macs.RING, FOUR, NOW)
    assert all(sum(name in dict(cable.ends) for cable in ring.cables) == 2 for name in FOUR)
    assert len(macs.world(FOUR[:2], "mini", macs.RING, FOUR[:2], NOW).cables) == 1


def test_a_mesh_needs_a_receptacle_for_each_other_machine() -> None:
    with pytest.raises(Invalid, match="a mesh of 5 needs more receptacles than n1 has: 3"):
        macs.world(["n1", "n2", "n3", "n4", "n5"], "mini", macs.MESH, ["b"] * 5, NOW)


def test_ports_are_the_same_for_the_same_name_and_no_two_are_alike() -> None:
    assert mesh() == mesh()
    domains = [port.domain for machine in mesh().machines for port in machine.ports]
    assert len(set(domains)) == len(domains)


def test_an_unplugged_cable_is_felt_at_both_ends_and_can_be_plugged_in_again() -> None:
    world = mesh()
    out = changes.unplug(world, ("studio-3", 3))
    for end in (("studio-3", 3), ("studio-1", 4)):
        assert world.is_active(end, NOW)
        assert world.is_verbs_up(end, NOW)
        assert not out.is_active(end, NOW)
        assert out.peer_of(end) is None
    assert changes.plug(out, ("studio-1", 4)) == world
    with pytest.raises(Invalid, match="reconciler sandbox plug studio-3/3"):
        changes.unplug(out, ("studio-3", 3))


def test_a_new_cable_goes_where_both_receptacles_are_free() -> None:
    world = changes.plug(mesh(), ("studio-1", 6), ("studio-2", 6))
    assert world.peer_of(("studio-2", 6)) == ("studio-1", 6)
    with pytest.raises(Invalid, match="already has a cable"):
        changes.plug(world, ("studio-1", 6), ("studio-3", 6))


def test_swapped_cables_lead_elsewhere_and_swapped_again_where_they_did() -> None:
    world = mesh()
    swapped = changes.swap(world, ("studio-1", 3), ("studio-1", 4))
    assert swapped.peer_of(("studio-1", 3)) == ("studio-3", 3)
    assert swapped.peer_of(("studio-1", 4)) == ("studio-2", 3)
    assert changes.swap(swapped, ("studio-1", 3), ("studio-1", 4)) == world
    with pytest.raises(Invalid, match="ends of one cable"):
        changes.swap(world, ("studio-1", 3), ("studio-2", 3))


def test_no_rdma_over_a_slow_cable_or_through_a_dock() -> None:
    world, end, other = mesh(), ("studio-1", 3), ("studio-2", 3)
    for broken in (changes.slow(world, end), changes.dock(world, other)):
        assert broken.is_active(other, NOW)
        assert not broken.is_verbs_up(end, NOW)
        assert not broken.is_verbs_up(other, NOW)
    assert changes.slow(changes.slow(world, end), other, False) == world
    assert changes.dock(changes.dock(world, end), end, "") == world


def test_rdma_works_through_a_hub_that_one_end_reports_and_over_a_slow_cable_if_asked() -> None:
    world, end, other = mesh(), ("studio-1", 3), ("studio-2", 3)
    hub = changes.hub(world, end)
    cable = hub.cable_of(end)
    assert cable is not None
    assert (cable.docks(end), cable.docks(other), cable.gbps) == ((changes.HUB,), (), 80)
    assert hub.is_verbs_up(other, NOW)
    assert changes.hub(hub, end, "") == world
    slow = changes.slow_rdma(world, end)
    assert slow.is_verbs_up(other, NOW)
    assert not changes.slow(slow, end).is_verbs_up(other, NOW)
    assert changes.slow(slow, end, False) == world
    old = macs.world(["a", "b"], "mini-tb4", macs.MESH, ["x", "y"], NOW)
    with pytest.raises(Invalid, match="no Thunderbolt 5"):
        changes.slow_rdma(old, old.cables[0].a)


def test_rdma_that_is_off_takes_the_port_of_the_other_end_down() -> None:
    world = changes.rdma(mesh(), "studio-2", False)
    assert world.devices("studio-2") == ()
    assert not world.is_verbs_up(("studio-1", 3), NOW)
    assert world.is_verbs_up(("studio-1", 4), NOW)
    with pytest.raises(Invalid, match="no Thunderbolt 5"):
        changes.rdma(macs.world(["a"], "mini-tb4", macs.MESH, ["b"], NOW), "a", True)


def test_members_of_the_bridge_have_no_address_of_their_own() -> None:
    world = changes.addressed(mesh())
    ends = world.cables[0].ends
    assert [world.port(end).address for end in ends] == ["10.77.0.1/30", "10.77.0.2/30"]
    assert all(world.port(end).has_mapped_gid for cable in world.cables for end in cable.ends)
    bridged = changes.bridge(world, "studio-1", 3)
    assert not bridged.port(("studio-1", 3)).has_mapped_gid
    assert bridged.port(("studio-1", 4)).has_mapped_gid
    assert world.end_of_address("10.77.0.2") == ends[1]
    lost = changes.lose_ipv4(world, "studio-1", 3)
    assert lost.port(("studio-1", 3)).ip == ""
    assert changes.find_ipv4(lost, "studio-1").port(("studio-1", 3)).ip.startswith("169.254.")


def test_cables_get_the_addresses_that_are_declared_and_others_different_ones() -> None:
    first, second, *_ = mesh().cables
    declared = dict(zip(first.ends, ("10.77.0.1/30", "10.77.0.2/30"), strict=True))
    world = changes.addressed(mesh(), {**declared, second.ends[0]: "10.77.0.5/30"})
    assert [world.port(end).address for end in first.ends] == ["10.77.0.1/30", "10.77.0.2/30"]
    found = [world.port(end).address for cable in world.cables for end in cable.ends]
    assert len({*found}) == len(found)
    assert "10.77.0.5/30" not in found, "one end alone says nothing of the other"


def test_a_reboot_gives_back_what_was_held_and_takes_what_was_set() -> None:
    world = changes.addressed(mesh())
    world = changes.exhaust_pd(changes.leak_wired(world, "studio-2"), "studio-2")
    world = changes.fault(world, "studio-2", hung=True, privacy=True)
    assert world.machine("studio-2").domains_held == DOMAINS_MAX
    booted = changes.reboot(world, "studio-2", NOW, "another", 5)
    machine = booted.machine("studio-2")
    assert (machine.boot_id, machine.leaked_bytes, machine.domains_held) == ("another", 0, 0)
    assert all(port.bridged and port.address is None for port in machine.ports)
    assert (machine.faults.hung, machine.faults.privacy) == (False, True)
    assert not booted.is_active(("studio-1", 3), NOW)
    assert booted.is_active(("studio-1", 3), NOW + 5)
    assert [port.domain for port in machine.ports] == [
        port.domain for port in world.machine("studio-2").ports
    ]


def test_a_panic_leaves_a_report_and_an_encrypted_disk_waits_for_a_person() -> None:
    world = changes.panic(mesh(), "studio-3", NOW, "another", "panic-full-1.panic")
    assert world.machine("studio-3").panics == ("panic-full-1.panic",)
    locked = changes.reboot(changes.with_machine(mesh(), "studio-1", filevault=True), "studio-1", NOW, "b")
    assert not locked.machine("studio-1").is_up(NOW + 1e9)
    assert changes.unlock(locked, "studio-1", NOW + 10).machine("studio-1").is_up(NOW + 10)
    with pytest.raises(Invalid, match="does not wait"):
        changes.unlock(mesh(), "studio-1", NOW)


def test_what_does_not_exist_is_refused_with_what_does() -> None:
    with pytest.raises(NoSuchThing, match="did you mean studio-1"):
        changes.unplug(mesh(), ("studo-1", 3))
    with pytest.raises(NoSuchThing, match="no receptacle 9; it has 1, 2, 3, 4, 5, 6"):
        changes.unplug(mesh(), ("studio-1", 9))
    with pytest.raises(NoSuchThing, match="no cable at studio-1/1; studio-1 has: studio-1/3"):
        changes.unplug(mesh(), ("studio-1", 1))
    with pytest.raises(NoSuchThing, match="such as studio-1/3"):
        read_end("studio-1")
    with pytest.raises(Invalid, match="GiB"):
        changes.leak_wired(mesh(), "studio-1", 512 * GIB)
