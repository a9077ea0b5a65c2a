"""Form the new group of a replica: its machines, its transport and its epoch."""

from __future__ import annotations

from dataclasses import replace

from reconciler.planning.context import membership
from reconciler.planning.context.decision import Decision
from reconciler.planning.context.lost_nodes import unreported
from reconciler.planning.context.reservations import first_ports
from reconciler.planning.context.view import Formed, Wanted
from reconciler.planning.context.workload import Workload
from reconciler.planning.diagnosis.rules import Remedy
from reconciler.planning.nodes import repair
from reconciler.planning.nodes.eligible import suits
from reconciler.planning.placement.place import Joined, choose
from reconciler.planning.placement.references import unknown_model
from reconciler.planning.recovery import back_off, diagnose, rollback
from reconciler.planning.recovery.diagnose import Diagnosis
from reconciler.planning.transport import fallback, proofs
from reconciler.state import (
    AllocateEpoch,
    Cause,
    FaultClass,
    GroupRecord,
    NodeName,
    Refusal,
    RefusedBecause,
    Suspicion,
    TransportFailure,
    Waiting,
    WaitingFor,
)
from reconciler.state.formed_spec import FormedSpec
from reconciler.state.formed_under import Facts
from reconciler.state.machine.weights import named
from reconciler.transports import VERBS

from . import shard_files


def form(view: Wanted, cause: Cause, detail: str, fault: Diagnosis | None = None) -> Decision:
    """Draw a new epoch on suitable nodes; else say what it waits for, or why it is refused.

    ``fault``: the fault that the new group is to remedy, if there was one.
    """
    workload = view.workload
    if workload is None:
        text = unknown_model(view.deployment)
        refusal = Refusal(view.replica.key, RefusedBecause.MODEL_UNKNOWN, text, view.replica)
        return Decision(refused=(refusal,))
    silent = view.world.once(unreported)
    if silent:
        text = f"no answer yet from {', '.join(silent)}, which may know of a later epoch"
        return view.wait(WaitingFor.AGENT, text)
    failed = _abandoned_transport(view, fault) if fault and isinstance(view, Formed) else None
    if failed is not None:
        view = view.without_transport(failed)
        cause = Cause.TRANSPORT_FAILED
    repaired = _repaired(view, str(view.replica) if fault else "")
    if repaired:
        return view.wait(WaitingFor.REPAIR, repaired)
    wasted = _wasted_verbs(view)
    found = _find_place(view.with_wasted_verbs(wasted), workload, fault)
    if isinstance(found, Waiting):
        return Decision(waiting=(found,))
    if isinstance(found, Refusal):
        return Decision(refused=(found,))
    coming = shard_files.bring(view.world, workload, found[0])
    if coming is not None:
        return coming
    ended = diagnose.fault(view) if isinstance(view, Formed) else None
    record = _record(view, workload, found, ended)
    record = replace(record, prove=proofs.to_prove(view.world, record))
    step = AllocateEpoch(
        view.replica,
        record,
        cause,
        detail,
        fault=fault.fault if fault else None,
        spec_generations=view.spec_generations,
        served=back_off.served_seconds(view, ended),
        suspicion=ended.suspicion if ended else Suspicion.NONE,
        port_taken=ended is not None and ended.port_taken,
        never_ran=ended is not None and ended.never_ran,
        failed=failed,
        wasted_verbs=wasted,
    )
    return Decision(steps=(step,))


def _repaired(view: Wanted, ending: str) -> str:
    """Say what is repaired first on a machine that the group may use, for people; empty if nothing is."""
    world, nodes = view.world, view.world.desired.nodes
    suited = (
        name for name in world.once(repair.changeable) if suits(nodes[name], view.deployment.spec.placement)
    )
    return next((text for name in suited if (text := repair.pending_change(world, name, ending))), "")


def _record(view: Wanted, workload: Workload, found: Joined, ended: Diagnosis | None) -> GroupRecord:
    """Write the record of the new group, with what it takes of ports, cables and memory."""
    placed, transport = found
    memory = view.world.memory
    weights_before, spec_before = _served(view, ended)
    seen = [rank.report.id.epoch for rank in view.ranks]
    epoch = max([memory.last_epochs.get(view.replica, 0), *seen]) + 1
    return GroupRecord(
        workload=view.replica,
        epoch=epoch,
        members=placed.members,
        port=first_ports(view.world, view.replica, epoch, len(placed.members)),
        secret=membership.secret(view.world.entropy, view.replica, epoch),
        fingerprint=workload.spec_hash,
        created_at=view.world.now,
        rank_bytes=max(placed.needs),
        needs=placed.needs if len(set(placed.needs)) > 1 else (),
        model=workload.model.metadata.name,
        strategy=placed.split.strategy,
        strategy_why=placed.split.why,
        transport=transport.name,
        transport_why=transport.why,
        boots=tuple(view.world.boot(name) for name in placed.members),
        weights=named(workload.model.spec.source.huggingface),
        weights_before=weights_before,
        facts=Facts.of(view.current_facts(placed.members)),
        context=placed.context,
        guessed=placed.guessed,
        spec=FormedSpec.of(workload.deployment, workload.model),
        spec_before=spec_before,
    )


def _served(view: Wanted, fault: Diagnosis | None) -> tuple[str, FormedSpec | None]:
    """Return the weights and the spec that last served well before this group; groups that died early did not."""
    record = view.record
    if record is None:
        return _beside(view) if view.target.extra else ("", None)
    well = record.proven_at is not None and (fault is None or rollback.lived_long(view, fault))
    first = record.proven_at is not None and not (record.weights_before or record.spec_before)
    return (record.weights, record.spec) if well or first else (record.weights_before, record.spec_before)


def _beside(view: Wanted) -> tuple[str, FormedSpec | None]:
    """Return the weights and the spec of the replicas next to an extra one: they are served again if the new spec does not
    come up with the extra one."""
    records = view.world.memory.groups_of(view.replica.deployment)
    served = (each for each in records if each.proven_at is not None and each.workload != view.replica)
    return next(((each.weights, each.spec) for each in served), ("", None))


def _find_place(view: Wanted, workload: Workload, fault: Diagnosis | None) -> Joined | Waiting | Refusal:
    """Find a place without the machines to blame, if the table says so and others suffice; else anywhere."""
    if fault is not None and fault.remedy is Remedy.FORM_WITHOUT:
        found = choose(view.world, view.ledger, workload, fault.nodes)
        if isinstance(found, tuple):
            return found
    return choose(view.world, view.ledger, workload)


def _abandoned_transport(view: Formed, fault: Diagnosis) -> TransportFailure | None:
    """Return the failure of the transport that the group is to leave, if the table says so and there is a next one."""
    record = view.record
    transport = fallback.used(record)
    if fault.remedy not in (Remedy.NEXT_TRANSPORT, Remedy.REBOOT) or not fallback.lower(
        view.deployment, transport
    ):
        return None
    if fault.remedy is Remedy.REBOOT and (
        transport not in VERBS or fault.fault not in (FaultClass.KERNEL_OBJECTS, FaultClass.QUEUE_PAIRS)
    ):
        return None  # no other transport would help until the machine has restarted
    facts = Facts.of(view.current_facts(record.members))
    if fault.fault is FaultClass.WRONG_RESULTS:
        facts = proofs.build(record.facts or facts)  # of the versions that its ranks loaded
    before = fallback.failure(view.world, view.replica, transport)
    trials = 0 if before is None else before.trials + 1
    return TransportFailure(transport, facts, view.world.now, fault.seen, fault.fault, fault.person, trials)


def _wasted_verbs(view: Wanted) -> tuple[tuple[NodeName, str], ...]:
    """List the machines, with their boots, on which the group set RDMA up and never served.

    A rank that ended before that took no kernel objects, and one that served frees them when it ends in order.
    """
    record = view.record
    if record is None or record.proven_at is not None:
        return ()
    boots = dict(zip(record.members, record.boots, strict=False))
    return tuple(
        (rank.node, boots[rank.node])
        for _, rank in sorted(view.current.items())
        if rank.report.verbs and rank.node in boots
    )
