"""From when on a node that gives no answer counts as lost, by its manifest or without one."""

from __future__ import annotations

import pytest

from reconciler.planning.context.lost_nodes import LOST_AFTER_SECONDS, is_lost, lost_at
from reconciler.resources import Node
from reconciler.state import NodeName
from tests.worlds import World, deployment, model, node, settled

B = NodeName("node-b")


def silent() -> World:
    world = settled(World([node("node-a"), node("node-b", lostAfter="5s"), model(), deployment()]))
    world.lose(B)
    return world


@pytest.mark.parametrize(
    ("manifest", "seconds"), [("there", 5.0), ("leaving", 5.0), ("unknown", LOST_AFTER_SECONDS)]
)
def test_a_node_is_lost_after_what_its_manifest_says_also_while_it_leaves(
    manifest: str, seconds: float
) -> None:
    world = silent()
    own = next(each for each in world.manifests if isinstance(each, Node) and each.metadata.name == B)
    if manifest == "leaving":
        world.remove(own)
    elif manifest == "unknown":
        world.manifests.remove(own)
    since = world.now
    assert lost_at(world.seen(), B) == since + seconds
    for passed, lost in ((seconds - 0.1, False), (seconds, True)):
        world.now = since + passed
        assert is_lost(world.seen(), B) is lost
