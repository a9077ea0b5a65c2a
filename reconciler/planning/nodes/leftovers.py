"""Leftovers of ranks on a node: processes, ports, protection domains, wired memory.

Only what is proven to be left keeps new ranks away. An agent that cannot say, and a machine whose probes do not tell, are
used as before, because nothing there points to leftovers. Without RDMA devices there is nothing to prove about protection
domains, and on Linux nothing about wired memory: there both end with their process.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.planning.context.memory_needs import gib
from reconciler.planning.context.world import World
from reconciler.planning.diagnosis.detectors import WIRED_EXCESS_BYTES
from reconciler.state import FaultClass, MachineFacts, NodeName, ObservedRank, Sign
from reconciler.wire.node import Gone

SETTLE_SECONDS = 60.0
"""Time for the system to free what a rank held. After that, only a person can."""
REPORT_AFTER_SECONDS = 5.0
"""Time after which leftovers are reported: most are gone in an instant."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something that is proven to be left."""

    fault: FaultClass
    reason: str
    """CamelCase, for programs."""
    text: str
    seconds: float
    """Time since it was left, as far as known."""
    person: str
    rank: str = ""
    """Id of the rank that left it, where it is known."""

    @property
    def sign(self) -> Sign:
        return self.reason, self.rank


def leftovers(world: World, name: NodeName) -> Iterator[Leftover]:
    """List everything that is proven to be left on a node."""
    for rank in _ended(world, name):
        if has_leftovers(rank):
            yield _rank_leftover(rank)
    facts = world.node(name).facts
    domains = facts.protection_domains if _has_devices(facts) else None
    wired = facts.wired_excess_bytes if _may_be_mac(facts) else None
    if domains:
        text = f"processes other than its ranks hold {domains} protection domains there"
        person = (
            f"end what holds them on {name} (ioreg -r -c AppleThunderboltIPPort -l shows each holder's pid as"
            " IOUserClientCreator); where no process holds them, restart the machine"
        )
        yield Leftover(
            FaultClass.KERNEL_OBJECTS, "ProtectionDomainsHeld", text, _settled(world, name), person
        )
    if wired and wired > WIRED_EXCESS_BYTES:
        text = f"ranks that ended did not free {gib(wired)} of wired memory"
        person = f"restart {name}: nothing else frees wired memory of no process"
        yield Leftover(FaultClass.WIRED_MEMORY, "WiredMemoryHeld", text, math.inf, person)


def has_leftovers(rank: ObservedRank) -> bool:
    """Return whether something of an ended rank is left, or may be because the check has not finished."""
    return rank.report.gone in (Gone.NO, Gone.PENDING)


def _rank_leftover(rank: ObservedRank) -> Leftover:
    report = rank.report
    ended = f"ended and left {report.kept}" if report.kept else "just ended"
    text = f"{rank.title}, has {ended}"
    person = (
        f"end what it left on {rank.node} ({report.kept}), with kill -9; a process in state U or D ends only with"
        " a restart of the machine"
    )
    return Leftover(
        FaultClass.KERNEL_OBJECTS, "RankRemains", text, report.ended_seconds, person, str(report.id)
    )


def _ended(world: World, name: NodeName) -> list[ObservedRank]:
    return [rank for rank in world.observed.ranks_on(name) if not rank.alive]


def _settled(world: World, name: NodeName) -> float:
    """Return how many seconds ago a rank last ended there."""
    return min((rank.report.ended_seconds for rank in _ended(world, name)), default=math.inf)


def _has_devices(facts: MachineFacts) -> bool:
    """Return whether the machine may have RDMA devices. Only the system, or its ports, can say that it has none."""
    return _may_be_mac(facts) and (not facts.ports or any(port.device for port in facts.ports))


def _may_be_mac(facts: MachineFacts) -> bool:
    return facts.system in ("", "Darwin")
