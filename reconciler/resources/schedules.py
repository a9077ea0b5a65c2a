"""Schedules as cron writes them, in the time of a place."""

from __future__ import annotations

import difflib
import math
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, Field, StringConstraints

from .base import TYPE

CRON_FIELDS = "minute, hour, day of the month, month and day of the week"
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_CHANGE_MAX = timedelta(hours=3)
"""Clocks change by less: in most places by one hour, on Lord Howe Island by half of one, at Troll by two."""


def _cron(text: str) -> str:
    if len(text.split()) != len(CRON_FIELDS.replace(" and ", ", ").split(", ")):
        raise ValueError(f'expected the five fields of cron, {CRON_FIELDS}, such as "0 8 * * 1-5"')
    try:
        next(CronSim(text, _EPOCH))
    except CronSimError as error:
        field = str(error).removeprefix("Bad ").replace("day-of-", "day of the ")
        raise ValueError(f'expected five fields of cron such as "0 8 * * 1-5": wrong {field}') from None
    except StopIteration:
        raise ValueError("this schedule never begins: no year has such a day") from None
    return text


def _zone(name: str) -> str:
    try:
        _time_zone(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        near = difflib.get_close_matches(name, sorted(available_timezones()), n=1, cutoff=0.6)
        if near:
            raise ValueError(f'there is no time zone "{name}"; did you mean "{near[0]}"?') from None
        raise ValueError('expected an IANA time zone such as "Europe/Berlin"') from None
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


Cron = Annotated[
    str, StringConstraints(max_length=128), AfterValidator(_cron), Field(json_schema_extra={TYPE: "cron"})
]
"""The five fields of cron."""
TimeZone = Annotated[str, StringConstraints(max_length=64), AfterValidator(_zone)]
"""The IANA name of a time zone."""


def next_begin(schedule: str, time_zone: str, after: float) -> float:
    """Return when a schedule begins next, later than ``after``, in seconds since the Unix epoch; infinite if never.

    The schedule is matched without a zone, because CronSim 2.8 loses a beginning where clocks change by half an
    hour. As in Debian's cron, a fixed time that clocks skip counts at the skip, and one that they show twice counts
    once. A schedule that repeats within a day begins at both, and never at a skipped time.
    """
    zone = _time_zone(time_zone)
    begin = math.inf
    for shown in CronSim(schedule, _shown(after, zone) - _change(after, zone)):
        if begin < math.inf and shown > _shown(begin, zone) + _change(begin, zone):
            break
        for moment in _moments(shown, zone, repeats=_repeats(schedule)):
            begin = min(begin, moment) if moment > after else begin
    return begin


def _repeats(schedule: str) -> bool:
    """Return whether it begins every few minutes or hours, and not at fixed times."""
    return any(part.startswith("*") for part in schedule.split()[:2])
