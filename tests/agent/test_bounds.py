"""Every bound of the agent and of the ways to machines, as it was recorded: who changes one changes its line."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import reconciler
from tests.recorded import compare

PACKAGE = Path(reconciler.__file__).parent
TESTS = Path(__file__).parents[1]


def bounds(room: str) -> Iterator[str]:
    """Yield each constant that is a number, or several of them, with the module that defines it."""
    for path in sorted((PACKAGE / room).rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        values = vars(importlib.import_module(module))
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            for target in (
                each for one in targets for each in (one.elts if isinstance(one, ast.Tuple) else [one])
            ):
                value = values.get(target.id) if isinstance(target, ast.Name) else None
                if isinstance(target, ast.Name) and target.id.isupper() and _numbers(value):
                    yield f"{module}.{target.id} {value!r}"


def _numbers(value: object) -> bool:
    if isinstance(value, tuple):
        return bool(value) and all(map(_numbers, value))
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@pytest.mark.parametrize("room", ["agent", "remote"])
def test_every_bound_is_as_recorded(room: str) -> None:
    found = list(bounds(room))
    assert len(found) > 50
    compare(TESTS / room / "recorded" / "bounds.txt", found)
