"""Answers ``wire.figures.ShowMetrics``: figures of the last hours, and what happened meanwhile."""

from __future__ import annotations

from reconciler.controller.figures.files import number
from reconciler.controller.parts import Parts
from reconciler.store import EventFilter
from reconciler.wire import answers
from reconciler.wire.admin import ShowMetrics

from .bodies import iso

POINTS_MAX = 1440
MARKS = {"GroupProven": "group", "IncidentOpened": "incident"}
"""Marks in plots, by the reasons of their events."""
MARKS_MAX = 200
"""Most marks, the newest ones."""


def body(parts: Parts, message: ShowMetrics) -> answers.Metrics:
    """Return the answer."""
    now = parts.clock()
    points = min(max(1, message.points), POINTS_MAX)
    found = parts.figures.series.read(
        message.seconds, now, points, lambda key: message.object in ("", key.object)
    )
    kind, _, name = message.object.partition("/")
    wanted = EventFilter(
        limit=MARKS_MAX, since=found.begins, reasons=tuple(MARKS), name=name if kind else None
    )
    return {
        "begins": iso(found.begins),
        "seconds": found.seconds,
        "count": found.count,
        "series": [
            {"object": key.object, "name": key.name, "values": list(map(number, values))}
            for key, values in sorted(found.values.items())
        ],
        "marks": [
            {
                "time": iso(event.at),
                "object": str(event.object),
                "kind": MARKS[event.reason],
                "text": event.message,
            }
            for _, event in parts.store.events(wanted)
            if message.object in ("", str(event.object))
        ],
    }
