"""What the controller answers of steps for a person: in a field of their own, and in the sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler import status
from reconciler.controller.admin import bodies
from reconciler.state import FaultClass, Plan, Refusal, RefusedBecause, Trouble
from reconciler.state.identity import ObjectKey
from reconciler.state.reports.status import Condition, ObjectStatus
from reconciler.state.subjects import ReplicaSubject
from reconciler.status import Snapshots
from tests.worlds import two_nodes

TINY = ObjectKey("ModelDeployment", "tiny")


def seen(*refused: Refusal, person: str = "") -> tuple[Snapshots, dict[str, Any]]:
    """A group that is dead, and the deployment's condition in what is answered of it."""
    world = two_nodes()
    replica = world.replica()
    subject, fault = ReplicaSubject(replica), FaultClass.RANK_CRASH
    troubles = (Trouble(TINY, subject, fault, "it crashed", "", person),) if person else ()
    plan = Plan(refused=refused, troubles=troubles)
    now = Snapshots(world.desired(), world.observed(), world.memory(), plan, world.now)
    return now, stalled(now, status.statuses(now, {})[TINY])


def stalled(now: Snapshots, found: ObjectStatus) -> dict[str, Any]:
    (item,) = bodies.objects(now, {TINY: found}, "ModelDeployment", "tiny")
    (condition,) = (each for each in item["status"]["conditions"] if each["type"] == "Stalled")
    return {name: condition.get(name) for name in ("message", "seen", "person")}


def refusal(person: str = "") -> Refusal:
    return Refusal(TINY, RefusedBecause.RANK_REFUSES, "it refuses", person=person)


@pytest.mark.parametrize(
    ("refused", "trouble", "person"),
    [("a", "", "a"), ("", "b", "b"), ("a", "b", "a; b"), ("a", "a", "a")],
    ids=["of a refusal", "of a trouble", "of both", "the same of both"],
)
def test_steps_of_a_refusal_and_of_its_trouble_are_said_once(refused: str, trouble: str, person: str) -> None:
    _, condition = seen(refusal(refused), person=trouble)
    assert condition == {"message": f"it refuses; to do: {person}", "seen": "it refuses", "person": person}


def test_what_says_enough_has_no_steps_beside_it() -> None:
    _, condition = seen(refusal())
    assert condition == {"message": "it refuses", "seen": None, "person": None}


def test_a_plan_has_both_parts_of_a_refusal_and_its_sentence() -> None:
    now, _ = seen(refusal("a"))
    (body,) = bodies.plan_body(now.plan)["refused"]
    assert (body["text"], body["seen"], body["person"]) == ("it refuses; to do: a", "it refuses", "a")


def test_a_condition_of_an_earlier_version_is_said_as_it_was_stored() -> None:
    now, _ = seen()
    earlier = Condition("Stalled", True, "RankRefuses", "it refuses; to do: a", 5.0, 1)
    assert stalled(now, ObjectStatus((earlier,), 1))["message"] == "it refuses; to do: a"
    newer = replace(earlier, message="it refuses", person="a")
    assert stalled(now, ObjectStatus((newer,), 1))["message"] == "it refuses; to do: a"
    assert (
        status.transitions({TINY: ObjectStatus((earlier,), 1)}, {TINY: ObjectStatus((newer,), 1)}, now) == []
    )
