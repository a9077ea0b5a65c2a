"""Steps about the gateways of nodes. Each ends with a look at the gateway, so that the next pass decides by what it is
after the step."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from reconciler.errors import Refused, Unreachable
from reconciler.execution.tools import Tools
from reconciler.state import (
    ContinueGateway,
    GatewayProcess,
    NodeGatewayObservation,
    NodeName,
    ReplaceGateway,
    SendRoutes,
    StartGateway,
    StopGateway,
)

log = logging.getLogger(__name__)

START_SECONDS = 10.0
END_SECONDS = 20.0
"""A gateway that is ended gives its last answers for 15 s at most."""
KILLED_SECONDS = 5.0
CONTINUED_SECONDS = 2.0
LOOK_SECONDS = 0.25


async def send(step: SendRoutes, tools: Tools) -> None:
    """Send routes and keys, and see that they are there. The node is remembered first, because its copies of the keys have
    to be removed one day."""
    tools.gateways.remember(step.node)
    files = tools.gateways.files(step.node)
    await tools.gateways.on(step.node).send(files)
    seen = await tools.gateways.watcher.look(step.node, again=True)
    if seen.reached and seen.files != files.digest:
        raise Unreachable("it has other routes or keys than those that were sent")


async def start(step: StartGateway, tools: Tools) -> None:
    """Start a gateway, and see that it listens."""
    tools.gateways.remember(step.node)
    await tools.gateways.on(step.node).start()
    seen = await _seen(tools, step.node, _begun, START_SECONDS)
    if seen.listen is None:
        raise Unreachable(f"it does not listen after {START_SECONDS:g} s: {seen.problem}")


def _begun(seen: NodeGatewayObservation) -> bool:
    return seen.listen is not None or seen.cannot_listen


async def go_on(step: ContinueGateway, tools: Tools) -> None:
    """Continue a gateway, and see that it is not stopped any more: a debugger may hold it."""
    await tools.gateways.on(step.node).signal("CONT")
    seen = await _seen(tools, step.node, _goes_on, CONTINUED_SECONDS)
    if not _goes_on(seen):
        raise Unreachable("it is still stopped")


def _goes_on(seen: NodeGatewayObservation) -> bool:
    return seen.process is not GatewayProcess.STOPPED


async def replace(step: ReplaceGateway, tools: Tools) -> None:
    """End a gateway of another version."""
    await _end(tools, step.node)


async def stop(step: StopGateway, tools: Tools) -> None:
    """End a gateway, remove its files, and forget it. One on a machine that this cluster does not reach any more is
    only forgotten."""
    try:
        gateway = tools.gateways.on(step.node)
    except Refused as error:
        log.info("the gateway on %s is forgotten: %s", step.node, error)
    else:
        await gateway.remove_files()
        await _end(tools, step.node)
    tools.gateways.forget(step.node)


async def _end(tools: Tools, name: NodeName) -> None:
    """End a gateway, and see that it is gone. A stopped process ends once it is continued."""
    gateway = tools.gateways.on(name)
    tools.gateways.watcher.end_is_asked(name)
    for signals, seconds in ((("TERM", "CONT"), END_SECONDS), (("KILL",), KILLED_SECONDS)):
        await gateway.signal(*signals)
        seen = await _seen(tools, name, lambda seen: seen.process is GatewayProcess.GONE, seconds)
        if seen.process is GatewayProcess.GONE:
            return
    raise Unreachable(f"it still runs, as pid {seen.pid}")


async def _seen(
    tools: Tools, name: NodeName, enough: Callable[[NodeGatewayObservation], bool], seconds: float
) -> NodeGatewayObservation:
    """Look at a gateway until ``enough`` is true of it, for at most ``seconds``, and return the last look. Raises
    ``Unreachable`` if a look fails."""
    until = asyncio.get_running_loop().time() + seconds
    while True:
        seen = await tools.gateways.watcher.look(name)
        if not seen.reached:
            raise Unreachable(seen.problem)
        if enough(seen) or asyncio.get_running_loop().time() > until:
            return seen
        await asyncio.sleep(LOOK_SECONDS)
