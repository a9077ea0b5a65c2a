"""A deployment that nothing serves, and that nobody works on, is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from reconciler.state import DeploymentName, ObjectKey
from reconciler.status import AS_WISHED, Snapshots, serving

from .bounds import UNTOLD_SECONDS

if TYPE_CHECKING:
    from tests.simulation.world.world import World


class Told:
    """Looks at every pass of the controller."""

    def __init__(self, world: World, violated: Callable[[str], None]) -> None:
        self._world = world
        self._violated = violated
        self._since: dict[DeploymentName, float] = {}

    def planned(self, last: Snapshots) -> None:
        """A pass has decided: whatever it neither does nor waits for is an incident before long."""
        now = self._world.loop.now
        idle = {name for name in last.desired.deployments if self._is_idle(name, last)}
        self._since = {name: self._since.get(name, now) for name in idle}
        for name, since in self._since.items():
            if now - since > UNTOLD_SECONDS:
                self._violated(f"nothing serves {name} for {now - since:.0f} s, and no incident is open")
                self._since[name] = now

    def _is_idle(self, name: DeploymentName, last: Snapshots) -> bool:
        """Whether nothing serves a deployment, nobody works on it or wants it so, and no incident is open."""
        key, controller = ObjectKey("ModelDeployment", name), self._world.controller
        if not last.desired.deployments[name].spec.replicas or last.desired.stopping:
            return False
        if any(serving(each, last.observed) is not None for each in last.memory.groups_of(name)):
            return False
        if any(each.object == key for each in (*last.plan.steps, *last.plan.waiting)):
            return False
        if any(each.object == key and each.reason in AS_WISHED for each in last.plan.refused):
            return False
        parts = controller.parts if controller is not None else None
        return parts is not None and not parts.publisher.incident_log.open
