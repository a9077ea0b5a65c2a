"""Computes what the controller would do with other manifests, before they are committed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from reconciler.controller.loop import Loop
from reconciler.controller.parts import Parts
from reconciler.planning import safety
from reconciler.planning.rollout.costs import Cost, foresee
from reconciler.source.operations import load_operations
from reconciler.source.yaml.documents import load
from reconciler.state import AllocateEpoch, Desired, GroupRecord, ObjectKey, Plan, ReplicaId, StopRank
from reconciler.state.overlay import Operations

from . import bodies

UNNAMED = "this change"
"""Stands for the revision, which does not exist yet."""


async def preview(
    parts: Parts, loop: Loop, files: Mapping[str, str], operations: Mapping[str, str] | None
) -> dict[str, Any]:
    """Return the answer to ``wire.admin.Preview``. Raises ``InvalidManifests`` for invalid files."""
    instead = None if operations is None else Operations(UNNAMED, load_operations(_encoded(operations)))
    wishes = wished(_encoded(files))
    removal = parts.desired_state.removal(parts.desired_state.with_operations(wishes, instead), ())
    desired = await parts.desired_state.foreseen(wishes, instead)
    plan = await loop.preview(desired)
    groups = parts.store.groups()
    costs = tuple(foresee(parts.desired_state.desired, desired, groups, plan))
    return foreseen(removal, plan, groups, costs)


def wished(files: Mapping[str, bytes]) -> Desired:
    """Return what the manifests of a change wish for. Raises ``InvalidManifests``."""
    return Desired.of(UNNAMED, (document.manifest for document in load(files)))


def foreseen(
    removal: safety.Removal,
    plan: Plan,
    groups: Mapping[ReplicaId, GroupRecord],
    costs: Collection[Cost] = (),
) -> dict[str, Any]:
    """Return the body of the answer, from a plan, what is removed where no commit says anything of that, the recorded groups
    and what changes of deployments cost."""
    return {
        "removes": [str(key) for key in removal.removes],
        "of": removal.of,
        "serving": [str(key) for key in removal.unsaid],
        "held": removal.much,
        "plan": bodies.plan_body(plan),
        "replicas": [
            {**_future(plan, replica, record), "unservedSeconds": _seconds(costs, replica)}
            for replica, record in sorted(groups.items())
        ],
        "changes": [_change(cost) for cost in costs],
    }


def _change(cost: Cost) -> dict[str, Any]:
    """Return what becomes of a deployment. ``unservedSeconds``: how long nobody is served, null where unknown;
    ``extraHasRoom``: whether there is room for an extra replica, null where unknown."""
    return {
        "object": str(ObjectKey("ModelDeployment", cost.deployment)),
        "kind": cost.kind.value,
        "changes": list(cost.changes),
        "replicas": len(cost.replicas),
        "atOnce": cost.at_once,
        "extra": cost.surge,
        "extraHasRoom": cost.room,
        "secondsEach": cost.seconds,
        "unservedSeconds": cost.unserved_seconds,
        "text": cost.text,
    }


def _seconds(costs: Collection[Cost], replica: ReplicaId) -> float | None:
    """Return for how long a replica is out of service through the change; null where unknown."""
    return next((cost.seconds for cost in costs if replica in cost.replicas), 0.0)


def _encoded(files: Mapping[str, str]) -> dict[str, bytes]:
    return {name: text.encode() for name, text in files.items()}


def _future(plan: Plan, replica: ReplicaId, record: GroupRecord) -> dict[str, Any]:
    steps = [step for step in plan.steps if getattr(step, "replica", None) == replica]
    formed = next((step.group for step in steps if isinstance(step, AllocateEpoch)), None)
    reasons = [refusal.text for refusal in plan.refused if refusal.replica == replica]
    reasons += [waiting.text for waiting in plan.waiting if waiting.replica == replica]
    return {
        "object": str(replica.key),
        "replica": replica.index,
        "nodes": list(record.members),
        "moves": list(formed.members) if formed else None,
        "ends": formed is None and any(isinstance(step, StopRank) for step in steps),
        "text": reasons[0] if reasons else "",
    }
