"""The machines of a cluster: reached by SSH or locally, probed, and asked for completions over the same connections."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from reconciler.execution.proof import ask_once
from reconciler.inventory import Probes
from reconciler.remote.agent_connection import AgentConnection
from reconciler.remote.nodes.local import LocalNode
from reconciler.remote.nodes.pool import Machine, MachinePool
from reconciler.remote.runtime.agent_file import bundle_of, write_bundle
from reconciler.remote.runtime.pinned_versions import recipes, runtime_names
from reconciler.remote.runtime.wheelhouse import Wheelhouse
from reconciler.remote.ssh.last_addresses import LastAddresses
from reconciler.resources import Access
from reconciler.state import MachineFacts, NodeName
from reconciler.wire.node import NodeReport

from .home import Home

CONNECTING_MAX = 16
"""Most SSH connections that are set up at a time."""


class ClusterMachines(MachinePool):
    """Implements ``remote.machines.Machines`` with real machines."""

    def __init__(
        self,
        make: Callable[[NodeName, Access], Machine],
        agent_file: str = "",
        runtimes: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(make)
        self.agent_file = agent_file
        self.runtimes: Mapping[str, str] = runtimes or {}
        self._probes = Probes(time.time)

    async def probe(self, link: AgentConnection, report: NodeReport, refresh: bool) -> MachineFacts:
        return await self._probes(link, report, refresh)

    def expire_probes(self, report: NodeReport) -> None:
        self._probes.expire(report)

    def expect_addresses(self, report: NodeReport) -> None:
        self._probes.expect(report)

    async def request_completion(self, name: NodeName, socket: str) -> float:
        return await ask_once(lambda: self.stream(name, socket))


def machines_of(home: Home) -> ClusterMachines:
    bundle = write_bundle(home.root / "agents")
    gate = asyncio.Semaphore(CONNECTING_MAX)
    last = LastAddresses(home.addresses)
    wheelhouse = Wheelhouse(home.root / "runtimes", recipes())

    def make(name: NodeName, access: Access) -> Machine:
        if access.ssh is not None:
            from reconciler.remote.nodes import (
                node_over_ssh,
            )  # slow, and a cluster on one machine does not need it

            whole = bundle_of(bundle, wheelhouse)
            return node_over_ssh.SshNode(name, access, whole, gate, home.gateway_key, last)
        return LocalNode(
            name=name,
            directory=home.node(name),
            models=home.models,
            run_directory=home.run,
            runtime_python=Path(access.python or sys.executable),
            agent_python=Path(sys.executable),
            bundle=bundle,
        )

    return ClusterMachines(make, bundle.name, runtime_names())
