"""Write the fields of the answers into a page, or check it: ``python -m reconciler.cli.answer_fields PAGE [--check]``."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from typing import Any

from reconciler.wire import answers, objects

from .reference import between, main

BEGIN = "<!-- Written by `python -m reconciler.cli.answer_fields`; edit reconciler/wire/answers.py and objects.py instead. -->"
COMMANDS: dict[str, Any] = {
    "plan": answers.Planned,
    "events": answers.Events,
    "incidents": answers.Incidents,
    "history": answers.Commits,
    "history REVISION": answers.ShownCommit,
    "top": answers.ReportedUsage,
    "doctor": answers.Findings,
    "get ranks": objects.ShownRanks,
    "get operations": objects.ShownOperations,
    "plan -f manifests/": answers.Foreseen,
    "top --since 1h": answers.Metrics,
    "model verify NAME": answers.Verification,
    "verify DEPLOYMENT": answers.Tried,
}
"""The types of what commands print with ``-o json``."""
JSON = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "Literal": "string",
    "dict": "object",
}
"""The words for types, by their names in Python."""
NOT_PRINTED = {"incidents": ("version",)}


class _Types:
    """The classes of the modules, with their fields in the order of the source."""

    def __init__(self) -> None:
        trees = (ast.parse(inspect.getsource(module)) for module in (answers, objects))
        self._classes = {
            node.name: node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)
        }

    def fields(self, name: str) -> Iterator[tuple[str, ast.expr, str]]:
        """Yield the name, the type and the meaning of each field, those of base classes first."""
        node = self._classes.get(name)
        if node is None:
            if name in ("_Class", "_ClassOfSign"):
                kind = ast.parse("str" if name == "_Class" else "str | None", mode="eval").body
                yield "class", kind, "The class of faults, such as `C8`."
            return
        for base in node.bases:
            yield from self.fields(ast.unparse(base))
        for field, after in zip(node.body, [*node.body[1:], None], strict=True):
            if isinstance(field, ast.AnnAssign):
                yield ast.unparse(field.target), field.annotation, _text(after)

    def rows(self, name: str, prefix: str = "") -> Iterator[tuple[str, str, str]]:
        """Yield the same with the fields of fields, as paths such as ``items[].text``."""
        for field, kind, meaning in self.fields(name):
            lists, inner, nullable = _parts(kind)
            path = f"{prefix}{field}{lists}"
            if inner in self._classes:
                yield from self.rows(inner, f"{path}.")
            else:
                yield path, f"{JSON[inner]}{' or null' if nullable else ''}", meaning


def _parts(kind: ast.expr) -> tuple[str, str, bool]:
    """Return ``[]`` for each list around a type, its name, and whether it may be null."""
    if isinstance(kind, ast.BinOp):
        lists, inner, _ = _parts(kind.left)
        return lists, inner, True
    if not isinstance(kind, ast.Subscript):
        return "", ast.unparse(kind), False
    around = ast.unparse(kind.value)
    if around not in ("list", "NotRequired"):
        return "", around, False
    lists, inner, nullable = _parts(kind.slice)
    return f"{'' if around == 'NotRequired' else '[]'}{lists}", inner, nullable


def _text(node: ast.stmt | None) -> str:
    """Return the docstring after a field; empty where it has none."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return (
            inspect.cleandoc(str(node.value.value))
            .replace("\n", " ")
            .replace("``", "`")
            .replace("None", "`null`")
        )
    return ""


def fields() -> Iterator[str]:
    """Yield a table for each command."""
    types = _Types()
    for command, answer in COMMANDS.items():
        yield f"### {command}\n\n| field | type | |\n|---|---|---|\n"
        for path, kind, meaning in types.rows(answer.__name__):
            if path not in NOT_PRINTED.get(command, ()):
                yield f"| `{path}` | {kind} | {meaning} |\n"
        yield "\n"


def written(page: str) -> str:
    """Return the page with the current fields. Raises ``ValueError`` for a page without its marks."""
    return between(page, BEGIN, "".join(fields()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], written, "reconciler.cli.answer_fields"))
