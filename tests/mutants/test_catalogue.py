"""The catalogue keeps up with the sources: a bug that cannot be planted any more proves nothing."""

from __future__ import annotations

import pytest

from .groups import EVERY
from .mutant import Mutant
from .planting import ROOT, NotApplicable, spoiled


@pytest.mark.parametrize("mutant", EVERY, ids=lambda mutant: mutant.name)
def test_each_bug_can_be_planted_and_is_python(mutant: Mutant) -> None:
    compile(spoiled(mutant), mutant.file, "exec")


@pytest.mark.parametrize("mutant", EVERY, ids=lambda mutant: mutant.name)
def test_each_bug_has_tests_that_exist(mutant: Mutant) -> None:
    assert mutant.tests
    for test in mutant.tests:
        file, *names = test.split("::")
        assert (ROOT / file).exists(), test
        assert all(f"def {name}(" in (ROOT / file).read_text() for name in names), test


def test_names_are_unique_and_fit_the_table() -> None:
    names = [mutant.name for mutant in EVERY]
    assert len(set(names)) == len(names)
    assert [name for name in names if len(name) > 34] == []
    assert [mutant.name for mutant in EVERY if not mutant.harm] == []


def test_a_piece_of_source_that_is_gone_is_said() -> None:
    gone = Mutant("gone", "reconciler/errors.py", "no such line", "", "nothing", ("tests",))
    with pytest.raises(NotApplicable, match="found it 0 times"):
        spoiled(gone)
