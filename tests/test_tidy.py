"""House rules that neither ruff, mypy nor import-linter can check, checked on the sources themselves."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from re import _constants as sre_constants  # type: ignore[attr-defined]
from re import _parser as sre_parser  # type: ignore[attr-defined]
from typing import Any, TypeGuard

import pytest

ROOT = Path(__file__).parents[1]
FUNCTION_LINES_MAX = 70
JUNK_DRAWERS = {
    "api",
    "common",
    "data",
    "handle",
    "helper",
    "helpers",
    "info",
    "manager",
    "misc",
    "models",
    "utils",
}
"""Names under which anything could be put. What a thing is for names it better."""
BROAD_EXCEPTS = {
    "reconciler/bootstrap/remote.py": 1,
    "reconciler/controller/loop.py": 1,
    "reconciler/gateway/handover/handing_over.py": 1,
    "reconciler/gateway/routing/runs.py": 1,
    "reconciler/runner/decode/leader.py": 1,
    "reconciler/runner/rank.py": 1,
}
"""The loop survives a pass that fails, what follows a remote repository begins again, a gateway survives a hand-over that
fails, a connection to a rank an answer that cannot be written, a group an answer that its model's own parsers cannot read,
and a rank that was told to end ends in order whatever the interrupted code makes of it; everywhere else an error is expected
by its name or is a fault."""
FOREIGN_TEXT_ROOMS = ("runner", "gateway", "wire", "console")
"""They read what clients and models write. Python's engine for regular expressions backtracks: one that they wrote never ends."""
OWN_EXPRESSIONS = {"reconciler/runner/model/mlx_errors.py": 1, "reconciler/wire/repair.py": 1}
"""Those of a table right above."""
PURE_ROOMS = ("planning", "state", "resources", "status", "incidents.py")

PRODUCT = sorted((ROOT / "reconciler").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree(path)))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def at(path: Path, node: ast.stmt | ast.expr | ast.excepthandler) -> str:
    return f"{name_of(path)}:{node.lineno}"


def functions(path: Path) -> Iterator[Function]:
    return (node for node in nodes(path) if isinstance(node, Function))


def test_there_is_something_to_check() -> None:
    assert len(PRODUCT) > 50
    assert len(TESTS) > 20


def test_functions_fit_on_a_screen() -> None:
    long = [
        f"{at(path, function)}: {function.name} has {lines} lines"
        for path in PRODUCT
        for function in functions(path)
        if (lines := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES_MAX
    ]
    assert long == []


def test_no_module_room_or_class_is_a_junk_drawer() -> None:
    modules = {name_of(path) for path in PRODUCT if {path.stem, path.parent.name} & JUNK_DRAWERS}
    classes = {
        f"{at(path, node)}: {node.name}"
        for path in PRODUCT
        for node in nodes(path)
        if isinstance(node, ast.ClassDef) and re.search(r"(Manager|Helper|Utils?|Info|Handle)$", node.name)
    }
    assert modules | classes == set()


def test_no_function_is_named_for_nothing() -> None:
    vague = {
        f"{at(path, function)}: {function.name}"
        for path in PRODUCT
        for function in functions(path)
        if function.name.strip("_") in JUNK_DRAWERS - {"models"}
    }
    assert vague == set()


def test_errors_are_not_swallowed_wholesale() -> None:
    broad: dict[str, int] = {}
    for path in PRODUCT:
        for node in nodes(path):
            if isinstance(node, ast.ExceptHandler) and _catches_everything(node.type) and not _raises(node):
                broad[name_of(path)] = broad.get(name_of(path), 0) + 1
    assert broad == BROAD_EXCEPTS


def test_no_regular_expression_comes_from_elsewhere() -> None:
    """A client's are matched in ``runner/forms/patterns.py``."""
    foreign: dict[str, int] = {}
    for path in PRODUCT:
        if path.relative_to(ROOT).parts[1] not in FOREIGN_TEXT_ROOMS:
            continue
        for node in nodes(path):
            if _is_call_of_re(node) and not _is_own(node.args[0]):
                foreign[name_of(path)] = foreign.get(name_of(path), 0) + 1
    assert foreign == OWN_EXPRESSIONS


def _is_call_of_re(node: ast.AST) -> TypeGuard[ast.Call]:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr != "escape"
    )


def _is_own(pattern: ast.expr) -> bool:
    """Return whether an expression is of literals, constants of a module, and escaped text alone."""
    match pattern:
        case ast.Constant():
            return True
        case ast.Name(id=name):
            return name.isupper()
        case ast.JoinedStr(values=parts):
            return all(
                _is_own(part.value) if isinstance(part, ast.FormattedValue) else True for part in parts
            )
        case ast.BinOp(left=left, right=right):
            return _is_own(left) and _is_own(right)
        case ast.Call(
            func=ast.Attribute(value=ast.Constant(), attr="join"), args=[ast.Call(args=[each, *_])]
        ):
            return ast.unparse(each) == "re.escape"
        case ast.Call(func=function):
            return ast.unparse(function) == "re.escape"
        case ast.Attribute():
            return ast.unparse(pattern).startswith("errno.")
        case _:
            return False


def test_no_regular_expression_over_foreign_text_can_be_matched_in_many_ways() -> None:
    """None repeats without a bound what itself repeats without a bound: that takes time without a bound."""
    literals = [
        (at(path, node), node.args[0].value)
        for path in PRODUCT
        if path.relative_to(ROOT).parts[1] in FOREIGN_TEXT_ROOMS
        for node in nodes(path)
        if _is_call_of_re(node) and isinstance(node.args[0], ast.Constant)
    ]
    ambiguous = [where for where, pattern in literals if _repeats_repeated(pattern)]
    assert ambiguous == []
    assert _repeats_repeated(r"(a+b?)+")
    assert _repeats_repeated(rb"((?:x|y{2,})c?)*")


def _repeats_repeated(pattern: Any) -> bool:
    def within(parsed: Any, inside: bool) -> bool:
        for operation, argument in parsed:
            repeated = (
                str(operation) in ("MAX_REPEAT", "MIN_REPEAT") and argument[1] is sre_constants.MAXREPEAT
            )
            if repeated and inside:
                return True
            if any(within(part, inside or repeated) for part in _parts(argument)):
                return True
        return False

    return within(sre_parser.parse(pattern), False)


def _parts(argument: Any) -> Iterator[Any]:
    """Yield the expressions within an operation's argument."""
    if isinstance(argument, sre_parser.SubPattern):
        yield argument
    elif isinstance(argument, (tuple, list)):
        for each in argument:
            yield from _parts(each)


def _raises(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def _catches_everything(caught: ast.expr | None) -> bool:
    if isinstance(caught, ast.Tuple):
        return any(map(_catches_everything, caught.elts))
    return caught is None or (isinstance(caught, ast.Name) and caught.id in ("Exception", "BaseException"))


def test_no_shell_sees_anything_of_ours() -> None:
    shells = {
        at(path, node)
        for path in PRODUCT
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and (
            any(word.arg == "shell" for word in node.keywords)
            or ast.unparse(node.func) in ("os.system", "os.popen", "asyncio.create_subprocess_shell")
        )
    }
    assert shells == set()


@pytest.mark.parametrize("room", ["wire", "agent"])
def test_what_is_shipped_to_bare_machines_needs_nothing_but_python(room: str) -> None:
    foreign = {
        f"{name_of(path)} imports {module}"
        for path in sorted((ROOT / "reconciler" / room).rglob("*.py"))
        for module in _imported(path)
        if module.split(".")[0] not in sys.stdlib_module_names
        and not module.startswith(("reconciler.wire", f"reconciler.{room}."))
    }
    allowed = {f"reconciler.{room}", "reconciler"}
    assert {entry for entry in foreign if entry.split(" imports ")[1] not in allowed} == set()


def _imported(path: Path) -> Iterator[str]:
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""


def test_pure_rooms_ask_no_clock() -> None:
    """Import contracts keep `time` out; `datetime` is needed as a type, but not for what time it is."""
    found = {
        f"{at(path, node)}: {called}"
        for path in PRODUCT
        if path.relative_to(ROOT / "reconciler").parts[0] in PURE_ROOMS
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and (called := ast.unparse(node.func)).rpartition(".")[2]
        in ("now", "utcnow", "today", "open", "print")
    }
    assert found == set()


def test_no_test_is_skipped_or_expected_to_fail() -> None:
    marks = ("skip", "skipif", "xfail", "importorskip")
    skipped = {
        at(path, node)
        for path in TESTS
        if re.search(rf"\.(?:{'|'.join(marks)})\b", path.read_text(encoding="utf-8"))
        for node in nodes(path)
        if isinstance(node, ast.Attribute)
        and node.attr in marks
        and ast.unparse(node.value) in ("pytest", "pytest.mark")
    }
    assert skipped == set()


def test_tests_use_real_parts() -> None:
    """Doubles stand at the edge, as small real servers; nothing asserts that something was called."""
    mocks = {
        name_of(path)
        for path in TESTS
        if "mock" in path.read_text(encoding="utf-8")
        if any("mock" in module.split(".") for module in _imported(path))
    }
    assert mocks == set()


# --- texts -----------------------------------------------------------------------------------------

UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
OWN_MACHINE = re.compile(r"(?<![\w.])(/Users/\w|/(?:root|work)/)")


@cache
def texts() -> tuple[Path, ...]:
    """Text files of the repository; what tools leave behind begins with a dot, or is in the list here."""
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name == ".ci" or name[0] != "."]
        folders[:] = [name for name in folders if name not in ("__pycache__", "build", "dist")]
        found += [Path(folder, name) for name in names if name != ".git"]  # a file in a worktree
    return tuple(path for path in sorted(found) if b"\0" not in path.read_bytes()[:8192])


@pytest.mark.parametrize("pattern", [UNFINISHED, OWN_MACHINE], ids=["unfinished", "own-machine"])
def test_texts_are_finished_and_fit_for_every_machine(pattern: re.Pattern[str]) -> None:
    found = [
        f"{name_of(path)}:{number}: {line.strip()[:80]}"
        for path in texts()
        if path != Path(__file__) and path.suffix not in (".json", ".jinja")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def test_no_large_file_slips_in() -> None:
    bytes_max = 8 * 1024 * 1024
    assert [name_of(path) for path in texts() if path.stat().st_size > bytes_max] == []


def test_links_between_documents_lead_somewhere() -> None:
    broken = [
        f"{name_of(path)}: {target}"
        for path in texts()
        if path.suffix == ".md"
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8"))
        if "://" not in target and not target.startswith("mailto:") and not (path.parent / target).exists()
    ]
    assert broken == []


FOREIGN = re.compile(r"""(?<!mlx-)\breconciler\[(?!\.|0)|\b(?:pip|pipx|uv|tool) install ['"]?reconciler\b""")
"""What installs somebody else's distribution: on PyPI, `reconciler` is another project."""


def test_nobody_is_told_to_install_what_is_not_ours() -> None:
    told = [*PRODUCT, ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    assert FOREIGN.search("install reconciler[runtime] there")
    assert FOREIGN.search("pip install reconciler")
    assert [name_of(path) for path in told if FOREIGN.search(path.read_text(encoding="utf-8"))] == []


def test_text_files_are_utf_8_whatever_the_locale_says() -> None:
    """A process may write a file in one locale that another reads in a second one."""
    found = []
    for path in PRODUCT:
        for node in nodes(path):
            if not isinstance(node, ast.Call) or any(
                each.arg in ("encoding", None) for each in node.keywords
            ):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            as_text = (name == "read_text" and not node.args) or (
                name == "write_text" and len(node.args) == 1
            )
            if as_text or any(
                each.arg in ("text", "universal_newlines") and name in ("run", "Popen")
                for each in node.keywords
            ):
                found.append(at(path, node))
    assert found == []
