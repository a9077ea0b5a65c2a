"""How an object is doing: in one word for its colour, and in a sentence."""

from __future__ import annotations

from collections.abc import Iterable

from reconciler.console.snapshot import Body, condition, is_true


def state_of(each: Body) -> str:
    """Return ``ready``, ``busy`` or ``bad`` for an object."""
    if is_true(each, "Stalled"):
        return "bad"
    if is_true(each, "Reconciling"):
        return "busy"
    return "ready" if is_true(each, "Ready") else "bad"


def doing(each: Body) -> str:
    """Return what keeps an object from being well: what it needs, what it waits for, or what it lacks."""
    for type, status in (("Stalled", "True"), ("Reconciling", "True"), ("Ready", "False")):
        found = condition(each, type)
        if found["status"] == status and found["message"]:
            return str(found["message"])
    return ""


def worst(states: Iterable[str]) -> str:
    """Return the state that stands for all."""
    found = set(states)
    return next((state for state in ("bad", "busy") if state in found), "ready")
