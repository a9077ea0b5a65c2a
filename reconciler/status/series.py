"""The cluster's own metrics: each family of series, and its source. Pure.

Names, units and labels follow https://prometheus.io/docs/practices/naming/ and, where it has the same metric,
kube-state-metrics: ``kube_node_status_condition``, ``kube_deployment_spec_replicas``. All are gauges. Labels are names
of declared objects and values of enums, never a key, a client or a text. So the number of series depends on the number
of declared objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from reconciler.resources.verbs import VERBS
from reconciler.state import Contact, FaultClass, NodeName, NodeObservation, RefusedBecause, WaitingFor
from reconciler.state.identity import ObjectKey
from reconciler.state.jobs import RunReason
from reconciler.state.plan import Plan
from reconciler.state.reports.incident import Incident
from reconciler.wire.launch import Phase
from reconciler.wire.node import RankReport
from reconciler.wire.objects import JobState

from .snapshots import Snapshots, Statuses

OBJECTS_MAX = 1000
"""Most objects of a kind that have series: the first ones by name."""
PHASES = tuple(phase for phase in Phase.ALL if phase != Phase.EXITED)


@dataclass(frozen=True, slots=True)
class View:
    """The input of all series."""

    snapshots: Snapshots
    statuses: Statuses
    incidents: Collection[Incident] = ()
    """All open incidents."""
    verbs: Collection[str] = ()
    """The verb of each operation by which the cluster differs from git."""
    source_up: bool | None = None
    """True if the remote repository gave an answer to the last question; None if there is none, or it was not asked
    yet."""
    answered_at: float | None = None
    """Time of its last answer, in seconds since the Unix epoch."""
    version: str = ""

    def named(self, kind: str) -> Iterator[ObjectKey]:
        """Yield the objects of a kind that have series."""
        found = sorted(key for key in self.snapshots.desired.objects() if key.kind == kind)
        yield from found[:OBJECTS_MAX]

    def reached(self) -> Iterator[NodeObservation]:
        """Yield the nodes whose agent answers now."""
        for key in self.named("Node"):
            seen = self.snapshots.observed.nodes.get(NodeName(key.name))
            if seen is not None and seen.contact is Contact.REACHED:
                yield seen

    def ranks(self) -> Iterator[RankReport]:
        """Yield the ranks that run on these nodes."""
        yield from (rank.report for seen in self.reached() for rank in seen.ranks if rank.alive)


Value = float | None
"""None if the value is not known: there is no series then."""
Series = Iterable[tuple[tuple[str, ...], Value]]
"""The values of the labels, and the value of each series."""


@dataclass(frozen=True, slots=True)
class Family:
    """All series of one name."""

    name: str
    labels: tuple[str, ...]
    text: str
    of: Callable[[View], Series]

    def series(self, view: View) -> list[tuple[tuple[str, ...], float]]:
        return [(labels, float(value)) for labels, value in self.of(view) if value is not None]


def _one(of: Callable[[View], Value]) -> Callable[[View], Series]:
    return lambda view: (((), of(view)),)


def _counted(every: Iterable[str], of: Callable[[View], Iterable[str]]) -> Callable[[View], Series]:
    """Return how often each name occurs, including those that never do, because an alert needs a series before it
    fires."""
    names = tuple(every)

    def series(view: View) -> Series:
        counts = Counter(of(view))
        return (((name,), counts[name]) for name in names)

    return series


def _each(kind: str, of: Callable[[View, ObjectKey], Value]) -> Callable[[View], Series]:
    return lambda view: (((key.name,), of(view, key)) for key in view.named(kind))


def _of_nodes(of: Callable[[NodeObservation], Value]) -> Callable[[View], Series]:
    return lambda view: (((seen.name,), of(seen)) for seen in view.reached())


def _conditions(kind: str, label: str) -> Family:
    def series(view: View) -> Series:
        for key in view.named(kind):
            if (status := view.statuses.get(key)) is not None:
                yield from (((key.name, each.type), each.status) for each in status.conditions)

    text = f"1 while the condition of the {kind} holds, else 0."
    return Family(f"reconciler_{label}_status_condition", (label, "condition"), text, series)


def _lost(view: View, key: ObjectKey) -> bool:
    """Return whether a node counts as lost, and nobody has asked it to restart."""
    plan, away = view.snapshots.plan, FaultClass.HOST_UNREACHABLE
    kept_out = any(each.node == key.name and each.fault is away for each in plan.quarantined)
    return kept_out and any(each.object == key and each.fault is away for each in plan.troubles)


def _extra(field: str, kind: str = "ModelDeployment") -> Callable[[View], Series]:
    def value(view: View, key: ObjectKey) -> Value:
        status = view.statuses.get(key)
        return None if status is None else status.extra.get(field)

    return _each(kind, value)


def _active(view: View, key: ObjectKey) -> Value:
    status = view.statuses.get(key)
    return None if status is None else status.extra.get("state") == JobState.RUNNING


def _waits(plan: Plan, key: ObjectKey) -> int:
    waiting = (each.workload for each in plan.waiting if each.reason is WaitingFor.BACK_OFF)
    return len({workload for workload in waiting if workload and workload.key == key})


def _phases(view: View) -> Series:
    counts = Counter((rank.id.deployment, rank.phase) for rank in view.ranks())
    for key in view.named("ModelDeployment"):
        yield from (((key.name, phase), counts[key.name, phase]) for phase in PHASES)


def _bytes(of: Callable[[RankReport], int]) -> Callable[[View], Series]:
    def series(view: View) -> Series:
        sums = Counter[str]()
        for rank in view.ranks():
            sums[rank.id.deployment] += of(rank)
        return (((key.name,), sums[key.name]) for key in view.named("ModelDeployment"))

    return series


_NOT_SERVED, _JOB_FAILED = "NotServed", "JobFailed"
_CLASSES = (*(fault.value for fault in FaultClass), _NOT_SERVED, _JOB_FAILED)


def _class(incident: Incident) -> str:
    """Return the class of an incident; one for all refusals, and one for all jobs that have failed."""
    if isinstance(incident.fault, FaultClass):
        return incident.fault.value
    return _JOB_FAILED if isinstance(incident.fault, RunReason) else _NOT_SERVED


FAMILIES = (
    Family("reconciler_build_info", ("version",), "The controller's version; always 1.", lambda view: (((view.version,), 1),)),
    Family("reconciler_last_pass_timestamp_seconds", (), "When the controller last observed and planned.", _one(lambda view: view.snapshots.now or None)),
    Family("reconciler_incidents_open", ("class",), "Open incidents, by class of faults; `NotServed` and `JobFailed` without one.", _counted(_CLASSES, lambda view: map(_class, view.incidents))),
    Family("reconciler_incidents_person_needed", ("class",), "Those of them that only a person can end.", _counted(_CLASSES, lambda view: (_class(each) for each in view.incidents if each.person))),
    Family("reconciler_plan_waiting", ("reason",), "What the last plan waits for.", _counted((each.value for each in WaitingFor), lambda view: (each.reason.value for each in view.snapshots.plan.waiting))),
    Family("reconciler_plan_refused", ("reason",), "What it refuses until a person changes something.", _counted((each.value for each in RefusedBecause), lambda view: (each.reason.value for each in view.snapshots.plan.refused))),
    Family("reconciler_operations_in_force", ("verb",), "Operations by which the cluster differs from git, such as `suspend` and `cordon`.", _counted(VERBS, lambda view: view.verbs)),
    Family("reconciler_operations_rejected", (), "1 while newer operations are wrong.", _one(lambda view: view.snapshots.desired.operations_rejection is not None)),
    Family("reconciler_revision_held", (), "1 while a newer revision waits for an approval.", _one(lambda view: view.snapshots.desired.hold is not None)),
    Family("reconciler_revision_rejected", (), "1 while a newer revision is wrong or refused, or the source cannot be read.", _one(lambda view: view.snapshots.desired.rejection is not None)),
    Family("reconciler_revision_suspended", (), "1 while a newer revision waits because the cluster is suspended.", _one(lambda view: view.snapshots.desired.suspended is not None)),
    Family("reconciler_changes_held", (), "Changes of objects that sync windows keep out.", _one(lambda view: len(held.changes) if (held := view.snapshots.desired.held_changes) else 0)),
    Family("reconciler_source_up", (), "1 if the remote repository answered when it was last asked, else 0.", _one(lambda view: view.source_up)),
    Family("reconciler_source_last_success_timestamp_seconds", (), "When it last did, since the controller started.", _one(lambda view: view.answered_at)),
    _conditions("Node", "node"),
    Family("reconciler_node_lost", ("node",), "1 while the node has not answered for longer than its `lostAfter`, and was not asked to restart.", _each("Node", _lost)),
    Family("reconciler_node_unschedulable", ("node",), "1 while the node takes no new ranks: cordoned or drained.", _each("Node", lambda view, key: view.snapshots.desired.nodes[NodeName(key.name)].spec.unschedulable)),
    Family("reconciler_node_memory_total_bytes", ("node",), "Memory of the machine.", _of_nodes(lambda seen: seen.report.memory_bytes if seen.report else None)),
    Family("reconciler_node_memory_free_bytes", ("node",), "Memory that programs can get without swapping.", _of_nodes(lambda seen: seen.report.load.memory_free_bytes if seen.report and seen.report.load else None)),
    Family("reconciler_node_gpu_power_watts", ("node",), "Power of the GPU.", _of_nodes(lambda seen: seen.facts.gpu_watts)),
    Family("reconciler_node_throttled", ("node",), "1 while heat throttles the machine.", _of_nodes(lambda seen: seen.facts.throttled)),
    Family("reconciler_deployment_spec_replicas", ("deployment",), "Replicas wanted.", _extra("replicas")),
    Family("reconciler_deployment_status_replicas_ready", ("deployment",), "Replicas that serve.", _extra("readyReplicas")),
    Family("reconciler_deployment_status_replicas_updated", ("deployment",), "Replicas with the newest spec.", _extra("updatedReplicas")),
    Family("reconciler_deployment_status_replicas_back_off", ("deployment",), "Replicas whose next attempt waits after failures.", _each("ModelDeployment", lambda view, key: _waits(view.snapshots.plan, key))),
    _conditions("ModelDeployment", "deployment"),
    Family("reconciler_deployment_ranks", ("deployment", "phase"), "Ranks that run, by phase; those in `loading` load weights now.", _phases),
    Family("reconciler_deployment_load_bytes", ("deployment",), "Weights that they hold when loaded.", _bytes(lambda rank: rank.total_bytes)),
    Family("reconciler_deployment_loaded_bytes", ("deployment",), "Weights that they have loaded so far.", _bytes(lambda rank: rank.loaded_bytes)),
    _conditions("Job", "job"),
    Family("reconciler_job_status_active", ("job",), "1 while a run runs, else 0.", _each("Job", _active)),
    Family("reconciler_job_status_run", ("job",), "Number of the newest run, which grows with each; 0 before the first.", _extra("run", "Job")),
    Family("reconciler_job_status_attempt", ("job",), "Number of its attempt, of those that count against `backoffLimit`.", _extra("attempt", "Job")),
    Family("reconciler_job_status_start_time", ("job",), "When it started, in seconds since the Unix epoch.", _extra("startedAt", "Job")),
    Family("reconciler_job_status_completion_time", ("job",), "When it ended; none while it runs.", _extra("endedAt", "Job")),
    Family("reconciler_job_status_duration_seconds", ("job",), "Time from its first start to its end; none while it runs.", _extra("seconds", "Job")),
    Family("reconciler_job_next_schedule_time", ("job",), "When the schedule begins the next run.", _extra("nextSchedule", "Job")),
    _conditions("Model", "model"),
    _conditions("Fabric", "fabric"),
    _conditions("Gateway", "gateway"),
)  # fmt: skip
"""Every family, in the order of the page."""
