"""What every process writes before a line of its log can be read again."""

from __future__ import annotations

import io
import logging
from datetime import UTC, datetime

import pytest

from reconciler.wire.log_lines import Stamped, time_of


def test_a_line_begins_with_the_time_that_is_read_from_it() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(Stamped("%(levelname)s %(message)s"))
    record = logging.LogRecord("a", logging.INFO, "", 0, "two\nlines", None, None)
    record.created = 1_780_000_000.123
    handler.handle(record)
    first, second = stream.getvalue().splitlines()
    assert first == "2026-05-28T20:26:40.123Z INFO two"
    assert time_of(first) == datetime(2026, 5, 28, 20, 26, 40, 123_000, UTC)
    assert time_of(second) is None


@pytest.mark.parametrize("line", ["", "2026", "2026-13-01T00:00:00.000Z x", "2026-11-21T10:00:00.000Zx"])
def test_what_is_no_time_belongs_to_the_line_before(line: str) -> None:
    assert time_of(line) is None
