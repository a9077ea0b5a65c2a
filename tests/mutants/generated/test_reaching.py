"""Against a bug are run the tests that reach its line, those beside it first, and no more than there is time for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.judging import KILLED, Verdict
from tests.mutants.planting import ROOT

from .drawing import Generated
from .reaching import HERE, OF_CONSTANTS, SECONDS_FOR_ONE, Reached, _gathered, _mentioning, _read
from .recorder import CURRENT, FOLDER, Recorder
from .report import Fate, percent, summary

DOOR = "reconciler/store/tables/door.py"
DOUBLE = "def double(n):\n    if n < 0:\n        return 0\n    return 2 * n\n"


def bug(file: str = DOOR, *lines: int) -> Generated:
    return Generated(
        "store/tables/door:shut#guard-never.0",
        "reconciler.store.tables.door:shut",
        "guard-never",
        0,
        file,
        lines,
    )


def test_tests_beside_a_bug_come_first_then_the_quick_ones_and_none_that_does_not_reach_it() -> None:
    beside, quick, slow, none = (
        f"tests/{name}.py::test_it"
        for name in ("store/tables/test_door", "cli/test_quick", "cli/test_slow", "store/test_none")
    )
    rows = [
        (slow, 9.0, {DOOR: "8"}),
        (quick, 0.1, {DOOR: "8"}),
        (none, 0.1, {DOOR: "4"}),
        (beside, 5.0, {DOOR: "8"}),
    ]
    found = _read(rows)
    assert found.by(bug(DOOR, 3)) == [slow, quick, beside]
    assert found.chosen(bug(DOOR, 3)) == [beside, quick, slow]
    assert found.chosen(bug(DOOR, 7)) == []


def test_no_more_are_run_than_there_is_time_for_and_no_file_takes_it_all() -> None:
    rows = [
        (f"tests/{file}.py::test_{n}", SECONDS_FOR_ONE / 8, {DOOR: "8"})
        for file in ("store/test_a", "cli/test_b")
        for n in range(9)
    ]
    chosen = _read(rows).chosen(bug(DOOR, 3))
    assert [test.count("test_a") for test in chosen] == [1] * 4 + [0] * 2


def test_against_a_survivor_is_run_what_there_was_no_time_for_and_nothing_twice() -> None:
    rows = [
        (f"tests/{file}.py::test_{n}", SECONDS_FOR_ONE / 2, {DOOR: "8"})
        for file in ("store/test_a", "cli/test_b")
        for n in range(4)
    ]
    found = _read([("tests/store/test_a.py::test_quick", 0.1, {DOOR: "8"}), *rows])
    assert found.chosen(bug(DOOR, 3)) == ["tests/store/test_a.py::test_quick"]
    rest = found.rest(bug(DOOR, 3))
    assert rest[:4] == [test for test, _, _ in rows if "test_a" in test]
    assert {test.partition("::")[0] for test in rest[4:]} == {"tests/cli/test_b.py"}


def test_for_a_constant_those_count_that_reach_a_line_which_mentions_it() -> None:
    file = "reconciler/planning/placement/search.py"
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    (defined,) = (at for at, line in enumerate(lines, 1) if line.startswith("SETS_MAX = "))
    users = _mentioning(file, "SETS_MAX", (defined,))
    assert users
    assert defined not in users
    constant = Generated(
        "n", "reconciler.planning.placement.search:", "bound-zero", 0, file, (defined,), "SETS_MAX"
    )
    rows = [("tests/a.py::uses", 1.0, {file: f"{1 << users[0]:x}"}), ("tests/a.py::other", 1.0, {file: "2"})]
    assert _read(rows).by(constant) == ["tests/a.py::uses"]
    assert _read(rows).chosen(constant) == [*OF_CONSTANTS, "tests/a.py::uses"]
    for path, _, function in (test.partition("::") for test in OF_CONSTANTS):
        assert f"def {function}(" in (ROOT / path).read_text(encoding="utf-8")


def test_threads_and_repeated_runs_are_recorded_and_other_code_is_not() -> None:
    seen: list[tuple[str, int]] = []
    recorder = Recorder(("store",), lambda file, line: seen.append((file, line)))
    before = sys.gettrace()
    own: dict[str, Any] = {}
    other: dict[str, Any] = {}
    exec(compile(DOUBLE, f"/somewhere.pyz/{DOOR}", "exec"), own)
    exec(compile(DOUBLE, "/somewhere/reconciler/cli/door.py", "exec"), other)
    try:
        for _ in range(2):
            recorder.begin()
            recorder.start()
            for module in (own, other):
                assert module["double"](3) == 6
    finally:
        sys.settrace(before)
    assert seen == 2 * [(DOOR, 2), (DOOR, 4)]


@pytest.mark.nightly
def test_what_a_test_starts_is_recorded_for_it_also_where_it_is_killed(tmp_path: Path) -> None:
    room = tmp_path / "reconciler" / "store"
    room.mkdir(parents=True)
    (room / "door.py").write_text(DOUBLE)
    script = "import os, runpy; runpy.run_path(os.path.abspath('reconciler/store/door.py'))['double'](3); os.kill(os.getpid(), 9)"
    environment = {
        FOLDER: str(tmp_path),
        CURRENT: "tests/test_it.py::test_it (call)",
        "PYTHONPATH": os.pathsep.join((str(HERE / "hook"), str(ROOT))),
    }
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, check=False)
    (tmp_path / "1.jsonl").write_text(
        '["tests/test_it.py::test_it", 1.5, {"reconciler/store/door.py": "8"}]\n'
    )
    assert _gathered(tmp_path) == [("tests/test_it.py::test_it", 1.5, {"reconciler/store/door.py": "1c"})]


def test_tests_that_do_not_end_have_caught_a_bug_and_what_cannot_be_planted_counts_for_nothing() -> None:
    verdicts = [
        Verdict("a", "tests/a.py::test_it", 1.0),
        Verdict("b", "", 300.0, problem="...", ended=KILLED),
        Verdict("c", "", 1.0),
        Verdict("d", "", 0.0, problem="gone"),
    ]
    fates = [Fate(bug(DOOR, 3), verdict, 1, ()) for verdict in verdicts]
    assert [fate.end for fate in fates] == ["caught", "caught", "SURVIVED", "NO VERDICT"]
    assert round(percent(fates)) == 67
    assert summary(fates).startswith("2 of 3 caught (67 %)")


def test_a_process_of_another_room_is_judged_by_the_tests_beside_it_where_none_is_known_to_reach_it() -> None:
    found = Reached()
    found.seconds = {
        "tests/agent/ranks/test_shim.py::test_it": 1.0,
        "tests/agent/test_fence.py::test_it": 1.0,
    }
    shim = Generated(
        "n", "reconciler.agent.ranks.shim:_serve", "guard-never", 0, "reconciler/agent/ranks/shim.py", (9,)
    )
    assert found.chosen(shim) == ["tests/agent/ranks/test_shim.py::test_it"]
