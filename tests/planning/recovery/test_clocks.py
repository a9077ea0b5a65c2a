"""Clocks differ between machines, and are set: no decision hangs on what one of them says."""

from __future__ import annotations

from dataclasses import replace

from reconciler.planning.recovery.back_off import SHORT_LIVES_FREE
from reconciler.state import AllocateEpoch, NodeName, StartAgent, StepFailure, WaitingFor
from reconciler.wire.launch import Exit, RankId
from tests.worlds import settled, two_nodes


def test_a_step_that_failed_before_the_clock_was_set_back_is_tried_again() -> None:
    world = two_nodes()
    step = StartAgent(NodeName("node-a"))
    world.failures[step.key] = StepFailure(3, world.now + 7200, "no route to host")
    assert step in world.plan().steps


def test_a_node_whose_clock_is_ahead_gets_no_shorter_back_off() -> None:
    world = settled(two_nodes())
    for epoch in range(1, SHORT_LIVES_FREE + 2):
        world.end_rank(RankId("tiny", 0, epoch, 0), signal=9)
        world.settle()
    rank = RankId("tiny", 0, SHORT_LIVES_FREE + 2, 0)
    world.end_rank(rank, signal=9)
    place, report = world.ranks[rank]
    world.ranks[rank] = (place, replace(report, exit=Exit(None, 9, world.now + 86_400)))
    decided = world.plan()
    assert [step for step in decided.steps if isinstance(step, AllocateEpoch)] == []
    assert WaitingFor.BACK_OFF in [w.reason for w in decided.waiting]
