"""The healing table: the remedies of each class of faults.

Two rules hold everywhere. The first row that detects something explains the end of a group, and with it the symptoms
that later rows would detect. A row's second remedy is taken when its condition holds, else the first. Only a row with
``forbids`` counts even if another row explains the end.

Rows and their order follow the public reports on such clusters: first signs that are visible from outside (machine,
system, cable), then those that a rank reports, then those that only its silence shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from reconciler.state import FaultClass, Sign

from . import detectors
from .detectors import Detector
from .evidence import Detection, Evidence

TRANSPORT_FORMS_MAX = 4
"""A group leaves its transport after it was formed on it this many times in a row because of faults, whatever their
classes."""


class Remedy(Enum):
    """Remedies for a fault, the cheapest first."""

    WAIT = "wait until it is seen again"
    FORM = "form the group again"
    FORM_WITHOUT = "form the group without the machine"
    REPAIR = "repair the machine"
    NEXT_TRANSPORT = "form the group on its next transport"
    REBOOT = "restart the machine"
    REFUSE = "do not try it again unchanged"


@dataclass(frozen=True, slots=True)
class History:
    """Earlier attempts against a fault, and the possible ones: the remedy of a row follows from this."""

    attempts: int = 0
    """Number of times in a row that the group was formed for this class."""
    transport_forms: int = 0
    """Number of times in a row that the group was formed on its transport because of a fault."""
    has_fallback: bool = True
    """True if the deployment has a transport after the group's."""
    facts_changed: bool = False
    """True if a fact that the group was formed under has changed, which may help: then the first remedy is tried
    again."""
    on_trial: bool = False
    """True if the group's transport failed before, and no group has answered over it since."""
    repaired: bool = False
    """True if a machine to blame is being repaired from here, or is about to be."""
    quarantined: bool = False
    """True if a machine to blame is quarantined."""


@dataclass(frozen=True, slots=True)
class Next:
    """The second remedy of a row, and when it is taken instead of the first."""

    remedy: Remedy
    when: str
    """The condition in words, as docs/faults.md has it."""
    holds: Callable[[History], bool]


def _without_machine(attempts: int) -> Next:
    return Next(Remedy.FORM_WITHOUT, f"after {attempts}", lambda past: past.attempts >= attempts)


def _reboot(attempts: int) -> Next:
    return Next(
        Remedy.REBOOT, f"after {attempts}", lambda past: past.attempts >= attempts and not past.facts_changed
    )


def _next_transport(attempts: int) -> Next:
    def holds(past: History) -> bool:
        often = past.attempts >= attempts or past.transport_forms >= TRANSPORT_FORMS_MAX or past.on_trial
        return often and past.has_fallback and not past.facts_changed

    return Next(Remedy.NEXT_TRANSPORT, f"after {attempts}", holds)


_WITHOUT_LOST = Next(Remedy.FORM_WITHOUT, "when the machine is lost", lambda past: past.quarantined)
_UNREPAIRED = Next(Remedy.NEXT_TRANSPORT, "when nothing is repaired", lambda past: not past.repaired)
_REFUSE_LAST = Next(Remedy.REFUSE, "when there is no next transport", lambda past: not past.has_fallback)
_REBOOT_IDLE = Next(Remedy.REBOOT, "when nothing runs on it", lambda past: False)
"""Never for a group: the machine is restarted for itself, once the group has left it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    fault: FaultClass
    seen: Detector
    remedy: Remedy
    then: Next | None = None
    """The remedy to take if the first did not help; None if only the back-off continues."""
    person: str = ""
    """The exact steps that only a person can take; empty if nobody is needed."""
    forbids: bool = False
    """True if a group is not formed again while this is detected, even if another row explains its end."""

    @property
    def reboots(self) -> bool:
        """Return whether the class may lead to a restart of a machine, if its Node allows that."""
        return self.then is not None and self.then.remedy is Remedy.REBOOT

    def remedy_now(self, history: History) -> Remedy:
        return self.then.remedy if self.then is not None and self.then.holds(history) else self.remedy

    def needs_person(self, now: Remedy) -> bool:
        """Return whether this remedy leaves something to a person; a fault that forming again may well heal does not."""
        return now is not self.remedy or now not in (Remedy.FORM, Remedy.WAIT, Remedy.REPAIR)

    def sign(self, detection: Detection) -> Sign:
        """Return the key of a detection, and of the steps against it: equal if both name the same things."""
        return self.seen.__name__, *detection.nodes, detection.port, detection.peer

    def steps(self, detection: Detection, deployment: str) -> str:
        """Return what a person must do, with the names in place."""
        return self.person.format(
            node=", ".join(detection.nodes),
            port=detection.port,
            peer=detection.peer,
            deployment=deployment or "NAME",
        )


@dataclass(frozen=True, slots=True)
class Explanation:
    """The row that explains the end of a group, what it has detected, and what is done now."""

    row: Row
    detection: Detection
    remedy: Remedy


RECOVERY = (
    "on {node}: shut down; hold the power button until the startup options load; Options, Continue;"
    " Utilities, Terminal; type: rdma_ctl enable; restart. From macOS 27 on also: System Settings, Privacy &"
    " Security, Developer Tools, RDMA; restart"
)
SHARING = (
    "on {node}: System Settings, General, Sharing: Internet Sharing off, or not to devices at {port}; if it is off: end"
    " virtual machines whose network is {port}"
)
ADDRESS = (
    "on {node}: sudo ifconfig bridge0 deletem {port}; sudo ifconfig {port} inet ADDRESS netmask 255.255.255.252,"
    " with an address of its own for each end of the cable; again after each restart"
)
RESTART = (
    "on {node}: sudo shutdown -r now; with FileVault, unlock its disk afterwards: at the screen, or from macOS 26 on with"
    " its user's password over ssh"
)
RESTART_HELD = (
    "on {node}: sudo shutdown -r now; it may take some minutes, and where it does not end at all: hold the power"
    " button until the machine is off. With FileVault, unlock its disk afterwards: at the screen, or from macOS 26"
    " on with its user's password over ssh"
)
NO_GID = (
    "nothing for some minutes, for macOS may publish it late, and then RDMA is used again by itself; where it stays"
    " away: on {node}: take the address of {port} away and give it again: sudo ifconfig {port} inet ADDRESS delete; sudo"
    " ifconfig {port} inet ADDRESS netmask MASK; see it with: ibv_devinfo -v"
)
GID_INDEX = (
    "on {node}: look for a network service of {port} with networksetup -listnetworkserviceorder; if there is one: sudo"
    " networksetup -setv6off SERVICE, for the port's IPv6 addresses come before its IPv4 address; then take the IPv4"
    " address away and give it again: sudo ifconfig {port} inet ADDRESS delete; sudo ifconfig {port} inet ADDRESS netmask"
    " MASK; see it with: ibv_devinfo -v"
)
OTHER_PORT = (
    "move the cable at {port} to another Thunderbolt port, because the one beside Ethernet of a Mac Studio has no RDMA; on"
    " another Mac, or where that does not help: reseat or replace the cable to {peer}"
)
GID_REFUSED = (
    "on {node}, and on the machines at the other ends of its cables: see the GIDs with: ibv_devinfo -v; where GID[1] of a"
    " cabled port is not ::ffff: and its IPv4 address, take that away and give it again: sudo ifconfig PORT inet ADDRESS"
    " delete; sudo ifconfig PORT inet ADDRESS netmask MASK"
)
DISK_LOCKED = "DiskLocked"
"""The reason why a Mac lets nobody in until a person types a password, after a restart with FileVault."""
NO_LOCAL_NETWORK = "LocalNetworkPrivacy"
"""The reason why no machine lets the controller in, for which its own machine is to blame."""
_EXEMPTION = (
    "; or, where neither is possible, exempt a network that you trust for all programs, and restart the machine: sudo"
    " defaults write com.apple.network.local-network AllowedEthernetLocalNetworkAddresses -array NETWORK/BITS"
)
"""Apple TN3179, from macOS 15.5 on."""
LOCAL_NETWORK = (
    "on the controller's machine: System Settings, Privacy & Security, Local Network: allow the application that"
    " runs the controller, which is its terminal, and start the controller again; or start it in Terminal.app"
    + _EXEMPTION
)
FIREWALL = (
    "on {node}, on a network that you trust: sudo /usr/libexec/ApplicationFirewall/socketfilterfw --setglobalstate"
    " off; or after each new runtime: the same tool with --unblockapp and the path of the ranks' python3"
)
REPLUG = "; where that does not help: unplug its Thunderbolt cables and its power for a minute"
WRONG = (
    "report the message with the versions of macOS and MLX at github.com/ml-explore/mlx; RDMA is tried again after an update"
    " of either on the nodes of deployment/{deployment}"
)
PANIC = "keep the newest *.panic of /Library/Logs/DiagnosticReports on {node} and report it"
SMALLER = "lower serving.context or serving.maxBatch of deployment/{deployment}, raise parallelism.nodes, or take weights with fewer bits"

TABLE: tuple[Row, ...] = (
    Row(
        FaultClass.HOST_UNREACHABLE, detectors.unreachable, Remedy.WAIT, _WITHOUT_LOST,
        person="see that {node} has power and network; after a power cut, unlock its disk: at the screen, or from macOS 26"
        " on with its user's password over ssh",
    ),
    Row(
        FaultClass.UNKILLABLE_RANK, detectors.unkillable, Remedy.FORM_WITHOUT, _REBOOT_IDLE,
        person=RESTART_HELD,
    ),
    Row(FaultClass.UNKILLABLE_RANK, detectors.ended_late, Remedy.FORM),
    Row(
        FaultClass.UNSUPPORTED_PLATFORM, detectors.old_system, Remedy.NEXT_TRANSPORT,
        person="bring every node to the same macOS, 26.2 or newer: on {node}: System Settings, General, Software Update",
    ),
    Row(
        FaultClass.UNSUPPORTED_PLATFORM, detectors.old_runtime, Remedy.NEXT_TRANSPORT,
        person="install mlx 0.32.4 into the Python of {node}; MLX has JACCL from 0.32.1 on",
    ),
    Row(
        FaultClass.UNSUPPORTED_PLATFORM, detectors.unequal, Remedy.REFUSE,
        person="install the same versions of mlx and mlx-lm, and put the same weights, on all nodes of deployment/"
        "{deployment}; then: reconciler rollout restart deployment/{deployment}",
    ),
    Row(
        FaultClass.UNSUPPORTED_PLATFORM, detectors.slow_link, Remedy.NEXT_TRANSPORT,
        person="join {port} by a Thunderbolt 5 cable to a Thunderbolt 5 port, without a dock between",
    ),
    Row(
        FaultClass.UNSUPPORTED_PLATFORM, detectors.no_thunderbolt5, Remedy.NEXT_TRANSPORT,
        person="nothing gives {node} RDMA: take the jaccl transports out of spec.transport of the deployments that use it,"
        " or keep them off it with spec.placement",
    ),
    Row(
        FaultClass.RDMA_DISABLED, detectors.rdma_disabled, Remedy.NEXT_TRANSPORT, person=RECOVERY,
    ),
    Row(
        FaultClass.LINK_DOWN, detectors.link_down, Remedy.NEXT_TRANSPORT, _without_machine(1),
        person="reseat the cable from {port} to {peer}, or replace it by another Thunderbolt 5 cable",
    ),
    Row(
        FaultClass.LINK_DOWN, detectors.rdma_port_down, Remedy.NEXT_TRANSPORT, _without_machine(1),
        person=OTHER_PORT,
    ),
    Row(
        FaultClass.REBOOT, detectors.rdma_panicking, Remedy.NEXT_TRANSPORT,
        person=f"{PANIC} to Apple; RDMA is used again once fewer than two of them are younger than a day",
    ),
    Row(FaultClass.PORT_CONFIGURATION, detectors.shared_port, Remedy.NEXT_TRANSPORT, person=SHARING),
    Row(
        FaultClass.PORT_CONFIGURATION, detectors.port_configuration, Remedy.REPAIR, _UNREPAIRED,
        person=ADDRESS,
    ),
    Row(
        FaultClass.PORT_CONFIGURATION, detectors.no_gid, Remedy.REPAIR, _UNREPAIRED,
        person=NO_GID,
    ),
    Row(
        FaultClass.PORT_CONFIGURATION, detectors.gid_index, Remedy.NEXT_TRANSPORT, person=GID_INDEX,
    ),
    Row(
        FaultClass.PORT_CONFIGURATION, detectors.gid_refused, Remedy.FORM, _next_transport(1), person=GID_REFUSED,
    ),
    Row(FaultClass.RENDEZVOUS, detectors.firewalled, Remedy.FORM_WITHOUT, person=FIREWALL),
    Row(FaultClass.RENDEZVOUS, detectors.rendezvous, Remedy.FORM, _next_transport(3)),
    Row(FaultClass.QUEUE_PAIRS, detectors.readdressed, Remedy.FORM, _reboot(1), person=RESTART),
    Row(FaultClass.QUEUE_PAIRS, detectors.queue_pairs, Remedy.FORM, _next_transport(1)),
    Row(
        FaultClass.KERNEL_OBJECTS, detectors.kernel_objects, Remedy.FORM, _reboot(1), person=RESTART + REPLUG,
    ),
    Row(FaultClass.RANK_CRASH, detectors.never_started, Remedy.FORM),
    Row(FaultClass.RANK_CRASH, detectors.crash, Remedy.FORM, _next_transport(3)),
    Row(
        FaultClass.RANK_CRASH, detectors.refused, Remedy.REFUSE,
        person="correct what the rank names; after a change that is in no manifest:"
        " reconciler rollout restart deployment/{deployment}",
    ),
    Row(FaultClass.SILENT_HANG, detectors.hang, Remedy.FORM, _next_transport(3)),
    Row(FaultClass.GPU_FAULT, detectors.out_of_memory_while_serving, Remedy.FORM),
    Row(
        FaultClass.GPU_FAULT, detectors.out_of_memory, Remedy.REFUSE,
        person=SMALLER + "; where something else took the memory: end it, then: reconciler rollout restart"
        " deployment/{deployment}",
    ),
    Row(
        FaultClass.GPU_FAULT, detectors.gpu_fault_after_restart, Remedy.FORM, _without_machine(2),
        person=f"a restart of {{node}} did not help: {SMALLER}; where small weights fail there too, have its hardware examined",
    ),
    Row(
        FaultClass.GPU_FAULT, detectors.gpu_fault, Remedy.FORM, _reboot(2),
        person=f"{RESTART}; where that does not help: {SMALLER}",
    ),
    Row(
        FaultClass.WIRED_MEMORY, detectors.wired_memory, Remedy.FORM_WITHOUT, _REBOOT_IDLE,
        person=RESTART,
    ),
    Row(
        FaultClass.REBOOT, detectors.panicking_over_memory, Remedy.REFUSE, forbids=True,
        person=f"{PANIC}; {SMALLER}; then: reconciler rollout restart deployment/{{deployment}}",
    ),
    Row(
        FaultClass.REBOOT, detectors.panicking, Remedy.REFUSE, forbids=True,
        person=f"{PANIC}; then: reconciler rollout restart deployment/{{deployment}}",
    ),
    Row(FaultClass.REBOOT, detectors.rebooted, Remedy.FORM),
    Row(
        FaultClass.VERBS_WEDGED, detectors.wedged, Remedy.NEXT_TRANSPORT, _REBOOT_IDLE,
        person=RESTART + REPLUG,
    ),
    Row(
        FaultClass.LAUNCH_CONTEXT, detectors.no_route_from_here, Remedy.FORM, _without_machine(2),
        person="on {node}, the controller's own machine: System Settings, Privacy & Security, Local Network: allow the"
        " application that runs the controller, which is its terminal, and Python; then start the controller again, or"
        " start it in Terminal.app" + _EXEMPTION,
    ),
    Row(
        FaultClass.LAUNCH_CONTEXT, detectors.no_route_elsewhere, Remedy.FORM, _without_machine(2),
        person="on {node}: System Settings, Privacy & Security, Local Network: allow Python; or start the agent as a system"
        " daemon (launchd, UserName): reconciler node bootstrap {node}",
    ),
    Row(FaultClass.IDLE_DECAY, detectors.idle_decay, Remedy.FORM),
    Row(FaultClass.WRONG_GROUP, detectors.wrong_group, Remedy.FORM, _next_transport(2)),
    Row(FaultClass.SERVICE_WEDGED, detectors.no_completion, Remedy.FORM),
    Row(FaultClass.WRONG_RESULTS, detectors.wrong_result, Remedy.NEXT_TRANSPORT, _REFUSE_LAST, person=WRONG),
)  # fmt: skip


def diagnose(evidence: Evidence, rows: Iterable[Row] = TABLE) -> tuple[Row, Detection] | None:
    """Return the first row that detects something, with what it detects; None if nothing is wrong."""
    for row in rows:
        detection = row.seen(evidence)
        if detection is not None:
            return row, detection
    return None


def explain(evidence: Evidence, history: Callable[[Row, Detection], History]) -> Explanation | None:
    """Explain the end of a group and choose its remedy; None if nothing is wrong.

    ``history`` returns the earlier attempts against the fault that a row has detected.
    """
    found = diagnose(evidence)
    if found is None:
        return None
    row, detection = found
    now = row.remedy_now(history(row, detection))
    against = None if now in (Remedy.WAIT, Remedy.REFUSE) else forbidding(evidence)
    return Explanation(*against, Remedy.REFUSE) if against else Explanation(row, detection, now)


def forbidding(evidence: Evidence) -> tuple[Row, Detection] | None:
    """Return the harm that a group has done to its machines, and that forbids forming it as it was; None without any."""
    return diagnose(evidence, (row for row in TABLE if row.forbids))


def every(evidence: Evidence, rows: Iterable[Row]) -> list[tuple[Row, Detection]]:
    """Return what each row detects on a machine, because its troubles do not explain each other."""
    return [(row, detection) for row in rows if (detection := row.seen(evidence)) is not None]
