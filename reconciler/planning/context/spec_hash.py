"""The hash of a spec: equal for two specs exactly when a running group serves both without a restart."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from reconciler.resources import Model, ModelDeployment
from reconciler.resources.deployment import ModelDeploymentSpec


def compute(deployment: ModelDeployment, model: Model, context: int | None = None) -> str:
    """Hash the spec of a deployment with its Model; with another context if one is given.

    Replicas, aliases, labels and the number of nodes within bounds are not part of it: changing them needs no
    restart.
    """
    return of_spec(deployment.spec, model, context)


def of_spec(spec: ModelDeploymentSpec, model: Model, context: int | None = None) -> str:
    """Hash the spec of a deployment with its Model, as ``compute``."""
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
