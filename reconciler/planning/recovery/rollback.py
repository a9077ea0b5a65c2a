"""Rollback: serve the last spec that served, instead of a newer one that does not come up.

``planning/rollout/wish.py`` says for how long. A fault that a change cannot cause is not blamed on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from reconciler.planning.context.view import Formed, Wanted
from reconciler.planning.context.world import World
from reconciler.planning.diagnosis.rules import Remedy
from reconciler.planning.rollout import specs, wish
from reconciler.state import Cause, DeploymentName, FaultClass, NodeName, Refusal, RefusedBecause
from reconciler.state.identity import ObjectKey
from reconciler.state.machine.weights import shown
from reconciler.state.plan import SetBack
from reconciler.state.rollback import Rollback
from reconciler.wire.node import Load

from .back_off import served_seconds
from .diagnose import Diagnosis, attempts, cut_off

ATTEMPTS_MAX = 2
"""Ends of groups with a new spec, before they have served for long, that are enough. A single group is enough if it refuses
the spec, or is not up when the progress deadline is over."""
LONG_SECONDS = 600.0
"""A spec whose group served for this long, and for twice the time it took to come up, has proven itself."""
BLAMED = (
    FaultClass.RANK_CRASH,
    FaultClass.SILENT_HANG,
    FaultClass.GPU_FAULT,
    FaultClass.SERVICE_WEDGED,
)
"""Faults that may come from any change. Cables, machines and their system are as they were before."""
BLAMED_ON_JOINING = (FaultClass.RENDEZVOUS, FaultClass.QUEUE_PAIRS, FaultClass.PORT_CONFIGURATION)
"""Faults that may come from another transport, or from another number of nodes."""
MEASURED_SECONDS = 5.0
"""Greatest age of a machine's report of its memory."""
SPARE = 0.05
"""The share of a machine's memory that is free while memory is not short."""
JOINING = ("transport", "parallelism", "fastSynch")
"""Fields of the spec that say how ranks are joined."""


def step(view: Formed, fault: Diagnosis) -> SetBack | None:
    """Give up a new spec that does not come up, if another has served before; None if there is no reason to."""
    record, name = view.record, view.replica.deployment
    tried = specs.of_manifests(view.world.desired, name)
    if not (view.up_to_date and tried and record.spec_before) or view.hold or view.target.returned:
        return None
    changes = specs.changes(record.spec_before, tried)
    if not changes or not _blamed(fault, changes) or lived_long(view, fault) or _proven_elsewhere(view):
        return None
    if cut_off(view) and not _joins_otherwise(changes):
        return None  # links that are gone are gone for every spec
    starved = fault.killed and specs.may_need_more(record.spec_before, tried) and _starved(view)
    if fault.killed and not starved:
        return None
    enough = fault.remedy is Remedy.REFUSE or fault.cause is Cause.OVERDUE
    before = attempts(view, fault.fault, failed=not starved and not _joins_otherwise(changes), own=True)
    if not enough and before + 1 < ATTEMPTS_MAX:
        return None
    (_, served), spec = specs.applied(view.deployment, record.spec_before), view.deployment.spec
    rollback = Rollback(
        spec.model,
        record.weights,
        specs.weights(served),
        spec.restarted_at or "",
        view.world.now,
        fault.text,
        tried,
        record.spec_before,
    )
    return SetBack(view.replica, rollback, ", ".join(map(str, changes)))


def _blamed(fault: Diagnosis, changes: Collection[specs.Change]) -> bool:
    """Return whether a fault may come from these changes."""
    if fault.never_ran:
        return False
    return fault.fault in BLAMED or (_joins_otherwise(changes) and fault.fault in BLAMED_ON_JOINING)


def _joins_otherwise(changes: Collection[specs.Change]) -> bool:
    return any(change.is_of(JOINING) for change in changes)


def _starved(view: Formed) -> bool:
    """Return whether memory may have been short where ranks of the group are gone; also if no report says so."""
    charges: dict[NodeName, int] = {}
    for number, (name, size) in enumerate(zip(view.record.members, view.record.charges, strict=True)):
        rank = view.current.get(number)
        if rank is None or not rank.alive:
            charges[name] = charges.get(name, 0) + size
    return any(_short(view, name, size) for name, size in charges.items())


def _short(view: Formed, name: NodeName, charged: int) -> bool:
    """Return whether a machine reports pressure, has ended programs for memory within the hour, or had little left."""
    node = view.world.node(name)
    load = node.report.load if node.report else None
    if node.report is None or load is None or load.memory_free_bytes is None:
        return True
    if load.pressure in ("warn", "critical") or node.facts.memory_kills:
        return True
    given_back = charged if _measured_since(view, name, load) else 0
    return load.memory_free_bytes < given_back + SPARE * node.report.memory_bytes


def _measured_since(view: Formed, name: NodeName, load: Load) -> bool:
    """Return whether a measurement was surely made after the ends: what the ranks held is free in it."""
    ends = (rank.report.exit for rank in view.current.values() if rank.node == name)
    return all(load.clock - MEASURED_SECONDS >= ended.at for ended in ends if ended is not None)


def _proven_elsewhere(view: Formed) -> bool:
    """Return whether another replica has served for long with the same spec."""
    records = view.world.memory.groups_of(view.replica.deployment)
    return any(
        record.workload != view.replica
        and record.fingerprint == view.record.fingerprint
        and record.proven_at is not None
        and view.world.now - record.proven_at >= LONG_SECONDS
        for record in records
    )


def lived_long(view: Wanted, fault: Diagnosis | None) -> bool:
    """Return whether the group has served long enough to trust its weights."""
    record, served = view.record, served_seconds(view, fault)
    if record is None or record.proven_at is None or served is None:
        return False
    load = min(record.proven_at - record.created_at, view.health.progress_deadline)
    return served >= max(LONG_SECONDS, 2 * load)


def refusals(world: World) -> Iterator[Refusal]:
    """Yield a refusal for each deployment whose wanted spec is not served, and for its Model if the weights are to blame."""
    for name, deployment in sorted(world.desired.deployments.items()):
        rollback = wish.applying(world, name)
        if rollback is None or world.desired.stopping:
            continue
        keys = [ObjectKey("ModelDeployment", name)]
        if rollback.tried and rollback.tried != rollback.served:
            keys.insert(0, ObjectKey("Model", deployment.spec.model))
        for key in keys:
            text, person = _text(name, rollback), _person(name, rollback)
            yield Refusal(key, RefusedBecause.SET_BACK, text, person=person)


def _text(name: DeploymentName, rollback: Rollback) -> str:
    """Say what was tried, and what is served instead."""
    if rollback.spec_tried:
        changes = specs.shown_changes(rollback.spec_served, rollback.spec_tried)
        return f"{name} did not come up with {changes} ({rollback.text}); the spec before is served instead"
    return (
        f"{shown(rollback.tried)} did not come up in {name} ({rollback.text});"
        f" {shown(rollback.served)} is served instead"
    )


def _person(name: DeploymentName, rollback: Rollback) -> str:
    """Say how to change the spec, and how to try it once more."""
    change = f"reconciler rollout undo deployment/{name}"
    if rollback.tried and rollback.served and rollback.tried != rollback.served:
        change = f"reconciler model update {rollback.model} --revision COMMIT"
    return f"{change}, or try it once more: reconciler rollout restart deployment/{name}"
