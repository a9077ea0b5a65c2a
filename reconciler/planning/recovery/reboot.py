"""Decides whether a machine may be restarted now. Restarts cost most: they come last, rarely, and one at a time.

They are off unless the Node allows them. A machine is never restarted if that cannot help, if a person would have
to unlock it afterwards, or while it serves.
"""

from __future__ import annotations

from dataclasses import replace

from reconciler.planning.context import reboot_requests
from reconciler.planning.context.reboot_requests import AWAY_SECONDS
from reconciler.planning.context.view import Formed
from reconciler.planning.context.world import World
from reconciler.planning.diagnosis.rules import TABLE, Remedy
from reconciler.state import FaultClass, GroupRecord, NodeName, Reboot, RebootNode, RunId, Trouble
from reconciler.wire.launch import Phase

from . import diagnose
from .diagnose import Diagnosis

EVERY_SECONDS = 6 * 3600.0
"""Time between restarts of a machine: one that needs them more often needs a person."""


def restart(world: World, name: NodeName, fault: FaultClass, why: str) -> RebootNode | str:
    """Return the step that restarts a machine because of this fault; else why it is not taken, for people."""
    against = _obstacle(world, name, fault)
    if against:
        return against
    return RebootNode(name, Reboot(world.now, world.boot(name), f"{fault.value}: {why}"))


def in_hand(world: World, name: NodeName, fault: FaultClass) -> bool:
    """Return whether a machine is being restarted for this fault, or will be as soon as another one is back."""
    if not _helps(fault):
        return False
    last = world.memory.reboots.get(name)
    if last is not None and (not last.requested or _away(world, name)):
        return True
    return not (_forbidden(world, name, fault) or _serving(world, name))


def remedy(view: Formed, fault: Diagnosis) -> RebootNode | str:
    """Return the restart of the first machine to blame that may be restarted; else why there is none, empty if
    none is wanted."""
    if fault.remedy is not Remedy.REBOOT or not view.up_to_date:
        return ""
    answers = [restart(view.world, name, fault.fault, fault.text) for name in fault.nodes]
    steps = [step for step in answers if isinstance(step, RebootNode)]
    return steps[0] if steps else "; ".join(str(why) for why in answers)


def trouble(view: Formed, fault: Diagnosis, restart: RebootNode | str) -> Trouble:
    """Say what is wrong with a replica. Nobody is asked to do what a restart is about to fix."""
    against = f", not now: {restart}" if isinstance(restart, str) and restart else ""
    found = diagnose.trouble(view, fault, f"{fault.remedy.value}{against}")
    coming = any(in_hand(view.world, name, fault.fault) for name in fault.nodes)
    return replace(found, person="") if fault.remedy is Remedy.REBOOT and coming else found


def _obstacle(world: World, name: NodeName, fault: FaultClass) -> str:
    """Return the first reason against a restart; empty if there is none."""
    return _forbidden(world, name, fault) or _serving(world, name) or _other_reboot(world)


def _forbidden(world: World, name: NodeName, fault: FaultClass) -> str:
    """Return a reason that waiting does not change soon; empty if there is none."""
    wanted, node = world.desired.nodes.get(name), world.node(name)
    if not _helps(fault):
        return f"a restart of {name} would not help against {fault.value}"
    if wanted is None or not wanted.spec.repair.reboot:
        return f"spec.repair.reboot of node/{name} does not allow a restart"
    if node.report is None or not world.reached(name) or not world.seen_since_last_write(name):
        return f"{name} does not answer now"
    if locked(world, name) and not wanted.spec.repair.file_vault:
        return f"after a restart a person would have to unlock {name} (FileVault)"
    failed = world.memory.failures.get(f"reboot/{name}")
    if failed is not None:
        return f"{name} could not be restarted: {failed.text}"
    last = world.memory.reboots.get(name)
    if last is not None and last.requested and abs(world.now - last.at) < EVERY_SECONDS:
        return f"{name} was restarted less than {EVERY_SECONDS / 3600:.0f} hours ago"
    return ""


def _helps(fault: FaultClass) -> bool:
    return any(row.fault is fault and row.reboots for row in TABLE)


def _serving(world: World, name: NodeName) -> str:
    groups = sorted(world.memory.groups.items())
    serving = [str(replica) for replica, record in groups if _serves(world, name, record)]
    return f"{', '.join(serving)} serves on {name}" if serving else ""


def _other_reboot(world: World) -> str:
    away = [other for other in sorted(world.memory.reboots) if _away(world, other)]
    away += [other for other in reboot_requests.pending(world) if reboot_requests.begun(world, other)]
    return f"{away[0]} is being restarted, and only one machine is at a time" if away else ""


def locked(world: World, name: NodeName) -> bool:
    """Return whether a person must unlock its disk afterwards: assumed on a Mac unless the facts say otherwise."""
    node = world.node(name)
    system = node.report.system if node.report else node.facts.system
    return node.facts.filevault is not False and (node.facts.filevault is True or system == "Darwin")


def _serves(world: World, name: NodeName, record: GroupRecord) -> bool:
    """Return whether a group with a rank there is proven, with all of its ranks up as last seen; of a job, whether it runs."""
    ranks = world.observed.group(record)
    if isinstance(record.workload, RunId):
        return name in record.members and any(rank.alive for rank in ranks.values())
    up = [rank for rank in ranks.values() if rank.report.phase == Phase.READY and not rank.killed]
    return name in record.members and record.proven_at is not None and len(up) == len(record.members)


def _away(world: World, name: NodeName) -> bool:
    """Return whether a machine of this cluster was asked to restart and has not come back."""
    last, node = world.memory.reboots[name], world.node(name)
    if name not in world.desired.nodes or not last.requested:
        return False
    if not world.reached(name) or node.report is None:
        return True
    return node.report.boot_id == last.boot_id and abs(world.now - last.at) < AWAY_SECONDS
