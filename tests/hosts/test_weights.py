"""Three machines and a hub that one of them alone can reach: weights come once, and move on to another commit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.fetcher.hub import COMMIT, REPO, Fault, Hub, folder, serving

from .conftest import DEPLOYMENT, over
from .model import write_model
from .network import Network
from .test_three_hosts import ask, group, ranks

GOOD, ROTTEN, UNUSABLE = "900d" + "2" * 36, "2077e4" + "3" * 34, "bad0" + "4" * 36
MODEL = f"""apiVersion: reconciler/v1alpha1
kind: Model
metadata:
  name: tiny
spec:
  source:
    huggingface:
      repo: {REPO}
      revision: {COMMIT}
"""
SHARD = "model.safetensors"


@pytest.fixture(scope="module")
def hub(hosts: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub to which ``host-b`` alone has a way."""
    place = tmp_path_factory.mktemp("hub") / "tiny"
    write_model(place)
    files = folder(place)
    with serving(files, hosts.address_for("host-b")) as made:
        for commit in (GOOD, ROTTEN):
            made.add({**files, "chat_template.jinja": b"{{ messages[0].content }}"}, commit=commit)
        config = {**json.loads(files["config.json"]), "rope_theta": "10000"}  # found by the first computation
        made.add({**files, "config.json": json.dumps(config).encode()}, commit=UNUSABLE)
        yield made


@pytest.fixture(scope="module")
def cluster(hosts: Network, hub: Hub) -> Iterator[Cluster]:
    with over(hosts, (MODEL, DEPLOYMENT), HF_ENDPOINT=hub.endpoint) as made:
        yield made


def condition(cluster: Cluster, kind: str = "Ready") -> dict[str, Any]:
    item = cluster.json("get", "model", "tiny")
    return dict(next(each for each in item["status"]["conditions"] if each["type"] == kind))


def weights(hosts: Network, commit: str) -> list[Path]:
    """The folders of the hosts that have all weights of a commit."""
    return [path for host in hosts.hosts for path in host.root.glob(f"models/hub/*/{commit}")]


def test_weights_come_from_the_hub_once_and_go_on_from_host_to_host(
    cluster: Cluster, hosts: Network, hub: Hub
) -> None:
    assert group(cluster)["nodes"] == ["host-a", "host-b", "host-c"]
    assert ask(cluster) == 8
    assert set(hub.asked.values()) == {1}
    files = {name: hub.files[REPO, COMMIT][name] for name in hub.asked if name != "tree"}
    for place in weights(hosts, COMMIT):
        assert {path.name: path.read_bytes() for path in place.iterdir() if path.name[0] != "."} == files
    assert len(weights(hosts, COMMIT)) == 3
    assert condition(cluster)["reason"] == "WeightsVerified"
    assert cluster.run("model", "verify", "tiny").stdout.count("verified") == 3 * len(files)


def test_the_old_weights_serve_until_the_new_ones_are_verified_everywhere(
    cluster: Cluster, hosts: Network, hub: Hub
) -> None:
    before = ranks(cluster)
    hub.asked.clear()
    hub.faults[SHARD] = Fault(bytes_per_second=200_000)
    cluster.run("model", "update", "tiny", "--revision", GOOD)
    cluster.wait("it to be fetched", lambda: condition(cluster)["reason"] in ("Fetching", "FetchingSlowly"))
    while len(weights(hosts, GOOD)) < 3:
        assert (ask(cluster), ranks(cluster)) == (8, before)
    cluster.wait("the new group", lambda: group(cluster)["epoch"] == 2 and group(cluster)["ready"])
    cluster.wait_settled()
    assert ask(cluster) == 8
    assert hub.asked[SHARD] == 1
    (moved,) = [event["message"] for event in cluster.events() if "weights moved" in event["message"]]
    assert f"from {REPO} at {COMMIT[:10]} to {REPO} at {GOOD[:10]}, not served for" in moved


def test_weights_that_never_come_whole_change_nothing(cluster: Cluster, hosts: Network, hub: Hub) -> None:
    before = ranks(cluster)
    hub.faults[SHARD] = Fault(wrong=True)
    cluster.run("model", "update", "tiny", "--revision", ROTTEN)
    cluster.wait("it to be told", lambda: condition(cluster)["reason"] == "FetchCorrupted")
    assert (ask(cluster), ranks(cluster)) == (8, before)
    assert weights(hosts, ROTTEN) == []
    hub.faults.clear()


def test_weights_with_which_no_rank_comes_up_give_way_to_those_before(
    cluster: Cluster, hosts: Network, hub: Hub
) -> None:
    cluster.run("model", "update", "tiny", "--revision", UNUSABLE)
    cluster.wait("the old weights again", lambda: "RevisionSetBack" in cluster.run("events").stdout)
    cluster.wait("it to be served", lambda: group(cluster)["ready"])
    assert ask(cluster) == 8
    assert condition(cluster, "Stalled")["reason"] == "RevisionSetBack"
    assert f"{REPO} at {GOOD[:10]} is served instead" in condition(cluster, "Stalled")["message"]
    cluster.run("model", "update", "tiny", "--revision", GOOD)
    cluster.wait_settled()
