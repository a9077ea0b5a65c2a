"""Events for changed conditions, ended ranks and executed steps. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from reconciler.state import (
    AdoptGroup,
    AllocateEpoch,
    BuildRuntime,
    ConfirmRepair,
    ContinueGateway,
    ContinueRank,
    EmptyNode,
    ForgetAgent,
    FreeTransport,
    Observed,
    Outcome,
    ProveGroup,
    RebootNode,
    ReleaseReplica,
    RemoveObject,
    RepairNode,
    ReplaceGateway,
    StartAgent,
    StartGateway,
    StartRank,
    Step,
    StopAgent,
    StopGateway,
    StopRank,
)
from reconciler.state.identity import ObjectKey
from reconciler.state.job_steps import CreateRun, EndAttempt, EndRun, FetchArtifacts, RemoveRuns, SuspendRun
from reconciler.state.jobs import COUNTED, AttemptEnd, RunResult
from reconciler.state.machine.weights import FetchWeights, RemoveWeights
from reconciler.state.plan import SetBack
from reconciler.state.reports.status import Condition, Event, ObjectStatus

from . import certificate, examinations, limits
from .awaited import is_expected
from .conditions import TERMINATING
from .snapshots import Snapshots, Statuses

_TOLD_WITH_REASON = (certificate.TYPE, limits.TYPE)
"""Types of conditions whose every reason is an event of its own."""
_TOLD_ONCE = (examinations.TYPE,)
"""Types of conditions that are an event when they begin and when they end; what is tried meanwhile is none."""


def transitions(before: Statuses, after: Statuses, snapshots: Snapshots) -> list[Event]:
    """Return an event for every object whose ``Ready``, ``Stalled``, or condition of one of the types above has changed. It is no warning that something is not ready which is stopped or started as it should be."""
    return [
        replace(event, warning=event.warning and not snapshots.desired.stopping and not calm)
        for key, status in after.items()
        if status != before.get(key)
        for event in _changes(key, before.get(key), status, snapshots.now)
        for calm in [event.reason == "NotReady" and is_expected(key, after, snapshots)]
    ]


def _changes(key: ObjectKey, before: ObjectStatus | None, after: ObjectStatus, now: float) -> Iterable[Event]:
    for kind in ("Stalled", "Ready", *_TOLD_WITH_REASON, *_TOLD_ONCE):
        old, new = before.condition(kind) if before else None, after.condition(kind)
        was = _told(old) if old else (False, "")
        if new is None or _told(new) == was:
            continue
        if new.reason == TERMINATING:
            yield Event(now, key, False, TERMINATING, new.told)
            continue
        bad = new.status == (kind != "Ready")
        reason = kind if new.status else f"Not{kind}"
        if kind in (*_TOLD_WITH_REASON, *_TOLD_ONCE):
            reason = new.reason
        yield Event(now, key, bad, reason, new.told or "the obstacle is gone")


def _told(condition: Condition) -> tuple[bool, str]:
    """Return the parts of a condition whose change makes an event: for a problem, also its text."""
    if condition.type in _TOLD_WITH_REASON:
        return condition.status, f"{condition.reason}: {condition.told}" if condition.status else ""
    return condition.status, condition.told if condition.type == "Stalled" else ""


def endings(observed: Observed, now: float) -> list[Event]:
    """Return an event for every rank that ended or had to be killed; its key prevents duplicates."""
    events = []
    for rank in observed.ranks():
        report, key = rank.report, rank.workload.key
        if not rank.alive:
            events.append(
                Event(now, key, not rank.orderly, "RankExited", rank.ending_text, f"exit/{report.id}")
            )
        if rank.killing:
            events.append(Event(now, key, True, "RankKilled", rank.killing, f"killed/{report.id}"))
    return events


def event(outcome: Outcome, now: float) -> Event | None:
    """Return the event of an executed step; None for steps that interest nobody."""
    step = outcome.step
    if outcome.problem:
        return Event(now, step.object, True, f"{type(step).__name__}Failed", f"{step}: {outcome.problem}")
    reason = STEP_REASONS.get(type(step))
    if reason is None:
        return None
    if isinstance(step, SuspendRun) and step.run.suspended_at is None:
        reason = "RunContinued"
    text = f"{step}{': ' + outcome.detail if outcome.detail else ''}"
    return Event(now, step.object, _is_bad(step), reason, text)


def _is_bad(step: Step) -> bool:
    """Return whether a step that was executed tells of a failure."""
    if isinstance(step, EndAttempt | EndRun):
        failed = step.run.ended is not None and step.run.ended.result is RunResult.FAILED
        return failed or (isinstance(step, EndAttempt) and step.attempt.end in FAILURES)
    return isinstance(step, SetBack)


FAILURES = (*COUNTED, AttemptEnd.NODE_LOST, AttemptEnd.DEADLINE)
"""Ends of attempts that nobody has asked for."""


STEP_REASONS: Mapping[type[Step], str] = {
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
    StartGateway: "GatewayStarted",
    ContinueGateway: "GatewayContinued",
    ReplaceGateway: "GatewayReplaced",
    StopGateway: "GatewayStopped",
    CreateRun: "RunCreated",
    EndAttempt: "AttemptEnded",
    EndRun: "RunEnded",
    SuspendRun: "RunSuspended",
    FetchArtifacts: "ArtifactsFetched",
    RemoveRuns: "RunsRemoved",
}
"""Reasons of events for executed steps; steps that only clean up have none, and those that each change of the routes
brings."""
