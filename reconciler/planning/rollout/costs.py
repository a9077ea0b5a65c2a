"""Estimates the costs of a change of manifests: what is changed in place, which groups restart, and for how long nobody is
served."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from reconciler.planning.nodes.eligible import suits
from reconciler.planning.transport import fallback
from reconciler.resources import ModelDeployment, Node
from reconciler.state import (
    AllocateEpoch,
    DeploymentName,
    Desired,
    GroupRecord,
    NodeName,
    Plan,
    ReplicaId,
    WaitingFor,
)
from reconciler.state.formed_spec import FormedSpec
from reconciler.state.identity import ObjectKey, WorkloadId

from . import specs


class Kind(Enum):
    """The effect of a change of a deployment on its groups."""

    IN_PLACE = "in place"
    RESTART = "restart with the same weights"
    NEW_WEIGHTS = "restart with new weights"
    OTHER_MODEL = "restart with another model"


@dataclass(frozen=True, slots=True)
class Cost:
    """The change of one deployment."""

    deployment: DeploymentName
    kind: Kind
    changes: tuple[str, ...]
    """The differences, for people: the fields of a change in place, else the reasons to form groups again; empty for a
    requested restart."""
    replicas: tuple[ReplicaId, ...]
    """Those whose groups are replaced."""
    at_once: int
    """Number of them that may be out of service at a time."""
    of: int
    """Number of replicas that the deployment asks for."""
    seconds: float | None
    """Seconds that each of them is out of service: the time that the slowest group took to come up; None if no group has."""
    surge: int = 0
    """Number of extra replicas that may serve meanwhile."""
    room: bool | None = None
    """True if there is room for one; None if that is not known yet."""
    paused: bool = False

    @property
    def unserved_seconds(self) -> float | None:
        """Return for how many seconds nobody is served; 0 if others serve meanwhile, None if it is not known."""
        others = self.at_once < self.of or (self.surge and self.room)
        return 0.0 if others or self.paused or not self.replicas else self.seconds

    @property
    def what(self) -> str:
        return f"{self.kind.value}: {', '.join(self.changes)}" if self.changes else self.kind.value

    @property
    def text(self) -> str:
        """Say what happens and what it costs, for people."""
        what = self.what
        if not self.replicas:
            return what
        each = f"about {duration(self.seconds)}" if self.seconds is not None else "as long as loading takes"
        if self.paused:
            count = f"{len(self.replicas)} of {self.of} replicas"
            return f"{what}; paused: {count} are changed when the rollout is resumed"
        if not self.surge:
            return f"{what}; {self._taken_away(each)}"
        if self.room:
            return (
                f"{what}; an extra replica serves first, so that as many serve as before; each takes {each}"
            )
        if not self.at_once:
            there_is = "there is none" if self.room is False else "if there is any"
            return f"{what}; waits for room for an extra replica ({there_is}), for none may be out of service"
        if self.room is False:
            return f"{what}; no room for an extra replica: {self._taken_away(each)}"
        return f"{what}; an extra replica serves first, where there is room; else {self._taken_away(each)}"

    def _taken_away(self, each: str) -> str:
        """Say what it costs to take replicas out of service."""
        if self.at_once >= self.of:
            return f"not served for {each} (unload, load)"
        turn = "one replica after the other" if self.at_once == 1 else f"{self.at_once} replicas at a time"
        return f"{turn}, each out of service for {each}, the others serve"


def foresee(
    before: Desired, after: Desired, groups: Mapping[WorkloadId, GroupRecord], plan: Plan
) -> Iterator[Cost]:
    """Yield the cost for each deployment that is in both, and whose spec, or whose Model's, differs.

    ``plan``: the first plan for the state after the change; an empty one if none is made yet.
    """
    for name in sorted(before.deployments.keys() & after.deployments.keys()):
        if fields := specs.fields_changed(before, after, name):
            yield _cost(after, name, groups, plan, fields)


def _cost(
    after: Desired,
    name: DeploymentName,
    groups: Mapping[WorkloadId, GroupRecord],
    plan: Plan,
    fields: tuple[str, ...],
) -> Cost:
    deployment, wanted = after.deployments[name], specs.of_manifests(after, name)
    spec = deployment.spec
    records = {r: groups[r] for i in range(spec.replicas) if (r := ReplicaId(name, i)) in groups}
    known = {r: each.spec for r, each in records.items() if each.spec and wanted}
    whys = {r: misfit(after.nodes, deployment, records[r]) for r in known}
    replaced = {r: each for r, each in known.items() if (wanted and _outdated(each, wanted)) or whys[r]}
    first = next(iter(replaced), None)
    oldest = replaced[first] if first else None
    why = (whys[first],) if first and whys[first] else ()
    took = [each.proven_at - each.created_at for each in records.values() if each.proven_at and each.secret]
    return Cost(
        name,
        kind(oldest, wanted) if oldest and wanted else Kind.IN_PLACE,
        (tuple(map(str, specs.changes(oldest, wanted))) or why) if oldest and wanted else fields,
        tuple(replaced),
        spec.replicas - spec.strategy.least(spec.replicas),
        spec.replicas,
        max(took, default=None),
        spec.strategy.extra(spec.replicas),
        _room(plan, name, spec.replicas),
        spec.paused,
    )


def _room(plan: Plan, name: DeploymentName, replicas: int) -> bool | None:
    """Return whether a plan has room for an extra replica; None if it does not say so yet."""

    key = ObjectKey("ModelDeployment", name)

    def extra(workload: WorkloadId | None) -> bool:
        return workload is not None and workload.key == key and workload.index >= replicas

    if any(isinstance(step, AllocateEpoch) and extra(step.workload) for step in plan.steps):
        return True
    refused = (each for each in plan.waiting if each.reason is WaitingFor.ROLLOUT and extra(each.workload))
    return False if next(refused, None) is not None else None


def _outdated(before: FormedSpec, after: FormedSpec) -> bool:
    """Return whether a group for one spec has to make way for the other."""
    return specs.hashed(before) != specs.hashed(after)


def misfit(nodes: Mapping[NodeName, Node], deployment: ModelDeployment, record: GroupRecord) -> str:
    """Say what transport, number of nodes or placement of a deployment a group does not fit; empty if it fits."""
    spec = deployment.spec
    bounds, size = spec.parallelism.nodes, len(record.members)
    if fallback.used(record) and fallback.used(record) not in spec.transport:
        return f"{fallback.used(record)} is no longer in its spec.transport"
    if not bounds.min <= size <= bounds.max:
        wanted = f"{bounds.min} to {bounds.max}" if bounds.min < bounds.max else f"{bounds.min}"
        return f"it runs on {size} node{'s' * (size > 1)}, and {wanted} {'is' if wanted == '1' else 'are'} wanted"
    missing = [n for n in record.members if n not in nodes]
    if missing:
        return f"{', '.join(missing)} is no longer a node of this cluster"
    unsuited = [n for n in record.members if not suits(nodes[n], deployment.spec.placement)]
    if unsuited:
        return f"{', '.join(unsuited)} lacks the labels of its nodeSelector"
    return ""


def kind(before: FormedSpec, after: FormedSpec) -> Kind:
    if before.model.metadata.name != after.model.metadata.name:
        return Kind.OTHER_MODEL
    same = before.model.spec.source.folder == after.model.spec.source.folder
    return Kind.RESTART if same else Kind.NEW_WEIGHTS


def duration(seconds: float) -> str:
    """Write a time as people say it: ``45 s``, ``4 min``, ``1 h 10 min``."""
    if seconds < 90:
        return f"{max(1.0, seconds):.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
