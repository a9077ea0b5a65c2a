"""Gateways on nodes: a node has one at most, none ends while it is wanted, and people are told of one that fails while it
does.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from reconciler.planning.nodes.gateways import FAILING_SECONDS
from reconciler.remote.nodes import gateway as remote_gateway
from reconciler.resources import Gateway, Node
from reconciler.state.plan import GatewayRefusal
from reconciler.state.subjects import GatewaySubject
from reconciler.status import Snapshots
from reconciler.wire.generation import Routes
from tests.simulation.world.node_gateways import (
    KEY,
    KEY_FILE,
    PROGRAM,
    REMEMBERED_FILE,
    GatewayHome,
    routes_in,
)

from .bounds import FRONT_NEWS_SECONDS, REPEATS_MAX, REPEATS_SECONDS
from .pruning import REASONS_KEPT_SECONDS

if TYPE_CHECKING:
    from tests.simulation.world.loop import Process
    from tests.simulation.world.machines import Machine
    from tests.simulation.world.node_gateways import FrontProcess
    from tests.simulation.world.world import World

ENDING = ("signal TERM", "signal KILL", f"remove {remote_gateway.ROUTES}")
"""How the names of the acts begin that end a gateway, or leave it without routes."""


class NodeGateways:
    """Told of every act on the gateway of a node, and of every pass."""

    def __init__(self, world: World, violated: Callable[[str], None]) -> None:
        self._world = world
        self._violated = violated
        self._wanted: frozenset[str] = frozenset()
        self._lacked: dict[str, float] = {}
        """When each node was not to have a gateway last."""
        self._asked: dict[tuple[Process, str, str], deque[float]] = {}
        self._passed: tuple[Process | None, float] = (None, -math.inf)
        """Who has made the last pass, and when."""
        self._untold: dict[str, float] = {}
        """Since when passes tell nobody of a gateway that does not serve."""
        self._told: dict[str, float] = {}
        """Since when passes refuse a gateway that serves."""

    # --- wishes --------------------------------------------------------------------------------

    def wanted(self) -> frozenset[str]:
        """Return the nodes that are to have a gateway. Without a Gateway these are those of the last one."""
        commits = self._world.commits
        nodes = {m.metadata.name for m in commits[-1] if isinstance(m, Node) and m.spec.ssh is not None}
        named = (m.spec.nodes for each in reversed(commits) for m in each if isinstance(m, Gateway))
        return frozenset(next(named, ())) & nodes

    def committed(self) -> None:
        """There are other manifests."""
        before, self._wanted = self._wanted, self.wanted()
        self._lacked |= dict.fromkeys(before ^ self._wanted, self._world.loop.now)

    def _long_wanted(self, name: str) -> bool:
        """Whether a node has been meant to have a gateway for so long that everybody knows."""
        since = self._lacked.get(name, -math.inf)
        return name in self._wanted and self._world.loop.now - since >= REASONS_KEPT_SECONDS

    # --- acts ----------------------------------------------------------------------------------

    def asked(self, by: Process, machine: Machine, what: str) -> None:
        """A controller wants to change something: what fails is not tried again and again."""
        now = self._world.loop.now
        times = self._asked.setdefault((by, machine.name, what), deque())
        times.append(now)
        while now - times[0] > REPEATS_SECONDS:
            times.popleft()
        if len(times) == REPEATS_MAX and not what.startswith("put"):  # routes change as often as groups do
            self._violated(f"the gateway on {machine.name}: {what}, {REPEATS_MAX} times within ten minutes")

    def acts(self, by: Process, machine: Machine, what: str) -> None:
        """A controller is about to change something. A gateway that is wanted ends only for another version's."""
        running = machine.gateway.running
        if not what.startswith(ENDING) or running is None or not self._long_wanted(machine.name):
            return
        if what.startswith("remove") or running.program == by.context[PROGRAM].name:
            self._violated(f"{running} is wanted, and {by.name} does this: {what}")

    def listens(self, process: FrontProcess) -> None:
        """A gateway has begun to listen."""
        others = [each for each in process.home.processes if each.listens and each is not process]
        if others:
            self._violated(f"{process} listens while {others[0]} does")

    # --- what is told --------------------------------------------------------------------------

    def planned(self, last: Snapshots) -> None:
        """A pass has decided: whoever fails for long is refused, and nobody who serves."""
        world, now = self._world, self._world.loop.now
        by = world.controller.process if world.controller is not None else None
        pause = now - self._passed[1]
        if by is not self._passed[0] or pause > world.pace.resync_seconds + FRONT_NEWS_SECONDS:
            self._untold, self._told = {}, {}
        self._passed = by, now
        if last.memory.gateways.files is None or last.desired.stopping:
            return
        refused = {each.node for each in last.plan.refused if isinstance(each, GatewayRefusal)}
        serving = {name for name in self._wanted if world.machines[name].gateway.serving is not None}
        seen = {name for name in self._wanted if world.machines[name].reachable}
        self._untold = {name: self._untold.get(name, now) for name in seen - serving - refused}
        shown = {name for name in seen & serving if world.machines[name].gateway.shown}
        self._told = {name: self._told.get(name, now) for name in shown & refused}
        news = FRONT_NEWS_SECONDS + 2 * world.pace.keep_seconds
        for name, since in self._untold.items():
            if now - since > FAILING_SECONDS + news:
                self._violated(f"no gateway serves on {name} for {now - since:.0f} s, and nobody is told")
                self._untold[name] = now
        for name, since in self._told.items():
            if now - since > news:
                self._violated(f"the gateway on {name} serves for {now - since:.0f} s, and is refused")
                self._told[name] = now

    # --- the end -------------------------------------------------------------------------------

    def missing(self) -> str:
        """Return what is not as it should be in the end; empty once everything is."""
        world = self._world
        for name, machine in world.machines.items():
            if not machine.reachable:
                continue
            if name not in self._wanted and (machine.gateway.processes or machine.gateway.files):
                return f"{name} is to have no gateway, and has {machine.gateway.processes or 'files for one'}"
            lack = self._lack(machine.gateway) if name in self._wanted and not world.stopping else ""
            if lack:
                return f"the gateway on {name} {lack}"
        remembered = set(json.loads(world.home.get(REMEMBERED_FILE, b"[]")))
        if remembered != self._wanted and all(machine.reachable for machine in world.machines.values()):
            return f"{sorted(remembered)} are remembered to have gateways, expected {sorted(self._wanted)}"
        return ""

    def _lack(self, home: GatewayHome) -> str:
        """Return how a gateway is not as it should be; empty if it is."""
        process, routes, there = home.serving, self._world.routes, routes_in(home)
        if process is None or process is not home.running:
            return "does not serve"
        if process.program != self._world.program.name:
            return f"runs {process.program}, expected {self._world.program.name}"
        if routes is None or there is None or _named(there) != _named(routes):
            return f"has the routes {there}, and {routes} are in force"
        if process.routes.current != there:
            return f"does not use its routes {there.sequence}, but {process.routes.current.sequence}"
        keys = {path: key for path, key in home.files.items() if path != remote_gateway.ROUTES}
        return "" if keys == {f"{remote_gateway.KEYS}/{KEY_FILE}": KEY} else f"has the keys {sorted(keys)}"

    def check_incidents(self) -> None:
        """In the end nobody is told any more of a gateway that serves."""
        controller = self._world.controller
        if controller is None or controller.parts is None:
            return
        for each in controller.parts.publisher.incident_log.open:
            if isinstance(each.subject, GatewaySubject):
                self._violated(f"in the end there is an incident of {each.subject}")


def _named(routes: Routes) -> tuple[object, ...]:
    """The part of routes that is the same in every gateway: all ranks of nodes over SSH are reached from all others."""
    backends = [(route.model, each.replica, each.epoch) for route in routes.routes for each in route.backends]
    return (routes.token, routes.sequence, routes.listen, *sorted(backends))
