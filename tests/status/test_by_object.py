"""Of several parts of a plan for one object, the first counts: it is the most urgent."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import pytest

from reconciler.state import (
    FaultClass,
    NodeName,
    Plan,
    Quarantine,
    Refusal,
    RefusedBecause,
    RepairNode,
    StartAgent,
    StopAgent,
    Trouble,
    Waiting,
    WaitingFor,
)
from reconciler.state.identity import ObjectKey
from reconciler.state.subjects import LinkSubject, NodeSubject
from reconciler.status.by_object import ByObject
from tests.worlds import World

DESIRED = World([]).desired()
A, B = NodeName("node-a"), NodeName("node-b")
KEY = ObjectKey("Node", A)
OWN = Trouble(KEY, NodeSubject(A), FaultClass.PORT_CONFIGURATION, "first", "", "do this")
CABLE = replace(OWN, object=ObjectKey("Node", B), subject=LinkSubject(A, B))
WAITING = Waiting(KEY, WaitingFor.RUNTIME, "first")
REFUSAL = Refusal(KEY, RefusedBecause.RUNTIME_UNAVAILABLE, "first")
REPAIR = RepairNode(A, "1", "boot", (), "first")
KEPT_OUT = Quarantine(A, FaultClass.WIRED_MEMORY, "Leaked", "first", "restart it")


@pytest.mark.parametrize(
    ("part", "of", "first", "second", "key"),
    [
        ("steps", "steps", StopAgent(A), StartAgent(A), KEY),
        ("waiting", "waiting", WAITING, replace(WAITING, text="second"), KEY),
        ("refused", "refused", REFUSAL, replace(REFUSAL, text="second"), KEY),
        ("troubles", "troubles", OWN, replace(OWN, person="do that"), KEY),
        ("troubles", "troubles", CABLE, replace(CABLE, person="do that"), KEY),
        ("troubles", "troubles", CABLE, replace(CABLE, person="do that"), CABLE.object),
        ("waits", "waiting", WAITING, replace(WAITING, text="second"), (KEY, WAITING.reason)),
        ("refusals", "refused", REFUSAL, replace(REFUSAL, text="second"), (KEY, REFUSAL.reason)),
        ("ports", "troubles", OWN, replace(OWN, person="do that"), KEY),
        ("repairs", "steps", REPAIR, replace(REPAIR, why="second"), A),
        ("quarantined", "quarantined", KEPT_OUT, replace(KEPT_OUT, text="second"), A),
    ],
)
def test_the_first_of_several_parts_for_one_object_counts(
    part: str, of: str, first: Any, second: Any, key: Hashable
) -> None:
    parts: dict[str, Any] = {of: (first, second)}

    found = getattr(ByObject.of(DESIRED, Plan(**parts)), part)

    assert found[key] == (first.text if part in ("waits", "refusals") else first)


def test_the_first_trouble_that_needs_a_person_counts_although_others_come_before() -> None:
    alone = replace(OWN, person="")
    second = replace(OWN, person="do that")

    assert ByObject.of(DESIRED, Plan(troubles=(alone, OWN, second))).troubles == {KEY: OWN}
