"""Finds references in manifests to objects that no manifest has, before any machine is observed."""

from __future__ import annotations

from collections.abc import Collection

from reconciler.planning.nodes.eligible import open_to, too_few
from reconciler.resources import ModelDeployment
from reconciler.state import Desired, ObjectKey
from reconciler.state.gateways_on_nodes import nodes_without_gateway, ranks_out_of_reach


def dangling(desired: Desired, concerned: Collection[ObjectKey]) -> list[str]:
    """Write a sentence for each object in ``concerned`` that could not be served as the manifests stand."""
    found = []
    for name, deployment in sorted(desired.deployments.items()):
        key = ObjectKey("ModelDeployment", name)
        if key in concerned and deployment.spec.replicas:
            found += [f"{key}: {text}" for text in _lacking(desired, deployment)]
    gateway = desired.gateway
    if gateway is not None and (key := ObjectKey("Gateway", gateway.metadata.name)) in concerned:
        found += [f"{key}: {text}" for text in nodes_without_gateway(gateway, desired.nodes)]
        found += [f"{key}: {text}" for text in ranks_out_of_reach(gateway, desired.nodes)]
    return found


def unknown_model(deployment: ModelDeployment) -> str:
    """Say what to do about a Model that does not exist."""
    return f'model "{deployment.spec.model}" does not exist; add a Model of this name or correct spec.model'


def _lacking(desired: Desired, deployment: ModelDeployment) -> list[str]:
    found = [] if deployment.spec.model in desired.models else [unknown_model(deployment)]
    placement, wanted = deployment.spec.placement, deployment.spec.parallelism.nodes.min
    usable = [node for node in desired.nodes.values() if open_to(node, placement)]
    if len(usable) < wanted:
        found.append(too_few(desired.nodes, placement, wanted, len(usable)))
    return found
