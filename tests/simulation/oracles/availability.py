"""A replica that serves is taken out of service only while so many others serve as its deployment asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from reconciler.resources import Manifest, ModelDeployment
from reconciler.state import ReplicaId
from reconciler.wire.launch import Phase

from .pruning import REASONS_KEPT_SECONDS, replica_of

if TYPE_CHECKING:
    from tests.simulation.world.ranks import Rank
    from tests.simulation.world.world import World

NEWS_SECONDS = 15.5
"""So late a controller may come to know that a replica is out of service."""


class Availability:
    """Told of every rank that is asked to end, before it is."""

    def __init__(self, world: World, violated: Callable[[str], None]) -> None:
        self._world = world
        self._violated = violated
        self._served_at: dict[ReplicaId, float] = {}
        """When each replica was last seen to serve."""
        self._taken: set[ReplicaId] = set()
        """Those that a controller has taken out of service since."""
        self._routed: set[tuple[ReplicaId, int]] = set()
        """The epochs that have ever served: one that has not been proven is no loss."""
        self._befallen: dict[ReplicaId, float] = {}

    def befallen(self, replica: ReplicaId, at: float) -> None:
        """Something was done to a replica for which its group may have to go, however many others serve."""
        self._befallen[replica] = at

    def look(self, served: set[ReplicaId]) -> None:
        """So many serve now."""
        self._served_at |= dict.fromkeys(served, self._world.loop.now)
        self._taken -= served
        routed = self._world.routed()
        self._routed |= {(replica, routed[replica]) for replica in served}

    def terminated(self, rank: Rank) -> None:
        """A rank is asked to end."""
        replica, now = replica_of(rank.id), self._world.loop.now
        if not self._serves(rank) or self._world.stopping or (replica, rank.id.epoch) not in self._routed:
            return
        if now - self._befallen.get(replica, -REASONS_KEPT_SECONDS) < REASONS_KEPT_SECONDS:
            return
        least = min((self._least(manifests, replica) for manifests in self._world.commits[-2:]), default=0)
        served = self._world.oracles.service.served()
        left = {
            each
            for each, at in {**self._served_at, **dict.fromkeys(served, now)}.items()
            if each.deployment == replica.deployment
            and each != replica
            and each not in self._taken
            and (each in served or now - at < NEWS_SECONDS)
        }
        self._taken.add(replica)
        if len(left) < least:
            self._violated(
                f"{rank} on {rank.node} serves, and was asked to end while {sorted(map(str, left))} serve besides: at"
                f" least {least} are to"
            )

    def _serves(self, rank: Rank) -> bool:
        group = [rank, *self._world.group_of(rank)]
        return len(group) == rank.config.size and all(
            r.phase == Phase.READY and not r.hung and not r.stopped and r.machine.reachable for r in group
        )

    def _least(self, manifests: tuple[Manifest, ...], replica: ReplicaId) -> int:
        """So many replicas are to serve whatever is done; 0 where a replica is not wanted, or is on a drained node."""
        for each in manifests:
            if isinstance(each, ModelDeployment) and each.metadata.name == replica.deployment:
                count, strategy = each.spec.replicas, each.spec.strategy
                return strategy.least(count) if replica.index < count + strategy.extra(count) else 0
        return 0
