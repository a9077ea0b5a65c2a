"""How it stands with the remote repository that ``main`` follows. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.console.snapshot import Body, Snapshot

COMMAND = "reconciler source show"


@dataclass(frozen=True, slots=True)
class Remote:
    """The remote repository, in one line."""

    url: str
    branch: str
    state: str
    """``ready``, ``busy`` while it is asked again by itself, or ``bad`` where a person is needed."""
    answered_at: str | None
    """When it has answered last."""
    away_since: str | None
    """Since when no look has succeeded; None where the last one has."""
    problem: str
    """Why ``main`` does not follow it now; empty where it does."""


def remote_of(snapshot: Snapshot) -> Remote | None:
    """Return how it stands with the remote repository; None where there is none."""
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


def _condition(found: Body, type: str) -> Body:
    unknown = {"status": "Unknown", "message": ""}
    return next((each for each in found.get("conditions", ()) if each["type"] == type), unknown)
