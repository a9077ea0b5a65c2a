"""The description of the house is checked against the house."""

from __future__ import annotations

import re

from reconciler.planning.replica.ladder import LADDER

from .newcomer import ROOT

TEXT = (ROOT / "docs" / "architecture.md").read_text()


def test_every_room_is_described_and_every_described_room_exists() -> None:
    package = ROOT / "reconciler"
    rooms = {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}
    rooms |= {path.name for path in package.glob("*.py") if not path.name.startswith("__")}
    section = TEXT.split("## Rooms")[1].split("## ")[0]
    assert set(re.findall(r"^\| `([^`]+)`", section, re.MULTILINE)) == rooms


def test_every_file_that_is_named_exists() -> None:
    for name in re.findall(r"`((?:[a-z]+/)+[a-z_.]+\.[a-z]+)`", TEXT):
        assert (ROOT / "reconciler" / name).exists() or (ROOT / name).exists(), name
    for name in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (ROOT / "docs" / name).exists(), name


def test_the_rules_of_the_ladder_are_those_of_the_code() -> None:
    section = TEXT.split("`LADDER`")[1].split("An **epoch**")[0]
    items = re.findall(r"^\d+\. (.*?)[;.]$(?=\n\d+\. |\n\n)", section, re.MULTILINE | re.DOTALL)
    assert [" ".join(item.split()) for item in items] == [rule.reason for rule in LADDER]
