"""Seconds of service that each replica loses, and whether the faults that befell the world explain them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from reconciler.state import WorkloadId
from reconciler.wire.launch import Phase

from .bounds import (
    CEILING_SECONDS,
    EARLY_DEATHS,
    FORMING_SECONDS,
    OTHER_SECONDS,
    SERVICE_LOST_SECONDS,
)
from .pruning import replica_of

if TYPE_CHECKING:
    from tests.simulation.world.world import World

BEFORE_SECONDS = 300.0
"""A fault may take effect so late: a slow load, a stall, a repair that has to be confirmed."""
HOUR_SECONDS = 3600.0


class Service:
    """Told of every fault, and of everything by which a replica may come into service or go out of it."""

    def __init__(self, world: World, violated: Callable[[str], None]) -> None:
        self._world = world
        self._violated = violated
        self._faults: list[tuple[float, str]] = []
        self._out: dict[WorkloadId, float] = {}
        """Since when replicas are out of service that have been in it, and should be."""
        self._known: set[WorkloadId] = set()
        self.longest = 0.0
        """Seconds of the longest time out of service."""

    def fault(self, name: str) -> None:
        """Something befalls the world."""
        self._faults.append((self._world.loop.now, name))

    def look(self) -> None:
        """Something may have come into service, or gone out of it."""
        world, now = self._world, self._world.loop.now
        expected, served = world.expected(world.wanted()), self.served()
        world.oracles.availability.look()
        self._known = (self._known | served) & expected
        self._out = {replica: since for replica, since in self._out.items() if replica in expected}
        for replica in sorted(self._known):
            jobs = world.oracles.jobs
            if replica not in served and (jobs.displaces(replica) or jobs.holds_up(replica)):
                self._out[replica] = now  # for a job, until its run has ended
            elif replica not in served:
                self._out.setdefault(replica, now)
            elif replica in self._out:
                self._judge(replica, self._out.pop(replica))

    def served(self) -> set[WorkloadId]:
        """Return the replicas that are routed to and can answer."""
        world, well = self._world, dict[tuple[WorkloadId, int], int]()
        for rank in world.ranks():
            if rank.phase == Phase.READY and not rank.stuck and not rank.stopped and rank.machine.reachable:
                well[replica_of(rank.id), rank.id.epoch] = (
                    well.get((replica_of(rank.id), rank.id.epoch), 0) + 1
                )
        sizes = {(replica_of(rank.id), rank.id.epoch): rank.config.size for rank in world.ranks()}
        return {
            replica
            for replica, epoch in world.routed().items()
            if well.get((replica, epoch), 0) == sizes.get((replica, epoch), -1)
        }

    def _judge(self, replica: WorkloadId, since: float) -> None:
        now = self._world.loop.now
        self.longest = max(self.longest, now - since)
        if now - since > self.allowed(since, now):
            names = [name for at, name in self._faults if since - BEFORE_SECONDS <= at <= now]
            self._violated(
                f"{replica} was out of service for {now - since:.1f} s, and {self.allowed(since, now):g} s are"
                f" explained by {', '.join(names) or 'nothing'}"
            )

    def allowed(self, since: float, until: float) -> float:
        """Return for how long a replica may have been out of service in that time."""
        met = [name for at, name in self._faults if since - BEFORE_SECONDS <= at <= until]
        hour = sum(since - HOUR_SECONDS <= at <= until for at, _ in self._faults)
        back_off = CEILING_SECONDS * max(0, len(met)) if hour >= EARLY_DEATHS else 0.0
        return FORMING_SECONDS + back_off + sum(SERVICE_LOST_SECONDS.get(name, OTHER_SECONDS) for name in met)
