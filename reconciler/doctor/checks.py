"""Checks of machines beyond the healing table: problems that no group has met yet, or that do not stop it.

One row each, in the order of the classes. An unknown fact gives no finding here: ``unknowns`` lists it. Nothing that the
table or a node's conditions detect is checked a second time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reconciler.planning.diagnosis.detectors import RDMA_PANICS_MAX, WIRED_EXCESS_BYTES
from reconciler.planning.nodes.settings import ForeignAddress, remove
from reconciler.resources import Node
from reconciler.state import Contact, FaultClass, MachineFacts, NodeName, NodeObservation
from reconciler.status.snapshots import ConditionState
from reconciler.wire.node import HeldBy

GIB = 2**30
SWAP_BYTES_MAX = GIB
"""A little swap is normal; machines with more have panicked under a model."""
DISK_FREE_BYTES_MIN = 10 * GIB
"""Free bytes that the disk with the user's folder needs for swap, logs and updates."""

FILEVAULT_OFF = "on {node}: sudo fdesetup disable"


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything observed of one machine."""

    seen: NodeObservation
    manifest: Node | None
    conditions: tuple[ConditionState, ...] = ()
    rdma: bool = False
    """True if a deployment would use RDMA there, or if no deployment chooses transports."""
    declared: frozenset[int] = frozenset()
    """Receptacles with declared cables; their problems are reported for the cable."""
    foreign: tuple[ForeignAddress, ...] = ()

    @property
    def name(self) -> NodeName:
        return self.seen.name

    @property
    def facts(self) -> MachineFacts:
        return self.seen.facts

    @property
    def unexplained(self) -> ForeignAddress | None:
        """Return the first of its foreign addresses over whose port its default route does not go."""
        return next((each for each in self.foreign if each.port.interface != self.facts.default_route), None)

    @property
    def removal(self) -> str:
        """Return the command that removes that address; empty without one."""
        found = self.unexplained
        return f"sudo {' '.join(remove(found.port, found.address))}" if found else ""

    def message(self, type_: str, status: bool = True, reasons: tuple[str, ...] = ()) -> str:
        """Return the message of a condition with this status, and with one of ``reasons`` if given; else empty."""
        for each in self.conditions:
            if each.type == type_ and each.status is status and (not reasons or each.reason in reasons):
                return each.message or each.reason
        return ""


@dataclass(frozen=True, slots=True)
class Check:
    """One row."""

    fault: FaultClass
    seen: Callable[[Machine], str]
    """A sentence; empty without a finding."""
    means: str
    steps: str
    """Steps for a person; ``{node}`` is the machine's name, ``{python}`` the interpreter of its ranks, ``{removal}`` as
    above."""


def falls_asleep(machine: Machine) -> str:
    return f"{machine.name} falls asleep when nobody uses it" if machine.facts.sleeps else ""


def _locked_after_reboot(machine: Machine) -> str:
    repair = machine.manifest.spec.repair if machine.manifest else None
    if machine.facts.filevault and repair and repair.reboot and not repair.file_vault:
        return f"FileVault is on at {machine.name}, although spec.repair.reboot allows restarts"
    return ""


def _condition(
    type_: str, status: bool = True, reasons: tuple[str, ...] = (), while_reached: bool = False
) -> Callable[[Machine], str]:
    """Return a check for a condition; ``while_reached``: only of a machine that answers."""

    def seen(machine: Machine) -> str:
        asked = not while_reached or _reached(machine)
        message = machine.message(type_, status, reasons) if asked else ""
        return f"{machine.name}: {message}" if message else ""

    return seen


def behind_dock(machine: Machine) -> str:
    for port in machine.facts.ports:
        declared = port.receptacle in machine.declared
        if (
            machine.rdma
            and not declared
            and not port.peer
            and port.connected
            and port.through
            and (port.peer_domain or port.peer_model)
        ):
            through, there = ", ".join(port.through), port.peer_model or "another machine"
            return f"the cable at {machine.name}/{port.receptacle} leads to {there} through {through}"
    return ""


def _shared_internet(machine: Machine) -> str:
    route = machine.facts.default_route
    over = [
        port
        for port in machine.facts.ports
        if port.connected
        and route
        and (port.interface == route or (port.bridged and route.startswith("bridge")))
    ]
    if not over:
        return ""
    there = sorted({port.peer[0] if port.peer else port.peer_model or "another machine" for port in over})
    return f"the default route of {machine.name} goes over a cable: {' or '.join(there)} shares its internet"


def _foreign_address(machine: Machine) -> str:
    """Find an address beside those that its Fabric and macOS give, unless a shared connection explains it."""
    if machine.unexplained is None:
        return ""
    port, address, other = machine.unexplained
    return f"{port.interface} of {machine.name} has the address {address} from somebody else; its cable leads to {other}"


def _unnamed_ports(machine: Machine) -> str:
    facts = machine.facts
    if facts.ports_named is not False:
        return ""
    names = ", ".join(f"'Thunderbolt {port.receptacle}'" for port in facts.ports)
    return f"{machine.name} has Thunderbolt receptacles, and macOS lists no port of their names: {names}"


def _strays(machine: Machine) -> str:
    count = machine.facts.stray_ranks or 0
    return f"{count} processes of ranks on {machine.name} belong to no agent" if count > 0 else ""


def disk_full(machine: Machine) -> str:
    told = _condition("DiskPressure")(machine)
    if told:
        return told
    free = machine.facts.disk_free_bytes
    if free is None or free >= DISK_FREE_BYTES_MIN:
        return ""
    return f"{free / GIB:.1f} GiB are free on the disk of {machine.name}"


def _throttled(machine: Machine) -> str:
    return f"{machine.name} is throttled by heat" if machine.facts.throttled else ""


def _wired_limit(machine: Machine) -> str:
    limit = machine.manifest.spec.memory.limit if machine.manifest else None
    wired = machine.facts.gpu_bytes
    if not limit or not wired or wired >= limit:
        return ""
    return f"the GPU of {machine.name} may wire {wired / GIB:.0f} GiB, less than its spec.memory.limit: {limit / GIB:.0f} GiB"


def _leaked(machine: Machine) -> str:
    leaked = machine.facts.wired_beside_ranks_bytes or 0
    if leaked <= WIRED_EXCESS_BYTES:
        return ""
    return f"at least {leaked / GIB:.0f} GiB of wired memory on {machine.name} belong to no process, beside all that its ranks may hold"


def _panicked(machine: Machine) -> str:
    count = (machine.facts.panics or 0) - (machine.facts.rdma_panics or 0)
    reports = "report" if count == 1 else "reports"
    return f"{count} panic {reports} of the last hour on {machine.name}" if count > 0 else ""


def _panicked_over_rdma(machine: Machine) -> str:
    """Find a first such panic; the healing table detects more."""
    count = machine.facts.rdma_panics_of_day or 0
    few = 0 < count < RDMA_PANICS_MAX
    return f"{count} panic of the last day on {machine.name} is of the driver of RDMA" if few else ""


def _swaps(machine: Machine) -> str:
    used = machine.facts.swap_used_bytes or 0
    return f"{used / GIB:.1f} GiB of swap are in use on {machine.name}" if used > SWAP_BYTES_MAX else ""


def managed(machine: Machine) -> str:
    return f"{machine.name} is enrolled with an organisation (MDM)" if machine.facts.managed else ""


def firewall(machine: Machine) -> str:
    return f"the application firewall of {machine.name} is on" if machine.facts.firewall else ""


def updates_itself(machine: Machine) -> str:
    return f"{machine.name} installs updates of macOS by itself" if machine.facts.updates_itself else ""


def _weights_read(machine: Machine) -> str:
    readers = [
        name
        for name, reads in (
            ("Spotlight", machine.facts.weights_indexed),
            ("Time Machine", machine.facts.weights_backed_up),
        )
        if reads
    ]
    return f"{' and '.join(readers)} may read the weights on {machine.name}" if readers else ""


def _left_alone(machine: Machine) -> str:
    """Find agents of ended SSH sessions: their ranks have lost the local network, unlike those of lasting sessions."""
    report, far = machine.seen.report, machine.manifest is not None and machine.manifest.spec.ssh is not None
    if not far or report is None or report.system != "Darwin" or not _reached(machine):
        return ""
    return f"the agent of {machine.name} outlived its SSH session" if report.held_by == HeldBy.LEFT else ""


def _reached(machine: Machine) -> bool:
    return machine.seen.contact is Contact.REACHED


CHECKS: tuple[Check, ...] = (
    Check(
        FaultClass.HOST_UNREACHABLE, falls_asleep,
        "a sleeping Mac cannot be woken over Thunderbolt, so its groups lose it",
        "on {node}: sudo pmset -a sleep 0 disksleep 0",
    ),
    Check(
        FaultClass.HOST_UNREACHABLE, _locked_after_reboot,
        "it is never restarted as a repair, because it would then wait at its screen for a password",
        f"{FILEVAULT_OFF}; or, if somebody unlocks it after every restart, set spec.repair.fileVault: true; or"
        " spec.repair.reboot: false",
    ),
    Check(
        FaultClass.UNSUPPORTED_PLATFORM, _condition("ParityOk", status=False, reasons=("SystemDiffers",)),
        "RDMA between different builds of macOS may fail, and the ranks of a group need the same build",
        "update all nodes to the same macOS: on {node}: System Settings, General, Software Update",
    ),
    Check(
        FaultClass.UNSUPPORTED_PLATFORM, updates_itself,
        "it restarts alone, at night, with another build than the others, and its groups lose it",
        "set spec.repair.updates of node/{node}, or on {node}: sudo defaults write"
        " /Library/Preferences/com.apple.SoftwareUpdate AutomaticallyInstallMacOSUpdates -bool false; update all nodes"
        " together instead",
    ),
    Check(
        FaultClass.UNSUPPORTED_PLATFORM, _condition("ParityOk", status=False, reasons=("RuntimeDiffers",)),
        "the ranks of a group run one computation, so nodes with different versions are not combined",
        "install equal versions on all nodes, or omit spec.python so that the runtime is built for them",
    ),
    Check(
        FaultClass.UNSUPPORTED_PLATFORM,
        _condition(
            "RuntimeReady", status=False, reasons=("RuntimeUnavailable", "RuntimeIncomplete"), while_reached=True
        ),
        "no rank can be started there",
        "follow the message; see: reconciler describe node {node}",
    ),
    Check(
        FaultClass.UNSUPPORTED_PLATFORM, behind_dock,
        "RDMA through a dock or a hub is not tested, and groups use no cable of it",
        "join the two machines by a Thunderbolt 5 cable of their own; or, with 80 Gb/s at both ends, declare the link in a"
        " Fabric, in spec.links and in spec.allowUntested",
    ),
    Check(
        FaultClass.PORT_CONFIGURATION, _shared_internet,
        "all that it sends to the internet takes the cable, and nothing arrives without the other Mac",
        "switch off Internet Sharing there: System Settings, General, Sharing",
    ),
    Check(
        FaultClass.PORT_CONFIGURATION, _foreign_address,
        "the address may take the place of the one by which groups use the cable",
        "on {node}: {removal}; if it comes back, switch off Internet Sharing on the Mac at"
        " the other end: System Settings, General, Sharing",
    ),
    Check(
        FaultClass.PORT_CONFIGURATION, _unnamed_ports,
        "its cables are not used: only these names tell which interface belongs to a receptacle",
        "on {node}: see the names with networksetup -listallhardwareports; where they are in another language: System"
        " Settings, General, Language & Region, put English first; restart",
    ),
    Check(
        FaultClass.RENDEZVOUS, _condition("ClockSkew"),
        "no decision depends on it, but the times in its logs mislead",
        "let all machines set their clocks from the network: on {node}: System Settings, General, Date & Time",
    ),
    Check(
        FaultClass.RENDEZVOUS, firewall,
        "it may refuse connections to ranks: their Python is at a new path with each runtime, and nobody is asked",
        "on {node}, on a network that you trust: sudo /usr/libexec/ApplicationFirewall/socketfilterfw --setglobalstate"
        " off; or after each new runtime: P=$(readlink -f {python}); for WORD in --add --unblockapp; do sudo"
        " /usr/libexec/ApplicationFirewall/socketfilterfw $WORD \"$P\"; done",
    ),
    Check(
        FaultClass.KERNEL_OBJECTS, _strays,
        "they hold memory, ports and RDMA resources, and belong to no group",
        "on {node}: list them with pgrep -lf -P 1 'reconciler[.]runner'; end them with kill, and with kill -9 if they"
        " still run after ten seconds",
    ),
    Check(
        FaultClass.RANK_CRASH, disk_full,
        "with a full disk no rank starts, and logs are lost",
        "free disk space on {node}; see the size of its weights with: reconciler describe node {node}",
    ),
    Check(
        FaultClass.RANK_CRASH, _weights_read,
        "hundreds of gigabytes are read and copied for nothing, beside ranks that load",
        "set spec.repair.weights of node/{node}, or on {node}: touch ~/.reconciler/models/.metadata_never_index; tmutil"
        " addexclusion ~/.reconciler/models",
    ),
    Check(
        FaultClass.SILENT_HANG, _throttled,
        "the slowest rank sets the pace of its group, and may look like a hanging one",
        "check the air flow and the fans of {node}",
    ),
    Check(
        FaultClass.GPU_FAULT, _condition("MemoryPressure", while_reached=True),
        "ranks there may be slow, or fail to allocate GPU memory",
        "stop other programs on {node}, or reserve memory for them in spec.memory.reserve",
    ),
    Check(
        FaultClass.GPU_FAULT, _wired_limit,
        "ranks there are given no more than the GPU may wire: one that needed more would end when it loads, or later",
        "set spec.repair.wiredLimit of node/{node}, or lower its spec.memory.limit; or on {node}: sudo sysctl"
        " iogpu.wired_limit_mb=MIB, again after each restart",
    ),
    Check(
        FaultClass.WIRED_MEMORY, _leaked,
        "leaked memory is lost until the machine restarts; what runs there goes on",
        "at a quiet moment, which moves its groups away first: reconciler reboot {node}",
    ),
    Check(
        FaultClass.REBOOT, _panicked,
        "a panic ends all ranks there; after a second one, an unchanged deployment is not tried there again",
        "keep the newest *.panic in /Library/Logs/DiagnosticReports on {node}, and report it to Apple",
    ),
    Check(
        FaultClass.REBOOT, _panicked_over_rdma,
        "a panic ends all ranks there; after a second one within a day, groups there use no RDMA",
        "keep the newest *.panic in /Library/Logs/DiagnosticReports on {node}, and report it to Apple",
    ),
    Check(
        FaultClass.REBOOT, _swaps,
        "the machine is short of memory: its ranks are slow, and it may panic",
        "stop other programs on {node}; if there are none: sudo shutdown -r now",
    ),
    Check(
        FaultClass.REBOOT, managed,
        "the organisation may install updates on it and restart it at any time",
        "ask the organisation to leave updates and restarts of {node} to you, or expect its groups to move",
    ),
    Check(
        FaultClass.LAUNCH_CONTEXT, _left_alone,
        "macOS may block its new ranks from the local network, and run their GPU work in the background",
        "reconciler node bootstrap {node}",
    ),
)  # fmt: skip
