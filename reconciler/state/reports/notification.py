"""What somebody is told who did not ask: a message of an incident, on its way to a Notifier."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Notice:
    """One message. Of one incident there is one for each occasion, and for each Notifier."""

    notifier: str
    incident: int
    occasion: str
    """``Occasion.value``, with a number where there may be several."""
    at: float
    """When there was something to tell."""
    text: str
    attempts: int = 0
    """Counted before each one."""
    retry_at: float = 0.0
    ended_at: float | None = None
    """When it was taken or given up; None as long as it waits."""
    problem: str = ""
    """Why the last attempt failed, without the URL; empty where it did not."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """How it stands with the messages to one Notifier."""

    waiting: int = 0
    given_up: int = 0
    """Of those that are remembered."""
    sent_at: float | None = None
    """When one was last taken."""
    problem: str = ""
    """Why the latest attempt failed; empty where it did not."""
