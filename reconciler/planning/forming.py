"""Forming: the new group of a replica, its machines, its transport and its epoch."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.state import (
    AllocateEpoch,
    Cause,
    FaultClass,
    GroupRecord,
    NodeName,
    Refusal,
    RefusedBecause,
    RungFailure,
    Standing,
    Waiting,
    WaitingFor,
)
from reconciler.state.weights import named

from . import adoption, budget, circumstances, faults, group, parts, repair, rungs
from .decision import Decision
from .eligible import suits
from .faults import Fault
from .healing.table import Remedy
from .placement import Placement
from .references import unknown_model
from .rungs import Rung
from .spot import spot
from .view import View


def form(
    view: View, cause: Cause, detail: str, fault: Fault | None = None, standing: Standing | None = None
) -> Decision:
    """A new epoch on the nodes that suit it; else what it waits for, or why it is refused.

    ``fault`` is what it is to remedy, where something was wrong; ``standing`` is the budget's then.
    """
    assert view.deployment is not None
    if view.model is None:
        text = unknown_model(view.deployment)
        refusal = Refusal(view.replica.key, RefusedBecause.MODEL_UNKNOWN, text, view.replica)
        return Decision(refused=(refusal,))
    unasked = adoption.unasked(view)
    if unasked:
        text = f"no answer yet from {', '.join(unasked)}, which may know of a later epoch"
        return Decision(waiting=(view.wait(WaitingFor.AGENT, text),))
    failed = _given_up(view, fault) if fault else None
    if failed is not None:
        unexamined = _unexamined(view)
        if unexamined:
            who = ", ".join(unexamined)
            text = f"the probes of {who} are being asked, which may explain why {failed.transport} failed"
            return Decision(waiting=(view.wait(WaitingFor.AGENT, text),))
        view = view.without_transport(failed)
        cause = Cause.TRANSPORT_FAILED
    repaired = _repaired(view, str(view.replica) if fault else "")
    if repaired:
        return Decision(waiting=(view.wait(WaitingFor.REPAIR, repaired),))
    vain = _vain(view)
    found = _spot(view.worn(vain), fault)
    if isinstance(found, Waiting):
        return Decision(waiting=(found,))
    if isinstance(found, Refusal):
        return Decision(refused=(found,))
    coming = parts.bring(view, found[0])
    if coming is not None:
        return coming
    record = _record(view, *found)
    step = AllocateEpoch(
        view.replica,
        record,
        cause,
        detail,
        fault=fault.fault if fault else None,
        counted=fault is not None and fault.counted,
        wish=view.wish,
        standing=standing or budget.planned(view, faults.fault(view)),
        failed=failed,
        vain=vain,
    )
    return Decision(steps=(step,))


def _repaired(view: View, ending: str) -> str:
    """What is repaired first on a machine that the group may come to use, for people; empty where nothing is."""
    assert view.deployment is not None
    nodes = view.world.desired.nodes
    suited = [name for name in sorted(nodes) if suits(nodes[name], view.deployment)]
    return next((text for name in suited if (text := repair.coming(view.world, name, ending))), "")


def _record(view: View, placed: Placement, rung: Rung) -> GroupRecord:
    """What is to be written of the new group; its memory is charged."""
    assert view.model is not None
    view.ledger.move(view.replica, placed.members, placed.needs)
    memory = view.world.memory
    seen = [rank.report.id.epoch for rank in view.ranks]
    epoch = max([memory.last_epochs.get(view.replica, 0), *seen]) + 1
    return GroupRecord(
        replica=view.replica,
        epoch=epoch,
        members=placed.members,
        port=group.first_ports(memory.next_port, len(placed.members) + 1, _ports(view)),
        secret=group.secret(view.world.entropy, view.replica, epoch),
        fingerprint=view.fingerprint,
        created_at=view.world.now,
        rank_bytes=max(placed.needs),
        needs=placed.needs if len(set(placed.needs)) > 1 else (),
        model=view.model.metadata.name,
        strategy=placed.split.strategy,
        strategy_why=placed.split.why,
        transport=rung.transport,
        transport_why=rung.why,
        boots=tuple(view.world.boot(name) for name in placed.members),
        weights=named(view.model.spec.source.huggingface),
        weights_before=_served(view),
        facts=circumstances.written(view.circumstances(placed.members)),
    )


def _served(view: View) -> str:
    """The weights that served well last, before a group that is about to be: those that just died early did not."""
    record, fault = view.record, faults.fault(view)
    if record is None:
        return ""
    well = record.proven_at is not None and (fault is None or budget.lived_long(view, fault))
    return (
        record.weights if well or (record.proven_at and not record.weights_before) else record.weights_before
    )


def _spot(view: View, fault: Fault | None) -> tuple[Placement, Rung] | Waiting | Refusal:
    """Where it goes: without the machines that are to blame, where the table says so and others suffice."""
    if fault is not None and fault.remedy is Remedy.FORM_WITHOUT:
        found = spot(view, fault.nodes)
        if isinstance(found, tuple):
            return found
    return spot(view)


def _given_up(view: View, fault: Fault) -> RungFailure | None:
    """The transport that the group is to leave, where the table says so and its ladder has a lower rung."""
    record = view.record
    assert record is not None
    assert view.deployment is not None
    transport = rungs.used(record)
    if fault.remedy not in (Remedy.LOWER_RUNG, Remedy.REBOOT) or not rungs.lower(view.deployment, transport):
        return None
    if fault.remedy is Remedy.REBOOT and (
        transport not in rungs.VERBS or fault.fault is not FaultClass.KERNEL_OBJECTS
    ):
        return None  # no other transport would help until the machine has restarted
    facts = circumstances.written(view.circumstances(record.members))
    return RungFailure(transport, facts, view.world.now, fault.seen, fault.fault, fault.person)


def _vain(view: View) -> tuple[tuple[NodeName, str], ...]:
    """The machines, in their boots, on which the group set RDMA up and never served: whoever ended before that took
    nothing of the kernel's, and whoever served gives it back when it ends in order."""
    record = view.record
    if record is None or record.proven_at is not None:
        return ()
    boots = dict(zip(record.members, record.boots, strict=False))
    return tuple(
        (rank.node, boots[rank.node])
        for _, rank in sorted(view.current.items())
        if rank.report.verbs and rank.node in boots
    )


def _unexamined(view: View) -> list[NodeName]:
    """Machines of the group of which only is known what they were like before it failed: noted as what a transport
    failed under, that would keep it away until something else changes."""
    assert view.record is not None
    return [name for name in view.record.members if not view.world.node(name).examined]


def _ports(view: View) -> Iterator[range]:
    """The ports of every group that is recorded or may live."""
    for record in view.world.memory.groups.values():
        yield range(record.port, record.port + len(record.members) + 1)
    for rank in view.world.observed.ranks():
        if rank.alive:
            yield range(rank.report.port, rank.report.port + rank.report.size + 1)
