"""An incident: a fault, from its first sign to its end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from reconciler.state.cause import RefusedBecause
from reconciler.state.faults import FaultClass, Sign
from reconciler.state.identity import ObjectKey, ReplicaId
from reconciler.state.jobs import RunReason
from reconciler.state.subjects import ReplicaSubject, Subject
from reconciler.wire.launch import RankId

Class = FaultClass | RefusedBecause | RunReason
"""The class of an incident: of a fault of machines and groups, the reason why nothing serves without any, or the reason
for which a run of a job has failed."""


def title(class_: Class) -> str:
    """Return the title of a class, such as ``rank crash``."""
    match class_:
        case FaultClass():
            return class_.title
        case RunReason.NODE_LOSS:
            return "job that nodes were lost with"
        case RunReason():
            return "job failed"
        case RefusedBecause():
            return "not served"


class EntryKind(Enum):
    """The kind of an entry: a sign, a remedy, an outcome or a task for a person."""

    SEEN = "seen"
    TRIED = "tried"
    OUTCOME = "outcome"
    PERSON = "person"
    """Steps that only a person can take."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the incident's history."""

    at: float
    """Time in seconds since the Unix epoch."""
    kind: EntryKind
    text: str
    fault: Class | None = None
    """Class of the fault; only for signs."""
    seconds: float | None = None
    """Duration, if known."""
    times: int = 1
    """Number of repetitions in a row; a repeated entry keeps its first time."""
    last_at: float | None = None
    """Time of the latest repetition; None if it was not repeated."""
    sign: Sign | None = None
    """The key of what it tells: entries of one kind and sign are repetitions. None in entries of earlier versions."""
    rank: RankId | None = None
    """The rank whose end it tells; None if it tells of none, and in entries of earlier versions."""


class Occasion(Enum):
    """An occasion for a message about an incident, each sent once."""

    OPENED = "opened"
    PERSON_NEEDED = "personNeeded"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Incident:
    """A fault of one subject, with its history. It is open until its trouble is gone and its object is well again."""

    id: int
    object: ObjectKey
    subject: Subject
    """``Trouble.subject``."""
    fault: Class
    """The first of its classes in the order of classes, which explains the symptoms of later ones. For a machine, only
    classes count that were seen before the first remedy."""
    opened_at: float
    closed_at: float | None = None
    """Time of recovery; None before."""
    settled: bool = False
    """True if recovery was so long ago that a new problem is a new incident."""
    present: Class | None = None
    """The class of its trouble in the last plan; None if the trouble is gone."""
    doing: str = ""
    person: str = ""
    """The steps for a person in the last plan; empty if no person is needed."""
    asked: tuple[Class, ...] = ()
    """The classes for which a person was asked, once for each."""
    reopened: int = 0
    """Number of times that it came back before it was settled."""
    unserved_since: float | None = None
    """Time since which its replica does not serve; None while it serves, and for an incident without a replica."""
    unserved_seconds: float = 0.0
    """Seconds for which its replica did not serve while the incident was open."""
    epoch_before: int = 0
    """The highest epoch of its replica when it began or came back: later epochs are remedies."""
    epoch: int = 0
    """The highest epoch whose formation has an entry."""
    entries: tuple[Entry, ...] = ()
    left_out: int = 0
    """Entries in the middle of a long history that are not kept."""

    @property
    def replica(self) -> ReplicaId | None:
        return self.subject.replica if isinstance(self.subject, ReplicaSubject) else None

    @property
    def open(self) -> bool:
        return self.closed_at is None

    def lasted(self, now: float) -> float:
        """Return the seconds from the first sign to the end, or to now."""
        return max(0.0, (now if self.closed_at is None else self.closed_at) - self.opened_at)

    def unserved(self, now: float) -> float:
        """Return the seconds for which its replica did not serve, up to now."""
        running = 0.0 if self.unserved_since is None else max(0.0, now - self.unserved_since)
        return self.unserved_seconds + running

    def first(self, kind: EntryKind) -> Entry | None:
        return next((entry for entry in self.entries if entry.kind is kind), None)

    def last(self, kind: EntryKind) -> Entry | None:
        return next((entry for entry in reversed(self.entries) if entry.kind is kind), None)
