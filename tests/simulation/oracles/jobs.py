"""Runs of jobs are facts: none begins twice, none disturbs what may not be disturbed, and each comes to its end."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from reconciler.resources import Job, ModelDeployment
from reconciler.state import ObjectKey, ReplicaId, RunId, Waiting, WaitingFor, WorkloadId
from reconciler.state.identity import JobName
from reconciler.state.job_fingerprint import fingerprint
from reconciler.state.jobs import AttemptEnd, Run, RunReason
from reconciler.status import Snapshots
from reconciler.wire.launch import Phase, RankId

from .bounds import ROOM_SECONDS, TOGETHER_SECONDS
from .pruning import REASONS_KEPT_SECONDS, replica_of

if TYPE_CHECKING:
    from tests.simulation.world.machines import Machine
    from tests.simulation.world.ranks import Rank
    from tests.simulation.world.world import World

Spec = tuple[JobName, str]
"""A job with the fingerprint of what it runs."""
WRITES = ("_take_over", "create_run", "put_run", "end_attempt", "allocate", "remove_runs", "release")


class Jobs:
    """Told of every rank, of every write to the store, and of every pass."""

    def __init__(self, world: World, violated: Callable[[str], None]) -> None:
        self._world = world
        self._violated = violated
        self._runs: Mapping[RunId, Run] = {}
        """As the store has them now."""
        self._groups: Mapping[WorkloadId, tuple[str, ...]] = {}
        self._started: dict[tuple[RunId, str], float] = {}
        """When the first rank of each run started, with its fingerprint."""
        self._over: dict[tuple[RunId, str], RunReason] = {}
        """The runs whose end was written."""
        self._lost: dict[Spec, set[tuple[RunId, int]]] = {}
        """The attempts of each spec whose machine went down beneath them."""
        self._times: dict[tuple[JobName, float], RunId] = {}
        self._changed: dict[ObjectKey, float] = {}
        self._finished: set[tuple[RunId, int]] = set()
        """The attempts of which a rank has ended."""
        self._crowded: dict[RunId, float] = {}
        """Since when attempts that have nodes wait for others to leave them."""

    # --- starts --------------------------------------------------------------------------------

    def started(self, rank: Rank) -> None:
        """A rank has begun to live."""
        world, run = self._world, replica_of(rank.id)
        self._check_alone(rank)
        if not isinstance(run, RunId):
            return
        mark = rank.spec.group
        self._check_once(rank, run, mark)
        epoch = (run, rank.id.epoch)
        first = not any(
            replica_of(o.id) == run and o.id.epoch == rank.id.epoch for o in world.ranks() if o is not rank
        )
        self._started.setdefault((run, mark), world.loop.now)
        if first:
            self._finished.discard(epoch)
            world.loop.call_later(TOGETHER_SECONDS, self._check_together, epoch)

    def _check_alone(self, rank: Rank) -> None:
        """A rank of a job without ``memory`` has its machine to itself."""
        others = [each for each in rank.machine.alive() if each is not rank]
        for each in (rank, *others):
            if others and self._is_exclusive(each) and not self._shares(each):
                self._violated(
                    f"{rank} was started on {rank.node} beside {others[0]}, and {each} has it to itself"
                )
                return

    def _is_exclusive(self, rank: Rank) -> bool:
        run = replica_of(rank.id)
        jobs = [job for job in self._ever(run.key) if fingerprint(job) == rank.spec.group]
        return isinstance(run, RunId) and any(job.spec.memory is None for job in jobs)

    def _shares(self, rank: Rank) -> bool:
        """Whether nobody could know of it: its machine was away for too long, or a store was lost."""
        return rank in self._world.strays

    def _check_once(self, rank: Rank, run: RunId, mark: str) -> None:
        if (run, mark) in self._over:
            if self._knowable(run, mark, rank.id):
                self._violated(f"{rank} was started, and {run} had ended ({self._over[run, mark].value})")
            else:
                del self._over[run, mark]  # this is another run of the same number
        job = next((job for job in reversed(self._ever(run.key)) if fingerprint(job) == mark), None)
        if job is not None and job.spec.schedule is None:
            for other, its_mark in self._started:
                if (
                    other.job == run.job
                    and other != run
                    and its_mark == mark
                    and self._knowable(other, mark, rank.id)
                ):
                    self._violated(f"{rank} was started, and {other} has run the same")
        known = self._runs.get(run)
        if known is not None and known.scheduled_at is not None:
            first = self._times.setdefault((run.job, known.scheduled_at), run)
            if first != run and self._knowable(first, mark, rank.id):
                self._violated(
                    f"{rank} was started for {known.scheduled_at}, and {first} was for the same time"
                )
        for other, its_mark in self._over:
            harmful = self._over[other, its_mark] is RunReason.NODE_LOSS and its_mark == mark
            if other.job == run.job and other != run and harmful and self._knowable(other, mark, rank.id):
                self._violated(f"{rank} was started, and {other} has lost nodes twice")

    def _knowable(self, run: RunId, mark: str, new: RankId) -> bool:
        """Whether a controller could know of a run as a new rank starts: its store was never lost, or a node that has told it
        of its ranks has a record of an earlier attempt."""
        world = self._world
        if not world.store_lost:
            return True
        told = (
            world.oracles.told_of(world.controller.process) if world.controller is not None else frozenset()
        )
        return any(
            replica_of(id) == run
            and files.spec.group == mark
            and (id.replica, id.epoch) != (new.replica, new.epoch)
            for machine in world.machines.values()
            for id, files in machine.disk.ranks.items()
            if (machine.name, id) in told
        )

    def _check_together(self, epoch: tuple[RunId, int]) -> None:
        """An attempt has all of its ranks, or none."""
        for rank in self._world.ranks():
            meeting = rank.phase in (Phase.STARTING, Phase.RENDEZVOUS)
            able = rank.machine.reachable and not rank.stuck and not rank.stopped and rank.shim.process.alive
            if (replica_of(rank.id), rank.id.epoch) == epoch and meeting and able:
                self._violated(f"{rank} on {rank.node} has waited for the others for {TOGETHER_SECONDS:g} s")

    # --- ends ----------------------------------------------------------------------------------

    def ended(self, rank: Rank) -> None:
        """A rank lives no more."""
        run = replica_of(rank.id)
        if isinstance(run, RunId):
            self._finished.add((run, rank.id.epoch))

    def machine_lost(self, machine: Machine) -> None:
        """A machine goes down with all that runs on it."""
        for rank in machine.alive():
            run = replica_of(rank.id)
            if isinstance(run, RunId):
                self._lost.setdefault((run.job, rank.spec.group), set()).add((run, rank.id.epoch))

    def terminated(self, rank: Rank) -> None:
        """A rank is asked to end: of a job, because something is wrong with its attempt, or nobody wants it."""
        run = replica_of(rank.id)
        if isinstance(run, RunId) and self._is_well(run, rank) and not self._is_unwanted(run, rank):
            self._violated(f"{rank} on {rank.node} was asked to end, and its attempt was well")

    def _is_well(self, run: RunId, rank: Rank) -> bool:
        return self._world.complete(rank) and (run, rank.id.epoch) not in self._finished

    def _is_unwanted(self, run: RunId, rank: Rank) -> bool:
        world, now = self._world, self._world.loop.now
        nodes = {r.node for r in (rank, *world.group_of(rank))}
        touched = {run.key, *(ObjectKey("Node", name) for name in nodes)}
        if any(now - self._changed.get(key, -math.inf) < REASONS_KEPT_SECONDS for key in touched):
            return True
        if world.oracles.is_excused(run):
            return True
        job = self._job(run.job)
        if job is None or job.spec.suspend or fingerprint(job) != rank.spec.group:
            return True
        spec = job.spec
        known = self._runs.get(run)
        if spec.active_deadline is not None and (
            known is None
            or known.started_at is None
            or world.wall() - known.started_at >= spec.active_deadline - 1.0
        ):
            return True
        return spec.concurrency_policy == "Replace" or (spec.cancelled_run or 0) >= run.index

    # --- preemption ----------------------------------------------------------------------------

    def displaced(self, rank: Rank) -> bool:
        """Whether a rank of a deployment may go for a job."""
        group = (rank, *self._world.group_of(rank))
        return self.displaces(replica_of(rank.id), {each.node for each in group})

    def displaces(self, workload: WorkloadId, nodes: Collection[str] | None = None) -> bool:
        """Whether a job has taken nodes from deployments such as this replica's, or some of these nodes."""
        if not isinstance(workload, ReplicaId):
            return False
        return any(nodes is None or not set(on).isdisjoint(nodes) for on in self._taking(workload))

    def _taking(self, replica: ReplicaId) -> Iterator[Collection[str]]:
        """Yield the nodes of each run that may take those of a replica, by the manifests of now or of a moment ago; all
        nodes, if a run has none yet."""
        for manifests in self._world.commits[-2:]:
            deployments = [
                m.spec
                for m in manifests
                if isinstance(m, ModelDeployment) and m.metadata.name == replica.deployment
            ]
            lowest = min((spec.priority for spec in deployments if spec.preemptible), default=None)
            for m in manifests:
                if isinstance(m, Job) and m.spec.preempt and lowest is not None and lowest < m.spec.priority:
                    yield from self._nodes_of(JobName(m.metadata.name), fingerprint(m))

    def _nodes_of(self, name: JobName, mark: str) -> Iterator[Collection[str]]:
        """Yield the nodes of the runs of a job; all nodes, if a run is to be placed."""
        placed = [nodes for run, nodes in self._groups.items() if isinstance(run, RunId) and run.job == name]
        runs = [run for run in self._runs.values() if run.id.job == name and run.fingerprint == mark]
        yield from placed
        if (not placed and not all(run.ended for run in runs)) or not runs:
            yield self._world.machines.keys()

    def holds_up(self, workload: WorkloadId) -> bool:
        """Whether a replica without a group may wait for nodes that a run has."""
        return workload not in self._groups and any(isinstance(each, RunId) for each in self._groups)

    # --- what is written -----------------------------------------------------------------------

    def committed(self, changed: Collection[ObjectKey]) -> None:
        """There are other manifests."""
        self._changed.update(dict.fromkeys(changed, self._world.loop.now))

    def stored(self, label: str) -> None:
        """The store was written to."""
        if label not in WRITES:
            return
        stored = self._world.stored
        self._runs, self._groups = stored.runs(), stored.groups()
        for id, run in self._runs.items():
            limit = max((job.spec.backoff_limit for job in self._ever(id.key)), default=0)
            if run.failures > limit + 1:
                self._violated(f"{id} has failed {run.failures} times, and spec.backoffLimit is {limit}")
            if run.node_losses > 2:
                self._violated(f"{id} has lost nodes {run.node_losses} times")
            if run.ended is not None:
                self._over.setdefault((id, run.fingerprint), run.ended.reason)
                if id in self._groups:
                    self._violated(f"{id} has ended, and has nodes")
                if (
                    run.ended.reason is RunReason.COMPLETED
                    and run.attempts[-1].end is not AttemptEnd.COMPLETED
                ):
                    self._violated(f"{id} has succeeded, and its last attempt has not")
            before = self._over.get((id, run.fingerprint))
            if before is not None and run.ended is None and not self._world.store_lost:
                self._violated(f"{id} had ended ({before.value}), and goes on")
        self._world.oracles.service.look()

    def forgotten(self, id: RankId) -> None:
        """What is left of a rank is removed: of the last attempt of the last run it is what a lost store could learn from."""
        run = replica_of(id)
        if not isinstance(run, RunId) or not self._world.oracles.pruning.wanted(run.key):
            return
        known = [
            (replica_of(each), each.epoch)
            for machine in self._world.machines.values()
            for each in machine.disk.ranks
            if each.deployment == id.deployment
        ]
        newest = max((each.index, epoch) for each, epoch in known)
        last = max((each.index for each in self._runs if each.job == run.job), default=0)
        if (run.index, id.epoch) >= newest and run.index >= last:
            self._violated(f"the record of {id} is removed, and nothing newer of {run.key} is known")

    def planned(self, last: Snapshots) -> None:
        """A pass has decided: whoever has nodes waits for others to leave them, but not for ever."""
        now = self._world.loop.now
        crowded = {
            each.workload
            for each in last.plan.waiting
            if each.reason is WaitingFor.ROOM
            and isinstance(each.workload, RunId)
            and each.workload in last.memory.groups
        }
        self._crowded = {run: self._crowded.get(run, now) for run in crowded if isinstance(run, RunId)}
        disturbed = max(self._world.disturbed, default=-math.inf)
        for run, since in self._crowded.items():
            if now - max(since, disturbed) > ROOM_SECONDS:
                self._violated(f"{run} has nodes, and others have not left them for {now - since:.0f} s")
                self._crowded[run] = now

    # --- in the end ----------------------------------------------------------------------------

    def may_wait(self, each: Waiting) -> bool:
        """Whether a job waits for nodes that it never gets."""
        return (
            each.reason is WaitingFor.ROOM
            and each.object.kind == "Job"
            and each.object.name in self._world.waiting
        )

    def more_seconds(self) -> float:
        """For how much longer a run may go on: a clock that was set back lengthens its limit."""
        limited = any(isinstance(m, Job) and m.spec.active_deadline for m in self._world.wanted())
        return 3600.0 * self._world.jumps if limited else 0.0

    def missing(self) -> str:
        """What is not as it should be in the end; empty once every run has ended."""
        world, runs = self._world, self._world.stored.runs()
        jobs = {JobName(m.metadata.name): m for m in world.wanted() if isinstance(m, Job)}
        for id, run in runs.items():
            job = jobs.get(id.job)
            if run.ended is None and not (job is not None and (job.spec.suspend or id.job in world.waiting)):
                return f"{id} has not ended"
        for name, job in jobs.items():
            ran = any(id.job == name and run.fingerprint == fingerprint(job) for id, run in runs.items())
            if job.spec.schedule is None and not job.spec.suspend and not ran and name not in world.waiting:
                return f"job/{name} has not run"
        for rank in world.ranks():
            run_id = replica_of(rank.id)
            if isinstance(run_id, RunId):
                return f"{rank} lives on {rank.node}, and its run has ended"
        return ""

    # --- manifests -----------------------------------------------------------------------------

    def _job(self, name: JobName) -> Job | None:
        return next((m for m in self._world.wanted() if isinstance(m, Job) and m.metadata.name == name), None)

    def _ever(self, key: ObjectKey) -> list[Job]:
        """All manifests that a job ever had."""
        return [
            m
            for manifests in self._world.commits
            for m in manifests
            if isinstance(m, Job) and key == ObjectKey("Job", m.metadata.name)
        ]


def is_retention(label: str) -> bool:
    """Whether an effect only removes what nodes no longer keep of jobs, which falls due while nothing else happens."""
    return (
        "forget_rank to" in label
        or " the directory of job_" in label
        or label in ("store: add_events", "store: put_statuses")
    )
