"""Lists unknown facts of a machine, and why: an unknown fact never counts as healthy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from reconciler.state import Contact, MachineFacts, NodeName, NodeObservation, PortFacts
from reconciler.wire.launch import Phase

from .checks import Machine
from .finding import NotKnown

UNREAD = "no probe has reported it yet"
BESIDE_RANKS = "it cannot be distinguished from what its own ranks hold"


@dataclass(frozen=True, slots=True)
class Question:
    """A fact that must be known of every Mac before it counts as healthy."""

    what: str
    answer: Callable[[MachineFacts], object | None]
    """Return the fact; None if it is unknown."""
    probes: tuple[str, ...]
    """Probes of the fact; the first one with a problem is the reason."""
    rdma: bool = False
    """True if it matters only on machines that use RDMA."""
    idle: bool = False
    """True if it can be known only while no rank runs."""


def _leaked(facts: MachineFacts) -> int | None:
    """Return the bytes of wired memory that have leaked. While ranks run, a leak smaller than their memory is unknown."""
    return (
        facts.wired_excess_bytes
        if facts.wired_excess_bytes is not None
        else facts.wired_beside_ranks_bytes or None
    )


QUESTIONS: tuple[Question, ...] = (
    Question("its version of macOS", lambda facts: facts.version or None, ("system version",)),
    Question("whether its MLX has JACCL", lambda facts: facts.jaccl, ("MLX",), rdma=True),
    Question("how much memory its GPU may wire", lambda facts: facts.gpu_bytes, ("MLX", "settings")),
    Question("whether RDMA is on", lambda facts: facts.rdma_enabled, ("RDMA", "RDMA setting"), rdma=True),
    Question("its Thunderbolt ports", lambda facts: facts.ports or None, ("Thunderbolt", "hardware ports")),
    Question(
        "whether its RDMA tools answer", lambda facts: facts.verbs_answer, ("RDMA ports", "RDMA devices"), rdma=True
    ),
    Question(
        "what is held of the RDMA driver", lambda facts: facts.protection_domains, ("kernel objects",),
        rdma=True, idle=True,
    ),
    Question("leaked wired memory", _leaked, ("pages",), idle=True),
    Question("whether it panicked lately", lambda facts: facts.panics, ("panic reports",)),
    Question("whether ranks may use the local network", lambda facts: facts.launch_context, ("agent's job",)),
    Question("left processes of ranks", lambda facts: facts.stray_ranks, ("rank processes",)),
    Question("whether it falls asleep", lambda facts: facts.sleeps, ("power settings",)),
    Question("whether FileVault is on", lambda facts: facts.filevault, ("FileVault",)),
    Question("whether an organisation manages it", lambda facts: facts.managed, ("enrolment",)),
    Question("whether heat slows it down", lambda facts: facts.throttled, ("power",)),
    Question("its use of swap", lambda facts: facts.swap_used_bytes, ("settings",)),
    Question("the room on its disk", lambda facts: facts.disk_free_bytes, ("disk",)),
)  # fmt: skip

PORT: tuple[tuple[str, Callable[[PortFacts], object | None], str, bool], ...] = (
    ("whether anything is connected to", lambda port: port.connected, "Thunderbolt", False),
    ("the interface of", lambda port: port.interface or None, "hardware ports", True),
    ("the speed of", lambda port: port.gbps, "Thunderbolt", True),
    ("whether a bridge has", lambda port: port.bridged, "interfaces", True),
    ("the IPv4 address of", lambda port: port.address, "interfaces", True),
    ("whether the link is up at", lambda port: port.active, "interfaces", True),
    ("whether RDMA is up at", lambda port: port.verbs_up if port.device else True, "RDMA ports", True),
    ("the GID of", lambda port: port.mapped_gid if port.device else True, "RDMA ports", True),
)
"""The facts of a port, their probes, and whether they matter only if something is connected."""


def unknowns(machine: Machine) -> Iterator[NotKnown]:
    seen = machine.seen
    if seen.contact is not Contact.REACHED or seen.report is None:
        yield NotKnown(seen.name, "everything", seen.problem or "it has not been contacted yet")
        return
    yield from _reported(seen)
    if seen.report.system != "Darwin":
        return
    if not seen.facts.system or not seen.probed:
        yield NotKnown(seen.name, "all facts from its probes", "they have not run since it booted")
        return
    yield from _unread_probes(machine)


def _reported(seen: NodeObservation) -> Iterator[NotKnown]:
    """Yield what is missing from its agent's report."""
    assert seen.report is not None
    if seen.report.runtime is None:
        yield NotKnown(seen.name, "its versions of MLX", "its Python has not been checked yet")
    if seen.report.load is None:
        yield NotKnown(seen.name, "its clock and the memory in use", "its agent has not measured yet")


def _unread_probes(machine: Machine) -> Iterator[NotKnown]:
    seen, why = machine.seen, dict(machine.facts.unknown)
    assert seen.report is not None
    busy = any(rank.phase != Phase.EXITED for rank in seen.report.ranks)
    covered: set[str] = set()
    for question in QUESTIONS:
        covered.update(question.probes)
        if question.answer(machine.facts) is not None or (question.rdma and not machine.rdma):
            continue
        reason = next((why[probe] for probe in question.probes if probe in why), "")
        yield NotKnown(
            seen.name, question.what, reason or (BESIDE_RANKS if question.idle and busy else UNREAD)
        )
    yield from _ports(seen.name, machine, why)
    for probe in sorted(why.keys() - covered - {source for _, _, source, _ in PORT}):
        if machine.rdma or not probe.startswith("RDMA"):
            yield NotKnown(seen.name, probe, why[probe])


def _ports(name: NodeName, machine: Machine, why: dict[str, str]) -> Iterator[NotKnown]:
    for port in machine.facts.ports if machine.rdma else ():
        for what, answer, source, connected in PORT:
            if answer(port) is None and (port.connected or not connected):
                yield NotKnown(name, f"{what} port {port.receptacle}", why.get(source, UNREAD))
