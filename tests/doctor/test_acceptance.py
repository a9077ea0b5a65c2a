"""The checklist after bring-up: figures are judged against each other, and what was not measured is no pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.doctor.acceptance import Check, Stream, Trial, Work, judge
from reconciler.state import NodeName
from reconciler.wire.measuring import LinkPace, Measured, RankPace

NODES = tuple(NodeName(f"studio-{number}") for number in (1, 2, 3))
GIB = 2**30
PACE = Measured(
    "measure",
    tuple(RankPace(0.010, 40 * GIB) for _ in NODES),
    4096,
    2**22,
    40e-6,
    1e-3,
    tuple(LinkPace(pair, 20e-6, 0.6e-3) for pair in ((0, 1), (1, 2), (0, 2))),
    summed_bytes=2**22,
)
TRIAL = Trial(
    NODES,
    (50 * GIB,) * 3,
    PACE,
    works={rank: Work(64, 1.1) for rank in range(3)},
    streams=(Stream(1, 20.0), Stream(2, 34.0), Stream(4, 55.0)),
)


def checks(trial: Trial, smaller: dict[int, float] | None = None) -> dict[str, Check]:
    return {each.name: each for each in judge(trial, smaller or {})}


def pace(**changes: Any) -> Trial:
    return replace(TRIAL, pace=replace(PACE, **changes))


def test_a_group_that_is_well_passes_everything_that_could_be_measured() -> None:
    assert {each.ok for each in judge(TRIAL, {1: 10.0, 2: 16.0})} == {True}
    text = checks(TRIAL, {1: 10.0})["more nodes are faster"].text
    assert text == "1 node 10.0 tokens/s, 3 nodes 20.0 tokens/s"


def links(at: int, **slow: Any) -> Trial:
    changed = tuple(replace(link, **slow) if n == at else link for n, link in enumerate(PACE.links))
    return pace(links=changed)


@pytest.mark.parametrize(
    ("trial", "name", "blame"),
    [
        (links(1, large_seconds=6e-3), "bandwidth of links", ("studio-2 - studio-3",)),
        (links(2, small_seconds=5e-3), "latency of links", ("studio-1 - studio-3",)),
        (
            pace(ranks=(*PACE.ranks[:2], RankPace(0.030, 40 * GIB))),
            "every node is as fast as the others",
            ("studio-3",),
        ),
        (pace(ranks=(RankPace(0.010, 60 * GIB), *PACE.ranks[1:])), "memory is even", ("studio-1",)),
        (replace(TRIAL, works={**TRIAL.works, 1: Work(0, 1.0)}), "every rank works", ("studio-2",)),
        (replace(TRIAL, streams=(Stream(1, 20.0), Stream(2, 0.0, 2))), "answers", ()),
    ],
)
def test_what_is_slow_is_named_and_nothing_else_fails(
    trial: Trial, name: str, blame: tuple[str, ...]
) -> None:
    found = checks(trial)
    assert [each for each, check in found.items() if check.ok is False] == [name]
    assert found[name].blame == blame


def test_a_group_that_is_no_faster_than_a_smaller_one_fails() -> None:
    assert checks(TRIAL, {2: 21.0})["more nodes are faster"].ok is False
    assert checks(TRIAL, {4: 21.0})["more nodes are faster"].ok is None


def test_ranks_that_are_charged_differently_may_hold_different_amounts() -> None:
    uneven = pace(ranks=(RankPace(0.010, 80 * GIB), *PACE.ranks[1:]))
    assert checks(replace(uneven, charges=(100 * GIB, 50 * GIB, 50 * GIB)))["memory is even"].ok is True


def test_transfers_too_short_to_matter_are_no_fault() -> None:
    assert checks(links(0, small_seconds=90e-6))["latency of links"].ok is True


def test_what_was_not_measured_is_no_pass() -> None:
    found = judge(Trial(NODES, (0, 0, 0), None, "requests are being answered"), {})
    assert {each.ok for each in found} == {None}
    assert "requests are being answered" in found[1].text


def test_one_rank_alone_and_one_link_alone_are_reported_and_not_judged() -> None:
    alone = Trial(
        NODES[:1], (0,), Measured("m", PACE.ranks[:1]), works={0: Work(3, 1.0)}, streams=(Stream(1, 9.0),)
    )
    assert [each.ok for each in judge(alone, {})] == [True, True, None, None, None, True, None]
    pair = replace(TRIAL, nodes=NODES[:2], pace=replace(PACE, ranks=PACE.ranks[:2], links=PACE.links[:1]))
    assert checks(pair)["bandwidth of links"].ok is None
