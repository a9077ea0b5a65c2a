"""The readiness of a Gateway: where it listens."""

from __future__ import annotations

from .snapshots import Readiness, Snapshots


def readiness(name: str, snapshots: Snapshots) -> Readiness:
    gateway = snapshots.observed.gateway
    if gateway is None:
        return Readiness(
            False, "GatewayDown", "the gateway process does not run", {"endpoint": None, "pid": None}
        )
    if gateway.endpoint is None:
        return Readiness(
            False, "NotListening", "the gateway listens nowhere", {"endpoint": None, "pid": None}
        )
    return Readiness(True, "Listening", gateway.endpoint, {"endpoint": gateway.endpoint, "pid": gateway.pid})
