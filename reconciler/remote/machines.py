"""The interface between the controller and its nodes' machines: all operations and questions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from reconciler.resources import Access
from reconciler.state import MachineFacts, NodeName
from reconciler.wire.node import NodeReport

from .agent_connection import AgentConnection
from .runtime.build import Pruned

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Machines(Protocol):
    """The machines of all nodes, each by the name of its node.

    Every method that waits raises ``Unreachable`` if a machine cannot be reached, and its subclass ``Silent`` if it
    gives no answer. Each has its own time limit.
    """

    @property
    def agent_file(self) -> str:
        """Return the name of the agent's file on nodes; empty if any agent will do."""

    @property
    def runtimes(self) -> Mapping[str, str]:
        """Return the names of managed runtimes by ``uname -s``/``uname -m``; empty if none is managed."""

    def reach(self, accesses: Mapping[NodeName, Access]) -> None:
        """Set how to connect to nodes, and close connections with other settings."""

    async def dial(self, name: NodeName) -> AgentConnection:
        """Make a new connection to the agent of a node."""

    async def probe(self, link: AgentConnection, report: NodeReport, refresh: bool) -> MachineFacts:
        """Run the probes of a machine over ``link``, in addition to its agent's report.

        ``refresh``: earlier results are outdated. Also raises ``Refused``.
        """

    def expire_probes(self, report: NodeReport) -> None:
        """Let all probes of this machine run in the next round."""

    def expect_addresses(self, report: NodeReport) -> None:
        """Probe the RDMA driver of this machine soon, because its ports have got addresses."""

    async def start_agent(self, name: NodeName, token: int) -> None:
        """Start an agent unless one is running. An agent that gives no answer is ended first.

        ``token`` is the fencing token, 0 while the node's own is unknown. Raises ``Refused`` (``Fenced``) if the node
        obeys a controller with a higher one.
        """

    async def answers(self, name: NodeName) -> bool:
        """Return whether the machine itself answers, whatever its agent does. Returns False, and raises nothing, if it
        does not."""

    async def stage(self, name: NodeName, token: int) -> None:
        """Put the agent's file on a machine where another agent runs, and try it. Raises as ``start_agent``."""

    async def stream(self, name: NodeName, socket: str) -> Stream:
        """Connect to a Unix socket of a machine."""

    async def request_completion(self, name: NodeName, socket: str) -> float:
        """Request one completion from the rank at a socket. Return its duration in seconds.

        Raises ``Refused`` with the rank's reason.
        """

    async def reboot(self, name: NodeName) -> None:
        """Restart a machine. Raises ``Refused`` if it certainly does not restart."""

    async def withdraw(self, name: NodeName) -> None:
        """Stop a machine from starting a node's agent and admitting the gateway without the controller."""

    async def reconnect(self, name: NodeName) -> None:
        """Close the connection to a machine, so that the next one is new from its first packet on."""

    async def build_runtime(self, name: NodeName, tell: Callable[[str], None]) -> str:
        """Install the managed runtime on a machine; return its name. ``tell`` gets progress messages for people.

        Raises ``Refused`` if that is impossible.
        """

    async def prune_runtimes(self, name: NodeName) -> Pruned:
        """Remove old managed runtimes that nothing uses. Raises ``Refused`` if none are managed."""
