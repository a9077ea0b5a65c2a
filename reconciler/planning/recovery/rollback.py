"""Rollback: serve the weights before, instead of a revision that does not come up.

The spec in git stays as it is. It applies again when it names other weights, or when the deployment is restarted.
"""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.planning.context.view import Formed, Wanted
from reconciler.planning.context.world import World
from reconciler.planning.diagnosis.rules import Remedy
from reconciler.resources import Model, ModelDeployment
from reconciler.state import DeploymentName, FaultClass, Refusal, RefusedBecause
from reconciler.state.identity import ObjectKey
from reconciler.state.machine.weights import named, shown
from reconciler.state.plan import SetBack
from reconciler.state.rollback import Rollback

from .back_off import served_seconds
from .diagnose import Diagnosis, attempts

ATTEMPTS_MAX = 2
"""How many groups with new weights may end before they have served for long. One that refuses the weights is
enough."""
LONG_SECONDS = 600.0
"""Weights whose group served for this long, and for twice the time it took to come up, have proven themselves."""
BLAMED = (
    FaultClass.RANK_CRASH,
    FaultClass.SILENT_HANG,
    FaultClass.GPU_FAULT,
    FaultClass.SERVICE_WEDGED,
)
"""Faults that may come from the weights. Cables, machines and their system are as they were with the old ones."""


def effective(world: World, deployment: ModelDeployment) -> Model | None:
    """Return the Model that a deployment is served with: as its manifest says, or with the weights before."""
    model = world.desired.models.get(deployment.spec.model)
    rollback = applying(world, deployment)
    hub = model.spec.source.huggingface if model else None
    if model is None or rollback is None or hub is None:
        return model
    repo, _, revision = rollback.served.partition("@")
    source = model.spec.source.model_copy(
        update={"huggingface": hub.model_copy(update={"repo": repo, "revision": revision})}
    )
    return model.model_copy(update={"spec": model.spec.model_copy(update={"source": source})})


def applying(world: World, deployment: ModelDeployment) -> Rollback | None:
    """Return the rollback of a deployment whose spec is still the one that did not come up; None where there is
    none."""
    rollback = world.memory.rollbacks.get(DeploymentName(deployment.metadata.name))
    model = world.desired.models.get(deployment.spec.model)
    if rollback is None or model is None or rollback.model != model.metadata.name:
        return None
    same = rollback.tried == named(model.spec.source.huggingface)
    return rollback if same and rollback.restarted_at == (deployment.spec.restarted_at or "") else None


def step(view: Formed, fault: Diagnosis) -> SetBack | None:
    """Give up new weights that do not come up, where others have served before; None where there is no reason to."""
    record, workload = view.record, view.workload
    if workload is None or not view.up_to_date:
        return None
    new = record.weights and record.weights_before and record.weights != record.weights_before
    if not new or fault.fault not in BLAMED or lived_long(view, fault):
        return None
    if fault.remedy is not Remedy.REFUSE and attempts(view, fault.fault) + 1 < ATTEMPTS_MAX:
        return None
    rollback = Rollback(
        workload.model.metadata.name,
        record.weights,
        record.weights_before,
        workload.deployment.spec.restarted_at or "",
        view.world.now,
        fault.text,
    )
    return SetBack(view.replica, rollback)


def lived_long(view: Wanted, fault: Diagnosis | None) -> bool:
    """Return whether the group has served long enough to trust its weights."""
    record, served = view.record, served_seconds(view, fault)
    if record is None or record.proven_at is None or served is None:
        return False
    load = min(record.proven_at - record.created_at, view.health.progress_deadline)
    return served >= max(LONG_SECONDS, 2 * load)


def refusals(world: World) -> Iterator[Refusal]:
    """Say what is wanted and not served, of the deployment and of its Model."""
    for name, deployment in sorted(world.desired.deployments.items()):
        rollback = applying(world, deployment)
        if rollback is not None and not world.desired.stopping:
            text = (
                f"{shown(rollback.tried)} did not come up in {name} ({rollback.text}); {shown(rollback.served)} is served"
                f" instead; to do: reconciler model update {rollback.model} --revision COMMIT, or try it once more:"
                f" reconciler rollout restart deployment/{name}"
            )
            for key in (ObjectKey("Model", rollback.model), ObjectKey("ModelDeployment", name)):
                yield Refusal(key, RefusedBecause.SET_BACK, text)


def replacement_reason(view: Wanted) -> str:
    """Say why a group is replaced by one for another spec."""
    back = applying(view.world, view.deployment)
    return f"back to {shown(back.served)}" if back else "its manifest has changed"
