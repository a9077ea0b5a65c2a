"""The spec that a deployment is to get: that of the manifests, or the last one that served if the newer one did not
come up.

The spec in git stays as it is. It applies again when anything in it changes, or when the deployment is restarted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from reconciler.planning.context import workload as workloads
from reconciler.planning.context.world import World
from reconciler.resources import Model, ModelDeployment
from reconciler.state import DeploymentName, Desired, GroupRecord, ReplicaId
from reconciler.state.formed_spec import FormedSpec
from reconciler.state.machine.weights import named, shown
from reconciler.state.rollback import Rollback

from . import specs
from .costs import kind, misfit


class Wish(NamedTuple):
    """The spec that all replicas of a deployment are to be served with."""

    deployment: ModelDeployment
    model: Model | None
    """None if no manifest has the Model."""
    rollback: Rollback | None = None
    """Set if it is an earlier spec that served."""

    @property
    def returned(self) -> str:
        """Say what is served again; empty if the manifests are followed."""
        if self.rollback is None:
            return ""
        if not self.rollback.spec_served:
            return shown(self.rollback.served)
        return f"the spec before {specs.shown_changes(self.rollback.spec_served, self.rollback.spec_tried)}"


def of(world: World, name: DeploymentName) -> Wish:
    return world.once(_of, name)


def _of(world: World, name: DeploymentName) -> Wish:
    deployment = world.desired.deployments[name]
    model = world.desired.models.get(deployment.spec.model)
    rollback = applying(world, name)
    if rollback is None:
        return Wish(deployment, model)
    if rollback.spec_served:
        return Wish(*specs.applied(deployment, rollback.spec_served), rollback)
    return Wish(deployment, _with_weights(model, rollback.served), rollback)


def _with_weights(model: Model | None, weights: str) -> Model | None:
    """Return the same Model with other weights, for a rollback from before whole specs were kept."""
    hub = model.spec.source.huggingface if model else None
    if model is None or hub is None:
        return model
    repo, _, revision = weights.partition("@")
    source = model.spec.source.model_copy(
        update={"huggingface": hub.model_copy(update={"repo": repo, "revision": revision})}
    )
    return model.model_copy(update={"spec": model.spec.model_copy(update={"source": source})})


def applying(world: World, name: DeploymentName) -> Rollback | None:
    """Return the rollback of a deployment whose spec is still the one that did not come up; None if there is
    none."""
    rollback = world.memory.rollbacks.get(name)
    return rollback if rollback is not None and _applies(world.desired, name, rollback) else None


def over(desired: Desired, rollbacks: Mapping[DeploymentName, Rollback]) -> Iterator[DeploymentName]:
    """Yield the deployments whose spec is no longer the one that did not come up: if that comes back, it is tried once
    more."""
    for name, rollback in rollbacks.items():
        if name in desired.deployments and not _applies(desired, name, rollback):
            yield name


def _applies(desired: Desired, name: DeploymentName, rollback: Rollback) -> bool:
    deployment = desired.deployments[name]
    model = desired.models.get(deployment.spec.model)
    if model is None:
        return False
    if rollback.spec_tried:
        return rollback.spec_tried == specs.of_manifests(desired, name)
    same = rollback.model == model.metadata.name and rollback.tried == named(model.spec.source.huggingface)
    return same and rollback.restarted_at == (deployment.spec.restarted_at or "")


# --- what a group has instead ------------------------------------------------------------------------


def difference(world: World, found: Wish, replica: ReplicaId) -> str:
    """Say how the group of a replica differs from the spec that it is to get; empty if it does not, or there is no
    group."""
    record = world.memory.groups.get(replica)
    return _difference(world, found, record) if record else ""


def _difference(world: World, found: Wish, record: GroupRecord) -> str:
    if found.model is None:
        return "its model is gone"
    wanted = workloads.of(world.desired, record.replica, found.deployment, found.model)
    if not wanted.is_served_by(record.fingerprint, record.context):
        return _changed(found, record)
    return misfit(world.desired.nodes, found.deployment, record)


def _changed(found: Wish, record: GroupRecord) -> str:
    """Say what another spec changes, and the kind of the change."""
    if found.returned:
        return f"back to {found.returned}"
    if not record.spec or found.model is None:
        return "its manifest has changed"
    wanted = FormedSpec.of(found.deployment, found.model)
    changes = specs.shown_changes(record.spec, wanted)
    return f"{changes} ({kind(record.spec, wanted).value})" if changes else "a restart was asked for"
