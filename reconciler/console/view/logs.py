"""The ranks that an incident tells of, for links to their logs. Pure."""

from __future__ import annotations

from reconciler.wire import answers

RANKS_MAX = 8


def logs_of(incident: answers.Incident) -> tuple[str, ...]:
    """Return the names of the ranks that the entries of an incident tell of, in their order."""
    found = dict.fromkeys(rank for entry in incident["entries"] if (rank := entry.get("rank")))
    return tuple(found)[:RANKS_MAX]
