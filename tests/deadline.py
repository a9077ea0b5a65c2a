"""A last deadline for each test: a process that outlives it ends, and leaves the stacks of its threads. With it the run ends.

pytest-timeout ends a test by a signal, which code in C that does not return never hears of. pytest-xdist names the test
whose process died, and starts no other process in its place (``--max-worker-restart=0``): what it would hand to that one
may never be run.
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Generator
from typing import Any

import pytest

HARD_SECONDS = float(os.environ.get("RECONCILER_HARD_SECONDS", "30"))
"""How long after its time a test may still take, with what is tidied up after it."""
END_SECONDS = float(os.environ.get("RECONCILER_END_SECONDS", "120"))
"""How long a process may take to end after its last test, or with what pytest does then: a worker has to wait for the others."""


class Deadline:
    """Ends the process by a thread of C, which needs neither the interpreter nor its lock."""

    def __init__(self) -> None:
        self._stderr = os.dup(2)
        """Where the terminal is: within a test, 2 is a file of what the test prints."""
        self._seconds = 0.0

    def _arm(self) -> None:
        if self._seconds:
            faulthandler.dump_traceback_later(self._seconds, exit=True, file=self._stderr)

    @pytest.hookimpl(wrapper=True)
    def pytest_timeout_set_timer(self, settings: object) -> Generator[None, object, object]:
        self._seconds = getattr(settings, "timeout", 0.0) + HARD_SECONDS
        self._arm()
        return (yield)

    def pytest_runtest_logfinish(self) -> None:
        self._seconds = 0.0
        faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(trylast=True)  # at a failure, pytest and pytest-timeout take their deadlines back
    def pytest_exception_interact(self) -> None:
        self._arm()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self) -> Generator[None, object, object]:
        self._seconds = END_SECONDS
        self._arm()
        try:
            return (yield)
        finally:
            if "PYTEST_XDIST_WORKER" in os.environ:
                faulthandler.cancel_dump_traceback_later()


class Deaths:
    """Makes a run fail in which a process of the tests died, also after its last test, and counts what was not run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._dead: list[str] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        if error:
            self._dead.append(node.gateway.id)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._dead and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._dead:
            hands_out: Any = self._config.pluginmanager.get_plugin("dsession")
            waiting = hands_out.sched.workqueue
            left = sum(not done for unit in waiting.values() for done in unit.values())
            terminalreporter.write_line(
                f"{', '.join(self._dead)}: a process of the tests died; {left} tests were not run, with that in which it died"
            )
