"""The description of the house is checked against the house."""

from __future__ import annotations

import re
import tomllib

from reconciler.planning.replica.ladder import LADDER

from .newcomer import ROOT

TEXT = (ROOT / "docs" / "architecture.md").read_text()


def test_every_room_is_described_and_every_described_room_exists() -> None:
    package = ROOT / "reconciler"
    rooms = {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}
    rooms |= {path.name for path in package.glob("*.py") if not path.name.startswith("__")}
    section = TEXT.split("## Rooms")[1].split("## ")[0]
    assert set(re.findall(r"^\| `([^`]+)`", section, re.MULTILINE)) == rooms


def test_every_room_has_its_libraries() -> None:
    """Those of the contract that gives each library one room; others have no contract."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (one_room,) = (each for each in contracts if each["name"] == "Each library has one room")
    allowed: dict[str, set[str]] = {}
    for rule in one_room["ignore_imports"]:
        user, library = rule.split(" -> ")
        allowed.setdefault(user.split(".")[1], set()).add(library)
    section = TEXT.split("## Rooms")[1].split("## ")[0]
    rows = re.findall(r"^\| `([a-z_]+)[^`]*` \|.*\| ?([^|]*?) ?\|$", section, re.MULTILINE)
    told = {room: set(filter(None, libraries.split(", "))) for room, libraries in rows}
    known = set(one_room["forbidden_modules"])
    assert {room: told[room] & known for room in told} == {room: allowed.get(room, set()) for room in told}


def test_every_file_that_is_named_exists() -> None:
    for name in re.findall(r"`((?:[a-z]+/)+[a-z_.]+\.[a-z]+)`", TEXT):
        assert (ROOT / "reconciler" / name).exists() or (ROOT / name).exists(), name
    for name in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (ROOT / "docs" / name).exists(), name


def test_the_rules_of_the_ladder_are_those_of_the_code() -> None:
    section = TEXT.split("`LADDER`")[1].split("An **epoch**")[0]
    items = re.findall(r"^\d+\. (.*?)[;.]$(?=\n\d+\. |\n\n)", section, re.MULTILINE | re.DOTALL)
    assert [" ".join(item.split()) for item in items] == [rule.reason for rule in LADDER]
