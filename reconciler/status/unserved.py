"""Deployments that nothing serves, and gateways that do not run or listen, although no machine and no group is at fault:
too little memory, no weights, a hub that refuses them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from reconciler.state import DeploymentName, Plan, Refusal, RefusedBecause, ReplicaId, Sign, Trouble
from reconciler.state.identity import ObjectKey
from reconciler.state.plan import GatewayRefusal
from reconciler.state.subjects import (
    GatewaySubject,
    LinkSubject,
    NodeSubject,
    OtherSubject,
    ReplicaSubject,
    Subject,
)
from reconciler.wire.launch import RankId

from .awaited import AS_WISHED
from .model_routes import serving
from .snapshots import Snapshots, Statuses

UNSERVED_SECONDS = 60.0
"""Time for which a refusal has to last: a push of several changes, or the start of everything, is no incident."""
OF_MACHINES = (
    RefusedBecause.NO_NODES,
    RefusedBecause.NODES_DIFFER,
    RefusedBecause.NO_RUNTIME,
    RefusedBecause.RUNTIME_UNAVAILABLE,
    RefusedBecause.NO_TRANSPORT,
    RefusedBecause.CRASH_LOOP,
)
"""Refusals whose cause may be a machine."""


@dataclass(frozen=True, slots=True)
class Unserved:
    """An object that serves nobody because what it needs is refused. It is read as a ``Trouble`` is."""

    object: ObjectKey
    subject: Subject
    refusal: Refusal
    since: float
    """Time of the refusal, in seconds since the Unix epoch."""
    doing: str = ""
    """Empty: the controller looks again by itself, and can do nothing else."""
    rank: RankId | None = None
    """None: no rank is at fault."""

    @property
    def fault(self) -> RefusedBecause:
        return self.refusal.reason

    @property
    def seen(self) -> str:
        return self.refusal.text

    @property
    def person(self) -> str:
        """Return the steps that only a person can take; the reason itself where it names them."""
        return self.refusal.person or self.refusal.text

    @property
    def sign(self) -> Sign:
        return (self.fault.value,)


def unserved(snapshots: Snapshots, statuses: Statuses) -> Iterator[Unserved]:
    """Yield what is refused for longer than ``UNSERVED_SECONDS`` and keeps a deployment, or a gateway, from serving,
    unless a machine or cable explains it. ``statuses`` know since when."""
    plan, gateway = snapshots.plan, snapshots.desired.gateway
    refused = {each.object: each for each in reversed(plan.refused) if not isinstance(each, GatewayRefusal)}
    found: list[tuple[ObjectKey, Subject, Refusal | None]] = [
        (ObjectKey("ModelDeployment", name), _subject(name, plan), _of_deployment(name, refused, snapshots))
        for name in sorted(snapshots.desired.deployments)
    ]
    if gateway is not None:
        key = ObjectKey("Gateway", gateway.metadata.name)
        found.append((key, OtherSubject(str(key)), refused.get(key)))
    found += [
        (each.object, GatewaySubject(each.node), each)
        for each in plan.refused
        if isinstance(each, GatewayRefusal)
    ]
    for key, subject, refusal in found:
        since = _since(refusal, snapshots, statuses) if refusal is not None else None
        if refusal is not None and since is not None and snapshots.now - since >= UNSERVED_SECONDS:
            yield Unserved(key, subject, refusal, since)


def with_tasks(troubles: Iterable[Trouble], found: Iterable[Unserved]) -> Iterator[Trouble | Unserved]:
    """Yield both, with one of each subject: the trouble of a group that is refused has the task that ends the refusal."""
    of_subject = {each.subject: each for each in found}
    told = set[Subject]()
    for trouble in troubles:
        told.add(trouble.subject)
        also = of_subject.get(trouble.subject)
        if also is None or trouble.person:
            yield trouble
        else:
            yield replace(trouble, person=also.refusal.told, task=also.sign)
    yield from (each for subject, each in of_subject.items() if subject not in told)


def _of_deployment(
    name: DeploymentName, refused: Mapping[ObjectKey, Refusal], snapshots: Snapshots
) -> Refusal | None:
    """Return the refusal that keeps every replica of a deployment from being formed, or its weights from being fetched.
    None if a replica serves or is on its way, or a machine or cable explains it."""
    memory, plan, deployment = snapshots.memory, snapshots.plan, snapshots.desired.deployments[name]
    if any(serving(record, snapshots.observed) is not None for record in memory.groups_of(name)):
        return None
    wanted = {ReplicaId(name, index) for index in range(deployment.spec.replicas)}
    of_replicas = {each.workload: each for each in reversed(plan.refused) if each.reason not in AS_WISHED}
    if not wanted:
        return None
    found = of_replicas[min(wanted)] if wanted <= of_replicas.keys() else None
    if found is None or found.reason is RefusedBecause.WEIGHTS_MISSING:
        found = refused.get(ObjectKey("Model", deployment.spec.model), found)
    if found is None or found.reason is RefusedBecause.CRASH_LOOP:
        return None  # it is tried again, and its trouble tells why
    causes = (NodeSubject, LinkSubject) if found.reason in OF_MACHINES else ()
    return None if any(isinstance(each.subject, causes) for each in plan.troubles) else found


def _subject(name: DeploymentName, plan: Plan) -> ReplicaSubject:
    """Return the replica whose incident it is: the first one that has a trouble, if any has."""
    subjects = (each.subject for each in plan.troubles)
    own = (each for each in subjects if isinstance(each, ReplicaSubject) and each.replica.deployment == name)
    return next(own, ReplicaSubject(ReplicaId(name, 0)))


def _since(refusal: Refusal, snapshots: Snapshots, statuses: Statuses) -> float | None:
    """Return since when an object cannot become ready, or the gateway of a node does not serve; None if that is not known
    yet."""
    if isinstance(refusal, GatewayRefusal):
        seen = snapshots.observed.gateways_on_nodes.get(refusal.node)
        return None if seen is None else snapshots.now - max(seen.failing_seconds, seen.ending_seconds)
    known = statuses.get(refusal.object)
    stalled = known.condition("Stalled") if known is not None else None
    return stalled.since if stalled is not None and stalled.status else None
