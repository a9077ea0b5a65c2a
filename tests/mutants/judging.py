"""What the tests say of one bug.

Each run of pytest is a fork of a process that has imported what is neither product nor test: a start that costs a
second of a core is paid once for all bugs.
"""

from __future__ import annotations

import importlib
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from .mutant import Mutant
from .places import NotApplicable
from .planting import ROOT, planted
from .tiers import SCHEDULES_SECONDS_MAX, SIMULATOR_SECONDS_MAX, Stage

EXIT_SECONDS = 20.0
"""How long tests that are interrupted may take to end the processes that they have started."""
KILLED, PASSED, FAILED, NO_SUCH_TEST, NO_TESTS = -1, 0, 1, 4, 5
"""Exit codes of pytest, and what stands for none; with any other it has judged nothing."""
SHARED = (
    "asyncssh",
    "click",
    "httptools",
    "hypothesis.stateful",
    "hypothesis.strategies",
    "hypothesis.internal.conjecture.engine",
    "_hypothesis_pytestplugin",
    "orjson",
    "prometheus_client",
    "pydantic",
    "pytest_asyncio",
    "pytest_timeout",
    "starlette.applications",
    "tenacity",
    "uvicorn",
    "watchfiles",
    "yaml",
)
"""Imported once for all runs. MLX is not among them: what holds a GPU is not forked."""
FORK = get_context("fork")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the tests made of one bug."""

    name: str
    """Of the bug."""
    caught_by: str
    """The first test that failed; empty when none did."""
    seconds: float
    cpu_seconds: float = 0.0
    """Of the tests, and of what they started and waited for."""
    problem: str = ""
    """Why nothing can be said; empty when it can."""
    tier: str = ""
    """Of the test that failed."""
    ended: int = PASSED
    """The exit code of the run after which nothing can be said; ``KILLED`` where it took too long."""


@dataclass(slots=True)
class Outcome:
    """What a run of pytest told of itself."""

    code: int = KILLED
    failed: list[str] = field(default_factory=list)
    cpu_seconds: float = 0.0
    output: str = ""


def import_shared() -> None:
    """Import what all runs need, once."""
    for name in SHARED:
        importlib.import_module(name)


def judge(
    mutant: Mutant, copy: Path, stages: Sequence[Stage], known: str = "", *, twice: bool = False
) -> Verdict:
    """Plant a bug in the copy, and run one stage of tests after another until a test fails.

    In each stage the test that is known to catch the bug is run first. With ``twice`` a machine that is busy catches
    nothing: a test has caught a bug when it fails again, and a time limit when the tests keep it without the bug.
    """
    began, cpu = time.monotonic(), 0.0
    try:
        for stage in stages:
            for tests in ((known,) if known else (), stage.tests):
                with planted(mutant, copy):
                    outcome = _asked(copy, tests, stage, twice=twice)
                cpu += outcome.cpu_seconds
                seconds = time.monotonic() - began
                if outcome.failed and outcome.code != KILLED:
                    return Verdict(mutant.name, outcome.failed[0], seconds, cpu, "", stage.tier)
                if outcome.code not in (PASSED, NO_TESTS) and (
                    tests != (known,) or outcome.code != NO_SUCH_TEST
                ):
                    problem = _problem(f"with {mutant.name}", outcome)
                    if twice and outcome.code == KILLED and _asked(copy, tests, stage).code == KILLED:
                        return Verdict(mutant.name, "", seconds, cpu, f"{problem}\nand without it")
                    return Verdict(mutant.name, "", seconds, cpu, problem, ended=outcome.code)
    except (NotApplicable, OSError) as error:
        return Verdict(mutant.name, "", 0.0, 0.0, str(error))
    return Verdict(mutant.name, "", time.monotonic() - began, cpu)


def sound(tests: tuple[str, ...], copy: Path) -> str:
    """What fails without any bug: then its failing proves nothing. Empty when nothing does."""
    stage = Stage("", tests, "", SCHEDULES_SECONDS_MAX, SIMULATOR_SECONDS_MAX)
    outcome = run(copy, tests, stage)
    return "" if outcome.code == PASSED else _problem("without any bug", outcome)


def _asked(copy: Path, tests: tuple[str, ...], stage: Stage, *, twice: bool = False) -> Outcome:
    """What the tests say; with ``twice`` without those that fail once and then pass."""
    unsteady: list[str] = []
    while tests:
        outcome = run(copy, tests, stage, unsteady)
        if not twice or not outcome.failed or outcome.code == KILLED:
            return outcome
        again = run(copy, (outcome.failed[0],), stage)
        if again.code != PASSED:
            return outcome
        unsteady.append(outcome.failed[0])
    return Outcome(NO_TESTS)


def run(copy: Path, tests: tuple[str, ...], stage: Stage, without: Iterable[str] = ()) -> Outcome:
    """pytest in a copy, by the markers and limits of a stage. What runs too long, or is interrupted, may tidy up before it is killed."""
    with tempfile.TemporaryFile() as output:
        ours, theirs = FORK.Pipe(duplex=False)
        left_out = [f"--deselect={test}" for test in without]
        options = ("-m", stage.markers, f"--timeout={stage.test_seconds}", *left_out)
        process = FORK.Process(target=_pytest, args=(copy, tests, options, theirs, output.fileno()))
        process.start()
        theirs.close()
        late = False
        try:
            process.join(stage.seconds)
            late = process.is_alive()
        finally:
            for number in (signal.SIGINT, signal.SIGKILL):
                if process.is_alive():
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid or 0, number)
                    process.join(EXIT_SECONDS)
        try:
            outcome = Outcome(*ours.recv())
        except EOFError:
            outcome = Outcome()
        outcome.code = KILLED if late else outcome.code
        output.seek(0)
        outcome.output = output.read().decode(errors="replace")
        return outcome


def _problem(when: str, outcome: Outcome) -> str:
    failed = "".join(f"\n{test}" for test in outcome.failed)
    return f"{when} pytest ended with {outcome.code}:{failed}\n{outcome.output[-3000:]}"


def _pytest(
    copy: Path, tests: tuple[str, ...], asked: tuple[str, ...], results: Connection, output: int
) -> None:
    """Run pytest in this process, a fork, and tell what became of it. Does not come back."""
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for number in (1, 2):
        os.dup2(output, number)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
    os.chdir(copy)
    os.environ.update(PYTHONPATH=str(copy), COLUMNS="300")
    sys.path[:] = [str(copy), *(path for path in sys.path if path and Path(path).resolve() != ROOT)]
    for name in [name for name in sys.modules if name.partition(".")[0] in ("reconciler", "tests")]:
        del sys.modules[name]
    recorder = _Recorder(copy)
    # Without a cache nothing is left for the next bug, and without rewritten assertions nothing is compiled anew.
    # The thread of faulthandler that this process is forked beside does not exist here: to end it would wait for ever.
    options = ["-x", "-q", "--tb=line", "-p", "no:cacheprovider", "-p", "no:faulthandler", "--assert=plain"]
    options += ["--hypothesis-seed=0", *asked]
    with tempfile.TemporaryDirectory(prefix="t-", ignore_cleanup_errors=True) as scratch:
        try:
            code = int(pytest.main([*options, f"--basetemp={scratch}/t", *tests], plugins=[recorder]))
        except (pytest.PytestUnraisableExceptionWarning, ExceptionGroup) as error:
            print(error)  # pytest found at its end what a test that failed half-way had left open
            code = FAILED
    spent = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    sys.stdout.flush()
    results.send((code, recorder.failed, sum(each.ru_utime + each.ru_stime for each in spent)))
    os._exit(0)


class _Recorder:
    """Notes which tests fail, and that it is the copy which is tested."""

    def __init__(self, copy: Path) -> None:
        self._copy = copy
        self.failed: list[str] = []

    def pytest_collection_finish(self) -> None:
        for name, module in tuple(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if name.partition(".")[0] == "reconciler" and not Path(file or "/").is_relative_to(self._copy):
                pytest.exit(f"{name} is not that of the copy: {file}", returncode=3)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)
