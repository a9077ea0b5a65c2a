"""The readiness of an ApiKey: whether it is valid, and for which models."""

from __future__ import annotations

from reconciler.resources.api_key import ApiKey
from reconciler.state.identity import ObjectKey

from .snapshots import Readiness, Snapshots


def readiness(name: str, snapshots: Snapshots) -> Readiness:
    """Return ready until the key expires by the controller's clock, if all its models exist."""
    key = snapshots.desired.others[ObjectKey("ApiKey", name)]
    assert isinstance(key, ApiKey)
    spec = key.spec
    expires = spec.expires.timestamp() if spec.expires else None
    extra = {"expiresAt": expires, "models": list(spec.models)}
    if expires is not None and expires <= snapshots.now:
        return Readiness(
            False, "Expired", "the key has expired: remove it, or set a later time in spec.expires", extra
        )
    missing = [model for model in spec.models if model not in snapshots.desired.deployments]
    if missing:
        text = f"there is no ModelDeployment {', '.join(missing)}: add it, or remove it from spec.models"
        return Readiness(False, "DeploymentNotFound", text, extra)
    return Readiness(True, "Valid", "the key is valid; the endpoint does not check keys yet", extra)
