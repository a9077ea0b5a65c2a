"""The steps of a plan for runs of jobs. Steps about their ranks are those of all workloads, in ``plan``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .identity import NodeName, ObjectKey, RunId
from .jobs import Run, RunAttempt, RunEnd
from .memory import GroupRecord
from .subjects import RunSubject


@dataclass(frozen=True, slots=True)
class _OfRun:
    """Common part of steps that write a run."""

    verb: ClassVar[str]
    run: Run
    """The run after the step."""

    @property
    def id(self) -> RunId:
        return self.run.id

    @property
    def key(self) -> str:
        return f"{self.verb}/{self.run.id}"

    @property
    def subject(self) -> str:
        return str(RunSubject(self.run.id))

    @property
    def object(self) -> ObjectKey:
        return self.run.id.key


@dataclass(frozen=True, slots=True)
class CreateRun(_OfRun):
    """Write a run to the store. From then on it has begun, and does not begin again."""

    verb: ClassVar[str] = "create-run"
    why: str
    """The occasion, for people."""
    group: GroupRecord | None = None
    """Its attempt, if it has nodes already."""

    def __str__(self) -> str:
        place = f" on {', '.join(self.group.members)}" if self.group is not None else ""
        return f"begin {self.run.id}{place} ({self.why})"


@dataclass(frozen=True, slots=True)
class EndAttempt(_OfRun):
    """Write the end of an attempt, all of whose ranks are gone, and free its nodes. It may end the run."""

    verb: ClassVar[str] = "end-attempt"

    @property
    def attempt(self) -> RunAttempt:
        return self.run.attempts[-1]

    def __str__(self) -> str:
        end = f"; {_result(self.run.ended)}" if self.run.ended else ""
        return f"end attempt {len(self.run.attempts)} of {self.run.id} ({self.attempt.text}){end}"


@dataclass(frozen=True, slots=True)
class EndRun(_OfRun):
    """End a run that has no attempt."""

    verb: ClassVar[str] = "end-run"

    def __str__(self) -> str:
        assert self.run.ended is not None
        return f"end {self.run.id}: {_result(self.run.ended)}"


@dataclass(frozen=True, slots=True)
class SuspendRun(_OfRun):
    """Note that a run is suspended, or that it goes on."""

    verb: ClassVar[str] = "suspend-run"

    def __str__(self) -> str:
        return f"{'continue' if self.run.suspended_at is None else 'suspend'} {self.run.id}"


@dataclass(frozen=True, slots=True)
class FetchArtifacts(_OfRun):
    """Fetch the artifacts of a run that has ended."""

    verb: ClassVar[str] = "fetch-artifacts"
    nodes: tuple[NodeName, ...]
    """The nodes of its last attempt, in the order of ranks."""
    epoch: int
    patient: bool = True
    """True to try again if a node gives no answer; else its artifacts are missing."""

    @property
    def subject(self) -> str:
        """Return a separate subject, because it may take long and nothing else has to wait for it."""
        return f"artifacts/{self.run.id}"

    def __str__(self) -> str:
        return f"fetch the artifacts of {self.run.id} from {', '.join(dict.fromkeys(self.nodes))}"


@dataclass(frozen=True, slots=True)
class RemoveRuns:
    """Remove the oldest runs of a job from the store."""

    verb: ClassVar[str] = "remove-runs"
    runs: tuple[RunId, ...]

    @property
    def key(self) -> str:
        return f"{self.verb}/{self.runs[0]}"

    @property
    def subject(self) -> str:
        return f"runs/{self.runs[0].job}"

    @property
    def object(self) -> ObjectKey:
        return self.runs[0].key

    def __str__(self) -> str:
        return f"forget {', '.join(map(str, self.runs))}"


def _result(end: RunEnd) -> str:
    return (
        f"it has {end.result.value.lower()} ({end.reason.value})"
        if end.result.value != "Cancelled"
        else "it is cancelled"
    )


RunStep = CreateRun | EndAttempt | EndRun | SuspendRun | FetchArtifacts | RemoveRuns
