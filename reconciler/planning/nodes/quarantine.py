"""Nodes that are kept out: silent for too long, with a rank that nothing ends, or with leftovers of old ranks.

Computed in each pass, never stored. Meanwhile, nothing new is placed on such a node, and no group that misses a
rank there waits for it. A rank that may run there stays charged, and is not part of a new group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from reconciler.planning.context import reboot_requests
from reconciler.planning.context.lost_nodes import cut_off, is_lost
from reconciler.planning.context.world import World
from reconciler.planning.diagnosis.evidence import Detection
from reconciler.planning.diagnosis.rules import NO_LOCAL_NETWORK, TABLE
from reconciler.state import (
    Contact,
    FaultClass,
    NodeName,
    NodeObservation,
    ObjectKey,
    ObservedRank,
    Quarantine,
    Sign,
    Trouble,
)
from reconciler.state.observed import KILL_SECONDS
from reconciler.state.subjects import NodeSubject

from . import leftovers

_HELD = next(row for row in TABLE if row.fault is FaultClass.UNKILLABLE_RANK)
_RESTARTING = "nothing to do yet: it was asked to restart, which may take some minutes"


def reason(world: World, name: NodeName) -> str:
    """Say why a node is kept out, for people; empty if it may be used."""
    found = quarantine_of(world, name)
    return found.text if found else ""


def quarantine_of(world: World, name: NodeName) -> Quarantine | None:
    """Return the first rule that keeps a node out; None if none does."""
    return world.once(_quarantine, name)


def _quarantine(world: World, name: NodeName) -> Quarantine | None:
    return _lost(world, name) or _held(world, name) or _holding(world, name)


def troubles(world: World, names: list[NodeName]) -> tuple[Trouble, ...]:
    """List what is wrong with these nodes themselves, as soon as it is seen."""
    looks = (_silent_trouble, _held_trouble, _leftover_trouble)
    found = (look(world, name) for look in looks for name in names)
    return _asked_once(trouble for trouble in found if trouble is not None)


def _asked_once(troubles: Iterable[Trouble]) -> tuple[Trouble, ...]:
    """Ask for the very same thing once: what keeps the controller from many nodes is a fault of its own machine."""
    asked: dict[Sign, ObjectKey] = {}
    found = []
    for trouble in troubles:
        first = asked.setdefault(trouble.task, trouble.object) if trouble.person else trouble.object
        again = first != trouble.object
        found.append(replace(trouble, doing=f"{trouble.doing}; see {first}", person="") if again else trouble)
    return tuple(found)


# --- nodes that are lost ---------------------------------------------------------------------------


def _lost(world: World, name: NodeName) -> Quarantine | None:
    if not is_lost(world, name):
        return None
    node = world.node(name)
    if node.contact is Contact.AGENT_DOWN:
        text = f"its agent cannot be started: {node.problem}"
        return Quarantine(name, FaultClass.HOST_UNREACHABLE, "AgentCannotStart", text, _person(world, node))
    text = f"it does not answer: {node.problem}"
    person = _RESTARTING if _is_expected(world, node) else _person(world, node)
    return Quarantine(name, FaultClass.HOST_UNREACHABLE, "NotAnswering", text, person)


def _silent_trouble(world: World, name: NodeName) -> Trouble | None:
    node = world.node(name)
    if _is_expected(world, node):
        return None
    if not cut_off(world, node) or (name not in world.desired.nodes and name not in world.memory.agents):
        return None
    gone = is_lost(world, name)
    doing = "its groups are formed elsewhere" if gone else "it is waited for; its groups get no requests"
    if node.contact is Contact.AGENT_DOWN:
        doing = f"start its agent{'; its groups are formed elsewhere' if gone else ''}"
    key = ObjectKey("Node", name)
    seen = f"{name} does not answer: {node.problem}"
    person = _person(world, node) if gone else ""
    sign = (node.contact.name, node.barred)
    task = (node.barred,) if node.barred == NO_LOCAL_NETWORK else (*sign, name)
    return Trouble(key, NodeSubject(name), FaultClass.HOST_UNREACHABLE, seen, doing, person, sign, task)


def _is_expected(world: World, node: NodeObservation) -> bool:
    """Return whether a machine is silent because it was asked to restart. One that asks a person for something, such as
    the password of its disk, has come as far as it can alone."""
    return reboot_requests.restarting(world, node.name) and not node.remedy


def _person(world: World, node: NodeObservation) -> str:
    if node.contact is Contact.AGENT_DOWN:
        return f"make what the agent's last words name right on {node.name}; it is started again by itself"
    if node.remedy:
        return node.remedy
    access = world.access(node.name)
    at = f" at {access.ssh.host} (spec.ssh.host)" if access.ssh else ""
    return (
        f"see that {node.name} is switched on, unlocked and on the network{at}; if it is gone for good:"
        f" reconciler delete node {node.name} --with-links"
    )


# --- nodes with a rank that nothing ends -----------------------------------------------------------


def _held(world: World, name: NodeName) -> Quarantine | None:
    rank = _held_rank(world, name)
    return None if rank is None else _of_held(name, rank)


def _of_held(name: NodeName, rank: ObservedRank) -> Quarantine:
    fault, person = FaultClass.UNKILLABLE_RANK, _HELD.steps(Detection("", (name,)), "")
    return Quarantine(name, fault, fault.reason, held_text(rank), person)


def _held_rank(world: World, name: NodeName) -> ObservedRank | None:
    return next((rank for rank in world.observed.ranks_on(name) if rank.unkillable), None)


def _held_trouble(world: World, name: NodeName) -> Trouble | None:
    """Report it once it is certain: until then, the rank may have much memory to give back."""
    rank = _held_rank(world, name)
    if rank is None or (name not in world.desired.nodes and name not in world.memory.agents):
        return None
    found = _of_held(name, rank)
    doing = "nothing new is started there, and its groups are formed without it"
    key, sign, task = ObjectKey("Node", name), (str(rank.report.id),), _HELD.sign(Detection("", (name,)))
    return Trouble(key, NodeSubject(name), found.fault, found.text, doing, found.person, sign, task)


def held_text(rank: ObservedRank) -> str:
    """Say of a rank that SIGKILL does not end it, for people, in the same words as long as that is so."""
    report = rank.report
    who = (
        f"rank {report.id.rank} of {rank.workload} on {rank.node} (epoch {report.id.epoch}, pid {report.pid})"
    )
    return f"{who} has not ended within {KILL_SECONDS:g} s of SIGKILL"


# --- nodes that keep what ranks held ---------------------------------------------------------------


def _holding(world: World, name: NodeName) -> Quarantine | None:
    for kept in leftovers.leftovers(world, name):
        if kept.seconds >= leftovers.SETTLE_SECONDS:
            return Quarantine(name, kept.fault, kept.reason, kept.text, kept.person)
    return None


def _leftover_trouble(world: World, name: NodeName) -> Trouble | None:
    for kept in leftovers.leftovers(world, name):
        if kept.seconds < leftovers.REPORT_AFTER_SECONDS:
            continue
        settled = kept.seconds >= leftovers.SETTLE_SECONDS
        doing = "nothing new is started there" if settled else "wait until it is freed"
        person = kept.person if settled else ""
        key, seen, task = ObjectKey("Node", name), f"{name}: {kept.text}", (*kept.sign, name)
        return Trouble(key, NodeSubject(name), kept.fault, seen, doing, person, kept.sign, task)
    return None
