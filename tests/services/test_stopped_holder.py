"""Whether the holder of a lock is stopped is seen by its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reconciler.services.lock import stopped_holder

pytestmark = pytest.mark.processes

HOLDS = """
import fcntl, os, sys, time
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
file.write(str(os.getpid()))
file.flush()
print("held", flush=True)
time.sleep(600)
"""


def stopped_within_seconds(lock: Path) -> int:
    deadline = time.monotonic() + 30
    while not (found := stopped_holder(lock)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def test_only_an_up_that_lives_and_is_stopped_is_reported(tmp_path: Path) -> None:
    lock = tmp_path / "up.lock"
    assert stopped_holder(lock) == 0
    command = [sys.executable, "-c", HOLDS, str(lock)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert stopped_holder(lock) == 0
        os.kill(process.pid, signal.SIGSTOP)
        assert stopped_within_seconds(lock) == process.pid
        process.kill()
    assert stopped_holder(lock) == 0, "its number stays in the file"
