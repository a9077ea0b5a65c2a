"""The page on faults has the healing table as it is."""

from __future__ import annotations

import re
from pathlib import Path

from reconciler.planning.diagnosis.rules import TABLE, Row

PAGE = (Path(__file__).parents[2] / "docs" / "faults.md").read_text()


def written(row: Row) -> tuple[str, ...]:
    """A row as the page has it, without what it is seen by."""
    then = f"{row.then.remedy.value}, {row.then.when}" if row.then else "-"
    person, counted = ("yes" if row.person else "-"), ("yes" if row.counted else "-")
    return f"{row.fault.value} {row.fault.title}", row.remedy.value, then, person, counted


def test_the_page_has_every_row_in_its_order() -> None:
    rows = re.findall(r"^\| (C\d+ .*?) \| .*? \| (.*?) \| (.*?) \| (.*?) \| (.*?) \|$", PAGE, re.MULTILINE)
    assert rows == [written(row) for row in TABLE]


def test_the_page_names_tests_that_exist() -> None:
    root = Path(__file__).parents[2]
    named = re.findall(r"`(tests/[^`]+)`", PAGE)
    assert named
    assert [path for path in named if not (root / path).exists()] == []
