"""The end of a process that runs without the service manager: real processes."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator

import pytest

from reconciler.service_managers import unmanaged

pytestmark = pytest.mark.processes


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def status(pid: int) -> int:
    """Run the command where no other tool than the shell is found."""
    return subprocess.run(unmanaged.end(pid), env={"PATH": "/nowhere"}, check=False, timeout=10).returncode


def test_a_process_is_asked_to_end(process: subprocess.Popen[bytes]) -> None:
    assert status(process.pid) == 0
    assert process.wait(10) == -signal.SIGTERM


def test_one_that_is_gone_by_now_is_no_failure(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(10)
    assert status(process.pid) == 0


def test_a_person_can_paste_the_command() -> None:
    assert "'" not in " ".join(unmanaged.end(9))
