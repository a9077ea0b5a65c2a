"""The kind SyncWindow: times in which changes of manifests come into force, or do not.

``admission/windows.py`` applies them to changes.
"""

from __future__ import annotations

import difflib
import math
from datetime import UTC, datetime, timedelta, tzinfo
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, Field, StringConstraints

from .base import NAMES, TYPE, Manifest, Seconds, Strict
from .verbs import WINDOWED

CRON_FIELDS = "minute, hour, day of the month, month and day of the week"
SECONDS_MIN = 60.0
BEGINNINGS_MAX = 200
"""Most beginnings to follow, each of which may begin before the one before it ends."""
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_CHANGE_MAX = timedelta(hours=3)
"""Clocks change by less: in most places by one hour, on Lord Howe Island by half of one, at Troll by two."""


def _cron(text: str) -> str:
    if len(text.split()) != len(CRON_FIELDS.replace(" and ", ", ").split(", ")):
        raise ValueError(f'expected the five fields of cron, {CRON_FIELDS}, such as "0 8 * * 1-5"')
    try:
        next(CronSim(text, _EPOCH))
    except CronSimError as error:
        field = str(error).removeprefix("Bad ")
        raise ValueError(f'expected five fields of cron such as "0 8 * * 1-5": wrong {field}') from None
    except StopIteration:
        raise ValueError("this schedule never begins: no year has such a day") from None
    return text


def _zone(name: str) -> str:
    try:
        _time_zone(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        near = difflib.get_close_matches(name, sorted(available_timezones()), n=1, cutoff=0.6)
        hint = f'; did you mean "{near[0]}"?' if near else ""
        raise ValueError(f'expected an IANA time zone such as "Europe/Berlin"{hint}') from None
    return name


def _time_zone(name: str) -> tzinfo:
    return UTC if name == "UTC" else ZoneInfo(name)  # UTC is known also where the system has no zones


def _shown(moment: float, zone: tzinfo) -> datetime:
    """Return the time that clocks show, without the zone."""
    return datetime.fromtimestamp(moment, zone).replace(tzinfo=None)


def _change(moment: float, zone: tzinfo) -> timedelta:
    """Return by how much clocks may change shortly before or after a moment."""
    around = _CHANGE_MAX.total_seconds()
    before, after = (datetime.fromtimestamp(moment + by, zone).utcoffset() for by in (-around, around))
    return timedelta() if before == after else _CHANGE_MAX


def _moments(shown: datetime, zone: tzinfo, *, repeats: bool) -> list[float]:
    """Return when clocks show a time, in seconds since the Unix epoch. With ``repeats``, a time that they show twice
    counts twice, and a skipped one never; without, the first counts, and the end of the skip."""
    first, second = (shown.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1))
    if _shown(first, zone) == shown:
        return [first, second] if repeats and second > first else [first]
    return [] if repeats else _moments(shown + timedelta(minutes=1), zone, repeats=False)


def _long_enough(seconds: float) -> float:
    if seconds < SECONDS_MIN:
        raise ValueError("expected a duration of at least 1m: schedules have minutes")
    return seconds


if TYPE_CHECKING:
    _Windowed = str
else:
    _Windowed = Literal[WINDOWED]
_Patterns = Annotated[tuple[Annotated[str, NAMES.field()], ...], Field(max_length=256)]


class SyncWindowSpec(Strict):
    """Times and objects for which changes come into force (`allow`) or wait (`deny`)."""

    kind: Literal["allow", "deny"]
    """`deny`: within the window, changes wait. `allow`: changes wait while no `allow` window for the object is open.
    `deny` wins."""
    schedule: Annotated[
        str, StringConstraints(max_length=128), AfterValidator(_cron), Field(json_schema_extra={TYPE: "cron"})
    ]
    """When the window begins: the five fields of cron, in the time of `timeZone`."""
    duration: Annotated[Seconds, AfterValidator(_long_enough)]
    """Length of the window, at least `1m`. Elapsed time counts, also when clocks change meanwhile."""
    time_zone: Annotated[str, StringConstraints(max_length=64), AfterValidator(_zone)] = "UTC"
    """The IANA name of the time zone of `schedule`."""
    deployments: _Patterns = ()
    """Deployments that the window is for, by name; `*` and `?` stand for other characters. Changes of the Models that
    they use count too."""
    nodes: _Patterns = ()
    """Nodes that the window is for, by name, likewise."""
    selector: dict[str, str] = Field(default_factory=dict)
    """Labels: the window is also for the deployments and nodes that have them all. Without `deployments`, `nodes` and
    `selector`, it is for everything."""
    operations: tuple[_Windowed, ...] = ()
    """Operations on its objects that are refused while it keeps changes out. By default none; `stop` is never
    refused."""

    @property
    def everything(self) -> bool:
        """Return whether it is for all objects of all kinds."""
        return not (self.deployments or self.nodes or self.selector)

    def names(self, manifest: Manifest) -> bool:
        """Return whether it is for an object: by its name, by its labels, or because it is for everything."""
        if self.everything:
            return True
        patterns = {"ModelDeployment": self.deployments, "Node": self.nodes}.get(manifest.kind)
        if patterns is None:
            return False
        labels = manifest.metadata.labels
        labelled = bool(self.selector) and all(
            labels.get(key) == value for key, value in self.selector.items()
        )
        return labelled or any(fnmatchcase(manifest.metadata.name, pattern) for pattern in patterns)

    def next_begin(self, after: float) -> float:
        """Return when it begins next, later than ``after``, in seconds since the Unix epoch; infinite if never.

        The schedule is matched without a zone, because CronSim 2.8 loses a beginning where clocks change by half an
        hour. As in Debian's cron, a fixed time that clocks skip counts at the skip, and one that they show twice counts
        once. A schedule that repeats within a day begins at both, and never at a skipped time.
        """
        zone = _time_zone(self.time_zone)
        begin = math.inf
        for shown in CronSim(self.schedule, _shown(after, zone) - _change(after, zone)):
            if begin < math.inf and shown > _shown(begin, zone) + _change(begin, zone):
                break
            for moment in _moments(shown, zone, repeats=self._repeats):
                begin = min(begin, moment) if moment > after else begin
        return begin

    @property
    def _repeats(self) -> bool:
        """Return whether it begins every few minutes or hours, and not at fixed times."""
        return any(part.startswith("*") for part in self.schedule.split()[:2])

    def is_open(self, now: float) -> bool:
        """Return whether the window is open at ``now``."""
        return self.next_begin(now - self.duration) <= now

    def end(self, now: float) -> float | None:
        """Return when it ends; None if it is not open, infinity if it begins again and again before that.

        At most ``BEGINNINGS_MAX`` beginnings are followed: a window that begins every minute for two is always open.
        """
        if not self.is_open(now):
            return None
        begun = self.next_begin(now - self.duration)
        return _last_end(self.schedule, self.time_zone, self.duration, begun)


@lru_cache(maxsize=256)
def _last_end(schedule: str, time_zone: str, duration: float, begun: float) -> float:
    """Return when an open window ends, which may begin again before that; infinity if it always does."""
    spec = SyncWindowSpec.model_construct(
        kind="deny", schedule=schedule, time_zone=time_zone, duration=duration
    )
    for _ in range(BEGINNINGS_MAX):
        later = spec.next_begin(begun)
        if later > begun + duration:
            return begun + duration
        begun = later
    return math.inf


class SyncWindow(Manifest):
    """Times in which changes of manifests come into force, or wait."""

    kind: Literal["SyncWindow"]
    spec: SyncWindowSpec
