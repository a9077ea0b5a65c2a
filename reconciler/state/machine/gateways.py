"""The gateways of nodes, as this controller wants and remembers them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.state.identity import NodeName


@dataclass(frozen=True, slots=True)
class GatewaysInForce:
    """The gateways that the routes in force ask for, and the nodes that have one."""

    files: Mapping[NodeName, str] | None = None
    """The digest of the routes and keys that the gateway of each node is to have; None before this controller has put
    routes in force."""
    program: str = ""
    """The name of the file that each of them is to run."""
    remembered: frozenset[NodeName] = field(default_factory=frozenset)
    """The nodes that have a gateway, or files for one, wanted or not."""
