"""Doing something around the import of one module of a library."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

Execute = Callable[[ModuleType], None]


def on_import(name: str, around: Callable[[Execute, ModuleType], None]) -> None:
    """Have ``around`` execute the module when it is imported; nothing where it is imported already."""
    if name not in sys.modules:
        sys.meta_path.insert(0, _Once(name, around))


class _Once(MetaPathFinder):
    """Finds one module, once, before its package continues."""

    def __init__(self, name: str, around: Callable[[Execute, ModuleType], None]) -> None:
        self._name = name
        self._around = around

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        execute: Execute = spec.loader.exec_module
        spec.loader.exec_module = lambda module: self._around(execute, module)  # type: ignore[method-assign]
        return spec
