"""The facts of one machine from its probes. Pure. Only this module assigns facts to probes.

======================  =========================================================================
fact                    probe
======================  =========================================================================
``version``             ``sw_vers``
``model``, ``chip``     ``sysctl``; so are ``wired_limit_bytes`` and ``swap_used_bytes``
``jaccl``               the interpreter of the ranks; so is ``working_set_bytes``
``rdma_enabled``        ``rdma_ctl status``, else ``nvram rdma-enable``
``ports``               ``system_profiler`` (receptacle, connected, domains, speed), ``networksetup``
                        (interface, service), ``ifconfig`` (active, bridged, addresses), ``ibv_devices`` and
                        ``ibv_devinfo`` (device, port up, speed, mapped GID and its index)
``ports_named``         ``networksetup`` beside ``system_profiler``
``verbs_answer``        whether ``ibv_devices`` and ``ibv_devinfo`` came back
``protection_domains``  ``ioclasscount``, while no rank of ours lives there
``wired_excess_bytes``  ``vm_stat``, by ``Wired``
``launch_context``      ``launchctl print``, and what holds the agent by its own report
``panics``, ``crashes`` ``find`` in the folders of reports; so are ``rdma_panics``, ``rdma_panics_of_day``
                        and ``memory_panics``
``filevault``           ``fdesetup status``
``sleeps``              ``pmset -g``; so are ``sleep_minutes``
``routes``              ``netstat -rn``; so is ``default_route``
``throttled``           ``powermetrics``; so are ``gpu_watts`` and ``gpu_use``
``managed``             ``profiles status``
``firewall``            ``socketfilterfw --getglobalstate``
``updates_itself``      ``defaults read``
``weights_indexed``     ``find``, by the file that keeps Spotlight away
``weights_backed_up``   ``tmutil isexcluded``
``bridge_service``      ``networksetup -listnetworkserviceorder``
``bridged_ethernet``    ``ifconfig``
``stray_ranks``         ``pgrep``
``disk_free_bytes``     ``df``
======================  =========================================================================
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from reconciler.state import MachineFacts, PortFacts
from reconciler.wire.launch import Phase
from reconciler.wire.node import HeldBy, NodeReport

from . import engine, management, network, power, system, thunderbolt, upkeep, verbs
from .table import Readings

SETTLE_SECONDS = 60.0
"""The longest time until the wired memory of a rank is released."""
_OWN_BYTES_MAX = 4 * 2**30
_OWN_SHARE_MAX = 8
"""Largest share of memory, as a divisor, and at most 4 GiB, that counts as the machine's own use if it was never
observed idle since it booted."""

OWN_BRIDGE = "bridge0"
"""The bridge that macOS makes of its Thunderbolt ports."""
_THUNDERBOLT = re.compile(r"Thunderbolt ([0-9]{1,2})")


@dataclass(frozen=True, slots=True)
class Wired:
    """The machine's own wired memory, from observations since it booted."""

    least_bytes: int | None = None
    """The least wired memory while no rank lived there."""
    ranks_at: float | None = None
    """The time when a rank was last seen alive; None if never."""

    def next(self, wired_bytes: int | None, report: NodeReport, now: float) -> Wired:
        """Return the value after another observation."""
        if any(rank.phase != Phase.EXITED for rank in report.ranks):
            return Wired(self.least_bytes, now)
        if wired_bytes is None or not self._settled(now):
            return self
        plausible = min(wired_bytes, _OWN_BYTES_MAX + report.memory_bytes // _OWN_SHARE_MAX)
        return Wired(min(plausible, self.least_bytes or plausible), self.ranks_at)

    def excess(self, wired_bytes: int | None, now: float) -> int | None:
        """Return the excess over its own use; None while ranks live there or their memory may still be being
        released."""
        if wired_bytes is None or self.least_bytes is None or not self._settled(now):
            return None
        return max(0, wired_bytes - self.least_bytes)

    def beside_ranks(self, wired_bytes: int | None, report: NodeReport) -> int | None:
        """Return what is more than its own use and all that its ranks may hold; None without ranks, and where that is
        not known."""
        held = [rank.memory_bytes for rank in report.ranks if rank.phase != Phase.EXITED]
        if wired_bytes is None or self.least_bytes is None or not held or not all(held):
            return None
        return max(0, wired_bytes - self.least_bytes - sum(held))

    def _settled(self, now: float) -> bool:
        return self.ranks_at is None or now - self.ranks_at >= SETTLE_SECONDS


def facts(readings: Readings, report: NodeReport, wired: Wired, now: float) -> MachineFacts:
    pages = readings.of(system.PAGES)
    wired_bytes = pages.wired_bytes if pages else None
    version, settings = readings.of(system.SYSTEM_VERSION), readings.of(system.SETTINGS) or system.Settings()
    power_of, power_set = readings.of(power.POWER) or power.Power(), readings.of(power.POWER_SETTINGS)
    enabled, enrolment = readings.of(verbs.RDMA_ENABLED), readings.of(management.ENROLMENT)
    panics, crashes = readings.of(management.SYSTEM_REPORTS), readings.of(management.USER_REPORTS)
    read, of_engine = readings.of(management.PANICS), readings.of(engine.ENGINE)
    found, routes = ports(readings), readings.of(network.ROUTES)
    listed = readings.of(network.HARDWARE_PORTS) and readings.of(thunderbolt.RECEPTACLES)
    disk, strays = readings.of(system.DISK), readings.of(management.RANK_PROCESSES)
    return MachineFacts(
        boot_id=report.boot_id,
        system=report.system,
        version=version.version if version else (),
        model=settings.model,
        chip=settings.chip,
        jaccl=of_engine.jaccl if of_engine else None,
        rdma_enabled=enabled if enabled is not None else readings.of(verbs.RDMA_SET),
        ports=found,
        ports_named=any(port.interface for port in found) if listed else None,
        verbs_answer=_verbs_answer(readings),
        protection_domains=_domains_of_others(readings, report),
        wired_excess_bytes=wired.excess(wired_bytes, now),
        wired_beside_ranks_bytes=wired.beside_ranks(wired_bytes, report),
        launch_context=_launch_context(readings.of(management.JOB), report),
        panics=len(panics.panics) if panics else None,
        crashes=len({*panics.crashes, *crashes.crashes}) if panics and crashes else None,
        memory_kills=management.of_memory(panics.crashes) if panics else None,
        rdma_panics=_count(panics, read.rdma) if read else None,
        rdma_panics_of_day=len(read.rdma) if read else None,
        memory_panics=_count(panics, read.memory) if read else None,
        filevault=readings.of(management.FILEVAULT),
        managed=enrolment.managed if enrolment else None,
        firewall=readings.of(upkeep.FIREWALL),
        updates_itself=readings.of(upkeep.UPDATES),
        weights_indexed=readings.of(upkeep.INDEX),
        weights_backed_up=readings.of(upkeep.BACKUP),
        sleeps=power_set.sleeps if power_set else None,
        sleep_minutes=_sleep_minutes(power_set),
        routes=routes.networks if routes else None,
        default_route=routes.default if routes else None,
        throttled=power_of.throttled,
        bridged_ethernet=_bridged_ethernet(readings),
        bridge_service=_bridge_service(readings.of(network.SERVICES)),
        wired_limit_bytes=settings.wired_limit_bytes,
        working_set_bytes=of_engine.working_set_bytes if of_engine else None,
        stray_ranks=len(strays) if strays is not None else None,
        booted_at=settings.booted_at,
        swap_used_bytes=settings.swap_used_bytes,
        disk_free_bytes=disk.free_bytes if disk else None,
        gpu_watts=None if power_of.gpu_milliwatts is None else power_of.gpu_milliwatts / 1000,
        gpu_use=None if power_of.gpu_busy_percent is None else power_of.gpu_busy_percent / 100,
        unknown=(*readings.unknown(), *(_unnamed(found) if listed else ())),
    )


def _count(new: management.Reports | None, names: Collection[str]) -> int | None:
    """Return how many of the new panic reports have one of these names."""
    return None if new is None else len({*new.panics} & {*names})


def _sleep_minutes(settings: power.PowerSettings | None) -> tuple[int, int] | None:
    if settings is None or settings.sleep_minutes is None or settings.disk_sleep_minutes is None:
        return None
    return settings.sleep_minutes, settings.disk_sleep_minutes


def _bridge_service(services: tuple[network.Service, ...] | None) -> bool | None:
    return None if services is None else any(s.enabled and s.interface.startswith("bridge") for s in services)


def _verbs_answer(readings: Readings) -> bool | None:
    if readings.hung(verbs.DEVICES) or readings.hung(verbs.VERBS_PORTS):
        return False
    return True if readings.of(verbs.VERBS_PORTS) is not None else None


def _domains_of_others(readings: Readings, report: NodeReport) -> int | None:
    """Return the number of protection domains that others hold. They have no owners, so it is unknown while a rank of
    ours runs."""
    held = readings.of(verbs.KERNEL_OBJECTS)
    if held is None or (held.protection_domains and any(r.phase != Phase.EXITED for r in report.ranks)):
        return None
    return held.protection_domains


def _launch_context(job: management.Job | None, report: NodeReport) -> bool | None:
    """Return whether ranks may use the local network. Daemons and SSH sessions, and their children, may (Apple TN3179).
    For processes of ended sessions, reports contradict each other."""
    is_daemon = report.held_by == HeldBy.LAUNCHD or (job is not None and job.daemon and job.running)
    return True if is_daemon or report.held_by == HeldBy.SESSION else None


def ports(readings: Readings) -> tuple[PortFacts, ...]:
    """Return the machine's Thunderbolt ports by receptacle, without the other ends, which need a view of all
    machines."""
    receptacles = {port.number: port for port in readings.of(thunderbolt.RECEPTACLES) or ()}
    interfaces = _interfaces(readings)
    return tuple(
        _port(readings, receptacles.get(number, thunderbolt.Receptacle(number)), interfaces.get(number, ""))
        for number in sorted(receptacles.keys() | interfaces.keys())
    )


def _interfaces(readings: Readings) -> dict[int, str]:
    """Return the interface of each receptacle that has a hardware port; empty if it is not the only port of this name
    or of this interface."""
    listed = readings.of(network.HARDWARE_PORTS) or ()
    names = Counter(port.name for port in listed)
    interfaces = Counter(port.interface for port in listed)
    return {
        int(found[1]): port.interface if names[port.name] == interfaces[port.interface] == 1 else ""
        for port in listed
        if (found := _THUNDERBOLT.fullmatch(port.name))
    }


def _unnamed(found: tuple[PortFacts, ...]) -> Iterator[tuple[str, str]]:
    """Yield why some receptacles have no interface, although all hardware ports are known."""
    names = ", ".join(f"Thunderbolt {port.receptacle}" for port in found if not port.interface)
    if names:
        yield network.HARDWARE_PORTS.name, f"no port, or not only one, is called {names}"


def _port(readings: Readings, receptacle: thunderbolt.Receptacle, interface: str) -> PortFacts:
    seen = next((each for each in readings.of(network.INTERFACES) or () if each.name == interface), None)
    addresses = seen.addresses if seen else None
    device = f"rdma_{interface}" if interface and _has_device(readings, f"rdma_{interface}") else ""
    verbs_port = next((each for each in readings.of(verbs.VERBS_PORTS) or () if each.device == device), None)
    return PortFacts(
        receptacle.number,
        interface,
        device,
        connected=receptacle.connected,
        gbps=_gbps(receptacle, verbs_port),
        active=seen.active if seen else None,
        verbs_up=verbs_port.up if verbs_port else None,
        bridged=_bridged(readings, interface) if seen else None,
        other_bridge=_other_bridge(readings, interface),
        service=_service(readings.of(network.SERVICES), interface),
        address=next(iter(addresses), "") if addresses is not None else None,
        other_addresses=(addresses or ())[1:],
        mapped_gid=verbs_port.mapped_gid if verbs_port else None,
        gid_index=verbs_port.mapped_index if verbs_port else None,
        domain=receptacle.domain,
        peer_domain=receptacle.peer.domain if receptacle.peer else "",
        through=receptacle.through,
        peer_model=receptacle.peer.model if receptacle.peer else "",
        ceiling_gbps=receptacle.ceiling_gbps,
    )


def _gbps(receptacle: thunderbolt.Receptacle, port: verbs.VerbsPort | None) -> int | None:
    """Return the lower of the speeds that macOS and the RDMA driver report of a cable."""
    found = (receptacle.gbps, port.gbps if port and receptacle.connected else None)
    return min((speed for speed in found if speed is not None), default=None)


def _has_device(readings: Readings, device: str) -> bool:
    """Return whether a port may have a device: unless a tool lists the devices, the name of its interface gives it
    one."""
    listed, reported = readings.of(verbs.DEVICES), readings.of(verbs.VERBS_PORTS)
    if listed is None and reported is None:
        return True
    return device in {each.name for each in listed or ()} | {each.device for each in reported or ()}


def _service(services: tuple[network.Service, ...] | None, interface: str) -> str | None:
    """Return the enabled service of an interface; empty if it has none."""
    if services is None or not interface:
        return None
    return next((each.name for each in services if each.enabled and each.interface == interface), "")


def _bridges(readings: Readings) -> list[network.Interface]:
    return [each for each in readings.of(network.INTERFACES) or () if each.name.startswith("bridge")]


def _other_bridge(readings: Readings, interface: str) -> str:
    found = (bridge.name for bridge in _bridges(readings) if interface in (bridge.members or ()))
    return next((name for name in found if name != OWN_BRIDGE), "")


def _bridged_ethernet(readings: Readings) -> tuple[str, ...]:
    members = {
        name for bridge in _bridges(readings) if bridge.name == OWN_BRIDGE for name in bridge.members or ()
    }
    interfaces = readings.of(network.INTERFACES) or ()
    return tuple(each.name for each in interfaces if each.name in members and each.ethernet and each.active)


def _bridged(readings: Readings, interface: str) -> bool | None:
    """Return whether an interface is in a bridge: False only if all bridges are known and none has it."""
    bridges = _bridges(readings)
    if any(interface in (bridge.members or ()) for bridge in bridges):
        return True
    named: Collection[str] = {port.interface for port in readings.of(network.HARDWARE_PORTS) or ()}
    missed = {name for name in named if name.startswith("bridge")} - {bridge.name for bridge in bridges}
    return None if missed or any(bridge.members is None for bridge in bridges) else False
