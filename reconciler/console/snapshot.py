"""The console's knowledge of the cluster: the controller's last answers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from reconciler.wire import answers

Body = Mapping[str, Any]
"""A JSON object; ``wire.admin`` documents each answer."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The newest answers of the controller, and whether it still answers."""

    number: int = 0
    """Grows with each change."""
    at: float = 0.0
    """Time of the controller's last answer, in seconds since the Unix epoch; 0 before the first."""
    lost: str = ""
    """The reason why it does not answer now; empty while it does."""
    status: Body = field(default_factory=dict)
    """``ShowStatus``."""
    objects: tuple[Body, ...] = ()
    """``Get``: manifests with their status."""
    ranks: tuple[answers.Rank, ...] = ()
    """``Get("Rank")``."""
    plan: answers.Planned = field(default_factory=lambda: answers.Planned(steps=[], waiting=[], refused=[]))
    """``ShowPlan``."""
    incidents: tuple[answers.Incident, ...] = ()
    """``ListIncidents``, oldest first."""
    events: tuple[answers.EventEntry, ...] = ()
    """``ListEvents``, oldest first."""
    usage: answers.Usage = field(default_factory=lambda: answers.Usage(nodes=[], ranks=[], unobserved=[]))
    """``ShowUsage``."""
    metrics: Mapping[str, Body] = field(default_factory=dict)
    """``ShowMetrics`` for each of ``view.metrics.RANGES``, by its name."""
    commits: answers.Commits = field(
        default_factory=lambda: answers.Commits(version="", items=[], problem=None)
    )
    """``ListCommits``."""
    remote: Body = field(default_factory=dict)
    """``ShowSource``; empty if manifests come from no remote repository."""
    operations: tuple[Body, ...] = ()
    """``Get("Operation")``."""
    answer: Body = field(default_factory=dict)
    """The answer to one page's own question; ``{"problem": text}`` if the controller refused or did not answer."""

    def of_kind(self, kind: str) -> tuple[Body, ...]:
        """Return the objects of a kind, in the controller's order."""
        return tuple(each for each in self.objects if each["kind"] == kind)

    def named(self, kind: str, name: str) -> Body | None:
        """Return an object; None if there is none."""
        return next((each for each in self.of_kind(kind) if each["metadata"]["name"] == name), None)

    def planned(self, of: str) -> Iterator[answers.Obstacle]:
        """Return what the plan waits for and refuses of an object, ``kind/name`` in lower case."""
        yield from (entry for entry in self.plan["refused"] if entry["object"] == of)
        yield from (entry for entry in self.plan["waiting"] if entry["object"] == of)


def condition(each: Body, type: str) -> Body:
    """Return a condition of an object; an empty one with the status ``Unknown`` if it has none yet.

    ``seen`` is its message without ``person``, the steps for a person, which are empty if there are none.
    """
    none = {"type": type, "status": "Unknown", "reason": "", "message": "", "lastTransitionTime": None}
    found = next((found for found in each["status"]["conditions"] if found["type"] == type), none)
    return {"seen": found["message"], "person": "", **found}


def is_true(each: Body, type: str) -> bool:
    """Return whether a condition holds."""
    return bool(condition(each, type)["status"] == "True")
