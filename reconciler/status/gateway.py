"""The readiness of a Gateway: where it listens, and what it answers there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reconciler.errors import few_names
from reconciler.resources import Gateway, Manifest
from reconciler.resources.api_key import ApiKey
from reconciler.resources.gateway import GatewayAccessLog
from reconciler.wire.generation import AccessLog, Routes, Tls
from reconciler.wire.keys import AccessKey, KeyLimits, SecretHash

from . import certificate
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
    extra: dict[str, Any] = {"endpoint": gateway.endpoint, "pid": gateway.pid}
    if gateway.certificate is not None:
        extra["certificate"] = certificate.as_json(gateway.certificate)
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


def door(gateway: Gateway, manifests: Iterable[Manifest]) -> Routes:
    """Return what the routes say of the endpoint itself: where it listens, and who may use it."""
    spec = gateway.spec
    keys = () if spec.auth.mode == "none" else tuple(_keys(manifests))
    return Routes(
        0,
        0,
        spec.listen,
        spec.hold,
        hosts=spec.hosts,
        auth=spec.auth.mode,
        keys=keys,
        tls=Tls(spec.tls.certificate, spec.tls.key) if spec.tls else None,
        origins=spec.cors.origins if spec.cors else (),
        access_log=_access_log(spec.access_log) if spec.access_log else None,
    )


def _access_log(spec: GatewayAccessLog) -> AccessLog:
    return AccessLog(spec.max_size, spec.rotate_after, spec.keep_files, spec.keep_for, spec.content)


def _keys(manifests: Iterable[Manifest]) -> Iterable[AccessKey]:
    for key in manifests:
        if isinstance(key, ApiKey):
            spec, limits = key.spec, key.spec.limits
            previous = (SecretHash(secret.hash, secret.until.timestamp()) for secret in spec.previous)
            yield AccessKey(
                key.metadata.name,
                (SecretHash(spec.hash), *previous),
                spec.models,
                KeyLimits(
                    limits.requests_per_minute,
                    limits.tokens_per_minute,
                    limits.tokens_per_day,
                    limits.parallel_requests,
                ),
                spec.expires.timestamp() if spec.expires else 0.0,
                spec.revoked,
                spec.metrics,
            )
