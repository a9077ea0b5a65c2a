"""The hash of a spec: equal for two specs exactly when a running group serves both without a restart."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from reconciler.resources import Model, ModelDeployment


def compute(deployment: ModelDeployment, model: Model) -> str:
    """Equal for two wishes exactly when a running group serves both alike, without a restart.

    Replicas, aliases, labels and the number of nodes within bounds are no part of it.
    """
    spec = deployment.spec
    wish: dict[str, Any] = {
        "model": _weights(model),
        "strategy": spec.parallelism.strategy,
        "context": spec.serving.context,
        "maxBatch": spec.serving.max_batch,
    }
    if spec.fast_synch:
        wish["fastSynch"] = True
    if spec.restarted_at is not None:  # only then, so that groups formed before the field existed stay
        wish["restartedAt"] = spec.restarted_at
    return hashlib.sha256(json.dumps(wish, sort_keys=True).encode()).hexdigest()[:16]


def _weights(model: Model) -> dict[str, Any]:
    """What of a Model its ranks depend on; for a path as it was written before there were other sources."""
    hub = model.spec.source.huggingface
    source = {"repo": hub.repo, "revision": hub.revision} if hub else {"path": model.spec.source.path}
    return {"source": source, "trustRemoteCode": model.spec.trust_remote_code}
