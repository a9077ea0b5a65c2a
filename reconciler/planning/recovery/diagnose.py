"""Diagnoses the end of a group: its symptom, the class that explains it, and the remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import takewhile
from signal import SIGKILL

from reconciler.planning.context import attempt_facts
from reconciler.planning.context.deadlines import MEETING_SECONDS
from reconciler.planning.context.job_losses import node_losses
from reconciler.planning.context.view import Formed, View, Wanted
from reconciler.planning.context.world import World
from reconciler.planning.diagnosis import rules
from reconciler.planning.diagnosis.evidence import Detection, Evidence, restarted
from reconciler.planning.diagnosis.rules import History, Remedy, Row, explain
from reconciler.planning.nodes import quarantine, repair
from reconciler.planning.transport import fallback
from reconciler.state import (
    Attempt,
    Cause,
    FaultClass,
    NodeName,
    ObservedRank,
    Sign,
    Suspicion,
    Symptom,
    Trouble,
    most_informative,
)
from reconciler.state.subjects import ReplicaSubject
from reconciler.transports import CABLES, RINGS, VERBS
from reconciler.wire.launch import ExitCode, Phase, RankId

from . import stalls

PROOFS_MAX = 3
"""After this many failed completions a group that is ready is as good as dead."""
ATTEMPTS_SECONDS = 3600.0
"""A remedy that was tried longer ago may help again."""
REFRESHED_SECONDS = 7 * 86_400.0
"""A machine is not restarted again within this time for a fault that came back after a restart."""

_REQUESTS_MAY = (
    FaultClass.RANK_CRASH,
    FaultClass.SILENT_HANG,
    FaultClass.GPU_FAULT,
    FaultClass.RENDEZVOUS,
)
"""Classes of faults that a request may cause; the last is the only sign if the end of another rank is not seen."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The cause of a group's end."""

    cause: Cause
    text: str
    at: float
    """The time of the end, as far as known, in seconds of the controller's clock."""
    fault: FaultClass
    lasting: str = ""
    """Why another attempt with the same files cannot end otherwise; empty if it can."""
    suspicion: Suspicion = Suspicion.NONE
    """The suspicion against a request that the group was answering."""
    port_taken: bool = False
    """True if a port that was drawn for it was in use."""
    person: str = ""
    """The exact steps that only a person can take; empty if nobody is needed."""
    remedy: Remedy = Remedy.FORM
    """The remedy to take now: the row's first, or its second if its condition holds."""
    nodes: tuple[NodeName, ...] = ()
    """The machines to blame, if these are known."""
    seen: str = ""
    """What explains it; ``text`` also has how it showed."""
    sign: Sign = ()
    """The key of ``seen``."""
    task: Sign = ()
    """The key of ``person``."""
    killed: bool = False
    """True if a rank of a group that had served got a SIGKILL that nothing here sent, or is gone without a trace. A person
    does that, or the system when memory runs short. No program does it to itself."""
    rank: RankId | None = None
    """The rank whose end explains it, if it is known."""
    never_ran: bool = False
    """True if the rank never had a process, because its agent ended or lacked something: no spec is to blame."""


def fault(view: Formed) -> Diagnosis | None:
    """Diagnose why the replica's group is as good as dead; None for one that is not."""
    shown = symptom(view)
    if shown is None:
        return None
    seen = gather_evidence(view, shown)
    found = explain(seen, lambda row, detection: _history(view, row, detection))
    assert found is not None, f"no class explains {shown}"
    row, detection, now = found.row, found.detection, found.remedy
    complete = detection.tells_symptom
    words = seen.first.ending_text if seen.first else shown.text
    deployment = view.replica.deployment
    fault = Diagnosis(
        shown.cause,
        detection.text if complete else f"{detection.text}; {shown.text}",
        shown.at,
        row.fault,
        lasting=(words if complete else f"{detection.text}; {words}") if now is Remedy.REFUSE else "",
        suspicion=_suspicion(view, row.fault, seen.first),
        port_taken=any(_found_its_port_taken(rank) for rank in view.current.values()),
        person=repair.steps(view.world, row, detection, deployment) if row.needs_person(now) else "",
        remedy=now,
        nodes=detection.nodes,
        seen=detection.text,
        sign=row.sign(detection),
        task=repair.task(view.world, row, detection),
        killed=view.record.proven_at is not None and _killed(shown, seen.first),
        rank=seen.first.report.id if seen.first else None,
        never_ran=seen.first is not None and seen.first.report.pid is None,
    )
    return _after_restart(view, fault)


def _suspicion(view: Formed, fault: FaultClass, first: ObservedRank | None) -> Suspicion:
    """Say how strongly the end points to a request. A rank that only noticed the end of another one knows nothing."""
    if fault not in _REQUESTS_MAY:
        return Suspicion.NONE
    stopped = any(rank.report.stopped for rank in view.current.values())
    by_itself = first is not None and first.failed_by_itself
    strong = by_itself or fault is FaultClass.SILENT_HANG
    return Suspicion.STRONG if strong and not stopped else Suspicion.FAINT


def _killed(shown: Symptom, first: ObservedRank | None) -> bool:
    ended = first.report.exit if first else None
    if ended is None:
        return shown.cause is Cause.RANK_MISSING
    return shown.cause is Cause.RANK_EXITED and ended.signal == SIGKILL and ended.killed_after is None


def _found_its_port_taken(rank: ObservedRank) -> bool:
    return rank.report.exit is not None and rank.report.exit.code == ExitCode.PORT_IN_USE


def _history(view: Formed, row: Row, detection: Detection) -> History:
    """Collect the attempts against a fault of this group, and what else can be tried."""
    world, record = view.world, view.record
    return History(
        attempts=attempts(view, row.fault),
        transport_forms=_transport_forms(view),
        has_fallback=fallback.lower(view.deployment, fallback.used(record)),
        facts_changed=bool(attempt_facts.changes(record.facts, view.current_facts(record.members))),
        on_trial=fallback.failure(world, view.replica, fallback.used(record)) is not None,
        repaired=any(repair.pending_change(world, name, str(view.replica)) for name in detection.nodes),
        quarantined=any(quarantine.reason(world, name) for name in detection.nodes),
    )


def forbidding(view: Formed) -> tuple[Row, Detection] | None:
    """Return the harm that the group has done to its machines, and that keeps it from being formed as it was; None without
    any."""
    return rules.forbidding(gather_evidence(view, None))


def _after_restart(view: Formed, fault: Diagnosis) -> Diagnosis:
    """Replace a fault whose machine has been restarted for it since: the fault is over, and the restart was planned."""
    boots = dict(zip(view.record.members, view.record.boots, strict=False))
    for name in fault.nodes:
        last, report = view.world.memory.reboots.get(name), view.world.node(name).report
        if last is not None and report is not None and report.boot_id != last.boot_id == boots.get(name):
            text = f"{name} was restarted: {fault.text}"
            sign = ("restarted", name)
            return Diagnosis(
                fault.cause, text, fault.at, FaultClass.REBOOT, nodes=(name,), seen=text, sign=sign
            )
    return fault


def _tried(view: Wanted) -> tuple[Attempt, ...]:
    return view.world.memory.attempts.get(view.replica, ())


def _blaming(view: Wanted) -> list[Attempt]:
    """List the attempts, oldest first, without those after a group that a request or a port in use has ended: neither a
    transport nor a machine is to blame for that."""
    tried, by_requests = _tried(view), view.world.ended_by_requests(view.replica)
    return [
        attempt
        for before, attempt in zip((None, *tried), tried, strict=False)
        if not attempt.port_taken and (before is None or before.epoch not in by_requests)
    ]


def _transport_forms(view: Wanted) -> int:
    """Count how often in a row the group was formed on its transport because of a fault."""

    def failing(attempt: Attempt) -> bool:
        return attempt.fault is not None and attempt.cause != Cause.TRANSPORT_FAILED.value

    return _in_a_row(view, reversed(_blaming(view)), failing)


def _in_a_row(view: Wanted, latest: Iterable[Attempt], alike: Callable[[Attempt], bool]) -> int:
    """Count the latest attempts that are alike, for this spec and not too long ago."""
    since, spec = view.world.now - ATTEMPTS_SECONDS, view.spec_generations
    return sum(
        1 for _ in takewhile(lambda a: alike(a) and a.at > since and a.spec_generations == spec, latest)
    )


def attempts(view: Wanted, fault: FaultClass, failed: bool = False, own: bool = False) -> int:
    """Count how often in a row, until now, the group was formed for this class and this spec.

    ``failed``: leave out those after a group that had served and was ended from outside, as far as is known.
    ``own``: leave out those after an end that is no fault of this spec: the first one, which came after a group of another
    spec, and those after a rank that never had a process.
    """
    first = next((each for each in _tried(view) if each.spec_generations == view.spec_generations), None)
    latest = (
        each
        for each in reversed(_blaming(view))
        if not (failed and _from_outside(each)) and not (own and (each is first or each.never_ran))
    )
    return _in_a_row(view, latest, lambda attempt: attempt.fault is fault)


def _from_outside(attempt: Attempt) -> bool:
    return attempt.served is not None and attempt.suspicion is Suspicion.FAINT


def gather_evidence(view: Formed, symptom: Symptom | None) -> Evidence:
    """Collect the observations of a group that is as good as dead."""
    record, world = view.record, view.world
    ended = [rank for rank in view.current.values() if not rank.alive]
    if _ended_for(view) is not None:
        ended = [rank for rank in ended if rank.report.id not in world.memory.stops]
    nodes = tuple(world.node(name) for name in record.members)
    boots = dict(zip(record.members, record.boots, strict=False))
    back = (node.name for node in nodes if restarted(node, boots) and not node.settled(world.now))
    return Evidence(
        nodes=nodes,
        symptom=symptom,
        first=most_informative(ended),
        verbs=record.transport in VERBS,
        cables=record.transport in CABLES,
        ring=record.transport in RINGS,
        proven=record.proven_at is not None,
        idle_seconds=view.current[0].report.idle_seconds if 0 in view.current else 0.0,
        boots=boots,
        harmed=world.once_as_decided(node_losses),
        returning=frozenset(back),
        unkillable=tuple(dict.fromkeys(rank.node for rank in view.current.values() if rank.unkillable)),
        local=frozenset(n for n in record.members if world.access(n).ssh is None),
        untested=world.desired.untested_ends,
        refreshed=frozenset(name for name, boot in boots.items() if _refreshed(world, name, boot)),
        unstarted=frozenset(n for n in record.members if world.memory.unstarted(n)),
    )


def _refreshed(world: World, name: NodeName, boot: str) -> bool:
    """Return whether a node was restarted from here not long ago, before a boot in which a group was formed."""
    last = world.memory.reboots.get(name)
    done = last is not None and last.requested and boot not in ("", last.boot_id)
    return last is not None and done and abs(world.now - last.at) < REFRESHED_SECONDS


def symptom(view: Formed) -> Symptom | None:
    """Say why the replica's group is as good as dead, as far as its ranks show it; None for one that is not."""
    record, now = view.record, view.world.now
    ended_for = _held(view) or _ended_for(view)
    if ended_for is not None:
        return ended_for
    ended = most_informative(rank for rank in view.current.values() if not rank.alive)
    if ended is not None:
        return Symptom(Cause.RANK_EXITED, _end_text(ended), record.created_at + _lived(ended))
    missing = [rank for rank in range(len(record.members)) if rank not in view.current]
    if missing and (record.proven_at is not None or not record.secret):
        text = f"rank {missing[0]} of epoch {record.epoch} is gone without a trace"
        return Symptom(Cause.RANK_MISSING, text, now)
    why = _hopeless(view) if missing else ""
    if why:
        text = f"rank {missing[0]} of epoch {record.epoch} cannot be started: {why}"
        return Symptom(Cause.RANK_MISSING, text, now)
    if why := unjoinable(view):
        return Symptom(Cause.OVERDUE, f"epoch {record.epoch} cannot come up: {why}", now)
    if why := _apart(view):
        return Symptom(Cause.RANKS_APART, why, now)
    stall = stalls.of_group(view, tuple(view.current.values()))
    if stall is not None:
        return Symptom(stall.cause, stall.text, now - stall.seconds)
    proof = view.world.memory.failures.get(f"prove/{view.replica}/{record.epoch}")
    if proof is None or proof.counted < PROOFS_MAX or record.proven_at is not None:
        return None
    text = f"epoch {record.epoch} gave no completion in {proof.counted} attempts: {proof.text}"
    return Symptom(Cause.PROOF_FAILED, text, now)


def _end_text(ended: ObservedRank) -> str:
    if ended.lost_another:
        return f"ranks lost each other, and no end is known that explains it: {ended.ending}"
    return ended.ending


def _held(view: Formed) -> Symptom | None:
    """Return that a rank cannot be ended: whatever the reason to end it, its machine is at fault now."""
    texts = (quarantine.held_text(rank) for rank in view.current.values() if rank.unkillable)
    return next((Symptom(Cause.RANK_UNKILLABLE, text, view.world.now) for text in texts), None)


def _ended_for(view: Formed) -> Symptom | None:
    """Return why living ranks were asked to end: neither their ends nor anything else will say it."""
    stops = view.world.memory.stops
    symptoms = (stops[rank.report.id].symptom for rank in view.current.values() if rank.report.id in stops)
    by_themselves = (Cause.RANK_EXITED, Cause.RANK_MISSING)
    return next((each for each in symptoms if each is not None and each.cause not in by_themselves), None)


def _hopeless(view: Formed) -> str:
    """Say what has happened since an epoch was drawn that makes it useless to start its other ranks; empty if nothing
    has."""
    against = forbidding(view)
    if against is not None:
        return against[1].text
    if not _unwired(view):
        return ""
    return fallback.obstacle(view.world, view.replica, fallback.used(view.record), view.record.members)


def _unwired(view: Formed) -> bool:
    """Return whether the transport of a group is no longer available, by what its machines report now."""
    record = view.record
    probed = all(view.world.node(name).probed for name in record.members)
    return probed and fallback.wiring(view.world, fallback.used(record), record.members) is None


def unjoinable(view: Formed) -> str:
    """Say why ranks that look for each other will not find each other: their links are gone. Empty if they may."""
    phases = {rank.report.phase for rank in view.current.values() if rank.alive}
    if not phases & {Phase.RENDEZVOUS, Phase.VERBS} or not cut_off(view):
        return ""
    return fallback.obstacle(view.world, view.replica, fallback.used(view.record), view.record.members)


def cut_off(view: Formed) -> bool:
    """Return whether a group that has not come up has lost its links."""
    return view.record.proven_at is None and _unwired(view)


def _apart(view: Formed) -> str:
    """Say that ranks will not find each other because of a firewall: all are there, and have looked for longer than they
    need. Empty if they may, because without a firewall the others may be cut off for a while."""
    record, reports = view.record, [rank.report for rank in view.current.values()]
    walled = any(view.world.node(name).facts.firewall for name in record.members)
    if not walled or record.proven_at is not None or len(reports) < len(record.members):
        return ""
    if any(each.phase != Phase.RENDEZVOUS or each.silent_seconds < MEETING_SECONDS for each in reports):
        return ""
    return (
        f"the ranks of epoch {record.epoch} have looked for each other for more than {MEETING_SECONDS:.0f} s"
    )


def _lived(rank: ObservedRank) -> float:
    """Return how long a rank lived, in seconds: both ends by its own node's clock, which may differ from the
    controller's."""
    report = rank.report
    return max(0.0, report.exit.at - report.started_at) if report.exit else 0.0


def trouble(view: View, fault: Diagnosis, doing: str) -> Trouble:
    """Report the fault of a replica now, and the remedy.

    If a person is needed, only the explanation is given: it stays the same over the attempts.
    """
    record, seen, sign = view.record, fault.seen, fault.sign
    if not fault.person:
        seen, sign = fault.text, (fault.cause.value, str(record.epoch if record else 0), *fault.sign)
    subject = ReplicaSubject(view.replica)
    return Trouble(
        view.replica.key, subject, fault.fault, seen, doing, fault.person, sign, fault.task, fault.rank
    )
