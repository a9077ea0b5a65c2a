"""What of a report makes the controller look at its whole cluster again, and what waits until it does so anyway."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from reconciler.inventory.changes import is_news
from reconciler.state import NodeObservation
from reconciler.wire.launch import Exit, Phase
from reconciler.wire.node import Gone, Load
from tests.worlds import two_nodes


def decoding() -> NodeObservation:
    """A node with a rank that answers requests."""
    world = two_nodes()
    world.settle()
    for rank in world.ranks:
        world.report(rank, steps=100, demand=2, step_tokens=1)
    return next(iter(world.observed().nodes.values()))


def with_rank(node: NodeObservation, **changed: Any) -> NodeObservation:
    assert node.report is not None
    (rank,) = node.report.ranks
    return with_report(node, ranks=(replace(rank, **changed),))


def with_report(node: NodeObservation, **changed: Any) -> NodeObservation:
    assert node.report is not None
    return replace(node, report=replace(node.report, **changed))


PROGRESS: list[dict[str, Any]] = [
    {"steps": 101},
    {"steps": 101, "demand": 0, "tokens_per_second": 30.0},
    {"step_tokens": 512},
    {"silent_seconds": 1.9},
    {"age_seconds": 5.0, "cores": 1.0, "resident_bytes": 7},
    {"idle_seconds": 60.0},
]


@pytest.mark.parametrize("changed", PROGRESS, ids=lambda changed: " ".join(changed))
def test_progress_is_no_news(changed: dict[str, Any]) -> None:
    before = decoding()
    assert not is_news(before, with_rank(before, **changed))


CHANGES: list[dict[str, Any]] = [
    {"phase": Phase.DRAINING},
    {"phase": Phase.EXITED, "exit": Exit(1, None, 5.0)},
    {"stopped": True},
    {"silent_seconds": 2.0},
    {"loaded_bytes": 1},
    {"detail": "out of memory"},
    {"pid": 101},
    {"kept": "process 7"},
]


@pytest.mark.parametrize("changed", CHANGES, ids=lambda changed: " ".join(changed))
def test_whatever_else_a_rank_does_is_news(changed: dict[str, Any]) -> None:
    before = decoding()
    assert is_news(before, with_rank(before, **changed))


def test_a_silence_is_news_as_long_as_it_lasts_and_when_it_ends() -> None:
    silences = [with_rank(decoding(), silent_seconds=seconds) for seconds in (0.0, 1.0, 2.0, 3.0, 0.0, 1.0)]
    assert [is_news(one, next_) for one, next_ in itertools.pairwise(silences)] == [
        False, True, True, True, False,
    ]  # fmt: skip


def test_leftovers_of_ended_ranks_are_news_as_long_as_they_are_there() -> None:
    ended = with_rank(decoding(), phase=Phase.EXITED, exit=Exit(1, None, 5.0), gone=Gone.NO)
    assert is_news(ended, with_rank(ended, ended_seconds=5.0))
    gone = with_rank(ended, gone=Gone.YES)
    assert is_news(ended, gone)
    assert not is_news(gone, with_rank(gone, ended_seconds=5.0))


def test_new_and_missing_ranks_are_news() -> None:
    before = decoding()
    assert is_news(before, with_report(before, ranks=()))
    assert is_news(with_report(before, ranks=()), before)


def test_what_changes_all_the_time_on_a_machine_is_no_news_and_everything_else_is() -> None:
    before = decoding()
    assert before.report is not None
    sequence = before.report.sequence + 1
    assert not is_news(before, with_report(before, sequence=sequence, load=Load(1.0), models_free_bytes=7))
    assert not is_news(before, replace(before, skew_seconds=0.1))
    changes: list[dict[str, Any]] = [
        {"boot_id": "next"}, {"token": 9}, {"runtime": {}}, {"models": ()}, {"agent_id": "b"}
    ]  # fmt: skip
    for changed in changes:
        assert is_news(before, with_report(before, **changed))
    assert is_news(before, replace(before, link=before.link + 1))
    assert is_news(before, replace(before, silent=True))
