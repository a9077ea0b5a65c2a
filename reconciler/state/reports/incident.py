"""An incident: something that was wrong for a while, told from its first sign to its end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from reconciler.state.faults import FaultClass
from reconciler.state.identity import ObjectKey


class Telling(Enum):
    """What an entry tells of."""

    SEEN = "seen"
    TRIED = "tried"
    OUTCOME = "outcome"
    PERSON = "person"
    """What only a person can do."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the story."""

    at: float
    """In seconds since the Unix epoch."""
    kind: Telling
    text: str
    fault: FaultClass | None = None
    """What it was taken for; only of what was seen."""
    seconds: float | None = None
    """How long it took, where that is known."""
    times: int = 1
    """How often in a row: what repeats is told once, with the first time."""


class Occasion(Enum):
    """What is told of an incident to those who did not ask, each once."""

    OPENED = "opened"
    PERSON_NEEDED = "personNeeded"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Incident:
    """One story about one subject. It is open until its trouble is gone and its object is well again."""

    id: int
    object: ObjectKey
    subject: str
    """``Trouble.subject``."""
    fault: FaultClass
    """The first in the order of classes that was seen in it: that explains the symptoms of later ones. Of a machine, of
    what was seen until something was done about it."""
    opened_at: float
    closed_at: float | None = None
    """When all was well again; None as long as it is not."""
    settled: bool = False
    """It has been well for so long that what comes now is another incident."""
    present: FaultClass | None = None
    """The class of its trouble as it was last planned; None where that is gone."""
    doing: str = ""
    """The remedy that was last being tried."""
    person: str = ""
    """What only a person can do, as it was last said; empty where nobody is needed."""
    asked: tuple[FaultClass, ...] = ()
    """The classes for which a person was asked: for each once."""
    reopened: int = 0
    """How often it came back before it was settled."""
    unserved_since: float | None = None
    """Since when its replica does not serve; None while it does, and where it is about no replica."""
    unserved_seconds: float = 0.0
    """How long its replica did not serve until then, while the incident was open."""
    epoch_before: int = 0
    """The highest epoch of its replica when it began, or came back: later ones are remedies."""
    epoch: int = 0
    """The highest epoch whose forming has been told."""
    entries: tuple[Entry, ...] = ()
    left_out: int = 0
    """Entries in the middle of a long story that are not kept."""

    @property
    def open(self) -> bool:
        """Whether it is not over."""
        return self.closed_at is None

    def lasted(self, now: float) -> float:
        """Seconds from the first sign to the end, or to now."""
        return max(0.0, (now if self.closed_at is None else self.closed_at) - self.opened_at)

    def unserved(self, now: float) -> float:
        """Seconds for which its replica did not serve, up to now."""
        running = 0.0 if self.unserved_since is None else max(0.0, now - self.unserved_since)
        return self.unserved_seconds + running

    def first(self, kind: Telling) -> Entry | None:
        """The first entry of a kind."""
        return next((entry for entry in self.entries if entry.kind is kind), None)

    def last(self, kind: Telling) -> Entry | None:
        """The latest entry of a kind."""
        return next((entry for entry in reversed(self.entries) if entry.kind is kind), None)
