"""Commands of this machine: their output, and what is left of them."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from reconciler.remote import commands
from reconciler.remote.commands import Completed, run_locally
from tests.agent.bench import soon
from tests.processes import gone

pytestmark = pytest.mark.processes


def starts_a_child(folder: Path) -> tuple[str, ...]:
    """A shell that starts a process, writes its number to ``child`` and waits for it."""
    script = 'sleep 600 & echo $! > "$0/new" && mv "$0/new" "$0/child"; wait'
    return "/bin/sh", "-c", script, str(folder)


def hold_the_loop_until(file: Path) -> None:
    deadline = time.monotonic() + 30.0
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.001)


async def child_ends(folder: Path) -> None:
    pid = int((folder / "child").read_text())
    try:
        await soon(lambda: gone(pid))
    finally:
        if not gone(pid):
            os.kill(pid, signal.SIGKILL)


async def test_a_command_gets_no_input_and_its_outputs_are_told_apart() -> None:
    done = await run_locally(
        "/bin/sh",
        "-c",
        "cat; echo \"$WORD\"; printf '\\377e' >&2; exit 3",
        timeout=60,
        environment={"WORD": "w", "PATH": os.defpath},
    )
    assert done == Completed(3, "w\n", "\N{REPLACEMENT CHARACTER}e")


async def test_nothing_of_a_command_is_left_after_its_time(tmp_path: Path) -> None:
    for seconds in (0.1 * 2**tried for tried in range(9)):
        with pytest.raises(TimeoutError):
            await run_locally(*starts_a_child(tmp_path), timeout=seconds)
        if (tmp_path / "child").exists():
            break
    await child_ends(tmp_path)


async def test_a_command_that_cannot_be_killed_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def noted(*words: str, **options: Any) -> asyncio.subprocess.Process:
        started.append(await start(*words, **options))
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    monkeypatch.setattr(commands, "KILLED_SECONDS", 0.01)
    with monkeypatch.context() as patched:
        patched.setattr(os, "killpg", lambda pid, number: None)
        with pytest.raises(TimeoutError):
            await run_locally("sleep", "600", timeout=0.01)
    assert started[0].returncode is None
    started[0].kill()
    await started[0].communicate()


async def test_the_signal_that_ended_a_command_is_in_its_status() -> None:
    assert (await run_locally("/bin/sh", "-c", "kill -9 $$", timeout=60)).status == 128 + signal.SIGKILL


async def test_a_command_that_does_not_exist_says_so() -> None:
    with pytest.raises(FileNotFoundError, match="/no/such/tool"):
        await run_locally("/no/such/tool", timeout=60)


@pytest.mark.parametrize("at_once", [False, True])
async def test_nothing_of_a_command_is_left_if_it_is_cancelled(tmp_path: Path, at_once: bool) -> None:
    running = asyncio.create_task(run_locally(*starts_a_child(tmp_path), timeout=60))
    if at_once:  # before asyncio hands over the process, which has already started another
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        hold_the_loop_until(tmp_path / "child")
    else:
        await soon((tmp_path / "child").exists)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await child_ends(tmp_path)
