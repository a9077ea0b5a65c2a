"""The console's process: listens as the Gateway's ``spec.console`` declares, follows changes of it, and stops in order."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import signal
from pathlib import Path
from typing import Any

from reconciler.errors import Conflict, Invalid
from reconciler.serving.addresses import bind, reached_at
from reconciler.source.git.authors import author_of
from reconciler.wire.file_identity import FileIdentity, wait_until_replaced

from .access.door import Doors
from .access.sessions import Sessions
from .app import build_app
from .feed import Feed, following
from .listener import Listener
from .settings import Places, Settings, settings_of

log = logging.getLogger(__name__)

FIRST_WORD_SECONDS = 5.0
"""Time to wait for the controller's first answer; after it, the console listens at the default address."""
RETRY_SECONDS = 1.0
"""Time between two attempts to listen on an address that is in use."""


def run_console(places: Places, any_port: bool, *held: FileIdentity) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit status, 0.

    It writes its address to ``places.state`` as JSON: ``{"version": 1, "pid": 7, "listen": "127.0.0.1:8480",
    "url": "http://127.0.0.1:8480/", "keys": false, "problem": ""}``; ``listen`` and ``url`` are null while it does not listen.
    ``held``: the lock in its home; the console ends when somebody replaces it.
    """
    asyncio.run(_serve_until_signalled(_Console(places, any_port), *held))
    return 0


async def _serve_until_signalled(console: _Console, *held: FileIdentity) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    ends: list[asyncio.Task[Any]] = [asyncio.create_task(stop.wait()), asyncio.create_task(console.run())]
    if held:
        ends.append(asyncio.create_task(wait_until_replaced(*held)))
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in ends:
            task.cancel()
        results = await asyncio.gather(*ends, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result


class _Console:
    """Keeps one listener at the declared address, and its file up to date."""

    def __init__(self, places: Places, any_port: bool) -> None:
        self._feed = Feed(places.controller, places.clock)
        self._state = places.state
        self._any_port = any_port
        self._keys_before = _needed_before(places.state)
        self._doors = Doors(
            self._feed,
            places.clock,
            owner=lambda: author_of(places.repo),
            settings=self._wanted,
            sessions=Sessions(lambda: secrets.token_urlsafe(32)),
        )
        self._settings: Settings | None = None
        self._listener: Listener | None = None

    async def run(self) -> None:
        """Serve until cancelled."""
        async with following(self._feed):
            watching = asyncio.create_task(self._doors.watch(), name="watch sessions")
            try:
                await self._first_word()
                while True:
                    seen = self._feed.snapshot.number
                    moved = await self._follow()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(None if moved else RETRY_SECONDS):
                            await self._feed.changed(seen)
            finally:
                watching.cancel()
                await self._end()

    def _wanted(self) -> Settings:
        return settings_of(self._feed.snapshot, self._keys_before)

    async def _first_word(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_WORD_SECONDS):
                while not self._feed.snapshot.status:
                    await self._feed.changed(self._feed.snapshot.number)

    async def _follow(self) -> bool:
        """Listen as declared now; return whether that works."""
        wanted = self._wanted()
        self._keys_before = wanted.keys
        if wanted == self._settings:
            self._tell()
            return True
        await self._end()
        if wanted.listen is None:
            self._settings = wanted
            self._tell()
            return True
        try:
            sock = bind(wanted.listen, wanted.keys, self._any_port, "console.listen")
        except (Invalid, Conflict) as error:
            self._write(None, str(error))
            return False
        self._settings = wanted
        app = build_app(self._feed, self._doors, wanted)
        self._listener = Listener(app, sock, wanted.tls, self._tell)
        log.info("listening on %s", self._listener.address)
        self._tell()
        return True

    def _tell(self) -> None:
        """Write the address and any problem of the certificate to the file, unless it has them already."""
        if self._listener is None:
            self._write(None, "")
        else:
            self._write(self._listener.address, self._listener.certificates.problem)

    async def _end(self) -> None:
        if self._listener is not None:
            self._settings, listener, self._listener = None, self._listener, None
            await listener.end()

    def _write(self, address: str | None, problem: str) -> None:
        settings = self._wanted()
        scheme = "https" if settings.tls else "http"
        url = f"{scheme}://{reached_at(address)}/" if address else None
        state = {
            "version": 1,
            "pid": os.getpid(),
            "listen": address,
            "url": url,
            "keys": settings.keys,
            "problem": problem,
        }
        draft = self._state.with_name(f".{self._state.name}.new")
        content = json.dumps(state) + "\n"
        try:
            if self._state.exists() and self._state.read_bytes() == content.encode():
                return
            draft.write_text(content, encoding="utf-8")
            draft.replace(self._state)
        except OSError as error:
            log.warning("cannot write %s: %s", self._state, error)


def _needed_before(state: Path) -> bool:
    """Return whether the console that wrote this file asked for keys."""
    try:
        return bool(json.loads(state.read_bytes()).get("keys", False))
    except (OSError, ValueError, AttributeError):
        return False
