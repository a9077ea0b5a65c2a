"""The conditions of a node: faults of its machine, and the steps to take.

Each follows from the newest observation alone: equal observations give equal conditions.
"""

from __future__ import annotations

from functools import partial

from reconciler.state import (
    Contact,
    Desired,
    NodeName,
    NodeObservation,
    ObjectKey,
    RefusedBecause,
    WaitingFor,
)
from reconciler.wire import objects
from reconciler.wire.engines import MLX
from reconciler.wire.node import HeldBy, NodeReport

from . import machine, weights
from .by_object import ByObject
from .snapshots import ConditionState, Readiness, Snapshots

MEMORY_FREE_LEAST = 0.05
"""Fraction of the machine's memory that must be free. With less, the system is about to swap, which slows ranks; macOS
then reports memory pressure itself."""
SKEW_SECONDS_MAX = 2.0
"""No decision uses a node's clock, but with a larger skew the times in its logs mislead people."""
_GIB = 2**30


def readiness(name: str, snapshots: Snapshots) -> Readiness:
    seen = snapshots.observed.nodes.get(NodeName(name))
    if seen is None or seen.report is None:
        text = seen.problem if seen and seen.problem else "no answer from its agent yet"
        return Readiness(False, "AgentNotReached", text, objects.NodeFields(agent="unknown", ranks=0))
    report = seen.report
    reached = seen.contact is Contact.REACHED
    extra: objects.NodeFields = {
        "agent": seen.contact.value,
        "ranks": sum(rank.exit is None for rank in report.ranks),
        "memoryBytes": report.memory_bytes,
        "cpus": report.cpus,
        "system": f"{report.system} {report.release} {report.machine}"
        + (", emulated" if report.emulated else ""),
        "runtime": dict(report.runtime or {}),
        "bootId": report.boot_id,
    }
    if mac := machine.as_json(seen.facts):
        extra["mac"] = mac
    if not reached and snapshots.desired.stopping:
        return Readiness(False, "Stopped", "its agent was stopped with the cluster", extra)
    if seen.contact is Contact.UNREACHABLE:
        return Readiness(False, "NodeUnreachable", seen.problem or "it does not answer", extra)
    if not reached:
        return Readiness(False, "AgentDown", seen.problem or "its agent does not answer", extra)
    return Readiness(True, "AgentReached", "its agent answers", extra)


def conditions(
    name: NodeName,
    desired: Desired,
    seen: NodeObservation | None,
    planned: ByObject,
    parity: ConditionState,
) -> tuple[ConditionState, ...]:
    """Return all conditions, in the order to read them: each matters only if those before it are fine. ``parity`` shows
    whether the node matches most others. All parts of ``planned`` that are read here are listed in its ``of_node``."""
    report = seen.report if seen else None
    return (
        _reachable(seen),
        _agent_ready(name, seen, desired),
        _runtime_ready(name, report, planned),
        _network_ready(name, seen, planned),
        _memory_pressure(report),
        weights.disk_pressure(report),
        _clock_skew(seen),
        parity,
        _quarantined(name, planned),
    )


def _reachable(seen: NodeObservation | None) -> ConditionState:
    state = partial(ConditionState, "Reachable")
    if seen is None or seen.contact is Contact.UNKNOWN:
        return state(False, "NotTriedYet", "it has not been contacted since the controller started")
    if seen.contact is Contact.UNREACHABLE:
        return state(False, seen.barred or "NoAnswer", seen.problem or "it does not answer")
    return state(True, "Answers", "")


def _agent_ready(name: NodeName, seen: NodeObservation | None, desired: Desired) -> ConditionState:
    state = partial(ConditionState, "AgentReady")
    if seen is not None and seen.contact is Contact.REACHED:
        node = desired.nodes.get(name)
        far = node is not None and node.spec.ssh is not None
        costs = _costs_of_holder(seen.report, name) if far and seen.report else ""
        return state(True, "NotKeptRunning" if costs else "Serving", costs)
    if seen is not None and seen.contact is Contact.AGENT_DOWN:
        text = seen.problem or "its agent does not answer; the agent is being restarted"
        return state(False, "NotServing", text)
    return state(False, "NotSeen", "its machine does not answer")


def _costs_of_holder(report: NodeReport, name: NodeName) -> str:
    """Return the drawbacks of an agent without a service of the machine; empty if there is one."""
    if report.held_by not in (HeldBy.SESSION, HeldBy.LEFT, HeldBy.PROCESS):
        return ""
    boots = "after a restart of the machine, it runs again only once the controller has logged in"
    if report.system == "Darwin" or report.held_by != HeldBy.PROCESS:
        boots = (
            "it depends on the controller's SSH session: without that, macOS may block new ranks from the local"
            f" network, and run their GPU work in the background; {boots}"
        )
    return f"{boots}: reconciler node bootstrap {name}"


def _runtime_ready(name: NodeName, report: NodeReport | None, planned: ByObject) -> ConditionState:
    """Return the condition. A node may serve with one runtime while the next is being built."""
    key = ObjectKey("Node", name)
    failed = planned.refusals.get((key, RefusedBecause.RUNTIME_UNAVAILABLE), "")
    building = planned.waits.get((key, WaitingFor.RUNTIME), "")
    lacking, state = MLX.lacking(report.runtime if report else None), partial(ConditionState, "RuntimeReady")
    if not lacking:
        assert report is not None
        return state(True, "RuntimeFound", "; ".join(filter(None, (_versions(report), failed or building))))
    if failed or building:
        return state(False, "RuntimeUnavailable" if failed else "RuntimeBuilding", failed or building)
    if report is None or report.runtime is None:
        return state(False, "NotLookedFor", "its Python has not been checked for mlx yet")
    text = f"{report.python} has no {' and no '.join(lacking)}: install it there, or set another interpreter in spec.python"
    return state(False, "RuntimeIncomplete", text)


def _network_ready(name: NodeName, seen: NodeObservation | None, planned: ByObject) -> ConditionState:
    """Return whether the node's Thunderbolt ports are configured for the links of a Fabric."""
    key = ObjectKey("Node", name)
    trouble, step = planned.ports.get(key), planned.repairs.get(name)
    repair = planned.waits.get((key, WaitingFor.REPAIR), "") or (str(step) if step else "")
    if repair:
        return ConditionState("NetworkReady", False, "Repairing", repair)
    if trouble is not None:
        text = trouble.seen if trouble.person else f"{trouble.seen}: {trouble.doing}"
        return ConditionState("NetworkReady", False, trouble.fault.reason, text, trouble.person)
    ends = planned.ends.get(name, ())
    if not ends:
        return ConditionState("NetworkReady", True, "NothingDeclared", "")
    ports = {port.receptacle: port for port in seen.facts.ports} if seen else {}
    unknown = [str(end) for end in ends if (p := ports.get(end.receptacle)) is None or p.address is None]
    if unknown:
        text = f"the state of {', '.join(unknown)} is unknown"
        return ConditionState("NetworkReady", False, "NotKnown", text)
    return ConditionState("NetworkReady", True, "PortsSet", "")


def _memory_pressure(report: NodeReport | None) -> ConditionState:
    if report is None or report.load is None or report.load.memory_free_bytes is None:
        return ConditionState("MemoryPressure", False, "NotMeasured", "")
    load, free = report.load, report.load.memory_free_bytes
    text = f"{free / _GIB:.1f} of {report.memory_bytes / _GIB:.1f} GiB are free"
    act = "stop other programs there, or reserve memory for them in spec.memory.reserve"
    if load.pressure in ("warn", "critical"):
        text = f"macOS reports memory pressure {load.pressure}: {text}; {act}"
        return ConditionState("MemoryPressure", True, "SystemWarns", text)
    if free < MEMORY_FREE_LEAST * report.memory_bytes:
        return ConditionState("MemoryPressure", True, "MemoryLow", f"{text}; {act}")
    return ConditionState("MemoryPressure", False, "MemorySufficient", text)


def _clock_skew(seen: NodeObservation | None) -> ConditionState:
    if seen is None or seen.report is None or seen.report.load is None:
        return ConditionState("ClockSkew", False, "NotMeasured", "")
    skewed = seen.skew_seconds
    if abs(skewed) <= SKEW_SECONDS_MAX:
        return ConditionState("ClockSkew", False, "ClocksAgree", "")
    reason, how = ("ClockAhead", "ahead of") if skewed > 0 else ("ClockBehind", "behind")
    darwin = seen.report.system == "Darwin"
    setting = "sudo sntp -sS time.apple.com" if darwin else "sudo timedatectl set-ntp true"
    text = f"its clock is {abs(skewed):.1f} s {how} the controller's; on the machine with the wrong time run: {setting}"
    return ConditionState("ClockSkew", True, reason, text)


def _versions(report: NodeReport) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted((report.runtime or {}).items()))


def _quarantined(name: NodeName, planned: ByObject) -> ConditionState:
    """Return whether a node is quarantined, with the reason and the steps for a person."""
    found = planned.quarantined.get(name)
    if found is None:
        return ConditionState("Quarantined", False, "NotQuarantined", "")
    return ConditionState("Quarantined", True, found.reason, f"{found.text}; {found.person}")
