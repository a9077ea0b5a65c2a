"""What lives and does nothing: a rank 0 that takes no requests, and agents that answer nobody."""

from __future__ import annotations

from tests.simulation.oracles.up import end_all, up
from tests.simulation.schedules.acts import deafen, hang_agent


def test_a_rank_0_that_takes_no_requests_is_hung_whatever_it_says() -> None:
    world = up()
    before = world.routed()
    deafen("big", 0)(world)
    world.run(30.0)
    assert not any(str(replica) == "big/0" for replica in world.routed()), "it is not routed to"
    world.run(60.0)
    after = world.routed()
    assert {str(replica): epoch for replica, epoch in after.items()} == {
        str(replica): epoch + (str(replica) == "big/0") for replica, epoch in before.items()
    }
    end_all()


def test_agents_that_hang_cost_no_route_and_are_replaced() -> None:
    world = up()
    before, pids = world.routed(), {rank.id: rank.pid for rank in world.ranks()}
    for name in world.machines:
        hang_agent(name)(world)
    for _ in range(60):
        world.run(1.0)
        assert world.routed() == before
    assert all(machine.agent_alive for machine in world.machines.values())
    assert {rank.id: rank.pid for rank in world.ranks()} == pids
    end_all()
