"""Reads durations and times as kubectl does: `30s`, `1m30s`, `-1s`, `0`; `2026-11-21T10:00:00Z`."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import click

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h|d)")


def parse_seconds(text: str) -> float:
    """Return a duration in seconds. Raises ``ValueError`` with what was expected."""
    sign, rest = (-1.0, text[1:]) if text.startswith("-") else (1.0, text)
    if rest == "0":
        return 0.0
    parts = _PART.findall(rest)
    if not parts or "".join(number + unit for number, unit in parts) != rest:
        raise ValueError(f'"{text}" is not a duration; expected one such as 30s, 5m or 1h30m')
    return sign * sum(float(number) * _UNITS[unit] for number, unit in parts)


class Duration(click.ParamType[float]):
    """A duration, as seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        try:
            return parse_seconds(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Moment(click.ParamType[datetime]):
    """An RFC 3339 time; without a zone, in this machine's time zone."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return datetime.fromisoformat(value).astimezone(UTC)
        except ValueError:
            self.fail(f'"{value}" is not a time; expected one such as 2026-11-21T10:00:00Z', param, ctx)
