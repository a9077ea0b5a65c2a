"""One replica within its world: what every rule about it asks."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.resources import Health, Model, ModelDeployment
from reconciler.state import GroupRecord, ObservedRank, ReplicaId, Waiting, WaitingFor
from reconciler.wire.launch import ExitCode

from . import group
from .ledger import Ledger
from .world import World


@dataclass(frozen=True, slots=True)
class View:
    """One replica within its world."""

    world: World
    ledger: Ledger
    replica: ReplicaId
    deployment: ModelDeployment | None
    """None when the replica is no longer wanted."""
    model: Model | None
    record: GroupRecord | None
    ranks: tuple[ObservedRank, ...]
    """Of any epoch, on any node."""

    @property
    def alive(self) -> tuple[ObservedRank, ...]:
        return tuple(rank for rank in self.ranks if rank.alive)

    @property
    def current(self) -> dict[int, ObservedRank]:
        """The ranks of the recorded group, by rank."""
        return self.world.observed.group(self.record) if self.record else {}

    @property
    def fingerprint(self) -> str:
        """Of the wish. Only where there is one: a deployment with its model."""
        assert self.deployment is not None
        assert self.model is not None
        return group.fingerprint(self.deployment, self.model)

    @property
    def health(self) -> Health:
        """The bounds of its deployment, or everybody's when that is gone."""
        return self.deployment.spec.health if self.deployment else Health()

    @property
    def ended(self) -> ObservedRank | None:
        """The rank whose end tells most of why the group is dead: not one that merely lost its peers."""
        gone = [rank for rank in self.current.values() if not rank.alive]
        return min(gone, key=_blame, default=None)

    def wait(self, reason: WaitingFor, text: str, until: float | None = None) -> Waiting:
        return Waiting(self.replica.key, reason, f"{self.replica}: {text}", until, self.replica)


def _blame(rank: ObservedRank) -> tuple[bool, float, int]:
    ended = rank.report.exit
    consequence = ended is not None and ended.code in (ExitCode.PEER_LOST, ExitCode.OK)
    return (consequence, ended.at if ended else 0.0, rank.report.id.rank)
