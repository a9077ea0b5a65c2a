"""The parts that the pages of objects share: the plan, conditions, events, incidents and the spec."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.console.snapshot import Snapshot
from reconciler.wire import answers, objects

EVENTS_SHOWN = 20
INCIDENTS_SHOWN = 5
HELD_BY_WINDOW = "HeldBySyncWindow"
"""The plan's reason for a change that a sync window holds."""


@dataclass(frozen=True, slots=True)
class Details:
    planned: tuple[answers.Obstacle, ...]
    """The plan's waits and refusals: ``reason``, ``text``, and ``until`` if it is known. Without a sync window that holds a
    change, which the page shows next to the operations."""
    conditions: tuple[objects.Condition, ...]
    events: tuple[answers.EventEntry, ...]
    """Newest first."""
    incidents: tuple[answers.Incident, ...]
    """Newest first."""
    spec: str
    """As in YAML: a line for each field."""


def details(snapshot: Snapshot, each: objects.Object) -> Details:
    of = f"{each['kind'].lower()}/{each['metadata']['name']}"
    return Details(
        planned=tuple(entry for entry in snapshot.planned(of) if entry["reason"] != HELD_BY_WINDOW),
        conditions=tuple(each["status"]["conditions"]),
        events=tuple(event for event in reversed(snapshot.events) if event["object"] == of)[:EVENTS_SHOWN],
        incidents=tuple(i for i in reversed(snapshot.incidents) if i["object"] == of)[:INCIDENTS_SHOWN],
        spec="\n".join(spec_lines(each["spec"])),
    )


def spec_lines(value: object, indent: str = "") -> Iterator[str]:
    """Return the lines of a spec as in YAML: its fields in their order, lists in one line."""
    pairs = value.items() if isinstance(value, dict) else ()
    for name, own in pairs:
        if isinstance(own, dict) and own:
            yield f"{indent}{name}:"
            yield from spec_lines(own, f"{indent}  ")
        else:
            yield f"{indent}{name}: {_written(own)}"


def _written(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_written(own)}" for name, own in value.items()) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value) or '""'
