"""The connections to all routed backends, and the requests that wait for one."""

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
from .timeouts import Timing

log = logging.getLogger(__name__)


class Waiter(Protocol):
    """A request that looks again when something has changed."""

    def wake(self) -> None:
        """Have the request look again soon."""


class Pool:
    """Routes and connections. Made and used within a running event loop, on its thread."""

    def __init__(self, file: RoutesFile, timing: Timing, reach: Reach) -> None:
        self.file = file
        self.timing = timing
        self._reach = reach
        self.metrics = Metrics(self._replicas)
        self.closing = False
        """Set by ``close``: every run ends with an error."""
        self.replaced: Callable[[], None] = lambda: None
        """Called after each change of the routes."""
        self._connections: dict[Key, RankConnection] = {}
        self._running: set[Waiter] = set()
        self._held: set[Waiter] = set()
        self._look = asyncio.Event()
        self._follow()

    @property
    def hold_seconds(self) -> float:
        """How long a request may wait for a group."""
        return self.file.current.hold_seconds if self.file.current is not None else 0.0

    def find(self, name: str) -> Route | None:
        """Return the route of a name, or None; an unknown name is looked for in the file once more."""
        route = self.file.find(name)
        if route is None and self.refresh():
            route = self.file.find(name)
        return route

    def names(self) -> Mapping[str, Route]:
        """Return every name that clients may use, after a look at the file."""
        self.refresh()
        return self.file.names()

    def connected(self) -> dict[str, int]:
        """Return how many groups of each model can take requests now."""
        counts = dict.fromkeys(self.file.models(), 0)
        for model, _, _, ready in self._replicas():
            counts[model] += ready
        return counts

    def _replicas(self) -> Iterator[tuple[str, int, int, bool]]:
        for model, route in self.file.models().items():
            for backend in route.backends:
                connection = self._connections[key_of(backend)]
                yield model, backend.replica, backend.epoch, connection.ready

    def choose(self, route: Route, avoid: Container[RankConnection]) -> RankConnection | None:
        """Return the connected backend with the fewest requests; start to connect to those that are not.

        One that stands still is chosen only where there is no other: its group is about to be replaced.
        """
        now = asyncio.get_running_loop().time()
        allowed = route.stall_seconds or math.inf
        found: list[RankConnection] = []
        for backend in route.backends:
            connection = self._connections[key_of(backend)]
            if not connection.ready:
                connection.open(now)
            elif connection not in avoid:
                found.append(connection)
        return min(
            found,
            key=lambda connection: (connection.silent(now, allowed), connection.in_flight),
            default=None,
        )

    def may_choose(self, route: Route, avoid: Container[RankConnection]) -> bool:
        """Return whether ``choose`` finds a backend now, or will once a connection that is being opened is there."""
        self.choose(route, avoid)
        connections = [self._connections[key_of(backend)] for backend in route.backends]
        return any(
            connection not in avoid and (connection.ready or connection.opening) for connection in connections
        )

    def join(self, run: Waiter) -> None:
        """Wake ``run`` when the gateway is closed."""
        self._running.add(run)

    def leave(self, run: Waiter) -> None:
        """Forget ``run``."""
        self._running.discard(run)
        self._held.discard(run)

    def hold(self, run: Waiter, started: bool) -> bool:
        """Wake ``run`` at each change until it is released. Returns False when too many wait already.

        A request that has ``started`` is always held: its work so far would be lost.
        """
        if run not in self._held and len(self._held) >= self.timing.held_max and not started:
            return False
        self._held.add(run)
        self._look.set()
        return True

    def release(self, run: Waiter) -> None:
        """Stop waking ``run``: it has a backend."""
        self._held.discard(run)

    def refresh(self) -> bool:
        """Read the routes file if it has changed. Returns whether there are new routes."""
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
                for connection in self._connections.values():
                    if not connection.withdrawn:
                        connection.open(loop.time())
                await asyncio.sleep(self.timing.routes_held)
                continue
            self._look.clear()
            try:
                async with asyncio.timeout(self.timing.routes_idle):
                    await self._look.wait()
            except TimeoutError:
                continue

    def close(self) -> None:
        """End every run with an error, and close every connection that no run uses."""
        self.closing = True
        for run in tuple(self._running):
            run.wake()
        for connection in self._connections.values():
            connection.withdraw()

    def _follow(self) -> None:
        """Connect to the backends of the current routes, and withdraw all others."""
        if self.file.current is None:
            return
        backends = [backend for route in self.file.current.routes for backend in route.backends]
        wanted = {key_of(backend): backend for backend in backends}
        for key in [key for key in self._connections if key not in wanted]:
            self._connections.pop(key).withdraw()
        now = asyncio.get_running_loop().time()
        for key, backend in wanted.items():
            if key not in self._connections:
                self._connections[key] = RankConnection(backend, self.timing, self._reach, self._wake_held)
            self._connections[key].reset()
            self._connections[key].open(now)
        log.info("routes %d: %d backends", self.file.current.sequence, len(wanted))

    def _wake_held(self) -> None:
        for run in tuple(self._held):
            run.wake()
