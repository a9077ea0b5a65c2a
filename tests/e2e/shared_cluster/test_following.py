"""What people watch goes on while the cluster heals: logs over a new group, waits until it serves."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from reconciler.wire.log_lines import time_of
from tests.cli.live import Running
from tests.e2e.cluster import Cluster

pytestmark = pytest.mark.e2e


def test_followed_logs_go_on_over_a_dead_rank_and_a_dead_controller(tiny: Cluster) -> None:
    epoch = tiny.ranks()[0]["epoch"]
    command = [sys.executable, "-m", "reconciler", "--home", str(tiny.home), "logs", "tiny", "-f", "--tail=1"]
    following = Running(command)
    try:
        tiny.wait("the last line that each rank has printed", lambda: len(following.out) >= len(tiny.ranks()))
        os.kill(tiny.controller()[0], signal.SIGKILL)
        tiny.wait(
            "the note that the controller is back", lambda: "is running again" in "\n".join(following.err)
        )
        tiny.wait_settled()
        os.kill(tiny.ranks()[0]["pid"], signal.SIGKILL)

        def of_a_new_group() -> bool:
            return any(line.startswith(f"[tiny.0.{epoch + 1}.") for line in following.out)

        tiny.wait("lines of the new group", of_a_new_group)
        assert following.end() == 130
    finally:
        following.end(signal.SIGKILL)
    done = tiny.run("wait", "deployment/tiny", "--for=condition=Ready", "--timeout=60s")
    assert done.stdout == "modeldeployment.reconciler/tiny condition met\n"

    previous = tiny.run("logs", "deployment/tiny", "--previous").stdout.splitlines()
    assert previous
    assert {line.split(".")[2] for line in previous if line.startswith("[tiny.")} == {str(epoch)}

    lines = tiny.run("logs", "tiny", "--no-prefix").stdout.splitlines()
    times = [at for at in map(time_of, lines) if at is not None]
    assert times == sorted(times)
    assert times
