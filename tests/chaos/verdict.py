"""What must hold of a run, and the tables that it is shown in. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

from .faults import BY_NAME, TIMES_MIN, Fault
from .growth import DESCRIPTORS_MAX, MEMORY_MIB_MAX, Grown
from .load import Request

PER_MINUTE_MIN = 6.0
KINDS_MIN = 10
KINDS_MINUTES_MIN = 10.0
"""From so many on, so many kinds must each come so often."""
ANSWERED_MIN = 0.95
HOLD_SECONDS = 60.0
"""``spec.hold`` of the Gateway: so long a request may wait for a group."""
LOSSES_MAX = 4
"""Groups that may be lost while they work on it."""
MARGIN_SECONDS = 10.0
"""What may come on top of it: this machine is busy."""


@dataclass(frozen=True, slots=True)
class Done:
    """A fault that happened. Times are of ``time.monotonic``."""

    fault: Fault
    at: float
    detected_at: float | None = None
    """When an event named it; None where nothing felt it."""
    reason: str = ""
    served_at: float | None = None
    """When the first request that was begun after it was answered."""


@dataclass(frozen=True, slots=True)
class Run:
    """All that is judged."""

    minutes: float
    done: Sequence[Done]
    requests: Sequence[Request]
    grown: Sequence[Grown]
    left: str = ""
    """What was still there at the end, of processes and files."""
    serves: bool = True
    """Whether it served, after all was taken back."""
    restarts: int = 0
    """How often the person restarted the deployment, as its condition said."""
    unjudged: Sequence[str] = field(default=())
    """Which of the processes that must be judged for growth could not be."""


def broken(run: Run) -> Iterator[str]:
    """What does not hold, a sentence each."""
    yield from _faults(run)
    yield from _requests(run)
    for each in run.grown:
        if each.grows:
            yield (
                f"{each.name} (pid {each.pid}) grows by {each.memory_mib:.2f} MiB and {each.descriptors:.2f}"
                f" descriptors a minute; at most {MEMORY_MIB_MAX:g} and {DESCRIPTORS_MAX:g} may be"
            )
    for name in run.unjudged:
        yield f"whether {name} grows cannot be told: there are too few samples of it"
    if run.left:
        yield f"something is left: {run.left}"
    if not run.serves:
        yield "it does not serve again, though everything was taken back"


def _faults(run: Run) -> Iterator[str]:
    least = math.floor(PER_MINUTE_MIN * run.minutes)
    if len(run.done) < least:
        yield f"there were {len(run.done)} faults, and are to be {least}"
    times = Counter(each.fault.kind for each in run.done)
    often = [kind for kind, count in times.items() if count >= TIMES_MIN]
    if run.minutes >= KINDS_MINUTES_MIN and len(often) < KINDS_MIN:
        yield f"{len(often)} kinds came {TIMES_MIN} times or more, and {KINDS_MIN} are to"


def _requests(run: Run) -> Iterator[str]:
    answered = sum(request.answered for request in run.requests)
    if answered < ANSWERED_MIN * len(run.requests) or not run.requests:
        yield f"{answered} of {len(run.requests)} requests were answered: fewer than {ANSWERED_MIN:.0%}"
    for request in run.requests:
        if request.broken:
            yield f"a request failed before a piece of its answer was sent: {request.error}"
        if request.put_off and (why := _wrongly(request, run.requests)):
            yield f"a request was put off, and {why}"


def _wrongly(request: Request, requests: Sequence[Request]) -> str:
    """Why it should not have been put off, or not then; empty where there was no replica for as long as it may wait.

    Whatever is begun to be answered shows that there is one. A request that was being worked on waits anew.
    """
    assert request.ended_at is not None
    if request.ended_at - request.begun_at > LOSSES_MAX * HOLD_SECONDS + MARGIN_SECONDS:
        return f"only after {request.ended_at - request.begun_at:.0f} s"
    shown = (r.first_at for r in requests if r.first_at is not None and r.first_at < request.ended_at)
    without = request.ended_at - max(shown, default=request.begun_at)
    if without < HOLD_SECONDS - MARGIN_SECONDS:
        return f"another had been answered {without:.0f} s before"
    return ""


# --- tables ----------------------------------------------------------------------------------------

HEADERS = ("KIND", "CLASS", "TIMES", "NOT FELT", "DETECTED AFTER", "", "SERVED AFTER", "", "TOLD AS")
REASONS_WIDTH = 34


def table(run: Run) -> list[str]:
    """A line for each kind and one for each class: how often, after how many seconds it was named, and a new request was
    answered."""
    rows: list[tuple[str, ...]] = [HEADERS, ("", "", "", "", "median", "max", "median", "max", "")]
    classes = sorted({kind.fault for kind in BY_NAME.values()}, key=lambda fault: int(fault[1:]))
    for name, fault in [
        *((kind.name, kind.fault) for kind in BY_NAME.values()),
        *(("", each) for each in classes),
    ]:
        done = [each for each in run.done if name == each.fault.kind or (not name and _class(each) == fault)]
        if done:
            rows.append(_row(name, fault, done))
    rows.append(_row("all", "", list(run.done)))
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEADERS))]
    right = {2, 3, 4, 5, 6, 7}
    return [
        "  ".join(f"{cell:>{width}}" if at in right else f"{cell:<{width}}" for at, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]  # fmt: skip


def _class(done: Done) -> str:
    return BY_NAME[done.fault.kind].fault


def _row(kind: str, fault: str, done: Sequence[Done]) -> tuple[str, ...]:
    detected = [each.detected_at - each.at for each in done if each.detected_at is not None]
    served = [each.served_at - each.at for each in done if each.served_at is not None]
    reasons = Counter(each.reason for each in done if each.reason)
    most = ", ".join(reason for reason, _ in reasons.most_common(3)) if kind in BY_NAME else ""
    undetected = str(len(done) - len(detected))
    return (
        kind,
        fault,
        str(len(done)),
        undetected,
        *_spread(detected),
        *_spread(served),
        most[:REASONS_WIDTH],
    )


def _spread(seconds: Sequence[float]) -> tuple[str, str]:
    return (f"{median(seconds):.1f} s", f"{max(seconds):.1f} s") if seconds else ("-", "-")


def summary(run: Run) -> list[str]:
    """What else is to be known, a line each."""
    answered = [request for request in run.requests if request.answered]
    put_off = sum(request.put_off for request in run.requests)
    cut = sum(bool(request.error) and request.first_at is not None for request in run.requests)
    lost = sum(request.broken for request in run.requests)
    share = len(answered) / len(run.requests) if run.requests else 0.0
    waits = sorted(r.first_at - r.begun_at for r in answered if r.first_at is not None)
    lines = [
        f"requests: {len(run.requests)}, answered {len(answered)} ({share:.1%}), put off with 503 {put_off},"
        f" cut within the answer {cut}, failed otherwise {lost}"
    ]
    if waits:
        at95 = waits[int(0.95 * (len(waits) - 1))]
        lines.append(
            f"to the first piece: median {median(waits):.2f} s, of 95 % {at95:.1f} s, longest {waits[-1]:.1f} s"
        )
    lines.append(f"restarts by the person, as a condition said: {run.restarts}")
    lines += [
        f"{each.name} (pid {each.pid}): {each.resident_mib:.0f} MiB, {each.memory_mib:+.2f} MiB a minute;"
        f" {each.descriptors_open} descriptors, {each.descriptors:+.2f} a minute; over {each.minutes:.1f} minutes"
        for each in run.grown
    ]
    return lines
