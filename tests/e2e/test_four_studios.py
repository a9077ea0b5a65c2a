"""The example with four Mac Studios, on emulated ones, from the command line alone: the network is repaired, a mesh
forms and serves, a cable is pulled and a ring serves, and nothing is left behind."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from .cluster import Cluster
from .studios import studios

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]

WIDTH = 100
FORMED_SECONDS, HEALED_SECONDS = 240.0, 120.0


def serves_over(made: Cluster, transport: str) -> bool:
    """Whether all four serve, over this transport."""
    status = made.json("describe", "modeldeployment", "large")["status"]
    groups = [(len(group["nodes"]), group["transport"].split()[0]) for group in status["groups"]]
    return status["readyReplicas"] == 1 and groups == [(4, transport)]


def answered(made: Cluster) -> str:
    """By the endpoint, in words."""
    body: dict[str, Any] = {"model": "large", "messages": [{"role": "user", "content": "What is an epoch?"}]}
    request = urllib.request.Request(
        f"{made.endpoint()}/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(json.load(answer)["choices"][0]["message"]["content"])


def test_the_network_is_repaired_a_mesh_serves_and_without_a_cable_a_ring(tmp_path: Path) -> None:
    with studios(tmp_path) as made:
        made.wait("a mesh of four", lambda: serves_over(made, "jaccl"), FORMED_SECONDS)
        assert "epoch" in answered(made)
        world = json.loads(made.run("sandbox", "status", "-o", "json").stdout)
        cabled = [port for machine in world["machines"] for port in machine["ports"] if port["active"]]
        assert len([port for port in cabled if port["address"] and not port["bridged"]]) == 12
        shown = made.run("get", "nodes,fabric,deployments").stdout.splitlines()
        assert max(map(len, shown)) <= WIDTH
        assert sum("emulated" in line for line in shown) == 4

        made.run("sandbox", "unplug", "studio-1/3")
        made.wait("a ring without that cable", lambda: serves_over(made, "jaccl-ring"), HEALED_SECONDS)
        assert answered(made)
        told = made.run("incidents").stdout
        assert "studio-1/3" in told
        assert "studio-2/3" in told
