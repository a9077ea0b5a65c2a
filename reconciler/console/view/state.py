"""The state of an object: one word for its colour, and a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from reconciler.wire.objects import Object, condition, is_true


def state_of(each: Object) -> str:
    """Return ``ready``, ``busy`` or ``bad`` for an object."""
    if is_true(each, "Stalled"):
        return "bad"
    if is_true(each, "Reconciling"):
        return "busy"
    return "ready" if is_true(each, "Ready") else "bad"


def doing(each: Object, part: Literal["message", "seen"] = "message") -> str:
    """Return the message of the condition that keeps an object from being ready: stalled, reconciling or not ready.
    ``seen``: without the steps for a person."""
    for type, status in (("Stalled", "True"), ("Reconciling", "True"), ("Ready", "False")):
        found = condition(each, type)
        if found["status"] == status and found["message"]:
            return str(found[part])
    return ""


def worst(states: Iterable[str]) -> str:
    found = set(states)
    return next((state for state in ("bad", "busy") if state in found), "ready")
