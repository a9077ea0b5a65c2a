"""Decides when a dead group may be formed again: the back-off, which grows for each class of faults by itself.

A group that was proven and served is no crash loop. The wait grows with failures to come up, and with deaths in a row
without service in between. A death that a request caused does not count at all: its prompt is quarantined instead.

Everything follows from the past attempts in the store and from ``now``: a controller that has just started comes to
the same verdict. Attempts are ordered by their epochs; a clock can only shorten or lengthen a wait. A clock that was
set back costs at most one attempt too many; a clock that jumps ahead counts as time that has passed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import accumulate, pairwise

from reconciler.planning.context.back_off_time import (
    BACK_OFF_SECONDS_MAX,
    CRASH_LOOP_SECONDS,
    back_off_seconds,
)
from reconciler.planning.context.view import Formed, Wanted
from reconciler.planning.context.world import CLOCK_JUMP_SECONDS
from reconciler.state import Attempt, FaultClass, ReplicaId

from .diagnose import Diagnosis

JITTER = 0.1
"""The share by which a wait may be longer, so that replicas that died together do not come back together."""
SERVED_SECONDS = 30.0
"""A group that served for this long has shown that it can: earlier failures are forgiven."""
SHORT_LIVES_FREE = 5
"""This many groups in a row may come up and die early before that counts as a failure to come up."""

PORTS_TAKEN_FREE = 3
"""This many groups in a row may find their ports in use before that counts: ports are drawn again each time, so that more
is no chance."""


@dataclass(frozen=True, slots=True)
class RestartNow:
    """Form the group now."""


@dataclass(frozen=True, slots=True)
class RestartLater:
    """The back-off is not over."""

    until: float
    """The time when it is formed again, in seconds of the controller's clock."""


@dataclass(frozen=True, slots=True)
class CrashLoop:
    """The back-off has grown long: somebody should look."""

    until: float
    """The time when it is formed again anyway, in seconds of the controller's clock."""
    text: str
    """The number of restarts in what time, the last fault, and the time of the next attempt."""


Verdict = RestartNow | RestartLater | CrashLoop


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a group."""

    epoch: int
    """The epoch of the group that ended; 0 if it is no longer known."""
    fault: FaultClass
    served: float | None
    """Seconds for which it had served; None if it never came up."""
    port_taken: bool = False
    """True if it found its port in use."""


def verdict(view: Formed, fault: Diagnosis) -> Verdict:
    """Decide whether a group that died of this may be formed again now. A changed spec begins with a fresh budget."""
    tried, now = _tried(view), view.world.now
    if not tried:
        return RestartNow()
    present = _End(view.record.epoch, fault.fault, served_seconds(view, fault), fault.port_taken)
    failures = _failures(view, [present, *_ends(tried)])
    delay = min(BACK_OFF_SECONDS_MAX, back_off_seconds(failures) * _jitter(view.replica, tried[-1].epoch))
    last = tried[-1].at
    until = last + delay
    if now >= until or now < last - CLOCK_JUMP_SECONDS:  # over, or begun before the clock went back
        return RestartNow()
    if delay >= CRASH_LOOP_SECONDS:
        return CrashLoop(until, _crash_loop(fault, tried, until))
    return RestartLater(until)


def retrying(view: Formed) -> str:
    """Write a text about a group that comes up once more after a long back-off; empty for others."""
    if view.workload is None or view.record.proven_at is not None:
        return ""
    tried = _tried(view)
    if not tried or tried[-1].epoch != view.record.epoch:
        return ""
    if back_off_seconds(_failures(view, list(_ends(tried)))) < CRASH_LOOP_SECONDS:
        return ""
    return f"{_counts(tried)}, the last after {tried[-1].text}; it is being tried once more"


def served_seconds(view: Wanted, fault: Diagnosis | None) -> float | None:
    """Return for how many seconds the replica's group has served until now, or until its fault; None if it was
    never proven, or there is no group."""
    record = view.record
    if record is None or record.proven_at is None:
        return None
    died_at = min(fault.at, view.world.now) if fault else view.world.now
    return max(0.0, died_at - record.proven_at)


def _failures(view: Wanted, ends: Sequence[_End]) -> int:
    """Count the ends that let the wait grow. ``ends``: newest first; those of the newest one's class count, back to the last
    group that served."""
    by_requests = view.world.ended_by_requests(view.replica)
    row = []
    for end in ends:
        if end.served is not None and end.served >= SERVED_SECONDS:
            break
        if end.fault is ends[0].fault and end.epoch not in by_requests:
            row.append(end)
    short_lives = sum(end.served is not None for end in row)
    ports_taken = sum(end.port_taken for end in row)
    charged = max(0, short_lives - SHORT_LIVES_FREE) + max(0, ports_taken - PORTS_TAKEN_FREE)
    return len(row) - short_lives - ports_taken + charged


def _ends(tried: Sequence[Attempt]) -> Iterator[_End]:
    """Yield the ends that past attempts were to remedy, newest first. A planned restart is no end."""
    for before, attempt in reversed([*zip((None, *tried), tried, strict=False)]):
        if attempt.fault is not None:
            yield _End(before.epoch if before else 0, attempt.fault, attempt.served, attempt.port_taken)


def _jitter(replica: ReplicaId, epoch: int) -> float:
    """Return a factor of at least one, the same for every look at the same epoch."""
    drawn = hashlib.sha256(f"{replica}/{epoch}".encode()).digest()
    return 1 + JITTER * int.from_bytes(drawn[:4], "big") / 2**32


def _tried(view: Wanted) -> tuple[Attempt, ...]:
    """List the attempts for the present spec, oldest first, none later than the next: if the clock was set back
    between two, the earlier one gets the time of the later."""
    attempts = [
        each
        for each in view.world.memory.attempts.get(view.replica, ())
        if each.spec_generations == view.spec_generations
    ]
    no_later = list(accumulate((each.at for each in reversed(attempts)), min))
    return tuple(replace(each, at=at) for each, at in zip(attempts, reversed(no_later), strict=True))


# --- words -----------------------------------------------------------------------------------------


def _crash_loop(fault: Diagnosis, tried: Sequence[Attempt], until: float) -> str:
    at = datetime.fromtimestamp(until, UTC).strftime("%H:%M:%S UTC")
    return f"{_counts(tried)}, the last after {fault.text}; the next attempt is made at {at}"


def _counts(tried: Sequence[Attempt]) -> str:
    """Write how many restarts there were in what time."""
    restarts = [attempt for attempt in tried if attempt.fault is not None]
    seconds = sum(max(0.0, later.at - earlier.at) for earlier, later in pairwise(restarts))
    return f"formed again {len(restarts)} times in {_duration_text(seconds)}"


def _duration_text(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.0f} hours"
