"""The example with four Mac Studios, on emulated ones, from the command line alone: the network is repaired and a mesh
forms; a cable, a machine and RDMA go and come back, and each time what is left serves, and is told of."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.cluster import Cluster

from .macs import FORMED_SECONDS, WIDTH, answered, incidents, macs, sandbox, served, tables

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def studios(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster for all tests here, which leave it as they need it next: it is formed anew to become better at most
    twice an hour."""
    with macs(tmp_path_factory.mktemp("s"), "four-studios", "--nodes", "4", "--fabric", "mesh") as made:
        tables(made)
        served(made, "large", 4, "jaccl", seconds=FORMED_SECONDS)
        yield made


def incident_summaries(made: Cluster, fault: str) -> str:
    """The summaries of all incidents of a class."""
    return "\n".join(each["summary"] for each in incidents(made) if each["class"] == fault)


def person_needed_by(made: Cluster, step: str) -> list[str]:
    """Objects of the incidents that are open and ask a person for such a step."""
    return [each["object"] for each in incidents(made) if each["open"] and step in each["person"]]


def test_the_network_is_repaired_and_a_mesh_serves(studios: Cluster) -> None:
    assert "epoch" in answered(studios, "large")
    world = json.loads(sandbox(studios, "status", "-o", "json"))
    cabled = [port for machine in world["machines"] for port in machine["ports"] if port["active"]]
    assert len([port for port in cabled if port["address"] and not port["bridged"]]) == 12
    shown = tables(studios)
    assert sum("emulated" in line for line in shown) == 4
    assert max(map(len, studios.run("get", "nodes,fabric,deployments").stdout.splitlines())) <= WIDTH
    assert "6 of 6 links are connected" in studios.run("get", "fabric", "studios").stdout
    lost = [event["message"] for event in studios.events() if event["reason"] == "NotReady"]
    assert lost == [], "no repair is a loss"


def test_without_a_cable_a_ring_serves_and_with_it_a_mesh_at_a_quiet_moment(studios: Cluster) -> None:
    sandbox(studios, "unplug", "studio-1/3")
    served(studios, "large", 4, "jaccl-ring", "ring")
    assert answered(studios, "large")
    studios.wait("the place", lambda: "nothing is plugged in at studio-" in incident_summaries(studios, "C3"))
    assert "something other than these machines" not in incident_summaries(studios, "C3")
    shown = studios.run("get", "fabric", "studios").stdout
    assert "5 of 6 links are connected" in shown
    assert max(map(len, shown.splitlines())) <= WIDTH

    sandbox(studios, "plug", "studio-1/3")
    served(studios, "large", 4, "jaccl")
    assert answered(studios, "large")


@pytest.mark.nightly
def test_while_a_machine_restarts_after_a_panic_fewer_serve_and_then_all(studios: Cluster) -> None:
    sandbox(studios, "panic", "studio-3", "60")
    served(studios, "large", range(2, 4), "jaccl")  # three cannot share the heads of every model
    assert answered(studios, "large")
    served(studios, "large", 4, "jaccl")
    assert answered(studios, "large")
    assert "studio-3 does not answer" in incident_summaries(studios, "C0")


@pytest.mark.nightly
def test_without_rdma_on_one_machine_a_ring_serves_and_recovery_is_asked_for_once(studios: Cluster) -> None:
    sandbox(studios, "rdma", "off", "studio-2")
    served(studios, "large", 4, "ring")
    assert answered(studios, "large")
    studios.wait("the incident", lambda: len(person_needed_by(studios, "rdma_ctl enable")) == 1)
    findings = json.loads(studios.run("doctor", "studio-2", "-o", "json", check=False).stdout)["findings"]
    assert [finding["class"] for finding in findings] == ["C2"]
    (finding,) = findings
    assert "studio-2" in finding["seen"]
    for step in ("startup options", "rdma_ctl enable"):
        assert step in finding["steps"]
