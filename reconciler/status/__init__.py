"""Conditions, routes and events, derived from snapshots. Nobody else says what an object's state is.

Pure: the previous statuses and the time are arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.state import (
    AdoptGroup,
    AllocateEpoch,
    BuildRuntime,
    ConfirmRepair,
    Contact,
    ContinueRank,
    DeploymentName,
    Desired,
    EmptyNode,
    ForgetAgent,
    ForgetRank,
    FreeTransport,
    GroupRecord,
    Memory,
    NodeName,
    Observed,
    Outcome,
    Plan,
    ProveGroup,
    RebootNode,
    Refusal,
    ReleaseReplica,
    RemoveObject,
    RepairNode,
    StartAgent,
    StartRank,
    Step,
    StopAgent,
    StopRank,
    Trouble,
    Waiting,
    WaitingFor,
)
from reconciler.state.identity import ObjectKey
from reconciler.state.notice import Delivery
from reconciler.state.plan import RefusedBecause, SetBack
from reconciler.state.report import Condition, Event, ObjectStatus
from reconciler.state.weights import FetchWeights, RemoveWeights
from reconciler.wire.launch import Phase

from . import cabling, machine, node, weights
from .likeness import Likeness
from .routing import routes, serving
from .weights import Readiness

__all__ = ["Snapshots", "Statuses", "endings", "routes", "serving", "statuses", "told", "transitions"]

Statuses = Mapping[ObjectKey, ObjectStatus]


@dataclass(frozen=True, slots=True)
class Snapshots:
    """What a status is derived from."""

    desired: Desired
    observed: Observed
    memory: Memory
    plan: Plan
    now: float


AS_WISHED = (RefusedBecause.STOPPED, RefusedBecause.RESTARTING)
"""What somebody has asked for: nothing stands in the way of the object."""


# --- conditions ------------------------------------------------------------------------------------


def statuses(snapshots: Snapshots, previous: Statuses) -> dict[ObjectKey, ObjectStatus]:
    """The status of every object in force, and of those whose manifest is gone while something of them is left."""
    keys = snapshots.desired.objects().keys() | snapshots.memory.leaving.keys()
    planned = _Planned.of(snapshots.plan)
    likeness = Likeness.of(snapshots.desired, snapshots.observed)
    return {key: _status(key, snapshots, planned, likeness, previous.get(key)) for key in sorted(keys)}


@dataclass(frozen=True, slots=True)
class _Planned:
    """The first of each kind of news that a plan has for an object."""

    steps: Mapping[ObjectKey, Step]
    waiting: Mapping[ObjectKey, Waiting]
    refused: Mapping[ObjectKey, Refusal]
    troubles: Mapping[ObjectKey, Trouble]
    """Only those that need a person."""

    @classmethod
    def of(cls, plan: Plan) -> _Planned:
        return cls(
            {step.object: step for step in reversed(plan.steps) if not isinstance(step, ForgetRank)},
            # What waits to become better is as it is wanted: only the plan tells of it.
            {w.object: w for w in reversed(plan.waiting) if w.reason is not WaitingFor.QUIET},
            {refusal.object: refusal for refusal in reversed(plan.refused)},
            {trouble.object: trouble for trouble in reversed(plan.troubles) if trouble.person},
        )


def _status(
    key: ObjectKey, snapshots: Snapshots, planned: _Planned, likeness: Likeness, before: ObjectStatus | None
) -> ObjectStatus:
    leaving = snapshots.memory.leaving.get(key)
    readiness = _READINESS[key.kind] if leaving is None else _terminating
    ready, reason, message, extra = readiness(key.name, snapshots)
    generation = leaving.generation if leaving else snapshots.desired.generations.get(key, 1)
    refusal = planned.refused.get(key)
    waiting = planned.waiting.get(key)
    step = planned.steps.get(key)
    active = str(step) if step else waiting.text if waiting else ""
    trouble = planned.troubles.get(key)
    as_wished = refusal is not None and refusal.reason in AS_WISHED
    stalled, why_stalled = _stalled(None if as_wished else refusal, trouble)
    conditions = (
        (
            "Ready",
            ready,
            reason if not refusal or ready else refusal.reason.value if as_wished else why_stalled,
            (refusal.text if as_wished else stalled) if refusal and not ready else message,
        ),
        (
            "Reconciling",
            bool(active),
            "Acting" if step else waiting.reason.value if waiting else "Settled",
            active,
        ),
        ("Stalled", bool(stalled), why_stalled, stalled),
        *(_of_node(key, snapshots, likeness) if key.kind == "Node" else ()),
    )
    told = {condition.type: condition for condition in before.conditions} if before else {}
    said = tuple(_condition(told.get(each[0]), each, snapshots.now, generation) for each in conditions)
    return ObjectStatus(said, generation, extra)


def _of_node(
    key: ObjectKey, snapshots: Snapshots, likeness: Likeness
) -> tuple[tuple[str, bool, str, str], ...]:
    name = NodeName(key.name)
    return node.conditions(name, snapshots.desired, snapshots.observed, snapshots.plan, likeness)


def _stalled(refusal: Refusal | None, trouble: Trouble | None) -> tuple[str, str]:
    """What only a person can change, with the exact steps where they are known, and the reason in a word."""
    if refusal is None:
        text = f"{trouble.seen}; to do: {trouble.person}" if trouble else ""
        return text, trouble.fault.reason if trouble else "NotStalled"
    told = trouble is None or trouble.person in refusal.text
    return (
        refusal.text if told or trouble is None else f"{refusal.text}; to do: {trouble.person}",
        refusal.reason.value,
    )


def _condition(
    before: Condition | None, said: tuple[str, bool, str, str], now: float, generation: int
) -> Condition:
    return before.again(said, now, generation) if before else Condition(*said, now, generation)


TERMINATING = "Terminating"
"""The reason of ``Ready`` for an object whose manifest is gone."""


def _terminating(name: str, snapshots: Snapshots) -> Readiness:
    return False, TERMINATING, "its manifest was removed; what is left of it is ending", {}


def _node(name: str, snapshots: Snapshots) -> Readiness:
    seen = snapshots.observed.nodes.get(NodeName(name))
    if seen is None or seen.report is None:
        text = seen.problem if seen and seen.problem else "no answer from its agent yet"
        return False, "AgentNotReached", text, {"agent": "unknown", "ranks": 0}
    report = seen.report
    reached = seen.contact is Contact.REACHED
    extra = {
        "agent": seen.contact.value,
        "ranks": sum(rank.exit is None for rank in report.ranks),
        "memoryBytes": report.memory_bytes,
        "cpus": report.cpus,
        "system": f"{report.system} {report.release} {report.machine}"
        + (", emulated" if report.emulated else ""),
        "runtime": dict(report.runtime or {}),
        "bootId": report.boot_id,
        **machine.told(seen.facts),
    }
    if seen.contact is Contact.UNREACHABLE:
        return False, "NodeUnreachable", seen.problem or "it does not answer", extra
    if not reached:
        return False, "AgentDown", seen.problem or "its agent does not answer", extra
    return True, "AgentReached", "its agent answers", extra


def _fabric(name: str, snapshots: Snapshots) -> Readiness:
    return cabling.readiness(snapshots.plan.cabling.get(name, ()))


def _model(name: str, snapshots: Snapshots) -> Readiness:
    source = snapshots.desired.models[name].spec.source
    told = weights.of_hub if source.huggingface else weights.of_path
    return told(source.folder, snapshots.desired, snapshots.observed)


def _deployment(name: str, snapshots: Snapshots) -> Readiness:
    deployment = snapshots.desired.deployments[DeploymentName(name)]
    wanted = 0 if snapshots.desired.stopping else deployment.spec.replicas
    records = snapshots.memory.groups_of(DeploymentName(name))
    groups = [_group(record, snapshots.observed) for record in records]
    count = sum(group["ready"] and group["replica"] < wanted for group in groups)
    extra = {"replicas": wanted, "readyReplicas": count, "groups": groups}
    text = f"{count} of {wanted} replicas serve"
    if count < wanted:
        return False, "ReplicasNotReady", text, extra
    return True, "ReplicasReady", text, extra


def _group(record: GroupRecord, observed: Observed) -> dict[str, Any]:
    current = {rank: seen.report.phase for rank, seen in observed.group(record).items()}
    phases = [current.get(rank, Phase.STARTING) for rank in range(len(record.members))]
    least = Phase.EXITED if Phase.EXITED in phases else min(phases, key=Phase.ALL.index)
    return {
        "replica": record.replica.index,
        "epoch": record.epoch,
        "phase": least,
        "nodes": list(record.members),
        **(_spread(record) if len(record.members) > 1 else {}),
        "ready": serving(record, observed) is not None,
        "since": record.proven_at or record.created_at,
        **_failure(record, observed),
    }


def _failure(record: GroupRecord, observed: Observed) -> dict[str, Any]:
    """How the last group ended, and the rank whose log tells why: as long as none serves after it."""
    failed = observed.failed(record.replica)
    if failed is None or serving(record, observed) is not None:
        return {}
    return {"failed": {"rank": str(failed.report.id), "node": failed.node, "text": failed.last_words}}


def _spread(record: GroupRecord) -> dict[str, str]:
    """How a group of several ranks is split and joined, and why so."""
    return {
        "strategy": _with_reason(record.strategy, record.strategy_why),
        "transport": _with_reason(record.transport, record.transport_why),
    }


def _with_reason(choice: str, why: str) -> str:
    if not choice:
        return "as it was started"
    return f"{choice} ({why})" if why else choice


def _gateway(name: str, snapshots: Snapshots) -> Readiness:
    gateway = snapshots.observed.gateway
    if gateway is None:
        return False, "GatewayDown", "the gateway process does not run", {"endpoint": None, "pid": None}
    if gateway.endpoint is None:
        return False, "NotListening", "the gateway listens nowhere", {"endpoint": None, "pid": None}
    return True, "Listening", gateway.endpoint, {"endpoint": gateway.endpoint, "pid": gateway.pid}


def _notifier(name: str, snapshots: Snapshots) -> Readiness:
    delivery = snapshots.memory.deliveries.get(name, Delivery())
    extra = {"waiting": delivery.waiting, "givenUp": delivery.given_up, "sentAt": delivery.sent_at}
    if delivery.problem:
        return False, "DeliveryFailed", f"the last delivery failed: {delivery.problem}", extra
    if delivery.sent_at is None:
        return True, "NothingSent", "there was nothing to tell yet", extra
    return True, "Delivered", "the last message was taken", extra


_READINESS = {
    "Node": _node, "Fabric": _fabric, "Model": _model, "ModelDeployment": _deployment, "Gateway": _gateway, "Notifier": _notifier,
}  # fmt: skip


# --- events ----------------------------------------------------------------------------------------


def transitions(before: Statuses, after: Statuses, now: float) -> list[Event]:
    """An event for every object whose ``Ready`` or ``Stalled`` is no longer what it was."""
    return [
        event
        for key, status in after.items()
        if status != before.get(key)
        for event in _changes(key, before.get(key), status, now)
    ]


def _changes(key: ObjectKey, before: ObjectStatus | None, after: ObjectStatus, now: float) -> Iterable[Event]:
    for kind in ("Stalled", "Ready"):
        old, new = before.condition(kind) if before else None, after.condition(kind)
        was = (old.status, old.message if kind == "Stalled" else "") if old else (False, "")
        if new is None or (new.status, new.message if kind == "Stalled" else "") == was:
            continue
        if new.reason == TERMINATING:
            yield Event(now, key, False, TERMINATING, new.message)
            continue
        bad = new.status == (kind == "Stalled")
        reason = kind if new.status else f"Not{kind}"
        yield Event(now, key, bad, reason, new.message or "what stood in the way is gone")


def endings(observed: Observed, now: float) -> list[Event]:
    """An event for every rank that has ended, and for each that had to be killed; its key makes it be told once."""
    events = []
    for rank in observed.ranks():
        report, key = rank.report, rank.replica.key
        if not rank.alive:
            events.append(
                Event(now, key, not rank.orderly, "RankExited", rank.last_words, f"exit/{report.id}")
            )
        if rank.killing:
            events.append(Event(now, key, True, "RankKilled", rank.killing, f"killed/{report.id}"))
    return events


def told(outcome: Outcome, now: float) -> Event | None:
    """The event of an executed step; None for those that are nobody's concern."""
    step = outcome.step
    if outcome.problem:
        return Event(now, step.object, True, f"{type(step).__name__}Failed", f"{step}: {outcome.problem}")
    reason = DONE.get(type(step))
    if reason is None:
        return None
    text = f"{step}{': ' + outcome.detail if outcome.detail else ''}"
    return Event(now, step.object, False, reason, text)


DONE: Mapping[type[Step], str] = {
    AdoptGroup: "GroupAdopted",
    AllocateEpoch: "EpochAllocated",
    StartRank: "RankStarted",
    StopRank: "RankStopping",
    ContinueRank: "RankContinued",
    ProveGroup: "GroupProven",
    FreeTransport: "TransportFreed",
    SetBack: "RevisionSetBack",
    ReleaseReplica: "ReplicaReleased",
    StartAgent: "AgentStarted",
    StopAgent: "AgentStopped",
    ForgetAgent: "AgentForgotten",
    EmptyNode: "NodeEmptying",
    RebootNode: "NodeRestarted",
    RepairNode: "NodeRepaired",
    ConfirmRepair: "RepairConfirmed",
    BuildRuntime: "RuntimeBuilt",
    FetchWeights: "FetchBegun",
    RemoveWeights: "WeightsRemoved",
    RemoveObject: "Removed",
}
"""What is told of a step that was done; of what only tidies up, nothing."""
