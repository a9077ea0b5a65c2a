"""The incident log: turns troubles and outcomes of steps into incidents.

Pure and level-triggered: the incidents follow from the previous ones, one pass's snapshots and the outcomes since
the last pass. After a crash, the next controller continues the same incidents.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from reconciler.state import (
    AllocateEpoch,
    Contact,
    Desired,
    FaultClass,
    ForgetRank,
    GroupRecord,
    JobName,
    Memory,
    NodeName,
    Outcome,
    RebootNode,
    RefusedBecause,
    Trouble,
    subjects,
)
from reconciler.state.identity import WorkloadId
from reconciler.state.jobs import RunReason, RunResult
from reconciler.state.plan import workload_of
from reconciler.state.reports.incident import Class, Entry, EntryKind, Incident, Occasion, title
from reconciler.state.reports.notification import Notification
from reconciler.state.reports.status import Event
from reconciler.state.subjects import (
    GatewaySubject,
    JobSubject,
    LinkSubject,
    NodeSubject,
    RequestSubject,
    RunSubject,
    Subject,
    subject_of,
)
from reconciler.status import (
    FailedRun,
    Snapshots,
    Statuses,
    Unserved,
    failed_runs,
    makes_good,
    serving,
    unserved,
    with_tasks,
)

REOPENED_WITHIN_SECONDS = 120.0
"""A problem that comes back within this time is the same incident, so that flapping is reported once."""
FIRST_ENTRIES_KEPT = 20
LAST_ENTRIES_KEPT = 40
"""Number of first and last entries that are kept of a long incident."""
TEXT_CHARACTERS_MAX = 1000
MESSAGE_CHARACTERS_MAX = 2500
REPEATS_WITHIN = 4
"""An entry that equals one of this many latest ones is counted and not repeated."""

Done = tuple[float, Outcome]
"""The outcome of a step, and its time."""
Problem = Trouble | Unserved | FailedRun


def follow(
    known: Mapping[int, Incident],
    last_id: int,
    snapshots: Snapshots,
    outcomes: Iterable[Done],
    statuses: Statuses,
) -> dict[int, Incident]:
    """Return the open incidents, and those that a pass has just opened or closed, by id.

    ``known``: the open incidents before the pass. ``last_id``: the highest id so far. ``statuses``: those before or after
    the pass, which know since when something is refused.
    """
    found = dict(sorted(known.items()))
    if not snapshots.desired.revision or snapshots.desired.stopping:
        return found  # without manifests, it is unknown whether an incident is over
    present: list[Problem] = list(with_tasks(snapshots.plan.troubles, unserved(snapshots, statuses)))
    present += failed_runs(snapshots)
    troubles: dict[int, Problem] = {}
    by_subject = _by_subject(found.values(), lambda incident: (incident.subject,))
    beside = _by_subject(present, lambda trouble: (trouble.subject,))
    tried = _by_subject(outcomes, lambda done: _subjects(done, snapshots.memory.groups))
    for trouble in present:
        own = by_subject.setdefault(trouble.subject, [])
        number = _find_open(trouble, beside[trouble.subject], [i for i in own if i.id not in troubles])
        if number is None:
            number = last_id = last_id + 1
            at = snapshots.now if isinstance(trouble, Trouble) else trouble.since
            found[number] = Incident(number, trouble.object, trouble.subject, trouble.fault, at)
            own.append(found[number])
        troubles[number] = trouble
    return {
        number: _passed(incident, troubles.get(number), snapshots, tried.get(incident.subject, []))
        for number, incident in found.items()
    }


T = TypeVar("T")


def _by_subject(items: Iterable[T], about: Callable[[T], Collection[Subject]]) -> dict[Subject, list[T]]:
    """Sort items by their subjects; each list keeps their order."""
    found: dict[Subject, list[T]] = {}
    for item in items:
        for subject in about(item):
            found.setdefault(subject, []).append(item)
    return found


def _subjects(done: Done, groups: Mapping[WorkloadId, GroupRecord]) -> set[Subject]:
    """Return the subjects of a step: its own, and its workload; for a restarted machine, the workloads that had a group
    there."""
    step = done[1].step
    found: set[Subject] = {subjects.read(step.subject)}
    if isinstance(step, RebootNode):
        on_it = (workload for workload, record in groups.items() if step.node in record.members)
        return found.union(map(subject_of, on_it))
    workload = workload_of(step)
    if workload is not None:
        found.add(subject_of(workload))
    return found | {JobSubject(each.run.job) for each in found if isinstance(each, RunSubject)}


def _find_open(trouble: Problem, all_: Iterable[Problem], own: Sequence[Incident]) -> int | None:
    """Return the incident that a trouble belongs to; None if it begins a new one. ``all_``: the troubles of its
    subject in this pass. ``own``: the incidents of its subject that no other trouble has taken.

    A trouble that follows another one of the same subject before recovery belongs to the same incident, perhaps under
    a more precise name. A simultaneous trouble, or one after recovery, is a new incident, unless a person was asked to
    fix it a moment ago.
    """
    beside = {other.fault for other in all_}
    for incident in sorted(own, key=lambda i: i.present is not trouble.fault):
        if trouble.fault is incident.present:
            return incident.id
        if trouble.fault is incident.fault and incident.present not in beside:
            return incident.id
    for incident in own:
        same = incident.open or trouble.fault in incident.asked
        if same and incident.present not in beside and incident.fault not in beside:
            return incident.id
    return None


# --- one incident in one pass ------------------------------------------------------------------------


def _passed(
    incident: Incident, trouble: Problem | None, snapshots: Snapshots, outcomes: Sequence[Done]
) -> Incident:
    now = snapshots.now
    if trouble is not None:
        incident = _update(_begun(incident, snapshots), trouble, snapshots)
    elif incident.present is not None:
        incident = replace(incident, present=None)
    if not incident.open:
        quiet = now - (incident.closed_at or 0.0) >= REOPENED_WITHIN_SECONDS
        return replace(incident, settled=True) if quiet else incident
    tried = sorted([*_formed(incident, snapshots), *_tried(incident, outcomes)], key=lambda entry: entry.at)
    incident = _served(_add_entries(incident, tried), snapshots)
    end = _end(incident, snapshots) if trouble is None else None
    return incident if end is None else _close(incident, end)


def _begun(incident: Incident, snapshots: Snapshots) -> Incident:
    """Begin or reopen an incident: earlier groups are not among its remedies."""
    if incident.open and incident.entries:
        return incident
    replica = incident.replica
    epoch = snapshots.memory.last_epochs.get(replica, 0) if replica else 0
    again = incident.reopened + (not incident.open)
    return replace(incident, closed_at=None, reopened=again, epoch_before=epoch, epoch=epoch)


def _update(incident: Incident, trouble: Problem, snapshots: Snapshots) -> Incident:
    """Add new signs, and the task for a person once per class."""
    entries, now = [], snapshots.now
    back = incident.present is None
    latest = incident.last(EntryKind.SEEN)
    if back or latest is None or incident.present != trouble.fault or latest.sign not in (None, trouble.sign):
        seen = Entry(now, EntryKind.SEEN, trouble.seen, trouble.fault, sign=trouble.sign, rank=trouble.rank)
        entries.append(seen)
    asks = bool(trouble.person) and trouble.fault not in incident.asked
    if asks:
        entries.append(Entry(now, EntryKind.PERSON, trouble.person, sign=(trouble.fault.value,)))
    incident = replace(
        incident,
        fault=_named(incident, trouble, snapshots.memory),
        present=trouble.fault,
        doing=trouble.doing,
        person=trouble.person,
        asked=(*incident.asked, trouble.fault) if asks else incident.asked,
    )
    return _add_entries(incident, entries)


def _named(incident: Incident, trouble: Problem, memory: Memory) -> Class:
    """Return the class that explains most: a fault explains a refusal, and of refusals the newest counts. Troubles of a machine after a repair may be effects of the repair, such as
    ports that a restart has reset, and explain nothing. Neither does the silence of a machine that is restarted for a
    group."""
    if isinstance(incident.subject, NodeSubject) and incident.first(EntryKind.TRIED):
        return incident.fault
    if trouble.fault is FaultClass.HOST_UNREACHABLE and _restarted(incident, memory):
        return incident.fault
    if isinstance(trouble.fault, RunReason):
        return incident.fault if incident.fault is RunReason.NODE_LOSS else trouble.fault
    if not isinstance(incident.fault, FaultClass):
        return trouble.fault
    if isinstance(trouble.fault, RefusedBecause):
        return incident.fault
    return min(incident.fault, trouble.fault, key=list(FaultClass).index)


def _restarted(incident: Incident, memory: Memory) -> bool:
    """Return whether a machine of its group was asked to restart since the incident began."""
    replica = incident.replica
    record = memory.groups.get(replica) if replica else None
    reboots = [memory.reboots.get(name) for name in record.members] if record else []
    return any(each is not None and each.at >= incident.opened_at for each in reboots)


def _formed(incident: Incident, snapshots: Snapshots) -> Iterator[Entry]:
    """Yield the groups formed since then, from the store, which survives a crash."""
    replica = incident.replica
    if replica is None:
        return
    record = snapshots.memory.groups.get(replica)
    attempts = [a for a in snapshots.memory.attempts.get(replica, ()) if a.epoch > incident.epoch]
    told = {entry.fault for entry in incident.entries if entry.kind is EntryKind.SEEN} - {*incident.asked}
    for attempt in attempts:
        text = f"form epoch {attempt.epoch}"
        if record is not None and record.epoch == attempt.epoch:
            text += (
                f" on {', '.join(record.members)}{f' over {record.transport}' if record.transport else ''}"
            )
        why = attempt.cause if attempt.fault in told else f"{attempt.cause}: {attempt.text}"
        yield Entry(attempt.at, EntryKind.TRIED, f"{text} ({why})", sign=("form", str(attempt.epoch)))


def _tried(incident: Incident, outcomes: Sequence[Done]) -> Iterator[Entry]:
    """Yield the outcomes of steps for its subject. Formed groups come from the store."""
    for at, outcome in outcomes:
        step = outcome.step
        if isinstance(step, ForgetRank) or (isinstance(step, AllocateEpoch) and outcome.done):
            continue
        began = max(incident.opened_at, at - outcome.seconds)
        text = f"{step}: failed: {outcome.problem}" if outcome.problem else str(step)
        text += f": {outcome.detail}" if outcome.detail else ""
        sign = (step.key, "done" if outcome.done else "failed")
        yield Entry(began, EntryKind.TRIED, text, seconds=outcome.seconds, sign=sign)


def _add_entries(incident: Incident, entries: Iterable[Entry]) -> Incident:
    """Add entries: repeated ones are counted, with the newest text, and if there are too many, the middle is dropped."""
    entries = tuple(entries)
    if not entries:
        return incident
    kept = list(incident.entries)
    left_out = incident.left_out
    for entry in entries:
        entry = replace(entry, text=entry.text[:TEXT_CHARACTERS_MAX])
        last = range(len(kept) - 1, max(-1, len(kept) - 1 - REPEATS_WITHIN), -1)
        again = next((n for n in last if _repeats(entry, kept[n])), None)
        if again is not None:
            first = kept[again]
            kept[again] = replace(entry, at=first.at, times=first.times + 1, last_at=entry.at)
            continue
        kept.append(entry)
        if len(kept) > FIRST_ENTRIES_KEPT + LAST_ENTRIES_KEPT:
            del kept[FIRST_ENTRIES_KEPT]
            left_out += 1
    return replace(incident, entries=tuple(kept), left_out=left_out)


def _repeats(entry: Entry, other: Entry) -> bool:
    return (entry.kind, entry.fault, entry.sign) == (other.kind, other.fault, other.sign)


# --- its end -----------------------------------------------------------------------------------------


def _served(incident: Incident, snapshots: Snapshots) -> Incident:
    """Count the time for which the replica does not serve, and note its reported epochs."""
    replica = incident.replica
    if replica is None:
        return incident
    attempts = snapshots.memory.attempts.get(replica, ())
    incident = replace(incident, epoch=max([incident.epoch, *(attempt.epoch for attempt in attempts)]))
    record = snapshots.memory.groups.get(replica)
    serves = record is not None and serving(record, snapshots.observed) is not None
    since = incident.unserved_since
    if not serves:
        return (
            incident
            if since is not None
            else replace(incident, unserved_since=_unserved_since(incident, snapshots.now))
        )
    if since is None or record is None:
        return incident
    until = _served_at(record, since, snapshots.now)
    return replace(
        incident, unserved_since=None, unserved_seconds=incident.unserved_seconds + max(0.0, until - since)
    )


def _unserved_since(incident: Incident, now: float) -> float:
    """Return the time since which its replica does not serve: a refusal may be older than the pass that opens it."""
    new = incident.unserved_seconds == 0.0 and not incident.reopened
    return incident.opened_at if new and isinstance(incident.fault, RefusedBecause) else now


def _served_at(record: GroupRecord, since: float, now: float) -> float:
    """Return the time at which the serving group began to serve: its proof, if that is newer than the trouble."""
    proven = record.proven_at
    return proven if proven is not None and since <= proven <= now else now


def _end(incident: Incident, snapshots: Snapshots) -> Entry | None:
    """Return the end of the incident; None if its object has not recovered."""
    now = snapshots.now
    replica = incident.replica
    if replica is not None:
        if not snapshots.wants(replica):
            return _ended(now, f"{replica} is no longer wanted", "unwanted")
        record = snapshots.memory.groups.get(replica)
        if record is None or serving(record, snapshots.observed) is None:
            return None
        if record.epoch <= incident.epoch_before:
            return _ended(
                now, f"{replica} continues to serve as epoch {record.epoch}", "continues", record.epoch
            )
        at = _served_at(record, incident.opened_at, now)
        up = max(0.0, at - record.created_at)
        end = _ended(at, f"{replica} serves again as epoch {record.epoch}", "serves", record.epoch)
        return replace(end, seconds=up)
    if isinstance(incident.subject, NodeSubject):
        name = incident.subject.node
        if name not in snapshots.desired.nodes:
            return _ended(now, f"{name} is no longer a node of this cluster", "unwanted")
        node = snapshots.observed.nodes.get(name)
        if node is None or node.contact is not Contact.REACHED or not node.probed:
            return None  # it answers but has not reported its state yet
        return _ended(now, f"{name} can be used again", "usable")
    if isinstance(incident.subject, GatewaySubject):
        return _end_of_gateway(incident.subject.node, snapshots)
    if isinstance(incident.subject, JobSubject):
        return _end_of_job(incident.subject.job, incident.opened_at, snapshots)
    if isinstance(incident.subject, RequestSubject):
        return _ended(now, incident.doing, "refused")
    if isinstance(incident.subject, LinkSubject) and _unseen(incident.subject, snapshots):
        return None
    return _ended(now, "the problem is gone", "gone")


def _end_of_gateway(name: NodeName, snapshots: Snapshots) -> Entry | None:
    """Return the end of an incident of a node's gateway; None if it does not serve, or cannot be seen now."""
    gateway, seen = snapshots.desired.gateway, snapshots.observed.gateways_on_nodes.get(name)
    if gateway is None or name not in gateway.spec.nodes or name not in snapshots.desired.nodes:
        return _ended(snapshots.now, f"no gateway is wanted on {name} any more", "unwanted")
    if seen is None or not (seen.reached and seen.serves):
        return None
    return _ended(snapshots.now, f"the gateway on {name} serves again", "serves")


def _end_of_job(name: JobName, opened_at: float, snapshots: Snapshots) -> Entry:
    """Return the end of an incident of a job, which has no failed run that counts any more."""
    if name not in snapshots.desired.jobs:
        return _ended(snapshots.now, f"job/{name} is no longer wanted", "unwanted")
    runs = snapshots.memory.runs_of(name)
    failed = [run for run in runs if run.ended is not None and run.ended.result is RunResult.FAILED]
    good = makes_good(failed[-1], runs) if failed else None
    if good is None and failed:
        return _ended(snapshots.now, "its spec has changed", "changed")
    if good is None:
        return _ended(snapshots.now, "the failed run is forgotten", "gone")
    if good.ended is None or good.ended.result is not RunResult.SUCCEEDED:
        text = f"run {good.id.index} runs another spec"
        return _ended(max(opened_at, good.created_at), text, "changed", good.id.index)
    text = f"run {good.id.index} has succeeded"
    return _ended(max(opened_at, good.ended.at), text, "succeeded", good.id.index)


def _ended(at: float, text: str, *sign: str | int) -> Entry:
    return Entry(at, EntryKind.OUTCOME, text, sign=tuple(map(str, sign)))


def _unseen(subject: LinkSubject, snapshots: Snapshots) -> bool:
    """Return whether one end of a link belongs to a Node whose view of the link is unknown."""
    declared = (name for name in subject.nodes if name in snapshots.desired.nodes)
    nodes = (snapshots.observed.nodes.get(name) for name in declared)
    return any(node is None or not (node.settled(snapshots.now) and node.probed) for node in nodes)


def _close(incident: Incident, end: Entry) -> Incident:
    ended = _add_entries(incident, [end])
    return replace(ended, closed_at=max(end.at, incident.opened_at), doing="", person="")


# --- messages and events ------------------------------------------------------------------------------


def occasions(before: Incident | None, after: Incident) -> tuple[Occasion, ...]:
    """Return the changes of an incident in one pass that are worth a message."""
    found = []
    if before is None:
        found.append(Occasion.OPENED)
    if len(after.asked) > (len(before.asked) if before else 0):
        found.append(Occasion.PERSON_NEEDED)
    if after.settled and not (before and before.settled):
        found.append(Occasion.CLOSED)
    return tuple(found)


def event(incident: Incident, occasion: Occasion, now: float) -> Event:
    """Return an occasion as an event, with a key that prevents duplicates."""
    reason = {
        Occasion.OPENED: "IncidentOpened",
        Occasion.PERSON_NEEDED: "PersonNeeded",
        Occasion.CLOSED: "IncidentClosed",
    }[occasion]
    bad = occasion is not Occasion.CLOSED
    text = notification_text(incident, occasion, now)
    return Event(
        now, incident.object, bad, reason, text, f"incident/{incident.id}/{_key(incident, occasion)}"
    )


def notifications(incident: Incident, occasion: Occasion, desired: Desired, now: float) -> list[Notification]:
    """Return an occasion as messages to the Notifiers that want it."""
    mark = {Occasion.OPENED: "[opened]", Occasion.PERSON_NEEDED: "[person needed]", Occasion.CLOSED: "[over]"}
    text = f"{mark[occasion]} {incident.object}: {notification_text(incident, occasion, now)}"
    return [
        Notification(name, incident.id, _key(incident, occasion), now, text[:MESSAGE_CHARACTERS_MAX])
        for name, notifier in sorted(desired.notifiers.items())
        if occasion.value in notifier.spec.tell
    ]


def _key(incident: Incident, occasion: Occasion) -> str:
    """Return the key of an occasion; each request for a person is a separate occasion."""
    return f"{occasion.value}/{len(incident.asked)}" if occasion is Occasion.PERSON_NEEDED else occasion.value


def notification_text(incident: Incident, occasion: Occasion, now: float) -> str:
    """Return an occasion as a sentence, with the command to read more."""
    more = f"reconciler incidents {incident.id}"
    fault = incident.asked[-1] if occasion is Occasion.PERSON_NEEDED else incident.fault
    name = f"{title(fault)} ({fault.value})"
    match occasion:
        case Occasion.OPENED:
            return f"{name}: {_title(incident)}; see: {more}"
        case Occasion.PERSON_NEEDED:
            return f"{name} needs a person: {incident.person}; see: {more}"
        case Occasion.CLOSED:
            end = incident.last(EntryKind.OUTCOME)
            return (
                f"{name} is over after {incident.lasted(now):.1f} s: {end.text if end else ''}; see: {more}"
            )


def summary(incident: Incident) -> str:
    text = what_is_wrong(incident)
    if incident.open and incident.person:
        return f"PERSON NEEDED: {incident.person}" + ("" if text == incident.person else f" ({text})")
    return f"{text}; {incident.doing}" if incident.doing else text


def what_is_wrong(incident: Incident) -> str:
    """Return what is wrong, without the remedy and the steps; of an incident that is over, with its end."""
    if not incident.open:
        end = incident.last(EntryKind.OUTCOME)
        return f"{_title(incident)}; {end.text}" if end else _title(incident)
    latest = incident.last(EntryKind.SEEN) if incident.person else None
    return latest.text if latest else _title(incident)


def _title(incident: Incident) -> str:
    """Return the text of the entry that names the incident."""
    seen = (entry for entry in incident.entries if entry.fault is incident.fault)
    return next((entry.text for entry in seen), title(incident.fault))
