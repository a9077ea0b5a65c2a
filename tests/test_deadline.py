"""A process of the tests that dies, or does not end, ends the run with the name of its test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_needs import pytest_of

DIES = "def test_one(): pass\ndef test_dies(): {death}\n" + "".join(
    f"def test_after_{number}(): pass\n" for number in range(3)
)
HOLDS_THE_INTERPRETER = """
    lock, c = ctypes.create_string_buffer(64), ctypes.PyDLL(None)
    c.pthread_mutex_lock(lock)
    c.pthread_mutex_lock(lock)
"""
DEATHS = {
    "killed": "import os; os.kill(os.getpid(), 9)",
    "aborted": "import os; os.abort()",
    "left": "import os; os._exit(0)",
}
OTHERS = {f"test_other_{number}": "def test_one(): pass\n" for number in range(3)}


@pytest.mark.second_tier
@pytest.mark.parametrize(
    ("death", "others"),
    [
        ("killed", 3),
        *(
            pytest.param(death, number, marks=pytest.mark.second_tier)
            for death in DEATHS
            for number in (0, 1)
        ),
    ],
)
def test_a_run_ends_with_the_name_of_the_test_whose_process_died(
    tmp_path: Path, death: str, others: int
) -> None:
    files = dict(list(OTHERS.items())[:others])
    done = pytest_of(
        tmp_path,
        "-n",
        "2",
        "--dist",
        "loadfile",
        "--no-loadscope-reorder",
        test_dies=DIES.format(death=DEATHS[death]),
        **files,
    )
    assert done.returncode == 1, done.stdout
    assert "FAILED tests/test_dies.py::test_dies" in done.stdout
    assert "a process of the tests died; 4 tests were not run, with that in which it died" in done.stdout


@pytest.mark.second_tier
@pytest.mark.parametrize(
    "where",
    [
        "tidying up after a failure",
        pytest.param("test", marks=pytest.mark.second_tier),
        pytest.param("set-up", marks=pytest.mark.second_tier),
    ],
)
def test_a_test_that_hangs_where_no_signal_is_heard_ends_the_run_with_its_stack(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECONCILER_HARD_SECONDS", "1")
    hangs = f"def hang():{HOLDS_THE_INTERPRETER}"
    text = f"""
import ctypes, pytest
pytestmark = pytest.mark.timeout(1)
{hangs}
@pytest.fixture
def made():
    {"hang()" if where == "set-up" else "pass"}
    yield
    {"hang()" if where.startswith("tidying") else "pass"}
def test_before(): pass
def test_hangs(made):
    {"hang()" if where == "test" else "pass" if where == "set-up" else "raise ValueError"}
"""
    done = pytest_of(tmp_path, "-n", "2", test_hangs=text, **OTHERS)
    assert done.returncode == 1, done.stdout
    assert "FAILED tests/test_hangs.py::test_hangs" in done.stdout
    assert "Timeout (0:00:02)!" in done.stderr + done.stdout
    assert " in hang" in done.stderr + done.stdout


@pytest.mark.second_tier
def test_a_process_that_dies_after_its_last_test_makes_the_run_fail(tmp_path: Path) -> None:
    text = """
import os
def test_one(request):
    class Ends:
        def pytest_sessionfinish(self): os._exit(3)
    request.config.pluginmanager.register(Ends())
"""
    done = pytest_of(tmp_path, "-n", "2", test_ends=text, **OTHERS)
    assert done.returncode == 1
    assert "0 tests were not run" in done.stdout


@pytest.mark.second_tier
def test_a_process_that_has_no_more_tests_waits_for_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECONCILER_END_SECONDS", "1")
    longer = "import time\ndef test_longer(): time.sleep(4)\n"
    done = pytest_of(tmp_path, "-n", "2", test_longer=longer, **dict(list(OTHERS.items())[:1]))
    assert "2 passed" in done.stdout
    assert "Timeout" not in done.stderr + done.stdout


@pytest.mark.second_tier
def test_a_test_that_is_only_late_fails_and_the_others_run(tmp_path: Path) -> None:
    late = "import pytest, time\n@pytest.mark.timeout(1)\ndef test_late(): time.sleep(60)\ndef test_next(): pass\n"
    done = pytest_of(tmp_path, "-n", "2", test_late=late, **OTHERS)
    assert "1 failed, 4 passed" in done.stdout
