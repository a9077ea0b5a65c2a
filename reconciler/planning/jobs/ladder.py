"""Decides about one run that has not ended: a list of rules, in which the first that decides wins.

An attempt goes in steps: new epoch in the store -> everything else on its nodes has left -> start all ranks together ->
all end with 0. Each step follows from what is observed, so the same rules continue an attempt that another controller began.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from reconciler.errors import few_names
from reconciler.planning.context import membership
from reconciler.planning.context.deadlines import SHUTDOWN_SECONDS, standstill_seconds
from reconciler.planning.context.decision import NOTHING, Decision
from reconciler.planning.context.ending import end
from reconciler.planning.context.lost_nodes import unreported
from reconciler.planning.context.reservations import first_ports
from reconciler.planning.nodes import eligible, leftovers, quarantine
from reconciler.planning.recovery import stalls
from reconciler.planning.transport import fallback
from reconciler.planning.transport.fallback import Wiring
from reconciler.resources import Job
from reconciler.state import (
    AdoptGroup,
    AllocateEpoch,
    Cause,
    GroupRecord,
    NodeName,
    ObservedRank,
    Refusal,
    StartRank,
    Step,
    Symptom,
    Waiting,
    WaitingFor,
)
from reconciler.state.job_steps import EndAttempt, EndRun, SuspendRun
from reconciler.state.jobs import (
    COUNTED,
    Artifacts,
    AttemptEnd,
    Fetched,
    RankEnd,
    Run,
    RunAttempt,
    RunEnd,
    RunReason,
    RunResult,
)
from reconciler.wire.launch import Phase

from . import adopt, launch, schedule
from .place import Place, allows, choose, leaving_for
from .verdict import verdict
from .view import RunView

BACK_OFF_SECONDS_MIN = 10.0
BACK_OFF_SECONDS_MAX = 360.0
"""The wait before another attempt, doubled with each that has failed, as the Job controller of Kubernetes has it."""
LAUNCHER_SECONDS = 3.0
"""Time for a launcher to end, in addition to the grace that it gives its program."""
CONTINUED_SECONDS = 120.0
"""Each continuation of a stopped rank counts for this long."""
ATTEMPTS_KEPT = 200
"""Attempts of a run that are remembered, more than can fail."""
OWN_DEADLINE_SECONDS = 86_400.0
"""Bound on the start of a rank, in addition to those of its phases."""


@dataclass(frozen=True, slots=True)
class Leave:
    """A reason to end the attempt in progress, and the run as well if ``result`` is set."""

    end: AttemptEnd
    text: str
    result: tuple[RunResult, RunReason] | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the ladder. Its reason says what its function decides."""

    judge: Callable[[RunView], Decision | None]
    reason: str


def decide(view: RunView) -> Decision:
    """Return what the first rule decides that concerns this run."""
    for rule in LADDER:
        decision = rule.judge(view)
        if decision is not None:
            return decision
    return NOTHING


def _step_in_flight(view: RunView) -> Decision | None:
    return view.wait(WaitingFor.STEP, "a step is being executed") if view.in_flight else None


def _not_observed(view: RunView) -> Decision | None:
    return view.report_awaited


def _stopped(view: RunView) -> Decision | None:
    return stalls.continue_stopped(view, CONTINUED_SECONDS)


def _unrecorded(view: RunView) -> Decision | None:
    """Adopt the attempt in progress if nodes know it, and the store knows the run alone."""
    if view.record is not None:
        return None
    known = max((each.epoch for each in view.run.attempts), default=0)
    later = [rank for rank in view.ranks if rank.report.id.epoch > known]
    found = adopt.group(view.world, view.id, later)
    if found is None or found.epoch < view.world.memory.last_epochs.get(view.id, 0):
        return None
    return Decision(steps=(AdoptGroup(view.id, found),))


def _completed(view: RunView) -> Decision | None:
    """End an attempt whose ranks have all ended with 0. An attempt that was asked to end has not completed."""
    record = view.record
    if record is None or len(view.current) < len(record.members) or _was_stopped(view):
        return None
    if not all(rank.orderly for rank in view.current.values()):
        return None
    text = f"{'all ranks' if len(record.members) > 1 else 'it'} ended with 0"
    return _end_attempt(view, Leave(AttemptEnd.COMPLETED, text, (RunResult.SUCCEEDED, RunReason.COMPLETED)))


def _was_stopped(view: RunView) -> bool:
    return any(rank.report.id in view.world.memory.stops for rank in view.current.values())


def _left(view: RunView) -> Decision | None:
    """End what must not go on: the attempt, or the whole run."""
    leave = leaving(view)
    if leave is None:
        return None
    if view.record is not None or view.alive:
        return _leave(view, leave)
    if leave.result is not None:
        return Decision(steps=(EndRun(_ended(view, leave, view.run)),))
    if (
        leave.end is AttemptEnd.SUSPENDED
        and view.run.started_at is not None
        and view.run.suspended_at is None
    ):
        return Decision(steps=(SuspendRun(replace(view.run, suspended_at=view.world.now)),))
    return NOTHING if leave.end is AttemptEnd.SUSPENDED else None


def leaving(view: RunView) -> Leave | None:
    """Return why a run must not go on as it is; None if it may."""
    world, run, job = view.world, view.run, view.job
    cancelled = (RunResult.CANCELLED, RunReason.CANCELLED)
    if world.desired.stopping:
        return Leave(AttemptEnd.SUSPENDED, "everything is being stopped")
    if job is None:
        return Leave(AttemptEnd.REPLACED, "its Job was deleted", (RunResult.CANCELLED, RunReason.DELETED))
    if job.spec.cancelled_run is not None and run.id.index <= job.spec.cancelled_run:
        return Leave(AttemptEnd.CANCELLED, "it was cancelled", cancelled)
    complete = view.record is not None and len(view.current) == len(view.record.members)
    if replaced := schedule.replaced(world, job, run, complete):
        return Leave(AttemptEnd.REPLACED, replaced, (RunResult.CANCELLED, RunReason.REPLACED))
    deadline = job.spec.active_deadline
    if deadline is not None and view.active_seconds >= deadline:
        text = f"it has run for {deadline:g} s, the most that spec.activeDeadline allows"
        return Leave(AttemptEnd.DEADLINE, text, (RunResult.FAILED, RunReason.DEADLINE))
    if job.spec.suspend:
        return Leave(AttemptEnd.SUSPENDED, "spec.suspend is true")
    nodes = world.desired.nodes
    away = [name for name in view.members if name not in nodes or nodes[name].spec.drain]
    if away:
        return Leave(AttemptEnd.DRAINED, f"{few_names(away)} is being drained")
    denying = [name for name in view.members if not allows(nodes[name], job)]
    if denying:
        text = f"{few_names(denying)} allows no job of {job.spec.manifest_path} any more"
        return Leave(AttemptEnd.DRAINED, text)
    if not view.current and run.failures > job.spec.backoff_limit:
        text = f"{run.failures} attempts have failed, and spec.backoffLimit allows {job.spec.backoff_limit}"
        return Leave(AttemptEnd.CANCELLED, text, (RunResult.FAILED, RunReason.BACKOFF_LIMIT))
    return None


def _leave(view: RunView, leave: Leave) -> Decision:
    """End the ranks in order, and then the attempt."""
    if view.alive:
        own = view.job.spec.grace_period if view.job is not None else SHUTDOWN_SECONDS
        grace = own + LAUNCHER_SECONDS
        return end(view, view.alive, grace, leave.text)
    return _end_attempt(view, leave) if view.record is not None else NOTHING


def _node_lost(view: RunView) -> Decision | None:
    """End an attempt whose node is lost, or has restarted. It is not to blame for that if none of its ranks was there."""
    if view.record is None:
        return None
    if view.lost_members:
        whys = (f"{name} is quarantined: {quarantine.reason(view.world, name)}" for name in view.lost_members)
        why = "; ".join(whys)
    elif view.rebooted:
        why = f"{few_names(view.rebooted)} has restarted"
    else:
        return None
    return _leave(view, Leave(AttemptEnd.NODE_LOST if view.current else AttemptEnd.DRAINED, why))


def _rank_failed(view: RunView) -> Decision | None:
    """End an attempt with a rank that has failed: one dead rank ends all."""
    stops = view.world.memory.stops
    bad = [
        rank
        for rank in view.current.values()
        if not rank.alive and not rank.orderly and rank.report.id not in stops
    ]
    if not bad or view.record is None:
        return None
    return _leave(view, Leave(AttemptEnd.RANK_FAILED, min(bad, key=_blame).ending_text))


def _blame(rank: ObservedRank) -> tuple[bool, float, int]:
    """Blame the first rank that failed by itself. Others end because it was gone."""
    return rank.lost_another, rank.ended_at or 0.0, rank.report.id.rank


def _rank_missing(view: RunView) -> Decision | None:
    """End an attempt that has lost a rank without a trace, and one that cannot be completed."""
    record = view.record
    if record is None or len(view.current) == len(record.members):
        return None
    begun = any(rank.report.phase not in _MEETING for rank in view.current.values())
    if not begun and record.secret:
        return None
    absent = [name for rank, name in enumerate(record.members) if rank not in view.current]
    return _leave(view, Leave(AttemptEnd.RANK_MISSING, f"{few_names(absent)} knows nothing of its rank"))


_MEETING = (Phase.STARTING, Phase.RENDEZVOUS)


def _asked_to_end(view: RunView) -> Decision | None:
    """End an attempt whose ranks were asked to end, for a reason that may have passed since."""
    stops = view.world.memory.stops
    asked = [stops[id] for rank in view.current.values() if (id := rank.report.id) in stops]
    if view.record is None or not asked:
        return None
    symptom = next((each.symptom for each in asked if each.symptom is not None), None)
    if symptom is not None:
        return _leave(view, Leave(AttemptEnd.RANK_FAILED, symptom.text))
    return _leave(view, Leave(AttemptEnd.DRAINED, "it was asked to end"))


def _stuck(view: RunView) -> Decision | None:
    """End an attempt with a rank that does not come to the start of its program."""
    late = [
        rank
        for rank in view.current.values()
        if rank.alive
        and rank.report.phase in _MEETING
        and rank.report.silent_seconds > standstill_seconds(rank.report.phase, 0, OWN_DEADLINE_SECONDS)
    ]
    if not late:
        return None
    report = late[0].report
    text = f"{late[0].title}, has been {report.phase} for {report.silent_seconds:.0f} s"
    return end(view, view.alive, 0.0, text, Symptom(Cause.OVERDUE, text, view.world.now))


def _older_ranks(view: RunView) -> Decision | None:
    """End ranks of earlier attempts before anything starts."""
    current = {rank.report.id for rank in view.current.values()}
    older = tuple(rank for rank in view.alive if rank.report.id not in current)
    return end(view, older, 0.0, "it belongs to an earlier attempt") if older else None


def _unplaced(view: RunView) -> Decision | None:
    """Place an attempt where there is none."""
    job = view.job
    if view.record is not None or job is None:
        return None
    if view.run.suspended_at is not None:
        paused = view.run.suspended_seconds + view.world.now - view.run.suspended_at
        return Decision(steps=(SuspendRun(replace(view.run, suspended_at=None, suspended_seconds=paused)),))
    silent = view.world.once(unreported)
    if silent:
        return view.wait(WaitingFor.AGENT, f"no answer yet from {few_names(silent)}, which may know of it")
    found = place(view, job)
    if not isinstance(found, GroupRecord):
        return without_nodes(found)
    attempts = view.run.attempts
    why = f"attempt {len(attempts) + 1}" + (f": {attempts[-1].text}" if attempts else "")
    cause = Cause.NEXT_ATTEMPT if attempts else Cause.NEW_RUN
    return Decision(steps=(AllocateEpoch(view.id, found, cause, why),))


def place(view: RunView, job: Job) -> GroupRecord | Waiting | Refusal:
    """Return the record of an attempt on the nodes that are chosen for it; else why there are none."""
    found = choose(view, job)
    return _record(view, found) if isinstance(found, Place) else found


def without_nodes(found: Waiting | Refusal) -> Decision:
    """Say why there is no attempt yet."""
    return Decision(waiting=(found,)) if isinstance(found, Waiting) else Decision(refused=(found,))


def _record(view: RunView, found: Place) -> GroupRecord:
    memory, world = view.world.memory, view.world
    seen = [rank.report.id.epoch for rank in view.ranks]
    epoch = max([memory.last_epochs.get(view.id, 0), *(each.epoch for each in view.run.attempts), *seen]) + 1
    return GroupRecord(
        workload=view.id,
        epoch=epoch,
        members=found.members,
        port=first_ports(world, view.id, epoch, len(found.members)),
        secret=membership.secret(world.entropy, view.id, epoch),
        fingerprint=view.run.fingerprint,
        created_at=world.now,
        rank_bytes=max(found.needs),
        needs=found.needs if len(set(found.needs)) > 1 else (),
        transport=found.transport.name,
        transport_why=found.transport.why,
        boots=tuple(world.boot(name) for name in found.members),
    )


def _misplaced(view: RunView) -> Decision | None:
    """End an attempt that has not started, on nodes that are closed to it now or that others do not leave for it."""
    record, job = view.record, view.job
    if record is None or job is None or view.current:
        return None
    nodes = view.world.desired.nodes
    closed = [name for name in view.members if not eligible.open_to(nodes[name], job.spec.placement)]
    if closed:
        return _leave(view, Leave(AttemptEnd.DRAINED, f"{few_names(closed)} takes no rank of it any more"))
    left = view.ledger.without(leaving_for(view, job))
    full = [name for name in view.members if left.overcommitted(name)]
    if full:
        return _leave(view, Leave(AttemptEnd.DRAINED, f"nobody leaves {few_names(full)} for it any more"))
    return None


def _unstarted(view: RunView) -> Decision | None:
    """Start the missing ranks, once their nodes are free for them."""
    record, job = view.record, view.job
    if record is None or job is None or len(view.current) == len(record.members):
        return None
    if (until := _back_off_until(view)) is not None:
        return view.wait(WaitingFor.BACK_OFF, f"next attempt after {view.run.attempts[-1].text}", until)
    if waits := _occupied(view, record):
        return waits
    wiring = _wiring(view, record)
    if wiring is None:
        return view.wait(WaitingFor.AGENT, "the addresses of its nodes are not known yet")
    missing = [rank for rank in range(len(record.members)) if rank not in view.current]
    steps = tuple(step for rank in missing if (step := _start(view, job, record, rank, wiring)) is not None)
    return Decision(steps=steps)


def _back_off_until(view: RunView) -> float | None:
    """Return when the next attempt may begin; None if now."""
    now, failed = view.world.now, [each for each in view.run.attempts if each.end in COUNTED]
    if not failed:
        return None
    delay = min(BACK_OFF_SECONDS_MAX, BACK_OFF_SECONDS_MIN * 2.0 ** (view.run.failures - 1))
    until = failed[-1].ended_at + delay
    return until if now < until <= now + BACK_OFF_SECONDS_MAX else None


def _occupied(view: RunView, record: GroupRecord) -> Decision | None:
    """Wait until what is in the way has left, and no old rank has left anything."""
    world, names = view.world, tuple(dict.fromkeys(record.members))
    unprobed = [name for name in names if not world.node(name).probed]
    if unprobed:
        return view.wait(WaitingFor.AGENT, f"the probes of {few_names(unprobed)} are running")
    held = [name for name in names if quarantine.quarantine_of(world, name) is not None]
    if held:
        whys = "; ".join(f"{name} is quarantined: {quarantine.reason(world, name)}" for name in held)
        return _leave(view, Leave(AttemptEnd.DRAINED, whys))
    crowded = [name for name in names if view.ledger.overcommitted(name)]
    if crowded:
        return view.wait(WaitingFor.ROOM, f"others still have to leave {few_names(crowded)}")
    kept = [f"{name}: {left.text}" for name in names for left in leftovers.leftovers(world, name)]
    return view.wait(WaitingFor.LEFTOVERS, "; ".join(dict.fromkeys(kept))) if kept else None


def _wiring(view: RunView, record: GroupRecord) -> Wiring | None:
    if len(record.members) == 1:
        return Wiring("", ("127.0.0.1",))
    return fallback.wiring(view.world, record.transport, record.members)


def _start(view: RunView, job: Job, record: GroupRecord, rank: int, wiring: Wiring) -> Step | None:
    name: NodeName = record.members[rank]
    node, report = view.world.desired.nodes.get(name), view.world.node(name).report
    if node is None or report is None or not view.world.reached(name):
        return None
    spec = launch.launch(view.run, record, rank, job, node, report, wiring)
    return StartRank(view.id, name, spec, tuple(sorted(job.spec.secrets.items())))


def _coming(view: RunView) -> Decision | None:
    """Wait for ranks that have not started their program."""
    late = [rank for rank in view.current.values() if rank.alive and rank.report.phase in _MEETING]
    if not late:
        return None
    ranks = few_names([f"rank {rank.report.id.rank}" for rank in late])
    return view.wait(WaitingFor.RANKS, f"{ranks} has not started the program yet")


# --- ends ------------------------------------------------------------------------------------------


def _end_attempt(view: RunView, leave: Leave) -> Decision:
    """Write the end of the attempt; it ends the run too if there is to be no other."""
    record, run, now = view.record, view.run, view.world.now
    assert record is not None
    ranks = tuple(
        RankEnd(name, seen.report.exit if (seen := view.current.get(rank)) is not None else None)
        for rank, name in enumerate(record.members)
    )
    attempt = RunAttempt(record.epoch, record.created_at, now, leave.end, leave.text, ranks, record.transport)
    after = replace(run, attempts=_bounded((*run.attempts, attempt)))
    if leave.end is AttemptEnd.SUSPENDED:
        after = replace(after, suspended_at=now)
    return Decision(steps=(EndAttempt(_ended(view, leave, after)),))


def _bounded(attempts: tuple[RunAttempt, ...]) -> tuple[RunAttempt, ...]:
    """Leave out the oldest attempt that no verdict counts, where there are many: drains have no limit."""
    if len(attempts) <= ATTEMPTS_KEPT:
        return attempts
    old = next((each for each in attempts if each.end not in (*COUNTED, AttemptEnd.NODE_LOST)), None)
    return tuple(each for each in attempts if each is not old)


def _ended(view: RunView, leave: Leave, run: Run) -> Run:
    """Return the run with its end, if it has one."""
    found = leave.result or verdict(view.job, run)
    if found is None:
        return run
    result, reason = found
    ended = RunEnd(result, reason, view.world.now, leave.text)
    fetched = view.job is not None and view.job.spec.artifacts and run.attempts
    artifacts = Artifacts(Fetched.PENDING) if fetched else run.artifacts
    return replace(run, ended=ended, artifacts=artifacts)


LADDER: tuple[Rule, ...] = (
    Rule(_step_in_flight, "a step that is being executed is waited for"),
    Rule(
        _not_observed,
        "nothing is decided about ranks on nodes that were not seen since the last change to them; a lost node is not"
        " waited for",
    ),
    Rule(_stopped, "a rank that is merely stopped is continued, but not for ever"),
    Rule(
        _unrecorded, "an attempt that nodes know and the store has lost is adopted, and judged like any other"
    ),
    Rule(_completed, "an attempt whose ranks have all ended with 0 has succeeded, and so has the run"),
    Rule(
        _left,
        "a run that is cancelled, replaced, suspended, over its deadline, or on a node that is being drained ends in order",
    ),
    Rule(_node_lost, "an attempt ends with a node; a run that has lost nodes twice is not tried again"),
    Rule(_rank_failed, "one dead rank ends the attempt: the others are stopped"),
    Rule(_rank_missing, "an attempt that has lost a rank without a trace ends"),
    Rule(_asked_to_end, "an attempt that was asked to end does not go on"),
    Rule(_stuck, "a rank that does not start its program in time is ended"),
    Rule(_older_ranks, "no attempt starts before the ranks of the one before it are gone"),
    Rule(_unplaced, "an attempt gets all of its nodes, or none"),
    Rule(_misplaced, "an attempt that waits on nodes that it would not be given now is placed anew"),
    Rule(_unstarted, "its ranks are started together, once everything else has left their nodes"),
    Rule(_coming, "ranks that have not started their program are waited for"),
)
"""From the top. No rule calls another."""
