"""Connects nodes with machines, by the manifest or by the access with which the agent was started."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol
from weakref import WeakSet

from reconciler.errors import Refused, Unreachable
from reconciler.remote.agent_connection import AgentConnection
from reconciler.remote.machines import Stream
from reconciler.remote.runtime.build import Pruned
from reconciler.resources import LOCAL, Access
from reconciler.state import NodeName

from .gateway import NodeGateway, Remote


class Machine(Protocol):
    """The operations of every kind of node."""

    async def stage(self, token: int = 0) -> object:
        """Install the agent's file and check that it runs. Raises as ``start_agent``."""

    async def start_agent(self, token: int = 0) -> None:
        """Start an agent unless one is running. Raises ``Unreachable`` and ``Refused``."""

    async def dial(self) -> AgentConnection:
        """Return a new connection to the agent. Raises ``Unreachable`` if there is none, ``Silent`` without any
        answer."""

    async def stream(self, socket: str) -> Stream:
        """Return a connection to a Unix socket there. Raises as ``dial``."""

    async def answers(self) -> bool:
        """Return whether the machine itself answers, whatever its agent does."""

    async def reboot(self) -> None:
        """Restart the machine. Raises ``Refused`` if it certainly does not restart."""

    async def disable_service(self) -> None:
        """Prevent a service of the machine from starting agents. Raises ``Unreachable``."""

    async def build_runtime(self, tell: Callable[[str], None]) -> str:
        """Install the managed runtime there; return its name. Raises ``Refused`` if that is impossible, and as
        ``dial``."""

    async def prune_runtimes(self) -> Pruned:
        """Remove managed runtimes that are old and that nothing uses. Raises as ``build_runtime``."""

    async def withdraw(self) -> None:
        """Revoke the gateway's access there. Raises ``Unreachable``."""

    async def reconnect(self) -> None:
        """End the connection to the machine; the next use makes a new one."""

    async def close(self) -> None:
        """Close the connection; processes there continue."""


class MachinePool:
    """The operations of ``Machines`` on the machines of all nodes. ``make`` returns the machine for a node's ``Access``."""

    def __init__(self, make: Callable[[NodeName, Access], Machine]) -> None:
        self._make = make
        self._accesses: dict[NodeName, Access] = {}
        self._machines: dict[NodeName, Machine] = {}
        self._links: dict[NodeName, WeakSet[AgentConnection]] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._gateways: dict[NodeName, tuple[Machine, NodeGateway]] = {}

    def gateway(self, name: NodeName) -> NodeGateway:
        """Return the gateway of a node's machine. Raises ``Refused`` if that is the controller's own, and as
        ``dial``."""
        machine = self._machine(name)
        before = self._gateways.get(name)
        if before is not None and before[0] is machine:
            return before[1]
        if not isinstance(machine, Remote):
            raise Refused(
                "SameMachine", "it is no node over SSH, and the controller's machine has a gateway already"
            )
        gateway = NodeGateway(machine, name)
        self._gateways[name] = machine, gateway
        return gateway

    def reach(self, accesses: Mapping[NodeName, Access]) -> None:
        """Set how to connect to nodes, and close connections with other settings."""
        before, self._accesses = self._accesses, dict(accesses)
        for name, access in before.items():
            machine = self._machines.get(name)
            if machine is not None and accesses.get(name) != access:
                del self._machines[name]
                links = self._links.pop(name, ())
                task = asyncio.create_task(_leave(machine, tuple(links)), name=f"leave {name}")
                self._leaving.add(task)
                task.add_done_callback(self._leaving.discard)

    async def dial(self, name: NodeName) -> AgentConnection:
        """Return a new connection to a node's agent. Raises as ``Machine.dial``."""
        machine = self._machine(name)
        link = await machine.dial()
        if self._machines.get(name) is not machine:
            await link.close()
            raise Unreachable(f"the access to {name} has changed meanwhile")
        self._links.setdefault(name, WeakSet()).add(link)
        return link

    async def stage(self, name: NodeName, token: int) -> None:
        await self._machine(name).stage(token)

    async def start_agent(self, name: NodeName, token: int) -> None:
        await self._machine(name).start_agent(token)

    async def stream(self, name: NodeName, socket: str) -> Stream:
        return await self._machine(name).stream(socket)

    async def answers(self, name: NodeName) -> bool:
        return await self._machine(name).answers()

    async def reboot(self, name: NodeName) -> None:
        await self._machine(name).reboot()

    async def build_runtime(self, name: NodeName, tell: Callable[[str], None]) -> str:
        return await self._machine(name).build_runtime(tell)

    async def prune_runtimes(self, name: NodeName) -> Pruned:
        return await self._machine(name).prune_runtimes()

    async def withdraw(self, name: NodeName) -> None:
        """Remove the parts that continue without the controller: the service that starts the node's agent, and the
        gateway's access, unless another node uses that machine."""
        await self._machine(name).disable_service()
        ssh = self._accesses.get(name, LOCAL).ssh
        others = [access.ssh for other, access in self._accesses.items() if other != name and access.ssh]
        if ssh is not None and not any(
            (other.host_key, other.user) == (ssh.host_key, ssh.user) for other in others
        ):
            await self._machine(name).withdraw()

    async def reconnect(self, name: NodeName) -> None:
        """Close the connection to a node's machine, so that the next one is new. Ranks and the agent continue; only the
        gateway's streams are interrupted."""
        machine = self._machines.get(name)
        if machine is not None:
            await machine.reconnect()

    async def close(self) -> None:
        await asyncio.gather(*self._leaving, *(machine.close() for machine in self._machines.values()))

    def _machine(self, name: NodeName) -> Machine:
        """Return the machine of a node. Raises ``Unreachable`` if its access settings do not work."""
        machine = self._machines.get(name)
        if machine is None:
            try:
                machine = self._machines[name] = self._make(name, self._accesses.get(name, LOCAL))
            except ValueError as error:
                raise Unreachable(f"cannot connect to {name}: {error}") from error
        return machine


async def _leave(machine: Machine, links: Sequence[AgentConnection]) -> None:
    for link in links:
        await link.close()
    await machine.close()
