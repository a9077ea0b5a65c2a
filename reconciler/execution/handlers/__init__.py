"""One handler for each kind of step. Each has one side effect, and may be repeated after a crash.

============  =====================================================
module        steps that it carries out
============  =====================================================
``groups``    writes to the store about groups and objects
``ranks``     changes of ranks
``agents``    starts and ends of agents
``machines``  restarts and repairs of machines
``runtimes``  managed runtimes
``weights``   weights on nodes
============  =====================================================

``requests`` asks agents for changes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast

from reconciler.execution.tools import Tools
from reconciler.state import (
    AdoptGroup,
    AllocateEpoch,
    BuildRuntime,
    ConfirmRepair,
    ContinueRank,
    EmptyNode,
    ForgetAgent,
    ForgetRank,
    FreeTransport,
    ProveGroup,
    PruneRuntimes,
    RebootNode,
    ReleaseReplica,
    RemoveObject,
    RepairNode,
    StartAgent,
    StartRank,
    Step,
    StopAgent,
    StopRank,
)
from reconciler.state.machine.weights import FetchWeights, RemoveWeights
from reconciler.state.plan import SetBack

from . import agents, groups, machines, ranks, runtimes, weights

S = TypeVar("S", bound=Step)


def _row(
    kind: type[S], handler: Callable[[S, Tools], Awaitable[str | None]]
) -> tuple[type[Step], Callable[[Any, Tools], Awaitable[str | None]]]:
    """Pair a kind of step with its handler, which returns a detail for the event, if any."""
    return cast(type[Step], kind), handler


ROWS = (
    _row(AdoptGroup, groups.adopt),
    _row(AllocateEpoch, groups.allocate),
    _row(ProveGroup, groups.prove),
    _row(FreeTransport, groups.free_transport),
    _row(SetBack, groups.set_back),
    _row(ReleaseReplica, groups.release),
    _row(RemoveObject, groups.remove_object),
    _row(StartRank, ranks.start),
    _row(StopRank, ranks.stop),
    _row(ContinueRank, ranks.go_on),
    _row(ForgetRank, ranks.forget),
    _row(StartAgent, agents.start),
    _row(StopAgent, agents.stop),
    _row(ForgetAgent, agents.forget),
    _row(EmptyNode, machines.empty),
    _row(RebootNode, machines.reboot),
    _row(RepairNode, machines.repair),
    _row(ConfirmRepair, machines.confirm),
    _row(BuildRuntime, runtimes.build),
    _row(PruneRuntimes, runtimes.prune),
    _row(FetchWeights, weights.fetch),
    _row(RemoveWeights, weights.remove),
)
HANDLERS: Mapping[type[Step], Callable[[Any, Tools], Awaitable[str | None]]] = dict(ROWS)


async def carry_out(step: Step, tools: Tools) -> str:
    """Do one step. Returns a detail worth reporting; raises the handler's error."""
    return await HANDLERS[type(step)](step, tools) or ""
