"""The healing table, pinned: observation → class → exact steps → next step → the condition's text.

``healing_table.yaml`` has for each case what was seen to happen, what follows at once, what follows when that did
not help, what people read, and all steps until nothing is left to do where a third machine is there and all that
repairs a machine is allowed. It is read by people: after a wanted change, look at what
``UPDATE_GOLDEN=1 pytest tests/planning/diagnosis/test_healing_table.py`` makes of it, line by line.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.planning.diagnosis.rules import TABLE
from reconciler.state import FaultClass, Plan, RebootNode, Trouble
from tests.planning.macs import learn, three_macs, two_macs
from tests.worlds import World

from .healing_cases import HAPPENINGS

FILE = Path(__file__).with_name("healing_table.yaml")
PINNED: dict[str, Any] = yaml.load(FILE.read_text(), Loader=yaml.CSafeLoader) if FILE.exists() else {}
TRIES_MAX = 4
PASSES_MAX = 15
PASS_SECONDS = 20
AS_BOOTED = {"wired_excess_bytes": 0, "protection_domains": 0, "verbs_answer": True}
BACK_OFF_SECONDS = 340
"""Longer than any wait between two attempts, and shorter than a healthy life."""


def told(world: World, plan: Plan) -> dict[str, str]:
    """The conditions that people read, of whatever is not well."""
    found = world.statuses(plan)
    return {
        f"{key} {condition.type}": f"{condition.reason}: {condition.told}"
        for key, state in sorted(found.items())
        for condition in state.conditions
        if condition.status and condition.type in ("Stalled", "Quarantined")
    }


def seen(plan: Plan, fault: str) -> Trouble:
    return next(trouble for trouble in plan.troubles if trouble.fault.value == fault)


def observe(name: str) -> dict[str, Any]:
    """What follows when it happens, and what when it happens again after each forming on the same transport."""
    fault = name.split()[0]
    world = two_macs()
    HAPPENINGS[name](world)
    world.pass_time(world.now + 40)
    plan = world.plan()
    trouble = seen(plan, fault)
    found: dict[str, Any] = {
        "seen": trouble.seen,
        "remedy": trouble.doing,
        "steps": [str(step) for step in plan.steps],
        "waiting": [waiting.text for waiting in plan.waiting],
        "conditions": told(world, plan),
    }
    first, tries = trouble.doing, 0
    while trouble.doing == first and world.group().transport == "jaccl" and tries < TRIES_MAX:
        tries += 1
        world.pass_time(world.now + BACK_OFF_SECONDS)
        epoch = world.group().epoch
        world.settle()
        if world.group().epoch == epoch:
            break
        HAPPENINGS[name](world)
        world.now += BACK_OFF_SECONDS
        plan = world.plan()
        trouble = next((t for t in plan.troubles if t.fault.value == fault), trouble)
    if trouble.doing != first:
        found["next"] = {
            "after": tries,
            "remedy": trouble.doing,
            "steps": [str(step) for step in plan.steps],
            "waiting": [waiting.text for waiting in plan.waiting],
            "conditions": told(world, plan),
        }
    found["person"] = trouble.person
    found["to the end, with a third machine"] = to_the_end(name)
    return found


def to_the_end(name: str) -> list[str]:
    """Every step from when it happens, once, until none is left; a machine that is restarted gives back what it held."""
    world = three_macs()
    HAPPENINGS[name](world)
    for _ in range(PASSES_MAX):
        world.pass_time(world.now + PASS_SECONDS)
        for step in world.plan().steps:
            world.obey(step)
            if isinstance(step, RebootNode):
                learn(world, step.node, **AS_BOOTED)
    assert not world.plan().steps
    return [str(step) for step in world.history]


if os.environ.get("UPDATE_GOLDEN"):
    PINNED = {name: observe(name) for name in HAPPENINGS}
    FILE.write_text(yaml.safe_dump(PINNED, sort_keys=False, width=110, allow_unicode=True))


@pytest.mark.parametrize("name", HAPPENINGS)
def test_a_class_is_answered_as_the_table_says(name: str) -> None:
    assert observe(name) == PINNED[name]


def test_every_class_is_pinned() -> None:
    assert {name.split()[0] for name in PINNED} == {fault.value for fault in FaultClass}
    assert list(PINNED) == list(HAPPENINGS)


def test_only_these_classes_lead_to_a_restart_of_a_machine() -> None:
    restarting = {row.fault.value for row in TABLE if row.reboots}
    assert restarting == {"C6", "C7", "C10", "C11", "C13", "C18"}


def test_who_needs_a_person_is_told_the_exact_steps_and_who_does_not_is_not() -> None:
    nobody = {"C5", "C6", "C9", "C15", "C16", "C17"}
    assert {row.fault.value for row in TABLE if not row.person} == nobody | {"C8", "C10", "C12", "C18"}
    for row in TABLE:
        assert not row.person or row.then is None or row.remedy is not row.then.remedy
