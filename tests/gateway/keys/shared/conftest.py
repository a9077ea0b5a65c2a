"""A real Redis or Valkey; where there is none, it is said why."""

from __future__ import annotations

import pytest

from .redis import REASON

collect_ignore_glob = ["test_*.py"] if REASON else []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Whoever reads the result should know whether limits were shared."""
    if REASON:
        terminalreporter.write_line(f"shared limits: NOT RUN ({REASON})")
