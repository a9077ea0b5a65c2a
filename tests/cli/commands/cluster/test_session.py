"""What `up` waits for: it looks at nothing until a signal, the end of a child, or an answer wakes it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reconciler.cli.commands.cluster.session import signals
from reconciler.services.supervise import BACK_OFF_SECONDS_MIN, Child, Supervisor

LONG = 60.0


def test_a_signal_ends_the_wait_and_is_taken_as_a_wish() -> None:
    before = signal.getsignal(signal.SIGHUP)
    with signals() as options:
        assert not options.any
        began = time.monotonic()
        os.kill(os.getpid(), signal.SIGHUP)
        assert not options.wait(LONG)
        assert options.leave
        os.kill(os.getpid(), signal.SIGINT)
        assert not options.wait(LONG)
        assert options.stops == 1
        assert time.monotonic() - began < LONG
        assert not options.wait(0.01), "each signal wakes once"
    assert signal.getsignal(signal.SIGHUP) is before


def test_the_end_of_a_child_ends_the_wait() -> None:
    with signals() as options, subprocess.Popen([sys.executable, "-c", ""]) as child:
        began = time.monotonic()
        while child.poll() is None:
            options.wait(LONG)
        assert time.monotonic() - began < LONG


def test_an_answer_ends_the_wait() -> None:
    here, there = socket.socketpair()
    with here, there, signals() as options:
        there.send(b"x")
        assert options.wait(LONG, here)


def test_a_dead_child_is_due_after_its_back_off_and_one_that_runs_is_not(tmp_path: Path) -> None:
    now = [100.0]
    child = Child("controller", [sys.executable, "-c", "import sys; sys.stdin.read()"], tmp_path / "log")
    said: list[str] = []
    supervisor = Supervisor([child], said.append, tmp_path, clock=lambda: now[0])
    supervisor.start()
    assert child.process is not None
    assert supervisor.seconds_to_restart is None
    child.process.wait(LONG)
    supervisor.restart_dead()
    assert supervisor.seconds_to_restart == pytest.approx(BACK_OFF_SECONDS_MIN)
    now[0] += BACK_OFF_SECONDS_MIN
    assert supervisor.seconds_to_restart == 0.0
    supervisor.restart_dead()
    assert supervisor.seconds_to_restart is None
    supervisor.end()
