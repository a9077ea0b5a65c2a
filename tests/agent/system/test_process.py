"""Processes of an agent's own are killed, and not waited for where that does not end them."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from reconciler.agent.system import process
from tests.tracing import held

SLEEPS = (sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)")


def test_what_is_killed_has_its_status_at_once() -> None:
    with subprocess.Popen(SLEEPS) as started:
        assert process.end(started) == -signal.SIGKILL


def test_what_nothing_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "REAP_SECONDS", 0.1)
    with subprocess.Popen(SLEEPS) as started:
        with held(started.pid):
            assert process.end(started) is None
            assert process.reap() == 1
        assert started.wait(20) == -signal.SIGKILL
    assert process.reap() == 0
