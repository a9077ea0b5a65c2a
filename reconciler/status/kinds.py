"""The function for the readiness of each kind. A new kind needs a module and a row here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from . import api_key, deployment, fabric, gateway, job, node, notifier, sync_window, weights
from .snapshots import Readiness, Snapshots

READINESS: Mapping[str, Callable[[str, Snapshots], Readiness]] = {
    "Node": node.readiness,
    "Fabric": fabric.of_fabric,
    "Model": weights.of_model,
    "ModelDeployment": deployment.readiness,
    "Gateway": gateway.readiness,
    "Notifier": notifier.readiness,
    "ApiKey": api_key.readiness,
    "SyncWindow": sync_window.readiness,
    "Job": job.readiness,
}
