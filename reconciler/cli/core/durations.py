"""Reads durations and times as kubectl does: `30s`, `1m30s`, `-1s`, `0`; `2026-11-21T10:00:00Z`."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from reconciler.cli.output.parsed import Parsed

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


def parse_moment(text: str) -> datetime:
    """Return an RFC 3339 time; without a zone, it is in this machine's. Raises ``ValueError`` with what was expected."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        raise ValueError(f'"{text}" is not a time; expected one such as 2026-11-21T10:00:00Z') from None


DURATION = Parsed("duration", parse_seconds)
"""The type of options with a duration, as seconds."""
MOMENT = Parsed("time", parse_moment)
