"""Runs of jobs. They are facts: a run that is stored does not begin again, whatever happens to manifests or controllers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from reconciler.wire.launch import Exit

from .identity import NodeName, RunId


class AttemptEnd(Enum):
    """The reasons for the end of an attempt."""

    COMPLETED = "Completed"
    """All ranks have ended with exit status 0."""
    RANK_FAILED = "RankFailed"
    RANK_MISSING = "RankMissing"
    """A rank did not start, or its node no longer knows it."""
    NODE_LOST = "NodeLost"
    """A node does not answer, or has restarted meanwhile."""
    DRAINED = "NodeDrained"
    SUSPENDED = "Suspended"
    DEADLINE = "DeadlineExceeded"
    CANCELLED = "Cancelled"
    REPLACED = "Replaced"
    """Another run takes its place, or its job is gone."""
    STORE_LOST = "StoreLost"
    """The store had forgotten it, and not all of its ranks are known."""


COUNTED = (AttemptEnd.RANK_FAILED, AttemptEnd.RANK_MISSING)
"""Ends that count against ``backoffLimit``."""


class RunResult(Enum):
    """The results of runs."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"


class RunReason(Enum):
    """The reasons for results."""

    COMPLETED = "Completed"
    BACKOFF_LIMIT = "BackoffLimitExceeded"
    EXIT_CODE = "FailOnExitCode"
    DEADLINE = "DeadlineExceeded"
    NODE_LOSS = "CausedNodeLoss"
    """Nodes were lost twice while it ran."""
    CANCELLED = "Cancelled"
    REPLACED = "Replaced"
    DELETED = "JobDeleted"


@dataclass(frozen=True, slots=True)
class RankEnd:
    """The end of one rank; ``exit`` is None if it is not known."""

    node: NodeName
    exit: Exit | None


@dataclass(frozen=True, slots=True)
class RunAttempt:
    """An attempt of a run that has ended."""

    epoch: int
    started_at: float
    """Time in seconds since the Unix epoch, as all times here."""
    ended_at: float
    end: AttemptEnd
    text: str
    """The end, for people."""
    ranks: tuple[RankEnd, ...]
    """In the order of ranks."""
    transport: str = ""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The end of a run."""

    result: RunResult
    reason: RunReason
    at: float
    text: str
    """The reason, for people."""


class Fetched(Enum):
    """States of the artifacts of a run."""

    NONE = "none"
    """The job has no artifacts, or the run has not ended."""
    PENDING = "pending"
    DONE = "fetched"
    PARTLY = "partly"
    """Some could not be fetched."""


@dataclass(frozen=True, slots=True)
class Artifacts:
    """The artifacts of a run, in the home of the controller."""

    state: Fetched = Fetched.NONE
    files: int = 0
    size: int = 0
    """Bytes of all files."""
    text: str = ""
    """The files that are missing and why, for people; empty if there are none."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a job."""

    id: RunId
    fingerprint: str
    """Hash of the spec that it runs (``job_fingerprint``)."""
    created_at: float
    scheduled_at: float | None = None
    """The time of its schedule; None for a run that the manifest itself asks for."""
    started_at: float | None = None
    """The time at which its first attempt was placed."""
    suspended_seconds: float = 0.0
    """Time without an attempt since then because it was suspended."""
    suspended_at: float | None = None
    """Set while it is suspended."""
    attempts: tuple[RunAttempt, ...] = ()
    """Those that have ended, oldest first."""
    ended: RunEnd | None = None
    artifacts: Artifacts = Artifacts()

    @property
    def failures(self) -> int:
        """Return how many attempts count against ``backoffLimit``."""
        return sum(each.end in COUNTED for each in self.attempts)

    @property
    def node_losses(self) -> int:
        return sum(each.end is AttemptEnd.NODE_LOST for each in self.attempts)
