"""One handler a kind of step. Each has one side effect, and may be repeated after a crash."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from reconciler.errors import Deposed, Refused, Unreachable, Unwritable
from reconciler.resources import Access
from reconciler.state import (
    AdoptGroup,
    AllocateEpoch,
    Attempt,
    BuildRuntime,
    ConfirmRepair,
    ContinueRank,
    DeploymentName,
    EmptyNode,
    ForgetAgent,
    ForgetRank,
    FreeTransport,
    GroupRecord,
    NodeName,
    ObjectKey,
    ProveGroup,
    PruneRuntimes,
    Reboot,
    RebootNode,
    ReleaseReplica,
    RemoveObject,
    RepairNode,
    ReplicaId,
    RungFailure,
    StartAgent,
    StartRank,
    Step,
    StopAgent,
    StopAsked,
    StopRank,
    Write,
)
from reconciler.state.plan import SetBack
from reconciler.state.setbacks import Setback
from reconciler.state.weights import FetchWeights, RemoveWeights
from reconciler.transport.link import AgentLink
from reconciler.transport.local import restart
from reconciler.wire import node, repair
from reconciler.wire.launch import RankId

from .carrying import Open, carry, nowhere
from .hub import Hub
from .proof import ask_here
from .runtimes import Builder

REQUEST_SECONDS_MAX = 15.0
REPAIR_SECONDS_MAX = 45.0
"""For a handful of commands of a moment each; less than what is not confirmed lasts."""
STOP_REPEATED_AFTER_SECONDS = 10.0
"""Beyond the grace: then the request to stop was lost, and is made again."""
CONTINUATIONS_KEPT = 16
"""For each rank: more than the planner ever counts."""
STOPS_KEPT_SECONDS = 600.0
"""What was asked so long ago is forgotten: the rank is gone, or its node is."""


class Groups(Protocol):
    """Where groups are written down (the store). Every method may raise ``Deposed``."""

    @property
    def token(self) -> int: ...
    def renew(self) -> None: ...
    def allocate(
        self,
        group: GroupRecord,
        attempt: Attempt,
        failed: RungFailure | None = None,
        vain: Sequence[tuple[NodeName, str]] = (),
    ) -> None: ...
    def adopt(self, group: GroupRecord) -> None: ...
    def prove(self, replica: ReplicaId, epoch: int, at: float) -> None: ...
    def release(self, replica: ReplicaId) -> None: ...
    def free_transport(self, replica: ReplicaId, transport: str) -> None: ...
    def set_back(self, deployment: DeploymentName, setback: Setback) -> None: ...
    def keep_agent(self, node: NodeName, access: Access) -> None: ...
    def drop_agent(self, node: NodeName) -> None: ...
    def note_reboot(self, node: NodeName, reboot: Reboot) -> None: ...
    def drop_reboot(self, node: NodeName) -> None: ...
    def remove_object(self, key: ObjectKey) -> None: ...


class Links(Protocol):
    """Who has the connections to agents (the collector)."""

    def link(self, name: NodeName) -> tuple[AgentLink, int]: ...
    def look(self, name: NodeName) -> None: ...
    async def reach(self, name: NodeName) -> None: ...
    async def lose(self, name: NodeName) -> None: ...
    async def renew(self, name: NodeName, let_go: Callable[[], Awaitable[None]]) -> None: ...


async def nothing_to_withdraw(name: NodeName) -> None:
    """Of the controller's own machine, where nothing was let in."""


async def nothing_to_let_go(name: NodeName) -> None:
    """Of the controller's own machine, to which there is no connection but that to its agent."""


async def nothing_to_stage(name: NodeName, token: int = 0) -> None:
    """On this machine the agent's file is there already."""


@dataclass(slots=True)
class Tools:
    """What handlers act with, and where they note what they did."""

    groups: Groups
    links: Links
    start_agent: Callable[[NodeName], Awaitable[None]]
    clock: Callable[[], float]
    ask: Callable[[NodeName, str], Awaitable[float]] = ask_here
    """Has the rank that answers at a socket of a node give one completion; the seconds that it took."""
    reboot: Callable[[NodeName], Awaitable[None]] = restart
    """Has a machine restart. Raises ``Refused`` where it certainly does not."""
    hub: Hub = field(default_factory=Hub)
    stream: Open = nowhere
    withdraw: Callable[[NodeName], Awaitable[None]] = nothing_to_withdraw
    """Takes back what a machine does for a node by itself: start its agent, let the gateway in."""
    stage: Callable[[NodeName], Awaitable[object]] = nothing_to_stage
    """Has the agent's file put on a node, and tried, while another agent still runs there."""
    let_go: Callable[[NodeName], Awaitable[None]] = nothing_to_let_go
    """Ends the connection to a machine, so that the next is a new one from the first packet on."""
    runtimes: Builder = field(default_factory=Builder)
    repaired: dict[NodeName, float] = field(default_factory=dict)
    writes: dict[NodeName, Write] = field(default_factory=dict)
    stops: dict[RankId, StopAsked] = field(default_factory=dict)
    continued: dict[RankId, tuple[float, ...]] = field(default_factory=dict)

    @property
    def token(self) -> int:
        """The fencing token that every request for a change carries."""
        return self.groups.token

    def put_off(self, seconds: float) -> None:
        """The clock went on by so much without anybody watching (negative: was set back)."""
        self.stops = {id: asked.put_off(seconds) for id, asked in self.stops.items()}
        self.continued = {id: tuple(at + seconds for at in times) for id, times in self.continued.items()}
        self.repaired = {name: at + seconds for name, at in self.repaired.items()}


async def carry_out(step: Step, tools: Tools) -> str:
    """Do one step. Returns a detail worth telling; raises what went wrong."""
    match step:
        case AdoptGroup() | AllocateEpoch() | FreeTransport() | ReleaseReplica() | SetBack() | RemoveObject():
            _write(step, tools.groups)
        case StartRank() | StopRank() | ContinueRank() | ForgetRank():
            await _change_rank(step, tools)
        case ProveGroup():
            seconds = await tools.ask(step.node, step.socket)
            tools.groups.prove(step.replica, step.epoch, tools.clock())
            text = f"answered in {seconds:.1f} s"
            if step.moved:
                text += f"; weights moved {step.moved}, not served for {tools.clock() - step.since:.1f} s"
            return text
        case BuildRuntime() | PruneRuntimes():
            return await tools.runtimes.carry_out(step)
        case StartAgent() | StopAgent() | ForgetAgent():
            await _change_agent(step, tools)
        case EmptyNode() | RebootNode() | RepairNode() | ConfirmRepair():
            await _change_machine(step, tools)
        case FetchWeights():
            await _fetch(tools, step)
        case RemoveWeights():
            await _change(tools, step.node, node.RemoveWeights(tools.token, step.path))
    return ""


async def _change_agent(step: StartAgent | StopAgent | ForgetAgent, tools: Tools) -> None:
    match step:
        case StartAgent():
            tools.groups.keep_agent(step.node, step.access)
            await _start_agent(tools, step)
            await tools.links.reach(step.node)
        case StopAgent():
            await _stop_agent(tools, step.node)
        case ForgetAgent():
            with suppress(Unreachable):  # it may never answer again
                await tools.withdraw(step.node)
            tools.groups.drop_agent(step.node)


async def _change_machine(step: EmptyNode | RebootNode | RepairNode | ConfirmRepair, tools: Tools) -> None:
    match step:
        case EmptyNode():
            tools.groups.note_reboot(step.node, step.reboot)
        case RebootNode():
            await _reboot(tools, step)
        case RepairNode():
            await _repair(tools, step)
        case ConfirmRepair():
            await _confirm(tools, step)


def _write(
    step: AdoptGroup | AllocateEpoch | FreeTransport | ReleaseReplica | SetBack | RemoveObject, groups: Groups
) -> None:
    """What is only written down."""
    match step:
        case AdoptGroup():
            groups.adopt(step.group)
        case AllocateEpoch():
            groups.allocate(step.group, step.attempt, step.failed, step.vain)
        case FreeTransport():
            groups.free_transport(step.replica, step.transport)
        case SetBack():
            groups.set_back(step.replica.deployment, step.setback)
        case ReleaseReplica():
            groups.release(step.replica)
        case RemoveObject():
            groups.remove_object(step.object)


async def _change_rank(step: StartRank | StopRank | ContinueRank | ForgetRank, tools: Tools) -> None:
    match step:
        case StartRank():
            await _change(tools, step.node, node.StartRank(tools.token, step.spec))
        case StopRank():
            await _stop(tools, step)
        case ContinueRank():
            # Noted before it is tried, so that one that is never confirmed is not tried for ever.
            known = (*tools.continued.get(step.id, ()), tools.clock())
            tools.continued[step.id] = known[-CONTINUATIONS_KEPT:]
            await _change(tools, step.node, node.ContinueRank(tools.token, step.id))
        case ForgetRank():
            await _change(tools, step.node, node.ForgetRank(tools.token, step.id))
            tools.stops.pop(step.id, None)
            tools.continued.pop(step.id, None)


async def _fetch(tools: Tools, step: FetchWeights) -> None:
    """Begin a fetch; of one from another node the bytes go through here, and the step lasts as long as they do."""
    source = replace(step.source, endpoint=tools.hub.endpoint)
    if step.origin is None:
        secret = tools.hub.token(step.token)
        request = node.FetchWeights(tools.token, step.path, source, step.wish, secret=secret, only=step.only)
        await _change(tools, step.node, request)
        return
    await _change(tools, step.origin, node.GiveWeights(tools.token, step.path))
    request = node.FetchWeights(tools.token, step.path, source, step.wish, from_peer=True, only=step.only)
    await _change(tools, step.node, request)
    giving, taking = step.sockets
    await carry(tools.stream, (step.origin, giving), (step.node, taking))


async def _reboot(tools: Tools, step: RebootNode) -> None:
    """Noted first: whatever becomes of the request or of this controller, the next one knows of it."""
    tools.groups.note_reboot(step.node, step.reboot)
    try:
        await tools.reboot(step.node)
    except Refused:
        if step.asked:
            tools.groups.note_reboot(step.node, replace(step.reboot, told=False))
        else:
            tools.groups.drop_reboot(step.node)
        raise


async def _repair(tools: Tools, step: RepairNode) -> None:
    """From here on only what is seen over another connection is believed: over the one that there is the machine may
    be reached no more, or be reached by chance."""
    link, number = tools.links.link(step.node)
    tools.writes[step.node] = Write(number + 1, 0)
    try:
        request = repair.Repair(tools.token, step.id, step.boot_id, step.changes)
        await _ask(tools, link, request, REPAIR_SECONDS_MAX)
    except Unreachable:
        with suppress(Unwritable):  # it may be carried out yet: not, where the agent sees a later token first
            tools.groups.renew()
        raise
    finally:
        await _reach_anew(tools, step.node)


async def _reach_anew(tools: Tools, name: NodeName) -> None:
    """Over a connection that is new from its first packet on; where there is none soon, that is seen by everybody."""
    await tools.links.renew(name, lambda: tools.let_go(name))
    with suppress(Unreachable):
        await tools.links.reach(name)


async def _confirm(tools: Tools, step: ConfirmRepair) -> None:
    try:
        await _change(tools, step.node, repair.ConfirmRepair(tools.token, step.id))
    except Refused as error:
        if error.code == "SameConnection":
            await _reach_anew(tools, step.node)
        raise
    tools.repaired[step.node] = tools.clock()


async def _start_agent(tools: Tools, step: StartAgent) -> None:
    try:
        if step.replaces:
            await tools.stage(step.node)
            await _end_agent(tools, step.node)
        await tools.start_agent(step.node)
    except Refused as error:
        if error.code == "Fenced":
            raise _deposed(error) from error
        raise


async def _end_agent(tools: Tools, name: NodeName) -> None:
    """End an agent, and see that it is gone."""
    link, _ = tools.links.link(name)
    await _ask(tools, link, node.Shutdown(tools.token))
    await tools.links.lose(name)


async def _stop_agent(tools: Tools, name: NodeName) -> None:
    """One that does not hear it may go on, and is not forgotten."""
    tools.links.link(name)  # what nobody can be told of is not begun
    await tools.withdraw(name)  # first: without its agent the node would be forgotten with the key let in
    await _end_agent(tools, name)
    tools.groups.drop_agent(name)


async def _stop(tools: Tools, step: StopRank) -> None:
    await _change(tools, step.node, node.StopRank(tools.token, step.id, step.grace_seconds))
    gone_by = tools.clock() + step.grace_seconds
    known = {id: asked for id, asked in tools.stops.items() if asked.void_at > gone_by - STOPS_KEPT_SECONDS}
    known[step.id] = StopAsked(gone_by, gone_by + STOP_REPEATED_AFTER_SECONDS, step.symptom)
    tools.stops = known


def _deposed(error: Refused) -> Deposed:
    return Deposed(f"a node obeys another controller: {error}: this one ends")


async def _ask(tools: Tools, link: AgentLink, request: Any, seconds: float | None = None) -> Any:
    """An agent's answer. Raises ``Deposed`` where the agent obeys another controller by now."""
    try:
        return await link.request(request, timeout=seconds or REQUEST_SECONDS_MAX)
    except Refused as error:
        if error.code == "Fenced" and request.token == tools.token:
            raise _deposed(error) from error
        raise


async def _change(tools: Tools, name: NodeName, request: Any) -> None:
    """Ask an agent for a change, and remember how new an observation must be to show it."""
    link, number = tools.links.link(name)
    try:
        done = await _ask(tools, link, request)
    except Unreachable:
        # It may be carried out yet: only what is seen over a later connection can be believed, and only of an
        # agent that has seen a later token, and so refuses the request from there on.
        tools.writes[name] = Write(number + 1, 0)
        with suppress(Unwritable):
            tools.groups.renew()
        await link.close()
        raise
    assert isinstance(done, node.Done)
    tools.writes[name] = Write(number, done.sequence)
    tools.links.look(name)
