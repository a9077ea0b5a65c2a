"""Sends requests to agents, and handles missing answers."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from reconciler.errors import Deposed, Refused, Unreachable, Unwritable
from reconciler.execution.tools import Tools
from reconciler.remote.agent_connection import AgentConnection
from reconciler.state import NodeName, Write
from reconciler.wire import node

REQUEST_SECONDS_MAX = 15.0


def deposed(error: Refused) -> Deposed:
    """Return the error that ends this controller, for a refusal by a node."""
    return Deposed(f"a node obeys another controller: {error}: this one ends")


async def ask(tools: Tools, link: AgentConnection, request: Any, seconds: float | None = None) -> Any:
    """Return an agent's answer. Raises ``Deposed`` if the agent now obeys another controller."""
    try:
        return await link.request(request, timeout=seconds or REQUEST_SECONDS_MAX)
    except Refused as error:
        if error.code == "Fenced" and request.token == tools.token:
            raise deposed(error) from error
        raise


async def change(tools: Tools, name: NodeName, request: Any) -> None:
    """Ask an agent for a change, and remember the first observation that can show it."""
    link, number = tools.links.link(name)
    try:
        done = await ask(tools, link, request)
    except Unreachable:
        # It may still be carried out. Only observations over a later connection count, and only from an agent that
        # has seen a later token, and therefore refuses the request from then on.
        tools.wrote(name, Write(number + 1, 0))
        with suppress(Unwritable):
            tools.groups.renew()
        await link.close()
        raise
    assert isinstance(done, node.Done)
    tools.wrote(name, Write(number, done.sequence))
    tools.links.look(name)


async def reconnect(tools: Tools, name: NodeName) -> None:
    """Connect to a node again, so that the connection is new from its first packet on."""
    await tools.links.renew(name)
    with suppress(Unreachable):  # everybody sees the lost contact
        await tools.links.reach(name, starts=False)
