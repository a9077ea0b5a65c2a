"""A repair as a generator of acts. It does nothing itself: it yields the next act, and its caller carries that out and
sends back the result.

Each change is recorded before it is made, so that a successor can undo it from the record.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Generator, NamedTuple, Optional, Tuple, Union

from reconciler.wire.repair import Change, RepairReport, RepairState, addressed

CONFIRMED_SECONDS = 3600.0
"""Time for which a confirmed repair blocks the same repair: evidently it did not last."""
BARRED_SECONDS = 1800.0
"""Time for which a repair that sudo refused is blocked: the machine logs each attempt."""
TRIES_KEPT = 32
UNDO_ATTEMPTS_MAX = 3


@dataclasses.dataclass(frozen=True)
class Try:
    """One repair of this boot."""

    id: str
    at: float
    """Its beginning, by a monotonic clock of the boot."""
    state: str = RepairState.RUNNING
    barred: bool = False
    broken_off: bool = False
    """True if its process disappeared."""
    addressed: Tuple[str, ...] = ()
    """The interfaces to which it gives an address."""


@dataclasses.dataclass(frozen=True)
class Record:
    """The stored record of the last repair."""

    id: str
    boot_id: str
    changes: Tuple[Change, ...]
    confirm_seconds: float
    state: str = RepairState.RUNNING
    begun: int = 0
    """Number of begun changes; the last one may not have been made."""
    made: int = 0
    """Number of changes that were certainly made, and not certainly undone."""
    problem: str = ""
    barred: bool = False
    tries: Tuple[Try, ...] = ()
    """The tries of this boot, oldest first; the last is this one."""
    version: int = 1

    @property
    def over(self) -> bool:
        return self.state in RepairState.OVER


class Failure(NamedTuple):
    """The reason why a command failed."""

    text: str
    certain: bool = True
    """True if it certainly had no effect: it ended and reported the failure."""
    barred: bool = False


class Keep(NamedTuple):
    """Write this to disk; the answer is None, or a ``Failure``, with which nothing is begun and all is undone."""

    record: Record


class Run(NamedTuple):
    """Run this as root; the answer is None, or a ``Failure``."""

    argv: Tuple[str, ...]


class Await(NamedTuple):
    """Wait for the confirmation; the answer is whether it came in time."""

    seconds: float


Act = Union[Keep, Run, Await]
Answer = Union[Failure, bool, None]
Acts = Generator[Act, Answer, Record]


def begin(before: Optional[Record], record: Record, now: float) -> Record:
    """Return the record of a new repair, based on the previous record."""
    tries = before.tries if before is not None and before.boot_id == record.boot_id else ()
    return dataclasses.replace(
        record, tries=(*tries, Try(record.id, now, addressed=addressed(record.changes)))[-TRIES_KEPT:]
    )


def carry_out(record: Record) -> Acts:
    """Make all changes and wait for the confirmation; undo them if a change fails or the confirmation does not come."""
    for at, change in enumerate(record.changes):
        failure = yield Keep(dataclasses.replace(record, begun=at + 1))
        if failure is None:
            record = dataclasses.replace(record, begun=at + 1)
            failure = yield Run(change.argv)
        if isinstance(failure, Failure):
            begun = at if failure.certain else at + 1
            record = dataclasses.replace(
                record, begun=begun, problem=failure.text, barred=failure.barred, made=at
            )
            return (yield from undo(record, record.boot_id))
        record = dataclasses.replace(record, made=at + 1)
    failure = yield Keep(dataclasses.replace(record, state=RepairState.WAITING))
    if isinstance(failure, Failure):
        return (yield from undo(dataclasses.replace(record, problem=failure.text), record.boot_id))
    if (yield Await(record.confirm_seconds)):
        return (yield from _end(record, RepairState.CONFIRMED))
    text = "it was not confirmed within {:g} s".format(record.confirm_seconds)
    return (yield from undo(dataclasses.replace(record, problem=text), record.boot_id))


def refuse(record: Record, failure: Failure) -> Acts:
    """End a repair before anything was changed."""
    record = dataclasses.replace(record, problem=failure.text, barred=failure.barred)
    return (yield from _end(record, RepairState.UNDONE))


def finish_abandoned(record: Record, boot_id: str, confirmed: bool) -> Acts:
    """End a repair whose process is gone: a confirmed repair stays, any other is undone."""
    if confirmed:
        return (yield from _end(record, RepairState.CONFIRMED))
    problem = record.problem or "it was interrupted"
    last = (dataclasses.replace(each, broken_off=not record.problem) for each in record.tries[-1:])
    record = dataclasses.replace(record, problem=problem, tries=(*record.tries[:-1], *last))
    return (yield from undo(record, boot_id))


def undo(record: Record, boot_id: str) -> Acts:
    """Undo the begun changes, the last first. Another boot has undone those that do not outlast one."""
    record = dataclasses.replace(record, state=RepairState.UNDOING)
    yield Keep(record)
    left = []
    while record.begun:
        at = record.begun - 1
        change = record.changes[at]
        if change.lasting or record.boot_id == boot_id:
            failure = yield from undo_change(change)
            if failure is not None and at < record.made:
                left.append("{} ({})".format(" ".join(change.undo), failure.text))
        record = dataclasses.replace(record, begun=at, made=min(record.made, at))
        yield Keep(record)
    if left:
        text = "{}; not undone, to do: {}".format(record.problem, "; ".join(left))
        return (yield from _end(dataclasses.replace(record, problem=text), RepairState.LEFT))
    return (yield from _end(record, RepairState.UNDONE))


def undo_change(change: Change) -> Generator[Act, Answer, Optional[Failure]]:
    failure: Optional[Failure] = None
    for _ in range(UNDO_ATTEMPTS_MAX):
        answer = yield Run(change.undo)
        failure = answer if isinstance(answer, Failure) else None
        if failure is None:
            return None
    return failure


def _end(record: Record, state: str) -> Acts:
    tries = record.tries
    if tries:
        last = dataclasses.replace(tries[-1], state=state, barred=record.barred)
        tries = (*tries[:-1], last)
    record = dataclasses.replace(record, state=state, tries=tries)
    yield Keep(record)
    return record


def report(record: Record, now: float, stays: bool) -> RepairReport:
    """Return the report for controllers; ``now`` is by the clock of ``Try.at``; ``stays``: it is already confirmed."""
    return RepairReport(
        id=record.id,
        boot_id=record.boot_id,
        state=RepairState.CONFIRMED if stays else record.state,
        changes=record.changes,
        problem=record.problem,
        tried=tuple(each.id for each in record.tries if _speaks(each, now)),
        barred=tuple(each.id for each in record.tries if each.barred and now - each.at < BARRED_SECONDS),
        broken_off=tuple(each.id for each in record.tries if each.broken_off),
        readdressed=_readdressed(record),
    )


def _readdressed(record: Record) -> Tuple[str, ...]:
    counts = collections.Counter(name for each in record.tries if not each.barred for name in each.addressed)
    return tuple(sorted(name for name, count in counts.items() if count > 1))


def _speaks(each: Try, now: float) -> bool:
    confirmed = each.state == RepairState.CONFIRMED
    return not (each.barred or each.broken_off) and (not confirmed or now - each.at < CONFIRMED_SECONDS)
