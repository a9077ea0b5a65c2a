"""The connections to all routed backends, and the requests that wait for one."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import logging
import math
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Protocol

from reconciler.gateway.keys.desk import Desk
from reconciler.gateway.metrics import Metrics
from reconciler.wire.generation import KeptPrefixes, Route
from reconciler.wire.prompts import QuarantinedPrompt

from .affinity import Affinity, Beginnings
from .connection import Key, RankConnection, Reach, key_of
from .fairness import Turns
from .progress import Limits
from .routes import RoutesFile
from .suspects import STRONG, Group, Suspects
from .suspicion import Suspicion
from .timeouts import Timing

log = logging.getLogger(__name__)


class Waiter(Protocol):
    """A request that looks again after a change."""

    suspicion: Suspicion

    def wake(self) -> None:
        """Make the request look again soon."""


class Pool:
    """Routes and connections. Made and used within a running event loop, on its thread."""

    def __init__(
        self,
        file: RoutesFile,
        timing: Timing,
        reach: Reach,
        wall: Callable[[], float],
        quarantined: Iterable[QuarantinedPrompt] = (),
    ) -> None:
        """``wall`` returns seconds since the Unix epoch; ``quarantined`` are prompts from before."""
        self.file = file
        self.wall = wall
        self.timing = timing
        self._reach = reach
        self.metrics = Metrics(self._replicas)
        self.desk = Desk(wall, asyncio.get_running_loop().time)
        self.turns = Turns(timing.held_max)
        self.affinity: Affinity[Key] = Affinity()
        self.closing = False
        """Set by ``close``: every run ends with an error."""
        self.replaced: Callable[[], None] = lambda: None
        """Called after each change of the routes."""
        self.quarantined: Callable[[], None] = lambda: None
        """Called after each change of the quarantined prompts."""
        self._usual_limits = Limits(timing, self.hold_seconds)
        self._secret = os.urandom(16)
        self._suspects: dict[str, Suspects] = {}
        for prompt in quarantined:
            self._suspects.setdefault(prompt.model, Suspects(prompt.model)).quarantine(prompt)
        self._connections: dict[Key, RankConnection] = {}
        self._running: dict[Waiter, None] = {}
        self._held: dict[Waiter, None] = {}
        """Waiting requests in the order in which they came: the one that has waited longest looks first."""
        self._look = asyncio.Event()
        self._follow()

    def pseudonym(self, client: str) -> str:
        """Return a name that tells clients apart for groups, and reveals nothing else."""
        return hashlib.blake2b(client.encode(), key=self._secret, digest_size=8).hexdigest()

    @property
    def hold_seconds(self) -> float:
        """The longest time that a request waits for a group."""
        return self.file.current.hold_seconds

    def find(self, name: str) -> Route | None:
        """Return the route of a name, or None. An unknown name is looked up in the file once more."""
        route = self.file.find(name)
        if route is None and self.refresh():
            route = self.file.find(name)
        return route

    def names(self) -> Mapping[str, Route]:
        """Return every name that clients may use, after a look at the file."""
        self.refresh()
        return self.file.names()

    def connected(self) -> dict[str, int]:
        """Return the number of groups of each model that can take requests now."""
        counts = dict.fromkeys(self.file.models(), 0)
        for model, _, _, ready, _ in self._replicas():
            counts[model] += ready
        return counts

    def _replicas(self) -> Iterator[tuple[str, int, int, bool, KeptPrefixes | None]]:
        for model, route in self.file.models().items():
            for backend in route.backends:
                connection = self._connections[key_of(backend)]
                yield model, backend.replica, backend.epoch, connection.ready, connection.kept

    def choose(
        self, route: Route, avoid: Container[RankConnection], begins: Beginnings = ()
    ) -> RankConnection | None:
        """Return the connected backend that has read the most of a request, else the one with the fewest requests.
        Start to connect to the others.

        A silent one is chosen only if there is no other: its group is about to be replaced.
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
        moving = [connection for connection in found if not connection.silent(now, allowed)]
        able = {key_of(connection.backend): connection for connection in moving or found}
        loads = {key: connection.in_flight for key, connection in able.items()}
        near = self.affinity.choose(begins, loads, route.batch)
        return able[near or min(loads, key=loads.__getitem__)] if able else None

    def may_choose(self, route: Route, avoid: Container[RankConnection]) -> bool:
        """Return whether ``choose`` finds a backend now, or will when a connection has opened."""
        self.choose(route, avoid)
        connections = [self._connections[key_of(backend)] for backend in route.backends]
        return any(
            connection not in avoid and (connection.ready or connection.opening) for connection in connections
        )

    def limits(self, route: Route | None = None) -> Limits:
        """Return the bounds of requests; ``route`` has the time of the next attempt to form a group."""
        if route is not None and (route.attempt_at or route.refused) and not route.backends:
            attempt_in = max(0.0, route.attempt_at - self.wall()) if route.attempt_at else None
            return Limits(self.timing, self.hold_seconds, attempt_in, route.refused)
        if self._usual_limits.hold_seconds != self.hold_seconds:
            self._usual_limits = Limits(self.timing, self.hold_seconds)
        return self._usual_limits

    def join(self, run: Waiter) -> None:
        """Wake ``run`` when the gateway is closed."""
        self._running[run] = None

    def leave(self, run: Waiter) -> None:
        self._running.pop(run, None)
        self._held.pop(run, None)

    def hold(self, run: Waiter, started: bool) -> bool:
        """Wake ``run`` at each change until it is released. Returns False if too many wait already.

        A ``started`` request is always held: its work so far would be lost.
        """
        if run not in self._held and len(self._held) >= self.timing.held_max and not started:
            return False
        self._held[run] = None
        self._look.set()
        return True

    def holds(self, run: Waiter) -> bool:
        """Return whether ``run`` waits for a backend. A run without a backend that does not wait for one waits for its
        turn."""
        return run in self._held

    def release(self, run: Waiter) -> None:
        """Stop waking ``run``: it has a backend."""
        self._held.pop(run, None)

    def refresh(self) -> bool:
        """Read the routes file if it has changed. Returns whether there are new routes."""
        if not self.file.refresh():
            return False
        self._follow()
        self.desk.follow(self.file.ring)
        self.replaced()
        self._judge()
        self.wake_held()
        return True

    async def watch(self) -> None:
        """Follow the routes file and reconnect for waiting requests, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self.refresh()
            self.desk.look(self.file.ring)
            if self._held:
                for connection in self._connections.values():
                    if not connection.withdrawn:
                        connection.open(loop.time())
                await asyncio.sleep(self.timing.routes_held)
                continue
            self._look.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self.timing.routes_idle):
                    await self._look.wait()

    async def until_ready(self, seconds: float) -> None:
        """Wait until every routed backend is connected, for some seconds at most: requests wait for the others."""
        for _ in range(round(seconds / self.timing.routes_held)):
            if all(each.ready for each in self._connections.values()):
                return
            await asyncio.sleep(self.timing.routes_held)

    def close(self) -> None:
        """End every run with an error, and close every connection that no run uses."""
        self.closing = True
        for run in tuple(self._running):
            run.wake()
        for connection in self._connections.values():
            connection.withdraw()

    def _follow(self) -> None:
        """Connect to the backends of the current routes, and withdraw all others."""
        backends = [backend for route in self.file.current.routes for backend in route.backends]
        wanted = {key_of(backend): backend for backend in backends}
        for key in [key for key in self._connections if key not in wanted]:
            self._connections.pop(key).withdraw()
        now = asyncio.get_running_loop().time()
        for key, backend in wanted.items():
            if key not in self._connections:
                self._connections[key] = RankConnection(backend, self.timing, self._reach, self._connected)
            self._connections[key].reset()
            self._connections[key].open(now)
        log.info("routes %d: %d backends", self.file.current.sequence, len(wanted))

    def _connected(self) -> None:
        self._judge()
        self.wake_held()

    def wake_held(self) -> None:
        """Make all held requests look again."""
        for run in tuple(self._held):
            run.wake()
        self.turns.look_again()

    # --- suspicion ---------------------------------------------------------------------------------

    def suspects(self, model: str) -> Suspects:
        found = self._suspects.get(model)
        if found is None:
            found = self._suspects[model] = Suspects(model)
        return found

    def crowded(self, model: str, beside: Suspicion) -> bool:
        """Return whether a group of the model has another request without a new token."""
        others = (run.suspicion for run in self._running if run.suspicion is not beside)
        return any(suspicion.likely(model) for suspicion in others)

    def quarantined_prompts(self) -> tuple[QuarantinedPrompt, ...]:
        """Return all prompts that are refused now."""
        wall = self.wall()
        return tuple(prompt for suspects in self._suspects.values() for prompt in suspects.quarantined(wall))

    def quarantine(self, prompts: Iterable[QuarantinedPrompt]) -> None:
        """Refuse prompts that another gateway refuses."""
        known = self.quarantined_prompts()
        more = [prompt for prompt in prompts if prompt not in known]
        for prompt in more:
            self.suspects(prompt.model).quarantine(prompt)
        if more:
            self.quarantined()

    def _judge(self) -> None:
        """Settle the deaths that the routes or a new connection explain."""
        now, wall, before = asyncio.get_running_loop().time(), self.wall(), self.quarantined_prompts()
        routes = self.file.models()
        for model, suspects in self._suspects.items():
            suspects.judge(functools.partial(self._suspicion, routes.get(model)), now, wall)
        if self.quarantined_prompts() != before:
            self.quarantined()

    def _suspicion(self, route: Route | None, group: Group) -> int | None:
        """Return the points by which the end of a group incriminates a request; None if they are not known yet."""
        replica, epoch = group
        if route is None or replica >= (route.replicas or replica + 1):
            return 0  # no longer wanted
        for backend in route.backends:
            if (backend.replica, backend.epoch) == group and self._connections[key_of(backend)].ready:
                return 0  # only the connection was lost
        after = [formed for formed in route.formed if formed.replica == replica and formed.epoch > epoch]
        if after:
            return min(after, key=lambda formed: formed.epoch).suspicion
        later = any(backend.replica == replica and backend.epoch > epoch for backend in route.backends)
        return STRONG if later else None
