"""Rules for a group that is coming up: from the ranks of old epochs to the first completion.

``LADDER`` in ``ladder.py`` says what each decides.
"""

from __future__ import annotations

from reconciler.planning.context.deadlines import DRAIN_SECONDS, GRACE_SECONDS
from reconciler.planning.context.decision import NOTHING, Decision
from reconciler.planning.context.view import Formed
from reconciler.planning.context.workload import Workload
from reconciler.planning.nodes import leftovers, quarantine
from reconciler.planning.nodes.eligible import ranks_by_state
from reconciler.planning.placement import compatibility
from reconciler.planning.recovery import diagnose
from reconciler.planning.rollout import budget, specs
from reconciler.planning.transport import fallback
from reconciler.state import (
    Cause,
    GroupRecord,
    NodeName,
    ObservedRank,
    ProveGroup,
    StartRank,
    WaitingFor,
)
from reconciler.state.machine.weights import shown
from reconciler.wire.launch import Phase

from . import improve, launch
from .form import form
from .stop import stop


def old_ranks(view: Formed) -> Decision | None:
    current = view.current.values()
    old = tuple(r for r in view.alive if r not in current)
    if not old:
        return None
    dead = any(not r.alive for r in view.ranks if r.report.id.epoch == old[0].report.id.epoch)
    return stop(view, old, GRACE_SECONDS if dead else DRAIN_SECONDS, f"epoch {view.record.epoch} replaces it")


def better(view: Formed) -> Decision | None:
    found = improve.better(view) if not view.target.extra else None
    if found is None:
        return None
    left = budget.spare(view.world, view.replica.deployment)
    if left.spare <= 0:
        return view.wait(WaitingFor.QUIET, f"{found.text}, later: {left.text}")
    return form(view, found.cause, found.text) if found.due(view.world.now) else improve.wait(view, found)


def incomplete(view: Formed) -> Decision | None:
    missing = [rank for rank in range(len(view.record.members)) if rank not in view.current]
    if not missing:
        return None
    workload = _formed_for(view)
    if workload is None:
        return NOTHING  # a group that is going to be replaced is not completed: its parts would not match
    held = _held(view, workload, [view.record.members[rank] for rank in missing])
    if held is not None:
        return held
    starts = [_start(view, workload, rank) for rank in missing]
    return Decision(steps=tuple(step for step in starts if step is not None))


def _formed_for(view: Formed) -> Workload | None:
    """Return the workload that a group was formed for; None if that is neither its present one nor known."""
    if view.workload is None or view.up_to_date or not view.record.spec:
        return view.workload if view.up_to_date else None
    return Workload(view.replica, *specs.applied(view.deployment, view.record.spec))


def _held(view: Formed, workload: Workload, names: list[NodeName]) -> Decision | None:
    """Start no rank where an old one is not proven to be gone, and avoid a node that keeps leftovers."""
    world = view.world
    unprobed = [name for name in names if not world.node(name).probed]
    if unprobed:
        text = f"the probes of {', '.join(dict.fromkeys(unprobed))} are running"
        return view.wait(WaitingFor.AGENT, text)
    for name in names:
        why = quarantine.reason(world, name)
        if why:
            return form(view, Cause.NODE_QUARANTINED, f"{name} is quarantined: {why}")
    if differ := compatibility.divergence(world, workload.path, view.record.members):
        return form(view, Cause.FACTS_CHANGED, f"its nodes are no longer compatible: {differ}")
    kept = [f"{name}: {left.text}" for name in names for left in leftovers.leftovers(world, name)]
    if not kept:
        return None
    return view.wait(WaitingFor.LEFTOVERS, "; ".join(dict.fromkeys(kept)))


def _start(view: Formed, workload: Workload, rank: int) -> StartRank | None:
    record = view.record
    name: NodeName = record.members[rank]
    node = view.world.node(name)
    weights = node.model(workload.path)
    if node.report is None or weights is None or not view.world.reached(name):
        return None
    wiring = fallback.wiring(view.world, fallback.used(record), record.members)
    if wiring is None:
        return None
    spec = launch.launch(record, rank, workload, node.report, weights, wiring)
    return StartRank(view.replica, name, spec)


def not_ready(view: Formed) -> Decision | None:
    late = [r for _, r in sorted(view.current.items()) if r.report.phase != Phase.READY]
    if not late:
        return None
    text = ranks_by_state([(rank.report.id.rank, _phase(rank)) for rank in late])
    return view.wait(WaitingFor.RANKS, text)


def _phase(rank: ObservedRank) -> str:
    report = rank.report
    if report.phase == Phase.LOADING and report.total_bytes:
        return f"loading ({100 * report.loaded_bytes // report.total_bytes} %)"
    words = {Phase.RENDEZVOUS: "looking for the others", Phase.VERBS: "setting up RDMA"}
    return {**words, Phase.WARM: "warming up"}.get(report.phase, report.phase)


def not_proven(view: Formed) -> Decision | None:
    """Prove a group whose ranks are all ready by one completion. No wish ends it before: the store may have forgotten that
    it serves."""
    record, current = view.record, view.current
    if record.proven_at is not None or view.lost_members or len(current) < len(record.members):
        return None
    if any(rank not in current.values() for rank in view.alive) or diagnose.symptom(view) is not None:
        return None
    if any(rank.report.phase != Phase.READY for rank in current.values()):
        return None
    first = view.current[0]
    moved, since = _moved(record), record.created_at
    proof = first.report.proof if record.prove else None
    proven = record.combination if proof else ""
    step = ProveGroup(
        view.replica, record.epoch, first.node, first.report.socket, moved, since, proven, proof
    )
    if step.subject in view.world.memory.in_flight:
        return view.wait(WaitingFor.STEP, "waiting for its first completion")
    return Decision(steps=(step,))


def _moved(record: GroupRecord) -> str:
    """Say between which weights its replica moves with a group; empty if they stay the same."""
    if not record.weights_before or record.weights == record.weights_before:
        return ""
    return f"from {shown(record.weights_before)} to {shown(record.weights)}"
