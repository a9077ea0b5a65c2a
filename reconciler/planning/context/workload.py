"""The workload of a replica: its deployment, with the Model that it serves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from reconciler.resources import Model, ModelDeployment
from reconciler.state import Desired, Refusal, RefusedBecause, ReplicaId, earlier_context

from . import spec_hash


@dataclass(frozen=True)
class Workload:
    """A replica that has both a deployment and a Model, so that a group can be placed for it."""

    replica: ReplicaId
    deployment: ModelDeployment
    model: Model

    @cached_property
    def spec_hash(self) -> str:
        """Hash the spec; a group with the same hash serves this workload without a restart."""
        return spec_hash.compute(self.deployment, self.model)

    def is_served_by(self, fingerprint: str, context: int) -> bool:
        """Return whether a group with this hash and context serves the workload without a restart. A group from before
        contexts were kept (0) may have the usual one even if ``auto`` is wanted: the next group decides."""
        return fingerprint == self.spec_hash or (not context and fingerprint == self._earlier_hash)

    @cached_property
    def _earlier_hash(self) -> str:
        context = earlier_context(self.deployment.spec.serving.context)
        return spec_hash.compute(self.deployment, self.model, context)

    @property
    def path(self) -> str:
        """Return the path of the weights, as nodes report them."""
        return self.model.spec.source.folder

    def refuse(self, because: RefusedBecause, text: str, person: str = "") -> Refusal:
        """Build a refusal for the replica. ``person``: the steps that only a person can take."""
        return Refusal(self.replica.key, because, text, self.replica, person)


def of_manifests(desired: Desired, replica: ReplicaId) -> Workload | None:
    """Return the workload of a replica by its manifests; it keeps the hash of its spec from pass to pass."""
    return desired.once(_of_manifests, replica)


def _of_manifests(desired: Desired, replica: ReplicaId) -> Workload | None:
    deployment = desired.deployments.get(replica.deployment)
    model = desired.models.get(deployment.spec.model) if deployment else None
    return Workload(replica, deployment, model) if deployment and model else None


def of(desired: Desired, replica: ReplicaId, deployment: ModelDeployment, model: Model) -> Workload:
    """Return the workload of a replica with this deployment and Model, those of the manifests or others."""
    known = of_manifests(desired, replica)
    if known is not None and known.deployment is deployment and known.model is model:
        return known
    return Workload(replica, deployment, model)
