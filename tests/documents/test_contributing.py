"""The paths for contributors name files, symbols, targets and commands that exist."""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from reconciler.cli.core.app import COMMANDS

from .newcomer import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text()
PATHS = TEXT.partition("\n## Six common changes\n")[2].partition("\n## ")[0]
SECTIONS = dict(re.findall(r"^### (.*?)\n(.*?)(?=\n### |\Z)", PATHS, re.MULTILINE | re.DOTALL))
CODE = [
    " ".join(code.split())
    for code in re.findall(r"`([^`\n]+(?:\n[^`\n]+)?)`", re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL))
]
TYPED = [
    *CODE,
    *(line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()),
]
FILE = re.compile(r"(?:reconciler|tests|docs|schemas|manifests)/[\w./]*|[\w-]+\.(?:md|toml|txt)")


def named() -> list[str]:
    """Files and folders, also those that stand within a command."""
    return sorted({word for code in TYPED for word in code.split() if FILE.fullmatch(word)})


def symbols() -> list[tuple[str, str]]:
    """Each file with the names that stand behind it, such as its table."""
    found = re.findall(r"`([\w/]+\.py)`,\s+`(\w+)`(?:,? and `(\w+)`)?", PATHS)
    return [(file, name) for file, *names in found for name in names if name]


def defined(path: Path) -> set[str]:
    """The names that a module defines at its top level."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case _:
                continue
    return found


def test_each_path_says_when_how_and_what_fails() -> None:
    assert len(SECTIONS) == 6
    for title, text in SECTIONS.items():
        assert text.lstrip().startswith("You need it when "), title
        assert "\n1. " in text, title
        assert "\nIt works when " in text, title
        assert "\n| forgotten | what fails |\n" in text, title


@pytest.mark.parametrize("name", named())
def test_a_named_file_exists(name: str) -> None:
    """Of a file that the contributor writes, ``NAME`` stands for the name; its folder exists."""
    existing = ROOT / re.split(r"(?:test_)?NAME", name)[0]
    assert existing.exists()


@pytest.mark.parametrize(("file", "name"), symbols())
def test_a_named_table_is_in_its_file(file: str, name: str) -> None:
    assert name in defined(ROOT / file)


def test_named_targets_of_make_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    wanted = {code.split()[1] for code in TYPED if code.startswith("make ")}
    assert wanted
    assert wanted - set(targets) == set()


def test_named_commands_exist() -> None:
    wanted = {found[1] for code in TYPED if (found := re.match(r"(?:\S*/)?reconciler (\S+)", code))}
    assert wanted
    assert wanted - {*COMMANDS, "NAME"} == set()


def test_named_modules_can_be_run() -> None:
    wanted = {name for code in TYPED for name in re.findall(r"python -m (\S+)", code)}
    assert wanted
    assert [name for name in wanted if find_spec(name) is None] == []
