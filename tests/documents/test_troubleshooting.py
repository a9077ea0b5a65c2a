"""The page on troubleshooting knows every word that the product can answer with."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler import errors
from reconciler.agent import server
from reconciler.gateway.errors import ApiError, invalid
from reconciler.state import Cause, RefusedBecause, WaitingFor
from reconciler.state.faults import FaultClass
from reconciler.status.snapshots import Readiness
from reconciler.status.weights import WORST
from reconciler.wire.codec import Refused
from reconciler.wire.launch import Exit, ExitCode, exit_reason

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
ENTRIES = re.findall(r"^### (.*?)\n\n(.*?)(?=\n##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
NAMES = {name for title, _ in ENTRIES for name in re.findall("`([^`]+)`", title)}


def syntax(room: str) -> Iterator[ast.AST]:
    """Every node of the syntax of all modules of a room, those of its rooms too."""
    modules = sorted((ROOT / "reconciler" / room).rglob("*.py"))
    assert modules, room
    for path in modules:
        yield from ast.walk(ast.parse(path.read_text()))


def readiness() -> set[str]:
    """Second arguments of ``Readiness``, wherever it is built with a word."""
    found = set()
    for node in syntax("status"):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == Readiness.__name__
        ):
            reason = node.args[1]
            if isinstance(reason, ast.Constant):
                found.add(str(reason.value))
    return found | set(WORST)


def gateway_codes() -> set[str]:
    """Third arguments of ``ApiError`` and of ``invalid``, wherever they are called."""
    found = set()
    positions = {ApiError.__name__: 2, invalid.__name__: 2}
    for node in syntax("gateway"):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            position = positions.get(node.func.id)
            arguments = [*node.args[position:][:1]] if position is not None else []
            arguments += [k.value for k in node.keywords if k.arg == "code"]
            found |= {str(a.value) for a in arguments if isinstance(a, ast.Constant)}
    return found


def exits() -> set[str]:
    codes = [value for name, value in vars(ExitCode).items() if name.isupper()]
    return (
        {str(code) for code in codes}
        | {exit_reason(Exit(code, None, 0.0)) for code in codes}
        | {exit_reason(Exit(None, 9, 0.0)), exit_reason(Exit(1, None, 0.0, program=True))}
    )


def error_classes() -> set[str]:
    classes = {c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, Exception)}
    return {c.__name__ for c in classes - {errors.ReconcilerError}}


def agent_refusals() -> set[str]:
    return {
        str(node.args[0].value)
        for node in ast.walk(ast.parse(inspect.getsource(server)))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == Refused.__name__
        and isinstance(node.args[0], ast.Constant)
    }


REASONS: dict[str, Callable[[], set[str]]] = {
    "refusals": lambda: {reason.value for reason in RefusedBecause},
    "waits": lambda: {reason.value for reason in WaitingFor},
    "causes": lambda: {cause.value for cause in Cause},
    "classes of faults": lambda: {fault.reason for fault in FaultClass},
    "exits": exits,
    "readiness": readiness,
    "errors": error_classes,
    "refusals of agents": lambda: agent_refusals() - {"NotFound"},
    "codes of the gateway": lambda: gateway_codes() - {"None"},
}


@pytest.mark.parametrize("what", REASONS)
def test_every_word_has_an_entry(what: str) -> None:
    words = REASONS[what]()
    assert len(words) > 1
    assert words - NAMES == set()


def test_every_entry_says_what_it_means_where_to_look_and_what_to_do() -> None:
    assert len(ENTRIES) > 60
    skeleton = r"- \*\*Means:\*\* .+\.\n- \*\*Look at:\*\* .+\.\n- \*\*Do:\*\* .+\.\n?"
    assert [title for title, text in ENTRIES if not re.fullmatch(skeleton, text)] == []


def test_no_word_has_two_entries_and_links_lead_somewhere() -> None:
    titles = [name for title, _ in ENTRIES for name in re.findall("`([^`]+)`", title)]
    assert sorted(titles) == sorted(set(titles))
    anchors = {re.sub(r"[^\w\- ]", "", line.lstrip("# ")).strip().lower().replace(" ", "-") for line in
               re.findall(r"^#+ .*", PAGE, re.MULTILINE)}  # fmt: skip
    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) <= anchors
