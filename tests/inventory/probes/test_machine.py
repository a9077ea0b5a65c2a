"""Which fact comes of which reading, and what is not believed of readings that do not agree, or are missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.inventory.probes import machine, management, network, system, thunderbolt, verbs
from reconciler.inventory.probes.machine import SETTLE_SECONDS, Wired
from reconciler.inventory.probes.probe import Probe, Unknown
from reconciler.inventory.probes.table import Readings
from reconciler.state import PortFacts
from reconciler.wire.launch import Exit, Phase, RankId
from reconciler.wire.node import HeldBy, NodeReport, RankReport
from tests.inventory.test_collector import report

GIB = 2**30
MAC = replace(report(1), system="Darwin")


def with_rank(phase: str, of: NodeReport = MAC) -> NodeReport:
    ended = Exit(code=0, signal=None, at=1.0) if phase == Phase.EXITED else None
    rank = RankReport(
        id=RankId("tiny", 0, 1, 0), group="wish", socket="s", pid=7, shim_pid=6, phase=phase, steps=0, demand=0,
        loaded_bytes=0, total_bytes=0, detail="", started_at=0.0, exit=ended,
    )  # fmt: skip
    return replace(of, ranks=(rank,))


def read(*values: tuple[Probe[Any], Any]) -> Readings:
    return Readings({probe.name: value for probe, value in values})


RECEPTACLE = (thunderbolt.RECEPTACLES, (thunderbolt.Receptacle(2, "D", True, 80),))
NAMES = (
    network.HARDWARE_PORTS,
    (network.HardwarePort("Thunderbolt 2", "en6"), network.HardwarePort("Thunderbolt Bridge", "bridge0")),
)


def interface(
    *more: network.Interface, addresses: tuple[str, ...] | None = ("10.0.0.1",)
) -> tuple[Probe[Any], Any]:
    return (network.INTERFACES, (network.Interface("en6", True, addresses), *more))


def bridge(*members: str) -> network.Interface:
    return network.Interface("bridge0", True, (), members)


def the_port(*values: tuple[Probe[Any], Any]) -> PortFacts:
    (port,) = machine.ports(read(*values))
    return port


# --- ports -----------------------------------------------------------------------------------------


def test_a_port_is_found_by_its_receptacle_wherever_macos_has_put_its_interface() -> None:
    devices = (verbs.DEVICES, (verbs.Device("rdma_en6", "1"),))
    verbs_ports = (verbs.VERBS_PORTS, (verbs.VerbsPort("rdma_en6", True, ("fe80::1", "::ffff:10.0.0.1")),))
    assert the_port(RECEPTACLE, NAMES, interface(bridge()), devices, verbs_ports) == PortFacts(
        2, "en6", "rdma_en6", connected=True, gbps=80, active=True, verbs_up=True, bridged=False,
        address="10.0.0.1", mapped_gid=True, domain="D",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("told", "of_driver", "connected", "gbps"),
    [
        (80, 40, True, 40),
        (40, 80, True, 40),
        (None, 80, True, 80),
        (80, None, True, 80),
        (None, 80, False, None),
        (None, None, True, None),
    ],
)
def test_the_lower_of_the_speeds_that_macos_and_the_driver_tell_counts(
    told: int | None, of_driver: int | None, connected: bool, gbps: int | None
) -> None:
    receptacle = (thunderbolt.RECEPTACLES, (thunderbolt.Receptacle(2, "D", connected, told),))
    port = (verbs.VERBS_PORTS, (verbs.VerbsPort("rdma_en6", True, gbps=of_driver),))
    assert the_port(receptacle, NAMES, port).gbps == gbps


def test_two_ports_of_one_name_cost_only_that_name() -> None:
    two = (network.HardwarePort("USB 10/100 LAN", "en8"), network.HardwarePort("USB 10/100 LAN", "en9"))
    assert the_port((NAMES[0], (*two, *NAMES[1]))).interface == "en6"
    again = (network.HardwarePort("Thunderbolt 2", "en9"), network.HardwarePort("Thunderbolt 3", "en7"))
    found = machine.ports(read((NAMES[0], (*again, *NAMES[1]))))
    assert [(port.receptacle, port.interface) for port in found] == [(2, ""), (3, "en7")]


def test_an_interface_of_two_ports_is_that_of_neither() -> None:
    shared = (network.HardwarePort("Thunderbolt 3", "en6"), network.HardwarePort("Thunderbolt 4", "en7"))
    found = machine.ports(read((NAMES[0], (*shared, *NAMES[1]))))
    assert [(port.receptacle, port.interface) for port in found] == [(2, ""), (3, ""), (4, "en7")]


GERMAN = (
    network.HARDWARE_PORTS,
    (network.HardwarePort("WLAN", "en0"), network.HardwarePort("Thunderbolt-Anschluss 2", "en6")),
)


def test_receptacles_of_which_no_port_has_the_name_are_reported_as_such_and_not_as_no_ports() -> None:
    assert facts(RECEPTACLE, NAMES).ports_named is True
    assert (facts(RECEPTACLE).ports_named, facts(NAMES).ports_named) == (None, None)
    unnamed = facts(RECEPTACLE, GERMAN)
    assert unnamed.ports_named is False
    assert [(port.receptacle, port.interface) for port in unnamed.ports] == [(2, "")]
    assert dict(unnamed.unknown) == {"hardware ports": "no port, or not only one, is called Thunderbolt 2"}


def test_a_receptacle_without_an_interface_has_its_reason_beside_others_that_have_theirs() -> None:
    three = (RECEPTACLE[0], (*RECEPTACLE[1], thunderbolt.Receptacle(3)))
    found = facts(three, NAMES)
    assert found.ports_named is True
    assert dict(found.unknown) == {"hardware ports": "no port, or not only one, is called Thunderbolt 3"}


def test_of_a_port_whose_tools_said_nothing_nothing_is_known_and_it_is_no_port_without_a_device() -> None:
    assert the_port(NAMES) == PortFacts(2, "en6", "rdma_en6")
    assert the_port(RECEPTACLE) == PortFacts(2, connected=True, gbps=80, domain="D")
    assert machine.ports(read()) == ()


def test_only_the_verbs_tools_can_say_that_a_port_has_no_device() -> None:
    hung = (verbs.VERBS_PORTS, Unknown("it did not come back", hung=True))
    assert the_port(NAMES, hung).device == "rdma_en6"
    assert the_port(NAMES, hung, (verbs.DEVICES, ())).device == ""
    assert the_port(NAMES, (verbs.DEVICES, ()), (verbs.VERBS_PORTS, ())).device == ""


def test_who_is_in_no_bridge_is_known_only_when_every_bridge_was_shown() -> None:
    assert the_port(NAMES, interface(bridge("en1", "en6"))).bridged is True
    assert the_port(NAMES, interface(bridge("en1"))).bridged is False
    assert the_port(NAMES, interface()).bridged is None  # there is a bridge0, and it was not shown
    unshown = replace(bridge(), members=None)
    assert the_port(NAMES, interface(unshown)).bridged is None
    no_bridge = (network.HARDWARE_PORTS, (network.HardwarePort("Thunderbolt 2", "en6"),))
    assert the_port(no_bridge, interface()).bridged is False


def test_a_port_over_which_its_mac_shares_its_internet_is_in_another_bridge_than_bridge0() -> None:
    shared = network.Interface("bridge100", True, ("192.168.2.1",), ("en6",))
    port = the_port(NAMES, interface(bridge("en1"), shared))
    assert (port.bridged, port.other_bridge) == (True, "bridge100")
    assert the_port(NAMES, interface(bridge("en6"))).other_bridge == ""


def test_an_adapter_in_the_bridge_is_told_from_ports_by_its_ethernet_cable() -> None:
    adapter = network.Interface("en20", True, (), ethernet=True)
    told = facts(NAMES, interface(bridge("en20", "en6"), adapter))
    assert told.bridged_ethernet == ("en20",)
    assert facts(NAMES, interface(bridge("en6"), adapter)).bridged_ethernet == ()
    unplugged = replace(adapter, active=False)
    assert facts(NAMES, interface(bridge("en20"), unplugged)).bridged_ethernet == ()


def test_a_port_has_the_service_that_is_on_and_none_only_where_all_services_are_known() -> None:
    service = network.Service("Cable to B", True, "Thunderbolt 2", "en6")
    assert the_port(NAMES, (network.SERVICES, (service,))).service == "Cable to B"
    assert the_port(NAMES, (network.SERVICES, (replace(service, enabled=False),))).service == ""
    assert the_port(NAMES).service is None


def test_an_interface_that_was_not_shown_has_no_known_address() -> None:
    assert the_port(NAMES, interface(bridge(), addresses=())).address == ""
    other = (network.INTERFACES, (network.Interface("en0", True, ("192.0.2.1",)),))
    assert (the_port(NAMES, other).address, the_port(NAMES, other).active) == (None, None)


def test_a_port_has_all_addresses_that_its_interface_has() -> None:
    two = the_port(NAMES, interface(addresses=("192.168.2.2", "10.77.0.5")))
    assert (two.address, two.other_addresses) == ("192.168.2.2", ("10.77.0.5",))
    assert two.addresses == ("192.168.2.2", "10.77.0.5")
    assert the_port(NAMES, interface(addresses=())).addresses == ()
    assert the_port(NAMES, interface(addresses=None)).address is None


# --- the machine -----------------------------------------------------------------------------------


def facts(*values: tuple[Probe[Any], Any], of: NodeReport = MAC) -> Any:
    return machine.facts(read(*values), of, Wired(), 0.0)


def test_a_verbs_tool_that_hangs_is_reported_whatever_the_other_says() -> None:
    hung = Unknown("it did not come back", hung=True)
    ports, none = (verbs.VERBS_PORTS, ()), (verbs.DEVICES, ())
    assert facts(ports, none).verbs_answer is True
    assert facts(ports, (verbs.DEVICES, hung)).verbs_answer is False
    assert facts((verbs.VERBS_PORTS, hung), none).verbs_answer is False
    assert facts((verbs.VERBS_PORTS, Unknown("there is no such tool"))).verbs_answer is None
    assert facts().verbs_answer is None


def test_domains_beside_a_rank_of_ours_are_not_said_to_be_somebody_elses() -> None:
    held, none = (
        (verbs.KERNEL_OBJECTS, verbs.KernelObjects(3)),
        (verbs.KERNEL_OBJECTS, verbs.KernelObjects(0)),
    )
    assert facts(held).protection_domains == 3
    assert facts(held, of=with_rank(Phase.EXITED)).protection_domains == 3
    assert facts(held, of=with_rank(Phase.READY)).protection_domains is None
    assert facts(none, of=with_rank(Phase.READY)).protection_domains == 0
    assert facts().protection_domains is None


def test_panics_are_counted_by_what_they_are_about_within_an_hour_and_over_rdma_within_a_day() -> None:
    new = (management.SYSTEM_REPORTS, management.Reports(("c.panic", "d.panic"), ()))
    of_day = (management.PANICS, management.Panics(rdma=("a.panic", "c.panic"), memory=("b.panic",)))
    found = facts(new, of_day)
    assert (found.panics, found.rdma_panics, found.rdma_panics_of_day, found.memory_panics) == (2, 1, 2, 0)
    assert (facts(new).rdma_panics, facts(new).rdma_panics_of_day, facts(of_day).rdma_panics) == (None,) * 3


def test_what_recovery_has_written_counts_where_the_tool_itself_does_not_tell() -> None:
    off, on, failed = (verbs.RDMA_SET, False), (verbs.RDMA_ENABLED, True), (verbs.RDMA_ENABLED, Unknown("no"))
    assert facts(on, off).rdma_enabled is True
    assert facts(failed, off).rdma_enabled is False
    assert facts(failed).rdma_enabled is None


def test_the_local_network_may_be_used_from_a_daemon_and_from_a_session_that_lasts() -> None:
    daemon = management.Job(True, daemon=True, running=True)
    assert facts((management.JOB, daemon)).launch_context is True
    assert facts((management.JOB, replace(daemon, running=False))).launch_context is None
    assert facts((management.JOB, replace(daemon, daemon=False))).launch_context is None
    held = {by: facts(of=replace(MAC, held_by=by)).launch_context for by in (HeldBy.LAUNCHD, HeldBy.SESSION)}
    assert held == {HeldBy.LAUNCHD: True, HeldBy.SESSION: True}
    assert facts(of=replace(MAC, held_by=HeldBy.LEFT)).launch_context is None


def test_a_bridge_comes_back_with_the_next_boot_where_its_service_is_enabled() -> None:
    service = network.Service("Thunderbolt Bridge", True, "Thunderbolt Bridge", "bridge0")
    assert facts((network.SERVICES, (service,))).bridge_service is True
    assert facts((network.SERVICES, (replace(service, enabled=False),))).bridge_service is False
    assert facts((network.SERVICES, Unknown("it printed nothing"))).bridge_service is None


def test_what_is_not_known_is_reported_with_its_reason() -> None:
    found = facts(
        (system.SYSTEM_VERSION, Unknown("it printed nothing")), (management.FILEVAULT, Unknown("it failed"))
    )
    assert found.unknown == (("FileVault", "it failed"), ("system version", "it printed nothing"))
    assert (found.version, found.filevault, found.boot_id) == ((), None, MAC.boot_id)


# --- wired memory ----------------------------------------------------------------------------------


def looks(*steps: tuple[float, int | None, NodeReport]) -> list[int | None]:
    """The excess after each look at so many wired GiB, at a time, with ranks or without."""
    wired, found = Wired(), []
    for now, gib, of in steps:
        seen = None if gib is None else gib * GIB
        wired = wired.next(seen, of, now)
        excess = wired.excess(seen, now)
        found.append(None if excess is None else excess // GIB)
    return found


BIG = replace(MAC, memory_bytes=512 * GIB)
BUSY = with_rank(Phase.READY, BIG)


def test_wired_memory_that_stays_after_the_ranks_is_in_excess_once_it_had_time_to_go() -> None:
    gone = 100 + SETTLE_SECONDS
    assert looks((0, 5, BIG), (100, 405, BUSY), (101, 405, BIG), (gone, 405, BIG), (gone + 1, 6, BIG)) == [
        0, None, None, 400, 1,
    ]  # fmt: skip


def test_of_a_machine_that_was_never_seen_at_rest_no_more_than_is_plausible_counts_as_its_own() -> None:
    assert looks((0, 470, BIG)) == [470 - 4 - 64]
    assert looks((0, 20, BIG), (10, 18, BIG), (20, 30, BIG)) == [0, 0, 12]


def holding(*gibs: int) -> NodeReport:
    """A machine with a rank for each number, which may hold so many GiB."""
    ranks = [replace(BUSY.ranks[0], memory_bytes=gib * GIB) for gib in gibs]
    return replace(BUSY, ranks=tuple(ranks))


@pytest.mark.parametrize(
    ("least", "wired", "of", "leaked"),
    [
        (5, 405, holding(200), 200),
        (5, 405, holding(200, 100), 100),
        (5, 205, holding(200), 0),
        (5, 150, holding(200), 0),
        (5, 405, holding(200, 0), None),
        (None, 405, holding(200), None),
        (5, None, holding(200), None),
        (5, 405, BIG, None),
        (
            5,
            405,
            replace(BUSY, ranks=(replace(with_rank(Phase.EXITED, BIG).ranks[0], memory_bytes=GIB),)),
            None,
        ),
    ],
)
def test_beside_ranks_what_none_of_them_may_hold_has_leaked(
    least: int | None, wired: int | None, of: NodeReport, leaked: int | None
) -> None:
    def bytes_of(gib: int | None) -> int | None:
        return None if gib is None else gib * GIB

    assert Wired(bytes_of(least)).beside_ranks(bytes_of(wired), of) == bytes_of(leaked)


def test_of_wired_memory_that_was_not_measured_nothing_is_said() -> None:
    assert looks((0, None, BIG), (10, 5, BUSY), (11, None, BIG)) == [None, None, None]
