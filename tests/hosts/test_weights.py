"""Three machines and a hub that one of them alone can reach: weights come once, and move on to another commit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.fetcher.hub import COMMIT, REPO, Fault, Hub, folder, serving
from tests.runner.model.architectures import write_architecture

from .conftest import DEPLOYMENT, over
from .model import write_model
from .network import Network
from .test_three_hosts import ask, client, group, ranks

pytestmark = pytest.mark.timeout(400)  # three agents, a fetch and two copies come before the first test
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
STAGED = f"""apiVersion: reconciler/v1alpha1
kind: Model
metadata: {{name: staged}}
spec:
  source: {{huggingface: {{repo: org/staged, revision: {COMMIT}}}}}
---
apiVersion: reconciler/v1alpha1
kind: ModelDeployment
metadata: {{name: staged}}
spec:
  model: staged
  parallelism: {{strategy: pipeline, nodes: 3}}
  serving: {{context: 64, maxBatch: 1}}
"""
SHARD = "model.safetensors"
FETCHES = ("Fetching", "FetchingSlowly", "DiskFull")
ROOM = "3g"


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
    hosts.hosts[2].disk(disk(hosts), ROOM)
    with over(hosts, (MODEL, DEPLOYMENT), HF_ENDPOINT=hub.endpoint) as made:
        yield made


def held(hosts: Network) -> list[set[str]]:
    """Of the weight files of the staged model, which each host has with their content."""
    return [
        {each.name for each in host.seen(host.root).glob("models/hub/org--staged/*/model*") if full(each)}
        for host in hosts.hosts
    ]


def full(path: Path) -> bool:
    return path.suffix == ".safetensors" and path.read_bytes()[-64:] != bytes(64)


def complete(cluster: Cluster) -> str:
    """What the staged model says."""
    answer = client(cluster).completions.create(model="staged", prompt="hello", max_tokens=12, temperature=0)
    return answer.choices[0].text


def disk(hosts: Network) -> Path:
    """Where ``host-c`` has a disk for its weights."""
    return hosts.hosts[2].root / "models"


def condition(cluster: Cluster, kind: str = "Ready", of: str = "model/tiny") -> dict[str, Any]:
    item = cluster.json("get", of)
    return dict(next(each for each in item["status"]["conditions"] if each["type"] == kind))


def weights(hosts: Network, commit: str) -> list[Path]:
    """The folders of the hosts that have all weights of a commit."""
    return [path for host in hosts.hosts for path in host.seen(host.root).glob(f"models/hub/*/{commit}")]


def test_weights_come_from_the_hub_once_and_go_on_from_host_to_host(
    cluster: Cluster, hosts: Network, hub: Hub
) -> None:
    assert group(cluster)["nodes"] == ["host-a", "host-b", "host-c"]
    assert ask(cluster) == 8
    assert set(hub.requests.values()) == {1}
    files = {name: hub.files[REPO, COMMIT][name] for name in hub.requests if name != "tree"}
    for place in weights(hosts, COMMIT):
        assert {path.name: path.read_bytes() for path in place.iterdir() if path.name[0] != "."} == files
    assert len(weights(hosts, COMMIT)) == 3
    assert condition(cluster)["reason"] == "WeightsVerified"
    assert cluster.run("model", "verify", "tiny").stdout.count("verified") == 3 * len(files)


def test_the_old_weights_serve_until_the_new_ones_are_verified_everywhere(
    cluster: Cluster, hosts: Network, hub: Hub
) -> None:
    """The disk of one of them is full at first."""
    before = ranks(cluster)
    hosts.hosts[2].disk(disk(hosts), "4m")
    hub.requests.clear()
    hub.faults[SHARD] = Fault(bytes_per_second=200_000)
    cluster.run("model", "update", "tiny", "--revision", GOOD)
    cluster.wait("it to be fetched", lambda: condition(cluster)["reason"] in FETCHES)
    while len(weights(hosts, GOOD)) < 2 or condition(cluster)["reason"] != "DiskFull":
        assert (ask(cluster), ranks(cluster)) == (8, before), cluster.diagnostics()
    assert "are still to be fetched, and 1.1 GB must stay free" in condition(cluster)["message"]
    assert condition(cluster, "DiskPressure", "node/host-c")["reason"] == "DiskLow"
    hosts.hosts[2].disk(disk(hosts), ROOM)
    cluster.wait("the new group", lambda: group(cluster)["epoch"] == 2 and group(cluster)["ready"])
    cluster.wait_settled()
    assert ask(cluster) == 8
    assert hub.requests[SHARD] == 1
    (moved,) = [event["message"] for event in cluster.events() if "weights moved" in event["message"]]
    assert f"from {REPO} at {COMMIT[:10]} to {REPO} at {GOOD[:10]}, not served for" in moved


def test_weights_that_never_arrive_completely_change_nothing(
    cluster: Cluster, hosts: Network, hub: Hub
) -> None:
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
    moved = f"{REPO} at {GOOD[:10]} → {REPO} at {UNUSABLE[:10]}"
    assert moved in condition(cluster, "Stalled")["message"]
    cluster.run("model", "update", "tiny", "--revision", GOOD)
    cluster.wait_settled()


def test_each_host_has_what_its_rank_reads_and_gets_more_when_it_has_to_read_more(
    cluster: Cluster, hosts: Network, hub: Hub, tmp_path: Path
) -> None:
    hosts.open(hub.endpoint.removeprefix("http://").partition(":")[0])
    (tmp_path / "model").mkdir()
    write_architecture(tmp_path / "model", "qwen2", max_position_embeddings=256)
    hub.add(folder(tmp_path / "model"), "org/staged")
    hub.requests.clear()
    (tmp_path / "staged.yaml").write_text(STAGED)
    cluster.run("apply", "-f", str(tmp_path / "staged.yaml"))
    cluster.wait("it to be served", lambda: cluster.deployments()["staged"]["readyReplicas"] == 1)
    answer, parts = complete(cluster), held(hosts)
    assert [len(part) for part in parts] == [3, 2, 2], "two layers or one, and what every rank reads"
    assert {name: count for name, count in hub.requests.items() if count > 1} == {}
    status = condition(cluster, of="model/staged")
    assert status["reason"] == "WeightsVerified"
    assert cluster.run("model", "verify", "staged").stdout.count("not needed here") == 15 - 7
    (tmp_path / "staged.yaml").write_text(STAGED.replace("nodes: 3", "nodes: 2"))
    cluster.run("apply", "-f", str(tmp_path / "staged.yaml"))
    cluster.wait("two to serve it", lambda: len(cluster.deployments()["staged"]["groups"][0]["nodes"]) == 2)
    cluster.wait_settled()
    assert complete(cluster) == answer
    assert [len(part) for part in held(hosts)] == [3, 3, 2]
    assert held(hosts)[0] == parts[0], "the last layers are those of rank 0"
    assert held(hosts)[1] > parts[1]
