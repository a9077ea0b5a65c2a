"""What runs on bare machines keeps to Python 3.9 and its standard library."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import reconciler

_PACKAGE = Path(reconciler.__file__).parent
NEWER = {"tomllib", "annotationlib", "compression"}
"""Of the standard library, but of Python 3.11 or 3.14."""
SOURCES = sorted([*(_PACKAGE / "agent").glob("*.py"), *(_PACKAGE / "wire").glob("*.py")])


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_a_file_is_written_in_python_3_9(source: Path) -> None:
    ast.parse(source.read_text(), filename=str(source), feature_version=(3, 9))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_a_file_imports_the_standard_library_and_the_wire_alone(source: Path) -> None:
    imported: set[str] = set()
    for part in ast.walk(ast.parse(source.read_text())):
        if isinstance(part, ast.Import):
            imported |= {alias.name for alias in part.names}
        elif isinstance(part, ast.ImportFrom) and part.level == 0:
            imported.add(part.module or "")

    foreign = {name for name in imported if name.split(".")[0] not in sys.stdlib_module_names - NEWER}

    allowed = (
        "reconciler.wire" if source.parent.name == "agent" else "nothing of the project by its full name"
    )
    assert {name for name in foreign if not f"{name}.".startswith(f"{allowed}.")} == set()
