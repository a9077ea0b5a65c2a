"""Detectors: one for each way to recognise a class of faults in the evidence.

An unknown fact is evidence of nothing. Faults of RDMA and of cables are looked for only if these are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from reconciler.resources import End
from reconciler.state import Cause, Contact, MachineFacts, NodeName, NodeObservation, PortFacts
from reconciler.transports import GID_INDEX
from reconciler.wire.launch import ExitCode

from .evidence import IDLE_DECAY_SECONDS, Detection, Evidence, opposite, towards
from .rdma_path import UNTESTED, RdmaPath, Side, docks, gbps, rdma_path

MACOS_MIN = (26, 2)
"""The first macOS with RDMA over Thunderbolt."""
WIRED_EXCESS_BYTES = 4 * 2**30
"""Wired memory above a machine's own that nobody gives back. The system itself may take less."""
PANICS_MAX = 2
"""Within an hour, on one spec: that many are no accident."""
RDMA_PANICS_MAX = 2
"""Within a day, by the backtraces: reported of a Mac that panicked three times in four hours (M4 Pro)."""
SIGABRT = 6
_SETTING_UP = (ExitCode.VERBS, ExitCode.KERNEL_OBJECTS, ExitCode.GID, ExitCode.GID_UNREACHED)
"""The ends of ranks that could not set up RDMA."""


class Detector(Protocol):
    """A detector. Its name is a part of stored keys."""

    __name__: str

    def __call__(self, evidence: Evidence, /) -> Detection | None: ...


def unreachable(evidence: Evidence) -> Detection | None:
    """Detect a machine that does not answer (C0). It says nothing about the ranks there."""
    for node in evidence.nodes:
        lost = node.contact not in (Contact.REACHED, Contact.UNKNOWN, Contact.AGENT_DOWN)
        if lost or (node.contact is Contact.AGENT_DOWN and node.name in evidence.unstarted):
            return Detection(
                f"{node.name} does not answer: {node.problem or 'no report from it'}", (node.name,)
            )
    return None


def unkillable(evidence: Evidence) -> Detection | None:
    """Detect a rank that SIGKILL does not end (C18): whatever the reason to end it, its machine is at fault now."""
    seen = ended_late(evidence) if evidence.unkillable else None
    return Detection(seen.text, evidence.unkillable, tells_symptom=True) if seen else None


def ended_late(evidence: Evidence) -> Detection | None:
    """Detect that such a rank has ended after all (C18), and with it the fault of its machine."""
    return _symptom(evidence) if evidence.cause is Cause.RANK_UNKILLABLE else None


def old_system(evidence: Evidence) -> Detection | None:
    """Detect a macOS without RDMA, or different ones (C1)."""
    versions: dict[tuple[int, ...], NodeName] = {}
    for name, facts in _macs(evidence):
        if facts.version and facts.version < MACOS_MIN:
            return Detection(f"{name} runs macOS {_dotted(facts.version)}", (name,))
        if facts.version:
            versions.setdefault(facts.version, name)
    if len(versions) > 1:
        (one, here), (other, there) = sorted(versions.items())[:2]
        text = f"{here} runs macOS {_dotted(one)} and {there} macOS {_dotted(other)}"
        return Detection(text, (here, there))
    return None


def old_runtime(evidence: Evidence) -> Detection | None:
    """Detect an MLX without JACCL (C1)."""
    for name, facts in _macs(evidence):
        if facts.jaccl is False:
            return Detection(f"MLX on {name} has no JACCL", (name,))
    return _ended(evidence, ExitCode.NO_BACKEND)


def unequal(evidence: Evidence) -> Detection | None:
    """Detect different versions or weights (C1), over any transport."""
    return _ended(evidence, ExitCode.UNEQUAL)


def slow_link(evidence: Evidence) -> Detection | None:
    """Detect a link that is slower than those that were tested with RDMA, or leads through a dock (C1), and that no Fabric
    allows."""
    for node, port in _ports(evidence):
        if port.unusual and _refused(evidence, node, port):
            ends = _ends(evidence, node, port)
            where, dock = f"{node.name}/{port.receptacle}", ", ".join(docks(*ends))
            text = f"goes through {dock}" if dock else f"has {gbps(*ends)} Gb/s"
            if rdma_path(*ends) in UNTESTED:
                text += ", not tested: see spec.allowUntested of its Fabric"
            return Detection(f"the link at {where} {text}", (node.name,), where)
    return None


def _refused(evidence: Evidence, node: NodeObservation, port: PortFacts) -> bool:
    """Return whether no RDMA may use the cable at a port."""
    path = rdma_path(*_ends(evidence, node, port))
    allowed = path in UNTESTED and End(node.name, port.receptacle) in evidence.untested
    return path is not RdmaPath.DIRECT and not allowed


def _ends(evidence: Evidence, node: NodeObservation, port: PortFacts) -> tuple[Side, ...]:
    """Return both ends of the cable at a port, or this one, if the other is not in the evidence."""
    there = (
        (other.facts, end)
        for other in evidence.nodes
        for end in other.facts.ports
        if port.peer == (other.name, end.receptacle)
    )
    return (node.facts, port), *there


def no_thunderbolt5(evidence: Evidence) -> Detection | None:
    """Detect a machine without RDMA that nobody can enable (C1)."""
    for name, facts in _macs(evidence):
        if facts.rdma_enabled is False and facts.thunderbolt5 is False:
            return Detection(f"{name} has no Thunderbolt 5, and so no RDMA", (name,))
    return None


def rdma_disabled(evidence: Evidence) -> Detection | None:
    for name, facts in _macs(evidence):
        if facts.rdma_enabled is False and facts.thunderbolt5 is not False:
            return Detection(f"RDMA is disabled on {name}", (name,))
    return None


def link_down(evidence: Evidence) -> Detection | None:
    """Detect a cable that is out or down (C3)."""
    return port_down(evidence) or unjoined(evidence)


def port_down(evidence: Evidence) -> Detection | None:
    """Detect a cable without a link at either of its ends (C3)."""
    for node, other in evidence.cabled():
        for here, there in ((node, other), (other, node)):
            port = towards(here, there.name)
            if port and _without_link(here, there, port):
                where = f"{here.name}/{port.receptacle}"
                return Detection(f"the link from {where} to {there.name} is down", (), where, there.name)
    return None


def rdma_port_down(evidence: Evidence) -> Detection | None:
    """Detect a cable that has a link, and whose RDMA port is down (C3)."""
    for node, other in evidence.cabled() if evidence.verbs else ():
        sides = ((node, other), (other, node))
        ends = [(*side, port) for side in sides if (port := towards(side[0], side[1].name))]
        down = [end for end in ends if verbs_down(*end) and not _refused(evidence, end[0], end[2])]
        if down and not any(_without_link(*end) for end in ends):
            here, there, port = down[0]
            where = f"{here.name}/{port.receptacle}"
            text = f"the link from {where} to {there.name} has no RDMA: its port is down"
            return Detection(text, (), where, there.name)
    return None


def _without_link(here: NodeObservation, there: NodeObservation, port: PortFacts) -> bool:
    """Return whether a cable is down at one end. If two ends contradict each other, one was probed after the cable was
    pulled."""
    end = opposite(here, there)
    gone = end is not None and (end.connected is False or _leads_elsewhere(end, here, port))
    return port.connected is False or port.active is False or gone


def verbs_down(here: NodeObservation, there: NodeObservation, port: PortFacts) -> bool:
    """Return whether the device at one end of a cable is down. RDMA that is off at an end is a cause of another class.

    The receptacle of a Mac Studio beside Ethernet has no RDMA (github.com/exo-explore/exo/pull/1551). No probe tells which
    one that is.
    """
    off = False in (here.facts.rdma_enabled, there.facts.rdma_enabled)
    return port.verbs_up is False and not off


def _leads_elsewhere(end: PortFacts, node: NodeObservation, port: PortFacts) -> bool:
    return end.peer is not None and end.peer != (node.name, port.receptacle)


def unjoined(evidence: Evidence) -> Detection | None:
    """Detect machines without a cable between them (C3). Only machines that were joined can have this fault."""
    for node, other in evidence.cabled():
        if _cabled(node) and _cabled(other) and not (towards(node, other.name) or towards(other, node.name)):
            text = f"no cable joins {node.name} and {other.name}"
            return Detection(text, (), str(node.name), str(other.name))
    return None


def shared_port(evidence: Evidence) -> Detection | None:
    """Detect a port in another bridge than ``bridge0`` (C4): Internet Sharing makes one, and so may virtual machines."""
    for node, port in _ports(evidence):
        if port.connected and port.interface and port.other_bridge:
            text = f"{port.interface} of {node.name} is a member of {port.other_bridge}, as if it shared its internet"
            return Detection(text, (node.name,), port.interface)
    return None


def port_configuration(evidence: Evidence) -> Detection | None:
    """Detect a port in a bridge, or without an address (C4)."""
    for node, port in _ports(evidence):
        flaw = _flaw(port) if port.connected and port.interface and not port.other_bridge else ""
        if flaw:
            return Detection(f"{port.interface} of {node.name} {flaw}", (node.name,), port.interface)
    return None


def no_gid(evidence: Evidence) -> Detection | None:
    """Detect a port that has an address, but no GID for it (C4): macOS may publish it minutes later."""
    for node, port in _ports(evidence) if evidence.verbs else ():
        if port.connected and port.interface and port.mapped_gid is False and not _flaw(port):
            text = f"{port.interface} of {node.name} has no IPv4-mapped GID"
            return Detection(text, (node.name,), port.interface)
    return None


def gid_index(evidence: Evidence) -> Detection | None:
    """Detect a port whose GID is where MLX does not look for it (C4): no queue pair connects there."""
    for node, port in _ports(evidence):
        if port.connected and port.gid_index not in (None, GID_INDEX):
            text = (
                f"the IPv4-mapped GID of {port.interface} of {node.name} has index {port.gid_index}, and MLX connects by"
                f" index {GID_INDEX}"
            )
            return Detection(text, (node.name,), port.interface)
    return None


def gid_refused(evidence: Evidence) -> Detection | None:
    """Detect that the driver refuses the GIDs of a cable, whatever the ports show since (C4): a GID may be stale, or come
    later. Protection domains that others hold cause one of the errors too (C7)."""
    return None if evidence.proven or _held(evidence) else _ended(evidence, ExitCode.GID)


def firewalled(evidence: Evidence) -> Detection | None:
    """Detect ranks that did not find each other on machines with a firewall (C5): it drops their packets."""
    walled = tuple(name for name, facts in evidence.machines() if facts.firewall)
    if not walled or rendezvous(evidence) is None:
        return None
    text = f"the application firewall of {', '.join(walled)} is on, and ranks did not find each other"
    return Detection(text, walled)


def rendezvous(evidence: Evidence) -> Detection | None:
    if evidence.cause is Cause.RANKS_APART:
        return _symptom(evidence)
    return _ended(evidence, ExitCode.RENDEZVOUS, ExitCode.PORT_IN_USE)


def queue_pairs(evidence: Evidence) -> Detection | None:
    """Detect queue pairs that cannot be set up (C6). Once a group has served, it is C8 or C15.

    Bridges and ports that are down cause the errors of used-up kernel objects too (mlx issue 4530): unless the ports are
    known to be well, no machine is restarted for them.
    """
    if evidence.proven:
        return None
    unsure = not _held(evidence) and not _ports_well(evidence)
    kernel = [ExitCode.KERNEL_OBJECTS] if unsure else []
    return _ended(evidence, ExitCode.VERBS, ExitCode.GID_UNREACHED, *kernel)


def readdressed(evidence: Evidence) -> Detection | None:
    """Detect that no peer is reached by a GID, where a port has got an address more than once in this boot (C6): then only
    a restart was seen to help (reported of five Macs with macOS 26.3.1; not measured here)."""
    if evidence.proven or _ended(evidence, ExitCode.GID_UNREACHED) is None:
        return None
    found = [
        (node.name, port.interface) for node, port in _ports(evidence) if port.interface in _readdressed(node)
    ]
    if not found:
        return None
    text = f"{_listed(found)} got an address more than once since the last restart, and no queue pair reaches its peer"
    return Detection(text, tuple(dict.fromkeys(name for name, _ in found)))


def _readdressed(node: NodeObservation) -> tuple[str, ...]:
    report = node.report
    repair = report.repair if report else None
    return repair.readdressed if report and repair and repair.boot_id == report.boot_id else ()


def _listed(ports: Iterable[tuple[NodeName, str]]) -> str:
    return ", ".join(f"{interface} of {name}" for name, interface in ports)


def _ports_well(evidence: Evidence) -> bool:
    """Return whether each machine is known to have ports to the others, with nothing wrong or unknown about these."""
    ports = list(_ports(evidence))
    well = all((port.verbs_up, port.bridged, port.mapped_gid) == (True, False, True) for _, port in ports)
    return well and {node.name for node, _ in ports} == {node.name for node in evidence.nodes}


def kernel_objects(evidence: Evidence) -> Detection | None:
    """Detect used-up kernel objects (C7): measured where possible, because a count of attempts says little."""
    held = _held(evidence)
    if held and (evidence.symptom is None or evidence.code in _SETTING_UP):
        name, count = held[0]
        return Detection(f"processes other than ranks hold {count} protection domains on {name}", (name,))
    return _ended(evidence, ExitCode.KERNEL_OBJECTS)


def _held(evidence: Evidence) -> list[tuple[NodeName, int]]:
    """Return the machines on which processes other than ranks hold protection domains, and how many."""
    return [(name, facts.protection_domains) for name, facts in _macs(evidence) if facts.protection_domains]


def crash(evidence: Evidence) -> Detection | None:
    """Detect a crash that no later class explains better (C8)."""
    explained = (
        evidence.cause not in (Cause.RANK_EXITED, Cause.RANK_MISSING)
        or any(
            detect(evidence)
            for detect in (refused, out_of_memory, gpu_fault, rebooted, wedged, no_route, idle_decay)
        )
        or evidence.code in (ExitCode.WRONG_GROUP, ExitCode.WRONG_RESULT)
    )
    return None if explained else _symptom(evidence)


def never_started(evidence: Evidence) -> Detection | None:
    """Detect a rank that never had a process (C8), because its disk was full or its agent ended. No transport is to
    blame."""
    return crash(evidence) if evidence.first is not None and evidence.first.report.pid is None else None


def refused(evidence: Evidence) -> Detection | None:
    """Detect a rank that reports that its input cannot work (C8)."""
    return _ended(evidence, ExitCode.CONFIG, ExitCode.WEIGHTS)


def hang(evidence: Evidence) -> Detection | None:
    """Detect a group that hangs while all processes live (C9)."""
    hung = evidence.cause in (Cause.STALLED, Cause.OVERDUE)
    return _symptom(evidence) if hung and not wedged(evidence) and not idle_decay(evidence) else None


def out_of_memory_while_serving(evidence: Evidence) -> Detection | None:
    """Detect a rank that ran out of memory after its group had served (C10): its requests were too large, not its weights."""
    return out_of_memory(evidence) if evidence.proven else None


def out_of_memory(evidence: Evidence) -> Detection | None:
    return _ended(evidence, ExitCode.MEMORY)


def gpu_fault(evidence: Evidence) -> Detection | None:
    """Detect a fault of the GPU (C10). Older runtimes abort instead of raising."""
    ended = evidence.first.report.exit if evidence.first else None
    aborted = ended is not None and (ended.signal == SIGABRT or ended.code == 128 + SIGABRT)
    if ended is not None and aborted and ended.metal:
        return _symptom(evidence)
    return _ended(evidence, ExitCode.GPU)


def gpu_fault_after_restart(evidence: Evidence) -> Detection | None:
    """Detect such a fault on a machine that was restarted not long ago (C10): another restart helps as little."""
    found = gpu_fault(evidence)
    return found if found and found.nodes and evidence.refreshed.issuperset(found.nodes) else None


def wired_memory(evidence: Evidence) -> Detection | None:
    """Detect wired memory of no process (C11), on a machine without ranks: the ledger charges running ranks."""
    for name, facts in evidence.machines():
        if evidence.symptom is None and (facts.wired_excess_bytes or 0) > WIRED_EXCESS_BYTES:
            size = (facts.wired_excess_bytes or 0) / 2**30
            return Detection(f"{size:.0f} GiB of wired memory on {name} belong to no process", (name,))
    return None


def rdma_panicking(evidence: Evidence) -> Detection | None:
    """Detect a machine that panics in the driver of RDMA (C12): no spec is to blame, and another transport helps."""
    for name, facts in _macs(evidence):
        count = facts.rdma_panics_of_day or 0
        if count >= RDMA_PANICS_MAX:
            return Detection(f"{name} has panicked {count} times within a day in the driver of RDMA", (name,))
    return None


def panicking_over_memory(evidence: Evidence) -> Detection | None:
    """Detect such a machine where a report of a panic is about memory (C12), which a smaller spec needs less of."""
    seen = panicking(evidence)
    return (
        seen
        if seen and any(facts.memory_panics for name, facts in evidence.machines() if name in seen.nodes)
        else None
    )


def panicking(evidence: Evidence) -> Detection | None:
    """Detect a machine that a spec brings down again and again (C12), as far as neither a job nor the driver of RDMA has
    done it."""
    for name, facts in evidence.machines():
        own = (facts.panics or 0) - evidence.harmed.get(name, 0) - (facts.rdma_panics or 0)
        if name in evidence.rebooted and own >= PANICS_MAX:
            return Detection(f"{name} has panicked {facts.panics} times within an hour", (name,))
    return None


def rebooted(evidence: Evidence) -> Detection | None:
    if evidence.symptom is None or not evidence.rebooted:
        return None
    return Detection(f"{', '.join(evidence.rebooted)} has restarted since", evidence.rebooted)


def wedged(evidence: Evidence) -> Detection | None:
    """Detect RDMA tools that do not return (C13)."""
    for name, facts in _macs(evidence):
        if facts.verbs_answer is False:
            return Detection(f"the RDMA tools of {name} do not come back", (name,))
    return None


def no_route(evidence: Evidence) -> Detection | None:
    """Detect ranks that may not use the local network (C14)."""
    for name, facts in evidence.machines():
        if evidence.symptom is None and facts.launch_context is False:
            return Detection(f"ranks on {name} may not use the local network", (name,))
    return _ended(evidence, ExitCode.NO_ROUTE)


def no_route_from_here(evidence: Evidence) -> Detection | None:
    """Detect such ranks on the controller's own machine (C14), where macOS asks about the program that started it."""
    found = no_route(evidence)
    return found if found and evidence.local.issuperset(found.nodes) else None


def no_route_elsewhere(evidence: Evidence) -> Detection | None:
    """Detect such ranks on another machine (C14)."""
    return None if no_route_from_here(evidence) else no_route(evidence)


def idle_decay(evidence: Evidence) -> Detection | None:
    """Detect connections that fail at the first use after a long rest (C15)."""
    idle = evidence.verbs and evidence.proven and evidence.idle_seconds >= IDLE_DECAY_SECONDS
    failed = evidence.symptom is not None and (
        evidence.code in (*_SETTING_UP, ExitCode.PEER_LOST) or evidence.symptom.cause is Cause.STALLED
    )
    if not idle or not failed or evidence.symptom is None:
        return None
    minutes = evidence.idle_seconds / 60
    text = f"there was no request for {minutes:.0f} min: {evidence.symptom.text}"
    return Detection(text, tells_symptom=True)


def wrong_group(evidence: Evidence) -> Detection | None:
    return _ended(evidence, ExitCode.WRONG_GROUP)


def wrong_result(evidence: Evidence) -> Detection | None:
    """Detect results over RDMA that are wrong (C19), and tell what was compared."""
    found, first = _ended(evidence, ExitCode.WRONG_RESULT), evidence.first
    return replace(found, text=first.ending_text) if found and first else found


def no_completion(evidence: Evidence) -> Detection | None:
    """Detect a group that is ready and completes nothing (C17)."""
    return _symptom(evidence) if evidence.cause is Cause.PROOF_FAILED else None


# --- what detectors are made of -----------------------------------------------------------------------


def _symptom(evidence: Evidence) -> Detection | None:
    if evidence.symptom is None:
        return None
    first = evidence.first
    blamed = (first.node,) if first is not None and not first.lost_another else ()
    return Detection(evidence.symptom.text, blamed, tells_symptom=True)


def _ended(evidence: Evidence, *codes: int) -> Detection | None:
    return _symptom(evidence) if evidence.symptom is not None and evidence.code in codes else None


def _macs(evidence: Evidence) -> Iterable[tuple[NodeName, MachineFacts]]:
    """Return the machines on which RDMA is expected."""
    return evidence.machines() if evidence.verbs else ()


def _ports(evidence: Evidence) -> Iterator[tuple[NodeObservation, PortFacts]]:
    """Yield ports that lead to other nodes of the evidence, or to any node if it is about one machine."""
    if not evidence.verbs:
        return
    names = {node.name for node in evidence.nodes}
    for node in sorted(evidence.nodes, key=lambda node: node.name):
        for port in node.facts.ports:
            if port.peer and (len(names) == 1 or port.peer[0] in names):
                yield node, port


def _cabled(node: NodeObservation) -> bool:
    """Return whether every port of a machine is known to have no cable, or a known other end."""
    ports = node.facts.ports
    return bool(ports) and all(port.connected is False or port.peer for port in ports)


def _flaw(port: PortFacts) -> str:
    if port.bridged:
        return "is a member of a bridge"
    return "has no IPv4 address" if port.address == "" else ""


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
