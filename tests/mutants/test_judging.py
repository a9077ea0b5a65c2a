"""A bug is judged in a copy that is afterwards as it was, by the tests alone that are to catch it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from .judging import judge, sound
from .mutant import Mutant
from .planting import planted
from .workers import Planting, Soundness, Workers

PRODUCT = "def larger(a: int, b: int) -> int:\n    return max(a, b)\n"
TESTS = """
from reconciler.sums import larger

def test_equal(): assert larger(1, 1) == 1
def test_second(): assert larger(1, 2) == 2
def test_wrong(): assert larger(1, 2) == 3
def test_endless():
    while larger(1, 1): pass
"""
SUMS = "tests/test_sums.py"
GOOD = tuple(f"{SUMS}::test_{name}" for name in ("equal", "second"))


def bug(after: str, *tests: str) -> Mutant:
    return Mutant("a-bug", "reconciler/sums.py", "max(a, b)", after, "wrong sums", tests)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """What passes for a copy of the product."""
    (tmp_path / "reconciler").mkdir()
    (tmp_path / "reconciler" / "__init__.py").touch()
    (tmp_path / "reconciler" / "sums.py").write_text(PRODUCT)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_sums.py").write_text(TESTS)
    return tmp_path


def test_the_first_test_that_fails_has_caught_a_bug_and_one_that_none_notices_survives(copy: Path) -> None:
    caught = judge(bug("a", *GOOD), copy)
    assert (caught.caught_by, caught.problem) == (GOOD[1], "")
    survived = judge(bug("b", *GOOD), copy)
    assert (survived.caught_by, survived.problem) == ("", "")
    assert (copy / "reconciler" / "sums.py").read_text() == PRODUCT


@pytest.mark.parametrize("known", [GOOD[0], f"{SUMS}::test_gone", "tests/test_gone.py::test_gone"])
def test_where_the_test_that_is_known_to_catch_it_does_not_all_others_are_asked(
    copy: Path, known: str
) -> None:
    assert judge(bug("a", *GOOD), copy, known).caught_by == GOOD[1]


def test_the_test_that_is_known_is_asked_first(copy: Path) -> None:
    assert judge(bug("min(a, b)", f"{SUMS}::test_endless"), copy, GOOD[1]).caught_by == GOOD[1]


def test_of_what_is_no_python_nothing_is_said(copy: Path) -> None:
    verdict = judge(bug("max(a,", *GOOD), copy)
    assert verdict.caught_by == ""
    assert "SyntaxError" in verdict.problem


def test_a_test_that_fails_without_any_bug_is_told(copy: Path) -> None:
    assert sound(GOOD, copy) == ""
    assert "tests/test_sums.py::test_wrong" in sound((f"{SUMS}::test_wrong",), copy)


def test_a_copy_is_as_it_was_whatever_happens_meanwhile(copy: Path) -> None:
    path = copy / "reconciler" / "sums.py"
    before = path.stat()
    with suppress(KeyboardInterrupt), planted(bug("a"), copy):
        assert "return a" in path.read_text()
        raise KeyboardInterrupt
    assert path.read_text() == PRODUCT
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def test_workers_judge_the_product_itself() -> None:
    clock = "tests/planning/test_clocks.py"
    gone = Mutant("gone", "reconciler/errors.py", "no such line", "", "nothing", (clock,))
    with Workers(2) as workers:
        found = list(workers.each([Planting(gone, ""), Soundness((clock,))]))
    assert "" in found
    assert [each.problem.partition(":")[0] for each in found if not isinstance(each, str)] == ["gone"]
