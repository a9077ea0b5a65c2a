"""Decides when the settings of a machine are changed, and when a change is confirmed. It changes only settings that the
Node allows, and none that a serving group uses.

A boot undoes most changes, and then they are due again. A change that does not help is tried a few times in one boot.
Then it is left to a person, with the exact commands.
"""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.planning.context import reboot_requests
from reconciler.planning.context.decision import NOTHING, Decision, wait_for_node
from reconciler.planning.context.world import World
from reconciler.planning.diagnosis.evidence import Detection
from reconciler.planning.diagnosis.rules import Remedy, Row
from reconciler.state import (
    ConfirmRepair,
    NodeName,
    Refusal,
    RefusedBecause,
    RepairNode,
    Sign,
    WaitingFor,
)
from reconciler.state.identity import ObjectKey
from reconciler.wire.repair import RepairReport, RepairState

from . import settings
from .settings import Kind, Need

ATTEMPTS_MAX = 3
"""For the same changes in one boot."""
BROKEN_OFF_MAX = 9
"""For the same changes in one boot whose process was gone each time."""
REPAIRS_MAX = 12
"""For all changes in one boot."""
GID_SECONDS = 60.0
"""Time for a port to show its GID after it got an address. Then a group does without it."""


def decide(world: World, name: NodeName) -> Decision:
    """Confirm a change, else change the settings that are due, and say why some are not."""
    if world.desired.stopping or name not in world.desired.nodes or not world.reached(name):
        return NOTHING
    if f"repair/{name}" in world.memory.in_flight:
        return wait_for_node(name, WaitingFor.REPAIR, "its settings are being changed")
    going_on = _running_repair(world, name)
    if going_on is not None:
        return _finish(world, name, going_on)
    due = _due(world, name)
    refused = _refusals(world, name)
    decision = Decision(refused=tuple(refused)) if refused else NOTHING
    if not due:
        settling = _settling(world, name)
        return (
            decision
            + _held(world, name)
            + (wait_for_node(name, WaitingFor.REPAIR, settling) if settling else NOTHING)
        )
    hindered = _hindered(world, name)
    if hindered:
        return decision + wait_for_node(name, WaitingFor.REPAIR, hindered)
    changes = tuple(change for need in due for change in need.changes)
    boot = world.boot(name)
    step = RepairNode(
        name, settings.identity(boot, changes), boot, changes, "; ".join(need.text for need in due)
    )
    return decision + Decision(steps=(step,))


def pending_change(world: World, name: NodeName, ending: str = "") -> str:
    """Describe a change of a machine that is about to be made, or just was, for people: groups that would use it
    wait. Empty if there is none soon. ``ending`` is a replica whose ranks are being ended."""
    if world.desired.stopping or name not in world.desired.nodes or not world.reached(name):
        return ""
    going_on = _running_repair(world, name)
    if going_on is not None or f"repair/{name}" in world.memory.in_flight:
        return f"the settings of {name} are being changed"
    due = _due(world, name, ending)
    if due:
        return f"{due[0].text}: that is repaired first"
    return _settling(world, name)


def changeable(world: World) -> tuple[NodeName, ...]:
    """List the nodes on which something is being changed, was just changed, or is to be changed as soon as no group uses
    it. For all others ``pending_change`` is empty, whatever is decided in this pass."""
    return tuple(
        name
        for name in sorted(world.desired.nodes)
        if _running_repair(world, name)
        or f"repair/{name}" in world.memory.in_flight
        or any(_possible(world, name, need) for need in settings.needs(world, name))
        or _settling(world, name)
    )


def _possible(world: World, name: NodeName, need: Need) -> bool:
    """Return whether a change may be made from here, if no group uses the setting."""
    return bool(need.changes) and not need.against and allowed(world, name, need.kind)


def doing(world: World, row: Row, seen: Detection) -> str:
    """Say what is done about a fault of a machine, for people."""
    if row.remedy is not Remedy.REPAIR or row.then is None:
        return row.remedy.value
    return (row.remedy if any(_in_hand(world, name) for name in seen.nodes) else row.then.remedy).value


def steps(world: World, row: Row, seen: Detection, deployment: str = "") -> str:
    """Say what a person must do about a fault: the exact commands if the missing settings are known; empty if the changes
    are about to be made from here."""
    if row.remedy is not Remedy.REPAIR:
        return row.steps(seen, deployment)
    if any(_in_hand(world, name) for name in seen.nodes):
        return ""
    found = [text for name in seen.nodes if (text := _manual_mismatch(world, name)) is not None]
    return "; ".join(filter(None, found)) if found else row.steps(seen, deployment)


def task(world: World, row: Row, seen: Detection) -> Sign:
    """Return the key of ``steps``. Missing settings are a task of their machine, whichever row has seen it."""
    declared = [name for name in seen.nodes if _manual_mismatch(world, name) is not None]
    return ("settings", *declared) if row.remedy is Remedy.REPAIR and declared else row.sign(seen)


def _in_hand(world: World, name: NodeName) -> bool:
    """Return whether no person has to touch the settings of a machine, even while its agent is started again."""
    return bool(pending_change(world, name) or _settling(world, name))


def _manual_mismatch(world: World, name: NodeName) -> str | None:
    """Say what a person must do about the network of a machine; None if it is as declared, or nothing is
    declared."""
    found = [need for need in settings.needs(world, name) if need.kind is Kind.NETWORK]
    if not found:
        return None
    if allowed(world, name, Kind.NETWORK):
        return _person(world, name, found)
    typed = settings.commands(found)
    first = f"set spec.repair.network of node/{name}"
    first += f", or on {name}: {typed}; again after each restart" if typed else ""
    return "; ".join(dict.fromkeys([first, *(need.against for need in found if need.against)]))


def allowed(world: World, name: NodeName, kind: Kind) -> bool:
    """Return whether the Node of a machine allows such a change; of several Nodes on one machine the first decides."""
    wanted = world.desired.nodes.get(name)
    if wanted is None or not kind.allowed(wanted.spec.repair):
        return False
    report = world.node(name).report
    return report is None or world.once(_first_of_hosts, kind).get(report.host_id, name) == name


def _first_of_hosts(world: World, kind: Kind) -> dict[str, NodeName]:
    """Return the first Node of each machine that allows such changes."""
    found: dict[str, NodeName] = {}
    for name, node in sorted(world.desired.nodes.items()):
        report = world.node(name).report
        if report is not None and kind.allowed(node.spec.repair):
            found.setdefault(report.host_id, name)
    return found


# --- what is due -----------------------------------------------------------------------------------


def _due(world: World, name: NodeName, ending: str = "") -> list[Need]:
    """List the next changes, all of one kind, so that a kind that is not allowed cannot undo another."""
    found = settings.needs(world, name)
    for kind in Kind if found else ():
        ready = [
            need
            for need in found
            if need.kind is kind and need.changes and not need.against and need.user in ("", ending)
        ]
        if ready and allowed(world, name, kind):
            due = next((each for each in _together(world, name, ready) if not _spent(world, name, each)), [])
            if due:
                return due
    return []


def _together(world: World, name: NodeName, ready: list[Need]) -> list[list[Need]]:
    """Return the needs that are changed together: all of them, or each alone once that did not last, because one that is
    undone takes the others with it."""
    report, id = _report(world, name), _id(world, name, ready)
    apart = (
        report is not None and report.boot_id == world.boot(name) and id in {*report.tried} - {*report.barred}
    )
    return [[need] for need in ready] if apart else [ready]


def _id(world: World, name: NodeName, needs: Sequence[Need]) -> str:
    return settings.identity(world.boot(name), [change for need in needs for change in need.changes])


def _spent(world: World, name: NodeName, needs: Sequence[Need]) -> str:
    """Say why the same changes are not tried again in this boot; empty if they may be."""
    report, boot = _report(world, name), world.boot(name)
    if report is None or report.boot_id != boot:
        return ""
    id = _id(world, name, needs)
    if id in report.barred:
        return f"sudo on {name} does not allow it without a password (reconciler node bootstrap {name} prints what does)"
    times = report.tried.count(id)
    if times >= ATTEMPTS_MAX:
        why = f": {report.problem}" if report.problem and report.id == id else ""
        return f"it was tried {times} times since {name} booted, and did not last{why}"
    if report.broken_off.count(id) >= BROKEN_OFF_MAX:
        return f"it was broken off {BROKEN_OFF_MAX} times since {name} booted"
    if len(report.tried) >= REPAIRS_MAX:
        return f"the settings of {name} were changed {len(report.tried)} times since it booted"
    return ""


def _refusals(world: World, name: NodeName) -> list[Refusal]:
    """List the changes that are allowed and wanted, but cannot be made from here."""
    found = settings.needs(world, name)
    key, refused = ObjectKey("Node", name), []
    for kind in Kind if found else ():
        mine = [need for need in found if need.kind is kind]
        if mine and allowed(world, name, kind):
            person = _person(world, name, [need for need in mine if not need.user])
            if person:
                refused.append(Refusal(key, RefusedBecause.NOT_REPAIRED, mine[0].text, person=person))
    return refused


def _person(world: World, name: NodeName, needs: Sequence[Need]) -> str:
    """Say what only a person can do about allowed changes; empty if nothing is left to a person."""
    against = [need.against for need in needs if need.against]
    ready = [need for need in needs if need.changes and not need.against]
    for together in _together(world, name, ready) if ready else ():
        spent = _spent(world, name, together)
        if spent:
            stays = all(change.lasting for need in together for change in need.changes)
            again = "" if stays else "; again after each restart"
            told = f"{spent}; on {name}: {settings.commands(together)}{again}"
            against += filter(None, [told, *(need.undone_by for need in together)])
    return "; ".join(dict.fromkeys(against))


def _hindered(world: World, name: NodeName) -> str:
    """Say why nothing is changed at this moment; empty if changes may be made."""
    node = world.node(name)
    if not (world.seen_since_last_write(name) and node.probed and node.examined):
        return "its settings are changed when its newest state is known"
    if f"node/{name}" in world.memory.in_flight or name in reboot_requests.pending(world):
        return "its settings are changed when nothing else is done to it"
    unexamined = _unexamined_beside(world, name)
    if unexamined:
        # a changed setting would no longer explain why the group ended
        return f"its settings are changed when {', '.join(unexamined)} was probed, whose group has ended"
    return ""


def _unexamined_beside(world: World, name: NodeName) -> list[NodeName]:
    """List the machines of groups on this one that were not probed since such a group ended. A machine that was repaired
    since the group was formed was probed before that."""
    repaired = world.memory.repaired
    return sorted(
        {
            other
            for record in world.memory.groups.values()
            if name in record.members
            for other in record.members
            if world.reached(other)
            and not world.node(other).examined
            and repaired.get(other, 0.0) <= record.created_at
        }
    )


def _held(world: World, name: NodeName) -> Decision:
    """List the changes that wait for the groups that use the settings."""
    waits = [
        need
        for need in settings.needs(world, name)
        if need.user and not need.against and allowed(world, name, need.kind)
    ]
    if not waits:
        return NOTHING
    text = f"{waits[0].text}: changed when {waits[0].user} does not use it any more"
    return wait_for_node(name, WaitingFor.QUIET, text)


# --- what goes on ----------------------------------------------------------------------------------


def _report(world: World, name: NodeName) -> RepairReport | None:
    node = world.node(name)
    return node.report.repair if node.report else None


def _running_repair(world: World, name: NodeName) -> RepairReport | None:
    report = _report(world, name)
    return None if report is None or report.state in RepairState.OVER else report


def _finish(world: World, name: NodeName, report: RepairReport) -> Decision:
    """Confirm a change as soon as facts read over a newer connection show that it has helped."""
    if report.state != RepairState.WAITING:
        return wait_for_node(name, WaitingFor.REPAIR, f"the change of its settings is {report.state}")
    node = world.node(name)
    allowed_kinds = {kind for kind in Kind if allowed(world, name, kind)}
    wanted = all(_kind(change.argv) in allowed_kinds for change in report.changes)
    last = {
        change.argv[:2] if change.argv[1] != "bridge0" else change.argv: change for change in report.changes
    }
    shown = all(settings.confirmed(change, node.facts) for change in last.values())
    seen = (
        world.seen_since_last_write(name) and node.probed and node.examined and node.facts_link == node.link
    )
    if wanted and shown and seen and report.boot_id == world.boot(name):
        return Decision(steps=(ConfirmRepair(name, report.id),))
    return wait_for_node(
        name, WaitingFor.REPAIR, "its settings were changed; they are confirmed once they are seen to help"
    )


def _kind(argv: Sequence[str]) -> Kind:
    return _KINDS.get(argv[0], Kind.NETWORK)


_KINDS = {
    "sysctl": Kind.WIRED_LIMIT,
    "pmset": Kind.SLEEP,
    "defaults": Kind.UPDATES,
    "touch": Kind.WEIGHTS,
    "tmutil": Kind.WEIGHTS,
}
"""By the tool that changes them."""


def _settling(world: World, name: NodeName) -> str:
    """Say that a port with a new address has no GID yet; empty without such a port."""
    at = world.memory.repaired.get(name)
    if at is None or abs(world.now - at) >= GID_SECONDS:
        return ""
    bare = [port for port in world.node(name).facts.ports if port.address and port.mapped_gid is False]
    return f"{bare[0].interface} of {name} has no GID yet for its new address" if bare else ""
