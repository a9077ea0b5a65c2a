"""The page about probes names every command that is run on a Mac, with its bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reconciler.agent.system.operating_system import FOLDERS
from reconciler.inventory.probes.probe import Probe
from reconciler.inventory.probes.table import PROBES

PAGE = (Path(__file__).parents[3] / "docs" / "probes.md").read_text()


def row(probe: Probe[Any]) -> str:
    """The line of the table."""
    words = " ".join(
        ["sudo -n"] * probe.call.as_root + [f'"{w}"' if " " in w else w for w in probe.call.argv]
    )
    followed = ", ".join(each.name for each in probe.follows)
    least = f", {probe.soonest_seconds:g} s" if probe.soonest_seconds else ""
    sooner = f"after a change of: {followed}{least}" if followed else "-"
    return f"| {probe.name} | `{words}` | {probe.call.seconds:g} s | {probe.every_seconds:g} s | {sooner} |"


def test_every_probe_has_its_row_and_there_are_no_others() -> None:
    assert [line for line in PAGE.splitlines() if "| `" in line] == [row(probe) for probe in PROBES]


def test_the_folders_of_tools_are_those_of_the_agent() -> None:
    text = " ".join(PAGE.split())
    assert f"in `{'`, `'.join(FOLDERS[:-1])}` or `{FOLDERS[-1]}`" in text
