"""Steps about groups and objects: all but the proof only write to the store."""

from __future__ import annotations

from reconciler.execution.tools import Tools
from reconciler.state import (
    AdoptGroup,
    AllocateEpoch,
    FreeTransport,
    ProveGroup,
    ReleaseReplica,
    RemoveObject,
)
from reconciler.state.plan import SetBack


async def adopt(step: AdoptGroup, tools: Tools) -> None:
    """Write down a running group."""
    tools.groups.adopt(step.group)


async def allocate(step: AllocateEpoch, tools: Tools) -> None:
    """Write down a new group, and the reason for it."""
    tools.groups.allocate(step.group, step.attempt, step.failed, step.wasted_verbs)


async def prove(step: ProveGroup, tools: Tools) -> str:
    """Request one completion from a group, and note its success."""
    seconds = await tools.machines.request_completion(step.node, step.socket)
    tools.groups.prove(step.replica, step.epoch, tools.clock())
    text = f"answered in {seconds:.1f} s"
    if step.moved:
        text += f"; weights moved {step.moved}, not served for {tools.clock() - step.since:.1f} s"
    return text


async def free_transport(step: FreeTransport, tools: Tools) -> None:
    """Allow a transport that failed a replica to be tried again."""
    tools.groups.free_transport(step.replica, step.transport)


async def set_back(step: SetBack, tools: Tools) -> None:
    """Note the spec that is served in place of the one that did not come up."""
    tools.groups.set_back(step.replica.deployment, step.rollback)


async def release(step: ReleaseReplica, tools: Tools) -> None:
    """Remove the group of a replica from the store."""
    tools.groups.release(step.replica)


async def remove_object(step: RemoveObject, tools: Tools) -> None:
    """Remove an object that has left from the inventory."""
    tools.groups.remove_object(step.object)
