"""For all tests: properties are checked on machines that are busy with other things."""

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.sshd import PROGRAM

settings.register_profile("reconciler", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("reconciler")

signal.signal(signal.SIGINT, signal.default_int_handler)
"""A shell has what it starts in the background ignore Ctrl-C, and the commands under test would inherit that."""

NEED_SSHD = [
    "gateway/test_gateway_key.py",
    "gateway/test_remote_ranks.py",
    "transport/test_ssh.py",
    "cli/test_node_add.py",
]
collect_ignore = [] if Path(PROGRAM).exists() else NEED_SSHD


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Whoever reads the result should know what it does not speak of."""
    for name in collect_ignore:
        terminalreporter.write_line(f"{name}: NOT RUN (it needs OpenSSH's sshd at {PROGRAM})")
