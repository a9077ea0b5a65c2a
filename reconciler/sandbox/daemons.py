"""Runs the services of an emulated Mac as launchd does: again and again, for as long as their script exists."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import plistlib
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .places import Place
from .world.launchd import Job, Service, State

log = logging.getLogger(__name__)
LOOK_SECONDS = 0.2
"""The interval of looks for the script that a service is to run."""
DESCRIPTORS = 256
"""The number of files that a process may have open when launchd starts it."""
_LIMITED = ("/bin/sh", "-c", f'ulimit -S -n {DESCRIPTORS}; exec "$@"', "limited")


class Daemons:
    """The services of one machine. ``pids`` has the processes that run, by label."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._kicks: dict[str, float] = {}
        self.pids: dict[str, int] = {}

    def follow(self, services: Iterable[Service]) -> None:
        """Run those that are loaded, and end the others."""
        loaded = {each.label: each for each in services if each.state == State.LOADED}
        self._kicks = {label: each.kicked_at for label, each in loaded.items()}
        for label in self._tasks.keys() - loaded.keys():
            self._tasks.pop(label).cancel()
        for label in loaded.keys() - self._tasks.keys():
            self._tasks[label] = asyncio.create_task(self._run(loaded[label]))

    async def stop(self) -> None:
        tasks = tuple(self._tasks.values())
        self.follow(())
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, service: Service) -> None:
        try:
            definition = plistlib.loads(Path(service.path).read_bytes())
            (script,) = map(Path, definition["KeepAlive"]["PathState"])
        except (OSError, ValueError, KeyError) as error:
            log.error("%s: %s is no definition: %r", self._place.name, service.path, error)
            return
        job, kicked_at = Job(time.time()), service.kicked_at
        while True:
            now = time.time()
            if script.exists():
                job = job.noticed(now)
            if self._kicks.get(service.label, kicked_at) != kicked_at:
                kicked_at, job = self._kicks[service.label], job.kicked(now)
            job = job.at(now)
            if not job.running:
                await asyncio.sleep(LOOK_SECONDS)
                continue
            await self._process(service.label, definition["ProgramArguments"])
            job = job.ended(time.time(), script.exists())

    async def _process(self, label: str, arguments: Iterable[Any]) -> None:
        """Run the process of a service until it ends."""
        process = await asyncio.create_subprocess_exec(
            *_LIMITED, *arguments, env=self._place.environment, cwd="/", start_new_session=True,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        self.pids[label] = process.pid
        try:
            await process.wait()
        finally:
            del self.pids[label]
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
