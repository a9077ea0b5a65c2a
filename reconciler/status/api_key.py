"""The readiness of an ApiKey: its validity, its models, and its use."""

from __future__ import annotations

from reconciler.resources.api_key import ApiKey
from reconciler.state.identity import ObjectKey
from reconciler.wire import objects

from .snapshots import Readiness, Snapshots

DAY_SECONDS = 86_400


class _Fields(objects.UsedKey, total=False):
    """As the store keeps them, with times in seconds since the Unix epoch."""

    lastUsedAt: float | None  # noqa: N815 - a field of the wire


def readiness(name: str, snapshots: Snapshots) -> Readiness:
    """Return ready until the key is revoked or expires by the controller's clock, if all its models exist."""
    key = snapshots.desired.others[ObjectKey("ApiKey", name)]
    assert isinstance(key, ApiKey)
    spec = key.spec
    expires = spec.expires.timestamp() if spec.expires else None
    extra: _Fields = {"expiresAt": expires, "models": list(spec.models), **_used(name, snapshots)}
    if spec.revoked:
        text = "the key is revoked: requests with it are refused; delete it when nobody has to know why"
        return Readiness(False, "Revoked", text, extra)
    if expires is not None and expires <= snapshots.now:
        text = "the key has expired: remove it, or set a later time in spec.expires"
        return Readiness(False, "Expired", text, extra)
    missing = [model for model in spec.models if model not in snapshots.desired.deployments]
    if missing:
        text = f"there is no ModelDeployment {', '.join(missing)}: add it, or remove it from spec.models"
        return Readiness(False, "DeploymentNotFound", text, extra)
    return Readiness(True, "Valid", f"the key is valid{_previous(key, snapshots)}", extra)


def _previous(key: ApiKey, snapshots: Snapshots) -> str:
    """Return a note if earlier secrets are still good, or if the Gateway asks for no keys."""
    gateway = snapshots.desired.gateway
    if gateway is None or gateway.spec.auth.mode == "none":
        return "; the Gateway asks for no keys: spec.auth.mode is not keys"
    good = [secret for secret in key.spec.previous if secret.until.timestamp() > snapshots.now]
    if not good:
        return ""
    last = max(secret.until for secret in good)
    return f"; its secret from before the last rotation is good until {last:%Y-%m-%dT%H:%M:%SZ}"


def _used(name: str, snapshots: Snapshots) -> _Fields:
    """Return the use of the key, as far as the gateway has reported it."""
    gateway = snapshots.observed.gateway
    used = next((each for each in gateway.usage if each.name == name), None) if gateway is not None else None
    if used is None:
        return {"lastUsedAt": None, "requestsToday": 0, "tokensToday": 0}
    today = used.day == int(snapshots.now // DAY_SECONDS)
    return {
        "lastUsedAt": used.last_used or None,
        "requestsToday": used.requests if today else 0,
        "tokensToday": used.tokens if today else 0,
    }
