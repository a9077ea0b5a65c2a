"""Recognises states that are not known yet, whose status stays, and objects on their way, which cause no warning.
Pure."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.state import Contact, DeploymentName, NodeName, ReplicaId, WaitingFor
from reconciler.state.cause import RefusedBecause
from reconciler.state.identity import ObjectKey
from reconciler.state.reports.status import Condition, ObjectStatus
from reconciler.wire.objects import JobState

from . import fabric
from .by_object import ByObject
from .model_routes import serving
from .snapshots import ConditionState, Readiness, Snapshots, Statuses

AS_WISHED = (RefusedBecause.STOPPED, RefusedBecause.RESTARTING)
"""Reasons for waiting that a person has requested; they do not hinder the object."""
GATEWAY_SECONDS = 10.0
"""Time after the controller's start in which a gateway may come up: `up` starts both at once."""
NOT_KNOWN = {
    "Fabric": (fabric.UNKNOWN,),
    "Gateway": ("GatewayDown", "NotListening", "NotAsked"),
    "Model": ("NotLookedFor", "NotFetched"),
}
"""By kind, the reasons of objects that are not ready that also apply while nothing is known about them."""


# --- not known yet ---------------------------------------------------------------------------------


def is_awaited(key: ObjectKey, snapshots: Snapshots, planned: ByObject) -> bool:
    """Return whether the facts behind the status of an object are not known yet, as after a start of the controller."""
    if key in snapshots.memory.leaving or key in planned.refused:
        return False
    match key.kind:
        case "Node":
            return snapshots.about_to_report(NodeName(key.name))
        case "Fabric":
            cables = snapshots.desired.fabrics[key.name].spec.cables
            return any(snapshots.about_to_report(NodeName(end.node)) for link in cables for end in link)
        case "Model":
            return _is_examined(key.name, snapshots)
        case "Gateway":
            return _is_gateway_awaited(snapshots)
        case _:
            pass
    waiting = planned.waiting.get(key)
    return waiting is not None and waiting.reason in (WaitingFor.AGENT, WaitingFor.EXAMINED)


def _is_examined(model: str, snapshots: Snapshots) -> bool:
    """Return whether a node is about to report on the weights of a Model."""
    path = snapshots.desired.models[model].spec.source.folder
    return any(
        (report := seen.model(path)) is None or report.examining
        for name, seen in snapshots.observed.nodes.items()
        if name in snapshots.desired.nodes
        and (seen.contact is Contact.REACHED or snapshots.about_to_report(name))
    )


def _is_gateway_awaited(snapshots: Snapshots) -> bool:
    """Return whether the gateway is coming up, or has not been asked yet."""
    seen = snapshots.observed.gateway
    if seen is not None and seen.endpoint is not None:
        return seen.door is None
    starting = snapshots.now - snapshots.memory.started_at < GATEWAY_SECONDS
    return starting and not (seen and seen.problem)


def last_known(
    key: ObjectKey, before: ObjectStatus, found: Readiness, stalled: ConditionState, snapshots: Snapshots
) -> tuple[Readiness, ConditionState]:
    """Return the readiness and the obstacle to report for an object whose state is not known yet: the last known ones."""
    was_ready, was_stalled = before.condition("Ready"), before.condition("Stalled")
    unknown = found.reason in NOT_KNOWN.get(key.kind, ()) or _are_unseen(key, snapshots)
    if unknown and was_ready and was_ready.status:
        found = found._replace(ready=True, reason=was_ready.reason, message=was_ready.message)
    if not stalled.status and was_stalled and was_stalled.status:
        stalled = ConditionState("Stalled", True, was_stalled.reason, was_stalled.message, was_stalled.person)
    return found, stalled


def _are_unseen(key: ObjectKey, snapshots: Snapshots) -> bool:
    """Return whether each replica of a deployment that does not serve has a group with a node that was not seen since
    the controller started, and is about to report."""
    lacking = list(_lacking(key, snapshots))
    groups = [snapshots.memory.groups.get(each) for each in lacking]
    return bool(lacking) and all(
        group is not None
        and any(name not in snapshots.reported and snapshots.about_to_report(name) for name in group.members)
        for group in groups
    )


def _lacking(key: ObjectKey, snapshots: Snapshots) -> Iterator[ReplicaId]:
    """Yield the wanted replicas of a ModelDeployment that do not serve; none for other kinds."""
    deployment = snapshots.desired.deployments.get(DeploymentName(key.name))
    if key.kind != "ModelDeployment" or deployment is None:
        return
    for index in range(deployment.spec.replicas):
        replica = ReplicaId(DeploymentName(key.name), index)
        record = snapshots.memory.groups.get(replica)
        if record is None or serving(record, snapshots.observed) is None:
            yield replica


# --- on its way ------------------------------------------------------------------------------------


def is_expected(key: ObjectKey, statuses: Statuses, snapshots: Snapshots) -> bool:
    """Return whether an object is not ready although nothing is wrong: it is starting, or was stopped as requested."""
    if snapshots.desired.stopping:
        return True
    ready, stalled = (statuses[key].condition(kind) for kind in ("Ready", "Stalled"))
    if ready is None or (stalled is not None and stalled.status):
        return False
    match key.kind:
        case "Node":
            return NodeName(key.name) not in snapshots.reported and snapshots.about_to_report(
                NodeName(key.name)
            )
        case "Model":
            return ready.reason in ("NotLookedFor", "Fetching")
        case "Gateway":
            return _is_gateway_awaited(snapshots) or (
                ready.reason == "NoGroupConnected" and _are_all_expected(statuses, snapshots)
            )
        case "ModelDeployment":
            wished = any(ready.reason == each.value for each in AS_WISHED)
            return wished or all(_is_new(each, snapshots) for each in _lacking(key, snapshots))
        case "Job":
            return ready.reason == JobState.PENDING
        case _:
            return False


def _are_all_expected(statuses: Statuses, snapshots: Snapshots) -> bool:
    """Return whether each deployment is ready, or on its way."""
    return all(
        _is_ready(status.condition("Ready")) or is_expected(key, statuses, snapshots)
        for key, status in statuses.items()
        if key.kind == "ModelDeployment"
    )


def _is_ready(condition: Condition | None) -> bool:
    return condition is not None and condition.status


def _is_new(replica: ReplicaId, snapshots: Snapshots) -> bool:
    """Return whether the present group of a replica that does not serve has neither served nor failed yet."""
    record, failed = snapshots.memory.groups.get(replica), snapshots.observed.failed(replica)
    if record is None:
        return failed is None
    return record.proven_at is None and (failed is None or failed.report.id.epoch < record.epoch)


def gateway_waits(statuses: Statuses, snapshots: Snapshots) -> str:
    """Return the gateway's next act by itself, for people; empty if it is ready, or will not be ready soon. It connects
    to a group within a second."""
    if snapshots.desired.stopping:
        return ""
    connects = _just_serve(statuses, snapshots)
    unready = (
        (key, ready)
        for key, status in statuses.items()
        if key.kind == "Gateway" and (ready := status.condition("Ready")) and not ready.status
    )
    return next(
        (
            f"{key}: {ready.told}"
            for key, ready in unready
            if _is_gateway_awaited(snapshots) or (connects and ready.reason == "NoGroupConnected")
        ),
        "",
    )


def _just_serve(statuses: Statuses, snapshots: Snapshots) -> bool:
    """Return whether all deployments are ready, and have not been for long."""
    found = [status.condition("Ready") for key, status in statuses.items() if key.kind == "ModelDeployment"]
    since = max((each.since for each in found if each is not None), default=0.0)
    return all(map(_is_ready, found)) and (
        snapshots.now - max(since, snapshots.memory.started_at) < GATEWAY_SECONDS
    )
