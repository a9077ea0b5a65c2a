"""The page on faults has the healing table as it is."""

from __future__ import annotations

import re
from pathlib import Path

from reconciler.planning.diagnosis.rules import TABLE, Row

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "faults.md").read_text()


def written(row: Row) -> tuple[str, ...]:
    """A row as the page has it, without what it is seen by."""
    then = f"{row.then.remedy.value}, {row.then.when}" if row.then else "-"
    person = "yes" if row.person else "-"
    return f"{row.fault.value} {row.fault.title}", row.remedy.value, then, person


def test_the_page_has_every_row_in_its_order() -> None:
    rows = re.findall(r"^\| (C\d+ .*?) \| .*? \| (.*?) \| (.*?) \| (.*?) \|$", PAGE, re.MULTILINE)
    assert rows == [written(row) for row in TABLE]


def test_the_page_names_tests_that_exist() -> None:
    named = [name.partition("::") for name in re.findall(r"`(tests/[^`]+)`", PAGE)]
    assert named
    for path, _, function in named:
        assert (ROOT / path).exists(), path
        assert not function or f"def {function}(" in (ROOT / path).read_text(), function
