"""What is wrong with a machine beside the healing table: no group has met it yet, or serves all the same.

One row each, in the order of the classes. A fact that is not known shows nothing here: it is told among what is not
known. What the table and the conditions of nodes can see is not looked for a second time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reconciler.resources import Node
from reconciler.state import Contact, FaultClass, MachineFacts, NodeObservation
from reconciler.wire.node import HeldBy

GIB = 2**30
SWAP_BYTES_MAX = GIB
"""A little is written out in good times as well; machines with more have panicked under a model."""
DISK_FREE_BYTES_MIN = 10 * GIB
"""Of the disk with the user's folder: the system needs room for swap, logs and updates."""

Said = tuple[str, bool, str, str]
"""Type, status, reason and message of a condition."""


@dataclass(frozen=True, slots=True)
class Machine:
    """All that is seen of one machine."""

    seen: NodeObservation
    manifest: Node | None
    conditions: tuple[Said, ...] = ()
    rdma: bool = False
    """Whether RDMA is of any use there: a deployment would use it, or none says what is to be used."""
    declared: frozenset[int] = frozenset()
    """Receptacles whose cables a Fabric speaks of: what is wrong with those is told of the cable."""

    @property
    def facts(self) -> MachineFacts:
        return self.seen.facts

    def message(self, type_: str, status: bool = True, reasons: tuple[str, ...] = ()) -> str:
        """What a condition says that has this status, and one of the reasons where any are given."""
        for kind, value, reason, message in self.conditions:
            if kind == type_ and value is status and (not reasons or reason in reasons):
                return message or reason
        return ""


@dataclass(frozen=True, slots=True)
class Check:
    """One row."""

    fault: FaultClass
    seen: Callable[[Machine], str]
    """A sentence about ``{node}``; empty where there is nothing to say."""
    means: str
    steps: str
    """For a person; ``{node}`` is the machine's name."""


def _falls_asleep(machine: Machine) -> str:
    return "{node} falls asleep when nobody uses it" if machine.facts.sleeps else ""


def _locked_after_reboot(machine: Machine) -> str:
    repair = machine.manifest.spec.repair if machine.manifest else None
    if machine.facts.filevault and repair and repair.reboot and not repair.file_vault:
        return "FileVault is on at {node}, and spec.repair.reboot allows to restart it"
    return ""


def _other_system(machine: Machine) -> str:
    said = machine.message("ParityOk", status=False, reasons=("SystemDiffers",))
    return f"{{node}}: {_escaped(said)}" if said else ""


def _other_runtime(machine: Machine) -> str:
    said = machine.message("ParityOk", status=False, reasons=("RuntimeDiffers",))
    return f"{{node}}: {_escaped(said)}" if said else ""


def _no_runtime(machine: Machine) -> str:
    reasons = ("RuntimeUnavailable", "RuntimeIncomplete")
    said = machine.message("RuntimeReady", status=False, reasons=reasons) if _reached(machine) else ""
    return f"{{node}}: {_escaped(said)}" if said else ""


def _behind_dock(machine: Machine) -> str:
    for port in machine.facts.ports:
        told = port.receptacle in machine.declared
        if (
            machine.rdma
            and not told
            and port.connected
            and port.through
            and (port.peer_domain or port.peer_model)
        ):
            through, there = ", ".join(port.through), port.peer_model or "another machine"
            return (
                f"the cable at {{node}}/{port.receptacle} leads to {_escaped(f'{there} through {through}')}"
            )
    return ""


def _clock(machine: Machine) -> str:
    said = machine.message("ClockSkew")
    return f"{{node}}: {_escaped(said)}" if said else ""


def _strays(machine: Machine) -> str:
    count = machine.facts.stray_ranks or 0
    return f"{count} processes of ranks on {{node}} are looked after by nobody" if count > 0 else ""


def _disk(machine: Machine) -> str:
    said = machine.message("DiskPressure")
    if said:
        return f"{{node}}: {_escaped(said)}"
    free = machine.facts.disk_free_bytes
    if free is None or free >= DISK_FREE_BYTES_MIN:
        return ""
    return f"{free / GIB:.1f} GiB are free on the disk of {{node}}"


def _throttled(machine: Machine) -> str:
    return "{node} is slowed down for its heat" if machine.facts.throttled else ""


def _memory(machine: Machine) -> str:
    said = machine.message("MemoryPressure")
    return f"{{node}}: {_escaped(said)}" if said and machine.seen.contact is Contact.REACHED else ""


def _wired_limit(machine: Machine) -> str:
    limit = machine.manifest.spec.memory.limit if machine.manifest else None
    wired = machine.facts.wired_limit_bytes
    if not limit or not wired or wired >= limit:
        return ""
    return (
        f"the GPU of {{node}} may wire {wired / GIB:.0f} GiB, and ranks may use {limit / GIB:.0f} GiB there"
    )


def _panicked(machine: Machine) -> str:
    count = machine.facts.panics or 0
    reports = "report" if count == 1 else "reports"
    return f"{count} panic {reports} of the last hour on {{node}}" if count > 0 else ""


def _swaps(machine: Machine) -> str:
    used = machine.facts.swap_used_bytes or 0
    return f"{used / GIB:.1f} GiB of swap are in use on {{node}}" if used > SWAP_BYTES_MAX else ""


def _managed(machine: Machine) -> str:
    return "{node} is enrolled with an organisation (MDM)" if machine.facts.managed else ""


def _left_alone(machine: Machine) -> str:
    """Ranks of an SSH session that is over have been seen to lose the local network; of one that lasts, never."""
    report, far = machine.seen.report, machine.manifest is not None and machine.manifest.spec.ssh is not None
    if not far or report is None or report.system != "Darwin" or not _reached(machine):
        return ""
    return "the agent of {node} outlived its SSH session" if report.held_by == HeldBy.LEFT else ""


def _reached(machine: Machine) -> bool:
    return machine.seen.contact is Contact.REACHED


def _escaped(text: str) -> str:
    """A text from elsewhere that is to be formatted once more."""
    return text.replace("{", "{{").replace("}", "}}")


CHECKS: tuple[Check, ...] = (
    Check(
        FaultClass.HOST_UNREACHABLE, _falls_asleep,
        "nothing wakes a Mac over Thunderbolt: asleep it is as good as gone",
        "on {node}: sudo pmset -a sleep 0 disksleep 0",
    ),
    Check(
        FaultClass.HOST_UNREACHABLE, _locked_after_reboot,
        "it is never restarted to heal it: after a restart it would wait at its screen for a password",
        "on {node}: sudo fdesetup disable; or, where somebody unlocks it after every restart, set"
        " spec.repair.fileVault: true; or spec.repair.reboot: false",
    ),
    Check(
        FaultClass.UNSUPPORTED_PLATFORM, _other_system,
        "RDMA ports of different builds of macOS may not find each other, and ranks of one group need the same",
        "bring all nodes to the same macOS: on {node}: System Settings, General, Software Update",
    ),
    Check(
        FaultClass.UNSUPPORTED_PLATFORM, _other_runtime,
        "ranks of one group run one computation: with other versions they are kept apart",
        "install equal versions on all nodes, or leave spec.python out so that the runtime is built for them",
    ),
    Check(
        FaultClass.UNSUPPORTED_PLATFORM, _no_runtime,
        "no rank can be started there",
        "do what it says; see: reconciler describe node {node}",
    ),
    Check(
        FaultClass.UNSUPPORTED_PLATFORM, _behind_dock,
        "RDMA does not work through a dock or a hub, whatever the other machine is said to offer",
        "join the two machines by a Thunderbolt 5 cable of their own",
    ),
    Check(
        FaultClass.RENDEZVOUS, _clock,
        "nothing is decided by it, but the times in its logs mislead",
        "see that all machines set their clocks from the network: on {node}: System Settings, General, Date & Time",
    ),
    Check(
        FaultClass.KERNEL_OBJECTS, _strays,
        "they hold memory, ports and what the RDMA driver has to give, and belong to no group",
        "on {node}: pgrep -lf -P 1 'reconciler[.]runner' shows them; end them with kill, and with kill -9 where they"
        " are still there after ten seconds",
    ),
    Check(
        FaultClass.RANK_CRASH, _disk,
        "with a full disk no rank starts, and what it had to say is lost",
        "make room on {node}; see what the weights take: reconciler describe node {node}",
    ),
    Check(
        FaultClass.SILENT_HANG, _throttled,
        "the slowest rank sets the pace of its group, and may be taken for one that hangs",
        "see that air gets to {node} and that its fans run",
    ),
    Check(
        FaultClass.GPU_FAULT, _memory,
        "ranks there will be slow, or be refused memory by the GPU",
        "end what else runs on {node}, or reserve memory for it in spec.memory.reserve",
    ),
    Check(
        FaultClass.GPU_FAULT, _wired_limit,
        "a rank that needs more than the GPU may wire ends for lack of memory, at its first request or later",
        "lower spec.memory.limit of node/{node}; or on {node}: sudo sysctl iogpu.wired_limit_mb=MIB, again after each"
        " restart",
    ),
    Check(
        FaultClass.REBOOT, _panicked,
        "whatever ran there was lost with it; after a second panic a deployment is not tried there again unchanged",
        "keep the newest *.panic of /Library/Logs/DiagnosticReports on {node} and report it to Apple",
    ),
    Check(
        FaultClass.REBOOT, _swaps,
        "the machine is short of memory: ranks there are slow, and such machines have panicked",
        "end what else runs on {node}; where nothing does: sudo shutdown -r now",
    ),
    Check(
        FaultClass.REBOOT, _managed,
        "somebody else may install updates on it and restart it at any time",
        "ask who manages {node} to leave updates and restarts to you, or expect its groups to be formed elsewhere",
    ),
    Check(
        FaultClass.LAUNCH_CONTEXT, _left_alone,
        "macOS may keep its new ranks from the local network, and put their GPU work in the background",
        "reconciler node bootstrap {node}",
    ),
)  # fmt: skip
