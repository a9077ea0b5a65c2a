"""The page about security names every place where the product listens, and tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from reconciler.hardening.nftables import EPHEMERAL
from reconciler.planning.context.tcp_ports import PORT_FIRST, PORT_LAST
from reconciler.wire.repair import PATHS, PERMITTED

from .newcomer import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text()
PRODUCT = ROOT / "reconciler"
SERVERS = {"bind", "start_unix_server", "start_server", "create_server", "create_unix_server"}
"""Calls by which a program begins to listen; who only connects binds no address in this product."""
HELPERS = {"gateway/server.py"}
"""They get a socket that another module has bound."""


def listening() -> set[str]:
    """The modules that listen, below the package; an emulated machine is no part of a cluster."""
    found = set()
    for path in PRODUCT.rglob("*.py"):
        file = path.relative_to(PRODUCT).as_posix()
        if file.startswith("sandbox/") or not any(word in path.read_text() for word in SERVERS):
            continue
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        names = {node.func.attr for node in calls if isinstance(node.func, ast.Attribute)}
        if names & SERVERS:
            found.add(file)
    return found


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def test_every_place_that_listens_is_in_the_table() -> None:
    named = {name for row in rows("What listens") for name in re.findall(r"`([a-z_/0-9]+\.py)`", row[1])}
    assert listening() - HELPERS <= named
    assert [name for name in named if not (PRODUCT / name).exists()] == []


def test_the_tests_that_the_page_names_exist() -> None:
    named = re.findall(r"`(tests/[a-z_/0-9]+\.py)::(test_[a-z_0-9]+)`", PAGE)
    assert len(named) > 25
    missing = [
        f"{file}::{test}"
        for file, test in named
        if not (ROOT / file).exists() or f"def {test}(" not in (ROOT / file).read_text()
    ]
    assert missing == []


@pytest.mark.parametrize("title", ["What listens", "What is done for others"])
def test_each_row_names_an_attack_or_says_that_none_was_tried(title: str) -> None:
    for row in rows(title):
        assert "`tests/" in row[-1] or row[-1].startswith("not tried: "), row[0]


def test_every_tool_that_runs_as_root_has_a_row() -> None:
    named = " ".join(row[0] for row in rows("Root on the machines"))
    assert {tool for tool in (*PATHS, *(tool for tool, _ in PERMITTED)) if tool not in named} == set()


def test_the_rules_close_the_ports_that_groups_get() -> None:
    closed = [
        range(int(a), int(b) + 1)
        for a, b in re.findall(r"\(([0-9]+) to ([0-9]+)\)", section("Firewall rules"))
    ]
    for first, last in ((PORT_FIRST, PORT_LAST), EPHEMERAL):
        assert any(first in ports and last in ports for ports in closed)


def test_only_probes_and_repairs_ask_for_root() -> None:
    """Whoever else runs something with sudo gets a row first."""
    asking = {
        path.relative_to(PRODUCT).as_posix()
        for path in Path(PRODUCT).rglob("*.py")
        if "sandbox" not in path.parts
        and re.search(r"as_root=(?!False)|sudo -n|\"-n\", path", path.read_text())
    }
    assert asking == {
        "agent/repairs/runner.py",  # PERMITTED
        "inventory/examination/script.py",  # the same probes, by hand
        "inventory/probes/power.py",  # POWER
        "remote/bootstrap/actions.py",  # where the user may do everything
        "remote/bootstrap/rights.py",  # asks, and runs nothing
        "remote/bootstrap/survey.py",  # runs `true`
        "remote/nodes/scripts.py",  # RESTART
        "wire/repair.py",
        "wire/tools.py",
    }
