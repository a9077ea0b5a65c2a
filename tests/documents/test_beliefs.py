"""The page of beliefs is in step with the page of the first day, and with the code."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from .newcomer import ROOT
from .test_first_day import APPENDIX, ROWS

PAGE = (ROOT / "docs" / "beliefs.md").read_text()
MACS_MAX = 12
"""Most rows of the table that only a Mac can fill."""


class Belief(NamedTuple):
    """One row of the page."""

    id: str
    text: str
    sources: str
    confidence: str
    if_false: str
    first_day: str
    code: str


def rows(text: str, begin: str) -> list[list[str]]:
    """Return the cells of each line of a table whose first cell matches."""
    lines = [line for line in text.splitlines() if re.match(rf"\| {begin} \|", line)]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


BELIEFS = [Belief(*row) for row in rows(PAGE, "`[a-z0-9-]+`")]
MACS = rows(APPENDIX, "M[0-9]+")


def test_each_belief_has_a_name_of_its_own() -> None:
    assert len(BELIEFS) > 20
    assert len({belief.id for belief in BELIEFS}) == len(BELIEFS)


def test_only_twelve_rows_need_a_mac_and_each_tests_a_belief() -> None:
    names = [row[0] for row in MACS]
    assert names == [f"M{number}" for number in range(1, len(names) + 1)]
    assert len(names) <= MACS_MAX
    assert all(len(row) == 4 and all(row) for row in MACS)
    assert set(names) <= {belief.first_day for belief in BELIEFS}


@pytest.mark.parametrize("belief", BELIEFS, ids=lambda belief: belief.id.strip("`"))
def test_a_belief_says_how_sure_it_is_what_if_not_and_which_row_tests_it(belief: Belief) -> None:
    assert all(belief)
    assert belief.confidence in ("high", "medium", "low")
    assert belief.first_day in {row[0] for row in MACS} | {f"row {row[0].strip('| ')}" for row in ROWS}
    file, name = re.fullmatch(r"`([^`]+)`, `([^`]+)`", belief.code).groups()  # type: ignore[union-attr]
    assert re.search(rf"\b{re.escape(name)}\b", (ROOT / file).read_text()), belief.code
