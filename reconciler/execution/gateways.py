"""The gateways of nodes: the routes and keys that each is to have now, and the nodes that have one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from reconciler.errors import Refused, Unwritable
from reconciler.remote.nodes.gateway import GatewayFiles, GatewayState
from reconciler.remote.runtime.gateway_file import gateway_file
from reconciler.state import NodeGatewayObservation, NodeName
from reconciler.state.machine.gateways import GatewaysInForce
from reconciler.wire.codec import to_wire
from reconciler.wire.generation import Backend, Routes


class NodeGateway(Protocol):
    """The gateway of one machine, as ``remote.nodes.gateway.NodeGateway``."""

    async def look(self) -> GatewayState: ...
    async def send(self, files: GatewayFiles) -> None: ...
    async def start(self) -> None: ...
    async def signal(self, *names: str) -> None: ...
    async def remove_files(self) -> None: ...


class Watcher(Protocol):
    """Looks at gateways, as ``inventory.GatewaysOnNodes``."""

    async def look(self, name: NodeName, again: bool = False) -> NodeGatewayObservation: ...
    def end_is_asked(self, name: NodeName) -> None: ...


def _nowhere(name: NodeName) -> NodeGateway:
    raise Refused("SameMachine", f"no gateway can be on {name}")


class _Unwatched:
    async def look(self, name: NodeName, again: bool = False) -> NodeGatewayObservation:
        return NodeGatewayObservation(name, reached=False, problem="nothing looks at it")

    def end_is_asked(self, name: NodeName) -> None:
        pass


class Gateways:
    """``on`` returns the gateway of a node, and raises as ``MachinePool.gateway``."""

    def __init__(
        self,
        on: Callable[[NodeName], NodeGateway] = _nowhere,
        remembered: Path | None = None,
        key: Path | None = None,
    ) -> None:
        """``remembered``: the file of the nodes that have one. ``key``: the private key for ranks on other machines;
        its neighbours are those for jump hosts."""
        self.on = on
        self.watcher: Watcher = _Unwatched()
        """Looks at gateways for the steps."""
        self.on_news: Callable[[], None] = lambda: None
        """Called after each change of ``known``, except for a changed key."""
        self._path = remembered
        self._remembered = _read(remembered)
        self._key = key
        self._routes: Routes | None = None
        self._key_names: set[str] = set()
        """The keys for jump hosts that these routes name."""
        self._keys: Mapping[str, bytes] = {}
        self._files: Mapping[NodeName, GatewayFiles] = {}
        self._digests: Mapping[NodeName, str] | None = None

    def follow(self, routes: Routes) -> None:
        """Take these routes as those in force. They name the nodes that have a gateway."""
        if routes == self._routes:
            return
        before, self._routes = self.names, routes
        self._make_files()
        if before or self.names:
            self.on_news()

    @property
    def known(self) -> GatewaysInForce:
        """Return a snapshot for the plan. Keys are read again: those for jump hosts are made after the routes."""
        if self._files and self._read_keys() != self._keys:
            self._make_files()
        return GatewaysInForce(
            self._digests, gateway_file().name if self._files else "", frozenset(self._remembered)
        )

    @property
    def names(self) -> frozenset[NodeName]:
        """Return the nodes whose gateways have to be looked at."""
        return frozenset(self._remembered | self._files.keys())

    def files(self, name: NodeName) -> GatewayFiles:
        """Return the routes and keys of a node's gateway. Raises ``Refused`` if it is not to have one any more."""
        if name not in self._files:
            raise Refused("NotWanted", f"the routes in force name no gateway on {name}")
        return self._files[name]

    def remember(self, name: NodeName) -> None:
        """Write down that a node has a gateway, before it gets one. Raises ``Unwritable``."""
        self._remember(self._remembered | {name})

    def forget(self, name: NodeName) -> None:
        """Write down that a node has none any more. Raises ``Unwritable``."""
        self._remember(self._remembered - {name})

    def _remember(self, names: frozenset[NodeName]) -> None:
        if names == self._remembered or self._path is None:
            return
        draft = self._path.with_name(f".{self._path.name}.new")
        try:
            draft.write_text(json.dumps(sorted(names)), encoding="utf-8")
            draft.replace(self._path)
        except OSError as error:
            raise Unwritable(f"{self._path} cannot be written: {error.strerror}") from error
        self._remembered = names
        self.on_news()

    def _make_files(self) -> None:
        routes = self._routes
        assert routes is not None
        machines = [backend.machine for route in routes.routes for backend in route.backends]
        self._key_names = {machine.key for machine in machines if machine and machine.key}
        self._keys = self._read_keys() if routes.nodes else {}
        self._files = {
            name: GatewayFiles(json.dumps(to_wire(routes_for(name, routes))).encode(), self._keys)
            for name in map(NodeName, routes.nodes)
        }
        self._digests = {name: files.digest for name, files in self._files.items()}

    def _read_keys(self) -> Mapping[str, bytes]:
        found: dict[str, bytes] = {}
        if self._key is None:
            return found
        for name in sorted({self._key.name, *self._key_names}):
            with suppress(OSError):  # it is not made yet
                found[name] = self._key.with_name(name).read_bytes()
        return found


def _read(remembered: Path | None) -> frozenset[NodeName]:
    try:
        written = remembered.read_text(encoding="utf-8") if remembered is not None else "[]"
        return frozenset(NodeName(str(name)) for name in json.loads(written))
    except (OSError, ValueError, TypeError):
        return frozenset()


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
