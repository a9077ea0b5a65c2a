"""A real Redis or Valkey; where there is none, it is said why."""

from __future__ import annotations

import pytest

from reconciler.gateway.keys.shared import ledger

from .redis import REASON

collect_ignore_glob = ["test_*.py"] if REASON else []


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the store decide, however long this machine stands still in between."""
    monkeypatch.setattr(ledger, "WAIT_SECONDS", 30.0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Whoever reads the result should know whether limits were shared."""
    if REASON:
        terminalreporter.write_line(f"shared limits: NOT RUN ({REASON})")
