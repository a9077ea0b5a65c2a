"""Back to the weights before: what is served instead of a commit that does not come up.

The wish in git stays as it is. It applies again when it names other weights, or when the deployment is restarted.
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

from . import restart_budget
from .diagnose import Diagnosis, tries

TRIES_MAX = 2
"""Groups of new weights that end before they have served for long; one that refuses them is enough."""
BLAMED = (
    FaultClass.RANK_CRASH,
    FaultClass.SILENT_HANG,
    FaultClass.GPU_FAULT,
    FaultClass.SERVICE_WEDGED,
)
"""What may be the weights' doing. Cables, machines and their system are as they were with those before."""


def effective(world: World, deployment: ModelDeployment) -> Model | None:
    """The Model that a deployment is served with: as its manifest says, or with the weights before."""
    model = world.desired.models.get(deployment.spec.model)
    setback = applying(world, deployment)
    hub = model.spec.source.huggingface if model else None
    if model is None or setback is None or hub is None:
        return model
    repo, _, revision = setback.served.partition("@")
    source = model.spec.source.model_copy(
        update={"huggingface": hub.model_copy(update={"repo": repo, "revision": revision})}
    )
    return model.model_copy(update={"spec": model.spec.model_copy(update={"source": source})})


def applying(world: World, deployment: ModelDeployment) -> Rollback | None:
    """The setback of a deployment whose wish is still the one that did not come up."""
    setback = world.memory.setbacks.get(DeploymentName(deployment.metadata.name))
    model = world.desired.models.get(deployment.spec.model)
    if setback is None or model is None or setback.model != model.metadata.name:
        return None
    same = setback.tried == named(model.spec.source.huggingface)
    return setback if same and setback.restarted_at == (deployment.spec.restarted_at or "") else None


def step(view: Formed, fault: Diagnosis) -> SetBack | None:
    """Give new weights up that do not come up, where others have served before."""
    record, workload = view.record, view.workload
    if workload is None or not view.up_to_date:
        return None
    new = record.weights and record.weights_before and record.weights != record.weights_before
    if not new or fault.fault not in BLAMED or restart_budget.lived_long(view, fault):
        return None
    if fault.remedy is not Remedy.REFUSE and tries(view, fault.fault) + 1 < TRIES_MAX:
        return None
    setback = Rollback(
        workload.model.metadata.name,
        record.weights,
        record.weights_before,
        workload.deployment.spec.restarted_at or "",
        view.world.now,
        fault.text,
    )
    return SetBack(view.replica, setback)


def refusals(world: World) -> Iterator[Refusal]:
    """What is wanted and not served, said of the deployment and of its Model."""
    for name, deployment in sorted(world.desired.deployments.items()):
        setback = applying(world, deployment)
        if setback is not None and not world.desired.stopping:
            text = (
                f"{shown(setback.tried)} did not come up in {name} ({setback.text}); {shown(setback.served)} is served"
                f" instead; to do: reconciler model update {setback.model} --revision COMMIT, or try it once more:"
                f" reconciler rollout restart deployment/{name}"
            )
            for key in (ObjectKey("Model", setback.model), ObjectKey("ModelDeployment", name)):
                yield Refusal(key, RefusedBecause.SET_BACK, text)


def replacement_reason(view: Wanted) -> str:
    """Why a group is replaced by one for another wish."""
    back = applying(view.world, view.deployment)
    return f"back to {shown(back.served)}" if back else "its manifest has changed"
