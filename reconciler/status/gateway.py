"""The readiness of a Gateway: its address, and its answer there."""

from __future__ import annotations

from collections.abc import Iterable

from reconciler.errors import few_names
from reconciler.resources import Gateway, Manifest
from reconciler.resources import gateway as resources
from reconciler.resources.api_key import ApiKey
from reconciler.resources.gateway import GatewayAccessLog
from reconciler.state import NodeGatewayObservation, NodeName
from reconciler.state.gateways_on_nodes import nodes_without_gateway, ranks_out_of_reach
from reconciler.wire import objects
from reconciler.wire.gateway import AccessLog, LimitsStore, Tls
from reconciler.wire.generation import Routes
from reconciler.wire.keys import AccessKey, KeyLimits, SecretHash, digest_of

from . import certificate, limits
from .snapshots import Readiness, Snapshots


def readiness(name: str, snapshots: Snapshots) -> Readiness:
    gateway = snapshots.observed.gateway
    nowhere: objects.GatewayFields = {"endpoint": None, "pid": None}
    if gateway is None:
        return Readiness(False, "GatewayDown", "the gateway process is not running", nowhere)
    if gateway.endpoint is None:
        return Readiness(False, "NotListening", "the gateway is not listening", nowhere)
    extra: objects.GatewayFields = {"endpoint": gateway.endpoint, "pid": gateway.pid}
    if gateway.certificate is not None:
        extra["certificate"] = certificate.as_json(gateway.certificate)
    if gateway.limits is not None:
        extra["limits"] = limits.as_json(gateway.limits)
    others = snapshots.observed.gateways_on_nodes.values()
    if others:
        extra["others"] = [_other(each) for each in others]
    door = gateway.door
    if door is None:
        text = f"it has begun to listen at {gateway.endpoint}, and has not been asked there yet"
        return Readiness(False, "NotAsked", text, extra)
    if door.problem and gateway.certificate is not None and gateway.certificate.expires_at is None:
        wanted = snapshots.desired.gateway
        person = certificate.steps(wanted.spec.tls) if wanted and wanted.spec.tls else ""
        text = f"nobody can connect to {gateway.endpoint}: {gateway.certificate.problem}"
        return Readiness(False, "CertificateUnusable", text, extra, person)
    if door.problem:
        text = f"it does not answer at {gateway.endpoint}: {door.problem}; see: reconciler logs --gateway"
        return Readiness(False, "GatewaySilent", text, extra)
    if door.unserved:
        models = few_names(door.unserved)
        text = f"it answers at {gateway.endpoint}, but is connected to no group of {models}; see: reconciler get deployments"
        return Readiness(False, "NoGroupConnected", text, extra)
    lacks = [f"on {each.node}: {each.problem}" for each in others if each.problem]
    wanted, nodes = snapshots.desired.gateway, snapshots.desired.nodes
    if wanted is not None:
        lacks += [*nodes_without_gateway(wanted, nodes), *ranks_out_of_reach(wanted, nodes)]
    message = "; ".join(part for part in (gateway.endpoint, gateway.shortage, *lacks) if part)
    return Readiness(True, "Listening", message, extra)


def _other(seen: NodeGatewayObservation) -> objects.NodeGateway:
    return {
        "node": seen.node,
        "listen": seen.listen,
        "pid": seen.pid,
        "routes": seen.sequence,
        "problem": seen.problem or None,
        "limits": limits.as_json(seen.limits),
    }


def door(gateway: Gateway, manifests: Iterable[Manifest]) -> Routes:
    """Return routes with the endpoint's own settings: its address, and its keys."""
    spec = gateway.spec
    keys = () if spec.auth.mode == "none" else tuple(_keys(manifests))
    return Routes(
        0,
        0,
        spec.listen,
        spec.hold,
        hosts=spec.hosts,
        keep_alive=spec.keep_alive,
        auth=spec.auth.mode,
        keys=keys,
        tls=Tls(spec.tls.certificate, spec.tls.key) if spec.tls else None,
        origins=spec.cors.origins if spec.cors else (),
        nodes=spec.nodes,
        access_log=_access_log(spec.access_log) if spec.access_log else None,
        limits_store=_store(spec.limits.store) if spec.limits else None,
    )


def behind_on_keys(snapshots: Snapshots) -> tuple[tuple[NodeName | None, str], ...]:
    """Return the gateways whose keys are not those in force: their nodes, None for the controller's own machine, and
    why they cannot be reached. The keys of an unreachable gateway are unknown. Left out are a gateway that does not
    listen, and one of a version that does not report its keys."""
    wanted, seen = snapshots.desired.gateway, snapshots.observed.gateway
    if wanted is None or wanted.spec.auth.mode == "none" or seen is None or seen.endpoint is None:
        return ()
    keys = digest_of(tuple(_keys(snapshots.desired.others.values())))
    others = snapshots.observed.gateways_on_nodes.values()
    each = ((None, "", seen.keys), *((other.node, other.problem, other.keys) for other in others))
    return tuple(
        (node, problem) for node, problem, known in each if known != keys and (known is not None or problem)
    )


def _store(spec: resources.LimitsStore) -> LimitsStore:
    tls = spec.tls
    authority = tls.authority if tls is not None and tls.authority else ""
    return LimitsStore(
        spec.address, spec.prefix, spec.user or "", spec.password_file or "", tls is not None, authority
    )


def _access_log(spec: GatewayAccessLog) -> AccessLog:
    return AccessLog(spec.max_size, spec.rotate_after, spec.keep_files, spec.keep_for, spec.content)


def _keys(manifests: Iterable[Manifest]) -> Iterable[AccessKey]:
    """Yield the keys in the form for gateways."""
    for key in manifests:
        if isinstance(key, ApiKey):
            spec, most = key.spec, key.spec.limits
            previous = (SecretHash(secret.hash, secret.until.timestamp()) for secret in spec.previous)
            yield AccessKey(
                key.metadata.name,
                (SecretHash(spec.hash), *previous),
                spec.models,
                KeyLimits(
                    most.requests_per_minute,
                    most.tokens_per_minute,
                    most.tokens_per_day,
                    most.parallel_requests,
                ),
                spec.expires.timestamp() if spec.expires else 0.0,
                spec.revoked,
                spec.metrics,
            )
