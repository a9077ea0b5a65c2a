"""Where a bug is planted: a function, a class or a constant of the product, found by its name in the syntax tree."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType


class NotApplicable(Exception):
    """The product has no such place, or the place has not exactly what a bug is to change."""


@dataclass(frozen=True, slots=True)
class Address:
    """The name of a module, and of what is within it: ``World.fresh``; empty for all of the module."""

    module: str
    qualname: str

    def __str__(self) -> str:
        return f"{self.module}:{self.qualname}"

    def file(self, root: Path) -> Path:
        """The source file below a root. Raises ``NotApplicable`` where there is none."""
        path = root.joinpath(*self.module.split("."))
        for candidate in (path.with_suffix(".py"), path / "__init__.py"):
            if candidate.is_file():
                return candidate
        raise NotApplicable(f"there is no module {self.module}")

    def within(self, tree: ast.Module) -> ast.AST:
        """The node with that name. Raises ``NotApplicable`` unless there is exactly one."""
        node: ast.AST = tree
        for name in filter(None, self.qualname.split(".")):
            found = [each for each in ast.iter_child_nodes(node) if name in given_names(each)]
            if len(found) != 1:
                raise NotApplicable(f"{self}: {name} is there {len(found)} times")
            node = found[0]
        return node


def address(at: object) -> Address:
    """Return the address of a function, method, property, class or module, or of ``"module:qualname"``.

    A string is for what has no reference: a constant, or a module that imports MLX.
    """
    if isinstance(at, str):
        module, _, qualname = at.partition(":")
        return Address(module, qualname)
    if isinstance(at, ModuleType):
        return Address(at.__name__, "")
    for wrapped in ("fget", "func", "callback"):
        at = getattr(at, wrapped, at)
    function = inspect.unwrap(at) if callable(at) else at
    return Address(function.__module__, getattr(function, "__qualname__", ""))


def given_names(node: ast.AST) -> list[str]:
    """Return what a statement gives a name to."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]
