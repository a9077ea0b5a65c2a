"""The readiness of a Gateway: where it listens, and what it answers there."""

from __future__ import annotations

from reconciler.errors import few_names

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
    extra = {"endpoint": gateway.endpoint, "pid": gateway.pid}
    door = gateway.door
    if door is None:
        text = f"it has begun to listen at {gateway.endpoint}, and has not been asked there yet"
        return Readiness(False, "NotAsked", text, extra)
    if door.problem:
        text = f"it does not answer at {gateway.endpoint}: {door.problem}; see: reconciler logs --gateway"
        return Readiness(False, "GatewaySilent", text, extra)
    if door.unserved:
        models = few_names(door.unserved)
        text = f"it answers at {gateway.endpoint}, but is connected to no group of {models}; see: reconciler get deployments"
        return Readiness(False, "NoGroupConnected", text, extra)
    message = f"{gateway.endpoint}; {gateway.shortage}" if gateway.shortage else gateway.endpoint
    return Readiness(True, "Listening", message, extra)
