"""Everything that a controller does to the machines of its nodes, or asks of them: the one seam between both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from reconciler.resources import Access
from reconciler.state import MachineFacts, NodeName
from reconciler.wire.node import NodeReport

from .connection import AgentConnection
from .runtime.build import Pruned

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Machines(Protocol):
    """The machines of all nodes, each by the name of its node.

    Every method that waits raises ``Unreachable`` where a machine cannot be reached, and ``Silent``, which is one, where
    it gives no answer. Each has a time limit of its own.
    """

    @property
    def agent_file(self) -> str:
        """Name of the agent's file that is put on nodes; empty where any agent will do."""
        ...

    @property
    def runtimes(self) -> Mapping[str, str]:
        """Name of the managed runtime by ``uname -s``/``uname -m``; empty where none is managed."""
        ...

    def reach(self, accesses: Mapping[NodeName, Access]) -> None:
        """Reach nodes like this from now on, and close connections that were made in another way."""
        ...

    async def dial(self, name: NodeName) -> AgentConnection:
        """Make a new connection to the agent of a node."""
        ...

    async def probe(self, link: AgentConnection, report: NodeReport, anew: bool) -> MachineFacts:
        """Ask over ``link`` for what is to be known of a machine beside its agent's report.

        ``anew``: what was told before is not to be relied on. Raises ``Refused`` too.
        """
        ...

    def expire_probes(self, report: NodeReport) -> None:
        """Have all probes of this machine asked in the next round."""
        ...

    def expect_addresses(self, report: NodeReport) -> None:
        """Have the RDMA driver of this machine asked soon: its ports were given addresses."""
        ...

    async def start_agent(self, name: NodeName, token: int) -> None:
        """Have an agent run; leave one that runs already as it is.

        ``token`` is the fencing token, 0 where it is not known yet which one the node has. Raises ``Refused``
        (``Fenced``) where the node obeys a controller with a higher one.
        """
        ...

    async def stage(self, name: NodeName, token: int) -> None:
        """Put the agent's file on a machine where another agent runs, and try it. Raises as ``start_agent``."""
        ...

    async def stream(self, name: NodeName, socket: str) -> Stream:
        """Connect to a Unix socket of a machine."""
        ...

    async def request_completion(self, name: NodeName, socket: str) -> float:
        """Have the rank that answers at a socket give one completion; return the seconds that it took.

        Raises ``Refused`` with the rank's reason.
        """
        ...

    async def reboot(self, name: NodeName) -> None:
        """Restart a machine. Raises ``Refused`` where it certainly does not restart."""
        ...

    async def withdraw(self, name: NodeName) -> None:
        """Take back what a machine does for a node by itself: start its agent, let the gateway in."""
        ...

    async def reconnect(self, name: NodeName) -> None:
        """Close the connection to a machine, so that the next one is new from its first packet on."""
        ...

    async def build_runtime(self, name: NodeName, tell: Callable[[str], None]) -> str:
        """Put the managed runtime on a machine; return its name. ``tell`` hears of progress, for people.

        Raises ``Refused`` where that cannot be.
        """
        ...

    async def prune_runtimes(self, name: NodeName) -> Pruned:
        """Remove managed runtimes that are old and that nothing uses. Raises ``Refused`` where there are none."""
        ...
