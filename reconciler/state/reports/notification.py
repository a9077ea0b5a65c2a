"""A message about an incident to a Notifier, sent or waiting."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Notification:
    """One message. An incident has one for each occasion and each Notifier."""

    notifier: str
    incident: int
    occasion: str
    """``Occasion.value``, with a number if there may be several."""
    at: float
    text: str
    attempts: int = 0
    """Number of attempts, counted before each one."""
    retry_at: float = 0.0
    ended_at: float | None = None
    """Time of delivery or of giving up; None while it waits."""
    problem: str = ""
    """Why the last attempt failed, without the URL; empty if it did not fail."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """The state of the messages to one Notifier."""

    waiting: int = 0
    given_up: int = 0
    """Number of remembered messages that were given up."""
    sent_at: float | None = None
    problem: str = ""
    """Why the latest attempt failed; empty if it did not fail."""
