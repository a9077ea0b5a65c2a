"""What is said of a Model whose weights come from a hub."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.state import NodeName, Observed
from reconciler.status import Readiness
from reconciler.status.weights import disk_pressure, of_hub
from reconciler.wire.node import ModelReport
from reconciler.wire.weights import FetchPhase, FetchProblem, FetchReport, Progress, PromptReuse, hub_path
from tests.worlds import World, deployment, hub_model, node

PATH = hub_path("org/tiny", "a" * 40)
A, B = NodeName("node-a"), NodeName("node-b")


def ready_condition(*reports: ModelReport) -> tuple[bool, str, str]:
    """Ready, reason and message, where node-a and node-b say this of the weights."""
    return readiness(*reports)[:3]


def readiness(*reports: ModelReport) -> Readiness:
    world = World([node("node-a"), node("node-b"), hub_model(), deployment(nodes=2)])
    world.agents = {A, B}
    seen = dict(world.observed().nodes)
    for name, report in zip((A, B), reports, strict=True):
        known = seen[name].report
        assert known is not None
        seen[name] = replace(seen[name], report=replace(known, models=(report,)))
    return of_hub(PATH, world.desired(), Observed(seen))


def weights(verified: bool = False, progress: Progress | None = None) -> ModelReport:
    fetch = FetchReport(progress, "1/1", 1) if progress else None
    return ModelReport(PATH, f"/models/{PATH}", verified, 10**9, verified=verified, fetch=fetch)


THERE, ABSENT = weights(verified=True), weights()


def test_verified_weights_are_ready() -> None:
    assert ready_condition(THERE, THERE) == (True, "WeightsVerified", "verified on node-a, node-b")


def test_a_model_without_tools_is_ready_and_says_so() -> None:
    report = replace(THERE, tools="its chat template shows none")
    message = "verified on node-a, node-b; requests with tools are refused: its chat template shows none"
    assert ready_condition(report, report) == (True, "WeightsVerified", message)


def test_a_model_that_reads_every_prompt_anew_is_ready_and_says_so() -> None:
    report = replace(THERE, reuse=PromptReuse.NONE, reread="they are kept nowhere")
    message = "verified on node-a, node-b; every prompt is read anew: they are kept nowhere"
    assert ready_condition(report, report) == (True, "WeightsVerified", message)
    assert ready_condition(THERE, replace(report, tools="it shows none"))[2] == (
        "verified on node-a, node-b; requests with tools are refused: it shows none"
        "; every prompt is read anew: they are kept nowhere"
    )


def test_a_node_that_needs_none_does_not_matter() -> None:
    assert ready_condition(THERE, ABSENT) == (True, "WeightsVerified", "verified on node-a")


def test_of_weights_that_are_there_in_part_the_missing_part_is_reported() -> None:
    part = replace(THERE, lacking=("f1", "f2"))
    ready, *_, extra, _ = readiness(THERE, part)
    assert ready
    assert extra["nodes"]["node-b"] == "verified, without the 2 weight files that its ranks do not need"
    coming = Progress(FetchPhase.FETCHING, 10**9, 10**10, 5e6)
    assert ready_condition(THERE, replace(part, fetch=FetchReport(coming)))[1] == "Fetching"


def test_weights_that_nobody_has_are_not_ready() -> None:
    assert ready_condition(ABSENT, ABSENT) == (False, "NotFetched", "no node has fetched the weights yet")


def test_progress_is_reported_in_bytes_rate_and_time_left() -> None:
    fetching = weights(progress=Progress(FetchPhase.FETCHING, 12 * 10**9, 40 * 10**9, 80e6, "model-1"))
    assert ready_condition(THERE, fetching) == (
        False,
        "Fetching",
        "node-b: fetching, 12.0 GB of 40.0 GB (30 %), 80.0 MB/s, 6 min left",
    )


def test_a_slow_fetch_is_reported_as_slow() -> None:
    fetching = weights(progress=Progress(FetchPhase.FETCHING, 10**9, 40 * 10**9, 200e3, "model-1"))
    assert ready_condition(ABSENT, fetching) == (
        False,
        "FetchingSlowly",
        "node-b: fetching, 1.0 GB of 40.0 GB (2 %), 0.2 MB/s, 54.2 h left",
    )


@pytest.mark.parametrize("problem", FetchProblem.ALL)
def test_what_is_wrong_on_any_node_is_the_reason(problem: str) -> None:
    failed = weights(progress=Progress(FetchPhase.FAILED, problem=problem, text="it is so"))
    assert ready_condition(THERE, failed) == (False, problem, "node-b: it is so")


@pytest.mark.parametrize(
    ("free", "total", "low"),
    [(5 * 10**9, 10**12, False), (3 * 10**9, 10**12, True), (10**9, 10**10, False), (10**8, 10**10, True)],
)
def test_a_disk_that_runs_low_is_reported(free: int, total: int, low: bool) -> None:
    world = World([node("node-a")])
    world.agents = {A}
    report = world.observed().nodes[A].report
    assert report is not None
    assert disk_pressure(report)[1:3] == (False, "DiskUnknown")
    _, state, reason, *_ = disk_pressure(replace(report, models_free_bytes=free, models_total_bytes=total))
    assert (state, reason) == (low, "DiskLow" if low else "DiskHasRoom")
