"""Imports ``transformers`` in half the time. Every rank begins with this import, so every group waits for it.

It imports ``numpy``, whose library for matrices starts a thread for each core. A rank does not need these threads.

At each import, ``transformers`` reads the 1,600 files of all its models to learn their names. A rank needs two names.
Here the import reads only ``auto``, which finds a tokenizer by its model's name. The files of tokenizers are read
when an unknown tokenizer is requested. All others are read, by ``transformers``' own functions, when a name is in
none of these. If ``transformers`` no longer has these functions, nothing is changed.

Written against transformers 5.23.0, ``utils/import_utils.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from .on_import import Execute, on_import

MODULE = "transformers.utils.import_utils"
THREADS = "OPENBLAS_NUM_THREADS"
MODELS = "models"
FIRST = "auto"
"""The folder of ``MODELS`` that is read at once."""
_NAME = "__all__"
_LEARNED = ("_modules", "_class_to_module", "_object_missing_backend", "_import_structure", _NAME)
"""The fields that a ``_LazyModule`` makes from an import structure."""


def quicken() -> None:
    """Install the fast import, unless the modules are already imported."""
    on_import(MODULE, _changing)
    on_import("numpy", _without_threads)


def _without_threads(execute: Execute, module: ModuleType) -> None:
    if THREADS in os.environ:
        return execute(module)
    os.environ[THREADS] = "1"
    try:
        execute(module)
    finally:
        del os.environ[THREADS]  # other libraries may ask for it later


def _changing(execute: Execute, module: ModuleType) -> None:
    execute(module)
    change(module)


def change(module: Any) -> None:
    """Replace some of the module's functions, and its class of modules, with faster ones."""
    names = getattr(module, "fetch__all__", None)
    structure = getattr(module, "create_import_structure_from_path", None)
    define = getattr(module, "define_import_structure", None)
    lazy = getattr(module, "_LazyModule", None)
    if names is None or structure is None or define is None or lazy is None:
        return

    def last_names(text: str) -> Any:
        return names(_tail_from(text))

    def of_folder(path: str | Path) -> Any:
        return structure(str(_folder(path)))

    def define_first(path: str | Path, prefix: str | None = None) -> Any:
        folder = _folder(path)
        if folder.name != MODELS or not (folder / FIRST).is_dir():
            return define(path, prefix)
        within = f"{prefix}." if prefix else ""
        return _First(
            define(folder / FIRST, within + FIRST),
            lambda: _tokenizers(folder, within, last_names),
            lambda: define(path, prefix),
        )

    module.fetch__all__ = last_names
    module.create_import_structure_from_path = of_folder
    module.define_import_structure = define_first
    module._LazyModule = _reading_on(lazy)


class _First(dict[Any, Any]):
    """The part of an import structure that is read at once."""

    def __init__(
        self,
        part: dict[Any, Any],
        tokenizers: Callable[[], dict[str, str]],
        whole: Callable[[], dict[Any, Any]],
    ) -> None:
        super().__init__(part)
        self.tokenizers = tokenizers
        """Reads the modules of tokenizers."""
        self.whole = whole
        """Reads all of it."""


def _tokenizers(folder: Path, within: str, names: Callable[[str], Any]) -> dict[str, str]:
    """Return the modules of tokenizers that need no other package, by the tokenizers' names."""
    found: dict[str, str] = {}
    for path in folder.glob("*/tokenization_*.py"):
        text = path.read_text("utf-8")
        if "@requires" not in text and not path.stem.endswith("_fast"):
            found.update(dict.fromkeys(names(text), f"{within}{path.parent.name}.{path.stem}"))
    return found


def _reading_on(lazy: Any) -> Any:
    """Return a class of modules that read the whole structure before they report that a name is missing."""

    class LazyModule(lazy):  # type: ignore[misc]
        _rest: Any = None

        def __init__(self, name: str, module_file: str, import_structure: Any, *args: Any, **kwargs: Any):
            super().__init__(name, module_file, import_structure, *args, **kwargs)
            if isinstance(import_structure, _First):
                self._rest = (name, module_file, import_structure, args, kwargs)
                del self.__all__  # is asked for again

        def __getattr__(self, name: str) -> Any:
            if self._rest is not None and name.endswith("Tokenizer") and not self._knows(name):
                self._class_to_module.update(self._rest[2].tokenizers())
            if self._rest is not None and (name == _NAME or not self._knows(name)):
                self._read_on()
            return self.__dict__[name] if name == _NAME else super().__getattr__(name)

        def _knows(self, name: str) -> bool:
            known = (self._objects, self._class_to_module, self._modules)
            return name.startswith("__") or any(name in each for each in known)  # the former are no exports

        def _read_on(self) -> None:
            name, module_file, first, args, kwargs = self._rest
            whole = dict(first.whole())
            for needed, modules in first.items():
                whole[needed] = {**whole.get(needed, {}), **modules}
            read = lazy(name, module_file, whole, *args, **kwargs)
            self.__dict__.update({field: read.__dict__[field] for field in _LEARNED})
            self._rest = None  # last: another thread that asks meanwhile reads it too

    return LazyModule


def _folder(path: str | Path) -> Path:
    return Path(path).parent if str(path).endswith(".py") else Path(path)


def _tail_from(text: str) -> str:
    """Return the text from the last line that begins with the name; the original searches line by line."""
    at = text.rfind(f"\n{_NAME}")
    if at >= 0:
        return text[at + 1 :]
    return text if text.startswith(_NAME) else ""
