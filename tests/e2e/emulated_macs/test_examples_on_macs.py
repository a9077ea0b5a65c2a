"""The smaller examples with Macs, each on emulated ones and from the command line alone: the transport that suits it,
an answer, and nothing left behind; and cables that are plugged in wrongly, of which no group is ever served."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from tests.e2e.cluster import Cluster
from tests.runner.model.architectures import write_architecture

from .macs import (
    FORMED_SECONDS,
    HEALED_SECONDS,
    WIDTH,
    answered,
    epoch,
    grows_at_once,
    incidents,
    macs,
    sandbox,
    served,
    tables,
)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

SERVED = {
    "two-minis": {"chat": (2, "jaccl")},
    "mixed-thunderbolt-4": {"chat": (2, "ring"), "fast": (2, "jaccl")},
}


@pytest.mark.parametrize(
    "example", ["two-minis", pytest.param("mixed-thunderbolt-4", marks=pytest.mark.nightly)]
)
def test_an_example_is_served_over_the_best_that_all_of_its_machines_can(
    example: str, tmp_path: Path
) -> None:
    with macs(tmp_path, example) as made:
        tables(made)
        for deployment, (nodes, transport) in SERVED[example].items():
            served(made, deployment, nodes, transport, seconds=FORMED_SECONDS)
            assert answered(made, deployment)
        assert sum("emulated" in line for line in tables(made)) == len(made.json("get", "nodes")["items"])
        drawn = made.run("get", "fabric", "minis").stdout
        assert max(map(len, drawn.splitlines())) <= WIDTH
        assert drawn.count("TooSlow") == (4 if "mixed" in example else 0)


@pytest.mark.nightly
def test_a_group_leaves_rdma_for_a_hub_and_takes_it_where_its_fabric_allows_that(tmp_path: Path) -> None:
    with macs(tmp_path, "two-minis", change=grows_at_once) as made:
        served(made, "chat", 2, "jaccl", seconds=FORMED_SECONDS)
        sandbox(made, "hub", "mini-2/1")
        made.wait("the hub", lambda: "ThroughDock" in made.run("get", "fabric", "minis").stdout)
        sandbox(made, "kill", "mini-2")
        served(made, "chat", 2, "ring")
        assert answered(made, "chat")
        assert any(each["class"] == "C1" and "allowUntested" in each["person"] for each in incidents(made))

        path = tmp_path / "allowed.yaml"
        body = yaml.safe_load((tmp_path / "two-minis" / "fabric.yaml").read_text())
        body["spec"]["allowUntested"] = [list(link) for link in body["spec"]["links"]]
        path.write_text(yaml.safe_dump(body))
        made.run("apply", "-f", str(path))
        served(made, "chat", 2, "jaccl")
        assert answered(made, "chat")
        drawn = made.run("get", "fabric", "minis").stdout
        assert "1 of 1 links are connected, 1 of them not tested" in drawn
        assert "through a dock, not tested" in drawn


@pytest.mark.nightly
def test_three_machines_in_a_ring_serve_what_can_be_divided_by_three_and_two_of_them_go_on_without_a_cable(
    tmp_path: Path,
) -> None:
    own = tmp_path / "models" / "own"
    own.mkdir(parents=True)
    write_architecture(
        own, "deepseek_v3", max_position_embeddings=4096
    )  # 4 layers, and heads for two or four

    def my_weights(text: str) -> str:
        text = grows_at_once(text).replace("path: tiny ", "path: own ").replace(", ring-lan]", "]")
        return re.sub(r"^  listen: .*$", rf"\g<0>\n  hold: {HEALED_SECONDS:.0f}s", text, flags=re.MULTILINE)

    how = ("--nodes", "3", "--fabric", "ring", "--models", str(own.parent))
    with macs(tmp_path, "ring-of-three", *how, change=my_weights) as made:
        served(made, "chat", 3, "jaccl-ring", seconds=FORMED_SECONDS)
        answer = answered(made, "chat", tokens=20)
        assert answer
        sandbox(made, "unplug", "mini-2/1")
        assert answered(made, "chat", tokens=20) == answer  # asked of three, answered by two
        served(made, "chat", 2, "jaccl-ring", "ring")
        made.wait("a person to be asked", lambda: "PersonNeeded" in made.ask("events"))
        sandbox(made, "plug", "mini-2/1")
        served(made, "chat", 3, "jaccl-ring")
        assert answered(made, "chat", tokens=20) == answer
        (message,) = [event["message"] for event in made.events() if event["reason"] == "PersonNeeded"]
        assert "plug a Thunderbolt 5 cable into mini-2/1 and mini-3/2" in message


def swapped(made: Cluster) -> bool:
    """Whether the Fabric says so."""
    return "Swapped" in made.run("get", "fabric", "minis").stdout


@pytest.mark.nightly
def test_a_wrong_matrix_never_serves_and_a_swap_is_over_when_the_cabling_or_the_manifest_is_right(
    tmp_path: Path,
) -> None:
    with macs(tmp_path, "ring-of-three", "--nodes", "3", "--fabric", "ring") as made:
        served(made, "chat", 2, "jaccl-ring", seconds=FORMED_SECONDS)
        assert answered(made, "chat")
        assert "Ready" in made.run("get", "fabric").stdout
        _swap_while_a_group_is_formed(made)
        made.wait("the swap", lambda: swapped(made))
        assert "exchange the plugs at mini-1/1 and mini-1/2" in made.run("get", "fabric", "minis").stdout

        sandbox(made, "swap-cables", "mini-1/1", "mini-1/2")
        made.wait("the cabling as declared", lambda: "3 of 3" in made.run("get", "fabric", "minis").stdout)
        served(made, "chat", 2, "jaccl-ring")
        assert answered(made, "chat")

        sandbox(made, "swap-cables", "mini-1/1", "mini-1/2")
        made.wait("the swap", lambda: swapped(made))
        path = tmp_path / "as-it-is.yaml"
        path.write_text(_exchanged(tmp_path / "ring-of-three" / "fabric.yaml"))
        made.run("apply", "-f", str(path))
        made.wait("the Fabric as cabled", lambda: "3 of 3" in made.run("get", "fabric", "minis").stdout)
        served(made, "chat", 2, "jaccl-ring", "ring", "ring-lan")  # it climbs twice an hour at most
        assert answered(made, "chat")


def _swap_while_a_group_is_formed(made: Cluster) -> None:
    """The matrix of a new group is that of the cables as they were: the group is given up, by JACCL's words or because
    the swap is seen before they are said, and never serves."""
    before = epoch(made, "chat")
    sandbox(made, "kill", "mini-2")
    made.wait(
        "the ranks of the next epoch",
        lambda: len([rank for rank in made.ranks() if rank["epoch"] > before]) == 2,
        HEALED_SECONDS,
    )
    wrong = epoch(made, "chat")
    sandbox(made, "swap-cables", "mini-1/1", "mini-1/2")
    since = datetime.now(UTC)  # a group that was quick served by the matrix of before, until then
    made.wait("another epoch", lambda: epoch(made, "chat") > wrong, HEALED_SECONDS)
    proven = [event for event in made.events() if event["reason"] == "GroupProven"]
    assert proven
    later = [event["message"] for event in proven if datetime.fromisoformat(event["time"]) > since]
    assert not [text for text in later if f"epoch {wrong}," in text]


def _exchanged(fabric: Path) -> str:
    """The manifest with the two ends exchanged."""
    there = {"mini-1/1": "mini-1/2", "mini-1/2": "mini-1/1"}
    body = yaml.safe_load(fabric.read_text())
    body["spec"]["links"] = [[there.get(end, end) for end in link] for link in body["spec"]["links"]]
    return yaml.safe_dump(body)
