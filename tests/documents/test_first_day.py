"""The page of the first day: twelve rows that must pass, with commands that there are, and what may panic last."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from reconciler.cli.core.app import reconciler
from reconciler.doctor.preconditions import PRECONDITIONS

from .newcomer import ROOT

PAGE = (ROOT / "docs" / "first-day-on-real-macs.md").read_text()
FIRST, APPENDIX = PAGE.split("\n## Appendix", 1)
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in FIRST.splitlines()
    if re.match(r"\| [0-9]", line)
]
RISKY = re.compile(r"pull|unplug|swap|-STOP|--verbs|ibv_devinfo|wired limit|dock")
"""What was reported to end in a panic, to wedge the driver, or to leave a Mac that must restart."""
COMMANDS = sorted(
    {
        code
        for code in re.findall(r"`([^`]+)`", PAGE)
        if code.startswith("reconciler ") and "VERDICT" not in code
    }
)


def test_there_are_twelve_rows_each_with_a_command_and_what_is_expected() -> None:
    assert [row[0].strip("| ") for row in ROWS] == [str(number) for number in range(1, 13)]
    assert all(len(row) == 5 and "`" in row[2] and row[3] for row in ROWS)


def test_nothing_that_may_panic_comes_before_what_production_needs() -> None:
    risks = [row[4].strip("| ") for row in ROWS]
    assert risks == ["nothing"] * 11 + ["a panic, by reports of others"]
    assert [row[2] for row in ROWS if RISKY.search(row[2])] == []
    assert [number for number, row in enumerate(ROWS, 1) if "transport `jaccl`" in row[3]] == [12]
    assert "transport: [ring-lan]" in ROWS[7][2]
    assert "remove `transport`" in ROWS[11][2]
    assert RISKY.search(APPENDIX)


@pytest.mark.parametrize("page", ["first-day-on-real-macs.md", "machines.md"])
def test_the_preconditions_are_named_in_their_order(page: str) -> None:
    text = " ".join((ROOT / "docs" / page).read_text().split())
    assert ", ".join(row.name for row in PRECONDITIONS) in text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_one_that_there_is(command: str) -> None:
    words = shlex.split(command.replace("HOST...", "HOST"))[1:]
    context, group = click.Context(reconciler, info_name="reconciler"), reconciler
    while words and isinstance(group, click.Group):
        found = group.get_command(context, words[0])
        assert found is not None, words[0]
        context, words = click.Context(found, info_name=words[0], parent=context), words[1:]
        group = found  # type: ignore[assignment]
    group.make_parser(context).parse_args(args=words)
