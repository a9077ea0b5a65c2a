"""The readiness of a Gateway: whether and where it listens."""

from __future__ import annotations

from .snapshots import Readiness, Snapshots


def readiness(name: str, snapshots: Snapshots) -> Readiness:
    gateway = snapshots.observed.gateway
    if gateway is None:
        return Readiness(
            False, "GatewayDown", "the gateway process is not running", {"endpoint": None, "pid": None}
        )
    if gateway.endpoint is None:
        return Readiness(
            False, "NotListening", "the gateway is not listening", {"endpoint": None, "pid": None}
        )
    return Readiness(True, "Listening", gateway.endpoint, {"endpoint": gateway.endpoint, "pid": gateway.pid})
