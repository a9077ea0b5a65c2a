"""The conditions of a node: what is wrong with a machine, in words that somebody can act on.

Each is a threshold on what was last seen, without memory: the same sight gives the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable

from reconciler.state import (
    Contact,
    Desired,
    FaultClass,
    NodeName,
    NodeObservation,
    ObjectKey,
    Observed,
    Plan,
    Refusal,
    RefusedBecause,
    RepairNode,
    Waiting,
    WaitingFor,
)
from reconciler.wire.node import HeldBy, NodeReport

from . import weights
from .likeness import Likeness

Said = tuple[str, bool, str, str]
"""Type, status, reason and message of a condition."""

MEMORY_FREE_LEAST = 0.05
"""Of the machine's memory. With less the system is about to write to disk, and a rank to wait for it; macOS says by
itself when it comes to that."""
SKEW_SECONDS_MAX = 2.0
"""Nothing is decided by a node's clock; beyond this the times in its logs mislead people."""
_GIB = 2**30


def conditions(
    name: NodeName, desired: Desired, observed: Observed, plan: Plan, likeness: Likeness
) -> tuple[Said, ...]:
    """All of them, in the order in which to read them: each matters only if those before it are well."""
    seen = observed.nodes.get(name)
    report = seen.report if seen else None
    return (
        _reachable(seen),
        _agent_ready(name, seen, desired),
        _runtime_ready(name, report, plan),
        _network_ready(name, seen, desired, plan),
        _memory_pressure(report),
        ("DiskPressure", *weights.disk_pressure(report)),
        _clock_skew(seen),
        likeness.condition(name),
        _quarantined(name, plan),
    )


def _reachable(seen: NodeObservation | None) -> Said:
    if seen is None or seen.contact is Contact.UNKNOWN:
        return "Reachable", False, "NotTriedYet", "nobody has asked it since the controller started"
    if seen.contact is Contact.UNREACHABLE:
        return "Reachable", False, seen.barred or "NoAnswer", seen.problem or "it does not answer"
    return "Reachable", True, "Answers", ""


def _agent_ready(name: NodeName, seen: NodeObservation | None, desired: Desired) -> Said:
    if seen is not None and seen.contact is Contact.REACHED:
        node = desired.nodes.get(name)
        far = node is not None and node.spec.ssh is not None
        costs = _costs_of_holder(seen.report, name) if far and seen.report else ""
        return "AgentReady", True, "NotKeptRunning" if costs else "Serving", costs
    if seen is not None and seen.contact is Contact.AGENT_DOWN:
        return (
            "AgentReady",
            False,
            "NotServing",
            seen.problem or "no agent answers there; it is started again",
        )
    return "AgentReady", False, "NotSeen", "its machine is not reached"


def _costs_of_holder(report: NodeReport, name: NodeName) -> str:
    """What it costs that no service of the machine keeps the agent running; empty where one does."""
    if report.held_by not in (HeldBy.SESSION, HeldBy.LEFT, HeldBy.PROCESS):
        return ""
    boots = "after a restart of the machine it runs again only when the controller has logged in"
    if report.system == "Darwin" or report.held_by != HeldBy.PROCESS:
        boots = (
            "the controller's SSH session holds it: while that is away macOS may keep new ranks from the local"
            f" network, and put their GPU work in the background; {boots}"
        )
    return f"{boots}: reconciler node bootstrap {name}"


def _runtime_ready(name: NodeName, report: NodeReport | None, plan: Plan) -> Said:
    """A node may serve with one runtime while the next is being built beside it."""
    key = ObjectKey("Node", name)
    failed = _told(plan.refused, key, RefusedBecause.RUNTIME_UNAVAILABLE)
    building = _told(plan.waiting, key, WaitingFor.RUNTIME)
    lacking = [
        each for each in ("mlx", "mlx-lm") if not (report and report.runtime and report.runtime.get(each))
    ]
    if not lacking:
        assert report is not None
        return (
            "RuntimeReady",
            True,
            "RuntimeFound",
            "; ".join(text for text in (_versions(report), failed or building) if text),
        )
    if failed or building:
        return (
            "RuntimeReady",
            False,
            "RuntimeUnavailable" if failed else "RuntimeBuilding",
            failed or building,
        )
    if report is None or report.runtime is None:
        return "RuntimeReady", False, "NotLookedFor", "its Python has not been asked for mlx yet"
    text = (
        f"{report.python} has no {' and no '.join(lacking)}: install it there, or name another in spec.python"
    )
    return "RuntimeReady", False, "RuntimeIncomplete", text


def _network_ready(name: NodeName, seen: NodeObservation | None, desired: Desired, plan: Plan) -> Said:
    """Whether its Thunderbolt ports are set as the links of a Fabric need them."""
    key = ObjectKey("Node", name)
    trouble = next(
        (t for t in plan.troubles if t.object == key and t.fault is FaultClass.PORT_CONFIGURATION), None
    )
    repair = _told(plan.waiting, key, WaitingFor.REPAIR)
    repair = repair or next((str(s) for s in plan.steps if isinstance(s, RepairNode) and s.node == name), "")
    if repair:
        return "NetworkReady", False, "Repairing", repair
    if trouble is not None:
        todo = f"; to do: {trouble.person}" if trouble.person else f": {trouble.doing}"
        return "NetworkReady", False, trouble.fault.reason, f"{trouble.seen}{todo}"
    ends = [
        end
        for fabric in desired.fabrics.values()
        for link in fabric.spec.cables
        for end in link
        if end.node == name
    ]
    if not ends:
        return "NetworkReady", True, "NothingDeclared", ""
    ports = {port.receptacle: port for port in seen.facts.ports} if seen else {}
    unknown = [str(end) for end in ends if (p := ports.get(end.receptacle)) is None or p.address is None]
    if unknown:
        return "NetworkReady", False, "NotKnown", f"nothing is known of {', '.join(unknown)}"
    return "NetworkReady", True, "PortsSet", ""


def _told(
    said: Iterable[Refusal] | Iterable[Waiting], key: ObjectKey, reason: RefusedBecause | WaitingFor
) -> str:
    return next((each.text for each in said if each.object == key and each.reason is reason), "")


def _memory_pressure(report: NodeReport | None) -> Said:
    if report is None or report.load is None or report.load.memory_free_bytes is None:
        return "MemoryPressure", False, "NotMeasured", ""
    load, free = report.load, report.load.memory_free_bytes
    text = f"{free / _GIB:.1f} of {report.memory_bytes / _GIB:.1f} GiB are left"
    act = "end what else runs there, or reserve it in spec.memory.reserve"
    if load.pressure in ("warn", "critical"):
        return "MemoryPressure", True, "SystemWarns", f"macOS calls it {load.pressure}: {text}; {act}"
    if free < MEMORY_FREE_LEAST * report.memory_bytes:
        return "MemoryPressure", True, "MemoryLow", f"{text}; {act}"
    return "MemoryPressure", False, "MemorySufficient", text


def _clock_skew(seen: NodeObservation | None) -> Said:
    if seen is None or seen.report is None or seen.report.load is None:
        return "ClockSkew", False, "NotMeasured", ""
    skewed = seen.skew_seconds
    if abs(skewed) <= SKEW_SECONDS_MAX:
        return "ClockSkew", False, "ClocksAgree", ""
    reason, how = ("ClockAhead", "ahead of") if skewed > 0 else ("ClockBehind", "behind")
    darwin = seen.report.system == "Darwin"
    setting = "sudo sntp -sS time.apple.com" if darwin else "sudo timedatectl set-ntp true"
    text = f"its clock is {abs(skewed):.1f} s {how} the controller's: on the one that is wrong, {setting}"
    return "ClockSkew", True, reason, text


def _versions(report: NodeReport) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted((report.runtime or {}).items()))


def _quarantined(name: str, plan: Plan) -> Said:
    """Whether a node is kept out, why, and what a person can do about it."""
    found = next((found for found in plan.quarantined if found.node == name), None)
    if found is None:
        return "Quarantined", False, "NotQuarantined", ""
    return "Quarantined", True, found.reason, f"{found.text}; {found.person}"
