"""No controller takes more replicas out of service by its own will than ``strategy.maxUnavailable`` allows, whatever it
has forgotten.

A replica serves if the ranks say so: all of its group are up, rank 0 has answered a completion, and the gateway has been
sent there. Neither the store nor a plan is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from reconciler.inventory.collector import OBSERVE_SECONDS_MAX
from reconciler.resources import Manifest, ModelDeployment
from reconciler.state import WorkloadId
from reconciler.wire.launch import Phase
from tests.simulation.world.pace import BUSY

from .pruning import REASONS_KEPT_SECONDS, replica_of

if TYPE_CHECKING:
    from tests.simulation.world.ranks import Rank
    from tests.simulation.world.world import World

NEWS_SECONDS = BUSY.resync_seconds + OBSERVE_SECONDS_MAX + 0.5
"""So late a controller may come to know that a replica is out of service: it asks, gets no answer, and makes a plan."""


class Availability:
    """Told of every rank that is asked to end, before it is."""

    def __init__(self, world: World, violated: Callable[[str], None]) -> None:
        self._world = world
        self._violated = violated
        self._served_at: dict[WorkloadId, float] = {}
        """When each replica was last seen to be well, or to be so no more."""
        self._last: set[WorkloadId] = set()
        self._taken: dict[WorkloadId, int] = {}
        """Those that a controller has taken out of service since, each with the epoch that it took."""
        self._well_once: set[tuple[WorkloadId, int]] = set()
        self._routed: set[tuple[WorkloadId, int]] = set()
        """The epochs that the gateway was ever sent to: nobody misses another one."""
        self._routes: dict[WorkloadId, int] = {}
        self._let_go: set[tuple[WorkloadId, int]] = set()
        """The epochs that are well, and to which the gateway is sent no more; enough others served when that was decided."""
        self._befallen: dict[WorkloadId, float] = {}
        self._committed_at = -math.inf

    def befallen(self, replica: WorkloadId, at: float) -> None:
        """Something was done to a replica for which its group may have to go, however many others serve."""
        self._befallen[replica] = at

    def committed(self) -> None:
        """There are other manifests, which a controller learns of a moment later."""
        self._committed_at = self._world.loop.now

    def started(self, rank: Rank) -> None:
        """A rank begins. After the loss of a store, epochs are counted from one: the new group is another one."""
        replica, epoch = replica_of(rank.id), rank.id.epoch
        if epoch <= self._taken.get(replica, 0):
            self._taken[replica] = epoch - 1
            self._well_once.discard((replica, epoch))
            self._routed.discard((replica, epoch))

    def look(self) -> None:
        """Something may have come into service, or gone out of it."""
        self._routed |= set(self._world.routed().items())
        epochs = {(replica_of(rank.id), rank.id.epoch) for rank in self._world.ranks() if self._is_well(rank)}
        self._well_once |= epochs
        well = {replica for replica, _ in epochs}
        self._served_at |= dict.fromkeys(self._last | well, self._world.loop.now)
        for replica, epoch in self._routed & self._well_once:
            if epoch > self._taken.get(replica, epoch):
                del self._taken[replica]
        self._last = well
        routes = self._world.routed()
        for each in routes.items() - self._routes.items():
            self._let_go.discard(each)
        for each in self._routes.items() - routes.items():
            if each in epochs and not self._lack_without(each[0]):
                self._let_go.add(each)
        self._routes = routes

    def terminated(self, rank: Rank) -> None:
        """A rank is asked to end."""
        replica, now = replica_of(rank.id), self._world.loop.now
        if not self._serves(rank) or self._world.stopping:
            return
        self.look()
        lack = self._lack_without(replica)
        self._taken[replica] = rank.id.epoch
        befallen = now - self._befallen.get(replica, -REASONS_KEPT_SECONDS) < REASONS_KEPT_SECONDS
        if lack and not befallen and (replica, rank.id.epoch) not in self._let_go:
            self._violated(f"{rank} on {rank.node} serves, and was asked to end while {lack}")

    def replaced(self, replica: WorkloadId) -> None:
        """Another epoch of a replica is written: the one before goes, whatever befalls others in the meantime."""
        epoch = self._routes.get(replica)
        if epoch is not None and not self._lack_without(replica):
            self._let_go.add((replica, epoch))

    def _lack_without(self, replica: WorkloadId) -> str:
        """Return how many serve beside a replica, and are to, where they are too few; empty where they are enough."""
        now = self._world.loop.now
        recent = now - self._committed_at < REASONS_KEPT_SECONDS
        commits = self._world.commits[-2:] if recent else self._world.commits[-1:]
        least = min((self._least(manifests, replica) for manifests in commits), default=0)
        left = {
            each
            for each, at in self._served_at.items()
            if each.key == replica.key and each not in {*self._taken, replica} and now - at < NEWS_SECONDS
        }
        names = sorted(map(str, left))
        return f"{names} serve besides: at least {least} are to" if len(left) < least else ""

    def was_routed(self, rank: Rank) -> bool:
        """Return whether the gateway was ever sent to its group."""
        return (replica_of(rank.id), rank.id.epoch) in self._routed

    def _serves(self, rank: Rank) -> bool:
        return self.was_routed(rank) and self._is_well(rank)

    def _is_well(self, rank: Rank) -> bool:
        """Return whether its group serves as soon as it is routed to."""
        group = [rank, *self._world.group_of(rank)]
        return (
            len(group) == rank.config.size
            and any(each.answered for each in group)
            and all(
                r.phase == Phase.READY and not r.stuck and not r.stopped and r.machine.reachable
                for r in group
            )
        )

    def _least(self, manifests: tuple[Manifest, ...], replica: WorkloadId) -> int:
        """So many replicas are to serve whatever is done; 0 where a replica is not wanted."""
        for each in manifests:
            if isinstance(each, ModelDeployment) and each.metadata.name == replica.key.name:
                count, strategy = each.spec.replicas, each.spec.strategy
                return strategy.least(count) if replica.index < count + strategy.extra(count) else 0
        return 0
