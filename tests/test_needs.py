"""What a test needs is said once: it is left out where that is missing, and fails where it was not said."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import EVERYWHERE, NEEDS, ROOT, VARIABLE, find, is_foreign, summary

MISSING = """
from tests import needs
needs.NEEDS["frob"] = needs.Need(("frob-of-nobody",), "frob", "frob")
needs.NEEDS["wings"] = needs.Need(otherwise="grow them", holds=lambda: False)
"""
SOME = """
import pytest
from tests.needs import needing

@pytest.fixture(scope="module")
@needing("frob")
def frob():
    raise AssertionError("there is no frob")

@pytest.fixture
def both(frob):
    return frob

def test_that_needs_nothing(): pass

@pytest.mark.needs("frob")
def test_by_its_mark(): raise AssertionError

def test_by_its_fixture(frob): pass

def test_by_the_fixture_of_its_fixture(both): pass

@pytest.mark.needs("wings", "frob")
class TestFlight:
    def test_by_its_class(self): raise AssertionError

@pytest.mark.parametrize("how", ["walks", pytest.param("flies", marks=pytest.mark.needs("wings"))])
def test_by_its_parameter(how): assert how == "walks"
"""
ALL = """
import pytest
pytestmark = pytest.mark.needs("wings")
def test_by_its_module(): raise AssertionError
"""


def pytest_of(folder: Path, *words: str, **files: str) -> subprocess.CompletedProcess[str]:
    """Run pytest as this repository does, on other tests."""
    tests = folder / "tests"
    if not tests.exists():
        tests.mkdir()
        shutil.copy(ROOT / "pyproject.toml", folder)
        for path in (ROOT / "tests").glob("*.py"):
            if not path.name.startswith("test_"):
                shutil.copy(path, tests)
    for name, text in files.items():
        if name == "conftest":
            text = (ROOT / "tests" / "conftest.py").read_text() + text
        (tests / f"{name}.py").write_text(text)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=100, check=False,
        env={**environment, VARIABLE: str(folder / "left-out")},
    )  # fmt: skip


@pytest.mark.parametrize("workers", [pytest.param("0", marks=pytest.mark.second_tier), "2"])
def test_what_is_missing_leaves_tests_out_and_one_line_says_so(tmp_path: Path, workers: str) -> None:
    done = pytest_of(tmp_path, "-n", workers, conftest=MISSING, test_some=SOME, test_all=ALL)
    assert done.returncode == 0, done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("left out")]
    assert line == "left out 6 tests: 4 for frob (Debian: frob; Homebrew: frob), 3 for wings (grow them)"
    assert "2 passed" in done.stdout
    assert "skipped" not in done.stdout


@pytest.mark.second_tier
def test_what_was_left_out_is_run_by_its_ids_once_nothing_is_missing(tmp_path: Path) -> None:
    pytest_of(tmp_path, conftest=MISSING, test_some=SOME)
    left = (tmp_path / "left-out").read_text().splitlines()
    assert "tests/test_some.py::test_by_its_parameter[flies]" in left
    there = MISSING.replace("frob-of-nobody", "sh").replace("lambda: False", "lambda: True")
    whole = SOME.replace('raise AssertionError("there is no frob")', "pass").replace(
        "raise AssertionError", "pass"
    )
    whole = whole.replace('assert how == "walks"', "pass")
    again = pytest_of(tmp_path, "-n", "2", f"@{tmp_path / 'left-out'}", conftest=there, test_some=whole)
    assert f"{len(left)} passed" in again.stdout, again.stdout
    assert "left out" not in again.stdout
    assert (tmp_path / "left-out").read_text() == ""


@pytest.mark.second_tier
def test_only_what_would_run_is_counted(tmp_path: Path) -> None:
    done = pytest_of(tmp_path, "-k", "parameter", conftest=MISSING, test_some=SOME)
    assert "left out 1 test: 1 for wings (grow them)" in done.stdout


@pytest.mark.second_tier
def test_a_need_that_nobody_knows_is_an_error(tmp_path: Path) -> None:
    done = pytest_of(tmp_path, test_some="import pytest\n@pytest.mark.needs('sshdd')\ndef test_one(): pass\n")
    assert done.returncode != 0
    assert "test_one needs sshdd: not in NEEDS of tests/needs.py" in done.stdout + done.stderr


STARTS = """
import asyncio, os, subprocess, pytest

@pytest.fixture
def quietly():
    yield
    with pytest.raises(OSError):
        subprocess.run(["{program}"], cwd="/nowhere")

def test_by_subprocess(): subprocess.run(["{program}", "-h"], capture_output=True)
def test_by_its_path(): subprocess.run(["{path}", "-h"], capture_output=True)
async def test_by_asyncio(): await (await asyncio.create_subprocess_exec("{program}", "-h")).wait()
def test_by_posix_spawn(): os.waitpid(os.posix_spawn("{path}", ["{program}", "-h"], os.environ), 0)
def test_in_a_fixture(quietly): pass
def test_one_that_swallows_errors():
    try: subprocess.run(["{program}", "-h"], capture_output=True)
    except BaseException: pass
@pytest.mark.needs("frob")
def test_said(): subprocess.run(["{program}", "-h"], capture_output=True)
def test_python_git_and_a_shell(tmp_path):
    import sys
    subprocess.run([sys.executable, "-c", ""], check=True)
    subprocess.run(["git", "--version"], check=True)
    subprocess.run(["sh", "-c", "true"], check=True)
    (tmp_path / "own").write_text("#!/bin/sh\\n")
    (tmp_path / "own").chmod(0o700)
    subprocess.run([str(tmp_path / "own")], check=True)
"""


def test_a_test_that_starts_a_program_without_saying_so_fails(tmp_path: Path) -> None:
    path = find("perl") or find("m4") or "/usr/bin/true"  # any program that is in no list of ours
    name = Path(path).name
    known = f'\nfrom tests import needs\nneeds.NEEDS["frob"] = needs.Need(("{name}",))\n'
    done = pytest_of(tmp_path, "-n", "0", conftest=known, test_starts=STARTS.format(program=name, path=path))
    failed = {
        line.partition("::")[2].partition(" ")[0]
        for line in done.stdout.splitlines()
        if line.startswith("ERROR")
    }
    assert failed == {
        "test_by_subprocess",
        "test_by_its_path",
        "test_by_asyncio",
        "test_by_posix_spawn",
        "test_in_a_fixture",
        "test_one_that_swallows_errors",
    }
    assert f"it uses {name}, and does not say that it needs it" in done.stdout


def test_programs_of_the_tests_and_of_every_machine_are_not_foreign(tmp_path: Path) -> None:
    assert not is_foreign(sys.executable)
    assert not is_foreign("python3.9")
    assert not any(map(is_foreign, EVERYWHERE))
    assert not is_foreign(str(tmp_path / "nothing"))


def test_each_need_says_what_to_do() -> None:
    assert all(need.remedy for need in NEEDS.values())
    assert not EVERYWHERE & {program for need in NEEDS.values() for program in need.programs}
    assert summary([["root"], ["root", "sshd"]]) == (
        "left out 2 tests: 2 for root (run as root), 1 for sshd (Debian: openssh-server)"
    )
