"""How each class of faults is seen: what a scene shows of it, or None.

A fact that is not known shows nothing. What only concerns RDMA, or cables, is looked for only where they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from reconciler.state import Cause, Contact, MachineFacts, NodeName, NodeObservation, PortFacts
from reconciler.wire.launch import ExitCode

from .evidence import IDLE_DECAY_SECONDS, Evidence, opposite, towards

MACOS_MIN = (26, 2)
"""The first macOS with RDMA over Thunderbolt."""
LINK_GBPS_MIN = 80
"""Thunderbolt 5; over slower links a device may show and does not work."""
WIRED_EXCESS_BYTES = 4 * 2**30
"""Wired memory above a machine's own that nobody gives back: less is what the system itself may take."""
PANICS_MAX = 2
"""In an hour, on one spec: then it is no accident."""
SIGABRT = 6


@dataclass(frozen=True, slots=True)
class Detection:
    """What was seen, and the names that the steps for a person speak of."""

    text: str
    nodes: tuple[NodeName, ...] = ()
    """The machines that are to blame, where it is known which."""
    port: str = ""
    """``node/receptacle`` or an interface."""
    peer: str = ""
    """What is at the other end."""


Detector = Callable[[Evidence], Detection | None]


def unreachable(scene: Evidence) -> Detection | None:
    """C0. Says nothing about the ranks there."""
    for node in scene.nodes:
        lost = node.contact not in (Contact.REACHED, Contact.UNKNOWN, Contact.AGENT_DOWN)
        if lost or (node.contact is Contact.AGENT_DOWN and node.name in scene.unstarted):
            return Detection(
                f"{node.name} does not answer: {node.problem or 'no word from it'}", (node.name,)
            )
    return None


def old_system(scene: Evidence) -> Detection | None:
    """C1."""
    versions: dict[tuple[int, ...], NodeName] = {}
    for name, facts in _macs(scene):
        if facts.version and facts.version < MACOS_MIN:
            return Detection(f"{name} runs macOS {_dotted(facts.version)}", (name,))
        if facts.version:
            versions.setdefault(facts.version, name)
    if len(versions) > 1:
        (one, here), (other, there) = sorted(versions.items())[:2]
        text = f"{here} runs macOS {_dotted(one)} and {there} macOS {_dotted(other)}"
        return Detection(text, (here, there))
    return None


def old_runtime(scene: Evidence) -> Detection | None:
    """C1."""
    for name, facts in _macs(scene):
        if facts.jaccl is False:
            return Detection(f"MLX on {name} has no JACCL", (name,))
    return _ended(scene, ExitCode.NO_BACKEND)


def unequal(scene: Evidence) -> Detection | None:
    """C1. Of all transports."""
    return _ended(scene, ExitCode.UNEQUAL)


def slow_link(scene: Evidence) -> Detection | None:
    """C1."""
    for node, port in _ports(scene):
        if slow(port):
            where = f"{node.name}/{port.receptacle}"
            return Detection(f"the link at {where} has {port.gbps} Gb/s", (node.name,), where)
    return None


def slow(port: PortFacts) -> bool:
    """Whether a link is up, and slower than RDMA over it needs."""
    return bool(port.connected) and port.gbps is not None and port.gbps < LINK_GBPS_MIN


def rdma_disabled(scene: Evidence) -> Detection | None:
    """C2."""
    for name, facts in _macs(scene):
        if facts.rdma_enabled is False:
            return Detection(f"RDMA is disabled on {name}", (name,))
    return None


def link_down(scene: Evidence) -> Detection | None:
    """C3."""
    return port_down(scene) or unjoined(scene)


def port_down(scene: Evidence) -> Detection | None:
    """C3. With RDMA on, a port may also be down for its device alone. Of two ends that contradict each other one
    was looked at after the cable was pulled."""
    for node, other in scene.cabled():
        for here, there in ((node, other), (other, node)):
            port, end = towards(here, there.name), opposite(here, there)
            down = port and (port.connected is False or port.active is False)
            gone = port and end and (end.connected is False or _leads_elsewhere(end, here, port))
            if port and (down or gone or (scene.verbs and _verbs_down(here, there, port))):
                where = f"{here.name}/{port.receptacle}"
                return Detection(f"the link from {where} to {there.name} is down", (), where, there.name)
    return None


def _verbs_down(here: NodeObservation, there: NodeObservation, port: PortFacts) -> bool:
    """Where RDMA is off at one end, the device at the other is down for that: another class says so."""
    off = False in (here.facts.rdma_enabled, there.facts.rdma_enabled)
    return port.verbs_up is False and not off


def _leads_elsewhere(end: PortFacts, node: NodeObservation, port: PortFacts) -> bool:
    return end.peer is not None and end.peer != (node.name, port.receptacle)


def unjoined(scene: Evidence) -> Detection | None:
    """C3. Of machines that were joined: who never were have no fault."""
    for node, other in scene.cabled():
        if _cabled(node) and _cabled(other) and not (towards(node, other.name) or towards(other, node.name)):
            text = f"no cable joins {node.name} and {other.name}"
            return Detection(text, (), str(node.name), str(other.name))
    return None


def port_configuration(scene: Evidence) -> Detection | None:
    """C4."""
    for node, port in _ports(scene):
        flaw = _flaw(port, scene.verbs) if port.connected and port.interface else ""
        if flaw:
            return Detection(f"{port.interface} of {node.name} {flaw}", (node.name,), port.interface)
    return None


def rendezvous(scene: Evidence) -> Detection | None:
    """C5."""
    return _ended(scene, ExitCode.RENDEZVOUS, ExitCode.PORT_IN_USE)


def queue_pairs(scene: Evidence) -> Detection | None:
    """C6. Of a group that was up it is another matter: see C8 and C15."""
    return None if scene.proven else _ended(scene, ExitCode.VERBS)


def kernel_objects(scene: Evidence) -> Detection | None:
    """C7. Measured where it can be, for a count of attempts says little."""
    held = [(name, facts.protection_domains) for name, facts in _macs(scene) if facts.protection_domains]
    if held and (scene.symptom is None or scene.code in (ExitCode.KERNEL_OBJECTS, ExitCode.VERBS)):
        name, count = held[0]
        return Detection(f"processes that are no ranks hold {count} protection domains on {name}", (name,))
    return _ended(scene, ExitCode.KERNEL_OBJECTS)


def crash(scene: Evidence) -> Detection | None:
    """C8. Whatever no later class explains better."""
    explained = (
        scene.symptom is None
        or scene.symptom.cause not in (Cause.RANK_EXITED, Cause.RANK_MISSING)
        or any(
            sight(scene)
            for sight in (refused, out_of_memory, gpu_fault, rebooted, wedged, no_route, idle_decay)
        )
        or scene.code == ExitCode.WRONG_GROUP
    )
    return None if explained else _symptom(scene)


def never_started(scene: Evidence) -> Detection | None:
    """C8. There was no process that could have used a transport: its disk was full, or its agent ended."""
    return crash(scene) if scene.first is not None and scene.first.report.pid is None else None


def refused(scene: Evidence) -> Detection | None:
    """C8. The rank itself says that what it was given cannot work."""
    return _ended(scene, ExitCode.CONFIG, ExitCode.WEIGHTS)


def hang(scene: Evidence) -> Detection | None:
    """C9. All processes live."""
    hung = scene.symptom is not None and scene.symptom.cause in (Cause.STALLED, Cause.OVERDUE)
    return _symptom(scene) if hung and not wedged(scene) and not idle_decay(scene) else None


def out_of_memory(scene: Evidence) -> Detection | None:
    """C10."""
    return _ended(scene, ExitCode.MEMORY)


def gpu_fault(scene: Evidence) -> Detection | None:
    """C10. Older runtimes abort instead of raising: then it is their last words that tell."""
    ended = scene.first.report.exit if scene.first else None
    aborted = ended is not None and (ended.signal == SIGABRT or ended.code == 128 + SIGABRT)
    if ended is not None and aborted and "metal" in ended.detail.lower():
        return _symptom(scene)
    return _ended(scene, ExitCode.GPU)


def wired_memory(scene: Evidence) -> Detection | None:
    """C11. Of a machine without ranks: what runs is charged by the ledger."""
    for name, facts in scene.machines():
        if scene.symptom is None and (facts.wired_excess_bytes or 0) > WIRED_EXCESS_BYTES:
            size = (facts.wired_excess_bytes or 0) / 2**30
            return Detection(f"{size:.0f} GiB of wired memory on {name} belong to no process", (name,))
    return None


def panicking(scene: Evidence) -> Detection | None:
    """C12. A spec that brings a machine down again and again is not tried any more."""
    for name, facts in scene.machines():
        if name in scene.rebooted and (facts.panics or 0) >= PANICS_MAX:
            return Detection(f"{name} has panicked {facts.panics} times within an hour", (name,))
    return None


def rebooted(scene: Evidence) -> Detection | None:
    """C12."""
    if scene.symptom is None or not scene.rebooted:
        return None
    return Detection(f"{', '.join(scene.rebooted)} has restarted since", scene.rebooted)


def wedged(scene: Evidence) -> Detection | None:
    """C13."""
    for name, facts in _macs(scene):
        if facts.verbs_answer is False:
            return Detection(f"the RDMA tools of {name} do not come back", (name,))
    return None


def no_route(scene: Evidence) -> Detection | None:
    """C14."""
    for name, facts in scene.machines():
        if scene.symptom is None and facts.launch_context is False:
            return Detection(f"ranks on {name} may not use the local network", (name,))
    return _ended(scene, ExitCode.NO_ROUTE)


def idle_decay(scene: Evidence) -> Detection | None:
    """C15. The first use after a long rest fails."""
    idle = scene.verbs and scene.proven and scene.idle_seconds >= IDLE_DECAY_SECONDS
    failed = scene.symptom is not None and (
        scene.code in (ExitCode.VERBS, ExitCode.KERNEL_OBJECTS, ExitCode.PEER_LOST)
        or scene.symptom.cause is Cause.STALLED
    )
    if not idle or not failed or scene.symptom is None:
        return None
    minutes = scene.idle_seconds / 60
    return Detection(f"nobody had asked for {minutes:.0f} min: {scene.symptom.text}")


def wrong_group(scene: Evidence) -> Detection | None:
    """C16."""
    return _ended(scene, ExitCode.WRONG_GROUP)


def no_completion(scene: Evidence) -> Detection | None:
    """C17."""
    wedged_above = scene.symptom is not None and scene.symptom.cause is Cause.PROOF_FAILED
    return _symptom(scene) if wedged_above else None


# --- what sights are made of -----------------------------------------------------------------------


def _symptom(scene: Evidence) -> Detection | None:
    if scene.symptom is None:
        return None
    return Detection(scene.symptom.text, (scene.first.node,) if scene.first else ())


def _ended(scene: Evidence, *codes: int) -> Detection | None:
    return _symptom(scene) if scene.symptom is not None and scene.code in codes else None


def _macs(scene: Evidence) -> Iterable[tuple[NodeName, MachineFacts]]:
    """The machines that RDMA is expected of."""
    return scene.machines() if scene.verbs else ()


def _ports(scene: Evidence) -> Iterator[tuple[NodeObservation, PortFacts]]:
    """Ports that lead to other nodes of the scene, or to any where it is about one machine."""
    if not scene.verbs:
        return
    names = {node.name for node in scene.nodes}
    for node in sorted(scene.nodes, key=lambda node: node.name):
        for port in node.facts.ports:
            if port.peer and (len(names) == 1 or port.peer[0] in names):
                yield node, port


def _cabled(node: NodeObservation) -> bool:
    """Whether it is known of every port of a machine where its cable leads."""
    ports = node.facts.ports
    return bool(ports) and all(port.connected is False or port.peer for port in ports)


def _flaw(port: PortFacts, verbs: bool) -> str:
    if port.bridged:
        return "is a member of a bridge"
    if port.address == "":
        return "has no IPv4 address"
    if verbs and port.mapped_gid is False:
        return "has no IPv4-mapped GID"
    return ""


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
