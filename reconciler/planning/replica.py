"""What to do about one replica: a ladder of rules, the first that answers wins.

Form = new epoch in the store -> stop every rank of the replica -> see that they are gone -> start all
together -> all report ready -> one real completion succeeds. Every rung is derived from what is seen, so
the same ladder continues a formation that another controller began.
"""

from __future__ import annotations

from collections.abc import Callable

from reconciler.state import (
    AdoptGroup,
    Cause,
    Contact,
    FaultClass,
    FreeTransport,
    GroupRecord,
    NodeName,
    ObservedRank,
    ProveGroup,
    RebootNode,
    Refusal,
    RefusedBecause,
    ReleaseReplica,
    StartRank,
    WaitingFor,
)
from reconciler.state.weights import shown
from reconciler.wire.launch import Phase

from . import (
    adoption,
    budget,
    circumstances,
    faults,
    group,
    growth,
    parity,
    quarantine,
    reboots,
    remains,
    rungs,
    setbacks,
    stalls,
)
from .deadlines import DRAIN_SECONDS, GRACE_SECONDS, SHUTDOWN_SECONDS
from .decision import NOTHING, Decision
from .eligible import ranks_by_state, suits
from .faults import Fault
from .forming import form
from .healing.table import Remedy
from .lost import lost_at
from .stopping import stop
from .view import View


def decide(view: View) -> Decision:
    """The first rule that has an answer for this replica."""
    for rule in LADDER:
        decision = rule(view)
        if decision is not None:
            return decision
    return NOTHING


def _step_in_flight(view: View) -> Decision | None:
    """What is being done is not decided anew."""
    if f"replica/{view.replica}" not in view.world.memory.in_flight:
        return None
    return Decision(waiting=(view.wait(WaitingFor.STEP, "a step is being executed"),))


def _not_observed(view: View) -> Decision | None:
    """Nothing is decided about ranks on nodes that were not seen since the last change to them."""
    nodes = {rank.node for rank in view.alive} | set(view.record.members if view.record else ())
    nodes -= set(view.lost_members)
    down = sorted(n for n in nodes if not view.world.reached(n))
    if down:
        unreachable = [n for n in down if view.world.node(n).contact is Contact.UNREACHABLE]
        until = max((lost_at(view.world, n) for n in unreachable), default=None)
        text = f"no answer from {', '.join(down)}"
        wait = Decision(waiting=(view.wait(WaitingFor.AGENT, text, until),))
        used = [n for n in unreachable if view.record and n in view.record.members]
        return wait + (
            _cut_off(view, f"{', '.join(used)} does not answer", "wait for it") if used else NOTHING
        )
    stale = sorted(n for n in nodes if not view.world.fresh(n))
    if stale:
        text = f"waiting for news from {', '.join(stale)}"
        return Decision(waiting=(view.wait(WaitingFor.OBSERVATION, text),))
    return None


def _unwanted(view: View) -> Decision | None:
    """Nobody wants this replica any more: let it finish, end it, release it."""
    if view.deployment is not None:
        return None
    if view.alive:
        stopping = view.world.desired.stopping
        return stop(view, view.alive, SHUTDOWN_SECONDS if stopping else DRAIN_SECONDS, "no longer wanted")
    return Decision(steps=(ReleaseReplica(view.replica),)) if view.record else NOTHING


def _freed(view: View) -> Decision | None:
    """A transport that had failed may be tried again when a fact that it failed under is no longer the same."""
    failures = view.world.memory.rungs.get(view.replica, ())
    if view.record is None or not failures:
        return None
    now = view.circumstances(tuple(sorted(view.world.desired.nodes)))
    for failure in failures:
        changed = circumstances.changes(failure.facts, now)
        if changed:
            return Decision(steps=(FreeTransport(view.replica, failure.transport, ", ".join(changed)),))
    return None


def _unrecorded(view: View) -> Decision | None:
    """Ranks of a later epoch than the store knows: a whole group is adopted, anything less makes room."""
    if not adoption.unrecorded(view):
        return None
    found = adoption.adopted(view)
    if isinstance(found, GroupRecord):
        return Decision(steps=(AdoptGroup(view.replica, found),))
    decision = form(view, Cause.STORE_LOST, found)
    if decision.steps or decision.waiting or not view.alive:
        return decision
    return stop(view, view.alive, GRACE_SECONDS, f"the store does not know it: {found}") + decision


def _drained(view: View) -> Decision | None:
    """A group on a node that is being drained moves; where it cannot, it finishes what it has and ends."""
    nodes = view.world.desired.nodes
    leaving = [n for n in view.record.members if n in nodes and nodes[n].spec.drain] if view.record else []
    if not leaving:
        return None
    why = f"{', '.join(leaving)} is being drained"
    decision = form(view, Cause.NODE_DRAINED, why)
    if decision.steps:
        return decision
    if decision.waiting:  # whether there is another place is not known yet
        return decision if view.lost_members else decision + (_dead(view) or _running(view) or NOTHING)
    if view.alive:
        return stop(view, view.alive, DRAIN_SECONDS, why) + decision
    return Decision(steps=(ReleaseReplica(view.replica),)) + decision


def _lost(view: View) -> Decision | None:
    """A group on a node that is lost is formed elsewhere. Where it cannot be it may go on when the node is back.

    What is left of it ends only when it is dead for certain, or when the lost node is not wanted any more.
    """
    lost = view.lost_members
    if view.record is None or not lost or faults.forbidding(view) is not None:
        return None
    why = "; ".join(f"{name} is quarantined: {quarantine.reason(view.world, name)}" for name in lost)
    moved = form(view, Cause.NODE_QUARANTINED, why, _without(view, why))
    decision = moved + _cut_off(view, why, "form the group on other nodes")
    if decision.steps or decision.waiting:
        return decision
    removed = any(name not in view.world.desired.nodes for name in lost)
    if view.alive and (removed or not all(rank.alive for rank in view.current.values())):
        return stop(view, view.alive, GRACE_SECONDS, why) + decision
    if removed and not view.alive:
        return Decision(steps=(ReleaseReplica(view.replica),)) + decision
    return decision + Decision(waiting=(view.wait(WaitingFor.AGENT, f"its group waits for news: {why}"),))


def _without(view: View, why: str) -> Fault:
    """What a group is remedied of that is formed without a node."""
    return Fault(Cause.NODE_QUARANTINED, why, view.world.now, FaultClass.HOST_UNREACHABLE, counted=False)


def _cut_off(view: View, why: str, doing: str) -> Decision:
    """That a group gets no requests for a node that does not answer; what a person can do is said of the node."""
    return Decision(troubles=(faults.trouble(view, _without(view, why), doing),))


def _dead(view: View) -> Decision | None:
    """One dead rank is a dead group: a new epoch, as soon as the back-off allows; its survivors end now."""
    fault = faults.fault(view)
    if view.record is None or fault is None:
        return None
    restart = reboots.remedy(view, fault)
    trouble = reboots.trouble(view, fault, restart)
    if isinstance(restart, RebootNode):  # its own ranks end in order first
        decision = Decision(steps=() if view.alive else (restart,), troubles=(trouble,))
    elif (back := setbacks.step(view, view.record, fault)) is not None:
        decision = Decision(steps=(back,), troubles=(trouble,))
    else:
        decision = _heal(view, view.record, fault) + Decision(troubles=(trouble,))
    if decision.steps or not view.alive:
        return decision
    why = f"its group is dead: {fault.text}"
    return stop(view, view.alive, GRACE_SECONDS, why, faults.symptom(view)) + decision


def _heal(view: View, record: GroupRecord, fault: Fault) -> Decision:
    """What the table says of the fault. A wish that has changed does not wait, nor do facts that have."""
    if view.model is None or record.fingerprint != view.fingerprint:
        return form(view, Cause.SPEC_CHANGED, f"{setbacks.why(view)}; {fault.text}")
    if fault.remedy is not Remedy.REFUSE:
        return _again(view, fault, fault.cause, fault.text)
    changed = circumstances.changes(record.facts, view.circumstances(record.members))
    if fault.fault is FaultClass.REBOOT:
        changed = [change for change in changed if " boot: " not in change]  # that is the fault itself
    if changed:
        return _again(view, fault, Cause.FACTS_CHANGED, f"{', '.join(changed)}; {fault.text}")
    return _refusal(view, RefusedBecause.RANK_REFUSES, f"{fault.lasting}; to do: {fault.person}")


def _again(view: View, fault: Fault, cause: Cause, detail: str) -> Decision:
    """The next attempt, as soon as the budget of restarts allows it."""
    match budget.verdict(view, fault):
        case budget.Go(standing):
            return form(view, cause, detail, fault, standing)
        case budget.Later(until, text):
            wait = "; ".join(filter(None, (f"next attempt after {fault.text}", text)))
            return Decision(waiting=(view.wait(WaitingFor.BACK_OFF, wait, until),))
        case budget.Exhausted(until, text):
            waiting = view.wait(WaitingFor.BACK_OFF, f"next attempt after {fault.text}", until)
            return Decision(waiting=(waiting,)) + _refusal(view, RefusedBecause.RESTARTS_SPENT, text)


def _refusal(view: View, reason: RefusedBecause, text: str) -> Decision:
    return Decision(refused=(Refusal(view.replica.key, reason, text, view.replica),))


def _unformed(view: View) -> Decision | None:
    """A replica without a group gets one; a group for another wish is replaced."""
    record = view.record
    if record is None:
        return form(view, Cause.NEW_REPLICA, "it has no group yet")
    if view.model is None:
        return _replace(view, "its model is gone")
    assert view.deployment is not None
    bounds = view.deployment.spec.parallelism.nodes
    nodes = view.world.desired.nodes
    missing = [n for n in record.members if n not in nodes]
    unsuited = [n for n in record.members if n in nodes and not suits(nodes[n], view.deployment)]
    if record.fingerprint != view.fingerprint:
        return _replace(view, setbacks.why(view))
    if rungs.used(record) and rungs.used(record) not in view.deployment.spec.transport:
        return _replace(view, f"{rungs.used(record)} is no longer in its spec.transport")
    if not bounds.min <= len(record.members) <= bounds.max:
        return _replace(
            view, f"it runs on {len(record.members)} nodes, wanted are {bounds.min} to {bounds.max}"
        )
    if missing:
        return _replace(view, f"{', '.join(missing)} is no longer a node of this cluster")
    if unsuited:
        return _replace(view, f"{', '.join(unsuited)} has not the labels of its nodeSelector")
    return None


def _replace(view: View, why: str) -> Decision | None:
    """A new group where one can be formed; where not, say so, and let the old one go on."""
    decision = form(view, Cause.SPEC_CHANGED, why)
    if decision.steps:
        return decision
    return decision + (_running(view) or NOTHING)


def _leftovers(view: View) -> Decision | None:
    """No rank of a new epoch starts while one of an old epoch may be alive."""
    assert view.record is not None
    current = view.current.values()
    old = tuple(r for r in view.alive if r not in current)
    if not old:
        return None
    dead = any(not r.alive for r in view.ranks if r.report.id.epoch == old[0].report.id.epoch)
    return stop(view, old, GRACE_SECONDS if dead else DRAIN_SECONDS, f"epoch {view.record.epoch} replaces it")


def _running(view: View) -> Decision | None:
    """The rungs of a group on its way up, and nothing for one that is proven."""
    for rule in (_leftovers, _incomplete, _not_ready, _not_proven, stalls.notice, _better):
        decision = rule(view)
        if decision is not None:
            again = budget.retrying(view)
            return decision + (_refusal(view, RefusedBecause.RESTARTS_SPENT, again) if again else NOTHING)
    return None


def _better(view: View) -> Decision | None:
    """A group that could be larger, or better joined, is formed anew when nobody is disturbed by that."""
    found = growth.better(view)
    if found is None:
        return None
    return form(view, found.cause, found.text) if found.due(view.world.now) else growth.wait(view, found)


def _incomplete(view: View) -> Decision | None:
    """Start, all together, the ranks that were never started."""
    assert view.record is not None
    missing = [rank for rank in range(len(view.record.members)) if rank not in view.current]
    if not missing:
        return None
    if view.model is None or view.record.fingerprint != view.fingerprint:
        return NOTHING  # a group that is going to be replaced is not completed: its parts would not match
    held = _held(view, [view.record.members[rank] for rank in missing])
    if held is not None:
        return held
    starts = [_start(view, view.record, rank) for rank in missing]
    return Decision(steps=tuple(step for step in starts if step is not None))


def _held(view: View, names: list[NodeName]) -> Decision | None:
    """No rank starts where an old one is not proven to be gone; a node that keeps what it held is avoided."""
    world = view.world
    unprobed = [name for name in names if not world.node(name).probed]
    if unprobed:
        text = f"the probes of {', '.join(dict.fromkeys(unprobed))} are being asked"
        return Decision(waiting=(view.wait(WaitingFor.AGENT, text),))
    for name in names:
        why = quarantine.reason(world, name)
        if why:
            return form(view, Cause.NODE_QUARANTINED, f"{name} is quarantined: {why}")
    if differ := parity.apart(view):
        return form(view, Cause.FACTS_CHANGED, f"its nodes are no longer alike: {differ}")
    kept = [f"{name}: {left.text}" for name in names for left in remains.of(world, name)]
    if not kept:
        return None
    return Decision(waiting=(view.wait(WaitingFor.REMAINS, "; ".join(dict.fromkeys(kept))),))


def _start(view: View, record: GroupRecord, rank: int) -> StartRank | None:
    assert view.deployment is not None
    assert view.model is not None
    name: NodeName = record.members[rank]
    node = view.world.node(name)
    weights = node.model(view.model.spec.source.folder)
    if node.report is None or weights is None or not view.world.reached(name):
        return None
    wiring = rungs.wiring(view.world, rungs.used(record), record.members)
    if wiring is None:
        return None
    spec = group.launch(record, rank, (view.deployment, view.model), (node.report, weights), wiring)
    return StartRank(view.replica, name, spec)


def _not_ready(view: View) -> Decision | None:
    """Loading is not failing."""
    late = [r for _, r in sorted(view.current.items()) if r.report.phase != Phase.READY]
    if not late:
        return None
    text = ranks_by_state([(rank.report.id.rank, _phase(rank)) for rank in late])
    return Decision(waiting=(view.wait(WaitingFor.RANKS, text),))


def _phase(rank: ObservedRank) -> str:
    report = rank.report
    if report.phase == Phase.LOADING and report.total_bytes:
        return f"loading ({100 * report.loaded_bytes // report.total_bytes} %)"
    told = {Phase.RENDEZVOUS: "looking for the others", Phase.VERBS: "setting up RDMA"}
    return {**told, Phase.WARM: "warming up"}.get(report.phase, report.phase)


def _not_proven(view: View) -> Decision | None:
    """Ready is what a rank says; a completion is what it does."""
    assert view.record is not None
    if view.record.proven_at is not None:
        return None
    first = view.current[0]
    step = ProveGroup(
        view.replica,
        view.record.epoch,
        first.node,
        first.report.socket,
        _moved(view.record),
        view.record.created_at,
    )
    if step.subject in view.world.memory.in_flight:
        return Decision(waiting=(view.wait(WaitingFor.STEP, "its first completion is awaited"),))
    return Decision(steps=(step,))


def _moved(record: GroupRecord) -> str:
    """From which weights to which its replica moves with a group; empty where they stay the same."""
    if not record.weights_before or record.weights == record.weights_before:
        return ""
    return f"from {shown(record.weights_before)} to {shown(record.weights)}"


LADDER: tuple[Callable[[View], Decision | None], ...] = (
    _step_in_flight,
    _not_observed,
    stalls.resume,
    _unwanted,
    _freed,
    _unrecorded,
    _drained,
    _lost,
    _dead,
    _unformed,
    _running,
)
