"""Computes the plan for other manifests, or for other operations, before they are committed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import islice

from reconciler.admission.judge import Incoming, Verdict
from reconciler.controller.loop import Loop
from reconciler.controller.parts import Parts
from reconciler.errors import Invalid
from reconciler.planning.context.world import World
from reconciler.planning.placement.capacity import beyond_all_nodes
from reconciler.planning.rollout.costs import Cost
from reconciler.planning.rollout.costs import foresee as foresee_costs
from reconciler.source.operations import load_operations
from reconciler.source.yaml.beside import unpacked
from reconciler.source.yaml.documents import load
from reconciler.state import (
    AllocateEpoch,
    Desired,
    GroupRecord,
    ObjectKey,
    Plan,
    ReplicaId,
    StopRank,
    WorkloadId,
)
from reconciler.state.desired import UNNAMED
from reconciler.state.memory import of_deployments
from reconciler.state.operations import Operations
from reconciler.state.plan import workload_of
from reconciler.wire import answers
from reconciler.wire.admin import Preview

from . import bodies
from .forecast import Change

TOO_LARGE_SHOWN = 5
"""Most deployments that are named as too large: for each, the search looks for a change that would fit."""


async def preview(parts: Parts, loop: Loop, message: Preview) -> answers.Foreseen:
    """Return the answer to ``wire.admin.Preview``. Raises ``InvalidManifests`` and ``Invalid`` for invalid files."""
    if message.operations is not None:
        return await foresee(parts, loop, None, laid_by(_encoded(message.operations)))
    try:
        files = unpacked(message.files, message.job_files)
    except ValueError:
        raise Invalid("expected the files of jobs in base64") from None
    wished = wished_by(files, message.allowed)
    return await foresee(parts, loop, wished, parts.desired_state.operations)


async def foresee(
    parts: Parts, loop: Loop, wished: Incoming | None, operations: Operations
) -> answers.Foreseen:
    """Return the body of the answer for manifests, or for those in force, with these operations."""
    state, too_large = parts.desired_state, tuple[str, ...]()
    if wished is None:
        verdict = shown = await state.judge_again(operations)
    else:
        verdict = shown = await state.judge(wished, operations)
        if verdict.hold is not None:  # nobody approves a plan without having seen it
            shown = await state.judge(replace(wished, approved=True), operations)
        too_large = beyond_all(parts, state.with_operations(UNNAMED, wished.manifests, operations))
    desired = state.after(shown, operations)
    plan, groups = await loop.preview(desired), parts.store.groups()
    costs = tuple(foresee_costs(state.desired, desired, groups, plan))
    return foreseen(verdict, plan, groups, costs, too_large)


def laid_by(files: Mapping[str, bytes]) -> Operations:
    """Return the operations in files. Raises ``InvalidManifests``."""
    return Operations(UNNAMED, load_operations(files))


def beyond_all(parts: Parts, incoming: Desired) -> tuple[str, ...]:
    """Return a sentence for each of the first deployments that a change makes larger than any of the nodes could hold."""
    change = Change.between(parts.desired_state.desired.objects(), incoming.objects())
    world = World(incoming, parts.last.observed, parts.last.memory, parts.clock(), "")
    concerned = frozenset((*change.added, *change.changed))
    return tuple(islice(beyond_all_nodes(world, concerned), TOO_LARGE_SHOWN))


def wished_by(files: Mapping[str, bytes], allowed: Collection[str] = ()) -> Incoming:
    """Return the wishes in the manifests of a change. Raises ``InvalidManifests``."""
    wished = Desired.of(UNNAMED, (document.manifest for document in load(files)))
    return Incoming(UNNAMED, wished.objects(), allowed=allowed)


def foreseen(
    verdict: Verdict,
    plan: Plan,
    groups: Mapping[WorkloadId, GroupRecord],
    costs: Collection[Cost] = (),
    too_large: Collection[str] = (),
) -> answers.Foreseen:
    """Return the body of the answer, from the verdict, the plan, the recorded groups, and the costs of changed deployments."""
    return {
        "removes": [str(key) for key in verdict.removal.removes],
        "of": verdict.removal.of,
        "serving": [str(key) for key in verdict.removal.unsaid],
        "runs": [bodies.job_to_run(each) for each in verdict.runs],
        "held": verdict.hold is not None,
        "suspended": verdict.suspended.text if verdict.suspended is not None else "",
        "tooLarge": list(too_large),
        "plan": bodies.plan_body(plan),
        "replicas": [
            _future(plan, replica, record, _seconds(costs, replica))
            for replica, record in sorted(of_deployments(groups).items())
        ],
        "changes": [_change(cost) for cost in costs],
    }


def _change(cost: Cost) -> answers.CostOfChange:
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
    """Return for how long the change takes a replica out of service; None if unknown."""
    return next((cost.seconds for cost in costs if replica in cost.replicas), 0.0)


def _encoded(files: Mapping[str, str]) -> dict[str, bytes]:
    return {name: text.encode() for name, text in files.items()}


def _future(
    plan: Plan, replica: ReplicaId, record: GroupRecord, unserved_seconds: float | None
) -> answers.FutureReplica:
    steps = [step for step in plan.steps if workload_of(step) == replica]
    formed = next((step.group for step in steps if isinstance(step, AllocateEpoch)), None)
    reasons = [refusal.told for refusal in plan.refused if refusal.workload == replica]
    reasons += [waiting.text for waiting in plan.waiting if waiting.workload == replica]
    return {
        "object": str(replica.key),
        "replica": replica.index,
        "nodes": list(record.members),
        "moves": list(formed.members) if formed else None,
        "ends": formed is None and any(isinstance(step, StopRank) for step in steps),
        "text": reasons[0] if reasons else "",
        "unservedSeconds": unserved_seconds,
    }
