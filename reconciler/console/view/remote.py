"""The state of the remote repository that ``main`` follows. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.console.snapshot import Snapshot

COMMAND = "reconciler source show"


@dataclass(frozen=True, slots=True)
class Remote:
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
    conditions = found.get("conditions", ())
    unready = [each["message"] for each in conditions if each["type"] == "Ready" and each["status"] != "True"]
    problem = found.get("problem") or "".join(unready)
    stalled = any(each["type"] == "Stalled" and each["status"] == "True" for each in conditions)
    return Remote(
        found.get("url") or "the remote repository",
        found.get("branch") or "",
        "bad" if stalled or found.get("problem") else "busy" if problem else "ready",
        found.get("answeredAt"),
        found.get("awaySince"),
        problem,
    )
