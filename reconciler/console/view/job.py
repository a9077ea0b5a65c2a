"""A job: its state in one line, and its runs."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.console.snapshot import Snapshot
from reconciler.wire import objects
from reconciler.wire.launch import JOB_PREFIX
from reconciler.wire.objects import JobState, condition

from .details import Details, details
from .operation import words
from .state import doing, state_of

STATES = {
    JobState.PENDING: "busy",
    JobState.RUNNING: "busy",
    JobState.FAILED: "bad",
}
"""The colours of states; all others are ready."""


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    state: str
    """``ready``, ``busy`` or ``bad``."""
    word: str
    """Its state, such as ``Running``."""
    text: str
    run: int
    attempt: str
    """Such as ``2/7``; empty before the first."""
    exit: str
    nodes: tuple[str, ...]
    started_at: str | None
    seconds: float | None
    """None before the end of its newest run."""
    next_at: str | None
    standing: str
    """The operations in force on it, in few words."""


@dataclass(frozen=True, slots=True)
class Job:
    line: Line
    runs: tuple[objects.Run, ...]
    """Newest first."""
    details: Details


def jobs(snapshot: Snapshot) -> tuple[Line, ...]:
    return tuple(_line(each) for each in snapshot.jobs)


def job(snapshot: Snapshot, name: str) -> Job | None:
    each = snapshot.job(name)
    if each is None:
        return None
    return Job(_line(each), tuple(reversed(each["status"].get("runs", ()))), details(snapshot, each))


def look_of(state: str) -> str:
    """Return the colour of the state of a job or a run."""
    return STATES.get(state, "ready")


def owner_of(deployment: str) -> str:
    """Return the object of a rank, ``kind/name``, from the name that the rank has for it."""
    if deployment.startswith(JOB_PREFIX):
        return f"job/{deployment.removeprefix(JOB_PREFIX)}"
    return f"modeldeployment/{deployment}"


def _line(each: objects.Job) -> Line:
    status = each["status"]
    word, attempt = status.get("state", JobState.PENDING), status.get("attempt", 0)
    own = look_of(word)
    return Line(
        name=each["metadata"]["name"],
        state="bad" if state_of(each) == "bad" and own != "busy" else own,
        word=word,
        text=doing(each) or condition(each, "Ready")["message"],
        run=status.get("run", 0),
        attempt=f"{attempt}/{status.get('attemptsMax', 1)}" if attempt else "",
        exit=status.get("exit") or "",
        nodes=tuple(status.get("nodes", ())),
        started_at=status.get("startedAt"),
        seconds=status.get("seconds"),
        next_at=status.get("nextSchedule"),
        standing=words(each),
    )
