"""The standing of a remote: the results of the last looks, the time of the next, and the events about it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from reconciler.resources.git_repository import GitRepositorySpec
from reconciler.source.mirror.looking import Look
from reconciler.state.desired import abbreviated
from reconciler.state.identity import CLUSTER
from reconciler.state.reports.status import Event

AWAY_SECONDS = 120.0
"""Time for which a remote is away before that is reported."""
RETRY_SECONDS, RETRY_SECONDS_MAX = 5.0, 300.0
"""Wait after the first look that failed, doubled each time, and the longest; never longer than the interval."""
JITTER = 0.1
"""Part of each wait by which it is longer or shorter, so that clusters do not all come at once."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of the remote with these settings, as far as known. Times are seconds since the Unix epoch."""

    spec: GitRepositorySpec
    since: float
    """The time when these settings came into force."""
    looks: int = 0
    failures: int = 0
    """Failed looks in a row, up to now."""
    last: Look | None = None
    answered_at: float | None = None
    failed_since: float | None = None
    problem: str = ""
    """Why the last look failed; empty if it did not."""
    person: bool = False
    """True if a person has to do something about the problem."""
    told: bool = False
    """True if the problem was reported."""

    @property
    def refusal(self) -> str:
        """Return why the newest commit is not in force; empty if it may be."""
        if self.last is None or not self.last.refusal:
            return ""
        return f"commit {abbreviated(self.last.revision)} of {self.spec.url} is refused: {self.last.refusal}"


def answered(before: Standing, look: Look, now: float) -> tuple[Standing, tuple[Event, ...]]:
    """Return the standing after a look, and the events that report it."""
    told = []
    if before.told:
        told.append(_event(now, False, "SourceBack", f"{before.spec.url} answers again"))
    if look.moved and look.dropped:
        text = f"{before.spec.url} was rewound by {_commits(look.dropped)}, which is allowed: main follows it"
        told.append(_event(now, True, "SourceRewound", text))
    after = replace(
        before,
        looks=before.looks + 1,
        failures=0,
        last=look,
        answered_at=now,
        failed_since=None,
        problem="",
        person=False,
        told=False,
    )
    return after, tuple(told)


def failed(before: Standing, problem: str, person: bool, now: float) -> tuple[Standing, tuple[Event, ...]]:
    """Return the standing after a failed look. It is reported once: at once if a person is needed (``person``), else after
    ``AWAY_SECONDS``."""
    since = before.failed_since if before.failed_since is not None else now
    changed = person and (problem != before.problem or not before.person)
    due = changed or (not before.told and (person or now - since >= AWAY_SECONDS))
    after = replace(
        before,
        looks=before.looks + 1,
        failures=before.failures + 1,
        failed_since=since,
        problem=problem,
        person=person,
        told=before.told or due,
    )
    if not due:
        return after, ()
    reason = "SourceUnusable" if person else "SourceAway"
    stays = "what is in force stays, and nothing new comes"
    text = (
        problem if person else f"{problem}, since {datetime.fromtimestamp(since, UTC):%Y-%m-%d %H:%M:%S} UTC"
    )
    return after, (_event(now, True, reason, f"{text}; {stays}"),)


def pause(standing: Standing, hurried: bool, random: float) -> float:
    """Return the seconds until the next look. ``hurried``: somebody has said that there is something new. If nothing was
    found, it may just not be visible yet. ``random`` is from 0 to 1."""
    interval = standing.spec.interval
    if standing.failures:
        interval = min(
            RETRY_SECONDS * 2 ** min(standing.failures - 1, 20),
            RETRY_SECONDS_MAX,
            max(interval, RETRY_SECONDS),
        )
    elif hurried and standing.last is not None and not standing.last.moved:
        interval = min(1.0, interval)
    return interval * (1 + JITTER * (2 * random - 1))


def _event(now: float, warning: bool, reason: str, text: str) -> Event:
    return Event(now, CLUSTER, warning, reason, text)


def _commits(count: int) -> str:
    return f"{count} commit{'' if count == 1 else 's'}"
