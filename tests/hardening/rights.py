"""A Mac whose Node allows every repair: all that any machine is ever allowed."""

from __future__ import annotations

from reconciler.planning.nodes.root_commands import RootCommand
from tests.planning.macs import A
from tests.planning.nodes.test_repair import cabled, rights
from tests.worlds import node


def every_command() -> tuple[RootCommand, ...]:
    """Every repair over one cable at ``en3``, the probe of power, and a restart."""
    repair = {"network": True, "sleep": True, "wiredLimit": True, "updates": True, "reboot": True}
    world = cabled()
    world.manifests = [
        node(A, repair=repair, memory={"limit": "440GiB"}) if each.metadata.name == A else each
        for each in world.manifests
    ]
    world.memory_bytes = 512 * 2**30
    return rights(world, A)
