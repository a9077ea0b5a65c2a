"""A run that was interrupted goes on where it was stopped, and none believes what was said of other code."""

from __future__ import annotations

from pathlib import Path

from tests.mutants.judging import KILLED, Verdict

from .kept import Kept

CAUGHT = Verdict("a-bug", "tests/a.py::test_it", 1.5, 0.5, "", "first")


def test_what_a_tier_said_is_known_to_the_next_run_and_to_no_other_tier(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "verdicts.jsonl"
    Kept("one", path).add("first", CAUGHT)
    assert Kept("one", path).of("first", "a-bug") == CAUGHT
    assert Kept("one", path).of("simulator", "a-bug") is None


def test_verdicts_on_other_code_are_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    Kept("one", path).add("first", CAUGHT)
    assert Kept("two", path).of("first", "a-bug") is None
    assert Kept("one", path).of("first", "a-bug") is None


def test_where_nothing_could_be_said_the_bug_is_judged_again_and_a_line_cut_short_is_left_out(
    tmp_path: Path,
) -> None:
    path = tmp_path / "verdicts.jsonl"
    kept = Kept("one", path)
    kept.add("first", Verdict("busy", "", 1.0, problem="pytest ended"))
    kept.add("first", Verdict("endless", "", 300.0, problem="pytest ended", ended=KILLED))
    with path.open("a", encoding="utf-8") as out:
        out.write('{"key": "one", "tier": "first", "verd')
    again = Kept("one", path)
    assert again.of("first", "busy") is None
    assert again.of("first", "endless") == Verdict("endless", "", 300.0, problem="pytest ended", ended=KILLED)
