"""The routes file, which the controller replaces atomically and the gateway reads when it changes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path

import orjson

from reconciler.gateway.keys.caller import KeyRing
from reconciler.wire import SPOKEN
from reconciler.wire.codec import WireError, from_wire
from reconciler.wire.generation import Route, Routes

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.1
_REMIND_SECONDS = 30.0


def parse_routes(text: bytes) -> Routes:
    """Return the routes in a file's bytes. Raises ``WireError`` with the fault."""
    try:
        frame = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise WireError(f"not JSON: {error}") from None
    routes = from_wire(Routes, frame)
    if routes.version not in SPOKEN:
        raise WireError(f"version {routes.version}; this gateway reads {SPOKEN}")
    return routes


class RoutesFile:
    """The last valid contents of the routes file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._signature: tuple[int, int, int] | None = None
        self._by_name: dict[str, Route] = {}
        self.current = Routes(SPOKEN[-1], 0, "", 0.0)
        """Empty before there is a file."""
        self.ring: KeyRing | None = None
        """The keys in force; None if requests need none."""

    def refresh(self) -> bool:
        """Read the file if it has changed. Returns whether there are new routes.

        An invalid or missing file changes nothing: the last valid one stays in force.
        """
        try:
            stat = self._path.stat()
            signature = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if signature == self._signature:
                return False
            text = self._path.read_bytes()
        except OSError:
            return False
        self._signature = signature
        try:
            routes = parse_routes(text)
        except WireError as error:
            log.warning(
                "the routes file %s is invalid, the last valid one stays in force: %s", self._path, error
            )
            return False
        return self.take(routes)

    async def wait(self, stop: asyncio.Event) -> bool:
        """Wait without limit for the controller's routes, or for ``stop``. Returns whether there are routes."""
        loop = asyncio.get_running_loop()
        remind_at = loop.time() + _REMIND_SECONDS
        while not self.refresh() and not stop.is_set():
            if loop.time() >= remind_at:
                log.info("waiting for %s, which the controller writes", self._path)
                remind_at += _REMIND_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL_SECONDS):
                    await stop.wait()
        return not stop.is_set()

    def take(self, routes: Routes) -> bool:
        """Put routes into force. Returns whether they are: those of a replaced controller are not."""
        if routes.token < self.current.token:
            tokens = f"its token is {routes.token}, the newest is {self.current.token}"
            log.warning("%s is ignored, a replaced controller wrote it: %s", self._path, tokens)
            return False
        self.current = routes
        self._by_name = _names(routes)
        self.ring = KeyRing(routes.keys) if routes.auth != "none" else None
        return True

    @property
    def comments(self) -> bool:
        """Return whether streams have comments during pauses, rather than events."""
        return self.current.keep_alive == "comment"

    def find(self, name: str) -> Route | None:
        return self._by_name.get(name)

    def models(self) -> dict[str, Route]:
        """Return the route of each model by its own name."""
        return {route.model: route for route in self.current.routes}

    def names(self) -> dict[str, Route]:
        """Return every name that clients may use, in the order of the file, names before aliases."""
        return self._by_name


def _names(routes: Routes) -> dict[str, Route]:
    names = {route.model: route for route in routes.routes}
    for route in routes.routes:
        for alias in route.aliases:
            names.setdefault(alias, route)
    return names
