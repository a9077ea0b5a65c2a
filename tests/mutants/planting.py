"""A bug in a copy of the product, and what the tests say of it. The working tree is never touched."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from .mutant import Mutant

ROOT = Path(__file__).parents[2]
COPIED = ("reconciler", "tests", "examples", "manifests", "docs", "schemas", "pyproject.toml", "README.md")
SECONDS_MAX = 300.0
"""For all tests that map to one bug."""
TEST_SECONDS_MAX = 30
"""For each of them: a bug may well make something wait for ever."""
SOUND_SECONDS_MAX = 1800.0
"""For every test of every bug, without any of them."""
FAREWELL_SECONDS = 20.0
"""How long tests that are interrupted may take to end the processes that they have started."""
PASSED, FAILED = 0, 1
"""Exit codes of pytest; with any other it has judged nothing."""


_running: set[subprocess.Popen[str]] = set()


class NotApplicable(Exception):
    """The piece of source that a bug replaces is not there exactly once."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the tests made of one bug."""

    mutant: Mutant
    caught_by: str
    """The first test that failed; empty when none did."""
    seconds: float
    problem: str = ""
    """Why nothing can be said; empty when it can."""


def spoiled(mutant: Mutant, root: Path = ROOT) -> str:
    """The whole source file with the bug in it. Raises ``NotApplicable``."""
    source = (root / mutant.file).read_text(encoding="utf-8")
    found = source.count(mutant.before)
    if found != 1:
        raise NotApplicable(
            f"{mutant.name}: expected this once in {mutant.file}, found it {found} times:\n{mutant.before}"
        )
    return source.replace(mutant.before, mutant.after)


@contextmanager
def copied() -> Iterator[Path]:
    """A copy of the product and its tests, compiled files included, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        copy = Path(folder)
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, copy / name, symlinks=True)
            else:
                shutil.copy2(ROOT / name, copy / name)
        yield copy


def judge(mutant: Mutant) -> Verdict:
    """Plant a bug and run the tests that are to catch it."""
    began = time.monotonic()
    with copied() as copy:
        path = copy / mutant.file
        try:
            path.write_text(spoiled(mutant), encoding="utf-8")
        except (NotApplicable, OSError) as error:
            return Verdict(mutant, "", 0.0, str(error))
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()
        code, said = tested(copy, mutant.tests, SECONDS_MAX)
    seconds = time.monotonic() - began
    if code == FAILED:
        return Verdict(mutant, _first_failure(said), seconds)
    return Verdict(
        mutant, "", seconds, "" if code == PASSED else f"pytest ended with {code}:\n{said[-2000:]}"
    )


def sound(tests: tuple[str, ...]) -> str:
    """What fails without any bug, in a copy as well: then nothing could be concluded. Empty when nothing does."""
    with copied() as copy:
        code, said = tested(copy, tests, SOUND_SECONDS_MAX)
    return "" if code == PASSED else f"without any bug pytest ended with {code}:\n{said[-4000:]}"


def tested(copy: Path, tests: tuple[str, ...], seconds: float) -> tuple[int, str]:
    """Exit code and output of pytest in a copy. What runs too long is interrupted, so that it tidies up."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=line", "-p", "no:cacheprovider"]
    command += ["--hypothesis-seed=0", f"--timeout={TEST_SECONDS_MAX}", "-m", "not e2e", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy), "COLUMNS": "300"}
    process = subprocess.Popen(
        command,
        cwd=copy,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
    )
    _running.add(process)
    try:
        for number in (signal.SIGINT, signal.SIGKILL):
            try:
                said, _ = process.communicate(timeout=seconds)
                return process.returncode, said
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, number)
                seconds = FAREWELL_SECONDS
        said, _ = process.communicate()
        return process.returncode, said
    finally:
        _running.discard(process)


def interrupt() -> None:
    """Have all tests that run now tidy up and end."""
    for process in tuple(_running):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)


def _first_failure(said: str) -> str:
    found = re.search(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", said, re.MULTILINE)
    return found.group(1) if found else "a test without a name"
