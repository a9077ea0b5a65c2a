"""What the command line is told of a machine."""

from __future__ import annotations

import json

import pytest

from reconciler.hardening import nftables, pf, protection
from reconciler.planning.context.world import World as PlanningWorld
from tests.planning.macs import A, three_macs

from .test_firewall import wanted


@pytest.mark.parametrize("system", ["Darwin", "Linux"])
def test_it_is_plain_json_with_the_rules_of_the_machines_own_firewall(system: str) -> None:
    world = three_macs()
    world.system = system
    planned = PlanningWorld(world.desired(), world.observed(), world.memory(), world.now, "")
    body = json.loads(json.dumps(protection.body(planned, A, "cluster")))
    rules = (pf if system == "Darwin" else nftables).rules(wanted(world))
    assert (body["system"], body["firewall"]["rules"]) == (system, rules)
    assert body["commands"][-1] == {"argv": ["shutdown", "-r", "now"], "why": "restart it"}


def test_another_system_has_no_rules() -> None:
    world = three_macs()
    world.system = "FreeBSD"
    planned = PlanningWorld(world.desired(), world.observed(), world.memory(), world.now, "")
    assert protection.body(planned, A, "cluster")["firewall"]["rules"] == ""
