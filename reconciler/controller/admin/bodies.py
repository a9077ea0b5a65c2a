"""Builds the answers to the command line: plain JSON from the last pass's snapshots. Pure."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, cast, overload

from reconciler.incidents import summary, what_is_wrong
from reconciler.planning.context.world import World
from reconciler.planning.placement.explain import explain
from reconciler.resources import KINDS, Job, Manifest
from reconciler.resources.job import JobFile
from reconciler.resources.operation import Operation
from reconciler.resources.verbs import VERBS
from reconciler.source.git.commit_log import FileDiff
from reconciler.state import (
    DeploymentName,
    Desired,
    NodeName,
    ObjectKey,
    Plan,
    Refusal,
    Step,
    Waiting,
)
from reconciler.state.desired import Hold, JobToRun
from reconciler.state.held_changes import HeldChanges
from reconciler.state.operations import Effect, Standing
from reconciler.state.reports.incident import Entry, Incident, title
from reconciler.state.reports.status import Condition, Event, ObjectStatus
from reconciler.status import Snapshots, Statuses, behind_on_keys
from reconciler.wire import answers
from reconciler.wire import objects as wire

SHOWN = ("verb", "replicas", "by", "at", "until", "reason")
"""Fields of an operation in the status of its target."""
DONE = "Done"
"""Standing of an operation that has had its effect, and has none now."""

_MOMENTS = frozenset(
    (
        "sentAt",
        "lastUsedAt",
        "until",
        "begins",
        "since",
        "createdAt",
        "scheduledAt",
        "startedAt",
        "endedAt",
        "nextSchedule",
    )
)
"""Fields of statuses that are times."""


@overload
def iso(at: float) -> str: ...
@overload
def iso(at: None) -> None: ...
def iso(at: float | None) -> str | None:
    """Return a time as RFC 3339 with milliseconds, in UTC."""
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def objects(
    snapshots: Snapshots, statuses: Statuses, kind: str | None, name: str | None
) -> list[wire.Object]:
    """Return all objects, those in force and those being removed, sorted by kind and name."""
    desired = snapshots.desired
    going = {key: leaving.manifest for key, leaving in snapshots.memory.leaving.items()}
    return [
        _object(key, manifest, snapshots, statuses.get(key))
        for key, manifest in sorted(
            {**desired.objects(), **going}.items(),
            key=lambda entry: (list(KINDS).index(entry[0].kind), entry[0].name),
        )
        if kind in (None, key.kind) and name in (None, key.name)
    ]


def kept_out(desired: Desired) -> answers.KeptOut:
    """Return why a newer revision, or a part of it, is not in force: ``held``, ``rejection``, ``suspended`` and
    ``heldChanges``, None where they do not apply."""
    held, suspended, changes = desired.hold, desired.suspended, desired.held_changes
    return {
        "held": None if held is None else _held(held),
        "rejection": desired.rejection.text if desired.rejection else None,
        "suspended": {"revision": suspended.revision, "text": suspended.text} if suspended else None,
        "heldChanges": _held_changes(changes) if changes else None,
    }


def _held(held: Hold) -> answers.Held:
    return {
        "revision": held.revision,
        "removes": [str(key) for key in held.removes],
        "of": held.of,
        "runs": [job_to_run(each) for each in held.runs],
        "command": held.command,
        "text": held.text,
    }


def job_to_run(found: JobToRun) -> answers.JobToRun:
    return {
        "object": f"job/{found.name}",
        "command": list(found.command),
        "nodes": list(found.nodes),
        "text": str(found),
    }


def _held_changes(held: HeldChanges) -> answers.HeldChanges:
    changes: list[answers.HeldChange] = [
        {"object": str(each.object), "window": each.windows[0], "until": iso(each.until)}
        for each in held.changes
    ]
    return {"revision": held.revision, "changes": changes, "text": held.text}


def keys_behind(snapshots: Snapshots) -> list[answers.KeysBehind]:
    """Return the gateways that have other keys than those in force: ``node``, None for the controller's own, and
    ``problem``, None if it can be reached."""
    return [{"node": node, "problem": problem or None} for node, problem in behind_on_keys(snapshots)]


def layer(snapshots: Snapshots) -> answers.Layer:
    """Return which operations are in force, how many of them make the cluster differ from git, and what is wrong with
    newer ones."""
    desired = snapshots.desired
    rejection = desired.operations_rejection
    return {
        "operations": desired.operations,
        "operationsInForce": len(lasting(snapshots)),
        "operationsRejection": rejection.text if rejection else None,
    }


def lasting(snapshots: Snapshots) -> tuple[Operation, ...]:
    """Return the operations by which the cluster differs from git until somebody undoes them, or they end."""
    return tuple(
        effect.operation
        for effect in snapshots.desired.effects
        if VERBS[effect.operation.spec.verb].ended_by and _standing(effect, snapshots) == Standing.IN_FORCE
    )


def operations(snapshots: Snapshots, name: str | None) -> list[wire.Operation]:
    """Return every operation, in the order in which they are laid over the manifests."""
    return [
        _operation(effect, snapshots)
        for effect in snapshots.desired.effects
        if name in (None, effect.operation.metadata.name)
    ]


def _operation(effect: Effect, snapshots: Snapshots) -> wire.Operation:
    body = cast(wire.Operation, _dumped(effect.operation))
    body["status"] = {"standing": _standing(effect, snapshots)}
    return body


def _dumped(manifest: Manifest | Operation) -> object:
    return manifest.body()


def _standing(effect: Effect, snapshots: Snapshots) -> str:
    """Return the progress of an operation, as far as machines know more about it than git."""
    spec = effect.operation.spec
    if effect.standing is Standing.IN_FORCE and spec.verb == "approve":
        return "InForce" if spec.over == snapshots.desired.revision else DONE
    if effect.standing is Standing.IN_FORCE and spec.verb == "reboot":
        seen = snapshots.observed.nodes.get(NodeName(spec.target.name))
        boot = "" if seen is None else seen.report.boot_id if seen.report else seen.facts.boot_id
        return DONE if boot not in ("", spec.boot) else "InForce"
    return effect.standing.value


def _object(
    key: ObjectKey, manifest: Manifest, snapshots: Snapshots, status: ObjectStatus | None
) -> wire.Object:
    body = cast(wire.Object, _dumped(manifest))
    if body["kind"] == "Job" and isinstance(manifest, Job):
        body["spec"]["files"] = [_digested(file) for file in manifest.spec.files]
    metadata, shown = body["metadata"], _status(status)
    leaving = snapshots.memory.leaving.get(key)
    if leaving:
        metadata["deletionTimestamp"] = iso(leaving.since)
    metadata["generation"] = leaving.generation if leaving else snapshots.desired.generations.get(key, 1)
    said = [_operation(effect, snapshots) for effect in snapshots.desired.effects if _is_about(effect, key)]
    if said:
        shown["operations"] = [_in_short(operation) for operation in said]
    changes = snapshots.desired.held_changes.changes if snapshots.desired.held_changes is not None else ()
    held = next((each for each in changes if each.object == key), None)
    if held is not None:
        shown["heldBy"] = {"syncWindow": held.windows[0], "until": iso(held.until), "text": held.text}
    body["status"] = cast(Any, shown)  # of this kind, as ``status.kinds`` makes it
    return body


def _digested(file: JobFile) -> wire.JobFileDigest:
    """Return a file of a job with the digest of its content instead of it."""
    found = wire.JobFileDigest(path=file.path, executable=file.executable)
    if file.data is not None:
        found["sha256"] = sha256(b64decode(file.data)).hexdigest()
    return found


def _is_about(effect: Effect, key: ObjectKey) -> bool:
    target = effect.operation.spec.target
    return (target.kind, target.name) == key


def _in_short(operation: wire.Operation) -> wire.StandingOperation:
    """Return the fields of an operation that people want to see with its target."""
    spec, found = operation["spec"], wire.StandingOperation(standing=operation["status"]["standing"])
    short = {field: value for field, value in spec.items() if field in SHOWN and value not in (None, "")}
    return cast(wire.StandingOperation, {**short, **found})


def _status(status: ObjectStatus | None) -> wire.Status:
    """Return the status with the fields of its kind, whose times are seconds in the store."""
    if status is None:
        return {"observedGeneration": 0, "conditions": []}
    shown = wire.Status(
        observedGeneration=status.generation, conditions=[_condition(each) for each in status.conditions]
    )
    return cast(wire.Status, {**shown, **_dated(status.extra)})


def _dated(value: Any) -> Any:
    """Return plain JSON with its times as texts; some are texts already."""
    if isinstance(value, list | tuple):
        return [_dated(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    return {
        name: iso(each) if name in _MOMENTS and isinstance(each, int | float) else _dated(each)
        for name, each in value.items()
    }


def _condition(condition: Condition) -> wire.Condition:
    found: wire.Condition = {
        "type": condition.type,
        "status": "True" if condition.status else "False",
        "reason": condition.reason,
        "message": condition.told,
        "lastTransitionTime": iso(condition.since),
        "observedGeneration": condition.generation,
    }
    if condition.person:
        found |= {"seen": condition.message, "person": condition.person}
    return found


def ranks(snapshots: Snapshots, name: str | None, ended: bool = False) -> list[wire.Rank]:
    """Return every rank that has not ended (with ``ended`` every rank), of one deployment or of all."""
    items: list[wire.Rank] = [
        {
            "kind": "Rank",
            "metadata": {
                "name": str(rank.report.id),
                "labels": {
                    "deployment": rank.report.id.deployment,
                    "replica": str(rank.report.id.replica),
                    "epoch": str(rank.report.id.epoch),
                    "node": rank.node,
                },
            },
            "deployment": rank.report.id.deployment,
            "replica": rank.report.id.replica,
            "rank": rank.report.id.rank,
            "node": rank.node,
            "pid": rank.report.pid,
            "epoch": rank.report.id.epoch,
            "phase": rank.report.phase,
            "detail": rank.report.detail,
            "demand": rank.report.demand,
            "steps": rank.report.steps,
            "stopped": rank.report.stopped,
            "silentSeconds": max(rank.report.silent_seconds, rank.report.deaf_seconds),
            "killed": rank.killed,
            "unkillable": rank.unkillable,
            "startedAt": iso(rank.report.started_at),
        }
        for rank in snapshots.observed.ranks()
        if (rank.alive or ended) and name in (None, rank.report.id.deployment)
    ]
    items.sort(key=lambda row: (row["deployment"], row["replica"], row["epoch"], row["rank"]))
    return items


def places(snapshots: Snapshots, name: str) -> list[answers.Placement]:
    """Return the reasons for the placement of a deployment's replicas."""
    world = World(snapshots.desired, snapshots.observed, snapshots.memory, snapshots.now, entropy="")
    return [
        {
            "replica": found.replica,
            "text": found.text,
            "nodes": [{"node": seat.node, "rank": seat.rank, "text": seat.text} for seat in found.nodes],
        }
        for found in explain(world, DeploymentName(name))
    ]


def plan_body(plan: Plan) -> answers.Planned:
    """Return the plan with what waits and what is refused."""
    return {
        "steps": [_step(step) for step in plan.steps],
        "waiting": [{**_obstacle(each, each.text), "until": iso(each.until)} for each in plan.waiting],
        "refused": [
            {**_obstacle(each, each.told), "seen": each.text, "person": each.person} for each in plan.refused
        ],
    }


def _step(step: Step) -> answers.PlannedStep:
    return {"step": type(step).__name__, "object": str(step.object), "text": str(step)}


def _obstacle(entry: Waiting | Refusal, text: str) -> answers.Obstacle:
    replica = str(entry.workload) if entry.workload is not None else None
    return {
        "object": str(entry.object),
        "replica": replica,
        "reason": entry.reason.value,
        "text": text,
    }


def events(found: Sequence[tuple[int, Event]], last: int) -> answers.Events:
    """Return events, oldest first, and the id to continue from."""
    items: list[answers.EventEntry] = [
        {
            "id": number,
            "time": iso(event.at),
            "type": "Warning" if event.warning else "Normal",
            "object": str(event.object),
            "reason": event.reason,
            "message": event.message,
            "revision": event.revision,
            "hookTime": iso(event.hook_at),
        }
        for number, event in found
    ]
    return {"items": items, "last": max([last, *(number for number, _ in found)])}


def incident(found: Incident, now: float) -> answers.Incident:
    """Return an incident with all its entries."""
    return {
        **incident_without_entries(found, now),
        "entries": [_entry(entry, found.opened_at) for entry in found.entries],
        "entriesLeftOut": found.left_out,
    }


def incident_without_entries(found: Incident, now: float) -> answers.HealedIncident:
    """Return everything about an incident except for its entries."""
    return {
        "id": found.id,
        "object": str(found.object),
        "subject": str(found.subject),
        "class": found.fault.value,
        "title": title(found.fault),
        "open": found.open,
        "openedAt": iso(found.opened_at),
        "closedAt": iso(found.closed_at),
        "seconds": round(found.lasted(now), 3),
        "unservedSeconds": round(found.unserved(now), 3) if found.replica is not None else None,
        "reopened": found.reopened,
        "summary": summary(found),
        "seen": what_is_wrong(found),
        "doing": found.doing,
        "person": found.person,
    }


def _entry(entry: Entry, opened_at: float) -> answers.IncidentEntry:
    return {
        "time": iso(entry.at),
        "after": round(max(0.0, entry.at - opened_at), 3),
        "kind": entry.kind.value,
        "text": entry.text,
        "class": entry.fault.value if entry.fault else None,
        "rank": str(entry.rank) if entry.rank else None,
        "seconds": None if entry.seconds is None else round(entry.seconds, 3),
        "times": entry.times,
        "lastTime": iso(entry.at if entry.last_at is None else entry.last_at),
    }


def file_body(found: FileDiff) -> answers.FileChange:
    """Return what a commit changes in a file, as ``ShowCommit`` has it."""
    return {
        "path": found.path,
        "action": found.action,
        "lines": list(found.lines),
        "leftOut": found.left_out,
    }
