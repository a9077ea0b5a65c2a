"""Restarts machines on request, one after the other: each is emptied, restarted, and back in service before the next.

A restart that has begun is in the store, so that a later controller continues it. A request names the boot that is to
end, so that nothing is restarted twice, whatever is forgotten.
"""

from __future__ import annotations

from reconciler.planning.context import reboot_requests
from reconciler.planning.context.decision import NOTHING, Decision, wait_for_node
from reconciler.planning.context.reboot_requests import AWAY_SECONDS
from reconciler.planning.context.world import World
from reconciler.planning.nodes import quarantine
from reconciler.state import (
    EmptyNode,
    NodeName,
    ObjectKey,
    Reboot,
    RebootNode,
    Refusal,
    RefusedBecause,
    WaitingFor,
)
from reconciler.state.plan import workload_of

from .reboot import locked

REASON = "somebody asked for it"
SERVING = (WaitingFor.QUIET, WaitingFor.PAUSED)
"""Reasons for which a replica that serves may wait without end."""


def decide(world: World, decided: list[Decision]) -> Decision:
    """Return the next step, the waits and the refusals of the requested restarts. ``decided``: all other decisions."""
    names = reboot_requests.pending(world)
    if not names:
        return NOTHING
    reasons = {name: why for name in names if (why := _obstacle(world, name))}
    refused = Decision(refused=tuple(_refusal(name, why) for name, why in reasons.items()))
    able = [name for name in names if name not in reasons]
    if not able:
        return refused
    current = next((name for name in able if reboot_requests.begun(world, name)), None)
    first = current or able[0]
    decision = refused + (_continue_reboot(world, first) if current else _begins(world, first, decided))
    for name in able:
        if name != first:
            decision += wait_for_node(name, WaitingFor.TURN, f"it is restarted after {first}")
    return decision


def _obstacle(world: World, name: NodeName) -> str:
    """Say why a machine cannot be restarted as things are, and what to do; empty if it can be."""
    spec = world.desired.nodes[name].spec
    if spec.ssh is None:
        return "it is the controller's own machine: restart it by hand, everything comes back by itself"
    if locked(world, name) and not spec.repair.file_vault:
        return (
            "after a restart a person would have to unlock its disk (FileVault); where somebody, or something, does:"
            " set spec.repair.fileVault: true"
        )
    return ""


def _begins(world: World, name: NodeName, decided: list[Decision]) -> Decision:
    hold = _unanswered(world, name) or _still_returning(world) or _unsettled(decided)
    if hold:
        return wait_for_node(name, WaitingFor.TURN, f"it is restarted when {hold}")
    step = EmptyNode(name, Reboot(world.now, world.boot(name), REASON, requested=False))
    return Decision(steps=(step,))


def _continue_reboot(world: World, name: NodeName) -> Decision:
    noted = reboot_requests.begun(world, name)
    if reboot_requests.away(world, name) and noted is not None:
        until = noted.at + AWAY_SECONDS
        return wait_for_node(name, WaitingFor.RESTART, "it was asked to restart, and is expected back", until)
    if f"node/{name}" in world.memory.in_flight:
        return wait_for_node(name, WaitingFor.STEP, "it is being asked to restart")
    ranks = world.observed.ranks_on(name)
    left = [str(rank.report.id) for rank in ranks if rank.alive and not rank.unkillable]
    left += [
        str(replica) for replica, record in sorted(world.memory.groups.items()) if name in record.members
    ]
    if left:
        return wait_for_node(
            name, WaitingFor.RESTART, f"it is being emptied for a restart: {left[0]} is there"
        )
    hold = _unanswered(world, name) or _still_returning(world)
    if hold:
        return wait_for_node(name, WaitingFor.RESTART, f"it is empty, and restarted when {hold}")
    step = RebootNode(name, Reboot(world.now, world.boot(name), REASON), on_request=True)
    return Decision(steps=(step,))


def _unanswered(world: World, name: NodeName) -> str:
    return "" if world.reached(name) and world.seen_since_last_write(name) else f"{name} answers"


def _still_returning(world: World) -> str:
    """Say which recently restarted machine has to be back first, and how; empty if all are back."""
    for name, noted in sorted(world.memory.reboots.items()):
        if (
            name not in world.desired.nodes
            or not noted.requested
            or abs(world.now - noted.at) >= AWAY_SECONDS
        ):
            continue
        if not world.reached(name) or not world.node(name).probed or world.boot(name) == noted.boot_id:
            return f"{name} is back"
        if quarantine.quarantine_of(world, name) is not None:
            return f"{name} is out of quarantine"
    return ""


def _unsettled(decided: list[Decision]) -> str:
    """Say which replica is to come up first; empty if all are served that can be."""
    for decision in decided:
        for step in decision.steps:
            workload = workload_of(step)
            if workload is not None:
                return f"{workload} is served"
        for waiting in decision.waiting:
            if waiting.workload is not None and waiting.reason not in SERVING:
                return f"{waiting.workload} is served ({waiting.text})"
    return ""


def _refusal(name: NodeName, why: str) -> Refusal:
    return Refusal(ObjectKey("Node", name), RefusedBecause.NO_RESTART, f"{name} is not restarted: {why}")
