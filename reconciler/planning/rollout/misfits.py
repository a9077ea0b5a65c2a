"""Finds why a group cannot stay as it is, although it was formed for the same model and the same way to serve it."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.planning.nodes.eligible import suits
from reconciler.planning.transport import fallback
from reconciler.resources import ModelDeployment, Node
from reconciler.state import GroupRecord, NodeName


def misfit(nodes: Mapping[NodeName, Node], deployment: ModelDeployment, record: GroupRecord) -> str:
    """Say what transport, number of nodes or placement of a deployment a group does not fit; empty if it fits."""
    spec = deployment.spec
    bounds, size = spec.parallelism.nodes, len(record.members)
    if fallback.used(record) and fallback.used(record) not in spec.transport:
        return f"{fallback.used(record)} is no longer in its spec.transport"
    if not bounds.min <= size <= bounds.max:
        wanted = f"{bounds.min} to {bounds.max}" if bounds.min < bounds.max else f"{bounds.min}"
        return f"it runs on {size} node{'s' * (size > 1)}, and {wanted} {'is' if wanted == '1' else 'are'} wanted"
    missing = [n for n in record.members if n not in nodes]
    if missing:
        return f"{', '.join(missing)} is no longer a node of this cluster"
    unsuited = [n for n in record.members if not suits(nodes[n], deployment)]
    if unsuited:
        return f"{', '.join(unsuited)} lacks the labels of its nodeSelector"
    return ""
