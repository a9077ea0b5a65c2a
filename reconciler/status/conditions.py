"""The conditions of every object, which only this module writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.state import NodeName, NodeObservation, Refusal, Trouble
from reconciler.state.identity import ObjectKey
from reconciler.state.plan import GatewayRefusal
from reconciler.state.reports.status import ObjectStatus

from . import certificate, examinations, job, limits, node
from .awaited import AS_WISHED, is_awaited, last_known
from .by_object import ByObject
from .kinds import READINESS
from .node_comparison import NodeComparison
from .snapshots import ConditionState, Readiness, Snapshots, Statuses


@dataclass(frozen=True, slots=True)
class _Known:
    """The status of a Node, and everything that it was made from."""

    seen: NodeObservation | None
    rest: tuple[object, ...]
    status: ObjectStatus


Known = dict[ObjectKey, _Known]
"""The last pass's knowledge of each Node; ``each_status`` keeps it up to date."""


def statuses(snapshots: Snapshots, previous: Statuses) -> dict[ObjectKey, ObjectStatus]:
    """Return the status of every object in force, and of removed objects that still have something running."""
    return dict(each_status(snapshots, previous, {}))


def each_status(
    snapshots: Snapshots, previous: Statuses, known: Known
) -> Iterator[tuple[ObjectKey, ObjectStatus]]:
    """Yield the statuses one after the other, in the order of kinds and names.

    Most nodes have neither a new report nor a changed plan since the pass before: their statuses stay.
    """
    keys = snapshots.desired.objects().keys() | snapshots.memory.leaving.keys()
    planned = ByObject.of(snapshots.desired, snapshots.plan)
    likeness = NodeComparison.of(snapshots.desired, snapshots.observed)
    for key in known.keys() - keys:
        del known[key]
    for key in sorted(keys):
        before = previous.get(key)
        if key.kind == "Node":
            yield key, _of_node(key, snapshots, planned, likeness, before, known)
        else:
            more = _MORE[key.kind](key.name, snapshots) if key.kind in _MORE else ()
            yield key, _status(key, snapshots, planned, more, before)


def _of_gateway(name: str, snapshots: Snapshots) -> tuple[ConditionState, ...]:
    return *certificate.conditions(name, snapshots), *limits.conditions(name, snapshots)


_MORE = {"Gateway": _of_gateway, "Model": examinations.conditions, "Job": job.conditions}
"""By kind, the conditions that only objects of that kind have; Nodes have theirs from ``node``."""


def _of_node(
    key: ObjectKey,
    snapshots: Snapshots,
    planned: ByObject,
    likeness: NodeComparison,
    before: ObjectStatus | None,
    known: Known,
) -> ObjectStatus:
    """Return the status of a Node: the one before, unless a part that it was made from has changed."""
    desired, memory, name = snapshots.desired, snapshots.memory, NodeName(key.name)
    seen, parity = snapshots.observed.nodes.get(name), likeness.condition(name)
    rest = (
        desired.nodes.get(name),
        desired.generations.get(key, 1),
        memory.leaving.get(key),
        planned.of_node(key),
        desired.stopping,
        parity,
        _is_acted_on(key, snapshots),
        snapshots.about_to_report(name),
    )
    last = known.get(key)
    if last is not None and last.seen is seen and last.status is before and last.rest == rest:
        return last.status
    found = _status(key, snapshots, planned, node.conditions(name, desired, seen, planned, parity), before)
    known[key] = _Known(seen, rest, found)
    return found


def _status(
    key: ObjectKey,
    snapshots: Snapshots,
    planned: ByObject,
    more: tuple[ConditionState, ...],
    before: ObjectStatus | None,
) -> ObjectStatus:
    """Return the status of an object; ``more`` has the conditions that only its kind has."""
    leaving = snapshots.memory.leaving.get(key)
    found = READINESS[key.kind](key.name, snapshots) if leaving is None else LEAVING
    ready = before.condition("Ready") if before else None
    if found.ready and _is_acted_on(key, snapshots) and not (ready and ready.status):
        # Its agent may answer before the step that starts it has ended: Ready comes after the step, in the events too.
        found = found._replace(ready=False, reason="Acting", message="a step about it has not ended yet")
    generation = leaving.generation if leaving else snapshots.desired.generations.get(key, 1)
    stalled = _stalled(planned.refused.get(key), planned.troubles.get(key))
    if before and before.generation == generation and is_awaited(key, snapshots, planned):
        found, stalled = last_known(key, before, found, stalled, snapshots)
    # Steps about a Gateway are about those on other nodes, and bring its own no nearer.
    reconciling = SETTLED if key.kind == "Gateway" and not found.ready else _reconciling(planned, key)
    states = (_ready(found, planned.refused.get(key), stalled), reconciling, stalled, *more)
    known = {condition.type: condition for condition in before.conditions} if before else {}
    conditions = tuple(each.at(snapshots.now, generation, known.get(each.type)) for each in states)
    return ObjectStatus(conditions, generation, found.extra)


def _is_acted_on(key: ObjectKey, snapshots: Snapshots) -> bool:
    return key.kind == "Node" and f"node/{key.name}" in snapshots.memory.in_flight


def _ready(found: Readiness, refusal: Refusal | None, stalled: ConditionState) -> ConditionState:
    """Return the reason why an object cannot become ready, if known, instead of the missing parts."""
    if found.ready or refusal is None or isinstance(refusal, GatewayRefusal):
        return ConditionState("Ready", found.ready, found.reason, found.message, found.person)
    if refusal.reason in AS_WISHED:
        return ConditionState("Ready", False, refusal.reason.value, refusal.text)
    return ConditionState("Ready", False, *stalled[2:])


SETTLED = ConditionState("Reconciling", False, "Settled", "")


def _reconciling(planned: ByObject, key: ObjectKey) -> ConditionState:
    if (step := planned.steps.get(key)) is not None:
        return ConditionState("Reconciling", True, "Acting", str(step))
    if (waiting := planned.waiting.get(key)) is not None:
        return ConditionState("Reconciling", bool(waiting.text), waiting.reason.value, waiting.text)
    return SETTLED


def _stalled(refusal: Refusal | None, trouble: Trouble | None) -> ConditionState:
    """Return the obstacle that only a person can remove, with the reason, and the exact steps if known."""
    if refusal is not None and refusal.reason in AS_WISHED:
        refusal = None
    asked = dict.fromkeys(each.person for each in (refusal, trouble) if each is not None and each.person)
    person = "; ".join(asked)
    if refusal is not None:
        return ConditionState("Stalled", bool(refusal.text), refusal.reason.value, refusal.text, person)
    if trouble is not None:
        return ConditionState("Stalled", True, trouble.fault.reason, trouble.seen, person)
    return ConditionState("Stalled", False, "NotStalled", "")


TERMINATING = "Terminating"
"""Reason of ``Ready`` for an object whose manifest was removed."""
LEAVING = Readiness(False, TERMINATING, "its manifest was removed; the rest of it is ending", {})
