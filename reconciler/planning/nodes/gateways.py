"""Plans steps for the gateways of nodes, and says what keeps any gateway from serving.

A gateway on a node continues with its routes whatever happens to this controller. So nothing is done about one that cannot
be seen, and nothing before this controller has routes of its own.
"""

from __future__ import annotations

from reconciler.planning.context.back_off_time import CRASH_LOOP_SECONDS, back_off_seconds
from reconciler.planning.context.decision import NOTHING, Decision, wait
from reconciler.planning.context.world import World
from reconciler.state import (
    Contact,
    ContinueGateway,
    GatewayProcess,
    NodeGatewayObservation,
    NodeName,
    Refusal,
    RefusedBecause,
    ReplaceGateway,
    SendRoutes,
    StartGateway,
    Step,
    StopGateway,
    WaitingFor,
)
from reconciler.state.identity import ObjectKey
from reconciler.state.plan import GatewayRefusal
from reconciler.state.subjects import GatewaySubject

from . import runtimes

FAILING_SECONDS = 20.0
"""Time after which a gateway that does not run, or does not listen, is refused: until then it may be starting."""


def names(world: World) -> list[NodeName]:
    """List the nodes whose gateways are decided about, in the order of names."""
    return sorted(world.once(_wanted) | world.memory.gateways.remembered)


def own(world: World) -> Decision:
    """Say what stops the gateway of the controller's machine. It follows its routes by itself."""
    wanted, seen = world.desired.gateway, world.observed.gateway
    if wanted is None or seen is None or not seen.problem:
        return NOTHING
    key = ObjectKey("Gateway", wanted.metadata.name)
    return Decision(refused=(Refusal(key, RefusedBecause.CANNOT_LISTEN, seen.problem),))


def decide(world: World, name: NodeName) -> Decision:
    """Have a node's gateway run this version, with the routes in force; end it where none is wanted any more."""
    if world.memory.gateways.files is None:
        return NOTHING
    if str(GatewaySubject(name)) in world.memory.in_flight:
        return _wait(world, name, WaitingFor.STEP, "something is being done about it") + _refused(world, name)
    if ends(world, name):
        return _end(world, name)
    if not _wants(world, name):
        return NOTHING
    return _keep(world, name) + _refused(world, name)


def ends(world: World, name: NodeName) -> bool:
    """Return whether a node has a gateway, or its files, that it is not to have any more. Until that has ended, the node
    has to be reached."""
    gateways = world.memory.gateways
    return gateways.files is not None and name in gateways.remembered and not _wants(world, name)


def _wanted(world: World) -> frozenset[NodeName]:
    """Return the nodes that are to have a gateway. Without a Gateway these are the nodes of the last one, whose gateways
    listen on without models. A node on the controller's machine has the gateway of that one."""
    gateway, files = world.desired.gateway, world.memory.gateways.files
    named = (files or {}).keys() if gateway is None else map(NodeName, gateway.spec.nodes)
    nodes = world.desired.nodes
    return frozenset(name for name in named if name in nodes and nodes[name].spec.ssh is not None)


def _wants(world: World, name: NodeName) -> bool:
    return name in world.once(_wanted)


def _end(world: World, name: NodeName) -> Decision:
    seen = world.observed.gateways_on_nodes.get(name)
    reachable = world.access(name).ssh is not None  # one that is not any more is only forgotten
    if reachable and (seen is None or not seen.reached):
        return _wait(world, name, WaitingFor.AGENT, f"it is to end, and {_unseen(seen)}")
    return Decision(steps=(StopGateway(name, _about(world, name)),))


def _keep(world: World, name: NodeName) -> Decision:
    seen, gateways, about = (
        world.observed.gateways_on_nodes.get(name),
        world.memory.gateways,
        _about(world, name),
    )
    digest = (gateways.files or {}).get(name)
    if digest is None:
        return _wait(world, name, WaitingFor.ROUTES, "waiting for routes that name it")
    if seen is None or not seen.reached:
        return _wait(world, name, WaitingFor.AGENT, _unseen(seen))
    sends = SendRoutes(name, about, digest)
    if seen.process is GatewayProcess.STOPPED:
        return _one(ContinueGateway(name, about))
    if seen.files != digest and not _starts_without(world, seen, sends):
        return _one(sends)
    if seen.process is GatewayProcess.GONE:
        return _start(world, name, seen)
    if seen.program != gateways.program:
        return _one(ReplaceGateway(name, about, seen.program))
    return NOTHING


def _starts_without(world: World, seen: NodeGatewayObservation, sends: SendRoutes) -> bool:
    """Return whether a gateway starts with old routes, because the new ones cannot be written there."""
    return seen.process is GatewayProcess.GONE and seen.files != "" and sends.key in world.memory.failures


def _start(world: World, name: NodeName, seen: NodeGatewayObservation) -> Decision:
    if world.desired.stopping:
        return NOTHING  # it would start without models
    if _runtime_comes(world, name):
        return _wait(world, name, WaitingFor.RUNTIME, "its runtime is being built")
    if world.node(name).contact is Contact.UNKNOWN:
        return _wait(world, name, WaitingFor.AGENT, f"{name} has not been seen yet")
    seconds = back_off_seconds(seen.ends_in_a_row) - seen.failing_seconds
    if seconds > 0.0:
        text = f"the gateway on {name}: next start after {_ended(seen)}"
        return wait(_about(world, name), WaitingFor.BACK_OFF, text, world.now + seconds)
    return _one(StartGateway(name, _about(world, name)))


def _ended(seen: NodeGatewayObservation) -> str:
    return f"it has ended {seen.ends_in_a_row} times in a row, the last time: {seen.last_end}"


def _runtime_comes(world: World, name: NodeName) -> bool:
    return runtimes.about_to_arrive(world, name) or runtimes.retried_first(world, name)


def _refused(world: World, name: NodeName) -> Decision:
    """Say that a gateway has not served for longer than a start takes, or ends again and again. One that cannot be seen
    now is as it was last."""
    seen, gateway = world.observed.gateways_on_nodes.get(name), world.desired.gateway
    if seen is None or gateway is None:
        return NOTHING
    loops = back_off_seconds(seen.ends_in_a_row) >= CRASH_LOOP_SECONDS
    if not loops and seen.failing_seconds < FAILING_SECONDS:
        return NOTHING
    if world.desired.stopping or not _wants(world, name) or _runtime_comes(world, name):
        return NOTHING
    last = "" if seen.reached else " did not serve when it was seen last, and cannot be seen now"
    text, person = f"the gateway on {name}{last}: {_ended(seen) if loops else seen.problem}", ""
    reason = RefusedBecause.CANNOT_LISTEN
    if not seen.cannot_listen:
        reason = RefusedBecause.NO_GATEWAY
        person = f"on {name}, correct what the end of ~/.reconciler/front/gateway.log says"
    return Decision(refused=(GatewayRefusal(_about(world, name), reason, text, person=person, node=name),))


def _unseen(seen: NodeGatewayObservation | None) -> str:
    return "it has not been looked at yet" if seen is None else f"it cannot be seen: {seen.problem}"


def _about(world: World, name: NodeName) -> ObjectKey:
    """Return the Gateway; the Node if there is no Gateway any more."""
    gateway = world.desired.gateway
    return ObjectKey("Node", name) if gateway is None else ObjectKey("Gateway", gateway.metadata.name)


def _one(step: Step) -> Decision:
    return Decision(steps=(step,))


def _wait(world: World, name: NodeName, reason: WaitingFor, text: str) -> Decision:
    return wait(_about(world, name), reason, f"the gateway on {name}: {text}")
