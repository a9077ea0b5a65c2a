"""A store that was lost, or is older than what runs: a whole group is adopted, anything less makes room."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.planning.context import tcp_ports
from reconciler.planning.context.lost_nodes import LOST_AFTER_SECONDS
from reconciler.state import (
    AdoptGroup,
    AllocateEpoch,
    Cause,
    GroupRecord,
    NodeName,
    Plan,
    StepFailure,
    WaitingFor,
)
from reconciler.wire.generation import Backend
from reconciler.wire.launch import Phase, RankId
from tests.worlds import World, deployment, model, node, settled, two_nodes


def served() -> World:
    """The quickstart's cluster, served by its second epoch; nothing has been done since."""
    world = settled(two_nodes())
    world.end_rank(RankId("tiny", 0, 1, 0), signal=9)
    world.settle()
    world.history.clear()
    return world


def backends(world: World) -> tuple[Backend, ...]:
    (route,) = world.routes()
    return route.backends


def cause(world: World) -> tuple[Cause, str]:
    """Of the first group that was formed."""
    step = next(step for step in world.done(AllocateEpoch))
    return step.cause, step.detail


def test_a_group_that_the_store_has_forgotten_is_adopted_as_it_is_and_proven_again() -> None:
    world = served()
    before, ranks = world.group(), dict(world.ranks)
    world.lose_store()
    assert backends(world) == ()
    assert world.settle() == Plan()
    assert world.did() == ["AdoptGroup", "ProveGroup"]
    assert world.group() == replace(
        before, secret="", strategy="", strategy_why="", transport_why="", spec_before=None
    )
    assert world.ranks == ranks
    assert [backend.epoch for backend in backends(world)] == [2]


@pytest.mark.parametrize("alive", [True, False])
def test_a_group_is_not_routed_to_beside_a_later_one_that_an_older_store_does_not_know(alive: bool) -> None:
    world = served()
    place, report = world.ranks[RankId("tiny", 0, 2, 0)]
    later = replace(report, id=RankId("tiny", 0, 3, 0))
    world.ranks[later.id] = (place, later)
    if not alive:
        world.end_rank(later.id, code=0)
    assert [backend.epoch for backend in backends(world)] == ([] if alive else [2])


def test_an_adopted_group_whose_ranks_do_not_agree_on_their_transport_has_none_that_is_known() -> None:
    world = served()
    place, report = world.ranks[RankId("tiny", 0, 2, 1)]
    world.ranks[report.id] = (place, replace(report, transport=""))
    world.lose_store()
    world.settle()
    assert world.group().transport == ""


def test_what_follows_an_adopted_group_has_a_later_epoch_and_other_ports() -> None:
    world = served()
    adopted = world.group()
    world.lose_store()
    world.settle()
    world.end_rank(RankId("tiny", 0, 2, 1), signal=9)
    assert world.settle() == Plan()
    after = world.group()
    assert (after.epoch, after.secret != "") == (3, True)
    assert after.port >= adopted.port + 3


def test_a_group_that_was_still_loading_is_adopted_too() -> None:
    world = served()
    place, report = world.ranks[RankId("tiny", 0, 2, 1)]
    world.ranks[report.id] = (place, replace(report, phase=Phase.LOADING))
    world.lose_store()
    (waiting,) = world.settle().waiting
    assert (world.did(), waiting.reason) == (["AdoptGroup"], WaitingFor.RANKS)
    assert backends(world) == ()


@pytest.mark.parametrize("damage", ["dead", "missing", "draining", "unreadable", "other-epoch"])
def test_a_group_that_is_not_whole_is_stopped_before_a_later_one_starts(damage: str) -> None:
    world = served()
    place, report = world.ranks[last := RankId("tiny", 0, 2, 1)]
    match damage:
        case "dead":
            world.end_rank(last, signal=9)
        case "missing":
            del world.ranks[last]
        case "draining":
            world.ranks[last] = (place, replace(report, phase=Phase.DRAINING))
        case "unreadable":
            world.ranks[last] = (place, replace(report, group="", size=0, port=0))
        case "other-epoch":
            stray = replace(report, id=RankId("tiny", 0, 1, 1))
            del world.ranks[last]
            world.ranks[stray.id] = (place, stray)
        case _:
            raise AssertionError(damage)
    world.lose_store()
    assert world.settle() == Plan()  # the world lets no rank start while one of another epoch is alive
    assert cause(world)[0] is Cause.STORE_LOST
    assert world.alive() == [RankId("tiny", 0, 3, 0), RankId("tiny", 0, 3, 1)]
    assert [backend.epoch for backend in backends(world)] == [3]


def test_why_a_group_is_not_adopted_is_told() -> None:
    world = served()
    del world.ranks[RankId("tiny", 0, 2, 1)]
    world.lose_store()
    world.settle()
    assert cause(world) == (Cause.STORE_LOST, "1 of 2 ranks of epoch 2 are left")


def test_why_a_rank_of_a_forgotten_group_ended_is_told() -> None:
    world = served()
    world.end_rank(RankId("tiny", 0, 2, 1), signal=9)
    world.lose_store()
    world.settle()
    found, detail = cause(world)
    assert found is Cause.STORE_LOST
    assert detail.startswith("rank 1 on node-b (epoch 2, ")
    assert detail.endswith(" was killed by signal 9")


def test_epochs_grow_also_when_nothing_of_the_last_one_is_alive() -> None:
    world = served()
    for rank in world.alive():
        world.end_rank(rank, signal=9)
    world.lose_store()
    assert world.settle() == Plan()
    assert world.group().epoch == 3


def test_an_adopted_group_that_is_no_longer_what_is_wanted_is_replaced_like_any_other() -> None:
    world = served()
    world.manifests[-1] = deployment(serving={"context": 512})
    world.lose_store()
    assert world.settle() == Plan()
    assert world.did()[:3] == ["AdoptGroup", "ProveGroup", "AllocateEpoch"]
    assert cause(world)[0] is Cause.SPEC_CHANGED
    assert world.group().epoch == 3


def test_where_a_replacement_cannot_be_formed_the_adopted_group_serves_on() -> None:
    world = served()
    world.manifests[-1] = deployment(nodes=3)
    world.lose_store()
    assert [refused.reason.value for refused in world.settle().refused] == ["NotEnoughNodes"]
    assert [backend.epoch for backend in backends(world)] == [2]


def test_ranks_that_are_neither_whole_nor_replaceable_are_stopped() -> None:
    world = served()
    del world.ranks[RankId("tiny", 0, 2, 1)]
    world.manifests[-1] = deployment(nodes=3)
    world.lose_store()
    world.settle()
    assert (world.did(), world.alive()) == (["StopRank"], [])


def test_an_adopted_group_that_loses_a_rank_without_a_trace_is_not_completed() -> None:
    world = served()
    world.lose_store()
    world.act()
    assert isinstance(world.history[-1], AdoptGroup)
    del world.ranks[RankId("tiny", 0, 2, 1)]
    assert world.settle() == Plan()
    assert cause(world)[0] is Cause.RANK_MISSING
    assert world.group().epoch == 3


def test_a_store_of_an_earlier_epoch_adopts_the_later_one_and_routes_to_nothing_before() -> None:
    world = settled(two_nodes())
    kept = replace(world, groups=dict(world.groups), last_epochs=dict(world.last_epochs))
    world.end_rank(RankId("tiny", 0, 1, 0), signal=9)
    world.settle()
    world.history.clear()
    world.lose_store(kept)
    assert backends(world) == ()
    assert world.settle() == Plan()
    assert world.did() == ["AdoptGroup", "ProveGroup"]
    assert world.last_epochs[world.replica()] == 2


def test_a_restored_store_that_knows_how_far_epochs_had_come_adopts_as_well() -> None:
    world = served()
    last = dict(world.last_epochs)
    world.lose_store()
    world.last_epochs = last
    assert world.settle() == Plan()
    assert world.did() == ["AdoptGroup", "ProveGroup"]


def test_a_store_of_an_earlier_epoch_does_not_start_that_epoch_again() -> None:
    world = settled(two_nodes())
    unproven = replace(world.group(), proven_at=None)
    kept = replace(world, groups={world.replica(): unproven}, last_epochs=dict(world.last_epochs))
    world.end_rank(RankId("tiny", 0, 1, 0), signal=9)
    world.settle()
    for rank in [*world.ranks]:
        if rank.epoch == 1:
            del world.ranks[rank]
    world.end_rank(RankId("tiny", 0, 2, 0), signal=9)
    world.lose_store(kept)
    assert world.settle() == Plan()
    assert world.group().epoch == 3


def test_no_epoch_is_drawn_before_every_node_has_said_what_it_knows() -> None:
    world = settled(World([node("node-a"), node("node-b"), node("spare"), model(), deployment(nodes=2)]))
    world.lose_store()
    world.ranks.clear()
    world.agents.discard(NodeName("spare"))
    assert not any(isinstance(step, AllocateEpoch) for step in world.plan().steps)
    (waiting,) = [w for w in world.plan().waiting if w.workload == world.replica()]
    assert "spare" in waiting.text
    world.now = 10.0  # spare was last heard of at 0
    world.failures["start-agent/spare"] = StepFailure(1, 70.0, "no")
    assert not any(isinstance(step, AllocateEpoch) for step in world.plan().steps)
    world.now = LOST_AFTER_SECONDS + 1
    assert any(isinstance(step, AllocateEpoch) for step in world.plan().steps)


def test_a_rank_of_the_recorded_epoch_on_another_node_is_a_leftover() -> None:
    world = settled(World([node("node-a"), node("node-b"), node("node-c"), model(), deployment(nodes=2)]))
    place, report = world.ranks[RankId("tiny", 0, 1, 1)]
    stray = replace(report, id=RankId("tiny", 0, 1, 2), pid=999)
    world.ranks[stray.id] = (NodeName("node-c"), stray)
    assert place == "node-b"
    world.history.clear()
    assert world.settle() == Plan()
    assert world.did() == ["StopRank"]
    assert [backend.epoch for backend in backends(world)] == [1]


def ports(group: GroupRecord) -> range:
    return range(group.port, group.port + len(group.members) + 1)


def test_ranks_that_the_store_does_not_know_are_charged_and_keep_their_ports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = served()
    known = world.group()
    world.manifests = [node("node-a"), node("node-b"), model(), deployment(name="other")]
    world.lose_store()
    monkeypatch.setattr(tcp_ports, "PORT_FIRST", known.port - 1)
    monkeypatch.setattr(tcp_ports, "PORT_LAST", known.port + 5)
    step = next(step for step in world.plan().steps if isinstance(step, AllocateEpoch))
    assert set(ports(step.group)).isdisjoint(ports(known))
    world.memory_bytes = 2 * known.rank_bytes - 1
    refused = world.plan().refused
    assert [refusal.reason.value for refusal in refused] == ["NotEnoughMemory"]


def test_a_node_that_leaves_stays_until_the_epochs_that_only_it_knows_of_are_known() -> None:
    world = settled(World([node("node-a"), node("node-b"), node("node-c"), model(), deployment()]))
    for rank in world.alive():
        world.end_rank(rank, signal=9)
    members = world.group().members
    world.lose_store()
    for name in members:
        world.remove(next(m for m in world.manifests if m.metadata.name == name))
        world.bring(node(f"new-{name}"))
    world.settle()
    assert world.group().epoch == 2
    assert not set(members) & world.agents
    assert world.leaving == {}


def test_a_group_after_which_an_epoch_was_given_makes_room_for_the_next_one() -> None:
    """The store has forgotten its groups and not their epochs: it takes no group back with an older one."""
    world = served()
    world.lose_store()
    world.last_epochs = {world.replica(): 3}
    assert world.settle() == Plan()
    assert "AdoptGroup" not in world.did()
    assert world.group().epoch == 4
    assert cause(world) == (Cause.STORE_LOST, "epoch 3 was given since")
