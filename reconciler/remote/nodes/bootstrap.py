"""Installs everything on a machine that keeps its agent running, or removes it again.

It surveys the machine, and carries out one action after the other.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from reconciler.errors import Refused
from reconciler.planning.nodes.root_commands import RootCommands
from reconciler.remote.bootstrap import rights
from reconciler.remote.bootstrap.actions import Action, Build, Note, Write, actions, notes, undo_actions
from reconciler.remote.bootstrap.profile import Profile
from reconciler.remote.bootstrap.survey import Survey
from reconciler.remote.runtime.agent_file import bundle_of, write_bundle
from reconciler.remote.runtime.pinned_versions import recipes
from reconciler.remote.runtime.wheelhouse import Tell, Wheelhouse
from reconciler.resources import Access
from reconciler.service_managers.definitions import Keeper

from .node_over_ssh import SshNode

MEASURE_SECONDS = 60.0
SETTLE_SECONDS = 25.0
"""A service restarts an ended process after at most ten seconds."""
LOOK_SECONDS = 0.3
_WORDS_MAX = 2000


@dataclass(frozen=True, slots=True)
class BootstrapPlan:
    """A machine's profile, the actions there, and notes for a person."""

    found: Profile
    seen: Survey
    measures: tuple[Action, ...]
    notes: tuple[Note, ...]

    @property
    def own_actions(self) -> tuple[Action, ...]:
        """Return the actions that are possible from here."""
        return tuple(each for each in self.measures if not each.by_person)


def reach(name: str, access: Access, home: Path, gateway_key: Path) -> SshNode:
    """Return the machine of a node over SSH; ``home`` is the controller's. Raises ``OSError``."""
    bundle = bundle_of(write_bundle(home / "agents"), Wheelhouse(home / "runtimes", recipes()))
    return SshNode(name, access, bundle, asyncio.Semaphore(1), gateway_key)


async def plan_bootstrap(node: SshNode, needed: RootCommands | None = None) -> BootstrapPlan:
    """Plan the actions; changes nothing there. ``needed``: the commands that should run as root there, if they are
    known. Raises ``Unreachable``, and ``Refused`` if no agent can run."""
    place, seen = await node.place(), await node.survey()
    allowed = None
    if needed is not None and not seen.administrator:
        asked = await node.run(rights.question(needed), timeout=MEASURE_SECONDS)
        allowed = rights.answer(needed, asked.out)
    return BootstrapPlan(
        place.found, seen, actions(seen, place), notes(place.found, seen, node.name, allowed)
    )


async def plan_reset(node: SshNode) -> BootstrapPlan:
    """Plan the removal of the service that keeps its agent running; changes nothing there. Raises ``Unreachable``."""
    found, seen = await node.profile(), await node.survey()
    return BootstrapPlan(found, seen, undo_actions(found, seen, node.name), ())


async def carry_out(node: SshNode, measure: Action, tell: Tell = lambda text: None) -> None:
    """Carry out one action; ``tell`` gets progress messages.

    Raises ``Refused`` (``MeasureFailed``) with the output, and as ``SshNode.build_runtime``; ``Unreachable``.
    """
    if isinstance(measure.act, Build):
        await node.build_runtime(tell)
        return
    if isinstance(measure.act, Write):
        await node.put(measure.act.path, measure.act.content, measure.act.mode)
        return
    done = await node.run(measure.act.argv, timeout=MEASURE_SECONDS)
    if done.status != 0:
        words = (done.err or done.out).strip()[-_WORDS_MAX:] or f"exit status {done.status}"
        raise Refused("MeasureFailed", f"on {node.name}: {measure.why}: {words}")


async def settle(node: SshNode) -> None:
    """Wait for a while until the machine's service, if it has one, runs the agent."""
    until = asyncio.get_running_loop().time() + SETTLE_SECONDS
    while asyncio.get_running_loop().time() < until:
        seen = await node.survey()
        if seen.keeper is Keeper.NOTHING or not seen.loaded or (seen.agent and seen.agent == seen.pid):
            return
        await asyncio.sleep(LOOK_SECONDS)
