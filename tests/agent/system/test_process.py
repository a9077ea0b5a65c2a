"""Processes of an agent's own are killed, and not waited for where that does not end them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from reconciler.agent.system import operating_system, process
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


@pytest.mark.parametrize("pid", [-1, 0, 1])
def test_no_number_that_stands_for_more_than_one_rank_is_signalled(
    pid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *signalled: sent.append(signalled))
    monkeypatch.setattr(os, "killpg", lambda *signalled: sent.append(signalled))
    process.signal_group(pid, signal.SIGKILL)
    process.signal_process(pid, signal.SIGKILL)
    assert sent == []
    process.signal_group(2, signal.SIGKILL)
    assert sent == [(2, signal.SIGKILL)]


@pytest.mark.parametrize(
    ("state", "threads", "ended"),
    [("Z", 1, True), ("X", 1, True), ("Z", 2, False), ("X", 2, False), ("R", 1, False), ("T", 0, False)],
)
def test_a_process_has_ended_with_the_last_of_its_threads(state: str, threads: int, ended: bool) -> None:
    fields = [state, *["7"] * 16, str(threads), *["9"] * 10]
    assert operating_system.has_ended([field.encode() for field in fields]) is ended
