"""When a group that died may be formed again: the back-off, and how many restarts there may be at all.

Everything follows from the past attempts in the store and from ``now``: a controller that has just started comes to
the same verdict. Attempts are ordered by their epochs; a clock can only shorten or lengthen a wait. One that was set
back costs at most one attempt too many; one that jumps ahead counts as time that went by.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import accumulate, pairwise

from reconciler.planning.context.view import Formed, Wanted
from reconciler.planning.context.world import CLOCK_JUMP_SECONDS
from reconciler.state import Attempt, ReplicaId, Standing

from .diagnose import Diagnosis

BACK_OFF_SECONDS_MAX = 300.0
LOOKED_AT_SECONDS = 20.0
"""During a longer wait somebody may have fixed its cause, and does not know how to say so."""
JITTER = 0.1
"""The share by which a wait is longer or shorter, so that replicas that died together do not come back together."""
RESTARTS_MAX = 5
WINDOW_SECONDS = 1800.0
"""This many restarts within this time use the budget up; afterwards there is one in each such time."""
HEALTHY_SECONDS = 600.0
"""A group that served for this long, and for twice the time it took to come up, has earned an immediate restart."""


@dataclass(frozen=True, slots=True)
class RestartNow:
    """Form it now."""

    standing: Standing


@dataclass(frozen=True, slots=True)
class RestartLater:
    """The back-off is not over."""

    until: float
    text: str = ""
    """What to do, where the wait is long enough for somebody to look; else empty."""


@dataclass(frozen=True, slots=True)
class Exhausted:
    """Too many restarts in too short a time: somebody has to change something."""

    until: float
    """When it is tried again all the same, in seconds of the controller's clock."""
    text: str
    """How often in what time, the last fault, when it is tried again, and what to do."""


Verdict = RestartNow | RestartLater | Exhausted


@dataclass(frozen=True, slots=True)
class _Wait:
    """A wait after an attempt, in seconds."""

    after: float
    seconds: float

    @property
    def until(self) -> float:
        return self.after + self.seconds

    def over(self, now: float) -> bool:
        """Return whether it has passed, or was begun before the clock went back."""
        return now >= self.until or now < self.after - CLOCK_JUMP_SECONDS


def verdict(view: Formed, fault: Diagnosis) -> Verdict:
    """Decide whether a group that died of this may be formed again now. A changed spec begins with a fresh budget."""
    tried, now = _tried(view), view.world.now
    if not tried:
        return RestartNow(Standing.NORMAL)
    healthy = lived_long(view, fault)
    streak = () if healthy else _streak(tried)
    spent = fault.counted and _spent(tried, streak)
    rationed = [wait for wait in _ration(tried, spent) if fault.counted and not wait.over(now)]
    if rationed:
        until = max(wait.until for wait in rationed)
        return Exhausted(until, _exhausted(view, fault, tried, until))
    failed = sum(attempt.fault is not None for attempt in streak)
    delay = back_off_seconds(failed) * _jitter(view.replica, tried[-1].epoch)
    back_off = _Wait(tried[-1].at, delay)
    if not back_off.over(now):
        return RestartLater(back_off.until, _remedy(view) if delay >= LOOKED_AT_SECONDS else "")
    return RestartNow(Standing.FRESH if healthy else Standing.SLOW if spent else Standing.NORMAL)


def planned(view: Wanted, fault: Diagnosis | None) -> Standing:
    """Return how the budget stands when a group is replaced that need not be dead; ``fault`` where it is."""
    return Standing.FRESH if lived_long(view, fault) else Standing.NORMAL


def retrying(view: Formed) -> str:
    """Write what to say of a group that comes up once more although the budget is used up; empty for others."""
    if view.workload is None or view.record.proven_at is not None:
        return ""
    tried = _tried(view)
    if not tried:
        return ""
    last = tried[-1]
    if last.standing is not Standing.SLOW or last.epoch != view.record.epoch:
        return ""
    return f"{_counts(tried)}, the last after {last.text}; it is being tried once more; {_remedy(view)}"


def lived_long(view: Wanted, fault: Diagnosis | None) -> bool:
    """Return whether the group has served long enough to wipe out its replica's failures."""
    record = view.record
    if record is None or record.proven_at is None:
        return False
    load = min(max(0.0, record.proven_at - record.created_at), view.health.progress_deadline)
    died_at = min(fault.at, view.world.now) if fault else view.world.now
    return died_at - record.proven_at >= max(HEALTHY_SECONDS, 2 * load)


def back_off_seconds(failures: int) -> float:
    """Return the wait in seconds: none before the first repetition, then 1 s doubling to five minutes, without the
    jitter."""
    return 0.0 if failures == 0 else min(BACK_OFF_SECONDS_MAX, 2.0 ** min(failures - 1, 10))


def _jitter(replica: ReplicaId, epoch: int) -> float:
    """Return a factor near one, the same for every look at the same epoch."""
    drawn = hashlib.sha256(f"{replica}/{epoch}".encode()).digest()
    return 1 + JITTER * (2 * int.from_bytes(drawn[:4], "big") / 2**32 - 1)


def _tried(view: Wanted) -> tuple[Attempt, ...]:
    """List the attempts for the present spec, oldest first, none later than the next: where times are not in order,
    the clock was set back between them."""
    attempts = [
        each
        for each in view.world.memory.attempts.get(view.replica, ())
        if each.spec_generations == view.spec_generations
    ]
    no_later = list(accumulate((each.at for each in reversed(attempts)), min))
    return tuple(replace(each, at=at) for each, at in zip(attempts, reversed(no_later), strict=True))


def _streak(tried: Sequence[Attempt]) -> tuple[Attempt, ...]:
    """Return the attempts since a group last lived long, with the one that followed it."""
    begins = [at for at, attempt in enumerate(tried) if attempt.standing is Standing.FRESH]
    return tuple(tried[begins[-1] if begins else 0 :])


def _spent(tried: Sequence[Attempt], streak: Sequence[Attempt]) -> bool:
    """Return whether one of the streak used the budget up: it stays so until a group lives long.

    A clock that was set back between two attempts makes them seem closer than they were.
    """
    if any(attempt.standing is Standing.SLOW for attempt in streak):
        return True
    counted = [attempt for attempt in tried if attempt.counted]
    spans = zip(counted, counted[RESTARTS_MAX - 1 :], strict=False)
    return any(last in streak and last.at - first.at < WINDOW_SECONDS for first, last in spans)


def _ration(tried: Sequence[Attempt], spent: bool) -> list[_Wait]:
    """Return the waits between restarts: one in a window once the budget is used up, and one above it in any
    window."""
    counted = [attempt for attempt in tried if attempt.counted]
    above = counted[-RESTARTS_MAX - 1 : -RESTARTS_MAX] if len(counted) > RESTARTS_MAX else []
    last = counted[-1:] if spent else []
    return [_Wait(attempt.at, WINDOW_SECONDS) for attempt in (*above, *last)]


# --- words -----------------------------------------------------------------------------------------


def _exhausted(view: Wanted, fault: Diagnosis, tried: Sequence[Attempt], until: float) -> str:
    at = datetime.fromtimestamp(until, UTC).strftime("%H:%M:%S UTC")
    return f"{_counts(tried)}, the last after {fault.text}; the next attempt is made at {at}; {_remedy(view)}"


def _counts(tried: Sequence[Attempt]) -> str:
    """Write how many restarts there were in what time."""
    counted = [attempt for attempt in tried if attempt.counted]
    seconds = sum(max(0.0, later.at - earlier.at) for earlier, later in pairwise(counted))
    return f"formed again {len(counted)} times in {_duration_text(seconds)}"


def _duration_text(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.0f} hours"


def _remedy(view: Wanted) -> str:
    name = view.replica.deployment
    return f"correct what it names, or try at once: reconciler rollout restart deployment/{name}"
