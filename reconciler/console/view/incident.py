"""An incident as a story: the times when it was seen, decided, done and over, its entries on a timeline, and its ranks."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.console.snapshot import Snapshot
from reconciler.wire import answers

TRIED, PERSON = "tried", "person"
MARKS_MAX = 60
"""Most marks on the timeline."""
RANKS_MAX = 8
"""Most ranks with a link to their logs."""


@dataclass(frozen=True, slots=True)
class Story:
    """An incident for people. Times are in seconds after it was seen; None if they have not come yet."""

    incident: answers.Incident
    decided: float | None
    """When the first remedy began, or a person was asked."""
    done: float | None
    """When the last remedy ended."""
    over: float | None
    marks: tuple[tuple[float, str], ...]
    """Entries on the timeline: the place, from 0 to 100, and the kind."""


def stories(snapshot: Snapshot, name: str = "") -> tuple[Story, ...]:
    """Return the incidents, or the one whose number is ``name``: open ones first, then the others, both newest first."""
    found = [each for each in reversed(snapshot.incidents) if not name or str(each["id"]) == name]
    return tuple(_story(each) for each in sorted(found, key=lambda each: not each["open"]))


def _story(incident: answers.Incident) -> Story:
    entries = incident["entries"]
    begun = [entry["after"] for entry in entries if entry["kind"] in (TRIED, PERSON)]
    ends = [entry["after"] + (entry["seconds"] or 0.0) for entry in entries if entry["kind"] == TRIED]
    length = max([incident["seconds"], *(entry["after"] for entry in entries)], default=0.0) or 1.0
    places = dict.fromkeys((round(100 * entry["after"] / length, 1), entry["kind"]) for entry in entries)
    return Story(
        incident=incident,
        decided=min(begun, default=None),
        done=max(ends, default=None),
        over=None if incident["open"] else incident["seconds"],
        marks=tuple(places)[:MARKS_MAX],
    )


def logs_of(incident: answers.Incident) -> tuple[str, ...]:
    """Return the names of the ranks that the entries of an incident tell of, in their order."""
    found = dict.fromkeys(rank for entry in incident["entries"] if (rank := entry.get("rank")))
    return tuple(found)[:RANKS_MAX]
