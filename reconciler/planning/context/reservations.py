"""Reservations of ports, cables and memory for groups.

The steps of a decision say what it takes. Only kept decisions are reserved, so that a group that is tried out and
dropped takes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.state import AllocateEpoch, GroupRecord, WorkloadId
from reconciler.state.job_steps import CreateRun

from . import tcp_ports
from .decision import Decision
from .memory_ledger import Ledger
from .world import World


@dataclass(frozen=True)
class Reservations:
    """Everything that is taken at one point of a pass. A value: keeping a decision gives another one."""

    world: World
    """It has the recorded groups and those decided on, whose ports and cables are taken."""
    ledger: Ledger
    """It has the memory charged to them."""

    @classmethod
    def of(cls, world: World) -> Reservations:
        """Reserve what the groups of the store and the living ranks have."""
        return cls(world, Ledger.of(world))

    def kept(self, decision: Decision) -> Reservations:
        """Reserve what a decision takes. Without a new group this is the same value."""
        taken = self
        for step in decision.steps:
            if isinstance(step, AllocateEpoch | CreateRun) and step.group is not None:
                taken = taken._with(step.group)
        return taken

    def _with(self, record: GroupRecord) -> Reservations:
        world = self.world.decided(groups={**self.world.memory.groups, record.workload: record})
        return Reservations(world, self.ledger.moved(record.workload, record.members, record.charges))


def first_ports(world: World, workload: WorkloadId, epoch: int, ranks: int) -> int:
    """Draw the ports of a new group, one for each rank and one to control it; return the first of them."""
    return tcp_ports.first_ports(f"{world.entropy}/ports of {workload}/{epoch}", ranks + 1, _ports(world))


def _ports(world: World) -> Iterator[range]:
    """Yield the ports of every group that is recorded or may live."""
    for record in world.memory.groups.values():
        yield range(record.port, record.port + len(record.members) + 1)
    for rank in world.observed.ranks():
        if rank.alive:
            yield range(rank.report.port, rank.report.port + rank.report.size + 1)
