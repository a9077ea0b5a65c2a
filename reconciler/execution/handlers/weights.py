"""Steps that fetch and remove weights."""

from __future__ import annotations

from dataclasses import replace

from reconciler.execution.copy import carry
from reconciler.execution.tools import Tools
from reconciler.state.machine.weights import FetchWeights, RemoveWeights
from reconciler.wire import node

from .requests import change


async def fetch(step: FetchWeights, tools: Tools) -> None:
    """Begin a fetch. If the weights come from another node, this step carries their bytes, and lasts as long as they
    do."""
    source = replace(step.source, endpoint=tools.hub.endpoint)
    if step.origin is None:
        secret = tools.hub.token(step.token)
        request = node.FetchWeights(
            tools.token, step.path, source, step.request_id, secret=secret, only=step.only
        )
        await change(tools, step.node, request)
        return
    await change(tools, step.origin, node.GiveWeights(tools.token, step.path))
    request = node.FetchWeights(
        tools.token, step.path, source, step.request_id, from_peer=True, only=step.only
    )
    await change(tools, step.node, request)
    giving, taking = step.sockets
    await carry(tools.machines.stream, (step.origin, giving), (step.node, taking))


async def remove(step: RemoveWeights, tools: Tools) -> None:
    await change(tools, step.node, node.RemoveWeights(tools.token, step.path))
