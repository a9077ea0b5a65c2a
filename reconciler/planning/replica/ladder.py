"""Decides about one replica: a list of rules, in which the first that decides wins.

A group is formed in steps: new epoch in the store -> stop every rank of the replica -> see that they are gone ->
start all together -> all report ready -> one real completion succeeds. Each step follows from what is observed, so
the same rules continue a formation that another controller began.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from reconciler.planning.context import attempt_facts
from reconciler.planning.context.deadlines import DRAIN_SECONDS, GRACE_SECONDS, SHUTDOWN_SECONDS
from reconciler.planning.context.decision import NOTHING, Decision
from reconciler.planning.context.target import Target
from reconciler.planning.context.view import Formed, Unformed, Unwanted, View, Wanted
from reconciler.planning.diagnosis.rules import Remedy
from reconciler.planning.jobs import preemption
from reconciler.planning.nodes import quarantine
from reconciler.planning.placement.place import FOR_WANT_OF_NODES
from reconciler.planning.recovery import back_off, diagnose, reboot, rollback, stalls
from reconciler.planning.recovery.diagnose import Diagnosis
from reconciler.planning.rollout import budget, leaving, specs, surge
from reconciler.state import (
    AdoptGroup,
    Cause,
    FaultClass,
    GroupRecord,
    NodeName,
    RebootNode,
    Refusal,
    RefusedBecause,
    ReleaseReplica,
    WaitingFor,
)

from . import adopt, improve, start, unexplained
from .form import form
from .stop import stop


@dataclass(frozen=True, slots=True)
class Beside:
    """An addition of a rule to the answer of a later rule, without ending the ladder."""

    before: Decision = NOTHING
    after: Decision = NOTHING


Answer = Decision | Beside | None
"""A decision, which ends the ladder; None if the rule does not concern the replica."""
V = TypeVar("V", bound=View)


@dataclass(frozen=True, slots=True)
class Rule(Generic[V]):
    """A row of the ladder. Its reason says what its function decides."""

    about: type[V]
    """The replicas that it may concern; all others are passed by."""
    judge: Callable[[V], Answer]
    reason: str
    """The purpose of the rule, as docs/architecture.md says it."""

    def answer(self, view: View) -> Answer:
        return self.judge(view) if isinstance(view, self.about) else None


def decide(view: View) -> Decision:
    """Return what the first rule decides that concerns this replica, with what earlier rules add to it."""
    before = after = NOTHING
    for rule in LADDER:
        answer = rule.answer(view)
        if isinstance(answer, Decision):
            return before + answer + after
        if answer is not None:
            before, after = before + answer.before, answer.after + after
    return before + after


def _step_in_flight(view: View) -> Decision | None:
    if not view.in_flight:
        return None
    return view.wait(WaitingFor.STEP, "a step is being executed")


def _not_observed(view: View) -> Decision | None:
    awaited = view.report_awaited
    used = [n for n in view.unreachable if n in view.members] if awaited is not None else []
    if awaited is None or not used:
        return awaited
    return awaited + _cut_off(view, f"{', '.join(used)} does not answer", "wait for it")


def _unrouted(view: View) -> Decision | None:
    if view.world.memory.routed or not budget.serves(view.world, view.replica):
        return None
    return view.wait(WaitingFor.AGENT, "every node is contacted before the routes change")


def _unwanted(view: Unwanted) -> Decision:
    if view.alive and (awaited := leaving.awaited(view.world, view.replica)):
        return view.wait(WaitingFor.ROLLOUT, awaited)
    if view.alive:
        stopping = view.world.desired.stopping
        return stop(view, view.alive, SHUTDOWN_SECONDS if stopping else DRAIN_SECONDS, "no longer wanted")
    return Decision(steps=(ReleaseReplica(view.replica),)) if view.record else NOTHING


def _unrecorded(view: Wanted) -> Decision | None:
    if not adopt.unrecorded(view):
        return None
    found = adopt.adopted(view)
    if isinstance(found, GroupRecord):
        return Decision(steps=(AdoptGroup(view.replica, found),))
    decision = _formed_after_jobs(view, form(view, Cause.STORE_LOST, found))
    if decision.steps or decision.waiting or not view.alive:
        return decision
    return stop(view, view.alive, GRACE_SECONDS, f"the store does not know it: {found}") + decision


def _leaving(view: Formed) -> list[NodeName]:
    """List the nodes of its group that are being drained."""
    nodes = view.world.desired.nodes
    return [n for n in view.members if n in nodes and nodes[n].spec.drain]


def _drained(view: Formed) -> Decision | Beside | None:
    leaving, claimed = _leaving(view), preemption.claimed(view)
    if not leaving and not claimed:
        return None
    why = f"{', '.join(leaving)} is being drained"
    if not leaving:
        why = f"{', '.join(claimed)} is for {', '.join(map(str, preemption.holding(view)))}"
    decision = form(view, Cause.NODE_DRAINED if leaving else Cause.PREEMPTED, why)
    if decision.steps:
        return _in_turn(view, decision, why)
    if decision.waiting:  # whether there is another place is not known yet
        return decision if view.lost_members else Beside(decision)
    if view.alive:
        return stop(view, view.alive, DRAIN_SECONDS, why) + decision
    return Decision(steps=(ReleaseReplica(view.replica),)) + decision


def _in_turn(view: Formed, decision: Decision, why: str) -> Decision | Beside:
    """Move a group that serves once enough others serve; any other group at once."""
    left = budget.before_leaving(view.world, view.replica.deployment)
    if left.lets(view.replica):
        return decision
    return Beside(view.wait(WaitingFor.ROLLOUT, f"{why}: it moves later, {left.text}"))


def _lost(view: Formed) -> Decision | None:
    """Form a group elsewhere that has a lost node. If that is impossible, it may continue when the node is back.

    Its other ranks end only when it is certainly dead, or when the lost node is no longer wanted.
    """
    lost = view.lost_members
    if not lost or diagnose.forbidding(view) is not None:
        return None
    why = "; ".join(f"{name} is quarantined: {quarantine.reason(view.world, name)}" for name in lost)
    moved = form(view, Cause.NODE_QUARANTINED, why, _loss_fault(view, why))
    decision = moved + _cut_off(view, why, "form the group on other nodes")
    if decision.steps or decision.waiting:
        return decision
    removed = any(name not in view.world.desired.nodes for name in lost)
    if view.alive and (removed or not all(rank.alive for rank in view.current.values())):
        return stop(view, view.alive, GRACE_SECONDS, why) + decision
    if removed and not view.alive:
        return Decision(steps=(ReleaseReplica(view.replica),)) + decision
    return decision + view.wait(WaitingFor.AGENT, f"its group waits for a report: {why}")


def _loss_fault(view: View, why: str) -> Diagnosis:
    """Return the fault of a group that is formed without a lost node."""
    found = (quarantine.quarantine_of(view.world, name) for name in view.lost_members)
    sign = tuple(part for each in found if each is not None for part in (each.node, each.reason))
    return Diagnosis(Cause.NODE_QUARANTINED, why, view.world.now, FaultClass.HOST_UNREACHABLE, sign=sign)


def _cut_off(view: View, why: str, doing: str) -> Decision:
    """Report that a group gets no requests because a node does not answer. A person's task is reported for the
    node."""
    return Decision(troubles=(diagnose.trouble(view, _loss_fault(view, why), doing),))


def _dead(view: Formed) -> Decision | None:
    """Form a dead group again as soon as the back-off allows, and end its other ranks now. One dead rank is a dead
    group."""
    fault = diagnose.fault(view)
    if fault is None:
        return None
    restart = reboot.remedy(view, fault)
    trouble = reboot.trouble(view, fault, restart)
    if isinstance(restart, RebootNode):  # its own ranks end in order first
        decision = Decision(steps=() if view.alive else (restart,), troubles=(trouble,))
    elif (back := rollback.step(view, fault)) is not None:
        decision = Decision(steps=(back,), troubles=(replace(trouble, doing=back.doing),))
    else:
        decision = _heal(view, fault) + Decision(troubles=(trouble,))
    if decision.steps or not view.alive:
        return decision
    why = f"its group is dead: {fault.text}"
    return stop(view, view.alive, GRACE_SECONDS, why, diagnose.symptom(view)) + decision


def _heal(view: Formed, fault: Diagnosis) -> Decision:
    """Apply the remedy of the table. A changed spec does not wait, nor do changed facts."""
    if not view.up_to_date:
        return _form_or_go_back(view, f"{view.target.change}; {fault.text}")
    if fault.remedy is not Remedy.REFUSE:
        return _retry(view, fault, fault.cause, fault.text)
    changed = attempt_facts.changes(view.record.facts, view.current_facts(view.members))
    if fault.fault is FaultClass.REBOOT:
        # that is the fault itself
        changed = [each for each in changed if each.fact.name != attempt_facts.BOOT]
    if changed:
        return _retry(view, fault, Cause.FACTS_CHANGED, f"{', '.join(map(str, changed))}; {fault.text}")
    return _refusal(view, RefusedBecause.RANK_REFUSES, fault.lasting, fault.person)


def _form_or_go_back(view: Formed, detail: str) -> Decision:
    """Form a dead group for its new spec; if there is no place for that, as it was before."""
    decision = form(view, Cause.SPEC_CHANGED, detail)
    if not decision.refused or view.workload is None or not view.record.spec:
        return decision
    before = Target(*specs.applied(view.deployment, view.record.spec))
    return decision + form(replace(view, target=before), Cause.SPEC_CHANGED, f"as it was before; {detail}")


def _retry(view: Formed, fault: Diagnosis, cause: Cause, detail: str) -> Decision:
    """Form the group again as soon as the back-off allows it."""
    match back_off.verdict(view, fault):
        case back_off.RestartNow():
            return form(view, cause, detail, fault)
        case back_off.RestartLater(until):
            return _back_off(view, fault, until)
        case back_off.CrashLoop(until, text):
            return _back_off(view, fault, until) + _crash_loop(view, text)


def _back_off(view: Formed, fault: Diagnosis, until: float) -> Decision:
    return view.wait(WaitingFor.BACK_OFF, f"next attempt after {fault.text}", until)


def _crash_loop(view: View, text: str) -> Decision:
    person = f"correct what it names, or try at once: reconciler rollout restart deployment/{view.replica.deployment}"
    return _refusal(view, RefusedBecause.CRASH_LOOP, text, person)


def _refusal(view: View, reason: RefusedBecause, text: str, person: str) -> Decision:
    return Decision(refused=(Refusal(view.replica.key, reason, text, view.replica, person),))


def _unformed(view: Unformed) -> Decision:
    text = f"an extra replica: {surge.WHY}" if view.target.extra else "it has no group yet"
    return _formed_after_jobs(view, form(view, Cause.NEW_REPLICA, text))


def _formed_after_jobs(view: Wanted, decision: Decision) -> Decision:
    """Wait for nodes that jobs give back, in place of the refusal of a group without nodes."""
    wanting = any(each.reason in FOR_WANT_OF_NODES for each in decision.refused)
    if wanting and (runs := preemption.holding(view)):
        return view.wait(WaitingFor.ROOM, f"{', '.join(map(str, runs))} has its nodes until it ends")
    return decision


def _outdated(view: Formed) -> Decision | Beside | None:
    if _leaving(view) or preemption.claimed(view):
        return None  # it is being replaced already
    if (hold := view.hold) is not None:
        return Beside(view.wait(hold.reason, hold.text, hold.until))
    return _replace(view, view.target.change) if view.target.change else None


def _replace(view: Formed, why: str) -> Decision | Beside:
    """Form a new group if that is possible; if not, say so and let the old one continue."""
    decision = form(view, Cause.SPEC_CHANGED, why)
    return decision if decision.steps else Beside(decision)


def _tried_once_more(view: Formed) -> Beside | None:
    text = back_off.retrying(view)
    return Beside(after=_crash_loop(view, text)) if text else None


LADDER: tuple[Rule[View] | Rule[Unwanted] | Rule[Wanted] | Rule[Unformed] | Rule[Formed], ...] = (
    Rule(View, _step_in_flight, "a step that is being executed is waited for"),
    Rule(
        View,
        _not_observed,
        "nothing is decided about ranks on nodes that were not seen since the last change to them; a node that gives"
        " no answer for longer than its `lostAfter` is lost, and is not waited for",
    ),
    Rule(
        View,
        stalls.resume,
        "a rank that is merely stopped is continued, which costs no epoch, but not for ever",
    ),
    Rule(
        View,
        _unrouted,
        "a group that serves is not taken out of service before the gateway has the routes of this controller",
    ),
    Rule(
        Unwanted,
        _unwanted,
        "a replica that nobody wants is drained, stopped and released, once enough others serve",
    ),
    Rule(
        Formed,
        improve.forgive,
        "a transport that failed is forgiven when a fact that it failed under has changed, or when it serves again: it is"
        " tried again after an hour, and later each time that fails",
    ),
    Rule(
        Wanted,
        _unrecorded,
        "ranks of a later epoch than the store knows are adopted as a group; an incomplete group makes room",
    ),
    Rule(
        Formed,
        start.not_proven,
        "when all ranks of a group are ready, one real completion proves it; no wish ends it before",
    ),
    Rule(
        Formed,
        _drained,
        "a group on a node that is being drained, or given to a job, moves; if it cannot, it finishes its requests and"
        " ends; until that is known, later rules decide about it",
    ),
    Rule(
        Formed,
        _lost,
        "a group on a lost node is formed elsewhere; if it cannot be, it waits and continues when the node is back",
    ),
    Rule(
        Formed,
        unexplained.end_unreported,
        "a group that has lost a rank waits at most two seconds for the report of that rank's end, which says why",
    ),
    Rule(
        Formed,
        unexplained.machines_unexamined,
        "a dead group that cables join, or that has a next transport, ends, and is judged once its machines are probed"
        " again: a rank ends before anybody sees that its cable is out",
    ),
    Rule(
        Formed,
        _dead,
        "a group with a dead rank is dead: its other ranks are stopped, and a new epoch is formed when the back-off"
        " allows it (`planning/diagnosis/rules.py` says how)",
    ),
    Rule(Unformed, _unformed, "a replica without a group gets one"),
    Rule(
        Formed,
        _outdated,
        "a group for another spec is replaced when it is its turn (`planning/rollout/targets.py`); if no new one can"
        " be formed, later rules decide about the old one",
    ),
    Rule(Formed, _tried_once_more, "a group that comes up once more after a long back-off is reported too"),
    Rule(
        Formed,
        start.old_ranks,
        "ranks of old epochs are stopped, and no rank of the new one starts before they are seen to be gone; only a"
        " rank that SIGKILL does not end within 30 s is not waited for, and its node takes no rank",
    ),
    Rule(Formed, start.incomplete, "missing ranks are started, all together, once no old rank is left"),
    Rule(Formed, start.not_ready, "ranks that load are waited for: loading is not failing"),
    Rule(Formed, stalls.report, "a group that makes no progress is reported before it is given up"),
    Rule(
        Formed,
        start.better,
        "a group that could be larger, or better joined, is formed again when that disturbs nobody",
    ),
)
"""From the top. No rule calls another."""
