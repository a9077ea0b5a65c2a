"""Reports the state of the remote repository to the command line."""

from __future__ import annotations

from reconciler.controller.mirror.following import Following
from reconciler.controller.mirror.standing import Standing
from reconciler.state.desired import abbreviated
from reconciler.wire import answers

from .bodies import iso


def body(following: Following) -> answers.SourceState:
    """Return the answer to ``wire.admin.ShowSource``."""
    found: answers.SourceState = _standing(following.standing) if following.standing is not None else {}
    return {**found, "problem": following.complaint} if following.complaint else found


def _standing(standing: Standing) -> answers.SourceState:
    spec, last = standing.spec, standing.last
    ready, reason, message = _ready(standing)
    stalled = standing.person or standing.told or bool(standing.refusal)
    moment = iso(standing.failed_since or standing.answered_at or standing.since)
    return {
        "url": spec.url,
        "branch": spec.ref.branch,
        "path": spec.path,
        "interval": spec.interval,
        "revision": last.revision if last else None,
        "looks": standing.looks,
        "answeredAt": iso(standing.answered_at),
        "awaySince": iso(standing.failed_since),
        "conditions": [
            _condition("Ready", ready, reason, message, moment),
            _condition(
                "Stalled", stalled, reason if stalled else "Following", message if stalled else "", moment
            ),
        ],
    }


def _ready(standing: Standing) -> tuple[bool, str, str]:
    if standing.problem:
        return False, "SourceUnusable" if standing.person else "SourceAway", standing.problem
    if standing.last is None:
        return False, "NotLooked", "it has not been asked yet"
    if standing.last.refusal:
        return False, "Refused", standing.refusal
    return True, "Following", f"main is at {abbreviated(standing.last.revision)}"


def _condition(
    type: str, status: bool, reason: str, message: str, moment: str | None
) -> answers.SourceCondition:
    return {
        "type": type,
        "status": "True" if status else "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": moment,
    }
