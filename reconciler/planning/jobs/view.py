"""A view of one run of a job within its world."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from reconciler.planning.context.memory_ledger import Ledger
from reconciler.planning.context.view import WorkloadView
from reconciler.planning.context.world import World
from reconciler.resources import Job
from reconciler.state import Desired, JobName, NodeName, Refusal, RefusedBecause, RunId
from reconciler.state.job_fingerprint import fingerprint
from reconciler.state.jobs import Run


@dataclass(frozen=True, kw_only=True)
class RunView(WorkloadView[RunId]):
    """A run that has not ended."""

    run: Run
    job: Job | None
    """None if no manifest has the job."""

    @cached_property
    def rebooted(self) -> list[NodeName]:
        """List the nodes of its attempt that have restarted since it was placed."""
        if self.record is None:
            return []
        boots = dict(zip(self.record.members, self.record.boots, strict=False))
        return [name for name in self.members if self.world.boot(name) not in ("", boots.get(name, ""))]

    @property
    def active_seconds(self) -> float:
        """Return for how long it has run, over all attempts, without the time for which it was suspended."""
        run, now = self.run, self.world.now
        if run.started_at is None:
            return 0.0
        paused = run.suspended_seconds + (now - run.suspended_at if run.suspended_at is not None else 0.0)
        return now - run.started_at - paused

    def refuse(self, because: RefusedBecause, text: str, person: str = "") -> Refusal:
        """Build a refusal for the run. ``person``: the steps that only a person can take."""
        return Refusal(self.id.key, because, f"{self.id}: {text}", self.id, person)


def look(world: World, ledger: Ledger, run: Run) -> RunView:
    return RunView(
        world=world,
        ledger=ledger,
        id=run.id,
        record=world.memory.groups.get(run.id),
        ranks=world.observed.ranks_of(run.id),
        run=run,
        job=world.desired.jobs.get(run.id.job),
    )


def hash_of(world: World, job: Job) -> str:
    """Return the fingerprint of a job, computed once for each revision."""
    return world.desired.once(_fingerprint, JobName(job.metadata.name))


def _fingerprint(desired: Desired, name: JobName) -> str:
    return fingerprint(desired.jobs[name])
