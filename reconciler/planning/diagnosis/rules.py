"""The healing table: what each class of faults is answered with. The first row that sees something explains the
symptoms that later rows would see.

Which rows there are, and in which order, is that of the public reports on such clusters: what can be told from
outside first (machine, system, cable), then what a rank says, then what only its silence tells.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from reconciler.state import FaultClass

from . import detectors
from .detectors import Detection, Detector
from .evidence import Evidence


class Remedy(Enum):
    """What can be done about a fault, by what it costs."""

    WAIT = "wait until it is seen again"
    FORM = "form the group again"
    FORM_WITHOUT = "form the group without the machine"
    REPAIR = "repair the machine"
    LOWER_RUNG = "form the group on the next transport of its ladder"
    REBOOT = "restart the machine"
    REFUSE = "do not try it again unchanged"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    fault: FaultClass
    seen: Detector
    remedy: Remedy
    after: int = 0
    """After so many tries of ``remedy`` in a row comes ``then``."""
    then: Remedy | None = None
    """What comes when the remedy did not help; None where the budget of restarts ends it."""
    person: str = ""
    """The exact steps that only a person can take; empty where nobody is needed."""
    counted: bool = True
    """Whether forming again is charged to the budget of restarts."""

    @property
    def reboots(self) -> bool:
        """Whether the class may lead to a restart of a machine, where its Node allows that."""
        return Remedy.REBOOT in (self.remedy, self.then)

    def steps(self, sighting: Detection, deployment: str) -> str:
        """What a person must do, with the names in place."""
        node = ", ".join(sighting.nodes) or "each node"
        return self.person.format(
            node=node, port=sighting.port, peer=sighting.peer, deployment=deployment or "NAME"
        )


RECOVERY = (
    "on {node}: shut down; hold the power button until the startup options load; Options, Continue;"
    " Utilities, Terminal; type: rdma_ctl enable; restart. From macOS 27 on also: System Settings, Privacy &"
    " Security, Developer Tools, RDMA; restart"
)
ADDRESS = (
    "on {node}: sudo ifconfig bridge0 deletem {port}; sudo ifconfig {port} inet ADDRESS netmask 255.255.255.252,"
    " with an address of its own for each end of the cable; again after each restart"
)
RESTART = "on {node}: sudo shutdown -r now; with FileVault, unlock its disk at the screen afterwards"
REPLUG = "; where that does not help: unplug its Thunderbolt cables and its power for a minute"
SMALLER = "lower serving.context or serving.maxBatch of deployment/{deployment}, raise parallelism.nodes, or take weights with fewer bits"

TABLE: tuple[Row, ...] = (
    Row(
        FaultClass.HOST_UNREACHABLE, detectors.unreachable, Remedy.WAIT, 0, Remedy.FORM_WITHOUT,
        person="see that {node} has power and network; after a power cut, unlock its disk at the screen",
        counted=False,
    ),
    Row(
        FaultClass.UNSUPPORTED_PLATFORM, detectors.old_system, Remedy.LOWER_RUNG, counted=False,
        person="bring every node to the same macOS, 26.2 or newer: on {node}: System Settings, General, Software Update",
    ),
    Row(
        FaultClass.UNSUPPORTED_PLATFORM, detectors.old_runtime, Remedy.LOWER_RUNG, counted=False,
        person="install reconciler[runtime] into the Python of {node}; MLX has JACCL from 0.32.1 on",
    ),
    Row(
        FaultClass.UNSUPPORTED_PLATFORM, detectors.unequal, Remedy.REFUSE, counted=False,
        person="install equal versions of mlx and mlx-lm, and put equal weights, on all nodes of deployment/"
        "{deployment}; then: reconciler rollout restart deployment/{deployment}",
    ),
    Row(
        FaultClass.UNSUPPORTED_PLATFORM, detectors.slow_link, Remedy.LOWER_RUNG, counted=False,
        person="join {port} by a Thunderbolt 5 cable to a Thunderbolt 5 port, without a dock between",
    ),
    Row(
        FaultClass.RDMA_DISABLED, detectors.rdma_disabled, Remedy.LOWER_RUNG, counted=False, person=RECOVERY,
    ),
    Row(
        FaultClass.LINK_DOWN, detectors.link_down, Remedy.LOWER_RUNG, 1, Remedy.FORM_WITHOUT, counted=False,
        person="reseat the cable from {port} to {peer}, or replace it by another Thunderbolt 5 cable",
    ),
    Row(
        FaultClass.PORT_CONFIGURATION, detectors.port_configuration, Remedy.REPAIR, 0, Remedy.LOWER_RUNG, counted=False,
        person=ADDRESS,
    ),
    Row(FaultClass.RENDEZVOUS, detectors.rendezvous, Remedy.FORM, 3, Remedy.LOWER_RUNG),
    Row(FaultClass.QUEUE_PAIRS, detectors.queue_pairs, Remedy.FORM, 1, Remedy.LOWER_RUNG),
    Row(
        FaultClass.KERNEL_OBJECTS, detectors.kernel_objects, Remedy.FORM, 1, Remedy.REBOOT, person=RESTART + REPLUG,
    ),
    Row(FaultClass.RANK_CRASH, detectors.never_started, Remedy.FORM),
    Row(FaultClass.RANK_CRASH, detectors.crash, Remedy.FORM, 3, Remedy.LOWER_RUNG),
    Row(
        FaultClass.RANK_CRASH, detectors.refused, Remedy.REFUSE, counted=False,
        person="correct what the rank names; after a change that is in no manifest:"
        " reconciler rollout restart deployment/{deployment}",
    ),
    Row(FaultClass.SILENT_HANG, detectors.hang, Remedy.FORM, 3, Remedy.LOWER_RUNG),
    Row(
        FaultClass.GPU_FAULT, detectors.out_of_memory, Remedy.REFUSE, counted=False,
        person=SMALLER + "; where something else took the memory: end it, then: reconciler rollout restart"
        " deployment/{deployment}",
    ),
    Row(FaultClass.GPU_FAULT, detectors.gpu_fault, Remedy.FORM, 2, Remedy.REBOOT, person=RESTART),
    Row(
        FaultClass.WIRED_MEMORY, detectors.wired_memory, Remedy.FORM_WITHOUT, 0, Remedy.REBOOT, counted=False,
        person=RESTART,
    ),
    Row(
        FaultClass.REBOOT, detectors.panicking, Remedy.REFUSE, counted=False,
        person="keep the newest *.panic of /Library/Logs/DiagnosticReports on {node} and report it; "
        + SMALLER + "; then: reconciler rollout restart deployment/{deployment}",
    ),
    Row(FaultClass.REBOOT, detectors.rebooted, Remedy.FORM, counted=False),
    Row(
        FaultClass.VERBS_WEDGED, detectors.wedged, Remedy.LOWER_RUNG, 0, Remedy.REBOOT, counted=False,
        person=RESTART + REPLUG,
    ),
    Row(
        FaultClass.LAUNCH_CONTEXT, detectors.no_route, Remedy.FORM, 2, Remedy.FORM_WITHOUT,
        person="on {node}: System Settings, Privacy & Security, Local Network: allow Python; or start the agent"
        " as a system daemon (launchd, UserName)",
    ),
    Row(FaultClass.IDLE_DECAY, detectors.idle_decay, Remedy.FORM, counted=False),
    Row(FaultClass.WRONG_GROUP, detectors.wrong_group, Remedy.FORM, 2, Remedy.LOWER_RUNG),
    Row(FaultClass.SERVICE_WEDGED, detectors.no_completion, Remedy.FORM),
)  # fmt: skip


def diagnose(scene: Evidence, rows: Iterable[Row] = TABLE) -> tuple[Row, Detection] | None:
    """The first row that sees something, with what it sees; None where nothing is wrong."""
    for row in rows:
        sighting = row.seen(scene)
        if sighting is not None:
            return row, sighting
    return None


def every(scene: Evidence, rows: Iterable[Row]) -> list[tuple[Row, Detection]]:
    """What each row sees of a machine: its troubles do not explain each other."""
    return [(row, sighting) for row in rows if (sighting := row.seen(scene)) is not None]
