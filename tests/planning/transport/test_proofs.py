"""Groups over RDMA prove that results are right, once for each combination, and none serves with wrong ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.planning.transport import proofs
from reconciler.state import AllocateEpoch, FaultClass, StartRank
from reconciler.wire.launch import ExitCode
from tests.planning.macs import A, B, learn, two_macs
from tests.worlds import World, two_nodes


def proves(world: World) -> bool:
    """Whether the newest group proves its transport: all of its ranks, or none."""
    record = world.group()
    told = {s.spec.config.prove for s in world.done(StartRank) if s.spec.id.epoch == record.epoch}
    assert told <= {record.prove}
    return record.prove


def again(world: World) -> None:
    """The group is formed again."""
    world.end_rank(world.group().rank_ids[1], signal=9)
    world.settle()


def test_the_first_group_of_a_combination_proves_it_and_the_next_ones_do_not() -> None:
    world = two_macs()
    assert proves(world)
    (name,) = world.proofs
    assert name == world.group().combination
    assert name.startswith("jaccl, tensor, 2 ranks, macOS 26.3, mlx 0.32.4, mlx-lm 0.32.2, weights ")
    again(world)
    assert not proves(world)
    assert world.settle().steps == ()


def another_system(world: World) -> None:
    for name in (A, B):
        learn(world, name, version=(26, 4))


def another_engine(world: World) -> None:
    world.runtime["mlx"] = "0.32.5"


def other_weights(world: World) -> None:
    size, config = world.weights["tiny"]
    world.weights["tiny"] = (size + 1, config)


def a_month(world: World) -> None:
    world.now += proofs.GOOD_SECONDS


def a_clock_set_back(world: World) -> None:
    world.proofs = {name: replace(each, at=world.now + 86_400) for name, each in world.proofs.items()}


@pytest.mark.parametrize(
    "happens", [another_system, another_engine, other_weights, a_month, a_clock_set_back]
)
def test_another_combination_is_proven_too_and_the_same_one_after_a_month(happens: object) -> None:
    world = two_macs()
    happens(world)  # type: ignore[operator]
    again(world)
    assert proves(world)
    again(world)
    assert not proves(world)


def test_a_group_that_never_answered_has_proven_nothing() -> None:
    world = two_macs()
    world.proofs.clear()
    again(world)
    assert proves(world)
    world.proofs.clear()
    record = world.group()
    world.groups[world.replica()] = replace(record, proven_at=None)
    world.end_rank(record.rank_ids[1], signal=9)
    assert world.forming().group.prove


def test_over_tcp_nothing_is_to_prove() -> None:
    world = two_nodes()
    world.settle()
    assert world.group().transport not in ("jaccl", "jaccl-ring")
    assert not proves(world)
    assert world.proofs == {}


def test_wrong_results_are_never_served_over_that_transport_until_a_version_changes() -> None:
    world = two_macs()
    world.end_rank(world.group().rank_ids[1], code=ExitCode.WRONG_RESULT)
    (trouble,) = world.plan().troubles
    assert trouble.fault is FaultClass.WRONG_RESULTS
    assert "github.com/ml-explore/mlx" in trouble.person
    world.settle()
    assert world.group().transport == "ring", "RDMA as a ring uses the same driver"
    world.now += 30 * 86_400
    world.boots = {A: "other", B: "other"}
    assert "TransportBack" not in str(world.settle())
    assert world.group().transport == "ring", "neither time nor a restart makes results right"
    another_system(world)
    world.settle()
    again(world)
    assert world.group().transport == "jaccl"
    assert proves(world)


def test_without_another_transport_nothing_is_served() -> None:
    world = two_macs(transport=["jaccl"])
    world.end_rank(world.group().rank_ids[1], code=ExitCode.WRONG_RESULT)
    decided = world.settle()
    assert world.group().epoch == 1
    (refusal,) = decided.refused
    assert "82 (WrongResult)" in refusal.text
    assert not world.done(AllocateEpoch)[1:]
