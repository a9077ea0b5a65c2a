"""Checks of the gateways on other machines that need no look at them. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.errors import few_names
from reconciler.resources import Gateway, Node

from .identity import NodeName


def nodes_without_gateway(gateway: Gateway, nodes: Mapping[NodeName, Node]) -> list[str]:
    """Return a text for each node that should have a gateway but does not exist, or cannot have one."""
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


def ranks_out_of_reach(gateway: Gateway, nodes: Mapping[NodeName, Node]) -> list[str]:
    """Return a text that names the nodes with ranks that no gateway on another machine can reach; none if there are
    none."""
    if not gateway.spec.nodes:
        return []
    local = [name for name, node in sorted(nodes.items()) if node.spec.ssh is None]
    if not local:
        return []
    return [
        f"gateways on other nodes cannot reach ranks on {few_names(local)} (local: {{}}); give it an address instead, with"
        " ssh: {host: ...} as other machines reach it, or have such models on other nodes too"
    ]
