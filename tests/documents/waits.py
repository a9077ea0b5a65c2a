"""Finds the waits of the product in its syntax, and what bounds each where it stands.

A wait is a call that returns when something else happens: another process, thread or task, a connection, a lock; and a
loop that sleeps until something is so. It is bounded where it stands if it is given a time, if a time-out is around it, or
if it is of a socket that its function has given a time-out. What was cancelled before ends at once.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

AWAITED = {
    "accept", "acquire", "communicate", "connect", "drain", "gather", "get", "join", "open_connection",
    "open_unix_connection", "read", "readexactly", "readline", "readuntil", "receive", "recv", "wait", "wait_closed",
    "wait_for",
}  # fmt: skip
"""Methods and functions that wait where they are awaited."""
BLOCKING = {
    "accept", "acquire", "communicate", "getresponse", "recv", "recv_fds", "recv_into", "wait", "wait_for",
}  # fmt: skip
"""Methods that block."""
WITHOUT_ARGUMENTS = {"get", "join"}
"""Methods that block where they are given nothing: else they are those of texts and mappings."""
OF_THREADS = ("threadsafe(", "submit(", "Future(")
"""``result`` blocks where it is asked of one of these: a task of an event loop has one, or raises."""
FUNCTIONS = {
    "os.read", "os.waitpid", "fcntl.flock", "select.select", "subprocess.run", "subprocess.call",
    "subprocess.check_call", "subprocess.check_output", "socket.create_connection", "urllib.request.urlopen",
}  # fmt: skip
AT_ONCE = ("LOCK_NB", "LOCK_UN", "WNOHANG")
"""With one of these a call returns at once."""
TIME_AT = {"wait": 0, "join": 0, "result": 0, "get": 1, "communicate": 1, "select.select": 3, "wait_for": 1}
"""Which positional argument of a call is its time; of ``asyncio.wait`` none."""
TIMED_SOCKET = {"accept", "connect", "recv", "recv_fds", "recv_into", "sendall"}
"""Methods that a time-out of their socket bounds."""
TIME_WORD = re.compile(r"\b(deadline|until|late)\b")
_OF_CONCERN = (
    AWAITED
    | BLOCKING
    | WITHOUT_ARGUMENTS
    | {name.rpartition(".")[2] for name in FUNCTIONS}
    | {"poll", "result"}
)
"""Last names of calls to look at more closely: to write all of them out would take seconds."""


@dataclass(frozen=True, slots=True)
class Wait:
    """One wait."""

    file: str
    """Path below the package."""
    function: str
    line: int
    call: str
    bound: str
    """The expression of its bound; empty if there is none where it stands."""

    @property
    def place(self) -> str:
        """``agent/ranks/shim.py:Shim.run``."""
        return f"{self.file}:{self.function}"


def in_package(package: Path, leave_out: tuple[str, ...] = ()) -> Iterator[Wait]:
    """Yield every wait of a package, but for those of these folders."""
    for path in sorted(package.rglob("*.py")):
        file = path.relative_to(package).as_posix()
        if not file.startswith(leave_out):
            yield from in_text(path.read_text(encoding="utf-8"), file)


def in_text(text: str, file: str) -> Iterator[Wait]:
    """Yield every wait of a module."""
    yield from _below(ast.parse(text), file, (), None, "")


def _below(
    node: ast.AST, file: str, names: tuple[str, ...], function: ast.AST | None, around: str
) -> Iterator[Wait]:
    """Yield the waits below a node; ``around`` is the bound of the time-out that it stands in."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _below(child, file, (*names, child.name), None, "")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _below(child, file, (*names, child.name), child, "")
        else:
            for call, bound in _of(child, function, isinstance(node, ast.Await)):
                line = getattr(child, "lineno", 0)
                yield Wait(file, ".".join(names), line, call, around or bound)
            yield from _below(child, file, names, function, _time_around(child) or around)


def _of(node: ast.AST, function: ast.AST | None, awaited: bool) -> Iterator[tuple[str, str]]:
    """Yield what a node itself waits for, and its bound."""
    if isinstance(node, ast.While) and _sleeps(node):
        yield f"while {ast.unparse(node.test)}", _deadline(node)
    if isinstance(node, ast.AsyncWith) and _time_around(node):
        yield "asyncio.timeout", _time_around(node)
    if isinstance(node, ast.Call):
        if _last_name(node) in _OF_CONCERN and _is_wait(node, awaited):
            yield ast.unparse(node.func), _given(node) or _bound_otherwise(node, function, awaited)
        elif any(word.arg == "timeout" for word in node.keywords) and (bound := _given(node)):
            yield ast.unparse(node.func), bound


def _last_name(call: ast.Call) -> str:
    func = call.func
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def _is_wait(call: ast.Call, awaited: bool) -> bool:
    name = ast.unparse(call.func)
    method = name.rpartition(".")[2]
    if awaited:
        return method in AWAITED and name != "get"
    if name in FUNCTIONS or name.endswith("_poll.poll"):
        return True
    if not isinstance(call.func, ast.Attribute) or name in (
        "asyncio.wait",
        "asyncio.wait_for",
        "asyncio.gather",
    ):
        return False
    if method == "result":
        return any(words in name for words in OF_THREADS)
    if method in (*WITHOUT_ARGUMENTS, "accept"):
        return not call.args and not call.keywords
    return method in BLOCKING and name.split(".")[0] not in ("view", "improve")


def _given(call: ast.Call) -> str:
    """Return the time that a call is given."""
    name = ast.unparse(call.func)
    at = TIME_AT.get(name, TIME_AT.get(name.rpartition(".")[2]))
    given = [word.value for word in call.keywords if word.arg == "timeout"]
    if not given and at is not None and len(call.args) > at and name != "asyncio.wait":
        given = [call.args[at]]
    text = ast.unparse(given[0]) if given else "None"
    return "" if text == "None" else text


def _bound_otherwise(call: ast.Call, function: ast.AST | None, awaited: bool) -> str:
    name, text = ast.unparse(call.func), ast.unparse(call)
    if any(word in text for word in AT_ONCE):
        return "at once"
    if function is None:
        return ""
    if name.rpartition(".")[2] in TIMED_SOCKET and not awaited:
        return _socket_timeout(function)
    if name in ("asyncio.gather", "asyncio.wait") and ".cancel()" in ast.unparse(function):
        return "cancelled"
    if name.endswith(".getresponse") and "timeout=" in ast.unparse(function):
        return "timeout of its connection"
    return ""


def _time_around(node: ast.AST) -> str:
    """Return the bound of a time-out that a node puts around what is in it."""
    if isinstance(node, ast.AsyncWith):
        for item in node.items:
            call = item.context_expr
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "asyncio.timeout":
                text = ast.unparse(call.args[0])
                return "" if text == "None" else text
    named = isinstance(node, ast.Call) and _last_name(node) in ("wait_for", "wait")
    if (
        named
        and isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("asyncio.wait_for", "asyncio.wait")
    ):
        return _given(node)
    return ""


def _sleeps(loop: ast.While) -> bool:
    """Return whether a loop sleeps between two looks; loops within it are their own."""
    return any(isinstance(node, ast.Call) and _last_name(node) == "sleep" for node in _own(loop))


def _own(loop: ast.While) -> Iterator[ast.AST]:
    stack: list[ast.AST] = list(loop.body)
    while stack:
        node = stack.pop()
        if not isinstance(node, ast.While | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
            stack.extend(ast.iter_child_nodes(node))


def _deadline(loop: ast.While) -> str:
    """Return the comparison with a time that ends a loop: its own, or one that leaves it."""
    tests = [loop.test]
    tests += [
        node.test
        for node in _own(loop)
        if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise | ast.Return | ast.Break)
    ]
    found = (ast.unparse(test) for test in tests)
    return next((text for text in found if TIME_WORD.search(text)), "")


def _socket_timeout(function: ast.AST) -> str:
    for node in ast.walk(function):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "settimeout"
        ):
            text = ast.unparse(node.args[0])
            if text != "None":
                return text
    return ""


# --- constants --------------------------------------------------------------------------------------

TIMING = "gateway/routing/timeouts.py"
"""The limits of the gateway are fields, and not constants."""
_CONSTANT = re.compile(r"\b_?[A-Z][A-Z_0-9]*(?:SECONDS|MAX)[A-Z_0-9]*\b")
_OWN = re.compile(r"self\.(\w+)")
_KEPT = re.compile(r"self\.(\w+) = ([A-Z][A-Z0-9_]+)\b")
_FIELD = re.compile(r"\b_?timing\.([a-z_]+)")


def constants(package: Path, found: list[Wait]) -> set[str]:
    """Return the constants that bound these waits, each with the file that defines it: ``agent/server.py:NAME``."""
    names = {(wait.file, name) for wait in found for name in _CONSTANT.findall(wait.bound)}
    names |= {(wait.file, name) for wait in found for name in _kept(package, wait)}
    fields = {f"{TIMING}:{name}" for wait in found for name in _FIELD.findall(wait.bound)}
    return fields | {_defined(package, file, name) for file, name in names}


def _kept(package: Path, wait: Wait) -> set[str]:
    """Return the constants that an object keeps as ``self.name`` from its beginning, and waits for by that name."""
    kept = dict(_KEPT.findall((package / wait.file).read_text(encoding="utf-8")))
    return {kept[name] for name in _OWN.findall(wait.bound) if name in kept}


def _defined(package: Path, file: str, name: str) -> str:
    """Follow imports to the module that defines a constant."""
    module = ast.parse((package / file).read_text(encoding="utf-8"))
    for node in module.body:
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            folder = (package / file).parents[max(0, node.level - 1)]
            words = (node.module or "").split(".")
            path = folder.joinpath(*words) if node.level else package.parent.joinpath(*words)
            return _defined(package, path.with_suffix(".py").relative_to(package).as_posix(), name)
    return f"{file}:{name}"
