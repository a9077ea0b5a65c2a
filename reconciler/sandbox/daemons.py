"""Runs the services of an emulated Mac as launchd does: again and again, for as long as their script exists."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import plistlib
import time
from collections.abc import Iterable
from pathlib import Path

from .places import Place
from .world.launchd import Service, State

log = logging.getLogger(__name__)
THROTTLE_SECONDS = 10.0
"""launchd starts a service at most every ten seconds (launchd.plist(5), ``ThrottleInterval``)."""
LOOK_SECONDS = 0.2
"""The interval of looks for the script that a service is to run."""


class Daemons:
    """The services of one machine. ``pids`` has the processes that run, by label."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.pids: dict[str, int] = {}

    def follow(self, services: Iterable[Service]) -> None:
        """Run those that are running, and end the others."""
        running = {each.label: each for each in services if each.state == State.RUNNING}
        for label in self._tasks.keys() - running.keys():
            self._tasks.pop(label).cancel()
        for label in running.keys() - self._tasks.keys():
            self._tasks[label] = asyncio.create_task(self._run(running[label]))

    async def stop(self) -> None:
        tasks = tuple(self._tasks.values())
        self.follow(())
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, service: Service) -> None:
        try:
            job = plistlib.loads(Path(service.path).read_bytes())
            (script,) = map(Path, job["KeepAlive"]["PathState"])
        except (OSError, ValueError, KeyError) as error:
            log.error("%s: %s is no definition: %r", self._place.name, service.path, error)
            return
        while True:
            if not script.exists():
                await asyncio.sleep(LOOK_SECONDS)
                continue
            began = time.monotonic()
            process = await asyncio.create_subprocess_exec(
                *job["ProgramArguments"], env=self._place.environment, cwd="/", start_new_session=True,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
            self.pids[service.label] = process.pid
            try:
                await process.wait()
            finally:
                del self.pids[service.label]
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
            await asyncio.sleep(max(0.0, THROTTLE_SECONDS - (time.monotonic() - began)))
