"""Steps that start and end agents."""

from __future__ import annotations

import logging
from contextlib import suppress

from reconciler.errors import Refused, Silent, Unreachable
from reconciler.execution.tools import Tools
from reconciler.state import ForgetAgent, NodeName, StartAgent, StopAgent
from reconciler.wire import node

from .requests import ask, deposed

log = logging.getLogger(__name__)


async def start(step: StartAgent, tools: Tools) -> None:
    """Start an agent, in place of the running one if the step says so."""
    tools.groups.keep_agent(step.node, step.access)
    try:
        if step.replaces:
            await tools.machines.stage(step.node, tools.links.token(step.node))
            await _end(tools, step.node)
        await tools.machines.start_agent(step.node, tools.links.token(step.node))
    except Refused as error:
        if error.code == "Fenced":
            raise deposed(error) from error
        raise
    await tools.links.reach(step.node)


async def stop(step: StopAgent, tools: Tools) -> None:
    """End an agent. An agent that cannot be reached may continue to run, and is not forgotten."""
    tools.links.link(step.node)  # fails without a connection, before anything begins
    await tools.machines.withdraw(
        step.node
    )  # first: otherwise the key would still be accepted on a forgotten node
    await _end(tools, step.node)
    tools.groups.drop_agent(step.node)


async def forget(step: ForgetAgent, tools: Tools) -> None:
    """Forget an agent of a node that may never answer again."""
    with suppress(Unreachable):
        await tools.machines.withdraw(step.node)
    tools.groups.drop_agent(step.node)


async def _end(tools: Tools, name: NodeName) -> None:
    """End an agent, and see that it is gone."""
    link, _ = tools.links.link(name)
    try:
        await ask(tools, link, node.Shutdown(tools.token))
    except Silent:
        raise
    except Unreachable:
        log.info("%s: the agent closed the connection before it answered: checking that it is gone", name)
    await tools.links.lose(name)
