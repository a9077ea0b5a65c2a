"""The readiness of an ApiKey: whether it has expired, and what it may use."""

from __future__ import annotations

from reconciler.resources.api_key import ApiKey
from reconciler.state.identity import ObjectKey

from .snapshots import Readiness, Snapshots


def readiness(name: str, snapshots: Snapshots) -> Readiness:
    """Ready until it expires, by the controller's clock, and while every model that it names is there."""
    key = snapshots.desired.others[ObjectKey("ApiKey", name)]
    assert isinstance(key, ApiKey)
    spec = key.spec
    expires = spec.expires.timestamp() if spec.expires else None
    extra = {"expiresAt": expires, "models": list(spec.models)}
    if expires is not None and expires <= snapshots.now:
        return Readiness(False, "Expired", "it has expired: remove it, or give it a later time", extra)
    missing = [model for model in spec.models if model not in snapshots.desired.deployments]
    if missing:
        text = f"there is no ModelDeployment {', '.join(missing)}: add it, or take it out of spec.models"
        return Readiness(False, "DeploymentNotFound", text, extra)
    return Readiness(True, "Valid", "it is valid; the endpoint does not ask for keys yet", extra)
