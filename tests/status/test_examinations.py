"""What is said of a Model where a node's runtime was asked what it can do with its weights, and gave no answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.cli.output.kind_columns import state
from reconciler.doctor import examine
from reconciler.state import Observed
from reconciler.state.identity import ObjectKey
from reconciler.status import Snapshots, statuses
from reconciler.status.events import transitions
from reconciler.wire.weights import FailedExamination, RankShare
from tests.worlds import World, deployment, model, node, settled
from tests.zones import ZONES, in_zone

KEY = ObjectKey("Model", "tiny")
ONCE = FailedExamination("it took longer than 120 s", 1, since=3600.0, again=3630.0)
OFTEN = FailedExamination("its process was ended by signal 9 (SIGKILL)", 4, since=3600.0, again=4200.0)
TEXT_ONCE = (
    "node-a: the examination of its weights failed at 01:00:00 UTC: it took longer than 120 s;"
    " the next one is at 01:00:30 UTC"
)
TEXT_OFTEN = (
    "node-a: the examination of its weights has failed 4 times since 01:00:00 UTC, the last time: its process was"
    " ended by signal 9 (SIGKILL); the next one is at 01:10:00 UTC"
)


def snapshots(**says: Any) -> Snapshots:
    """Of two nodes with the same weights, of which node-a says this."""
    world = settled(World([node("node-a"), node("node-b"), model(), deployment(nodes=1)]))
    observed = world.observed()
    seen = observed.nodes
    nodes = dict(seen)
    for name, known in seen.items():
        assert known.report is not None
        (report,) = known.report.models
        changed = replace(report, **says) if name == "node-a" else replace(report, shares={})
        nodes[name] = replace(known, report=replace(known.report, models=(changed,)))
    return Snapshots(world.desired(), Observed(nodes), world.memory(), world.plan(), world.now)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(("failure", "text"), [(ONCE, TEXT_ONCE), (OFTEN, TEXT_OFTEN)], ids=["once", "often"])
def test_a_failed_examination_is_a_condition_with_its_reason_its_time_and_the_next(
    failure: FailedExamination, text: str, zone: str
) -> None:
    with in_zone(zone):
        found = statuses(snapshots(shares={}, examination=failure), {})[KEY]
    condition = found.condition("ExaminationFailed")
    assert condition is not None
    assert (condition.status, condition.reason) == (True, "ExaminationFailed")
    assert condition.message == f"{text}; what its ranks need is guessed until then"
    ready = found.condition("Ready")
    assert ready is not None
    assert ready.status, "its weights can be used meanwhile"
    assert found.extra["memory"] == "guessed"
    assert found.extra["failedExaminations"]["node-a"]["reason"] == failure.text
    assert found.extra["failedExaminations"]["node-a"]["since"] == "1970-01-01T01:00:00Z"


def test_what_another_node_knows_is_known() -> None:
    known = snapshots()
    reports = {name: seen.report for name, seen in known.observed.nodes.items()}
    nodes = dict(known.observed.nodes)
    report = reports[next(iter(nodes))]
    assert report is not None
    (weights,) = report.models
    failed = replace(weights, shares={}, examination=ONCE)
    for name, told in (("node-a", failed), ("node-b", weights)):
        key = next(each for each in nodes if each == name)
        seen = reports[key]
        assert seen is not None
        nodes[key] = replace(nodes[key], report=replace(seen, models=(told,)))
    found = statuses(replace(known, observed=Observed(nodes)), {})[KEY]
    condition = found.condition("ExaminationFailed")
    assert condition is not None
    assert condition.message == f"{TEXT_ONCE}; what its ranks need is known from node-b"
    assert found.extra["memory"] == "computed"


@pytest.mark.parametrize(
    ("says", "basis"),
    [
        ({}, "computed"),
        ({"shares": {}}, "guessed"),
        ({"shares": {"tensor/1": (RankShare(1),)}}, "guessed"),
        ({"present": False, "shares": {}}, "guessed"),
    ],
    ids=["told", "not told", "the code cannot tell", "elsewhere"],
)
def test_the_status_says_how_it_is_known_what_ranks_need(says: dict[str, Any], basis: str) -> None:
    found = statuses(snapshots(**says), {})[KEY]
    assert found.extra["memory"] == basis
    assert found.extra["failedExaminations"] == {}
    condition = found.condition("ExaminationFailed")
    assert condition is not None
    assert not condition.status


def test_its_begin_and_its_end_are_events_and_no_attempt_between_is() -> None:
    well, once, often = snapshots(), snapshots(examination=ONCE), snapshots(examination=OFTEN)
    before = statuses(well, {})
    failed = statuses(once, before)
    again = statuses(often, failed)
    assert [(e.reason, e.warning) for e in transitions(before, failed, once)] == [("ExaminationFailed", True)]
    assert transitions(failed, again, often) == []
    assert [(e.reason, e.warning) for e in transitions(again, statuses(well, again), well)] == [
        ("NoneFailed", False)
    ]


def test_get_says_that_a_model_is_ready_but_unexamined() -> None:
    found = statuses(snapshots(shares={}, examination=ONCE), {})[KEY]
    conditions = [
        {"type": each.type, "status": str(each.status), "reason": each.reason, "message": each.message}
        for each in found.conditions
    ]
    item: Any = {"kind": "Model", "metadata": {"name": "tiny"}, "status": {"conditions": conditions}}
    assert state(item) == f"Ready, but {TEXT_ONCE}; what its ranks need is guessed until then"


def test_the_doctor_finds_it_and_leaves_it_to_the_controller() -> None:
    (finding,) = examine(snapshots(shares={}, examination=ONCE)).findings
    assert (finding.objects, finding.nodes, finding.person) == ((KEY,), ("node-a",), False)
    assert finding.seen.startswith(TEXT_ONCE)
    assert finding.title == "ExaminationFailed"
