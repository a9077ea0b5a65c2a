"""The workload of a replica: its deployment, with the Model that it serves, and the hash of both."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from reconciler.resources import Model, ModelDeployment
from reconciler.resources.deployment import ModelDeploymentSpec
from reconciler.state import Desired, Refusal, RefusedBecause, ReplicaId, Waiting, WaitingFor, earlier_context
from reconciler.wire.engines import MLX, Engine

from .decision import waiting


@dataclass(frozen=True)
class Workload:
    """A replica that has both a deployment and a Model, so that a group can be placed for it."""

    replica: ReplicaId
    deployment: ModelDeployment
    model: Model

    @cached_property
    def spec_hash(self) -> str:
        """Hash the spec; a group with the same hash serves this workload without a restart."""
        return hash_of(self.deployment.spec, self.model)

    def is_served_by(self, fingerprint: str, context: int) -> bool:
        """Return whether a group with this hash and context serves the workload without a restart. A group from before
        contexts were kept (0) may have the usual one even if ``auto`` is wanted: the next group decides."""
        return fingerprint == self.spec_hash or (not context and fingerprint == self._earlier_hash)

    @cached_property
    def _earlier_hash(self) -> str:
        context = earlier_context(self.deployment.spec.serving.context)
        return hash_of(self.deployment.spec, self.model, context)

    @property
    def engine(self) -> Engine:
        """Return the engine of its ranks. There is one."""
        return MLX

    @property
    def path(self) -> str:
        """Return the path of the weights, as nodes report them."""
        return self.model.spec.source.folder

    def wait(self, reason: WaitingFor, text: str, until: float | None = None) -> Waiting:
        """Say what the replica waits for; ``until`` in seconds of the controller's clock."""
        return waiting(self.replica, reason, text, until)

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


def hash_of(spec: ModelDeploymentSpec, model: Model, context: int | None = None) -> str:
    """Hash the spec of a deployment with its Model; with another context if one is given. Equal for two specs exactly when
    a running group serves both without a restart.

    Replicas, aliases, labels and the number of nodes within bounds are not part of it: changing them needs no
    restart.
    """
    wanted = context or spec.serving.context
    hashed: dict[str, Any] = {
        "model": _weights(model),
        "strategy": spec.parallelism.strategy,
        "context": wanted,
        "maxBatch": spec.serving.max_batch,
    }
    if spec.serving.prefix_cache is not None:
        hashed["prefixCache"] = spec.serving.prefix_cache
    if spec.serving.kv_cache is not None:
        hashed["kvCache"] = spec.serving.kv_cache
    if spec.serving.rope_scaling is not None:
        hashed["ropeScaling"] = spec.serving.rope_scaling.model_dump()
    if spec.serving.embedding is not None:
        hashed["embedding"] = spec.serving.embedding.model_dump()
    if spec.fast_synch:
        hashed["fastSynch"] = True
    if spec.restarted_at is not None:  # only then, so that groups formed before the field existed stay
        hashed["restartedAt"] = spec.restarted_at
    return hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()[:16]


def _weights(model: Model) -> dict[str, Any]:
    """Return the fields of a Model that ranks depend on; for a path, in the form from before there were other sources."""
    hub = model.spec.source.huggingface
    source = {"repo": hub.repo, "revision": hub.revision} if hub else {"path": model.spec.source.path}
    return {"source": source, "trustRemoteCode": model.spec.trust_remote_code}
