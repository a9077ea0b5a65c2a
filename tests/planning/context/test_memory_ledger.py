"""How much memory a host has left while a replica moves."""

from __future__ import annotations

import pytest

from reconciler.planning.context.memory_ledger import Ledger
from reconciler.planning.context.world import World as Snapshots
from reconciler.state import DeploymentName, NodeName, ReplicaId, WorkloadId
from tests.worlds import World, deployment, model, node, settled

OTHER = ReplicaId(DeploymentName("somebody-else"), 0)


def serving() -> tuple[Snapshots, WorkloadId]:
    """A cluster of two nodes that serve one replica."""
    world = settled(World([model(), deployment(nodes=2), node("node-a"), node("node-b")]))
    (replica,) = world.memory().groups
    return world.seen(), replica


def test_a_node_that_has_not_reported_is_a_machine_of_its_own() -> None:
    ledger = Ledger.of(World([node("silent"), node("mute"), model(), deployment()]).seen())
    assert (ledger.host(NodeName("silent")), ledger.host(NodeName("mute"))) == ("node/silent", "node/mute")
    assert ledger.free(NodeName("silent"), ReplicaId(DeploymentName("tiny"), 0)) == 0


@pytest.mark.parametrize(
    ("gets", "charged"),
    [
        pytest.param(1.0, 0.0, id="as much as it has"),
        pytest.param(0.5, 0.0, id="less than it has: its old ranks hold the rest until they are gone"),
        pytest.param(1.5, 0.5, id="more than it has"),
    ],
)
def test_a_replica_that_is_formed_again_is_charged_only_what_it_gets_beyond_what_it_has(
    gets: float, charged: float
) -> None:
    world, replica = serving()
    record = world.memory.groups[replica]
    ledger = Ledger.of(world)

    moved = ledger.moved(replica, record.members, tuple(int(gets * size) for size in record.charges))

    for name, size in zip(record.members, record.charges, strict=True):
        assert ledger.free(name, OTHER) - moved.free(name, OTHER) == int(charged * size)
        assert moved.ranks(name, OTHER) == ledger.ranks(name, OTHER)
