"""The facts that a group was formed under: what is known, and what has changed since."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.planning.context import attempt_facts
from reconciler.state import PortFacts
from reconciler.state.formed_under import NO_FACTS, Facts
from tests.planning.macs import A, B, learn, learn_of_port, two_macs
from tests.worlds import World, settled, two_nodes


def facts(world: World) -> dict[str, str]:
    """Those of node-a, by their names without it; what is the same for every test is left out."""
    found = attempt_facts.current_facts(world.seen(), (A,), "tiny", "1/1")
    assert found.pop(attempt_facts.MANIFESTS) == "1/1"
    return {str(fact).removeprefix("node-a").strip(): value for fact, value in found.items()}


def test_everything_that_may_explain_an_end_is_known_of_a_mac() -> None:
    found = facts(two_macs())
    assert len(found.pop("weights")) == 8
    assert found == {
        "boot": "boot",
        "macOS": "26.3",
        "JACCL": "yes",
        "RDMA": "yes",
        "RDMA tools": "yes",
        "local network": "yes",
        "memory": str(64 * 2**30),
        "memory of the GPU": str(48 * 2**30),
        "mlx": "0.32.4",
        "mlx-lm": "0.32.2",
        "llguidance": "1.9.1",
        "/3 cable": "yes",
        "/3 peer": "node-b/4",
        "/3 Gb/s": "80",
        "/3 link": "yes",
        "/3 RDMA port": "yes",
        "/3 bridge": "no",
        "/3 address": "10.77.0.1",
        "/3 GID": "yes",
        "/3 GID index": "1",
    }


def test_what_no_probe_has_told_is_left_out() -> None:
    world = settled(two_nodes())
    assert facts(world).keys() == {"boot", "memory", "mlx", "mlx-lm", "llguidance", "weights"}
    world = two_macs()
    learn(world, A, ports=(PortFacts(3),))
    assert [name for name in facts(world) if name.startswith("/")] == []
    world.says["tiny"] = {"examining": True}
    assert "weights" not in facts(world)


def test_no_address_is_a_fact_and_an_unknown_one_is_none() -> None:
    world = two_macs()
    learn_of_port(world, A, address="")
    assert facts(world)["/3 address"] == "none"
    learn_of_port(world, A, address=None)
    assert "/3 address" not in facts(world)


@pytest.mark.parametrize(
    "changed", [{"weights_bytes": 7}, {"config": {"num_hidden_layers": 5}}, {"problem": "cut short"}]
)
def test_other_weights_are_another_fact(changed: dict[str, Any]) -> None:
    world = two_macs()
    before = facts(world)["weights"]
    report = world.observed().nodes[A].model("tiny")
    assert report is not None
    world.reports["node-a"] = {"models": (replace(report, **changed),)}
    assert facts(world)["weights"] != before


def test_of_a_node_without_an_agent_the_boot_that_its_probes_tell_is_known() -> None:
    world = two_macs()
    world.agents.discard(A)
    seen = world.observed().nodes[A]
    world.lost[A] = replace(seen, facts=replace(world.facts[A], boot_id="another-boot"))
    assert facts(world)["boot"] == "another-"
    assert "memory" not in facts(world)


def test_a_cable_joined_two_nodes_if_each_end_led_to_the_other_and_had_an_address() -> None:
    world = two_macs()

    def carried() -> bool:
        found = attempt_facts.current_facts(world.seen(), (A, B), "tiny", "1/1")
        return attempt_facts.carried(Facts.of(found), A, B)

    assert carried()
    learn_of_port(world, A, address=None)
    assert not carried()
    learn_of_port(world, A, address="10.77.0.1")
    learn_of_port(world, B, address="")
    assert not carried()
    learn_of_port(world, B, address="10.77.0.2", peer=None)
    assert not carried()
    assert not attempt_facts.carried(NO_FACTS, A, B)
