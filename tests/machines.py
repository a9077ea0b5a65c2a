"""Machines of tests: each is this one, reached as the product reaches it, but for what a test puts in its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from reconciler.bootstrap.machines import ClusterMachines
from reconciler.inventory.probes.cable_ends import Cables
from reconciler.remote.nodes.local import LocalNode
from reconciler.remote.nodes.pool import Machine
from reconciler.state import MachineFacts, NodeName


class LocalMachines(ClusterMachines):
    """``make`` gives the machine of a node, by default one on which nothing can be started; ``methods`` are functions
    in place of those of ``Machines``."""

    def __init__(self, make: Callable[[NodeName], Machine] | None = None, **methods: Any) -> None:
        made = make or nowhere
        super().__init__(lambda name, access: made(name))
        self.put(**methods)

    def put(self, **methods: Any) -> None:
        """Put these functions in place of methods."""
        assert all(hasattr(self, name) for name in methods), methods
        vars(self).update(methods)


def nowhere(name: NodeName) -> LocalNode:
    """A machine on which nothing can be started."""
    folder = Path("/nonexistent")
    return LocalNode(name, folder, folder, folder, folder, folder, folder)


def joined(machines: Mapping[NodeName, MachineFacts]) -> dict[NodeName, MachineFacts]:
    """What is known of their cables once each of these machines has been probed."""
    cables, found = Cables(), dict[NodeName, MachineFacts]()
    for name, facts in machines.items():
        found |= cables.learn(name, facts)
    return found
