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
AGENT = _PACKAGE / "agent"
SOURCES = sorted([*AGENT.rglob("*.py"), *(_PACKAGE / "wire").rglob("*.py")])


def name(source: Path) -> str:
    """Its name within the package, as an import has it."""
    return ".".join(source.relative_to(_PACKAGE).with_suffix("").parts)


@pytest.mark.parametrize("source", SOURCES, ids=name)
def test_a_file_is_written_in_python_3_9(source: Path) -> None:
    ast.parse(source.read_text(), filename=str(source), feature_version=(3, 9))


@pytest.mark.parametrize("source", SOURCES, ids=name)
def test_a_file_imports_the_standard_library_the_wire_and_its_own_room_alone(source: Path) -> None:
    imported: set[str] = set()
    for part in ast.walk(ast.parse(source.read_text())):
        if isinstance(part, ast.Import):
            imported |= {alias.name for alias in part.names}
        elif isinstance(part, ast.ImportFrom) and part.level == 0:
            imported.add(part.module or "")

    foreign = {name for name in imported if name.split(".")[0] not in sys.stdlib_module_names - NEWER}

    allowed = ("reconciler.wire.", "reconciler.agent.") if source.is_relative_to(AGENT) else ()
    assert {name for name in foreign if not f"{name}.".startswith(allowed)} == set()
