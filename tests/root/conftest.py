"""Tries attacks on the rights that machines give away; where that cannot be, it is said why."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import rules, sudo, systemd

FILES = {"sudo": "test_sudo", "nftables": "test_firewall", "systemd": "test_systemd"}
REASONS = {"sudo": sudo.why_not(), "nftables": rules.why_not(), "systemd": systemd.why_not()}
collect_ignore_glob = [f"{file}*.py" for name, file in FILES.items() if REASONS[name]]
ran: set[str] = set()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """They belong to the second tier: the first one should not take root."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.second_tier)


def pytest_runtest_logfinish(nodeid: str) -> None:
    ran.update(name for name, file in FILES.items() if file in nodeid)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Whoever reads the result should know whether these were among it."""
    for name, reason in REASONS.items():
        result = f"NOT RUN ({reason})" if reason else "ran" if name in ran else "not asked for"
        terminalreporter.write_line(f"{name}: {result}")
