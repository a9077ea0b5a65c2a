"""The living side of the routes file: the links to backends, and the requests that wait for one."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Protocol

from reconciler.gateway.metrics import Metrics
from reconciler.wire.generation import Route

from .connection import Key, RankConnection, Reach, key_of
from .routes import RoutesFile
from .timing import Timing

log = logging.getLogger(__name__)


class Waiter(Protocol):
    """A request that is to look again when something has changed."""

    def wake(self) -> None: ...


class Pool:
    """Routes and links. Made and used on the event loop's thread, within a running loop."""

    def __init__(self, file: RoutesFile, timing: Timing, reach: Reach) -> None:
        self.file = file
        self.timing = timing
        self._reach = reach
        self.metrics = Metrics(self._replicas)
        self.closing = False
        """Set by ``close``: every run ends with a fault."""
        self.replaced: Callable[[], None] = lambda: None
        """Called after each change of the routes."""
        self._links: dict[Key, RankConnection] = {}
        self._running: set[Waiter] = set()
        self._held: set[Waiter] = set()
        self._look = asyncio.Event()
        self._follow()

    @property
    def hold_seconds(self) -> float:
        return self.file.current.hold_seconds if self.file.current is not None else 0.0

    def find(self, name: str) -> Route | None:
        """The route of a name, after a second look at the file for one that is not there."""
        route = self.file.find(name)
        if route is None and self.refresh():
            route = self.file.find(name)
        return route

    def names(self) -> Mapping[str, Route]:
        """Return every name that clients may use, after a look at the file."""
        self.refresh()
        return self.file.names()

    def connected(self) -> dict[str, int]:
        """How many groups of each model can be asked now."""
        counts = dict.fromkeys(self.file.models(), 0)
        for model, _, _, ready in self._replicas():
            counts[model] += ready
        return counts

    def _replicas(self) -> Iterator[tuple[str, int, int, bool]]:
        for model, route in self.file.models().items():
            for backend in route.backends:
                link = self._links[key_of(backend)]
                yield model, backend.replica, backend.epoch, link.ready

    def choose(self, route: Route, avoid: Container[RankConnection]) -> RankConnection | None:
        """The connected backend with the fewest requests; starts to connect to those that are not.

        One that stands still is chosen only when there is no other: its group is about to be formed anew.
        """
        now = asyncio.get_running_loop().time()
        allowed = route.stall_seconds or math.inf
        found: list[RankConnection] = []
        for backend in route.backends:
            link = self._links[key_of(backend)]
            if not link.ready:
                link.open(now)
            elif link not in avoid:
                found.append(link)
        return min(found, key=lambda link: (link.silent(now, allowed), link.in_flight), default=None)

    def may_choose(self, route: Route, avoid: Container[RankConnection]) -> bool:
        """Whether ``choose`` finds a backend, now or once a connection that is being opened is there."""
        self.choose(route, avoid)
        links = [self._links[key_of(backend)] for backend in route.backends]
        return any(link not in avoid and (link.ready or link.opening) for link in links)

    def join(self, run: Waiter) -> None:
        self._running.add(run)

    def leave(self, run: Waiter) -> None:
        self._running.discard(run)
        self._held.discard(run)

    def hold(self, run: Waiter, started: bool) -> bool:
        """Wake ``run`` at the next change, until it is released. False when too many wait already.

        A request that has ``started`` is always held: what it has cost so far would be thrown away.
        """
        if run not in self._held and len(self._held) >= self.timing.held_max and not started:
            return False
        self._held.add(run)
        self._look.set()
        return True

    def release(self, run: Waiter) -> None:
        self._held.discard(run)

    def refresh(self) -> bool:
        """Look at the routes file now. True when it has changed."""
        if not self.file.refresh():
            return False
        self._follow()
        self.replaced()
        self._wake_held()
        return True

    async def watch(self) -> None:
        """Follow the routes file and reconnect for those who wait, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self.refresh()
            if self._held:
                for link in self._links.values():
                    if not link.withdrawn:
                        link.open(loop.time())
                await asyncio.sleep(self.timing.routes_held)
                continue
            self._look.clear()
            try:
                async with asyncio.timeout(self.timing.routes_idle):
                    await self._look.wait()
            except TimeoutError:
                continue

    def close(self) -> None:
        """End every run with a fault, and every connection that no run uses."""
        self.closing = True
        for run in tuple(self._running):
            run.wake()
        for link in self._links.values():
            link.withdraw()

    def _follow(self) -> None:
        """Make the links those of the current routes."""
        if self.file.current is None:
            return
        backends = [backend for route in self.file.current.routes for backend in route.backends]
        wanted = {key_of(backend): backend for backend in backends}
        for key in [key for key in self._links if key not in wanted]:
            self._links.pop(key).withdraw()
        now = asyncio.get_running_loop().time()
        for key, backend in wanted.items():
            if key not in self._links:
                self._links[key] = RankConnection(backend, self.timing, self._reach, self._wake_held)
            self._links[key].forgive()
            self._links[key].open(now)
        log.info("routes %d: %d backends", self.file.current.sequence, len(wanted))

    def _wake_held(self) -> None:
        for run in tuple(self._held):
            run.wake()
