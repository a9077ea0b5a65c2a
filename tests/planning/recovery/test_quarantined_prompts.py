"""What is said of a prompt that the gateway refuses because it ended groups."""

from __future__ import annotations

from reconciler.planning.recovery.quarantined_prompts import REPORTED_SECONDS
from reconciler.state import FaultClass, FreeTransport, ObjectKey, Trouble, subjects
from reconciler.wire.launch import RankId
from reconciler.wire.prompts import EndedGroup, QuarantinedPrompt
from tests.planning.macs import two_macs
from tests.worlds import World, deployment, model, node, settled


def served(*epochs: int, code: int = 1) -> World:
    """Groups of these epochs ended, and another one serves."""
    world = settled(World([node("node-a"), model(), deployment(nodes=1)]))
    for epoch in epochs:
        world.now += 100
        world.end_rank(RankId("tiny", 0, epoch, 0), code=code)
        world.settle()
    return world


def refuse(world: World, *epochs: int, model: str = "tiny", request: str = "req-7") -> None:
    ended = tuple(EndedGroup(0, epoch) for epoch in epochs)
    shape = "2 messages, 812 bytes"
    world.quarantined = (QuarantinedPrompt(model, "0a", request, shape, ended, world.now, world.now + 3600),)


def test_it_is_told_with_its_request_its_size_and_the_groups_that_it_ended() -> None:
    world = served(1, 2)
    refuse(world, 1, 2)
    assert world.plan().troubles == (
        Trouble(
            ObjectKey("ModelDeployment", "tiny"),
            subjects.read("request/req-7"),
            FaultClass.RANK_CRASH,
            "request req-7 (2 messages, 812 bytes) ended epoch 1 of tiny/0 and epoch 2 of tiny/0",
            "its prompt is refused until 01:20:00 UTC; other requests go on",
        ),
    )
    assert world.settle().steps == (), "there is nothing to be done about it"


def test_the_class_is_that_of_the_last_groups_end() -> None:
    world = served(1, 2, code=74)
    refuse(world, 1, 2)
    (trouble,) = world.plan().troubles
    assert trouble.fault is FaultClass.GPU_FAULT


def test_it_is_told_for_a_minute_and_of_models_that_there_are() -> None:
    world = served(1)
    refuse(world, 1)
    world.now += REPORTED_SECONDS - 1
    assert len(world.plan().troubles) == 1
    world.now += 1
    assert world.plan().troubles == ()
    refuse(world, 1, model="gone")
    assert world.plan().troubles == ()


def test_a_transport_that_was_given_up_for_such_a_group_is_allowed_again() -> None:
    world = settled(two_macs())
    before = world.group()
    for epoch in (1, 2, 3, 4):
        world.now += 100
        world.end_rank(RankId("tiny", 0, epoch, 0), code=1)
        world.settle()
    (failure,) = world.transport_failures[world.replica()]
    assert failure.transport == before.transport
    refuse(world, 3)
    assert not any(isinstance(step, FreeTransport) for step in world.plan().steps), "another one's end"
    refuse(world, 4)
    (step,) = world.plan().steps
    assert step == FreeTransport(world.replica(), before.transport, "a request had ended epoch 4 on it")
