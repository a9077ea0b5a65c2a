"""Keeps a gateway running on each node that the Gateway names, with this cluster's routes and keys.

Each is checked and corrected every few seconds, and at once when the routes change. One that cannot be reached continues
with the routes that it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from reconciler.errors import Refused, Unreachable
from reconciler.inventory.service_files import limits_of
from reconciler.remote.nodes.front import FrontFiles
from reconciler.state import FrontObservation, GatewayObservation, NodeName
from reconciler.wire.codec import to_wire
from reconciler.wire.generation import Backend, Routes

log = logging.getLogger(__name__)

KEEP_SECONDS = 3.0
"""Time between two looks at a gateway: a dead one is missing for at most this long, plus the time of its start."""


class Front(Protocol):
    """The gateway of one machine, as ``remote.nodes.front.Front``."""

    async def keep(self, files: FrontFiles) -> dict[str, Any]: ...

    async def end(self) -> None: ...


class Fronts:
    """All gateways on other machines. ``front`` returns the gateway of a node, and raises as ``MachinePool.front``."""

    def __init__(
        self, front: Callable[[NodeName], Front], remembered: Path, key: Path, on_news: Callable[[], None]
    ) -> None:
        """``remembered``: the file of the nodes that have one. ``key``: the private key for ranks on other machines."""
        self._front = front
        self._remembered = remembered
        self._known = _read(remembered)
        """The nodes that have one, or still have: also those of an earlier controller."""
        self._key = key
        self._on_news = on_news
        self._routes: Routes | None = None
        self._seen: dict[NodeName, FrontObservation] = {}
        self._tasks: dict[NodeName, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()

    def follow(self, routes: Routes) -> None:
        """Have every gateway use these routes. They name the nodes that have one."""
        if routes == self._routes:
            return
        self._routes = routes
        wanted = {NodeName(name) for name in routes.nodes}
        self._remember(self._known | wanted)
        for name in self._known - self._tasks.keys():
            self._tasks[name] = asyncio.create_task(self._keep(name), name=f"the gateway on {name}")
        self._changed.set()
        self._changed = asyncio.Event()

    def beside(self, gateway: GatewayObservation | None) -> GatewayObservation | None:
        """Return the controller's own gateway together with all others."""
        if gateway is None or not self._seen:
            return gateway
        return replace(gateway, others=tuple(self._seen[name] for name in sorted(self._seen)))

    @contextlib.asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Leave all gateways as they are at the end: they serve with or without a controller."""
        try:
            yield
        finally:
            for task in self._tasks.values():
                task.cancel()

    async def _keep(self, name: NodeName) -> None:
        while True:
            changed, routes = self._changed, self._routes
            assert routes is not None
            if name not in routes.nodes:
                if await self._ended(name):
                    return
            else:
                self._note(await self._asked(name, routes))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(KEEP_SECONDS):
                    await changed.wait()

    async def _asked(self, name: NodeName, routes: Routes) -> FrontObservation:
        """Correct a gateway, and return its own report."""
        before = self._seen.get(name, FrontObservation(name))
        try:
            files = FrontFiles(json.dumps(to_wire(routes_for(name, routes))).encode(), self._keys(routes))
            state = await self._front(name).keep(files)
            listen = None if state["endpoint"] is None else str(state["listen"])
            return FrontObservation(
                name,
                listen,
                int(state["pid"]),
                int(state.get("sequence", 0)),
                str(state["problem"]),
                limits_of(state.get("limits")),
                state.get("keys"),
            )
        except (Unreachable, Refused, OSError) as error:
            return replace(before, problem=str(error))
        except (KeyError, TypeError, ValueError):
            return replace(before, problem="what runs there says nothing of itself that can be read")

    async def _ended(self, name: NodeName) -> bool:
        """End a gateway that is no longer wanted. Return whether it is forgotten."""
        try:
            await self._front(name).end()
        except Unreachable as error:
            self._note(FrontObservation(name, problem=f"it is to end, and cannot be reached: {error}"))
            return False
        except Refused:
            log.info("%s has no gateway of its own any more", name)
        self._remember(self._known - {name})
        self._seen.pop(name, None)
        self._tasks.pop(name, None)
        self._on_news()
        return True

    def _note(self, seen: FrontObservation) -> None:
        if self._seen.get(seen.node) != seen:
            self._seen[seen.node] = seen
            self._on_news()

    def _remember(self, names: set[NodeName]) -> None:
        """Write down the nodes that have one. On a full disk, the next change writes them."""
        if names == self._known:
            return
        self._known = names
        draft = self._remembered.with_name(f".{self._remembered.name}.new")
        try:
            draft.write_text(json.dumps(sorted(names)), encoding="utf-8")
            draft.replace(self._remembered)
        except OSError as error:
            log.warning("%s cannot be written: %s", self._remembered, error)

    def _keys(self, routes: Routes) -> Mapping[str, bytes]:
        machines = [backend.machine for route in routes.routes for backend in route.backends]
        names = {self._key.name, *(machine.key for machine in machines if machine and machine.key)}
        paths = {name: self._key.with_name(name) for name in sorted(names)}
        return {name: path.read_bytes() for name, path in paths.items() if path.exists()}


def _read(remembered: Path) -> set[NodeName]:
    try:
        return {NodeName(str(name)) for name in json.loads(remembered.read_text(encoding="utf-8"))}
    except (OSError, ValueError, TypeError):
        return set()


def routes_for(name: NodeName, routes: Routes) -> Routes:
    """Return the routes as the gateway on a node uses them: ranks there are reached directly, and those of the
    controller's own machine not at all."""
    return replace(
        routes,
        gateway=name,
        hook=None,  # the secret, and the controller that gets the news, are on this machine
        routes=tuple(
            replace(route, backends=tuple(_reached(name, route.backends))) for route in routes.routes
        ),
    )


def _reached(name: NodeName, backends: tuple[Backend, ...]) -> Iterator[Backend]:
    for backend in backends:
        if backend.node == name:
            yield replace(backend, machine=None)
        elif backend.machine is not None:
            yield backend
