"""Counts the replicas of a deployment that serve, and those that may be taken out of service now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

from reconciler.planning.context.deadlines import SILENCE_SECONDS
from reconciler.planning.context.lost_nodes import is_lost
from reconciler.planning.context.world import World
from reconciler.state import DeploymentName, GroupRecord, ReplicaId
from reconciler.wire.launch import Phase

WATCHED_SECONDS = SILENCE_SECONDS + 2.0
"""An agent asks its rank as soon as it starts, and reports a silence of ``SILENCE_SECONDS`` at once."""


class Because(Enum):
    """Why a replica does not serve, or is about to stop, in words that follow its name."""

    NO_GROUP = "has no group"
    IN_FLIGHT = "is being changed"
    COMES_UP = "comes up"
    LEAVES = "leaves {node}"
    """It has to leave a drained node, and serves until it does."""
    SILENT = "does not answer"
    LOST_RANK = "has lost a rank"
    UNREADY = "does not serve"
    STOPPING = "is being stopped"


@dataclass(frozen=True, slots=True)
class Absence:
    """The reason why one replica does not serve, or is about to stop."""

    because: Because
    node: str = ""
    """The node that it leaves."""

    def __str__(self) -> str:
        return self.because.value.format(node=self.node)


@dataclass(frozen=True)
class Budget:
    """The replicas of one deployment, as they are at a decision."""

    name: DeploymentName
    replicas: tuple[ReplicaId, ...]
    """All that the manifests ask for, in order."""
    out: Mapping[ReplicaId, Absence]
    """Those that do not serve, or are about to stop; extra ones too."""
    least: int
    """The number that must serve at any moment."""
    extra: tuple[ReplicaId, ...] = ()
    """The extra replicas that are there, in order."""
    doubtful: Mapping[ReplicaId, str] = field(default_factory=dict)
    """Those that probably serve, each with the reason for the doubt. A replica that owes an answer for longer
    than a healthy one, or that no agent has watched for as long, may hang. No client reaches one without a route."""
    until: float | None = None
    """The time when the last agent that has just started has watched its ranks for long enough; None if none has to."""

    @classmethod
    def of(cls, world: World, name: DeploymentName, extra: tuple[ReplicaId, ...] = ()) -> Budget:
        """Count the replicas of a deployment of the manifests, with extra ones that are there."""
        spec = world.desired.deployments[name].spec
        replicas = tuple(ReplicaId(name, index) for index in range(spec.replicas))
        out = {replica: why for replica in (*replicas, *extra) if (why := _out(world, replica))}
        serving = [each for each in (*replicas, *extra) if each not in out]
        doubtful = {each: doubt for each in serving if (doubt := _doubt(world, each))}
        watched = (_watched_at(world, each) for each in doubtful)
        until = max((at for at in watched if at > world.now), default=None)
        return cls(name, replicas, out, spec.strategy.least(spec.replicas), extra, doubtful, until)

    @cached_property
    def available(self) -> frozenset[ReplicaId]:
        return frozenset((*self.replicas, *self.extra)) - self.out.keys()

    @cached_property
    def certain(self) -> frozenset[ReplicaId]:
        return self.available - self.doubtful.keys()

    @property
    def spare(self) -> int:
        """Return how many more replicas may be taken out of service now; not above zero if none may be."""
        return len(self.certain) - self.least

    def lets(self, replica: ReplicaId) -> bool:
        """Return whether a replica may be taken out of service now. One in doubt may be while enough others serve."""
        if replica in self.out:
            return True
        return self.spare >= 0 if replica in self.doubtful else self.spare > 0

    @property
    def text(self) -> str:
        """Say what a replica waits for before it may be taken out of service."""
        count = len(self.replicas)
        rule = f"at most {count - self.least} of {count} replicas may be out of service at a time"
        names = ", ".join(f"{replica} {self.why(replica)}" for replica in (*self.out, *sorted(self.doubtful)))
        return f"{rule}, and {names}" if names else rule

    def why(self, replica: ReplicaId) -> str:
        return str(self.out[replica]) if replica in self.out else self.doubtful[replica]


def spare(world: World, name: DeploymentName) -> Budget:
    """Return the budget of a deployment, as decided so far in this pass."""
    return world.once_as_decided(Budget.of, name)


def before_leaving(world: World, name: DeploymentName) -> Budget:
    """Return the same for a replica that is to leave a drained node: those that are to leave still serve, and go one
    after the other. One may always go, because a person has asked for that."""
    found = spare(world, name)
    staying = {each: why for each, why in found.out.items() if why.because is not Because.LEAVES}
    return replace(found, out=staying, least=min(found.least, max(0, len(found.replicas) - 1)))


def serves(world: World, replica: ReplicaId) -> bool:
    """Return whether a replica serves without a doubt, whatever is to become of it."""
    record = world.memory.groups.get(replica)
    if record is None or record.proven_at is None or f"replica/{replica}" in world.memory.in_flight:
        return False
    return not (_unwell(world, record) or _owes(world, replica))


def _out(world: World, replica: ReplicaId) -> Absence | None:
    """Return why a replica does not serve, or is about to stop; None if it serves."""
    record = world.memory.groups.get(replica)
    if record is None:
        return Absence(Because.NO_GROUP)
    if f"replica/{replica}" in world.memory.in_flight:
        return Absence(Because.IN_FLIGHT)
    if record.proven_at is None:
        return Absence(Because.COMES_UP)
    return _unwell(world, record) or _leaving(world, record)


def _unwell(world: World, record: GroupRecord) -> Absence | None:
    if any(is_lost(world, name) or world.node(name).silent for name in record.members):
        return Absence(Because.SILENT)
    ranks = world.observed.group(record)
    for number in range(len(record.members)):
        rank = ranks.get(number)
        if rank is None or not rank.alive or rank.killed:
            return Absence(Because.LOST_RANK)
        if rank.report.phase != Phase.READY or rank.report.stopped:
            return Absence(Because.UNREADY)
        if rank.report.id in world.memory.stops:
            return Absence(Because.STOPPING)
    return None


def _doubt(world: World, replica: ReplicaId) -> str:
    """Say why a replica that seems to serve may not; empty if there is no such reason."""
    if why := _owes(world, replica) or _unrouted(world, replica) or _unwatched(world, replica):
        return why
    begun = _watched_at(world, replica) - WATCHED_SECONDS
    return (
        f"is watched for less than {WATCHED_SECONDS:g} s" if 0 <= world.now - begun < WATCHED_SECONDS else ""
    )


def _unwatched(world: World, replica: ReplicaId) -> str:
    """Say which agent cannot tell now that a rank has ended, or its machine has restarted; empty if all can."""
    members = world.memory.groups[replica].members
    return next((f"is not watched by {name}" for name in members if not world.reached(name)), "")


def _watched_at(world: World, replica: ReplicaId) -> float:
    """Return the time from which a replica is known to take requests, or not to: an agent that has just started has to ask first."""
    return world.node(world.memory.groups[replica].members[0]).since + WATCHED_SECONDS


def _unrouted(world: World, replica: ReplicaId) -> str:
    """Say that no client reaches a replica: its route is not written yet, or could not be; empty if it is."""
    published = world.memory.published
    known = published is None or (replica, world.memory.groups[replica].epoch) in published
    return "" if known else "has no route yet"


def _owes(world: World, replica: ReplicaId) -> str:
    """Say that a replica owes its clients an answer; empty if it does not."""
    first = world.observed.group(world.memory.groups[replica]).get(0)
    owes = (
        first is not None and max(first.report.silent_seconds, first.report.deaf_seconds) >= SILENCE_SECONDS
    )
    return "owes its clients an answer" if owes else ""


def _leaving(world: World, record: GroupRecord) -> Absence | None:
    nodes = world.desired.nodes
    drained = (name for name in record.members if name in nodes and nodes[name].spec.drain)
    return next((Absence(Because.LEAVES, name) for name in drained), None)
