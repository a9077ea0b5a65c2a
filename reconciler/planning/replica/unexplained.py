"""Waits for the explanation of a group's end before the group is judged: the end of another rank, and probes of its
machines."""

from __future__ import annotations

from reconciler.planning.context.deadlines import GRACE_SECONDS
from reconciler.planning.context.decision import NOTHING, Decision
from reconciler.planning.context.view import Formed
from reconciler.planning.recovery import diagnose
from reconciler.planning.transport import fallback
from reconciler.state import WaitingFor, most_informative
from reconciler.transports import CABLES

from .stop import stop

ENDS_SECONDS = 2.0
"""Time for the report of a lost rank's end, which explains more than the loss. Reports of two nodes come in any order."""


def end_unreported(view: Formed) -> Decision | None:
    """Judge a group that has lost a rank once the end of that rank is reported too, or a short time is over."""
    ended = most_informative(rank for rank in view.current.values() if not rank.alive)
    if ended is None or not ended.lost_another or not any(rank.alive for rank in view.current.values()):
        return None
    at = ended.ended_at or 0.0
    if abs(view.world.now - at) >= ENDS_SECONDS:
        return None
    text = "a rank has lost another one, whose end is not reported yet"
    return view.wait(WaitingFor.OBSERVATION, text, at + ENDS_SECONDS)


def machines_unexamined(view: Formed) -> Decision | None:
    """Judge a group that uses cables, or may leave its transport, once its machines were probed after its failure. Its
    living ranks end meanwhile.

    With older facts a pulled cable would look like a crash: the group would be formed over it again, and a change be
    blamed. And a transport that is left because of older facts is not used again until something else changes.
    """
    transport = fallback.used(view.record)
    if transport not in CABLES and not fallback.lower(view.deployment, transport):
        return None
    shown = diagnose.symptom(view)
    unexamined = [
        name for name in view.members if view.world.reached(name) and not view.world.node(name).examined
    ]
    if shown is None or not unexamined:
        return None
    text = f"the probes of {', '.join(unexamined)} are running, which may explain why {transport} failed: {shown.text}"
    why = f"its group is dead: {shown.text}"
    ending = stop(view, view.alive, GRACE_SECONDS, why, shown) if view.alive else NOTHING
    return ending + view.wait(WaitingFor.OBSERVATION, text)
