"""A bug is judged in a copy that is afterwards as it was, by the tests alone that are to catch it."""

from __future__ import annotations

import faulthandler
from ast import Call
from contextlib import suppress
from pathlib import Path

import pytest

from .judging import KILLED, PASSED, Verdict, judge, sound
from .mutant import Mutant
from .operators import never, put
from .planting import planted
from .tiers import FIRST, NOT_KNOWN, SECOND, SECONDS_MAX, TEST_SECONDS_MAX, TIERS, Stage, Took, stages
from .workers import Planting, Soundness, Workers

pytestmark = pytest.mark.nightly
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
    return Mutant("a-bug", "reconciler.sums:larger", put(Call, after), "wrong sums", tests)


def judged(mutant: Mutant, copy: Path, known: str = "", tiers: tuple[str, ...] = (FIRST,)) -> Verdict:
    return judge(mutant, copy, stages(mutant, tiers), known)


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
    caught = judged(bug("{it.args[0]}", *GOOD), copy)
    assert (caught.caught_by, caught.problem) == (GOOD[1], "")
    survived = judged(bug("{it.args[1]}", *GOOD), copy)
    assert (survived.caught_by, survived.problem) == ("", "")
    assert (copy / "reconciler" / "sums.py").read_text() == PRODUCT


@pytest.mark.parametrize("known", [GOOD[0], f"{SUMS}::test_gone", "tests/test_gone.py::test_gone"])
def test_where_the_test_that_is_known_to_catch_it_does_not_all_others_are_asked(
    copy: Path, known: str
) -> None:
    assert judged(bug("{it.args[0]}", *GOOD), copy, known).caught_by == GOOD[1]


def test_the_test_that_is_known_is_asked_first(copy: Path) -> None:
    assert (
        judged(bug("min({it.args[0]}, {it.args[1]})", f"{SUMS}::test_endless"), copy, GOOD[1]).caught_by
        == GOOD[1]
    )


def test_of_a_bug_that_cannot_be_planted_nothing_is_said(copy: Path) -> None:
    verdict = judged(bug("max({it.args[2]}", *GOOD), copy)
    assert verdict.caught_by == ""
    assert verdict.problem.startswith("a-bug: reconciler.sums:larger: ")


def test_a_tier_has_only_its_own_tests(copy: Path) -> None:
    path = copy / SUMS
    path.write_text(
        "import pytest\n" + TESTS.replace("def test_second", "@pytest.mark.second_tier\ndef test_second")
    )
    (copy / "pyproject.toml").write_text('[tool.pytest.ini_options]\nmarkers = ["second_tier: of it"]\n')
    found = [
        judged(bug("{it.args[0]}", *GOOD), copy, GOOD[1], tiers) for tiers in ((FIRST,), (SECOND,), TIERS)
    ]
    assert [(each.caught_by, each.tier, each.problem) for each in found] == [
        ("", "", ""),
        (GOOD[1], SECOND, ""),
        (GOOD[1], SECOND, ""),
    ]


def test_a_test_that_fails_without_any_bug_is_reported(copy: Path) -> None:
    assert sound(GOOD, copy) == ""
    assert "tests/test_sums.py::test_wrong" in sound((f"{SUMS}::test_wrong",), copy)


def test_a_copy_is_as_it_was_whatever_happens_meanwhile(copy: Path) -> None:
    path = copy / "reconciler" / "sums.py"
    before = path.stat()
    with suppress(KeyboardInterrupt), planted(bug("{it.args[0]}"), copy):
        assert "return a" in path.read_text()
        raise KeyboardInterrupt
    assert path.read_text() == PRODUCT
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def test_workers_judge_the_product_itself() -> None:
    clock = "tests/planning/recovery/test_clocks.py"
    gone = Mutant("gone", "reconciler.errors:Nothing", never(), "nothing", (clock,))
    faulthandler.cancel_dump_traceback_later()  # no fork has the thread of this deadline, or could end it
    with Workers(2, [gone]) as workers:
        found = list(workers.each([Planting("gone", "", TIERS), Soundness((clock,))]))
    assert "" in found
    assert [each.problem.partition(":")[0] for each in found if not isinstance(each, str)] == ["gone"]


def test_a_test_that_fails_once_alone_catches_nothing_where_it_is_asked_twice(copy: Path) -> None:
    once = copy / "once"
    path = copy / SUMS
    path.write_text(
        f"import pathlib\n{TESTS}\n"
        f"def test_busy():\n    seen = pathlib.Path({str(once)!r})\n    if not seen.exists(): seen.touch(); assert 0\n"
    )
    planting = stages(bug("{it.args[1]}", f"{SUMS}::test_busy", *GOOD), (FIRST,))
    assert judge(bug("{it.args[1]}"), copy, planting, twice=True).caught_by == ""
    once.unlink()
    planting = stages(bug("{it.args[0]}", f"{SUMS}::test_busy", *GOOD), (FIRST,))
    assert judge(bug("{it.args[0]}"), copy, planting, twice=True).caught_by == GOOD[1]


def test_a_time_limit_catches_a_bug_unless_the_tests_do_not_keep_it_without_the_bug(copy: Path) -> None:
    endless = (Stage(FIRST, (f"{SUMS}::test_endless",), "", 60, 1.0),)
    patient = (Stage(FIRST, GOOD[:1], "", 60, 3.0),)
    assert judge(bug("max({it.args[0]}, 1)"), copy, endless, twice=True).ended == PASSED
    path = copy / SUMS
    path.write_text(TESTS.replace("assert larger(1, 1) == 1", "\n    while larger(1, 0) == 0: pass"))
    assert judge(bug("{it.args[1]}"), copy, patient, twice=True).ended == KILLED


def test_the_limits_follow_how_long_the_tests_took_without_a_bug(copy: Path) -> None:
    quick, slow = (
        stages(bug("0", *GOOD), (FIRST,), took)[0] for took in (NOT_KNOWN, Took(longest=30.0, all=200.0))
    )
    assert (quick.test_seconds, quick.seconds) == (TEST_SECONDS_MAX, SECONDS_MAX)
    assert (slow.test_seconds, slow.seconds) == (180, 1200.0)
