"""A job: its runs with their attempts and ranks, its artifacts, and its part of the plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.console.snapshot import Snapshot
from reconciler.wire import answers, objects
from reconciler.wire.launch import JOB_PREFIX, Phase
from reconciler.wire.objects import JobState, condition

from .deployment import EVENTS_SHOWN, HELD_BY_WINDOW, INCIDENTS_SHOWN, spec_lines
from .operation import words
from .quantities import size
from .state import doing, state_of

STATES = {
    JobState.PENDING: "busy",
    JobState.RUNNING: "busy",
    JobState.FAILED: "bad",
}
"""The colours of states; all others are ready."""


@dataclass(frozen=True, slots=True)
class Line:
    """A job, in one line."""

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
class Rank:
    """A rank of an attempt."""

    number: int
    node: str
    state: str
    word: str
    """Its phase, or its exit as ``code:signal``."""
    text: str
    log: str
    """Its name, as the page of its log has it."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt of a run."""

    number: int
    end: str
    """The reason for its end; empty while it runs."""
    text: str
    transport: str
    started_at: str
    ended_at: str | None
    ranks: tuple[Rank, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """A run."""

    number: int
    state: str
    word: str
    reason: str
    """Empty if it says no more than the state."""
    text: str
    scheduled_at: str | None
    started_at: str | None
    ended_at: str | None
    seconds: float | None
    exit: str
    artifacts: str
    """Say in few words how many files were fetched; empty if there is nothing."""
    missing: str
    """The artifacts that were not fetched, and why."""
    left_out: int
    """Earlier attempts that are not shown."""
    attempts: tuple[Attempt, ...]
    """Newest first."""


@dataclass(frozen=True, slots=True)
class Job:
    """The page of a job."""

    line: Line
    runs: tuple[Run, ...]
    """Newest first."""
    planned: tuple[answers.Obstacle, ...]
    """The plan's waits and refusals."""
    conditions: tuple[objects.Condition, ...]
    events: tuple[answers.EventEntry, ...]
    """Newest first."""
    incidents: tuple[answers.Incident, ...]
    """Newest first."""
    spec: str
    """As in YAML: a line for each field."""


def jobs(snapshot: Snapshot) -> tuple[Line, ...]:
    return tuple(_line(each) for each in snapshot.jobs)


def job(snapshot: Snapshot, name: str) -> Job | None:
    """Return a job; None if there is none of this name."""
    each = snapshot.job(name)
    if each is None:
        return None
    of = f"job/{name}"
    return Job(
        line=_line(each),
        runs=tuple(_run(name, run) for run in reversed(each["status"].get("runs", ()))),
        planned=tuple(entry for entry in snapshot.planned(of) if entry["reason"] != HELD_BY_WINDOW),
        conditions=tuple(each["status"]["conditions"]),
        events=tuple(event for event in reversed(snapshot.events) if event["object"] == of)[:EVENTS_SHOWN],
        incidents=tuple(i for i in reversed(snapshot.incidents) if i["object"] == of)[:INCIDENTS_SHOWN],
        spec="\n".join(spec_lines(each["spec"])),
    )


def owner_of(deployment: str) -> str:
    """Return the object of a rank, ``kind/name``, from the name that the rank has for it."""
    if deployment.startswith(JOB_PREFIX):
        return f"job/{deployment.removeprefix(JOB_PREFIX)}"
    return f"modeldeployment/{deployment}"


def _line(each: objects.Job) -> Line:
    status = each["status"]
    word, attempt = status.get("state", JobState.PENDING), status.get("attempt", 0)
    own = STATES.get(word, "ready")
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


def _run(name: str, run: objects.Run) -> Run:
    found = run["artifacts"]
    fetched = f"{found['files']} files, {size(found['bytes'])}" if found["files"] else ""
    return Run(
        number=run["run"],
        state=STATES.get(run["state"], "ready"),
        word=run["state"],
        reason=run["reason"] if run["reason"] != run["state"] else "",
        text=run["text"],
        scheduled_at=run["scheduledAt"],
        started_at=run["startedAt"],
        ended_at=run["endedAt"],
        seconds=run["seconds"],
        exit=run["exit"] or "",
        artifacts=fetched or ("are being fetched" if found["state"] == "pending" else ""),
        missing=found["text"],
        left_out=run["attemptsLeftOut"],
        attempts=tuple(_attempt(name, run["run"], each) for each in reversed(run["attempts"])),
    )


def _attempt(name: str, run: int, attempt: objects.Attempt) -> Attempt:
    return Attempt(
        number=attempt["number"],
        end=attempt["end"] or "",
        text=attempt["text"],
        transport=attempt["transport"],
        started_at=attempt["startedAt"],
        ended_at=attempt["endedAt"],
        ranks=tuple(_ranks(name, run, attempt)),
    )


def _ranks(name: str, run: int, attempt: objects.Attempt) -> Iterator[Rank]:
    for rank in attempt["ranks"]:
        ended = rank["exit"]
        state = "ready" if ended == "0:0" or rank["phase"] == Phase.READY else "bad" if ended else "busy"
        yield Rank(
            number=rank["rank"],
            node=rank["node"],
            state=state,
            word=f"exit {ended}" if ended else rank["phase"],
            text=rank["text"],
            log=f"{JOB_PREFIX}{name}.{run}.{attempt['epoch']}.{rank['rank']}",
        )
