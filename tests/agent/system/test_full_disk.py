"""A rank whose machine's disk takes nothing any more: it serves on, and how it ends is still known."""

from __future__ import annotations

import os
import resource
import signal

import pytest

from reconciler.wire.launch import Phase
from tests.agent.bench import Bench, alive, exit_of, in_phase

pytestmark = pytest.mark.processes

TALKS_WHEN_SIGNALLED = """
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
say('loading')
signal.sigwait([signal.SIGUSR1])
for _ in range(100): print('output ' * 100, flush=True)
os.write(int(os.environ["RECONCILER_PROGRESS_FD"]), b'something for the log\\n{"phase": "ready"}\\n')
sleep()
"""


async def test_a_rank_on_a_full_disk_goes_on_and_its_end_is_reported(bench: Bench) -> None:
    link = await bench.running(TALKS_WHEN_SIGNALLED)
    loading = await in_phase(link, Phase.LOADING)
    assert loading.pid is not None
    assert loading.shim_pid is not None
    resource.prlimit(loading.shim_pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    os.kill(loading.pid, signal.SIGUSR1)

    ready = await in_phase(link, Phase.READY)
    assert (ready.pid, alive(ready.shim_pid)) == (loading.pid, True)

    os.kill(loading.pid, signal.SIGKILL)

    end = await exit_of(link)
    assert end.signal == signal.SIGKILL
