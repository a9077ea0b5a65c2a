"""Commands that have ended, and those of this machine, each in a process group that does not outlive it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

KILLED_SECONDS = 5.0
"""The longest wait for the end of a killed command."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that has ended."""

    status: int
    """Its exit status, or 128 plus the number of the signal that ended it."""
    out: str
    err: str


async def run_locally(*words: str, timeout: float, environment: Mapping[str, str] | None = None) -> Completed:  # noqa: ASYNC109 - every caller must name a bound
    """Run a command without input and return its output. Nothing of its process group is left if it is cancelled, or
    has not ended in time.

    Raises ``TimeoutError`` and other ``OSError``.
    """
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *words,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    )
    try:
        async with asyncio.timeout(timeout):
            # asyncio itself would kill the leader of the group alone
            process = await asyncio.shield(starting)
            out, err = await process.communicate()
    finally:
        with suppress(OSError):
            process = await starting
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                async with asyncio.timeout(KILLED_SECONDS):
                    await process.communicate()  # which closes its pipes, too
    status = process.returncode or 0
    return Completed(
        status if status >= 0 else 128 - status,
        out.decode("utf-8", "replace"),
        err.decode("utf-8", "replace"),
    )
