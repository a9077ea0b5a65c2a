"""The state of the remote repository that ``main`` follows. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.console.snapshot import Snapshot
from reconciler.wire import answers

COMMAND = "reconciler source show"


@dataclass(frozen=True, slots=True)
class Remote:
    """The remote repository, in one line."""

    url: str
    branch: str
    state: str
    """``ready``, ``busy`` while the controller tries again by itself, or ``bad`` if a person is needed."""
    answered_at: str | None
    """Time of its last answer."""
    away_since: str | None
    """Time since which no look has succeeded; None if the last one has."""
    problem: str
    """The reason why ``main`` does not follow it now; empty while it does."""


def remote_of(snapshot: Snapshot) -> Remote | None:
    """Return the state of the remote repository; None if there is none."""
    found = snapshot.remote
    if not found.get("url") and not found.get("problem"):
        return None
    ready, stalled = (_condition(found, type) for type in ("Ready", "Stalled"))
    problem = str(found.get("problem") or ("" if ready["status"] == "True" else ready["message"]))
    stuck = bool(found.get("problem")) or stalled["status"] == "True"
    return Remote(
        found.get("url") or "the remote repository",
        found.get("branch") or "",
        "bad" if stuck else "busy" if problem else "ready",
        found.get("answeredAt"),
        found.get("awaySince"),
        problem,
    )


def _condition(found: answers.SourceState, type: str) -> answers.SourceCondition:
    unknown = answers.SourceCondition(
        type=type, status="Unknown", reason="", message="", lastTransitionTime=None
    )
    return next((each for each in found.get("conditions", ()) if each["type"] == type), unknown)
