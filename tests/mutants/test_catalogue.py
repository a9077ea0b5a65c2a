"""The catalogue keeps up with the sources: a bug that cannot be planted any more proves nothing."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.mutants.bugs.groups import EVERY

from .places import NotApplicable
from .planting import ROOT


@pytest.mark.second_tier
def test_each_bug_can_be_planted_and_is_python_that_differs() -> None:
    problems = []
    for mutant in EVERY:
        try:
            path = mutant.address.file(ROOT)
            spoiled = mutant.spoil(_source(path))
            compile(spoiled, path, "exec")
            if spoiled == _plain(path):
                problems.append(f"{mutant.name}: changes nothing")
        except (NotApplicable, SyntaxError) as error:
            problems.append(str(error))
    assert problems == []


def test_each_bug_has_tests_that_exist() -> None:
    assert [mutant.name for mutant in EVERY if not mutant.tests] == []
    missing = []
    for test in {test for mutant in EVERY for test in mutant.tests}:
        file, *names = test.split("::")
        path = ROOT / file
        if not path.exists() or not all(f"def {name}(" in _source(path) for name in names):
            missing.append(test)
    assert missing == []


def test_names_are_unique_and_fit_the_table() -> None:
    names = [mutant.name for mutant in EVERY]
    assert len(set(names)) == len(names)
    assert [name for name in names if len(name) > 34] == []
    assert [mutant.name for mutant in EVERY if not mutant.harm] == []


@cache
def _source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def _plain(path: Path) -> str:
    return ast.unparse(ast.parse(_source(path))) + "\n"
