"""One handler for each kind of step. Each has one side effect, and may be repeated after a crash.

============  =====================================================
module        steps that it carries out
============  =====================================================
``ranks``     changes of ranks, and the proof of a group
``agents``    starts and ends of agents
``machines``  restarts and repairs of machines
``weights``   weights on nodes
``gateways``  gateways of nodes
``jobs``      artifacts and secrets of jobs
============  =====================================================

Steps that only write to the store, or only call the builder of runtimes, have nothing but their row here. ``requests`` asks
agents for changes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast

from reconciler.execution.tools import Groups, Tools
from reconciler.state import (
    AdoptGroup,
    AllocateEpoch,
    BuildRuntime,
    ConfirmRepair,
    ContinueGateway,
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
    ReplaceGateway,
    SendRoutes,
    StartAgent,
    StartGateway,
    StartRank,
    Step,
    StopAgent,
    StopGateway,
    StopRank,
)
from reconciler.state.job_steps import CreateRun, EndAttempt, EndRun, FetchArtifacts, RemoveRuns, SuspendRun
from reconciler.state.machine.weights import FetchWeights, RemoveWeights
from reconciler.state.plan import SetBack

from . import agents, gateways, jobs, machines, ranks, weights

S = TypeVar("S", bound=Step)


def _row(
    kind: type[S], handler: Callable[[S, Tools], Awaitable[str | None]]
) -> tuple[type[Step], Callable[[Any, Tools], Awaitable[str | None]]]:
    """Pair a kind of step with its handler, which returns a detail for the event, if any."""
    return cast(type[Step], kind), handler


def _written(
    kind: type[S], write: Callable[[Groups, S], None]
) -> tuple[type[Step], Callable[[Any, Tools], Awaitable[str | None]]]:
    """Pair a kind of step with its write to the store."""

    async def handler(step: S, tools: Tools) -> None:
        write(tools.groups, step)

    return _row(kind, handler)


ROWS = (
    _written(AdoptGroup, lambda store, step: store.adopt(step.group)),
    _written(
        AllocateEpoch,
        lambda store, step: store.allocate(step.group, step.attempt, step.failed, step.wasted_verbs),
    ),
    _written(FreeTransport, lambda store, step: store.free_transport(step.replica, step.transport)),
    _written(SetBack, lambda store, step: store.set_back(step.replica.deployment, step.rollback)),
    _written(ReleaseReplica, lambda store, step: store.release(step.replica)),
    _written(RemoveObject, lambda store, step: store.remove_object(step.object)),
    _written(EmptyNode, lambda store, step: store.note_reboot(step.node, step.reboot)),
    _written(CreateRun, lambda store, step: store.create_run(step.run, step.group)),
    _written(EndAttempt, lambda store, step: store.end_attempt(step.run)),
    _written(EndRun, lambda store, step: store.put_run(step.run)),
    _written(SuspendRun, lambda store, step: store.put_run(step.run)),
    _written(RemoveRuns, lambda store, step: store.remove_runs(step.runs)),
    _row(FetchArtifacts, jobs.fetch_artifacts),
    _row(ProveGroup, ranks.prove),
    _row(StartRank, ranks.start),
    _row(StopRank, ranks.stop),
    _row(ContinueRank, ranks.go_on),
    _row(ForgetRank, ranks.forget),
    _row(StartAgent, agents.start),
    _row(StopAgent, agents.stop),
    _row(ForgetAgent, agents.forget),
    _row(RebootNode, machines.reboot),
    _row(RepairNode, machines.repair),
    _row(ConfirmRepair, machines.confirm),
    _row(BuildRuntime, lambda step, tools: tools.runtimes.build(step.node)),
    _row(PruneRuntimes, lambda step, tools: tools.runtimes.prune(step.node, step.runtime)),
    _row(FetchWeights, weights.fetch),
    _row(RemoveWeights, weights.remove),
    _row(SendRoutes, gateways.send),
    _row(StartGateway, gateways.start),
    _row(ContinueGateway, gateways.go_on),
    _row(ReplaceGateway, gateways.replace),
    _row(StopGateway, gateways.stop),
)
HANDLERS: Mapping[type[Step], Callable[[Any, Tools], Awaitable[str | None]]] = dict(ROWS)


async def carry_out(step: Step, tools: Tools) -> str:
    """Do one step. Returns a detail worth reporting; raises the handler's error."""
    return await HANDLERS[type(step)](step, tools) or ""
