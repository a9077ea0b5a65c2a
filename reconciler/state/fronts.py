"""What is wrong with the gateways on other machines before any is looked at. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.errors import few_names
from reconciler.resources import Gateway, Node

from .identity import NodeName


def unknown_fronts(gateway: Gateway, nodes: Mapping[NodeName, Node]) -> list[str]:
    """Say which nodes that should have a gateway do not exist, or cannot have one."""
    found = []
    for name in gateway.spec.nodes:
        node = nodes.get(NodeName(name))
        if node is None:
            found.append(f'spec.nodes names "{name}", and there is no such Node; add it or correct the name')
        elif node.spec.ssh is None:
            found.append(
                f'spec.nodes names "{name}", which is the controller\'s own machine (local: {{}}) and has its gateway;'
                " remove the name"
            )
    return found


def fronts_without_way(gateway: Gateway, nodes: Mapping[NodeName, Node]) -> list[str]:
    """Say which nodes have ranks that no gateway on another machine can reach."""
    if not gateway.spec.nodes:
        return []
    local = [name for name, node in sorted(nodes.items()) if node.spec.ssh is None]
    if not local:
        return []
    return [
        f"gateways on other nodes cannot reach ranks on {few_names(local)} (local: {{}}); give it an address instead, with"
        " ssh: {host: ...} as other machines reach it, or have such models on other nodes too"
    ]
