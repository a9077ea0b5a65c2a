"""Processes that nothing ends, as on a Mac whose kernel is deadlocked at their exit: real ones, really held."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from reconciler.sandbox.held import LOOK_SECONDS, Holder
from tests import processes
from tests.tracing import held

pytestmark = pytest.mark.processes

SECONDS = 20.0
LOOKS = 5
"""So often in a row a process is seen to stand still that is not let on."""
PROGRAM = """
import os, signal, sys, threading
signal.signal(signal.SIGTERM, lambda *_: os._exit(3))
signal.signal(signal.SIGUSR1, lambda *_: print("heard", flush=True))
print("ready", flush=True)
while True:
    signal.pause()
"""


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", PROGRAM], stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"ready\n"
        try:
            yield started
        finally:
            started.kill()
            started.wait(SECONDS)


@pytest.fixture
def holder() -> Iterator[Holder]:
    made = Holder()
    try:
        yield made
    finally:
        made.release()


def until_dying(process: subprocess.Popen[bytes]) -> None:
    """Until it stands at its exit: at a signal it stands too, and is let on at the next look."""
    deadline, looks = time.monotonic() + SECONDS, 0
    while looks < LOOKS:
        assert time.monotonic() < deadline
        looks = looks + 1 if processes.state(process.pid) == "t" else 0
        time.sleep(LOOK_SECONDS)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 3)])
def test_neither_sigkill_nor_an_exit_of_its_own_ends_it_until_it_is_let_go(
    process: subprocess.Popen[bytes], number: int, status: int
) -> None:
    with held(process.pid):
        os.kill(process.pid, number)
        until_dying(process)
        os.kill(process.pid, signal.SIGKILL)
        assert process.poll() is None
    assert process.wait(SECONDS) == status


def test_it_works_and_hears_signals_until_it_is_to_end(
    process: subprocess.Popen[bytes], holder: Holder
) -> None:
    holder.hold(process.pid)
    holder.hold(process.pid)
    os.kill(process.pid, signal.SIGUSR1)
    assert process.stdout is not None
    assert process.stdout.readline() == b"heard\n"


def test_a_process_that_is_gone_is_no_trouble(process: subprocess.Popen[bytes], holder: Holder) -> None:
    process.kill()
    process.wait(SECONDS)
    holder.hold(process.pid)
